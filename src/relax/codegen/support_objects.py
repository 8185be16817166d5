"""Objects of the support code, from the cache or compiled.

The key of an object is made of the files of the compiler that determine it. So only the first build after a change
writes the texts, for which the scripts of the support code are read. The object is kept under the text as well: a
version of relax that writes the same text compiles nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Final

from ..farm import cache, worker
from ..farm.objects import compiled_once, machine_of
from ..farm.versions import compiler_files, compiler_version, unedited
from ..farm.worker_processes import Aside, Compilers
from ..runtime.records import dataclass
from ..runtime.rooms import ModuleWhenUsed
from ..target import Target

if TYPE_CHECKING:
    from . import support_texts as texts
else:
    texts = ModuleWhenUsed("relax.codegen.support_texts")

_SCRIPT: Final = ("script",)
"""The parser, which determines a text like the other rooms of the compiler."""


def _files() -> str | None:
    """Digest of the files that determine the texts; None if they cannot stand for them."""
    parts = compiler_files(), compiler_files(_SCRIPT)
    return None if None in parts else " ".join(map(str, parts))


@dataclass(frozen=True)
class SupportCode:
    """One object of support code."""

    name: str
    write: Callable[[str], str]
    """Writes the text for a triple, without a target triple."""
    machine: worker.LLVMTarget

    @cached_property
    def aside(self) -> Aside:
        """The text and its machine."""
        return f'target triple = "{self.machine.triple}"\n{self.write(self.machine.triple)}', self.machine

    @cached_property
    def key(self) -> cache.Key:
        """Key in the cache: of the files, or, where they cannot stand for it, of the text."""
        return self._key_of(_files() or self.aside[0])

    @cached_property
    def text_key(self) -> cache.Key:
        """Key of the text."""
        return self._key_of(self.aside[0])

    def _key_of(self, source: str) -> cache.Key:
        return cache.key_of(source, self.name, *map(str, self.machine), compiler_version())

    @cached_property
    def data(self) -> bytes:
        """The object."""
        cached = cache.load_all({self.key: self.name}).get(self.key)
        if cached is None:
            cached = compiled_once(self.key, self.name, self._compiled, self.keep)
        return cached

    def _compiled(self) -> bytes:
        """Object of the text, of another version of relax or compiled now."""
        return self.of_text() or worker.emit_object(*self.aside)

    def of_text(self) -> bytes | None:
        """Object that a version of relax has kept under the same text; None if there is none."""
        return cache.noted(self.text_key)

    def keep(self, data: bytes) -> None:
        """Store the object; under the compiler's files only if none that may have been read for it was edited since."""
        cache.note(self.text_key, data)
        if _files() is None or (unedited() and unedited(_SCRIPT)):
            cache.store(self.key, data)


@lru_cache(maxsize=8)
def kernel_support(machine: worker.LLVMTarget) -> SupportCode:
    """Support code of kernels."""
    return SupportCode("support code of kernels", lambda triple: texts.support_text(triple), machine)


@lru_cache(maxsize=8)
def thread_pool(machine: worker.LLVMTarget) -> SupportCode:
    """The thread pool."""
    return SupportCode("the thread pool", lambda triple: texts.pool_text(triple), machine)


@lru_cache(maxsize=8)
def cell_support(machine: worker.LLVMTarget) -> SupportCode:
    """Support code of compiled Relax functions."""
    machine = machine._replace(opt_level=1)
    return SupportCode("support code of compiled functions", lambda triple: texts.cells_text(triple), machine)


@lru_cache(maxsize=8)
def library_support(machine: worker.LLVMTarget) -> SupportCode:
    """Support code of shared libraries, which seldom runs."""
    machine = machine._replace(opt_level=0)
    return SupportCode("support code of shared libraries", lambda triple: texts.library_text(triple), machine)


def any_processor(target: Target) -> worker.LLVMTarget:
    """Machine description for code shared by all targets of a triple whose functions call each other."""
    if target.isa.abi_by_features:
        return machine_of(target)
    return worker.LLVMTarget(target.triple, "", "", 0)


def _shared(target: Target) -> tuple[SupportCode, ...]:
    """Support code that may be needed, and that worker processes compile."""
    machine = any_processor(target)
    return thread_pool(machine_of(target)), cell_support(machine), library_support(machine)


def support_environments(target: Target) -> set[str]:
    """Environments in the keys of the support code for a resolved target."""
    return {code.key.environment for code in (kernel_support(machine_of(target)), *_shared(target))}


def expect_kernels(compilers: Compilers, count: int, target: Target) -> None:
    """Start worker processes for `count` kernel texts, and let them compile missing support code."""
    wanted = _shared(target) if compilers.helpers(count) > 0 and cache.enabled() else ()
    missing: list[SupportCode] = []
    for code in wanted:
        if cache.noted(code.key) is None and compilers.claims.take(code.key):
            data = code.of_text()
            if data is None:
                missing.append(code)
            else:
                code.keep(data)
                compilers.claims.release(code.key)
    compilers.expect(count, [code.aside for code in missing])


def keep_shared(compilers: Compilers, target: Target) -> None:
    """Store support code compiled in the background in the cache."""
    done = compilers.done_aside
    for code in _shared(target) if done else ():
        data = done.get(code.aside)
        if data:
            code.keep(data)
            compilers.claims.release(code.key)
