"""Compiled kernels in the cache, found by their form before lowering.

The cache of objects (`cache`) finds an object by its LLVM IR. Lowering a kernel and writing its IR takes longer than
the rest of a build that finds all objects. Therefore the cache has a note for each kernel as well:

    key     digest of the scheduled PrimFunc without names, of the target, and of the files that generate kernels
    note    the object's key, the messages with marks in place of names

Names of functions, variables and buffers do not count, so kernels of several models share a note and an object. To have
messages without names, a kernel is lowered with marks in place of its names (`NamelessKernel`); the names are put in
when the object is used, for the kernel at hand.

Only independent kernels have notes: a kernel that calls another kernel or a C function, or is called by a kernel, is
lowered each time. Nothing is recalled if the context's passes are not the default ones, or if it has instruments that
observe passes (PassContext).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

from ..ir import IRModule, nameless_digest
from ..target import Target
from ..tir import PrimFunc
from ..tir.renew import with_names
from . import cache
from .kernel_contents import contents_of
from .kernel_text import MARK, KernelText, label_mark, named
from .objects import CompiledObject
from .store import environment_of
from .versions import compiler_version, generator_files, generator_unedited, target_words, usual_passes


class Recalled(NamedTuple):
    """The object of a previously compiled kernel."""

    text: KernelText
    """The kernel without its IR, with names in its messages."""
    data: bytes


@dataclass(frozen=True)
class NamelessKernel:
    """A kernel without a note, which is lowered with marks in place of its names."""

    original: PrimFunc
    key: cache.Key
    """Key of the note to be written."""
    labels: tuple[str, ...]
    """Names of its variables and buffers; the marks count them."""

    @cached_property
    def func(self) -> PrimFunc:
        """The kernel with marks in place of names; the kernel itself if it contains a mark already."""
        if contents_of(self.original).is_marked or any(MARK in label for label in self.labels):
            return self.original
        return with_names(self.original, {label: label_mark(number) for number, label in enumerate(self.labels)})


@dataclass(frozen=True)
class Recall:
    """Previously compiled kernels of a module, and the others that may have notes."""

    recalled: Mapping[str, Recalled]
    """Kernels, by name, that need not be lowered."""
    nameless: Mapping[str, NamelessKernel]
    """All other kernels that may have notes, by name."""

    def func(self, name: str, func: PrimFunc) -> PrimFunc:
        """Form in which a kernel is lowered."""
        return self.nameless[name].func if name in self.nameless else func

    def messages(self, kernel: KernelText) -> tuple[str, ...]:
        """Messages of a compiled kernel, with names."""
        nameless = self.nameless.get(kernel.names[0])
        return kernel.named_messages(() if nameless is None else nameless.labels)

    def remember(self, compiled: Iterable[CompiledObject]) -> None:
        """Write a note for each kernel compiled by itself, unless the generator's files have changed."""
        if not generator_unedited():
            return
        for unit in compiled:
            nameless = self.nameless.get(unit.kernel.names[0]) if len(unit.kernel.names) == 1 else None
            if nameless is not None and nameless.func is not nameless.original:
                cache.note(nameless.key, _note(unit))


NOTHING: Final = Recall({}, {})


class KernelMemory:
    """Previously compiled kernels for a resolved target: queried for each scheduled kernel, or for a module."""

    def __init__(self, target: Target) -> None:
        self._environment = _environment(target) if usual_passes() and cache.enabled() else None
        self._seen: dict[str, tuple[NamelessKernel, Recalled | None]] = {}

    def knows(self, name: str, func: PrimFunc) -> bool:
        """True if a kernel was compiled before."""
        return self._environment is not None and self._look(name, func, self._environment)[1] is not None

    def func(self, name: str, func: PrimFunc) -> PrimFunc:
        """Form in which a kernel that was not compiled before is lowered."""
        return func if self._environment is None else self._look(name, func, self._environment)[0].func

    def nameless(self, name: str, func: PrimFunc) -> NamelessKernel | None:
        """Key and names of a kernel in the cache; None if kernels are not recalled."""
        return None if self._environment is None else self._look(name, func, self._environment)[0]

    def recall(self, mod: IRModule) -> Recall:
        """Previously compiled PrimFuncs of a scheduled module."""
        if self._environment is None:
            return NOTHING
        funcs = {g.name_hint: f for g, f in mod.functions.items() if isinstance(f, PrimFunc)}
        joined = joined_kernels(funcs)
        lookups = {
            name: self._look(name, func, self._environment) for name, func in funcs.items() if name not in joined
        }
        return Recall(
            {name: recalled for name, (_, recalled) in lookups.items() if recalled is not None},
            {name: nameless for name, (nameless, recalled) in lookups.items() if recalled is None},
        )

    def _look(self, name: str, func: PrimFunc, environment: str) -> tuple[NamelessKernel, Recalled | None]:
        seen = self._seen.get(name)
        if seen is None or seen[0].original is not func:
            digest, labels = nameless_digest(func)
            key = cache.key_of(digest.hex(), "note", environment, kind=cache.NOTE)
            nameless = NamelessKernel(func, key, labels)
            seen = self._seen[name] = nameless, recalled(name, key, labels)
        return seen


def joined_kernels(funcs: Mapping[str, PrimFunc]) -> set[str]:
    """Functions whose code depends on others: callers of functions or of C functions, and their callees."""
    joined: set[str] = set()
    for name, func in funcs.items():
        names = contents_of(func).callees
        if names:
            joined |= {name, *names}
    return joined


def _note(unit: CompiledObject) -> bytes:
    words = [unit.key.source, unit.key.environment, unit.kernel.messages, unit.kernel.support]
    return json.dumps(words).encode()


def recalled(name: str, key: cache.Key, labels: Sequence[str]) -> Recalled | None:
    """Object of a kernel, by the key of its note and the names of its variables, if both are in the cache."""
    data = cache.noted(key)
    if data is None:
        return None
    try:
        source, environment, messages, support = json.loads(data)
        texts = named(messages, (name,), labels)
        text = KernelText("", (name,), (), texts, support=tuple(support))
        code = cache.load_noted(cache.Key(str(source), str(environment)), name)
    except (ValueError, TypeError):  # a note of some other form
        return None
    return None if code is None else Recalled(text, code)


def note_environment(target: Target) -> str | None:
    """Environment in the keys of notes for a resolved target; None if the generator's files cannot be read."""
    environment = _environment(target)
    return None if environment is None else environment_of("note", environment)


def _environment(target: Target) -> str | None:
    """Text of all inputs to a kernel's code besides the kernel; None if the generator's files cannot be read."""
    files = generator_files()
    return None if files is None else "\n".join((files, compiler_version(), target_words(target)))
