"""Objects of kernels, from the cache or compiled."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextvars import copy_context
from typing import Final, NamedTuple, TypeVar

from ..ir import Diagnostic, DiagnosticError
from ..target import Target
from . import cache, worker
from .claims import Claims, is_claimed_here
from .kernel_text import KernelText
from .store import environment_of
from .versions import compiler_version
from .worker_processes import Compilers

_T = TypeVar("_T")

PATIENCE: Final = 10.0
"""Longest time in seconds to wait for support code, whose largest object takes half a second on an idle processor."""

_PAUSE: Final = 0.01
"""Seconds between looks at the keys that other processes have claimed."""

_SHORTEST: Final = 1.0
"""Shortest time in seconds that compiling is taken to need: other processes may have less of the processors."""


def machine_of(target: Target) -> worker.LLVMTarget:
    """LLVM's description of the target machine."""
    return worker.LLVMTarget(target.triple, target.mcpu, target.features, target.opt_level)


def object_environment(target: Target) -> str:
    """Environment in the keys of objects for a resolved target."""
    return environment_of(*_environment(machine_of(target)))


def _environment(machine: worker.LLVMTarget) -> tuple[str, ...]:
    return (*map(str, machine), compiler_version())


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
    """Objects of all kernels. Compiling begins while later kernels are still being written.

    Objects that other processes are compiling are left to them (`claims`), and taken from the cache at the end.
    """
    build = _Build(machine_of(target), compilers.claims)
    build.compile(kernels, compilers)
    build.take_over()
    units = [CompiledObject(kernel, build.objects[key], key) for kernel, key in build.written]
    return CompiledObjects(units, len(build.compiled))


def compiled_once(key: cache.Key, label: str, compile_: Callable[[], bytes], keep: Callable[[bytes], None]) -> bytes:
    """Object that is not in the cache: compiled and kept here, unless another process is compiling it.

    Waits for that process for at most `PATIENCE` seconds.
    """
    with Claims() as claims:
        end = time.monotonic() + PATIENCE
        while not claims.take(key) and not is_claimed_here(key) and time.monotonic() < end:
            time.sleep(_PAUSE)
        data = cache.load_noted(key, label)
        if data is None:
            data = accepted(compile_)
            keep(data)
        return data


class _Build:
    """Objects of one build: found, compiled here, or compiled by other processes."""

    def __init__(self, machine: worker.LLVMTarget, claims: Claims) -> None:
        self._machine, self._claims = machine, claims
        self._environment = _environment(machine)
        self._start = time.monotonic()
        self._texts: dict[cache.Key, str] = {}
        self._labels: dict[cache.Key, str] = {}
        self._elsewhere: list[cache.Key] = []
        """Keys that other processes have claimed."""
        self.written: list[tuple[KernelText, cache.Key]] = []
        """Kernels with the keys of their objects, in the order in which they were written."""
        self.objects: dict[cache.Key, bytes] = {}
        self.compiled: list[cache.Key] = []
        """Keys of the objects compiled here."""

    def compile(self, kernels: Iterable[KernelText], compilers: Compilers) -> None:
        """Find or compile the objects of kernels, except those that other processes are compiling."""
        mine: list[cache.Key] = []
        context = copy_context()

        def missing_texts() -> Iterator[str]:
            for key, data in cache.load_each(self._wanted(kernels)):
                if data is not None:
                    self.objects[key] = data
                elif not self._claims.take(key):
                    self._elsewhere.append(key)
                elif not self._is_there(key):
                    mine.append(key)
                    yield self._texts[key]

        def finished(index: int, data: bytes) -> None:
            context.copy().run(self._store, mine[index], data)

        accepted(lambda: compilers.emit(missing_texts(), finished))

    def take_over(self) -> None:
        """Wait for the objects that other processes were compiling, and compile those that do not come.

        Waits as long as some come, and without any for twice the time that this build has taken so far.
        """
        patience = 2 * max(time.monotonic() - self._start, _SHORTEST)
        end = time.monotonic() + patience
        while self._elsewhere:
            come = [key for key in self._elsewhere if self._claims.take(key)]
            for key in come:
                self._elsewhere.remove(key)
                if not self._is_there(key):
                    self._compile(key)
            if come:
                end = time.monotonic() + patience
            elif time.monotonic() > end:
                cache.say("%s: compiled, since another process does not finish it", self._labels[self._elsewhere[0]])
                self._compile(self._elsewhere.pop(0))
            else:
                time.sleep(_PAUSE)

    def _wanted(self, kernels: Iterable[KernelText]) -> Iterator[tuple[cache.Key, str]]:
        for kernel in kernels:
            key = cache.key_of(kernel.text, *self._environment)
            self.written.append((kernel, key))
            if key not in self._texts:
                self._texts[key], self._labels[key] = kernel.text, ", ".join(kernel.names)
                yield key, self._labels[key]

    def _is_there(self, key: cache.Key) -> bool:
        """Take an object that another process has compiled meanwhile, if there is one, and release its key."""
        data = cache.load_noted(key, self._labels[key])
        if data is None:
            return False
        self.objects[key] = data
        self._claims.release(key)
        return True

    def _compile(self, key: cache.Key) -> None:
        self._store(key, accepted(lambda: worker.emit_object(self._texts[key], self._machine)))

    def _store(self, key: cache.Key, data: bytes) -> None:
        """Keep an object that was compiled here, and let other processes take it."""
        self.objects[key] = data
        self.compiled.append(key)
        cache.store(key, data)
        self._claims.release(key)


def accepted(compile_: Callable[[], _T]) -> _T:
    """Run `compile_`; if LLVM rejects the generated code, raise DiagnosticError (E5909)."""
    try:
        return compile_()
    except RecursionError:  # of what writes the code
        raise
    except RuntimeError as error:
        message = f"LLVM does not accept the code that was generated: {str(error).strip()}"
        raise DiagnosticError(Diagnostic("E5909", message, hint="this is an error of relax")) from None
