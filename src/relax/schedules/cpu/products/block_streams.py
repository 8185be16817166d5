"""Products of blocks with few rows: one stream of weights, and a vector of sums for each row.

    for b in range(blocks):
        for c in range(chunks):                                   1, or 8 in blocks of 256 numbers
            n0 … n7 = bytes of 32 numbers                         of 16 rows of weights, a lane each
            totals[r] += step · (start + dots of n0 … n7 and x[r])          integers, exact
        acc[r] += scale · scale of x[r] · float(totals[r])  (and the minimum)

Loops over rows r are unrolled; the eight vectors of bytes stay in registers for all rows. Several rows prefetch the
next panel meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ....prim import PrimExpr, Var, simplify
from ....prim.intrin import floordiv
from ....runtime.records import dataclass
from ....tir import Buffer, BufferLoad, Stmt
from ...build import alloc, block, int64, loop, vector_load, vector_store
from ..tile.operands import prefetched
from .block_words import CHUNK, BlockWords, Names, Sums, Tables

ROWS_THAT_PREFETCH: Final = 4
"""Fewest rows that prefetch the next panel: with fewer, hardware prefetching keeps up, as nothing but memory is waited
for.
"""
WORDS_OF_LINE: Final = 16
"""32-bit words of a cache line."""


@dataclass(frozen=True)
class _Panel:
    """A panel of weights, the rows of x, and their sums."""

    tables: Tables
    weights: Buffer
    number: PrimExpr
    first: PrimExpr
    """First row of x."""
    rows: int
    acc: Buffer
    """float32, (rows, lanes)."""
    totals: Buffer | None
    """int32, (rows, lanes): sums of a block of several chunks."""
    least: Buffer | None
    """int32, (rows, lanes): sums of a block's x times the steps of its minima."""

    def row(self, r: int) -> PrimExpr:
        """Row of x."""
        return simplify(self.first + r)


class BlockStreams(BlockWords):
    """Writes products with few rows."""

    def streamed(
        self, tables: Tables, weights: Buffer, panel: PrimExpr, first: PrimExpr, rows: int,
        body: Callable[[Sums], Stmt],
    ) -> Stmt:  # fmt: skip
        """Sum the products of a panel for `rows` rows from row `first` on, and call `body` with the sums."""
        several = self.elements > CHUNK
        shape = (rows, self.lanes)

        def summed(acc: Buffer, totals: Buffer | None, least: Buffer | None) -> Stmt:
            held = _Panel(tables, weights, panel, first, rows, acc, totals, least)
            blocks = loop("b", tables.blocks, lambda b: self._block(held, b))
            return block([self.zeros(acc, rows), blocks, body(Sums(acc, rows, self.lanes))])

        def with_totals(acc: Buffer) -> Stmt:
            if not several:
                return summed(acc, None, None)
            if not self.has_minimum_steps:
                return alloc("totals", shape, "int32", "local", lambda totals: summed(acc, totals, None))
            return alloc("totals", shape, "int32", "local", lambda totals: alloc(
                "least", shape, "int32", "local", lambda least: summed(acc, totals, least)))  # fmt: skip

        return alloc("acc", shape, "float32", "local", with_totals)

    def _block(self, panel: _Panel, b: Var) -> Stmt:
        """Add the products of a block to the sums."""
        names = Names()
        if panel.totals is None:
            of_rows = self._chunk(panel, names, b, int64(0))
            return block([*self._prefetched(panel, b, int64(0)), self._scaled(panel, names, b, of_rows)])
        totals, least, rows = panel.totals, panel.least, range(panel.rows)
        if self.group > CHUNK:  # the group has one start, and one step of its minimum
            begun = block(vector_store(totals, (r, 0), self.start(panel.tables, panel.row(r), b)) for r in rows)
        else:
            begun = block(self.zeros(held, panel.rows) for held in (totals, least) if held is not None)

        def chunk(c: Var) -> Stmt:
            inner = Names()
            stmts: list[Stmt] = []
            for r, (total, taken) in enumerate(self._chunk(panel, inner, b, c)):
                stmts.append(vector_store(totals, (r, 0), vector_load(totals, (r, 0), self.lanes) + total))
                if least is not None and taken is not None:
                    stmts.append(vector_store(least, (r, 0), vector_load(least, (r, 0), self.lanes) + taken))
            return block([*self._prefetched(panel, b, c), inner.around(*stmts)])

        of_rows: list[tuple[PrimExpr, PrimExpr | None]] = []
        steps: list[PrimExpr] = []
        if least is not None and self.group > CHUNK:
            steps.append(names.of("step", self.steps(panel.weights, panel.number, self._unit(b), int64(0), True)))
        for r in rows:
            taken = None if least is None else vector_load(least, (r, 0), self.lanes)
            if steps:
                taken = self._taken(panel.tables, panel.row(r), steps, b)
            of_rows.append((vector_load(totals, (r, 0), self.lanes), taken))
        return block([begun, loop("c", self.elements // CHUNK, chunk), self._scaled(panel, names, b, of_rows)])

    def _prefetched(self, panel: _Panel, b: Var, c: PrimExpr) -> list[Stmt]:
        """Prefetch the part of the next panel that corresponds to a chunk; rows of that panel find it in a cache."""
        if panel.rows < ROWS_THAT_PREFETCH:
            return []
        words = -(-self.packed.unit * CHUNK // self.elements)
        start = simplify(self._unit(b) + c * words)
        return [
            prefetched(panel.weights, (panel.number + 1, simplify(start + line)))
            for line in range(0, words, WORDS_OF_LINE)
        ]

    def _unit(self, b: Var) -> PrimExpr:
        return simplify(b * self.packed.unit)

    def _chunk(
        self, panel: _Panel, names: Names, b: Var, c: PrimExpr
    ) -> list[tuple[PrimExpr, PrimExpr | None]]:  # fmt: skip
        """Return, for each row, the sum of 32 numbers' products, times steps, and that of x times minimum steps."""
        tables, weights, unit = panel.tables, panel.weights, self._unit(b)
        numbers = self.numbers(names, weights, panel.number, unit, c)
        is_whole = self.group <= CHUNK
        groups = CHUNK // self.group if is_whole else 1
        first = simplify(floordiv(c * CHUNK, self.group)) if is_whole else int64(0)
        place = simplify(b * self.elements + c * CHUNK)

        def steps(name: str, is_minimum: bool) -> list[PrimExpr]:
            parts = (self.steps(weights, panel.number, unit, simplify(first + g), is_minimum) for g in range(groups))
            return [names.of(f"{name}{g}", part) for g, part in enumerate(parts)]

        scale_steps = steps("step", False) if self.has_steps else None
        minimum_steps = steps("minimum_step", True) if self.has_minimum_steps and is_whole else []
        result: list[tuple[PrimExpr, PrimExpr | None]] = []
        for r in map(panel.row, range(panel.rows)):
            whole: PrimExpr | None = None
            for g in range(groups):
                total = self.wide(int64(0).astype("int32"))
                if is_whole:
                    total = self.start(tables, r, b * self.groups + first + g)
                for v in range(g * len(numbers) // groups, (g + 1) * len(numbers) // groups):
                    total = self.added(total, numbers[v], self.word(tables, r, place + 4 * v))
                total = total if scale_steps is None else total * scale_steps[g]
                whole = total if whole is None else whole + total
            assert whole is not None
            at = simplify(b * self.groups + first)
            result.append((whole, self._taken(tables, r, minimum_steps, at) if minimum_steps else None))
        return result

    def _taken(self, tables: Tables, r: PrimExpr, steps: list[PrimExpr], first: PrimExpr) -> PrimExpr:
        """Sums of the groups of x from `first` on, times the steps of their minima."""
        assert tables.sums is not None
        parts = [step * self.wide(BufferLoad(tables.sums, (r, simplify(first + g)))) for g, step in enumerate(steps)]
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        return total

    def _scaled(
        self, panel: _Panel, names: Names, b: Var, of_rows: list[tuple[PrimExpr, PrimExpr | None]]
    ) -> Stmt:  # fmt: skip
        """Add the integer sums of a block, of numbers and of minima, times its scales, to the float sums."""
        tables, unit = panel.tables, self._unit(b)
        scale = names.of("scale", self.floats(panel.weights, panel.number, unit))
        minimum = None
        if self.has_minimum:
            minimum = names.of("minimum", self.minima(panel.weights, panel.number, unit))
        stmts: list[Stmt] = []
        for r, (total, taken) in enumerate(of_rows):
            of_x = self.wide(BufferLoad(tables.scales, (panel.row(r), b)))
            before = names.of("before", vector_load(panel.acc, (r, 0), self.lanes))
            value = self.fused(before, self.float(total), scale * of_x)
            if minimum is not None and taken is not None:
                value = self.fused(value, self.float(taken), minimum * of_x)
            elif minimum is not None and tables.sums is not None:
                value = self.fused(value, minimum, self.wide(BufferLoad(tables.sums, (panel.row(r), b))))
            stmts.append(vector_store(panel.acc, (r, 0), value))
        return names.around(*stmts)


__all__ = ["BlockStreams"]
