"""Compiled kernels in the cache, found by their form before lowering.

The cache of objects (`cache`) finds an object by its LLVM IR. Lowering a kernel and writing its IR takes longer than
the rest of a build that finds all objects. Therefore the cache has a note for each kernel as well:

    key     digest of the scheduled PrimFunc, names included, of the target, and of the compiler's own files
    note    the object's key, the names of bodies of parallel loops, the messages

Only independent kernels have notes: a kernel that calls another kernel or a C function, or is called by a kernel, is
lowered each time. Nothing is recalled if the context's passes are not the default ones, or if it has instruments that
observe passes (PassContext).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
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
"""Intrinsics that call C functions, whose names must differ from those of the module's functions."""


class Recalled(NamedTuple):
    """The object of a previously compiled kernel."""

    text: KernelText
    data: bytes


@dataclass(frozen=True)
class Recall:
    """Previously compiled kernels of a module, and the keys of the others."""

    recalled: Mapping[str, Recalled]
    """Kernels, by name, that need not be lowered."""
    keys: Mapping[str, cache.Key]
    """Keys of all other kernels that may have notes."""

    def remember(self, compiled: Iterable[CompiledObject]) -> None:
        """Write a note for each kernel compiled by itself, unless the compiler's files have changed."""
        if not unedited():
            return
        for unit in compiled:
            key = self.keys.get(unit.kernel.names[0]) if len(unit.kernel.names) == 1 else None
            if key is not None:
                cache.note(key, _note(unit))


NOTHING: Final = Recall({}, {})


class KernelMemory:
    """Previously compiled kernels for a resolved target: queried for each scheduled kernel, or for a module."""

    def __init__(self, target: Target) -> None:
        self._environment = _environment(target) if usual_passes() and cache.enabled() else None
        self._seen: dict[str, tuple[PrimFunc, cache.Key, Recalled | None]] = {}

    def knows(self, name: str, func: PrimFunc) -> bool:
        """True if a kernel was compiled before."""
        return self._environment is not None and self._look(name, func, self._environment)[1] is not None

    def recall(self, mod: IRModule) -> Recall:
        """Previously compiled PrimFuncs of a scheduled module."""
        if self._environment is None:
            return NOTHING
        funcs = {g.name_hint: f for g, f in mod.functions.items() if isinstance(f, PrimFunc)}
        joined = _joined(funcs)
        lookups = {
            name: self._look(name, func, self._environment) for name, func in funcs.items() if name not in joined
        }
        return Recall(
            {name: recalled for name, (_, recalled) in lookups.items() if recalled is not None},
            {name: key for name, (key, recalled) in lookups.items() if recalled is None},
        )

    def _look(self, name: str, func: PrimFunc, environment: str) -> tuple[cache.Key, Recalled | None]:
        seen = self._seen.get(name)
        if seen is None or seen[0] is not func:
            key = _key(name, func, environment)
            seen = self._seen[name] = func, key, _recalled(name, key)
        return seen[1:]


class Contents(NamedTuple):
    """Summary of a PrimFunc's body."""

    callees: frozenset[str]
    """Names of the functions it calls; the empty name stands for C functions."""
    size: int
    """Number of nodes."""


@lru_cache(maxsize=128)
def contents_of(func: PrimFunc) -> Contents:
    """Summary of a PrimFunc's body."""
    names: set[str] = set()
    size = 0

    def see(node: Node) -> None:
        nonlocal size
        size += 1
        if isinstance(node, GlobalVar):
            names.add(node.name_hint)
        elif isinstance(node, Call) and node.intrinsic in _EXTERN:
            names.add("")

    walk(func.body, see)
    return Contents(frozenset(names), size)


def _joined(funcs: Mapping[str, PrimFunc]) -> set[str]:
    """Functions whose code depends on others: callers of functions or of C functions, and their callees."""
    joined: set[str] = set()
    for name, func in funcs.items():
        names = contents_of(func).callees
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
    """Object of a kernel, if both the note and the object are in the cache."""
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
    """Text of all inputs to a kernel's code besides the kernel; None if the compiler's files cannot be read."""
    files = compiler_files()
    return None if files is None else "\n".join((files, compiler_version(), target_words(target)))
