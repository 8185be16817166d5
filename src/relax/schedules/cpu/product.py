"""Products of matrices, of float32 or float64: register tiles over packed panels.

    for i, j, k in T.grid(M, N, K):          for jo in T.parallel(ceildiv(N, 64)):        a panel of 64 columns
        with T.block("C"):                       P = T.alloc_buffer((K, 64))              copied, so that it is contiguous
            with T.init():                       for io in range(blocks):                 rows, six at a time
                C[i, j] = 0                          acc = T.alloc_buffer((6, 64), scope="local")      in registers
            C[i, j] += A[i, k] * B[k, j]             for k in range(K):
                                                         acc[p, :] += A[row + p, k] * P[k, :]   for p in 0 .. 5
                                                     C[row + p, jo * 64 + :] = acc[p, :]

The tile has as many rows and columns as there are registers for (6 × 4 vectors with 32 of them). Rows are dealt out
evenly: 17 are 6 + 6 + 5, so that there is code for each height that occurs; a size that is not known needs all. The last
panel is padded with zeros, and its results go through memory. With few rows, copying costs more than it brings: the
panels are read where they are. Such a register-blocked outer product over packed panels is that of K. Goto and R. van de
Geijn, *Anatomy of High-Performance Matrix Multiplication*, 2008, without its cache blocking of k: a panel of 64 columns
stays in the second-level cache for the depths that occur.

Refused: other dtypes, a function that does not promise that its arguments are apart (tir.noalias), several variables for
the columns, and rows that are not all of one buffer's leading dimensions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ...prim import Add, IntImm, Mul, PrimExpr, Var, const, is_const, simplify, substitute
from ...prim.intrin import ceildiv, floordiv, floormod
from ...prim.intrin import min as minimum
from ...target import Target
from ...tir import (
    Buffer,
    BufferLoad,
    BufferStore,
    ForKind,
    IfThenElse,
    IterVar,
    LetStmt,
    PrimFunc,
    Select,
    Stmt,
)
from ..build import alloc, block, int64, let, loop, spread, vector_load, vector_store
from ..contraction import Contraction, contraction_of
from ..rule import ScheduleRule

UNPACKED_ROWS: Final = 24
"""With fewer rows than this, copying a panel takes longer than it saves."""


@dataclass(frozen=True)
class Tile:
    """The shape of a register tile: rows, vectors to a row, and elements to a vector."""

    rows: int
    vectors: int
    lanes: int

    @property
    def columns(self) -> int:
        return self.vectors * self.lanes


def tile_for(target: Target, bits: int) -> Tile:
    """The tile for which a machine has registers: rows × vectors accumulators, a row of vectors, one broadcast."""
    machine = target.machine
    lanes = max(machine.vector_bits // bits, 1)
    return Tile(6, 4, lanes) if machine.vector_registers >= 32 else Tile(6, 2, lanes)


class Product(ScheduleRule):
    """The rule for products of matrices."""

    def apply(self, func: PrimFunc, target: Target, tunable: bool) -> PrimFunc | None:
        del tunable
        product = contraction_of(func)
        if product is None or not func.attrs.get("tir.noalias"):
            return None
        dtype = product.out.buffer.dtype
        same = product.lhs.dtype == dtype and product.rhs.dtype == dtype
        if dtype not in ("float32", "float64") or not same or not is_const(product.start, 0):
            return None
        if len(product.columns) != 1:
            return None
        body = _Writer(product, tile_for(target, dtype.bits)).function()
        return func.replace(body=body)


class _Writer:
    """Writes the loops of one product."""

    def __init__(self, product: Contraction, tile: Tile) -> None:
        self.product, self.tile = product, tile
        self.dtype = str(product.out.buffer.dtype)
        self.columns, self.depth = _size(product.columns[0]), _size(product.depth)
        *self.outer, self.row = product.rows or (None,)
        self.rows = const(1, "int64") if self.row is None else _size(self.row)

    def function(self) -> Stmt:
        """The whole body: loops over the batch, and rows that cannot be one loop, around a product of two matrices."""
        outer = [*self.product.batch, *(v for v in self.outer if v is not None)]
        return self._batch(outer, {})

    def _batch(self, outer: Sequence[IterVar], values: dict[Var, PrimExpr]) -> Stmt:
        if not outer:
            return self.panels(values)
        first, *rest = outer
        kind = ForKind.PARALLEL if not values else ForKind.SERIAL
        return loop(
            first.var.name, _size(first), lambda var: self._batch(rest, {**values, first.var: var}), kind
        )

    # ------------------------------------------------------------------ elements

    def a(self, values: dict[Var, PrimExpr], row: PrimExpr, k: PrimExpr) -> PrimExpr:
        """An element of the left operand."""
        at = {**values, self.product.depth.var: k}
        if self.row is not None:
            at[self.row.var] = row
        return self._load(self.product.lhs, at)

    def b(self, values: dict[Var, PrimExpr], k: PrimExpr, column: PrimExpr) -> PrimExpr:
        """An element of the right operand."""
        return self._load(self.product.rhs, {**values, self.product.depth.var: k, self.product.columns[0].var: column})

    def _load(self, load: BufferLoad, at: dict[Var, PrimExpr]) -> BufferLoad:
        return BufferLoad(load.buffer, tuple(int64(substitute(index, at)) for index in load.indices))

    def b_is_contiguous(self) -> bool:
        """True if neighbouring columns of the right operand are neighbours in memory."""
        return self.product.rhs.indices[-1] is self.product.columns[0].var

    def place(self, values: dict[Var, PrimExpr], row: PrimExpr, column: PrimExpr) -> list[PrimExpr]:
        """The indices of an element of the result."""
        at = {**values, self.product.columns[0].var: column}
        if self.row is not None:
            at[self.row.var] = row
        return [int64(substitute(index, at)) for index in self.product.out.indices]

    # ------------------------------------------------------------------ loops

    def panels(self, values: dict[Var, PrimExpr]) -> Stmt:
        """The loop over panels of columns: whole ones, then the one that is left."""
        width = self.tile.columns
        whole = simplify(floordiv(self.columns, width))
        left = simplify(floormod(self.columns, width))
        kind = ForKind.SERIAL if values else ForKind.PARALLEL
        parts: list[Stmt] = []
        if not is_const(whole, 0):
            parts.append(
                loop("jo", whole, lambda jo: self.panel(values, jo * width, None), kind)
            )
        if not is_const(left, 0):
            start = simplify(whole * width)
            last = self.panel(values, start, left)
            parts.append(last if isinstance(left, IntImm) else IfThenElse(left > 0, last))
        return block(parts)

    def panel(self, values: dict[Var, PrimExpr], start: PrimExpr, left: PrimExpr | None) -> Stmt:
        """All rows of a panel of columns, of which `left` are in the matrix; None: all."""
        if left is None and self.b_is_contiguous() and self._is_low():
            return self.row_blocks(values, start, None, None)
        vectors = self.tile.vectors
        if isinstance(left, IntImm):
            vectors = -(-left.value // self.tile.lanes)
        packed = alloc(
            "panel",
            (self.depth, vectors * self.tile.lanes),
            self.dtype,
            "global",
            lambda buffer: block(
                [self.pack(values, buffer, start, left), self.row_blocks(values, start, left, buffer)]
            ),
        )
        if left is not None or not self.b_is_contiguous() or isinstance(self.rows, IntImm):
            return packed
        direct = self.row_blocks(values, start, None, None)
        return IfThenElse(self.rows < UNPACKED_ROWS, direct, packed)

    def _is_low(self) -> bool:
        return isinstance(self.rows, IntImm) and self.rows.value < UNPACKED_ROWS

    def pack(self, values: dict[Var, PrimExpr], panel: Buffer, start: PrimExpr, left: PrimExpr | None) -> Stmt:
        """Copy the columns of a panel; those beyond the matrix become 0."""
        width = panel.shape[1]
        assert isinstance(width, IntImm)
        if left is None and self.b_is_contiguous():
            return loop("k", self.depth, lambda k: self._copy_row(values, panel, start, k))
        inside: PrimExpr = width if left is None else left

        def column(c: Var) -> Stmt:
            copy = loop("k", self.depth, lambda k: BufferStore(panel, self.b(values, k, start + c), (k, c)))
            if left is None:
                return copy
            zeros = loop("k", self.depth, lambda k: BufferStore(panel, const(0, self.dtype), (k, c)))
            return IfThenElse(c < inside, copy, zeros)

        return loop("c", width, column)

    def _copy_row(self, values: dict[Var, PrimExpr], panel: Buffer, start: PrimExpr, k: Var) -> Stmt:
        stores: list[Stmt] = []
        for v in range(self.tile.vectors):
            source = self.b(values, k, simplify(start + v * self.tile.lanes))
            assert isinstance(source, BufferLoad)
            vector = vector_load(source.buffer, source.indices, self.tile.lanes)
            stores.append(vector_store(panel, (k, v * self.tile.lanes), vector))
        return block(stores)

    def row_blocks(
        self, values: dict[Var, PrimExpr], start: PrimExpr, left: PrimExpr | None, panel: Buffer | None
    ) -> Stmt:
        """The loop over blocks of rows, which share the rows out evenly."""
        most = self.tile.rows
        blocks = simplify(ceildiv(self.rows, most))
        if isinstance(self.rows, IntImm) and isinstance(blocks, IntImm):
            if blocks.value == 0:
                return block([])
            base, more = divmod(self.rows.value, blocks.value)
            parts = [
                loop("io", count, lambda io, first=first, height=height: self.tile_of(
                    values, simplify(io * height + first), height, start, left, panel))
                for first, count, height in ((0, more, base + 1), (more * (base + 1), blocks.value - more, base))
                if count
            ]  # fmt: skip
            return block(parts)

        def rows_of(io: Var) -> Stmt:
            base, more = floordiv(self.rows, blocks), floormod(self.rows, blocks)
            first = io * base + minimum(io, more)
            height = base + Select(io < more, const(1, "int64"), const(0, "int64"))
            return let("first", first, lambda row: let("height", height, lambda h: self._of_height(
                values, row, h, most, start, left, panel)))  # fmt: skip

        return loop("io", blocks, rows_of)

    def _of_height(
        self, values: dict[Var, PrimExpr], row: Var, height: Var, most: int, start: PrimExpr,
        left: PrimExpr | None, panel: Buffer | None,
    ) -> Stmt:  # fmt: skip
        """A choice by the number of rows, the greatest first: it is what most blocks have."""
        tile = self.tile_of(values, row, most, start, left, panel)
        if most == 1:
            return tile
        less = self._of_height(values, row, height, most - 1, start, left, panel)
        return IfThenElse(height.equal(most), tile, less)

    # ------------------------------------------------------------------ the register tile

    def tile_of(
        self, values: dict[Var, PrimExpr], row: PrimExpr, height: int, start: PrimExpr,
        left: PrimExpr | None, panel: Buffer | None,
    ) -> Stmt:  # fmt: skip
        """The sums of `height` rows and a panel's columns, kept in registers over the whole depth."""
        lanes = self.tile.lanes
        vectors = self.tile.vectors
        if panel is not None:
            width = panel.shape[1]
            assert isinstance(width, IntImm)
            vectors = width.value // lanes

        def body(acc: Buffer) -> Stmt:
            zero = spread(const(0, self.dtype), lanes)
            places = [(p, v * lanes) for p in range(height) for v in range(vectors)]
            init = [vector_store(acc, place, zero) for place in places]
            sums = loop("k", self.depth, lambda k: self._step(values, acc, row, height, vectors, start, panel, k))
            return block([*init, sums, self._results(values, acc, row, height, vectors, start, left)])

        return alloc("acc", (height, vectors * lanes), self.dtype, "local", body)

    def _step(
        self, values: dict[Var, PrimExpr], acc: Buffer, row: PrimExpr, height: int, vectors: int,
        start: PrimExpr, panel: Buffer | None, k: Var,
    ) -> Stmt:  # fmt: skip
        """One rank-one update of the tile."""
        lanes = self.tile.lanes
        rights = [self._right(values, panel, start, k, v) for v in range(vectors)]
        names = [Var(f"b{v}", right.dtype) for v, right in enumerate(rights)]
        updates: list[Stmt] = []
        for p in range(height):
            left = spread(self.a(values, simplify(row + p), k), lanes)
            for v, right in enumerate(names):
                place = (p, v * lanes)
                updates.append(vector_store(acc, place, Add(vector_load(acc, place, lanes), Mul(left, right))))
        result = block(updates)
        for name, right in zip(reversed(names), reversed(rights), strict=True):
            result = LetStmt(name, right, result)
        return result

    def _right(self, values: dict[Var, PrimExpr], panel: Buffer | None, start: PrimExpr, k: Var, v: int) -> PrimExpr:
        offset = v * self.tile.lanes
        if panel is not None:
            return vector_load(panel, (k, offset), self.tile.lanes)
        source = self.b(values, k, simplify(start + offset))
        assert isinstance(source, BufferLoad)
        return vector_load(source.buffer, source.indices, self.tile.lanes)

    def _results(
        self, values: dict[Var, PrimExpr], acc: Buffer, row: PrimExpr, height: int, vectors: int,
        start: PrimExpr, left: PrimExpr | None,
    ) -> Stmt:  # fmt: skip
        """Store the tile; of a panel that is not whole, through memory, as many columns as there are."""
        if left is not None:
            return self._edge(values, acc, row, height, vectors, start, left)
        out, lanes = self.product.out.buffer, self.tile.lanes
        stores: list[Stmt] = []
        for p in range(height):
            for v in range(vectors):
                place = self.place(values, simplify(row + p), simplify(start + v * lanes))
                stores.append(vector_store(out, place, vector_load(acc, (p, v * lanes), lanes)))
        return block(stores)

    def _edge(
        self, values: dict[Var, PrimExpr], acc: Buffer, row: PrimExpr, height: int, vectors: int,
        start: PrimExpr, left: PrimExpr,
    ) -> Stmt:  # fmt: skip
        lanes, out = self.tile.lanes, self.product.out.buffer

        def body(edge: Buffer) -> Stmt:
            spill: list[Stmt] = [
                vector_store(edge, (p, v * lanes), vector_load(acc, (p, v * lanes), lanes))
                for p in range(height)
                for v in range(vectors)
            ]
            copies = [
                loop("c", left, lambda c, p=p: BufferStore(
                    out, BufferLoad(edge, (int64(p), c)), self.place(values, simplify(row + p), start + c)))
                for p in range(height)
            ]  # fmt: skip
            return block([*spill, *copies])

        return alloc("edge", (height, vectors * lanes), self.dtype, "global", body)


def _size(iter_var: IterVar) -> PrimExpr:
    """The number of values of a variable, as an index."""
    assert iter_var.dom is not None
    return int64(iter_var.dom.extent)


__all__ = ["Product", "Tile", "tile_for"]
