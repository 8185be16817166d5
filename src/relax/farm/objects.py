"""Objects of kernels, from the cache or compiled."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeVar

from ..ir import Diagnostic, DiagnosticError
from ..target import Target
from . import cache, worker
from .kernel_text import KernelText
from .versions import compiler_version
from .worker_processes import Compilers

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


def accepted(compile_: Callable[[], _T]) -> _T:
    """Run `compile_`; if LLVM rejects the generated code, raise DiagnosticError (E5909)."""
    try:
        return compile_()
    except RecursionError:  # of what writes the code
        raise
    except RuntimeError as error:
        message = f"LLVM does not accept the code that was generated: {str(error).strip()}"
        raise DiagnosticError(Diagnostic("E5909", message, hint="this is an error of relax")) from None
