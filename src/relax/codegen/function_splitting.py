"""Long sequences of statements, written as several LLVM functions.

Some of LLVM's passes take time quadratic in the loops of one function (IndVarSimplify looks for what guards a loop
through all loops before it), so a sequence of more than a few dozen is written in parts:

    i32 body(ptr a, ptr b)             i32 part1(ptr a, ptr b)      the first loops; 0, or -1 with the error set
        loop; loop; loop; …     as     i32 part2(ptr a, ptr b)      the next ones
                                       i32 body(ptr a, ptr b)       part1(a, b); part2(a, b); …

A part takes the values of its surroundings that it uses, under their names there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from ..ir import Node, children_of
from ..native.builder import Operand
from ..tir import BufferStore, Evaluate, For, SeqStmt, Stmt, While
from .context import Context

_LOOP: Final = 16
"""The weight of a loop; any other statement has weight 1."""
_MOST: Final = 32 * _LOOP
"""The greatest weight of one part."""

_SIMPLE: Final = (BufferStore, Evaluate)
"""Statements that hold no others."""

_LOCAL: Final = re.compile(r"%[\w.]+")


def parts_of(seq: Sequence[Stmt]) -> list[list[Stmt]]:
    """Statements in groups, as few as can be, none of which weighs more than `_MOST` unless it is a single one."""
    groups: list[list[Stmt]] = [[]]
    total = 0
    for stmt in seq:
        weight = _weight(stmt)
        if groups[-1] and total + weight > _MOST:
            groups.append([])
            total = 0
        groups[-1].append(stmt)
        total += weight
    return groups


def _weight(stmt: Stmt) -> int:
    total = 0
    seen: set[int] = set()
    pending: list[Node] = [stmt]
    while pending and total < _MOST:
        node = pending.pop()
        if isinstance(node, Stmt) and id(node) not in seen:
            seen.add(id(node))
            if not isinstance(node, SeqStmt):
                total += _LOOP if isinstance(node, (For, While)) else 1
            if not isinstance(node, _SIMPLE):
                pending += children_of(node)
    return total


Scope = Mapping[Operand, str]
"""The values around a statement, with their types as LLVM text."""


def write_apart(cx: Context, scope: Scope, write: Callable[[], None]) -> None:
    """Write code as a function of its own, and call it; an error in it is the caller's.

    `scope` is that of `scope_of` where the code stands: of a sequence it is the same for all its parts.
    """
    b = cx.b
    label = cx.error_label
    cx.forget()
    with b.apart() as lines:
        cx.error_label = "error"
        write()
        b.end("ret i32 0")
        with b.cold("error"):
            b.end("ret i32 -1")
    cx.error_label = label
    cx.forget()
    used = dict.fromkeys(name for line in lines for name in _LOCAL.findall(line))
    taken = {ref: scope[ref] for ref in used if ref in scope}
    symbol = f"@{b.label('relax.part')}.{cx.unit.numbers[cx.name]}"
    pointers = {ref for ref, type_ in taken.items() if type_ == "ptr"}
    alias = " noalias" if pointers <= cx.distinct else ""
    parameters = (f"{type_}{alias if type_ == 'ptr' else ''} {ref}" for ref, type_ in taken.items())
    head = f"define internal i32 {symbol}({', '.join(parameters)}) #{cx.attributes}"
    b.module.add_text("\n".join([f"{head} {{", "entry:", *lines, "}"]))
    arguments = ", ".join(f"{type_} {ref}" for ref, type_ in taken.items())
    cx.leave_unless_zero(b.call("i32", symbol, arguments))


def scope_of(cx: Context) -> Scope:
    """The values that are known where code is written next."""
    return dict(_values(cx))


def _values(cx: Context) -> Iterator[tuple[Operand, str]]:
    for val in (*cx.vars.values(), *cx.wide.values()):
        yield val.ref, val.full_type
    for memory in cx.memory.values():
        if memory.size is not None:
            yield memory.size.ref, "i64"
    for storage in cx.storage.values():
        yield storage.pointer, "ptr"
        for size in (*storage.shape, *(storage.strides or ()), storage.offset):
            yield size, "i64"
