"""Products of matrices, of float32 or float64: register tiles over packed panels.

    for i, j, k in T.grid(M, N, K):          for task in T.parallel(groups * panels):     a panel of 64 columns and rows
        with T.block("C"):                       P = T.alloc_buffer((K, 64))              copied
            with T.init():                       for io in range(blocks):                 rows, six at a time
                C[i, j] = 0                          acc = T.alloc_buffer((6, 64), scope="local")      in registers
            C[i, j] += A[i, k] * B[k, j]             for k in range(K):
                                                         acc[p, :] += A[row + p, k] * P[k, :]   for p in 0 .. 5
    for i, j in T.grid(M, N):                        D[row + p, jo * 64 + :] = f(acc[p, :])
        with T.block("D"):
            D[i, j] = f(C[i, j])             C is no longer in memory

The tile has as many rows and columns as there are registers for (6 × 4 vectors with 32 of them); `tiling` deals rows
and columns out among tiles and threads. The last panel is filled up with zeros, and only its columns in the matrix are
stored. With few rows, copying costs more than it brings: the panels are read where they are. What a tile reads and
writes are views (`tile_view`), so that only their places depend on sizes, and not each index.

Register-blocked outer products over packed panels are those of K. Goto and R. van de Geijn, *Anatomy of
High-Performance Matrix Multiplication*, 2008, without cache blocking of k: a panel of 64 columns stays in the
second-level cache for the depths that occur.

Refused: other dtypes, a function that does not promise that its arguments are apart (tir.noalias), several variables
for the columns, and products that are small.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from ...prim import LT, Add, IntImm, Mul, PrimExpr, Var, const, is_const, simplify
from ...prim.intrin import floordiv, floormod
from ...prim.intrin import min as minimum
from ...target import Target
from ...tir import Buffer, BufferLoad, DeclBuffer, ForKind, IfThenElse, LetStmt, PrimFunc, Stmt
from ..build import alloc, block, digits, int64, let, loop, named, ramp, spread, vector_load, vector_store
from ..contraction import size_of
from ..rule import ScheduleRule
from .operands import Matrices, Results, Values, rewritten_products, tile_view
from .tiling import FEW_ROWS, Segment, Tile, blocks, groups, tile_for, with_panels

UNPACKED_ROWS: Final = 24
"""With fewer rows than this, copying a panel takes longer than it saves."""
ROWS_OF_A_GROUP: Final = 96
"""The rows that share a copy of a panel: copying it takes a few hundredths of the time of their tiles."""


class Product(ScheduleRule):
    """The rule for products of matrices."""

    def apply(self, func: PrimFunc, target: Target, tunable: bool) -> PrimFunc | None:
        del tunable
        return rewritten_products(func, lambda operands: tiled(operands, target))


def tiled(operands: Matrices, target: Target) -> Stmt:
    """A product in register tiles."""
    return _Writer(operands, tile_for(target, operands.total.dtype.bits), target.num_cores).tasks()


@dataclass(frozen=True)
class _Panel:
    """Columns, for values of the batch: the first one, how many are in the matrix, their vectors, and what is read."""

    values: Values
    start: PrimExpr
    inside: PrimExpr | None
    """None: all."""
    vectors: int
    source: Buffer
    """The columns, (depth, width): a copy, or a view of the matrix."""
    is_copy: bool


@dataclass(frozen=True)
class _Group:
    """Blocks of rows: from which of the whole ones on, up to which; and a condition for those behind the whole ones."""

    begin: PrimExpr
    end: PrimExpr
    is_last: PrimExpr | None
    """None: always."""


class _Writer:
    """Writes the loops of one product."""

    def __init__(self, operands: Matrices, tile: Tile, cores: int) -> None:
        self.operands, self.tile, self.cores = operands, tile, cores
        self.dtype = str(operands.total.dtype)
        self.vector = str(operands.total.dtype.with_lanes(tile.lanes))
        self.rows, self.columns, self.depth = operands.rows, operands.columns, operands.depth
        few = isinstance(self.rows, IntImm) and self.rows.value < FEW_ROWS
        self.whole = int64(0) if few else simplify(floordiv(self.rows, tile.rows))
        """The number of blocks of the tile's full height, which groups share."""
        self.is_exact = is_const(simplify(floormod(self.columns, tile.lanes)), 0)
        """True if no vector reaches beyond the last column."""

    # ------------------------------------------------------------------ tasks

    def tasks(self) -> Stmt:
        """The parallel loop over the batch, groups of rows, and panels of columns."""
        batch = [size_of(v) for v in self.operands.batch]
        names = [*(v.var.name for v in self.operands.batch), "go", "jo"]

        def counted(segments: list[Segment], count: PrimExpr) -> Stmt:
            others = _product([*batch, count])
            number = groups(self.whole, others, ROWS_OF_A_GROUP // self.tile.rows, self.cores)
            return named("groups", number, lambda number: parallel(segments, [*batch, number, count]))

        def parallel(segments: list[Segment], sizes: list[PrimExpr]) -> Stmt:
            def task(var: Var) -> Stmt:
                return digits(var, names, sizes, lambda parts: self._task(segments, parts, sizes[-2]))

            return loop("task", _product(sizes), task, ForKind.PARALLEL)

        return self.operands.declared(with_panels(self.columns, self.tile, counted))

    def _task(self, segments: list[Segment], parts: list[PrimExpr], number: PrimExpr) -> Stmt:
        """A group of rows of one panel."""
        *outer, go, jo = parts
        values = dict(zip((v.var for v in self.operands.batch), outer, strict=True))

        def panel(group: _Group) -> Stmt:
            first, *rest = segments
            result = self._panel(values, first, jo, group)
            for segment in rest:
                other = self._panel(values, segment, jo - first.count, group)
                result = IfThenElse(LT(jo, first.count), result, other)
            return result

        if not segments:
            return block([])
        if is_const(number, 1):
            return panel(_Group(int64(0), self.whole, None))
        share = floordiv(self.whole + (number - 1), number)
        return let("share", share, lambda share: let(
            "begin", minimum(go * share, self.whole), lambda begin: let(
                "end", minimum(begin + share, self.whole), lambda end: panel(
                    _Group(begin, end, go.equal(number - 1))))))  # fmt: skip

    # ------------------------------------------------------------------ panels

    def _panel(self, values: Values, segment: Segment, jo: PrimExpr, group: _Group) -> Stmt:
        """All rows of a group, after the panel is copied unless they are few."""
        lanes, vectors = self.tile.lanes, segment.size
        width = int64(vectors * lanes)
        start = simplify((segment.start + jo * vectors) * lanes)

        def inside(number: PrimExpr | None) -> Stmt:
            if self._reads_in_place():
                return self._in_place(
                    values, start, vectors, width if number is None else number, number, group
                )

            def copied(buffer: Buffer) -> Stmt:
                panel = _Panel(values, start, number, vectors, buffer, True)
                return block([self._pack(panel), self._rows(panel, group)])

            return alloc("panel", (self.depth, width), self.dtype, "global", copied)

        if self.is_exact:
            return inside(None)
        return named("inside", simplify(minimum(width, self.columns - start)), inside)

    def _reads_in_place(self) -> bool:
        """True if the rows are too few for copies, and vectors of columns can be read where they are."""
        right = self.operands.right
        contiguous = right is not None and right.indices[-1] is self.operands.column
        return contiguous and isinstance(self.rows, IntImm) and self.rows.value < UNPACKED_ROWS

    def _in_place(
        self, values: Values, start: PrimExpr, vectors: int, width: PrimExpr, inside: PrimExpr | None, group: _Group
    ) -> Stmt:  # fmt: skip
        view = self._columns_of_right(values, start, width)
        panel = _Panel(values, start, inside, vectors, view, False)
        return DeclBuffer(view, self._rows(panel, group))

    def _columns_of_right(self, values: Values, start: PrimExpr, width: PrimExpr) -> Buffer:
        operands = self.operands
        assert operands.right is not None
        return tile_view(
            operands.right,
            {**values, operands.column: start},
            ((operands.k, self.depth), (operands.column, width)),
        )

    def _pack(self, panel: _Panel) -> Stmt:
        """Copy the columns of a panel; those beyond the matrix become 0."""
        right = self.operands.right
        if right is None or right.indices[-1] is not self.operands.column:
            return self.operands.pack(panel.values, panel.source, panel.start, panel.inside)
        width = panel.source.shape[1] if panel.inside is None else panel.inside
        view = self._columns_of_right(panel.values, panel.start, width)

        def copied(k: Var) -> Stmt:
            return self._each_vector(panel, lambda c: vector_store(
                panel.source, (k, c), self._loaded(view, (k, c), panel.inside)))  # fmt: skip

        return DeclBuffer(view, loop("k", self.depth, copied))

    def _each_vector(self, panel: _Panel, body: Callable[[PrimExpr], Stmt]) -> Stmt:
        """A statement for each vector of a panel, told its first column."""
        return loop("v", panel.vectors, lambda v: body(v * self.tile.lanes), ForKind.UNROLLED)

    def _loaded(self, buffer: Buffer, place: tuple[PrimExpr, PrimExpr], inside: PrimExpr | None) -> PrimExpr:
        """A vector of sums' dtype, 0 in the columns that are not in the matrix."""
        loaded = vector_load(buffer, place, self.tile.lanes, self._mask(place[1], inside))
        return loaded.astype(self.vector)

    def _mask(self, column: PrimExpr, inside: PrimExpr | None) -> PrimExpr | None:
        """The lanes of a vector that are in the matrix."""
        return None if inside is None else LT(ramp(column, self.tile.lanes), spread(inside, self.tile.lanes))

    # ------------------------------------------------------------------ rows

    def _rows(self, panel: _Panel, group: _Group) -> Stmt:
        """The tiles of a group of rows."""
        if isinstance(self.rows, IntImm):
            segments = blocks(self.rows.value, self.tile)
            if group.is_last is None:
                return block(self._blocks(panel, s.start, s.count, s.size) for s in segments)
            tail = [self._blocks(panel, s.start, s.count, s.size) for s in segments[1:]]
        else:
            tail = [self._tail(panel)]
        most = self.tile.rows
        whole = self._blocks(panel, group.begin * most, group.end - group.begin, most)
        if tail and group.is_last is not None:
            tail = [IfThenElse(group.is_last, block(tail))]
        return block([whole, *tail])

    def _blocks(self, panel: _Panel, start: PrimExpr, count: PrimExpr, height: int) -> Stmt:
        """Blocks of one height that follow each other."""
        return loop("io", simplify(count), lambda io: let(
            "first", simplify(start + io * height), lambda first: self._tile(panel, first, height)))  # fmt: skip

    def _tail(self, panel: _Panel) -> Stmt:
        """The rows behind the last whole block, of an unknown number: for each bit of it a tile.

        A narrow panel, of which there are few, takes them one by one: less to compile.
        """
        first, stmts = simplify(self.whole * self.tile.rows), list[Stmt]()
        left = floormod(self.rows, self.tile.rows)
        if panel.vectors < self.tile.vectors:
            return self._blocks(panel, first, left, 1)
        for height in (4, 2, 1):
            rest = left if height == 4 else floormod(left, 2 * height)
            tile = let("first", first, partial(self._tile, panel, height=height))
            stmts.append(IfThenElse(rest >= height, tile))
            first = first + floordiv(rest, height) * height
        return block(stmts)

    # ------------------------------------------------------------------ the register tile

    def _tile(self, panel: _Panel, first: PrimExpr, height: int) -> Stmt:
        """The results of some rows and a panel's columns; the sums are kept in registers over the whole depth."""
        operands, lanes = self.operands, self.tile.lanes
        width = panel.vectors * lanes
        at = {**panel.values, operands.row: first, operands.column: panel.start}
        left = tile_view(operands.left, at, ((operands.row, int64(height)), (operands.k, self.depth)))

        def body(acc: Buffer) -> Stmt:
            zero = spread(const(0, self.dtype), lanes)
            init = self._each_row(
                height, lambda p: self._each_vector(panel, lambda c: vector_store(acc, (p, c), zero))
            )
            sums = alloc("right", (width,), self.dtype, "local", lambda right: loop(
                "k", self.depth, lambda k: self._step(panel, acc, left, right, k, height)))  # fmt: skip
            return block([init, DeclBuffer(left, sums), self._results(panel, acc, at, height)])

        return alloc("acc", (height, width), self.dtype, "local", body)

    def _each_row(self, height: int, body: Callable[[Var], Stmt]) -> Stmt:
        return loop("p", height, body, ForKind.UNROLLED)

    def _step(self, panel: _Panel, acc: Buffer, left: Buffer, right: Buffer, k: Var, height: int) -> Stmt:
        """One rank-one update of the tile: the vectors of the panel stay in registers, then row after row."""
        lanes = self.tile.lanes
        inside = None if panel.is_copy else panel.inside
        rights = self._each_vector(
            panel, lambda c: vector_store(right, (c,), self._loaded(panel.source, (k, c), inside))
        )

        def row(p: Var) -> Stmt:
            element = Var("a", self.vector)
            value = spread(BufferLoad(left, (p, k)).astype(self.dtype), lanes)

            def update(c: PrimExpr) -> Stmt:
                term = Mul(element, vector_load(right, (c,), lanes))
                return vector_store(acc, (p, c), Add(vector_load(acc, (p, c), lanes), term))

            return LetStmt(element, value, self._each_vector(panel, update))

        return block([rights, self._each_row(height, row)])

    def _results(self, panel: _Panel, acc: Buffer, at: Values, height: int) -> Stmt:
        """Store the columns of a tile that are in the matrix."""
        lanes = self.tile.lanes
        width = int64(panel.vectors * lanes) if panel.inside is None else panel.inside
        result = Results(self.operands, at, int64(height), width)

        def plain(p: Var, c: PrimExpr) -> Stmt:
            mask = self._mask(c, panel.inside)
            return vector_store(result.out, result.place(p, c), vector_load(acc, (p, c), lanes), mask)

        def made(p: Var, c: PrimExpr) -> Stmt:
            def lane(x: Var) -> Stmt:
                stored = result.made(p, c + x, BufferLoad(acc, (p, c + x)))
                return stored if panel.inside is None else IfThenElse(c + x < panel.inside, stored)

            return loop("x", lanes, lane, ForKind.VECTORIZED)

        store = plain if result.is_sum else made
        return result.declared(
            self._each_row(height, lambda p: self._each_vector(panel, lambda c: store(p, c)))
        )


def _product(sizes: Sequence[PrimExpr]) -> PrimExpr:
    total: PrimExpr = int64(1)
    for size in sizes:
        total = total * size
    return simplify(total)


__all__ = ["Product", "Tile", "tile_for", "tiled"]
