"""Kernels as objects: from the cache, or compiled; and the support code they share."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib.metadata import version
from typing import TypeVar

import llvmlite.binding as llvm

from ..ir import Diagnostic, DiagnosticError
from ..target import Target
from . import cache, worker
from .cells import cells_text
from .module import KernelText
from .parallel import emit_objects
from .pool import pool_text
from .support import support_text

#: part of every cache key: raise it when the passes of `worker` change
PIPELINE_VERSION = 2

_T = TypeVar("_T")


def compiler_version() -> str:
    """All that decides the machine code, beside the IR and the target, or that it must fit."""
    numbers = ".".join(map(str, llvm.llvm_version_info))
    support = hashlib.blake2b(support_text().encode(), digest_size=8).hexdigest()
    return f"pipeline {PIPELINE_VERSION}, support {support}, llvmlite {version('llvmlite')}, LLVM {numbers}"


def machine_of(target: Target) -> worker.Machine:
    """The machine of a target, for LLVM."""
    return worker.Machine(target.triple, target.mcpu, target.features, target.opt_level)


def compiled_objects(
    kernels: Sequence[KernelText], target: Target, jobs: int | None = None
) -> tuple[list[bytes], int]:
    """The object of every kernel, and how many had to be compiled; `jobs` processes compile at once."""
    machine = machine_of(target)
    environment = (*map(str, machine), compiler_version())
    wanted = {kernel.text: ", ".join(kernel.names) for kernel in kernels}
    keys = {text: cache.key_of(text, *environment) for text in wanted}
    loaded = cache.load_all({keys[text]: names for text, names in wanted.items()})
    objects = {text: loaded[key] for text, key in keys.items() if key in loaded}
    missing = [text for text in wanted if text not in objects]
    for text, data in zip(missing, accepted(lambda: emit_objects(missing, machine, jobs)), strict=True):
        objects[text] = data
        cache.store(keys[text], data)
    return [objects[kernel.text] for kernel in kernels], len(missing)


@lru_cache(maxsize=8)
def support_object(machine: worker.Machine) -> bytes:
    """The object of the support code: small, and compiled once in a process."""
    text = f'target triple = "{machine.triple}"\n{support_text()}'
    return accepted(lambda: worker.emit_object(text, machine))


@lru_cache(maxsize=8)
def pool_object(machine: worker.Machine) -> bytes:
    """The object of the thread pool: from the cache, or compiled."""
    return _shared_object("the thread pool", pool_text(machine.triple), machine)


@lru_cache(maxsize=8)
def cells_object(machine: worker.Machine) -> bytes:
    """The object of the support code of compiled Relax functions: from the cache, or compiled."""
    return _shared_object("support code of compiled functions", cells_text(), machine)


def _shared_object(name: str, code: str, machine: worker.Machine) -> bytes:
    text = f'target triple = "{machine.triple}"\n{code}'
    key = cache.key_of(text, *map(str, machine), compiler_version())
    cached = cache.load_all({key: name}).get(key)
    if cached is None:
        cached = accepted(lambda: worker.emit_object(text, machine))
        cache.store(key, cached)
    return cached


def accepted(compile_: Callable[[], _T]) -> _T:
    """The LLVM module of generated code. Raises DiagnosticError if it does not accept the code."""
    try:
        return compile_()
    except RuntimeError as error:
        message = f"LLVM does not accept the code that was generated: {str(error).strip()}"
        raise DiagnosticError(Diagnostic("E5909", message, hint="this is an error of relax")) from None
