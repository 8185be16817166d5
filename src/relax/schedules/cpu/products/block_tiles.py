"""Products of blocks with many rows: some panels of weights become bytes in the near cache, which tiles of rows read.

    bytes[k, j], scales[g, j], minima[g, j] = panels           once for all rows of a task
    for each tile of rows:
        for b in range(blocks):
            for g in range(groups):                            sums of a group: integers in registers
                sums[r, j] = start[r, g] + Σ bytes[k, j] · x[r, k]
                part[r, j] += scales[g, j] · float(sums[r, j])  (and the minimum)
            acc[r, j] += scale of x[r, b] · part[r, j]

In formats with one group a block, both factors are multiplied first, and `part` is `acc`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ....prim import PrimExpr, Var, const, simplify
from ....prim.intrin import min as minimum
from ....runtime.records import dataclass
from ....target import Target
from ....tir import Buffer, BufferLoad, Stmt
from ...build import alloc, block, int64, loop, scratch, vector_load, vector_store
from .block_words import CHUNK, VECTORS_OF_CHUNK, BlockWords, Names, Sums, Tables


def tile_shapes(target: Target) -> list[tuple[int, int]]:
    """Return rows and vectors of tiles, the best first: their integer and float sums, a row of vectors, and two more
    vectors fit the registers.
    """
    registers = target.machine.vector_registers
    shapes = [(r, v) for r in range(1, 7) for v in range(1, 5) if 2 * r * v + v + 2 <= registers]
    return sorted(shapes, key=lambda shape: (-shape[0] * shape[1], abs(shape[0] - shape[1] - 1)))


@dataclass(frozen=True)
class Bytes:
    """Some panels with numbers as bytes, four in a lane, and the scales of groups as floats."""

    words: Buffer
    """int32, (depth / 4, width)."""
    scales: Buffer
    """float32, (groups, width)."""
    minima: Buffer | None
    """float32, (groups, width), with the sign with which they are added."""
    vectors: int


@dataclass(frozen=True)
class _Tile:
    """A tile of rows from row `start` on: what it reads, and its sums."""

    tables: Tables
    panel: Bytes
    start: PrimExpr
    rows: int
    sums: Buffer
    """int32, (rows, width)."""
    parts: Buffer
    """float32, (rows, width): sums of a block, or all."""

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
        shape = (blocks * self.groups, width)

        def filled(held: Bytes) -> Stmt:
            def panel(v: int) -> Stmt:
                number = simplify(first + v)
                if panels % vectors:
                    number = simplify(minimum(number, int64(panels - 1)))
                return loop("b", blocks, lambda b: self._unpacked_unit(held, weights, number, b, v * self.lanes))

            return block([*(panel(v) for v in range(vectors)), body(held)])

        def with_scales(words: Buffer, scales: Buffer) -> Stmt:
            if not self.has_minimum:
                return filled(Bytes(words, scales, None, vectors))
            return scratch("minima", shape, "float32", lambda minima: filled(Bytes(words, scales, minima, vectors)))

        return scratch("bytes", (blocks * self.elements // 4, width), "int32", lambda words: scratch(
            "group_scales", shape, "float32", partial(with_scales, words)))  # fmt: skip

    def _unpacked_unit(self, held: Bytes, weights: Buffer, panel: PrimExpr, b: Var, column: int) -> Stmt:
        """Store the bytes, scales and minima of a block of a panel."""
        unit, names = simplify(b * self.packed.unit), Names()
        scale = names.of("scale", self.floats(weights, panel, unit))
        least = names.of("minimum", self.floats(weights, panel, unit, True)) if self.has_minimum else None
        stmts: list[Stmt] = []
        for g in range(self.groups):
            place = (simplify(b * self.groups + g), column)
            value = scale
            if self.has_steps:
                value = scale * self.float(self.steps(weights, panel, unit, int64(g)))
            stmts.append(vector_store(held.scales, place, value))
            if least is not None and held.minima is not None:
                taken = least
                if self.has_minimum_steps:
                    step = self.float(self.steps(weights, panel, unit, int64(g), True))
                    taken = least * (self.wide(const(0.0, "float32")) - step)
                stmts.append(vector_store(held.minima, place, taken))

        def chunk(c: PrimExpr) -> Stmt:
            inner = Names()
            start = simplify(b * (self.elements // 4) + c * VECTORS_OF_CHUNK)
            numbers = self.numbers(inner, weights, panel, unit, c)
            return inner.around(*(
                vector_store(held.words, (simplify(start + k), column), number) for k, number in enumerate(numbers)
            ))  # fmt: skip

        chunks = self.elements // CHUNK
        stmts.append(chunk(int64(0)) if chunks == 1 else loop("c", chunks, chunk))
        return names.around(*stmts)

    # ------------------------------------------------------------------------------------ tiles

    def tile(self, tables: Tables, panel: Bytes, start: PrimExpr, rows: int, body: Callable[[Sums], Stmt]) -> Stmt:
        """Sum the products of some rows, from row `start` on, with panels of bytes; call `body` with the sums."""
        shape = (rows, panel.vectors * self.lanes)

        def summed(acc: Buffer, sums: Buffer, parts: Buffer) -> Stmt:
            held = _Tile(tables, panel, start, rows, sums, parts)

            def one(b: Var) -> Stmt:
                if self.groups == 1:
                    return self._group(held, b, b)
                groups = loop("g", self.groups, lambda g: self._group(held, b, simplify(b * self.groups + g)))
                return block([self.zeros(parts, rows, panel.vectors), groups, self._with_block(held, acc, b)])

            blocks = loop("b", tables.blocks, one)
            return block([self.zeros(acc, rows, panel.vectors), blocks, body(Sums(acc, rows, self.lanes))])

        def with_sums(acc: Buffer, sums: Buffer) -> Stmt:
            if self.groups == 1:
                return summed(acc, sums, acc)
            return alloc("parts", shape, "float32", "local", lambda parts: summed(acc, sums, parts))

        return alloc("acc", shape, "float32", "local", lambda acc: alloc(
            "sums", shape, "int32", "local", lambda sums: with_sums(acc, sums)))  # fmt: skip

    def _places(self, held: _Tile) -> list[tuple[int, int]]:
        return [(p, v * self.lanes) for p in range(held.rows) for v in range(held.panel.vectors)]

    def _with_block(self, held: _Tile, acc: Buffer, b: Var) -> Stmt:
        """Add the sums of a block, times the scales of x, to all sums."""
        stmts: list[Stmt] = []
        for p, c in self._places(held):
            of_x = self.wide(BufferLoad(held.tables.scales, (held.row(p), b)))
            part = vector_load(held.parts, (p, c), self.lanes)
            stmts.append(vector_store(acc, (p, c), vector_load(acc, (p, c), self.lanes) + part * of_x))
        return block(stmts)

    def _group(self, held: _Tile, b: Var, g: PrimExpr) -> Stmt:
        """Add the products of a group, times its scales, to the sums of its block."""
        begun = [
            vector_store(held.sums, (p, c), self.start(held.tables, held.row(p), g)) for p, c in self._places(held)
        ]
        first = simplify(g * self.group)
        if self.group <= CHUNK:
            steps = [self._step(held, simplify(first + 4 * k)) for k in range(self.group // 4)]
        else:
            steps = [loop("c", self.group // CHUNK, lambda c: block(
                self._step(held, simplify(first + c * CHUNK + 4 * k)) for k in range(VECTORS_OF_CHUNK)))]  # fmt: skip
        names, panel = Names(), held.panel
        vectors = range(panel.vectors)
        scales = [names.of(f"scale{v}", vector_load(panel.scales, (g, v * self.lanes), self.lanes)) for v in vectors]
        minima: list[PrimExpr] = []
        if panel.minima is not None:
            least = panel.minima
            minima = [names.of(f"minimum{v}", vector_load(least, (g, v * self.lanes), self.lanes)) for v in vectors]
        finished = [self._scaled(held, b, g, p, scales, minima) for p in range(held.rows)]
        return block([*begun, *steps, names.around(*finished)])

    def _scaled(self, held: _Tile, b: Var, g: PrimExpr, p: int, scales: list[PrimExpr], minima: list[PrimExpr]) -> Stmt:
        """Add the integer sums of a group of one row, times its scales, to the sums of its block."""
        names, tables, row = Names(), held.tables, held.row(p)
        of_x = names.of("of_x", BufferLoad(tables.scales, (row, b))) if self.groups == 1 else None
        taken = None
        if tables.sums is not None:
            taken = BufferLoad(tables.sums, (row, g))
            if self.has_minimum_steps:
                taken = taken.astype("float32") if of_x is None else taken.astype("float32") * of_x
            taken = names.of("taken", taken)
        stmts: list[Stmt] = []
        for v, scale in enumerate(scales):
            place = (p, v * self.lanes)
            factor = scale if of_x is None else scale * self.wide(of_x)
            value = vector_load(held.parts, place, self.lanes)
            value = value + self.float(vector_load(held.sums, place, self.lanes)) * factor
            if taken is not None:
                value = value + minima[v] * self.wide(taken)
            stmts.append(vector_store(held.parts, place, value))
        return names.around(*stmts)

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
