"""Splitting of long sequences of statements into several LLVM functions.

Some LLVM passes are quadratic in the number of loops of a function (IndVarSimplify searches all earlier loops for a
guard), so a sequence of more than a few dozen is written in parts:

    i32 body(ptr a, ptr b)             i32 part1(ptr a, ptr b)      the first loops; 0, or -1 with the error set
        loop; loop; loop; …     as     i32 part2(ptr a, ptr b)      the next ones
                                       i32 body(ptr a, ptr b)       part1(a, b); part2(a, b); …

The parameters of a part are the surrounding values it uses, under the same names.
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
"""Weight of a loop; every other statement has weight 1."""
_MOST: Final = 32 * _LOOP
"""Maximum weight of one part."""

_SIMPLE: Final = (BufferStore, Evaluate)
"""Statements that contain no other statements."""

_LOCAL: Final = re.compile(r"%[\w.]+")


def parts_of(seq: Sequence[Stmt]) -> list[list[Stmt]]:
    """Group statements into as few parts as possible; only a part of a single statement may exceed `_MOST`."""
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
"""Values available around a statement, with their types as LLVM text."""


def write_apart(cx: Context, scope: Scope, write: Callable[[], None]) -> None:
    """Write code as a separate function and call it; an error in it is propagated.

    `scope` is the result of `scope_of` at this point, the same for all parts of a sequence.
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
    """Values available to the code written next."""
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
