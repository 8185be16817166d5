"""Loops of `paged` for the query heads that share a head of keys, of one sequence: a block of queries, or one query.

    queries[0:rows, :] = float32 of the queries                             a row is a query and a head
    for each page that a row sees, collected into parts of the keys:
        for two pages, for eight rows:
            acc = Σ_k queries[row + p, k] * keys[page, k, :]                a lane is a token
            scores[row + p, :] = acc
        scores = -inf where a page has tokens that do not count for a row
        greatest = max(scores)                                              `paged_folding`: old, factor
        scores = exp(scores - greatest)                                     totals = totals * old + Σ scores * factor
        for eight rows, for two vectors of columns:
            acc = Σ_t scores[row + p, t] * values[page, t, :]               a lane is a column
            sums[row + p, :] = sums[row + p, :] * old + acc * factor

Vectors run along tokens for scores and along columns for sums, as both lie in pages: nothing is transposed, and
elements of queries and scores are broadcast. A value that counts for some rows and not for others is multiplied by a
weight of 0; if such a value is infinite or NaN, the products of its part are summed row by row instead. Values behind
the last position of a query are not read.

For a single query, the rows are the query heads of several heads of keys, and pages are read in the order of memory:
page by page, and head by head in a page. `paged_shapes` has the sizes, `paged_values` the sums of values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

from ....prim import GT, NE, And, Mul, Not, PrimExpr, Select, Var, const, simplify
from ....prim.instructions import vector_reduce_max
from ....prim.intrin import all as all_of
from ....prim.intrin import any as any_of
from ....prim.intrin import ceildiv, exp, floordiv, if_then_else, tanh
from ....prim.intrin import max as maximum
from ....prim.intrin import min as minimum
from ....tir import Buffer, BufferLoad, BufferStore, ForKind, IfThenElse, Stmt
from ....topi.paged_attention import Parameters, counts
from ...build import alloc, block, int64, let, loop, rolled, scratches, spread, vector_load, vector_store
from ..tile import RegisterTile, number_of, register_tile
from .paged_folding import STATE, folded, levels
from .paged_shapes import Memory, Rows, TaskShape
from .paged_values import PagedValues

LAST: Final = 2**31 - 1
"""Largest position."""


class PagedRows:
    """Writes the loops of a task of a shape."""

    def __init__(self, of: Parameters, shape: TaskShape) -> None:
        self.of, self.heads, self.shape = of, of.heads, shape
        self.lanes = shape.lanes

    # ------------------------------------------------------------------ a task

    def written(
        self, rows: Rows, begin: PrimExpr, end: PrimExpr, finished: Callable[[Memory], Stmt]
    ) -> Stmt:  # fmt: skip
        """Process the listed pages from `begin` to `end`, then call `finished(memory)`.

        The memory has "most", "totals" (by lanes) and "sums", by row.
        """
        shape, heads = self.shape, self.heads
        padded = -(-shape.rows // self.lanes) * self.lanes
        floats = {
            "rows": (shape.rows, heads.depth), "scores": (shape.rows, shape.tokens),
            "sums": (shape.rows, heads.columns), "totals": (shape.rows, self.lanes),
            **dict.fromkeys(STATE, (padded,)),
        }  # fmt: skip
        integers = {
            "limits": ((shape.rows,), "int32"), "starts": ((shape.pages,), "int32"), "extremes": ((2,), "int32"),
            "ids": ((shape.pages,), "int64"), "number": ((2,), "int64"),
        }  # fmt: skip
        if shape.is_single:
            integers.pop("extremes")
            floats["added"] = floats["sums"]
        shapes = {**{name: (sizes, "float32") for name, sizes in floats.items()}, **integers}

        def body(memory: Memory) -> Stmt:
            return block([
                self._start(rows, memory),
                self._with_limits(rows, memory, lambda task: task.all_pages(begin, end)),
                finished(memory),
            ])  # fmt: skip

        return scratches(shapes, body)

    def _with_limits(self, rows: Rows, memory: Memory, body: Callable[[_Task], Stmt]) -> Stmt:
        """Bind the least and greatest position of a query, the window and the sinks."""
        of = self.of
        if self.shape.is_single:
            least = most = of.at("query_positions", rows.first)
        else:
            least, most = (BufferLoad(memory["extremes"], (int64(i),)) for i in range(2))

        def with_window(least: Var, most: Var) -> Stmt:
            window, sinks = (of.at("windows", rows.sequence, i) for i in range(2))
            return let("window", window, lambda window: let("sinks", sinks, lambda sinks: body(
                _Task(of, self.shape, rows, memory, least, most, window, sinks))))  # fmt: skip

        return let("least", least, lambda least: let("greatest", most, lambda most: with_window(least, most)))

    def _start(self, rows: Rows, memory: Memory) -> Stmt:
        """Copy the queries, and initialise the running maximum, totals and sums."""
        of, heads = self.of, self.heads
        zero = const(0.0, "float32")

        def query(q: PrimExpr) -> Stmt:
            at = simplify(rows.first + q)

            def head(h: Var) -> Stmt:
                row = simplify(q * heads.group + h)
                copied = loop("k", heads.depth, lambda k: BufferStore(
                    memory["rows"], of.wide("queries", at, rows.head * heads.group + h, k), (row, k)),
                    ForKind.VECTORIZED)  # fmt: skip
                return block([copied, BufferStore(memory["limits"], position, (row,))])

            position = of.at("query_positions", at)
            return rolled("h", heads.group * self.shape.kv_heads, head)

        def extremes() -> Stmt:
            found, first = memory["extremes"], of.at("query_positions", rows.first)

            def met(q: Var) -> Stmt:
                position = of.at("query_positions", simplify(rows.first + q))
                return block([
                    BufferStore(found, minimum(BufferLoad(found, (int64(0),)), position), (int64(0),)),
                    BufferStore(found, maximum(BufferLoad(found, (int64(1),)), position), (int64(1),)),
                ])  # fmt: skip

            return block([
                *(BufferStore(found, first, (int64(i),)) for i in range(2)),
                rolled("q", self.shape.queries, lambda q: IfThenElse(q < rows.count, met(q))),
            ])  # fmt: skip

        def cleared(r: Var) -> Stmt:
            return block([
                *(loop("c", heads.columns, lambda c, name=name: BufferStore(memory[name], zero, (r, c)),
                ForKind.VECTORIZED) for name in ("sums", "added") if name in memory),
                vector_store(memory["totals"], (r, 0), spread(zero, self.lanes)),
            ])  # fmt: skip

        least = const(-math.inf, "float32")
        padded = memory["most"].shape[0]
        stmts = [
            loop("r", padded, lambda r: BufferStore(memory["most"], least, (r,)), ForKind.VECTORIZED),
            loop("r", padded, lambda r: BufferStore(memory["greatest"], least, (r,)), ForKind.VECTORIZED),
            rolled("r", self.shape.rows, cleared),
        ]
        if self.shape.is_single:
            return block([*stmts, query(int64(0))])
        unused = rolled("r", self.shape.rows, lambda r: IfThenElse(r >= rows.count * heads.group, block([
            loop("k", heads.depth, lambda k: BufferStore(memory["rows"], zero, (r, k)), ForKind.VECTORIZED),
            BufferStore(memory["limits"], const(-1, "int32"), (r,)),
        ])))  # fmt: skip
        copied = rolled("q", self.shape.queries, lambda q: IfThenElse(q < rows.count, query(q)))
        return block([*stmts, unused, copied, extremes()])


class _Task(PagedValues):
    """Writes the loops of a task whose queries are copied."""

    # ------------------------------------------------------------------ pages

    def all_pages(self, begin: PrimExpr, end: PrimExpr) -> Stmt:
        """Collect the pages that a query sees into parts, and process these."""
        most, starts = self.loops.part, self.of["page_positions"]

        def part_of(place: PrimExpr) -> PrimExpr:
            return floordiv(BufferLoad(starts, (place,)), const(most * self.heads.page_size, "int32"))

        def page(j: Var) -> Stmt:
            place = simplify(begin + j)
            start = self.of.at("page_positions", place)
            number = self._load("number", 0)
            kept = let("number", number, lambda number: block([
                self._store("ids", self.of.at("page_ids", place).astype("int64"), number),
                self._store("starts", start, number), self._store("number", number + 1, 0)]))  # fmt: skip

            def processed(count: Var) -> Stmt:
                done = block([self._pages(count), self._store("number", int64(0), 0)])
                following = simplify(place + 1)
                is_full = any_of(count.equal(most), following.equal(end))

                def of_last(is_last: Var) -> Stmt:
                    return IfThenElse(all_of(count > 0, is_last), done)

                is_last = if_then_else(is_full, const(1, "bool"), NE(part_of(place), part_of(following)))
                return let("is_last", is_last, of_last)

            return block([
                let("start", start, lambda start: IfThenElse(self._is_seen(start), kept)),
                let("count", number, processed),
            ])  # fmt: skip

        return block([self._store("number", int64(0), 0), rolled("j", simplify(end - begin), page)])

    def _is_seen(self, start: PrimExpr) -> PrimExpr:
        """True if any token of a page may be visible to a query of the task."""
        last = start + (self.heads.page_size - 1)
        near = any_of(self.window <= 0, last > self.least - self.window, start < self.sinks)
        return all_of(start <= self.greatest, near)

    def _pages(self, count: Var) -> Stmt:
        """Process the pages of a part."""
        loops = self.loops
        tiles = ceildiv(count, loops.pages_of_tile)

        def filler(j: Var) -> Stmt:
            return IfThenElse(all_of(j >= count, j < tiles * loops.pages_of_tile), block([
                self._store("ids", self._load("ids", 0), j),
                self._store("starts", const(LAST - self.heads.page_size, "int32"), j)]))  # fmt: skip

        def body(tiles: Var) -> Stmt:
            width = simplify(tiles * loops.pages_of_tile)
            return block([
                rolled("j", loops.pages, filler),
                rolled("jo", loops.pages // loops.pages_of_tile, lambda jo: IfThenElse(jo < tiles, self._scores(jo))),
                rolled("j", loops.pages, lambda j: IfThenElse(j < width, self._masked(j))),
                loops.each_row(self.rows, lambda r: self._greatest(r, tiles)),
                levels(self.memory),
                loops.each_row(self.rows, lambda r: self._weights(r, tiles)),
                self._uneven(count),
                IfThenElse(self._load("number", 1) > 0, self._mixed_by_row(count), self._mixed(count)),
            ])  # fmt: skip

        return let("tiles", tiles, body)

    # ------------------------------------------------------------------ scores

    def _scores(self, jo: Var) -> Stmt:
        """Compute the scores of a tile's pages."""
        loops = self.loops
        numbers: list[Var] = []

        def with_pages(left: int) -> Stmt:
            if not left:
                return block(self._part(jo, numbers, part) for part in range(loops.parts_of_page))

            def body(page: Var) -> Stmt:
                numbers.append(page)
                return with_pages(left - 1)

            return self._page(simplify(jo * loops.pages_of_tile + (loops.pages_of_tile - left)), body)

        return with_pages(loops.pages_of_tile)

    def _part(self, jo: Var, numbers: Sequence[Var], part: int) -> Stmt:
        """Compute the scores of a tile's pages, or of a part of one page, for all rows."""
        loops, heads, size, lanes = self.loops, self.heads, self.heads.page_size, self.lanes
        keys, rows, scores = self.of["keys"], self.memory["rows"], self.memory["scores"]
        offset = part * loops.vectors * lanes
        first = simplify(jo * (loops.pages_of_tile * size) + offset)
        wide = f"float32x{lanes}" if lanes > 1 else "float32"

        def tile(row: PrimExpr, height: int, head: PrimExpr) -> Stmt:
            def summed(tile: RegisterTile) -> Stmt:
                def vector(k: Var) -> Callable[[PrimExpr], PrimExpr]:
                    def at(column: PrimExpr) -> PrimExpr:
                        place = number_of(column)
                        page = numbers[place // size]
                        return vector_load(keys, (page, head, k, offset + place % size), lanes).astype(wide)

                    return at

                def step(k: Var) -> Stmt:
                    return tile.step(lambda p: BufferLoad(rows, (simplify(row + p), k)), vector(k))

                scale = spread(self.of.at("scale", 0), lanes)
                stored = tile.each(lambda p, c: vector_store(
                    scores, (simplify(row + p), simplify(first + c)), self._score(tile.load(p, c), scale)))  # fmt: skip
                return block([tile.cleared(), loop("k", heads.depth, step), stored])

            return register_tile(height, loops.vectors, lanes, summed, sums="float32", has_numbered_columns=True)

        return loops.each_tile(self.rows, loops.segments, tile)

    def _score(self, product: PrimExpr, scale: PrimExpr) -> PrimExpr:
        """Scores of products of queries and keys."""
        scores = Mul(product, scale)
        if not self.heads.softcap:
            return scores
        cap = spread(const(self.heads.softcap, "float32"), self.lanes)
        return cap * tanh(scores / cap)

    def _masked(self, j: Var) -> Stmt:
        """Hide the scores of tokens that do not count, in a page that has some."""
        size, scores = self.heads.page_size, self.memory["scores"]

        def row(r: Var, start: Var) -> Stmt:
            def token(t: Var, limit: Var) -> Stmt:
                place = (r, simplify(j * size + t))
                shown = counts(start + t.astype("int32"), limit, self.window, self.sinks)
                hidden = const(-math.inf, "float32")
                return BufferStore(scores, Select(shown, BufferLoad(scores, place), hidden), place)

            return let("limit", self._load("limits", r), lambda limit: loop(
                "t", size, lambda t: token(t, limit), ForKind.VECTORIZED))  # fmt: skip

        def body(start: Var) -> Stmt:
            is_seen = And(self.least - start >= size - 1, self._is_whole(start))
            return IfThenElse(Not(is_seen), self.loops.each_row(self.rows, lambda r: row(r, start)))

        return let("start", self._load("starts", j), body)

    # ------------------------------------------------------------------ weights

    def _each_vector(self, tiles: Var, body: Callable[[PrimExpr], Stmt]) -> Stmt:
        """Return `body(first token)` for the vectors of a part's tokens."""
        loops = self.loops
        per_tile = loops.pages_of_tile * self.heads.page_size // self.lanes
        return rolled("jo", loops.pages // loops.pages_of_tile, lambda jo: IfThenElse(jo < tiles, loop(
            "v", per_tile, lambda v: body(simplify((jo * per_tile + v) * self.lanes)), ForKind.UNROLLED)))  # fmt: skip

    def _greatest(self, r: Var, tiles: Var) -> Stmt:
        """Compute a row's greatest score, which NaN does not change: it yields a weight of NaN in any case."""
        least = spread(const(-math.inf, "float32"), self.lanes)

        def body(held: Buffer) -> Stmt:
            def met(t: PrimExpr) -> Stmt:
                score = vector_load(self.memory["scores"], (r, t), self.lanes)
                return let("score", score, lambda score: let(
                    "before", vector_load(held, (0,), self.lanes), lambda before: vector_store(
                        held, (0,), Select(GT(score, before), score, before))))  # fmt: skip

            greatest = vector_reduce_max(vector_load(held, (0,), self.lanes))
            return block([
                vector_store(held, (0,), least), self._each_vector(tiles, met), self._store("greatest", greatest, r),
            ])  # fmt: skip

        return alloc("held", (self.lanes,), "float32", "local", body)

    def _weights(self, r: Var, tiles: Var) -> Stmt:
        """Replace a row's scores by their weights, and fold these into its totals."""
        lanes, totals = self.lanes, self.memory["totals"]

        def body(level: Var, added: Buffer) -> Stmt:
            def weighed(t: PrimExpr) -> Stmt:
                place = (r, t)
                weight = exp(vector_load(self.memory["scores"], place, lanes) - spread(level, lanes))
                return let("weight", weight, lambda weight: block([
                    vector_store(self.memory["scores"], place, weight),
                    vector_store(added, (0,), vector_load(added, (0,), lanes) + weight)]))  # fmt: skip

            before, sums = vector_load(totals, (r, 0), lanes), vector_load(added, (0,), lanes)
            return block([
                vector_store(added, (0,), spread(const(0.0, "float32"), lanes)),
                self._each_vector(tiles, weighed),
                vector_store(totals, (r, 0), folded(self.memory, r, before, sums)),
            ])  # fmt: skip

        return let("level", self._load("level", r), lambda level: alloc(
            "added", (lanes,), "float32", "local", lambda added: body(level, added)))  # fmt: skip


__all__ = ["PagedRows"]
