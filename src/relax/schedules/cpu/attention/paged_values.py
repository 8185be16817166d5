"""Values of `paged_rows`: the sums of weight · value of a part of the keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from ....prim import And, Mul, Not, PrimExpr, Var, const, simplify
from ....prim.instructions import vector_reduce_add
from ....prim.intrin import any as any_of
from ....prim.intrin import floordiv, isfinite
from ....prim.intrin import max as maximum
from ....prim.intrin import min as minimum
from ....tir import AssertStmt, Buffer, BufferLoad, BufferStore, ForKind, IfThenElse, Stmt
from ....topi.paged_attention import PAGE_OUTSIDE, Parameters, counts
from ...build import alloc, block, int64, let, loop, rolled, spread, vector_load, vector_store
from ..tile import RegisterTile, register_tile
from ..tile.division import Segment
from .paged_folding import fold_row, folded
from .paged_shapes import Memory, Rows, TaskShape

Tokens: TypeAlias = "Callable[[PrimExpr, Var, Var], Stmt]"
"""Function from an index in the part, a page's number and its used tokens to a statement."""
Pages: TypeAlias = "Callable[[Tokens], Stmt]"
"""Function that calls `Tokens` for some pages."""


class PagedValues:
    """Writes the sums of a task whose queries are copied."""

    def __init__(
        self, of: Parameters, shape: TaskShape, rows: Rows, memory: Memory, least: Var, greatest: Var, window: Var,
        sinks: Var,
    ) -> None:  # fmt: skip
        """Prepare the loops; `least` and `greatest` are the positions of the first and the last query."""
        self.of, self.loops, self.rows, self.memory = of, shape, rows, memory
        self.heads, self.lanes = of.heads, shape.lanes
        self.least, self.greatest, self.window, self.sinks = least, greatest, window, sinks

    def _load(self, name: str, *indices: PrimExpr | int) -> PrimExpr:
        return BufferLoad(self.memory[name], tuple(map(int64, indices)))

    def _store(self, name: str, value: PrimExpr, *indices: PrimExpr | int) -> Stmt:
        return BufferStore(self.memory[name], value, tuple(map(int64, indices)))

    # ------------------------------------------------------------------ pages

    def _is_whole(self, start: PrimExpr) -> PrimExpr:
        """True for a page all of whose tokens up to the greatest position are in the window of each query."""
        last = start + (self.heads.page_size - 1)
        return any_of(self.window <= 0, start > self.greatest - self.window, last < self.sinks)

    def _used(self, start: PrimExpr) -> PrimExpr:
        """Number of tokens of a page up to the greatest position."""
        size = const(self.heads.page_size, "int32")
        return minimum(maximum(self.greatest - start + 1, const(0, "int32")), size)

    def _page(self, j: PrimExpr, body: Callable[[Var], Stmt]) -> Stmt:
        """Call `body` with the number of page `j` of the part, which is in the pool."""
        pages = self.of["keys"].shape[0]
        return let("page", self._load("ids", j), lambda page: AssertStmt(
            And(page >= 0, page < pages), PAGE_OUTSIDE, body(page)))  # fmt: skip

    # ------------------------------------------------------------------ values

    def _uneven(self, count: Var) -> Stmt:
        """Count the pages with an infinite value or NaN that counts for some rows and not for others."""
        values, zero = self.of["values"], spread(const(0.0, "float32"), self.lanes)
        wide = str(zero.dtype)

        def checked(page: Var, used: Var) -> Stmt:
            def body(held: Buffer) -> Stmt:
                def token(t: Var) -> Stmt:
                    def vector(g: Var, v: Var) -> Stmt:
                        part = vector_load(values, (page, self.rows.head + g, t, v * self.lanes), self.lanes)
                        product = Mul(part.astype(wide), zero)
                        return vector_store(held, (0,), vector_load(held, (0,), self.lanes) + product)

                    return rolled("g", self.loops.kv_heads, lambda g: loop(
                        "v", self.heads.columns // self.lanes, lambda v: vector(g, v)))  # fmt: skip

                rest = vector_reduce_add(vector_load(held, (0,), self.lanes))
                return block([
                    vector_store(held, (0,), zero),
                    loop("t", self.heads.page_size, lambda t: IfThenElse(t < used.astype("int64"), token(t))),
                    IfThenElse(Not(isfinite(rest)), self._store("number", self._load("number", 1) + 1, 1)),
                ])  # fmt: skip

            return alloc("held", (self.lanes,), "float32", "local", body)

        def page(j: Var) -> Stmt:
            def body(start: Var) -> Stmt:
                is_even = And(self.least - start + 1 >= self._used(start), self._is_whole(start))
                check = let("used", self._used(start), lambda used: self._page(j, lambda page: checked(page, used)))
                return IfThenElse(Not(is_even), check)

            return let("start", self._load("starts", j), body)

        return block([
            self._store("number", int64(0), 1),
            rolled("j", self.loops.pages, lambda j: IfThenElse(j < count, page(j))),
        ])  # fmt: skip

    def _mixed(self, count: Var) -> Stmt:
        """Fold weight · value into the sums."""
        loops, lanes, heads = self.loops, self.lanes, self.heads
        scores, sums, values = self.memory["scores"], self.memory["sums"], self.of["values"]
        wide = f"float32x{lanes}" if lanes > 1 else "float32"

        def tile(row: PrimExpr, height: int, head: PrimExpr, column: PrimExpr, vectors: int, pages: Pages) -> Stmt:
            def at(buffer: Buffer, p: PrimExpr, c: PrimExpr) -> PrimExpr:
                return vector_load(buffer, (simplify(row + p), simplify(column + c)), lanes)

            def stored(buffer: Buffer, p: PrimExpr, c: PrimExpr, value: PrimExpr) -> Stmt:
                return vector_store(buffer, (simplify(row + p), simplify(column + c)), value)

            def summed(tile: RegisterTile) -> Stmt:
                def token(j: PrimExpr, page: Var, t: Var) -> Stmt:
                    return tile.step(
                        lambda p: BufferLoad(scores, (simplify(row + p), simplify(j * heads.page_size + t))),
                        lambda c: vector_load(values, (page, head, t, simplify(column + c)), lanes).astype(wide),
                    )  # fmt: skip

                def tokens(j: PrimExpr, page: Var, used: Var) -> Stmt:
                    return loop("t", used, lambda t: token(j, page, t))

                if loops.is_single:
                    added = self.memory["added"]
                    return block([
                        tile.begun(lambda p, c: at(added, p, c)), pages(tokens),
                        tile.each(lambda p, c: stored(added, p, c, tile.load(p, c))),
                    ])  # fmt: skip
                return block([
                    tile.cleared(), pages(tokens),
                    tile.each(lambda p, c: stored(sums, p, c, folded(
                        self.memory, simplify(row + p), at(sums, p, c), tile.load(p, c)))),
                ])  # fmt: skip

            return register_tile(height, vectors, lanes, summed, sums="float32")

        def tiles(pages: Pages) -> Stmt:
            def of_columns(s: Segment, co: Var) -> Stmt:
                column = simplify((s.start + co * s.size) * lanes)
                return loops.each_tile(self.rows, loops.value_segments, lambda row, height, head: tile(
                    row, height, head, column, s.size, pages))  # fmt: skip

            return block(loop("co", s.count, lambda co, s=s: of_columns(s, co)) for s in loops.columns)

        def page(j: Var, body: Tokens) -> Stmt:
            used = self._used(self._load("starts", j)).astype("int64")
            return let("used", minimum(used, int64(heads.page_size)), lambda used: self._page(
                j, lambda page: body(j, page, used)))  # fmt: skip

        def each_page(body: Tokens) -> Stmt:
            return rolled("j", loops.pages, lambda j: IfThenElse(j < count, page(j, body)))

        if not loops.is_single:
            return tiles(each_page)
        # In the order in which memory holds the heads of a page, which hardware prefetching follows.
        return block([
            each_page(lambda j, page, used: tiles(lambda body: body(j, page, used))),
            loops.each_row(self.rows, self._fold_added),
        ])  # fmt: skip

    def _fold_added(self, r: Var) -> Stmt:
        """Fold row `r` of "added" into the sums, and clear it."""
        added, zero = self.memory["added"], const(0.0, "float32")
        cleared = loop("c", self.heads.columns, lambda c: BufferStore(added, zero, (r, c)), ForKind.VECTORIZED)
        return block([fold_row(self.memory, r, self.lanes, "sums", added, (r,)), cleared])

    def _mixed_by_row(self, count: Var) -> Stmt:
        """Fold weight · value into the sums, row by row, for the tokens that count for a row."""
        heads, lanes, sums = self.heads, self.lanes, self.memory["sums"]
        wide = f"float32x{lanes}" if lanes > 1 else "float32"
        zero = spread(const(0.0, "float32"), lanes)

        def token(r: Var, v: Var, held: Buffer, j: Var, page: Var, t: Var) -> Stmt:
            head = self.rows.head
            if self.loops.is_single:
                head = simplify(head + floordiv(r, heads.group))
            part = vector_load(self.of["values"], (page, head, t, v * lanes), lanes).astype(wide)
            weight = spread(self._load("scores", r, simplify(j * heads.page_size + t)), lanes)
            added = vector_store(held, (0,), vector_load(held, (0,), lanes) + Mul(weight, part))
            position = self._load("starts", j) + t.astype("int32")
            return IfThenElse(counts(position, self._load("limits", r), self.window, self.sinks), added)

        def vector(r: Var, v: Var, held: Buffer) -> Stmt:
            def page(j: Var) -> Stmt:
                return self._page(j, lambda page: loop(
                    "t", heads.page_size, lambda t: token(r, v, held, j, page, t)))  # fmt: skip

            place = (r, simplify(v * lanes))
            before, added = vector_load(sums, place, lanes), vector_load(held, (0,), lanes)
            return block([
                vector_store(held, (0,), zero),
                rolled("j", self.loops.pages, lambda j: IfThenElse(j < count, page(j))),
                vector_store(sums, place, folded(self.memory, r, before, added)),
            ])  # fmt: skip

        return alloc("held", (lanes,), "float32", "local", lambda held: self.loops.each_row(
            self.rows, lambda r: loop("v", heads.columns // lanes, lambda v: vector(r, v, held))))  # fmt: skip


__all__ = ["PagedValues"]
