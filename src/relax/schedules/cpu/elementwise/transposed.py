"""Copies across memory, such as transposes and layout changes, by register transposes.

    for i, j in T.grid(n, m):                for blocks in T.parallel(ceildiv(n, 64)):
        with T.block("Y"):                       for jb in range(m // 16):
            Y[i, j] = X[j, i]                        for ib in range(4):                   fewer in the last block
                                                         i, j = blocks * 64 + ib * 16, jb * 16
                                                         r0 = X[j, i : i + 16]; … r15 = X[j + 15, i : i + 16]
                                                         64 shuffles of two vectors each
                                                         Y[i, j : j + 16] = r64; … Y[i + 15, j : j + 16] = r79
                                                 the remaining columns and rows, element by element

Every cache line is read and written once, as a whole. A square has 16 × 16 elements, or 8 × 8 of 64 bits; see
`tile.transposes`. float16 and bfloat16 are copied as integers.

Left to `elementwise`: values other than a plain element, and axes statically shorter than a square.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ....prim import PrimExpr, Var, const, is_const, simplify
from ....prim.intrin import ceildiv, floordiv, floormod
from ....prim.intrin import min as minimum
from ....tir import Buffer, BufferLoad, BufferStore, For, ForKind, Stmt
from ....tir.buffer import decl_buffer
from ....tir.functor import substitute
from ....tir.renew import renew_bound_vars
from ...build import block, let, loop, vector_load, vector_store
from ...stages import Axis, Group, with_merged_axes
from ..tile.transposes import transposed_square
from ..tile.words import declared
from .elementwise import parallel_over, within

SQUARES: Final = 4
"""Fewest adjacent squares (in the source) per thread."""
SQUARES_OF_BYTES: Final = 2
"""Fewest squares of bytes per thread; each writes a quarter of its result cache lines, which must stay in cache."""


def transposed(group: Group) -> Stmt | None:
    """Return the loops of a group with one stage that copies across memory, or None."""
    (stage,) = group.stages
    if not isinstance(stage.body, BufferStore) or not isinstance(stage.body.value, BufferLoad):
        return None
    group = with_merged_axes(group)
    (stage,) = group.stages
    store = stage.stores[0]
    load = store.value
    assert isinstance(load, BufferLoad)
    buffers = load.buffer, store.buffer
    axes = {axis.var: axis for axis in stage.axes}
    last = _axis_at(store, axes), _axis_at(load, axes)
    column, row = last
    if column is None or row is None or row is column or not stage.cannot_fail(load):
        return None
    bits = load.dtype.bits
    size = 8 if bits > 32 else 16
    if bits < 8 or any(axis.size is not None and axis.size < size for axis in (row, column)):
        return None
    others = [axis for axis in stage.axes if axis is not row and axis is not column]
    if any(sum(index is axis.var for index in load.indices) != 1 for axis in (row, column)):
        return None
    source, result = _bits_of(load.buffer), _bits_of(store.buffer)
    load = load.replace(buffer=source)
    store = store.replace(buffer=result, value=load)
    loops = _Squares(store, load, row, column, size).loops(others)
    views = [(source, buffers[0]), (result, buffers[1])]
    return within(group, declared(views, loops))


def _bits_of(buffer: Buffer) -> Buffer:
    """View floats as integers of their size if vector operations would convert them; other buffers unchanged."""
    if buffer.dtype not in ("float16", "bfloat16"):
        return buffer
    return decl_buffer(
        buffer.shape, "uint16", f"{buffer.name}_bits", data=buffer.data, strides=buffer.strides,
        elem_offset=buffer.elem_offset,
    )  # fmt: skip


def _axis_at(access: BufferLoad | BufferStore, axes: dict[Var, Axis]) -> Axis | None:
    """Return the axis that is contiguous in an access, or None."""
    last = access.indices[-1] if access.indices else None
    return axes.get(last) if isinstance(last, Var) else None


class _Squares:
    """Writes the loops of one copy; `row` is contiguous in the source, `column` in the result."""

    def __init__(self, store: BufferStore, load: BufferLoad, row: Axis, column: Axis, size: int) -> None:
        self.store, self.load, self.row, self.column, self.size = store, load, row, column, size

    def loops(self, others: Sequence[Axis]) -> Stmt:
        """Return the loop over all squares, parallel over strips of rows."""
        squares = SQUARES_OF_BYTES if self.load.dtype.bits == 8 else SQUARES
        height, dtype = self.size * squares, self.row.var.dtype
        blocks = Axis(Var("blocks", dtype), simplify(ceildiv(self.row.extent, height)))

        def rows(start: Var) -> Stmt:
            return self.strip(start, minimum(const(height, dtype), self.row.extent - start))

        return parallel_over([*others, blocks], let("start", blocks.var * height, rows))

    def strip(self, start: PrimExpr, height: PrimExpr) -> Stmt:
        """Copy some rows of the result: squares, then the remaining columns and rows.

        Squares adjacent in the source follow each other, so that its rows are read in order.
        """
        size = self.size
        high, wide = simplify(floordiv(height, size)), simplify(floordiv(self.column.extent, size))
        below, beside = simplify(floormod(height, size)), simplify(floormod(self.column.extent, size))

        def at(ib: Var, jb: Var) -> Stmt:
            return self.square(start + ib * size, jb * size)

        parts = [loop("jb", wide, lambda jb: loop("ib", high, lambda ib: at(ib, jb)))]
        if not is_const(beside, 0):
            rows = simplify(high * size)
            parts.append(loop("i", rows, lambda i: self.singles(start + i, wide * size, beside)))
        if not is_const(simplify(floormod(self.row.extent, size)), 0):
            first, zero = start + high * size, const(0, self.column.var.dtype)
            parts.append(loop("i", below, lambda i: self.singles(first + i, zero, self.column.extent)))
        return block(parts)

    def singles(self, row: PrimExpr, start: PrimExpr, count: PrimExpr) -> Stmt:
        """Copy `count` elements of a row of the result, one by one."""
        at = Var(self.column.var.name, self.column.var.dtype)
        moved = substitute(self.store, {self.row.var: row, self.column.var: start + at})
        return renew_bound_vars(For(at, const(0, at.dtype), count, ForKind.SERIAL, moved))

    def square(self, row: PrimExpr, column: PrimExpr) -> Stmt:
        """Transpose one square: load vectors, shuffle, store vectors."""
        return transposed_square(
            self.size, str(self.load.dtype),
            lambda i: vector_load(self.load.buffer, self._at(self.load, row, column + i), self.size),
            lambda i, vector: vector_store(self.store.buffer, self._at(self.store, row + i, column), vector),
        )  # fmt: skip

    def _at(self, access: BufferLoad | BufferStore, row: PrimExpr, column: PrimExpr) -> list[PrimExpr]:
        values = {self.row.var: row, self.column.var: column}
        return [simplify(substitute(index, values)) for index in access.indices]
