"""The library: kernels of general forms, in memory and in the cache (`relax.farm.cache`).

    template    by the call, with equal sizes equal: the kernel and how it is called, or that there is no general form
    code        by the general form: where `relax.farm.recall` finds the machine code

Both hold for one target, one configuration of the PassContext, and one state of the files in which formulas, schedule
rules and code generation are written.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from typing import Final, cast

from ..expr import Call
from ..farm import cache
from ..farm.recall import NamelessKernel, Recalled, recalled
from ..farm.store import environment_of
from ..farm.versions import compiler_files, compiler_version, target_words, unedited, usual_passes
from ..ir import exact_digest, load_json, save_json
from ..ir.transform import PassContext
from ..op.base import Operator
from ..target import Target
from ..tir.stmt import PrimFunc
from .general import CallSizes, GeneralCall, Partition
from .kernels import Kernel, kernel_of

ROOMS: Final = (
    "analysis", "block_builder.py", "codegen", "derive", "expr.py", "farm", "info", "ir", "library", "native", "op",
    "prim", "rewrite", "runtime", "schedules", "struct_info.py", "target", "te", "tir", "topi", "transform",
)  # fmt: skip
"""Packages and files that determine the kernel of a call."""

_WRONG: Final = (ValueError, TypeError, KeyError, IndexError, AttributeError)
"""Errors of reading a note in another format."""

KINDS: Final = ("template", "code")
"""Kinds of entries."""


@dataclass(frozen=True)
class Entry:
    """A kernel of the library for a call."""

    form: str
    """Digest of the kernel's general form."""
    partition: Partition
    """Variable of the kernel for each size of the call."""
    kernel: Kernel


class Library:
    """Kernels of general forms for a resolved target."""

    def __init__(self, target: Target) -> None:
        self._environment = _environment(target) if usual_passes() and cache.enabled() else None
        """None if nothing is read from the cache, or kept there."""
        self._entries: dict[str, Entry | None] = {}

    def entry(self, call: Call, operator: Operator, operands: CallSizes) -> Entry | None:
        """Return the kernel of a call's general form; None if it has none."""
        if operands.key not in self._entries:
            self._entries[operands.key] = self._entry(call, operator, operands)
        return self._entries[operands.key]

    def _entry(self, call: Call, operator: Operator, operands: CallSizes) -> Entry | None:
        key = self._key("template", operands.key)
        data = None if key is None else cache.noted(key)
        if data is not None:
            with contextlib.suppress(*_WRONG):
                return _read(data)
        made = kernel_of(call, operator, operands)
        entry = None
        if made is not None:
            partition, kernel = made
            form = GeneralCall.of(call, operator, operands, partition).function
            entry = Entry(exact_digest(form).hex(), partition, kernel)
        if key is not None and unedited(ROOMS):
            cache.note_beside(key, _written(entry))
        return entry

    def code(self, name: str, form: str) -> Recalled | None:
        """Return the machine code of a general form, under a name; None if it is not in the cache."""
        key = self._key("code", form)
        data = None if key is None else cache.noted(key)
        if data is None:
            return None
        with contextlib.suppress(*_WRONG):
            source, environment, kind, *labels = cast("list[str]", json.loads(data))
            return recalled(name, cache.Key(source, environment, kind), labels)
        return None

    def keep(self, form: str, scheduled: NamelessKernel) -> None:
        """Note what the cache calls a general form's kernel, which is scheduled and about to be compiled."""
        key = self._key("code", form)
        if key is not None and unedited(ROOMS):
            code = scheduled.key
            words = [code.source, code.environment, code.kind, *scheduled.labels]
            cache.note_beside(key, json.dumps(words).encode())

    def _key(self, kind: str, text: str) -> cache.Key | None:
        if self._environment is None:
            return None
        return cache.key_of(text, *_words(kind, self._environment), kind=cache.NOTE)


def library_environments(target: Target) -> set[str]:
    """Environments in the keys of the library's entries for a resolved target."""
    environment = _environment(target)
    return set() if environment is None else {environment_of(*_words(kind, environment)) for kind in KINDS}


def _words(kind: str, environment: tuple[str, ...]) -> tuple[str, ...]:
    return f"library {kind}", *environment


def _environment(target: Target) -> tuple[str, ...] | None:
    """Everything besides the call that determines its kernel.

    Returns None if the compiler's files cannot be read, or the PassContext's configuration, which schedule rules read,
    has a value that is no number and no text.
    """
    files, context = compiler_files(ROOMS), PassContext.current()
    if files is None or not all(isinstance(value, str | int | float | None) for value in context.config.values()):
        return None
    options = repr((context.opt_level, sorted(context.config.items())))
    return files, compiler_version(), target_words(target), options


def _written(entry: Entry | None) -> bytes:
    if entry is None:
        return b"null"
    kernel = entry.kernel
    words = [entry.form, entry.partition, kernel.args, kernel.sizes, save_json(kernel.func)]
    return json.dumps(words).encode()


def _read(data: bytes) -> Entry | None:
    words = json.loads(data)
    if words is None:
        return None
    form, partition, args, sizes, func = words
    kernel = Kernel(cast(PrimFunc, load_json(func)), tuple(args), tuple(sizes))
    return Entry(form, tuple(partition), kernel)
