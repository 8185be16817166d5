"""Kernels that were compiled before, found by what they were before they were lowered.

The cache of objects (`cache`) finds an object by the LLVM IR it was compiled from. To lower a kernel and to write its
IR takes longer than all else of a build that finds every object. So the cache has a note for each kernel as well:

    key     the digest of the scheduled PrimFunc, names included, of the target, and of the compiler's own files
    note    the key of the object, the names of bodies of parallel loops, the messages

A kernel is remembered by itself: one that calls another or a C function, or is called by one, is lowered each time.
Nothing is recalled where the passes of the context are not the usual ones, or somebody looks on (PassContext's
instruments).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from ..ir import GlobalVar, IRModule, Node, exact_digest, walk
from ..prim import Call
from ..target import Target
from ..tir import PrimFunc
from . import cache
from .kernel_text import KernelText
from .objects import CompiledObject
from .versions import compiler_files, compiler_version, target_words, unedited, usual_passes

_EXTERN: Final = ("call_extern", "call_pure_extern")
"""Calls of C functions, whose names must not be those of functions of the module."""


class Recalled(NamedTuple):
    """The object of a kernel that was compiled before."""

    text: KernelText
    data: bytes


@dataclass(frozen=True)
class Recall:
    """The kernels of a module that were compiled before, and the keys of those that were not."""

    recalled: Mapping[str, Recalled]
    """By name, the kernels that need not be lowered."""
    keys: Mapping[str, cache.Key]
    """The keys of all the others that may be remembered."""

    def remember(self, compiled: Iterable[CompiledObject]) -> None:
        """Keep a note of each kernel that was compiled by itself, unless the compiler changed in the meantime."""
        if not unedited():
            return
        for unit in compiled:
            key = self.keys.get(unit.kernel.names[0]) if len(unit.kernel.names) == 1 else None
            if key is not None:
                cache.note(key, _note(unit))


NOTHING: Final = Recall({}, {})


class KernelMemory:
    """The kernels that were compiled before for a resolved target: of each, as soon as it is scheduled, and of all."""

    def __init__(self, target: Target) -> None:
        self._environment = _environment(target) if usual_passes() and cache.enabled() else None
        self._seen: dict[str, tuple[PrimFunc, cache.Key, Recalled | None]] = {}

    def knows(self, name: str, func: PrimFunc) -> bool:
        """True if a kernel was compiled before."""
        return self._environment is not None and self._look(name, func, self._environment)[1] is not None

    def recall(self, mod: IRModule) -> Recall:
        """The PrimFuncs of a scheduled module that were compiled before."""
        if self._environment is None:
            return NOTHING
        funcs = {g.name_hint: f for g, f in mod.functions.items() if isinstance(f, PrimFunc)}
        joined = _joined(funcs)
        known = {
            name: self._look(name, func, self._environment)
            for name, func in funcs.items()
            if name not in joined
        }
        return Recall(
            {name: recalled for name, (_, recalled) in known.items() if recalled is not None},
            {name: key for name, (key, recalled) in known.items() if recalled is None},
        )

    def _look(self, name: str, func: PrimFunc, environment: str) -> tuple[cache.Key, Recalled | None]:
        seen = self._seen.get(name)
        if seen is None or seen[0] is not func:
            key = _key(name, func, environment)
            seen = self._seen[name] = func, key, _recalled(name, key)
        return seen[1:]


def callees(func: PrimFunc) -> set[str]:
    """The names of the functions that a kernel calls; the empty name stands for C functions."""
    names: set[str] = set()

    def see(node: Node) -> None:
        if isinstance(node, GlobalVar):
            names.add(node.name_hint)
        elif isinstance(node, Call) and node.intrinsic in _EXTERN:
            names.add("")

    walk(func.body, see)
    return names


def _joined(funcs: Mapping[str, PrimFunc]) -> set[str]:
    """The functions whose code depends on others: those that call some, or a C function, and those that are called."""
    joined: set[str] = set()
    for name, func in funcs.items():
        names = callees(func)
        if names:
            joined |= {name, *names}
    return joined


def _key(name: str, func: PrimFunc, environment: str) -> cache.Key:
    return cache.key_of(f"{name}\n{exact_digest(func).hex()}", "note", environment)


def _note(unit: CompiledObject) -> bytes:
    kernel = unit.kernel
    words = [unit.key.source, unit.key.environment, kernel.bodies, kernel.messages, kernel.support]
    return json.dumps(words).encode()


def _recalled(name: str, key: cache.Key) -> Recalled | None:
    """The object of a kernel, if both the note and the object are there."""
    data = cache.noted(key)
    if data is None:
        return None
    try:
        source, environment, bodies, messages, support = json.loads(data)
        text = KernelText("", (name,), tuple(bodies), tuple(messages), support=tuple(support))
        code = cache.load_noted(cache.Key(str(source), str(environment)), name)
    except (ValueError, TypeError):  # a note of some other form
        return None
    return None if code is None else Recalled(text, code)


def _environment(target: Target) -> str | None:
    """All that decides the code of a kernel beside the kernel; None if that cannot be said."""
    files = compiler_files()
    return None if files is None else "\n".join((files, compiler_version(), target_words(target)))


__all__ = ["NOTHING", "KernelMemory", "Recall", "Recalled", "callees"]
