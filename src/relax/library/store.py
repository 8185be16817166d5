"""The library: kernels of general forms, in memory and in the cache (`relax.farm.cache`).

    partition   by the call: which sizes are variables of its general form, or that there is none
    template    by the general form: the kernel and how it is called, or that there is none
    code        by the general form, or by a kernel: where `relax.farm.recall` finds the machine code

A partition is looked up four times at most: for calls that differ in sizes alone, where it serves all of those in
which sizes are equal that share a variable, and nothing is left to be checked at run time; the same with those sizes of
1 unchanged that stand beside others, as in broadcasting; with all of them unchanged; and for calls in which the same
sizes are equal. So a kernel does not depend on what was looked up before.

All hold for one target, one configuration of the PassContext, and one state of the files in which formulas, schedule
rules and code generation are written.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
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
from .kernels import Kernel, kernel_of, most_general

ROOMS: Final = (
    "analysis", "block_builder.py", "codegen", "derive", "expr.py", "farm", "info", "ir", "library", "native", "op",
    "prim", "rewrite", "runtime", "schedules", "struct_info.py", "target", "te", "tir", "topi", "transform",
)  # fmt: skip
"""Packages and files that determine the kernel of a call."""

_WRONG: Final = (ValueError, TypeError, KeyError, IndexError, AttributeError)
"""Errors of reading a note in another format."""

KINDS: Final = ("partition", "template", "code")
"""Kinds of entries."""


@dataclass(frozen=True)
class Entry:
    """A kernel of the library."""

    form: str
    """Digest of the kernel's general form."""
    kernel: Kernel


class Library:
    """Kernels of general forms for a resolved target."""

    def __init__(self, target: Target) -> None:
        self._environment = _environment(target) if usual_passes() and cache.enabled() else None
        """None if nothing is read from the cache, or kept there."""
        self._partitions: dict[str, Partition | None] = {}
        """By the call's text."""
        self._entries: dict[str, Entry | None] = {}
        """By the general form's text."""
        self._notes: list[tuple[cache.Key, bytes]] = []
        """Entries, by key, that `save_notes` writes to the cache."""

    def entry(self, call: Call, operator: Operator, operands: CallSizes) -> tuple[Entry, Partition] | None:
        """Return the kernel of a call's general form, and its variable for each size; None if it has none."""
        if operator.rank_depends_on_sizes:
            return None
        for partition in self._candidates(call, operator, operands):
            entry = self._entry(call, operator, operands, partition)
            if entry is not None:
                return entry, partition
        return None

    def _candidates(self, call: Call, operator: Operator, operands: CallSizes) -> Iterator[Partition]:
        """Partitions of a call, most general first."""
        for kept in operands.kept_ones if operands.ones else ((),):
            equal = operands.with_equal_sizes(kept)
            partition = self._partition(call, operator, equal, 0)
            if partition is not None and operands.fits(partition):
                yield partition
        partition = self._partition(call, operator, operands, None)
        if partition is not None:
            yield partition

    def _partition(self, call: Call, operator: Operator, operands: CallSizes, most: int | None) -> Partition | None:
        text = f"{most};{operands.key}"
        if text in self._partitions:
            return self._partitions[text]
        key = self._key("partition", text)
        data = None if key is None else cache.noted(key)
        if data is not None:
            with contextlib.suppress(*_WRONG):
                partition = _read_partition(data, len(operands.sizes))
                self._partitions[text] = partition
                return partition
        partition = self._partitions[text] = most_general(call, operator, operands, most)
        if key is not None:
            self._notes.append((key, json.dumps(partition).encode()))
        return partition

    def _entry(self, call: Call, operator: Operator, operands: CallSizes, partition: Partition) -> Entry | None:
        text = operands.text(partition)
        if text in self._entries:
            return self._entries[text]
        key = self._key("template", text)
        data = None if key is None else cache.noted(key)
        if data is not None:
            with contextlib.suppress(*_WRONG):
                entry = self._entries[text] = _read(data)
                return entry
        kernel = kernel_of(call, operator, operands, partition)
        entry = None
        if kernel is not None:
            form = GeneralCall.of(call, operator, operands, partition).function
            entry = Entry(exact_digest(form).hex(), kernel)
        self._entries[text] = entry
        if key is not None:
            self._notes.append((key, _written(entry)))
        return entry

    def save_notes(self) -> None:
        """Write new entries to the cache, unless a file of the compiler was edited since this process loaded it.

        Checking all files takes milliseconds, so this is called once for all calls of a program.
        """
        notes, self._notes = self._notes, []
        if notes and unedited(ROOMS):
            for key, data in notes:
                cache.note_beside(key, data)

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
        """Note, for `save_notes`, what the cache calls a general form's kernel, which is about to be compiled."""
        key = self._key("code", form)
        if key is not None:
            code = scheduled.key
            words = [code.source, code.environment, code.kind, *scheduled.labels]
            self._notes.append((key, json.dumps(words).encode()))

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
    words = [entry.form, kernel.args, kernel.sizes, save_json(kernel.func)]
    return json.dumps(words).encode()


def _read(data: bytes) -> Entry | None:
    words = json.loads(data)
    if words is None:
        return None
    form, args, sizes, func = words
    return Entry(form, Kernel(cast(PrimFunc, load_json(func)), tuple(args), tuple(sizes)))


def _read_partition(data: bytes, count: int) -> Partition | None:
    numbers = json.loads(data)
    if numbers is None:
        return None
    if len(numbers) != count or not all(isinstance(number, int) for number in numbers):
        raise ValueError("it is no partition of as many sizes")
    return tuple(numbers)
