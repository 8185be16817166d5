"""Kernels that helper processes lower and write, while this process lowers and writes others.

Half of a build goes into lowering kernels and writing their LLVM IR, which is Python, and so takes one processor of a
process. A kernel whose code depends on no other function is lowered and written by itself, as an errand:

    this process                                      a helper (`worker.serve`)
    the kernel, its name and the target, pickled  →   its text, as JSON; nothing, if something is wrong with it

This process does again, and reports, what a helper could not do. Texts do not depend on who wrote them.
"""

from __future__ import annotations

import io
import json
import pickle
import zlib
from collections.abc import Callable, Set
from typing import Any, Final

from ..farm.kernel_contents import contents_of
from ..farm.kernel_text import KernelText
from ..farm.worker_processes import Compilers, Errand
from ..ir import DiagnosticError, IRModule
from ..runtime.collection import rarely_collected
from ..target import Target
from ..tir import PrimFunc, lower
from .module import kernel_texts

_PACKAGES: Final = ("relax", "numpy", "ml_dtypes", "builtins")
"""Packages whose classes a worker process unpickles: it imports no user module."""

_UNREADABLE: Final = (pickle.UnpicklingError, AttributeError, ImportError, LookupError, TypeError, ValueError)
"""Errors of unpickling objects known only to the sending process, such as operators it registered."""


class KernelsApart:
    """The kernels of a build that worker processes may lower and write."""

    def __init__(self, target: Target, compilers: Compilers) -> None:
        self._target, self._compilers = target, compilers
        self._errands: dict[str, tuple[PrimFunc, Errand]] = {}

    def offer(self, name: str, func: PrimFunc) -> bool:
        """Offer a kernel to worker processes. Return False if it was offered before, or calls other functions."""
        if self._errands.get(name, (None,))[0] is func or contents_of(func).callees:
            return False
        self._take_back(name)
        errand = Errand(_ordering(name, func, self._target))
        self._errands[name] = func, errand
        self._compilers.offer(errand)
        return True

    def keep(self, names: Set[str]) -> None:
        """Withdraw all kernels except `names`."""
        for name in self._errands.keys() - names:
            self._take_back(name)

    def _take_back(self, name: str) -> None:
        if name in self._errands:
            self._compilers.take_back(self._errands.pop(name)[1])

    def has_begun(self, name: str, func: PrimFunc) -> bool:
        """True if a worker has begun with a function; if False, none will."""
        offered, errand = self._errands.get(name, (None, None))
        if errand is None:
            return False
        begun = not self._compilers.take_back(errand)
        if begun and offered is func:
            return True
        del self._errands[name]
        return False

    def has_ended(self, name: str) -> bool:
        """True if the worker that has begun with a function has finished it."""
        return self._errands[name][1].answer is not None

    def text(self, name: str) -> KernelText | None:
        """Text of a function that a worker has begun with; None if it could not write it."""
        answer = self._compilers.answer(self._errands.pop(name)[1])
        return _read(answer) if answer else None


def _ordering(name: str, func: PrimFunc, target: Target) -> Callable[[], bytes]:
    """Return a function that pickles the job of lowering and writing a kernel (empty if it cannot be pickled)."""

    def order() -> bytes:
        try:
            return pickle.dumps((name, func, target, target.machine), pickle.HIGHEST_PROTOCOL)
        except (pickle.PicklingError, AttributeError, TypeError, RecursionError):
            return b""

    return order


def answer(order: bytes) -> bytes:
    """Carry out a job, for `worker`: return the kernel's text, or nothing if lowering or writing fails."""
    try:
        name, func, target, machine = _Reader(io.BytesIO(order)).load()
    except _UNREADABLE:
        return b""
    chosen = target.with_machine(machine)
    try:
        with rarely_collected():
            lowered = lower(IRModule({name: func}), chosen).functions.items()
            texts = kernel_texts({g.name_hint: f for g, f in lowered if isinstance(f, PrimFunc)}, chosen)
    except (DiagnosticError, RecursionError):
        return b""
    return _written(texts[0]) if len(texts) == 1 else b""


def _written(text: KernelText) -> bytes:
    # Compressed, a text fits into a pipe, and is read at once: between two parts, the reader may wait for its turn.
    words = (text.text, text.names, text.bodies, text.messages, text.support)
    return zlib.compress(json.dumps(words).encode(), 1)


def _read(answer: bytes) -> KernelText:
    text, names, bodies, messages, support = json.loads(zlib.decompress(answer))
    return KernelText(text, tuple(names), tuple(bodies), tuple(messages), support=tuple(support))


class _Reader(pickle.Unpickler):
    """Unpickler of jobs."""

    def find_class(self, module: str, name: str, /) -> Any:
        """Return a class of a package in `_PACKAGES`. Raises UnpicklingError for another."""
        if module.partition(".")[0] not in _PACKAGES:
            raise pickle.UnpicklingError(f"{module}.{name} is of no package of relax")
        return super().find_class(module, name)
