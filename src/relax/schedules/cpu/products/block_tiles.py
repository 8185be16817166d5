"""Products of blocks with many rows: some panels of weights become bytes in the near cache, which tiles of rows read.

    bytes[k, j], steps[g, j], scales[b, j], minima[b, j] = panels           once for all rows of a task
    for each tile of rows:
        for b in range(blocks):
            for g in range(groups):                            integers in registers
                sums[r, j] = start[r, g] + Σ bytes[k, j] · x[r, k]
                totals[r, j] += steps[g, j] · sums[r, j]
            acc[r, j] += scales[b, j] · scale of x[r, b] · float(totals[r, j])  (and the minimum)

In formats with one group a block, `totals` is `sums`. Integers are exact, and floats are added in the order of
`block_streams`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ....prim import PrimExpr, Var, simplify
from ....prim.instructions import dot
from ....prim.intrin import min as minimum
from ....runtime.records import dataclass
from ....target import Target
from ....tir import Buffer, BufferLoad, Stmt
from ...build import alloc, block, int64, loop, scratches, vector_load, vector_store
from .block_words import CHUNK, VECTORS_OF_CHUNK, BlockWords, Names, Sums, Tables, pair


def tile_shapes(target: Target) -> list[tuple[int, int]]:
    """Return rows and vectors of tiles, the best first: their integer and float sums, a row of vectors, and two more
    vectors fit the registers.
    """
    registers = target.machine.vector_registers
    shapes = [(r, v) for r in range(1, 7) for v in range(1, 5) if 2 * r * v + v + 2 <= registers]
    return sorted(shapes, key=lambda shape: (-shape[0] * shape[1], abs(shape[0] - shape[1] - 1)))


@dataclass(frozen=True)
class Bytes:
    """Some panels with numbers as bytes, four in a lane, and the scales of blocks as floats."""

    words: Buffer
    """int32, (depth / 4, width)."""
    scales: Buffer
    """float32, (blocks, width)."""
    minima: Buffer | None
    """float32, (blocks, width), with the sign with which they are added."""
    steps: Buffer | None
    """int32, (groups, width): steps of the scales."""
    minimum_steps: Buffer | None
    """int32, (groups / 2, width): pairs of int16, steps of the minima of two groups; (blocks, width): steps of one."""
    vectors: int


@dataclass(frozen=True)
class _Tile:
    """A tile of rows from row `start` on: what it reads, and its sums."""

    tables: Tables
    panel: Bytes
    start: PrimExpr
    rows: int
    acc: Buffer
    """float32, (rows, width)."""
    sums: Buffer
    """int32, (rows, width): sums of a group."""
    totals: Buffer
    """int32, (rows, width): sums of a block, times their steps; `sums` in blocks of one group."""

    def row(self, p: int) -> PrimExpr:
        """Row of x."""
        return simplify(self.start + p)


class BlockTiles(BlockWords):
    """Writes products with many rows."""

    # ------------------------------------------------------------------------------------ bytes

    def unpacked(
        self, weights: Buffer, first: PrimExpr, vectors: int, blocks: int, panels: int, body: Callable[[Bytes], Stmt]
    ) -> Stmt:
        """Call `body` with panels `first` … whose numbers have become bytes; those past the last are the last."""
        width = vectors * self.lanes
        sizes = {"words": (blocks * self.elements // 4, "int32"), "scales": (blocks, "float32")}
        if self.has_minimum:
            sizes["minima"] = blocks, "float32"
        if self.groups > 1:
            sizes["steps"] = blocks * self.groups, "int32"
        if self.has_minimum_steps:
            sizes["minimum_steps"] = blocks * max(self.groups // 2, 1), "int32"

        def filled(held: Bytes) -> Stmt:
            def panel(v: int) -> Stmt:
                number = simplify(first + v)
                if panels % vectors:
                    number = simplify(minimum(number, int64(panels - 1)))
                return loop("b", blocks, lambda b: self._unpacked_unit(held, weights, number, b, v * self.lanes))

            return block([*(panel(v) for v in range(vectors)), body(held)])

        def body_of(held: Mapping[str, Buffer]) -> Stmt:
            minima, steps, minimum_steps = map(held.get, ("minima", "steps", "minimum_steps"))
            return filled(Bytes(held["words"], held["scales"], minima, steps, minimum_steps, vectors))

        return scratches({name: ((size, width), dtype) for name, (size, dtype) in sizes.items()}, body_of)

    def _unpacked_unit(self, held: Bytes, weights: Buffer, panel: PrimExpr, b: Var, column: int) -> Stmt:
        """Store the bytes, scales, minima and steps of a block of a panel."""
        unit = simplify(b * self.packed.unit)
        stmts = [vector_store(held.scales, (b, column), self.floats(weights, panel, unit))]
        if held.minima is not None:
            stmts.append(vector_store(held.minima, (b, column), self.minima(weights, panel, unit)))
        for g in range(self.groups):
            if held.steps is not None:
                place = simplify(b * self.groups + g), column
                stmts.append(vector_store(held.steps, place, self.steps(weights, panel, unit, int64(g))))
            if held.minimum_steps is not None and self.groups == 1:
                step = self.steps(weights, panel, unit, int64(g), True)
                stmts.append(vector_store(held.minimum_steps, (b, column), step))
            elif held.minimum_steps is not None and g % 2:
                low, high = (self.steps(weights, panel, unit, int64(g - d), True) for d in (1, 0))
                place = simplify(b * (self.groups // 2) + g // 2), column
                stmts.append(vector_store(held.minimum_steps, place, pair(low, high)))

        def chunk(c: PrimExpr) -> Stmt:
            inner = Names()
            start = simplify(b * (self.elements // 4) + c * VECTORS_OF_CHUNK)
            numbers = self.numbers(inner, weights, panel, unit, c)
            return inner.around(*(
                vector_store(held.words, (simplify(start + k), column), number) for k, number in enumerate(numbers)
            ))  # fmt: skip

        chunks = self.elements // CHUNK
        return block([*stmts, chunk(int64(0)) if chunks == 1 else loop("c", chunks, chunk)])

    # ------------------------------------------------------------------------------------ tiles

    def tile(self, tables: Tables, panel: Bytes, start: PrimExpr, rows: int, body: Callable[[Sums], Stmt]) -> Stmt:
        """Sum the products of some rows, from row `start` on, with panels of bytes; call `body` with the sums."""
        shape = (rows, panel.vectors * self.lanes)

        def summed(acc: Buffer, sums: Buffer, totals: Buffer) -> Stmt:
            held = _Tile(tables, panel, start, rows, acc, sums, totals)

            def one(b: Var) -> Stmt:
                if self.groups == 1:
                    return block([self._group(held, b), self._with_block(held, b)])
                groups = loop("g", self.groups, lambda g: self._group(held, simplify(b * self.groups + g)))
                return block([self.zeros(totals, rows, panel.vectors), groups, self._with_block(held, b)])

            blocks = loop("b", tables.blocks, one)
            return block([self.zeros(acc, rows, panel.vectors), blocks, body(Sums(acc, rows, self.lanes))])

        def with_sums(acc: Buffer, sums: Buffer) -> Stmt:
            if self.groups == 1:
                return summed(acc, sums, sums)
            return alloc("totals", shape, "int32", "local", lambda totals: summed(acc, sums, totals))

        return alloc("acc", shape, "float32", "local", lambda acc: alloc(
            "sums", shape, "int32", "local", lambda sums: with_sums(acc, sums)))  # fmt: skip

    def _places(self, held: _Tile) -> list[tuple[int, int]]:
        return [(p, v * self.lanes) for p in range(held.rows) for v in range(held.panel.vectors)]

    def _with_block(self, held: _Tile, b: Var) -> Stmt:
        """Add the integer sums of a block, of numbers and of minima, times their scales, to the float sums."""
        panel, tables, lanes = held.panel, held.tables, self.lanes
        names, columns = Names(), [v * lanes for v in range(panel.vectors)]
        scales = [names.of(f"scale{c // lanes}", vector_load(panel.scales, (b, c), lanes)) for c in columns]
        minima: list[PrimExpr] = []
        if panel.minima is not None:
            minima = [names.of(f"minimum{c // lanes}", vector_load(panel.minima, (b, c), lanes)) for c in columns]

        def taken_at(row: PrimExpr, p: int, c: int) -> PrimExpr:
            steps, sums = panel.minimum_steps, tables.sums
            if self.groups > 1:
                return vector_load(held.sums, (p, c), lanes)
            assert steps is not None
            assert sums is not None
            return vector_load(steps, (b, c), lanes) * self.wide(BufferLoad(sums, (row, b)))

        def of_row(p: int) -> Stmt:
            inner, row = Names(), held.row(p)
            of_x = self.wide(inner.of("of_x", BufferLoad(tables.scales, (row, b))))
            taken = None
            if panel.minima is not None and panel.minimum_steps is None:
                assert tables.sums is not None
                taken = self.wide(inner.of("taken", BufferLoad(tables.sums, (row, b))))
            stmts: list[Stmt] = []
            for v, c in enumerate(columns):
                before = inner.of("before", vector_load(held.acc, (p, c), lanes))
                value = self.fused(before, self.float(vector_load(held.totals, (p, c), lanes)), scales[v] * of_x)
                if taken is not None:
                    value = self.fused(value, minima[v], taken)
                elif panel.minimum_steps is not None:
                    value = self.fused(value, self.float(taken_at(row, p, c)), minima[v] * of_x)
                stmts.append(vector_store(held.acc, (p, c), value))
            return inner.around(*stmts)

        finished = names.around(*(of_row(p) for p in range(held.rows)))
        return block([self._sum_minima(held, b), finished]) if tables.pairs is not None else finished

    def _sum_minima(self, held: _Tile, b: Var) -> Stmt:
        """Store Σ step of the minimum · Σ x over the groups of block `b` in `held.sums`, two groups a dot product."""
        steps, pairs, lanes = held.panel.minimum_steps, held.tables.pairs, self.lanes
        assert steps is not None
        assert pairs is not None

        def of_pair(k: Var) -> Stmt:
            place, names = simplify(b * (self.groups // 2) + k), Names()
            columns = [v * lanes for v in range(held.panel.vectors)]
            held_steps = [names.of(f"step{c // lanes}", vector_load(steps, (place, c), lanes)) for c in columns]
            stmts: list[Stmt] = []
            for p in range(held.rows):
                inner = Names()
                x = inner.of("x", self.wide(BufferLoad(pairs, (held.row(p), place))))
                stmts.append(inner.around(*(
                    vector_store(held.sums, (p, c), dot("s16s16", vector_load(held.sums, (p, c), lanes), step, x))
                    for c, step in zip(columns, held_steps, strict=True)
                )))  # fmt: skip
            return names.around(*stmts)

        zeros = self.zeros(held.sums, held.rows, held.panel.vectors)
        return block([zeros, loop("k", self.groups // 2, of_pair)])

    def _group(self, held: _Tile, g: PrimExpr) -> Stmt:
        """Sum the products of a group; add them, times their steps, to the sums of its block."""
        begun = [
            vector_store(held.sums, (p, c), self.start(held.tables, held.row(p), g)) for p, c in self._places(held)
        ]
        first = simplify(g * self.group)
        if self.group <= CHUNK:
            steps = [self._step(held, simplify(first + 4 * k)) for k in range(self.group // 4)]
        else:
            steps = [loop("c", self.group // CHUNK, lambda c: block(
                self._step(held, simplify(first + c * CHUNK + 4 * k)) for k in range(VECTORS_OF_CHUNK)))]  # fmt: skip
        if held.panel.steps is None:
            return block([*begun, *steps])
        names, lanes = Names(), self.lanes
        factors = {
            c: names.of(f"step{c // lanes}", vector_load(held.panel.steps, (g, c), lanes))
            for c in (v * lanes for v in range(held.panel.vectors))
        }
        finished = names.around(*(
            vector_store(held.totals, (p, c), vector_load(held.totals, (p, c), lanes)
            + vector_load(held.sums, (p, c), lanes) * factors[c]) for p, c in self._places(held)
        ))  # fmt: skip
        return block([*begun, *steps, finished])

    def _step(self, held: _Tile, place: PrimExpr) -> Stmt:
        """Add the products of the four numbers from `place` on of each row and column to the integer sums."""
        names, panel, sums = Names(), held.panel, held.sums
        columns = [v * self.lanes for v in range(panel.vectors)]
        words = [
            names.of(f"b{c // self.lanes}", vector_load(panel.words, (simplify(place // 4), c), self.lanes))
            for c in columns
        ]
        stmts: list[Stmt] = []
        for p in range(held.rows):
            inner = Names()
            x = inner.of("x", self.word(held.tables, held.row(p), place))
            stmts.append(inner.around(*(
                vector_store(sums, (p, c), self.added(vector_load(sums, (p, c), self.lanes), word, x))
                for c, word in zip(columns, words, strict=True)
            )))  # fmt: skip
        return names.around(*stmts)


__all__ = ["BlockTiles", "Bytes", "tile_shapes"]
