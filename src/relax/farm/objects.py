"""Objects of kernels, from the cache or compiled, and of their shared support code."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple, TypeVar

from ..ir import Diagnostic, DiagnosticError
from ..native.cells import cells_text, library_text
from ..native.pool import pool_text
from ..native.support import support_text
from ..target import Target
from . import cache, worker
from .kernel_text import KernelText
from .versions import compiler_version
from .worker_processes import Aside, Compilers

_T = TypeVar("_T")


def machine_of(target: Target) -> worker.LLVMTarget:
    """LLVM's description of the target machine."""
    return worker.LLVMTarget(target.triple, target.mcpu, target.features, target.opt_level)


class CompiledObject(NamedTuple):
    """A kernel with its object and the object's cache key."""

    kernel: KernelText
    data: bytes
    key: cache.Key


class CompiledObjects(NamedTuple):
    """Kernels with their objects, and the number of objects compiled now."""

    units: list[CompiledObject]
    compiled: int


def compiled_objects(kernels: Iterable[KernelText], target: Target, compilers: Compilers) -> CompiledObjects:
    """Objects of all kernels. Compiling begins while later kernels are still being written."""
    machine = machine_of(target)
    environment = (*map(str, machine), compiler_version())
    written: list[tuple[KernelText, cache.Key]] = []
    texts: dict[cache.Key, str] = {}
    objects: dict[cache.Key, bytes] = {}
    missing: list[cache.Key] = []

    def wanted() -> Iterator[tuple[cache.Key, str]]:
        for kernel in kernels:
            key = cache.key_of(kernel.text, *environment)
            written.append((kernel, key))
            if key not in texts:
                texts[key] = kernel.text
                yield key, ", ".join(kernel.names)

    def missing_texts() -> Iterator[str]:
        for key, data in cache.load_each(wanted()):
            if data is not None:
                objects[key] = data
            else:
                missing.append(key)
                yield texts[key]

    compiled = accepted(lambda: compilers.emit(missing_texts()))
    for key, data in zip(missing, compiled, strict=True):
        objects[key] = data
        cache.store(key, data)
    return CompiledObjects([CompiledObject(kernel, objects[key], key) for kernel, key in written], len(missing))


@lru_cache(maxsize=8)
def support_object(machine: worker.LLVMTarget) -> bytes:
    """Object of the support code of kernels, from the cache or compiled."""
    return _shared_object("support code of kernels", *_with_triple(support_text(), machine))


@lru_cache(maxsize=8)
def pool_object(machine: worker.LLVMTarget) -> bytes:
    """Object of the thread pool, from the cache or compiled."""
    return _shared_object("the thread pool", *_pool(machine))


@lru_cache(maxsize=8)
def cells_object(triple: str) -> bytes:
    """Object of the support code of compiled Relax functions, from the cache or compiled."""
    return _shared_object("support code of compiled functions", *_cells(triple))


@lru_cache(maxsize=8)
def library_object(triple: str) -> bytes:
    """Object of the support code of shared libraries, from the cache or compiled. That code seldom runs."""
    return _shared_object("support code of shared libraries", *_library(triple))


def _pool(machine: worker.LLVMTarget) -> Aside:
    return _with_triple(pool_text(machine.triple), machine)


def _cells(triple: str) -> Aside:
    return _with_triple(cells_text(), _any_processor(triple, 1))


def _library(triple: str) -> Aside:
    return _with_triple(library_text(), _any_processor(triple, 0))


def _with_triple(code: str, machine: worker.LLVMTarget) -> Aside:
    return f'target triple = "{machine.triple}"\n{code}', machine


def expect_kernels(compilers: Compilers, count: int, target: Target) -> None:
    """Start worker processes for `count` kernel texts, and let them compile missing support code."""
    shared = (_pool(machine_of(target)), _cells(target.triple), _library(target.triple))
    wanted = count > 0 and cache.enabled()
    compilers.expect(count, [item for item in shared if wanted and cache.noted(_shared_key(*item)) is None])


def keep_shared(compilers: Compilers) -> None:
    """Store support code compiled in the background in the cache."""
    for (text, machine), data in compilers.done_aside.items():
        if data:
            cache.store(_shared_key(text, machine), data)


def _any_processor(triple: str, opt_level: int) -> worker.LLVMTarget:
    """Machine description for code shared by all targets of a triple."""
    return worker.LLVMTarget(triple, "", "", opt_level)


def _shared_key(text: str, machine: worker.LLVMTarget) -> cache.Key:
    return cache.key_of(text, *map(str, machine), compiler_version())


def _shared_object(name: str, text: str, machine: worker.LLVMTarget) -> bytes:
    key = _shared_key(text, machine)
    cached = cache.load_all({key: name}).get(key)
    if cached is None:
        cached = accepted(lambda: worker.emit_object(text, machine))
        cache.store(key, cached)
    return cached


def accepted(compile_: Callable[[], _T]) -> _T:
    """Run `compile_`; if LLVM rejects the generated code, raise DiagnosticError (E5909)."""
    try:
        return compile_()
    except RecursionError:  # of what writes the code
        raise
    except RuntimeError as error:
        message = f"LLVM does not accept the code that was generated: {str(error).strip()}"
        raise DiagnosticError(Diagnostic("E5909", message, hint="this is an error of relax")) from None
