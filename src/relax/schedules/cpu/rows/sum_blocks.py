"""Blocks of terms in sums of floats: short sums in the dtype of the terms, added to totals in a wider dtype.

    for k in range(n):                    total = 0.0                                            float64
        S[0] = S[0] + A[k]                for b in range(ceildiv(n, 32)):
                                              block = 0.0                                        float32
                                              for k in range(min(32, n - b * 32)):
                                                  block += A[b * 32 + k]
                                              total += float64(block)
                                          S[0] = float32(total)

A term passes through at most 32 additions in the dtype of the terms, however long the axis is. The error is bounded by
that number, and by those of the additions that combine several accumulators; see *Numerics* in the documentation. A
sum of float64 has totals of float64, and of narrower dtypes than float32 of float32.

N. J. Higham, *The Accuracy of Floating Point Summation*, 1993, compares blocked sums with others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final

from ....ir import DataType
from ....prim import Add, PrimExpr, Var, const, simplify
from ....prim.intrin import ceildiv
from ....prim.intrin import min as minimum
from ....runtime.records import dataclass
from ....tir import AllocBuffer, Buffer, BufferLoad, BufferStore, For, ForKind, LetStmt, Stmt
from ....tir.buffer import decl_buffer
from ....tir.stmt import STAYS_ROLLED
from ...build import block
from ...stages import Axis, Stage
from ...straight import Binding
from .passes import Element, Redirect

TERMS: Final = 32
"""Most terms that are added to one accumulator before it is added to the total."""


def total_dtype(dtype: DataType) -> str:
    """Dtype of the totals of a sum of `dtype`."""
    return "float64" if dtype.bits >= 32 else "float32"


def is_float_sum(stage: Stage) -> bool:
    """True for a reduction whose results are all sums of floats."""
    combination = stage.combination
    if combination is None or not all(buffer.dtype.is_float for buffer in combination.buffers):
        return False
    left, right = (tuple(Var(name, buffer.dtype) for buffer in combination.buffers) for name in ("x", "y"))
    values = combination.combine(left, right)
    return all(
        isinstance(value, Add) and {value.a, value.b} == {x, y} for value, x, y in zip(values, left, right, strict=True)
    )


def float_sums(stages: Iterable[Stage]) -> list[Stage]:
    """Return the stages that are sums of floats."""
    return [stage for stage in stages if is_float_sum(stage)]


@dataclass(frozen=True)
class Blocks:
    """Division of nested loops into blocks of iterations that follow each other."""

    outer: tuple[Axis, ...]
    """Loops over the blocks."""
    lengths: tuple[Binding, ...]
    """Numbers of iterations of the loops in `axes`, as far as they differ from block to block."""
    axes: tuple[Axis, ...]
    """Loops of a block. The last one is the innermost of the loops that were divided."""
    places: dict[Var, PrimExpr]
    """Values of the divided loops' variables."""

    def around(self, body: Stmt) -> Stmt:
        """Return the loops over all blocks, each of which executes `body`."""
        for var, value in reversed(self.lengths):
            body = LetStmt(var, value, body)
        for axis in reversed(self.outer):
            annotations = {} if axis.size is None else {STAYS_ROLLED: True}
            body = For(axis.var, const(0, axis.var.dtype), axis.extent, ForKind.SERIAL, body, annotations)
        return body


def blocks_of(
    axes: Sequence[Axis], longest: int = TERMS, additions: Callable[[int], int] = lambda size: size
) -> Blocks | None:
    """Divide nested loops into blocks of at most `TERMS` additions; None if they are one block.

    `longest` is the number of iterations of the innermost loop in a block, and `additions` returns the number of
    additions to one accumulator in a static number of iterations of that loop.
    """
    outer, lengths, inside = list[Axis](), list[Binding](), list[Axis]()
    places: dict[Var, PrimExpr] = {}
    room = TERMS
    for axis in reversed(axes):
        is_inner = axis is axes[-1]
        count = None if axis.size is None else additions(axis.size) if is_inner else axis.size
        if count is not None and count <= room:
            inside.append(axis)
            room //= max(count, 1)
            continue
        if room < 2 and not is_inner:
            outer.append(axis)
            continue
        dtype, size = axis.var.dtype, const(longest if is_inner else room, axis.var.dtype)
        number, within = Var("b", dtype), Var(axis.var.name, dtype)
        outer.append(Axis(number, simplify(ceildiv(axis.extent, size))))
        length = simplify(minimum(size, axis.extent - number * size))
        if axis.size is not None and axis.size % int(longest if is_inner else room) == 0:
            length = size
        else:
            name = Var("length", dtype)
            lengths.append((name, length))
            length = name
        inside.append(Axis(within, length))
        places[axis.var] = number * size + within
        room = 1
    if not outer:
        return None
    return Blocks(tuple(reversed(outer)), tuple(lengths), tuple(reversed(inside)), places)


class SumsInBlocks:
    """Sums of a pass with one accumulator per row, computed in blocks if they are long."""

    def __init__(
        self, updates: Sequence[Stage], elements: Sequence[Axis], shape: tuple[int, ...], place: tuple[PrimExpr, ...]
    ) -> None:
        """`shape` is that of the accumulators of the rows processed together, and `place` the index of a row's one."""
        sums = float_sums(updates)
        self.blocks = blocks_of(elements) if sums else None
        self.axes = tuple(elements) if self.blocks is None else self.blocks.axes
        """Loops over the elements of a block."""
        self.place = place
        buffers = [buffer for stage in sums for buffer in stage.buffers] if self.blocks is not None else []
        scope = "local" if shape == (1,) else "global"
        self.sums = {b: decl_buffer(shape, str(b.dtype), f"{b.name}_block", scope=scope) for b in buffers}
        self.totals = {b: decl_buffer(shape, total_dtype(b.dtype), f"{b.name}_total", scope=scope) for b in buffers}

    def of(self, element: Element) -> Element:
        """Return an element's statements inside a block: sums are updated in the block's accumulators."""
        if self.blocks is None:
            return element
        redirect = Redirect({buffer: (lambda _, b=block: (b, self.place)) for buffer, block in self.sums.items()})
        element = element.at(self.blocks.places)
        updates = tuple(replace(stage, body=redirect.visit(stage.body)) for stage in element.updates)
        return replace(element, updates=updates)

    def around(self, body: Stmt, starts: Sequence[BufferStore], each: Callable[[Stmt], Stmt]) -> Stmt:
        """Return the loops over all blocks around those of a block.

        `starts` are the initial stores of the pass, and `each` returns the loop over the rows processed together.
        """
        if self.blocks is None:
            return block([*map(each, starts), body])
        before, after = list[Stmt](), list[Stmt]()
        for start in starts:
            total = self.totals.get(start.buffer)
            if total is None:
                before.append(each(start))
                continue
            before.append(each(BufferStore(total, start.value.astype(str(total.dtype)), self.place)))
            value = BufferLoad(total, self.place).astype(str(start.buffer.dtype))
            after.append(each(start.replace(value=value)))
        zeros = [each(BufferStore(b, const(0, str(b.dtype)), self.place)) for b in self.sums.values()]
        added = [each(self._added(sum_, self.totals[buffer])) for buffer, sum_ in self.sums.items()]
        result = block([*before, self.blocks.around(block([*zeros, body, *added])), *after])
        for buffer in (*self.sums.values(), *self.totals.values()):
            result = AllocBuffer(buffer, result)
        return result

    def _added(self, sum_: Buffer, total: Buffer) -> Stmt:
        """Add the sum of a block to the total of a row."""
        so_far = BufferLoad(total, self.place)
        more = BufferLoad(sum_, self.place).astype(str(total.dtype))
        return BufferStore(total, so_far + more, self.place)


def updated(elements: Sequence[Axis], element: Element) -> Stmt:
    """Return serial loops over the elements of a row, with sums in blocks."""
    starts = [store for stage in element.updates for store in stage.starts]
    blocks = SumsInBlocks(element.updates, elements, (1,), (const(0, "int64"),))
    element = blocks.of(element)
    parts = [*element.stores, *(stage.body for stage in element.updates)]
    body = element.statement(lambda value: value, parts)
    for axis in reversed(blocks.axes):
        body = For(axis.var, const(0, axis.var.dtype), axis.extent, ForKind.SERIAL, body)
    return blocks.around(body, starts, lambda stmt: stmt)
