"""Attention to keys and values in pages (`topi.paged_attention.attend_to_pages`).

    for i in range(b):                          sequences with one query: a list of runs of keys
                                                others: a list of blocks of up to 48 rows (queries times heads)
    for task in T.parallel(runs * kv_heads):    a query, and a run of the keys of some heads
        …                                       `paged_rows`
    for task in T.parallel(runs * kv_heads):    the runs of a sequence's keys become one result
        …
    for task in T.parallel(blocks * kv_heads):  a block of queries, and all keys up to its last position
        …                                       `paged_rows`

A run is one part of the keys, the unit of `paged_folding`, or, if it is the first of a query, one part or more. So a
result has the same bits whichever tokens are fed together, and does not depend on other sequences nor on threads, if
each sequence lists its pages in the order of their positions, which are multiples of the size of a page.

Vectors have as many lanes as divide the sizes of pages and of values evenly. Not supported: fewer than four.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from ....ir import structural_equal
from ....prim import NE, And, PrimExpr, Var, const, simplify
from ....prim.intrin import ceildiv, floordiv
from ....prim.intrin import max as maximum
from ....prim.intrin import min as minimum
from ....runtime.records import dataclass
from ....target import Target
from ....tir import (
    AssertStmt,
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferStore,
    For,
    ForKind,
    IfThenElse,
    PrimFunc,
    Stmt,
)
from ....tir.nests import root_of, with_root
from ....topi.paged_attention import (
    PAGES_OUTSIDE,
    QUERIES_UNCOVERED,
    RULE,
    PagedHeads,
    Parameters,
    attend_parameters,
    attend_to_pages,
)
from ...build import block, int64, let, loop, rolled, scratches, tasks, vector_load, vector_store
from ...rule import ALIASED, Refusal, ScheduleRule
from ...space import Space
from ..tile.division import shapes_of_tiles
from ..tile.parameters import TALLEST
from .paged_folding import STATE, fold_row, levels, result
from .paged_rows import PagedRows
from .paged_shapes import FEWEST_LANES, Memory, Rows, TaskShape, lanes_for

ROWS: Final = 48
"""Rows of a block of queries."""
KEYS: Final = 256
"""Keys of a part, as far as these are whole pages."""
SHARES: Final = 2
"""Runs per core into which the keys of all queries without neighbours are divided, as far as there are parts."""
SPARE: Final = 3
"""Runs of a sequence beside those with as many pages as a part: the first of its sinks, and both ends of its window."""
RUN: Final = 64 << 10
"""Minimum contiguous bytes of a page's keys per decode task, as far as there are heads.

Hardware prefetching follows the order of memory: with 32 kB, decoding reads half as fast.
"""


@dataclass(frozen=True)
class PagedParameters:
    """Numbers that the loops of attention to pages may choose; None: computed from the target."""

    tile: tuple[int, int] | None = None
    """Rows of a register tile, and vectors of tokens or of columns."""
    rows: int | None = None
    """Rows (queries times heads that share keys) of a block of queries."""
    keys: int | None = None
    """Keys of a part."""


class PagedAttention(ScheduleRule):
    """Schedule rule for attention to pages."""

    parameters = PagedParameters()

    def space(self, target: Target) -> Space[PagedParameters]:
        """Return the shapes of register tiles, the rows of a block of queries, and the keys of a part."""
        tiles = (None, *shapes_of_tiles(target, TALLEST))
        return Space(PagedParameters, {"tile": tiles, "rows": (None, 24, 48, 96), "keys": (None, 64, 128, 256)})

    def accepts(
        self, func: PrimFunc, target: Target | None, constants: Sequence[int] = ()
    ) -> Parameters | Refusal:  # fmt: skip
        """Return the parameters of a function that computes attention to pages."""
        del constants
        found = found_heads(func, "attend")
        if isinstance(found, Refusal):
            return found
        if not func.attrs.get("tir.noalias"):
            return ALIASED
        if not structural_equal(func.replace(attrs={}), attend_to_pages(found).replace(attrs={})):
            return Refusal("the function differs from the formula of attention to pages")
        if target is not None and lanes_for(found, target) is None:
            return Refusal(f"the size of a page, or of a value, is no multiple of {FEWEST_LANES} lanes of a vector")
        return Parameters.of_function(found, tuple(attend_parameters(found).buffers), func)

    def apply(self, func: PrimFunc, target: Target, tunable: bool) -> PrimFunc | Refusal:
        del tunable
        of = self.accepts(func, target)
        if isinstance(of, Refusal):
            return of
        return with_root(func, [_Writer(of, target, self.parameters).attention()], ())


def found_heads(func: PrimFunc, name: str) -> PagedHeads | Refusal:
    """Return the constants that the annotation of a function's only nest, a block of a name, tells."""
    match root_of(func)[1]:
        case [For(body=BlockRealize(block=Block(name_hint=hint, annotations=annotations)))] if (
            hint == name and RULE in annotations
        ):
            try:
                return PagedHeads(**annotations[RULE])
            except (TypeError, ValueError) as error:
                return Refusal(f"its annotation {RULE} is not that of the formula: {error}")
        case _:
            return Refusal("the function is no kernel of a paged KV cache", unrelated=True)


class _Writer:
    """Writes the tasks of attention to pages."""

    def __init__(self, of: Parameters, target: Target, parameters: PagedParameters) -> None:
        self.of, self.heads = of, of.heads
        heads = of.heads
        self.queries = max((parameters.rows or ROWS) // heads.group, 2)
        """Queries of a block."""
        self.part = max((parameters.keys or KEYS) // heads.page_size, 1)
        """Pages of a part."""
        self.shares = SHARES * target.num_cores if target.num_cores > 1 else 1
        least = RUN // (heads.depth * heads.page_size * of["keys"].dtype.bits // 8)
        divisors = (n for n in range(1, heads.kv_heads + 1) if heads.kv_heads % n == 0)
        self.kv_heads = next((n for n in divisors if n >= least), heads.kv_heads)
        """Heads of keys of a task with one query."""
        self.single = PagedRows(of, TaskShape(heads, target, 1, self.part, parameters.tile, self.kv_heads))
        self.several = PagedRows(of, TaskShape(heads, target, self.queries, self.part, parameters.tile))
        self.b, self.n, self.m = of["windows"].shape[0], of["queries"].shape[0], of["page_ids"].shape[0]

    def attention(self) -> Stmt:
        """Return the lists of tasks, then the tasks."""
        heads = self.heads
        most_runs = simplify(self.b * SPARE + floordiv(self.m, self.part))
        most_blocks = simplify(self.b + floordiv(self.n, self.queries))
        partial = (most_runs, heads.query_heads)

        def body(memory: Memory) -> Stmt:
            counts, runs, blocks = (memory[name] for name in ("counts", "runs", "blocks"))
            return block([
                self._lists(counts, runs, blocks),
                let("runs", _at(counts, 0), lambda count: IfThenElse(count > 0, block([
                    self._tasks(count, heads.kv_heads // self.kv_heads, lambda run, head: self._single(
                        memory, run, simplify(head * self.kv_heads))),
                    IfThenElse(_at(counts, 2) > 0, self._tasks(
                        count, heads.kv_heads, lambda run, head: self._merged(memory, run, head))),
                ]))),
                let("blocks", _at(counts, 1), lambda count: IfThenElse(count > 0, self._tasks(
                    count, heads.kv_heads, lambda number, head: self._several(blocks, number, head)))),
            ])  # fmt: skip

        shapes = {
            "counts": ((3,), "int64"), "runs": ((most_runs, 6), "int64"), "blocks": ((most_blocks, 3), "int64"),
            "sums_of_runs": ((*partial, heads.columns), "float32"),
            "totals_of_runs": ((*partial, self.single.lanes), "float32"), "most_of_runs": (partial, "float32"),
        }  # fmt: skip
        indptr = self.of.at
        covered = And(indptr("query_indptr", 0).equal(0), indptr("query_indptr", self.b).astype("int64").equal(self.n))
        return AssertStmt(covered, QUERIES_UNCOVERED, scratches(shapes, body))

    def _tasks(self, count: Var, heads: int, body: Callable[[PrimExpr, PrimExpr], Stmt]) -> Stmt:
        return tasks("task", ["number", "head"], [count, int64(heads)], lambda parts: body(parts[0], parts[1]))

    # ------------------------------------------------------------------ lists

    def _lists(self, counts: Buffer, runs: Buffer, blocks: Buffer) -> Stmt:
        """Fill the lists: of (sequence, query, first page, end, first run, number of runs), and of (sequence, first
        query, number of queries).
        """

        def added(to: Buffer, which: int, *values: PrimExpr) -> Stmt:
            return let("place", _at(counts, which), lambda place: block([
                *(BufferStore(to, value, (place, int64(i))) for i, value in enumerate(values)),
                BufferStore(counts, place + 1, (int64(which),)),
            ]))  # fmt: skip

        def single(i: Var, query: Var, begin: Var, end: Var) -> Stmt:
            most = simplify(floordiv(end - begin, self.part) + SPARE)
            of_first = maximum(floordiv(self.m, self.shares), int64(self.part))

            def of_run(first: Var) -> Stmt:
                def page(k: Var) -> Stmt:
                    place = simplify(begin + of_first + k)
                    last = simplify(_at(counts, 0) - 1)
                    return IfThenElse(And(_at(counts, 0) < first + most, self._begins_part(place)), block([
                        BufferStore(runs, place, (last, int64(3))), added(runs, 0, i, query, place, end, first),
                    ]))  # fmt: skip

                def numbered(number: Var) -> Stmt:
                    each = loop("k", number, lambda k: BufferStore(runs, number, (simplify(first + k), int64(5))))
                    return block([IfThenElse(number > 1, BufferStore(counts, int64(1), (int64(2),))), each])

                left = maximum(end - begin - of_first, int64(0))
                return block([
                    added(runs, 0, i, query, begin, end, first), rolled("k", left, page),
                    let("number", _at(counts, 0) - first, numbered),
                ])  # fmt: skip

            return let("first", _at(counts, 0), of_run)

        def several(i: Var, begin: Var, end: Var) -> Stmt:
            number = simplify(ceildiv(end - begin, self.queries))
            return loop("k", number, lambda k: let("first", begin + k * self.queries, lambda first: added(
                blocks, 1, i, first, minimum(end - first, int64(self.queries)))))  # fmt: skip

        def sequence(i: Var) -> Stmt:
            return self._bounds("query_indptr", QUERIES_UNCOVERED, self.n, i, lambda begin, end: self._bounds(
                "page_indptr", PAGES_OUTSIDE, self.m, i, lambda page, last: IfThenElse(
                    (end - begin).equal(1), single(i, begin, page, last), several(i, begin, end))))  # fmt: skip

        cleared = [BufferStore(counts, int64(0), (int64(i),)) for i in range(3)]
        return block([*cleared, loop("i", self.b, sequence)])

    def _begins_part(self, place: PrimExpr) -> PrimExpr:
        """True if a listed page and the one before are of different parts."""
        size = const(self.part * self.heads.page_size, "int32")
        before, this = (floordiv(self.of.at("page_positions", simplify(place - d)), size) for d in (1, 0))
        return NE(before, this)

    def _bounds(
        self, name: str, message: str, most: PrimExpr, i: PrimExpr, body: Callable[[Var, Var], Stmt]
    ) -> Stmt:  # fmt: skip
        begin, end = (self.of.at(name, simplify(i + d)).astype("int64") for d in range(2))
        return let("begin", begin, lambda begin: let("end", end, lambda end: AssertStmt(
            And(And(begin >= 0, begin <= end), end <= most), message, body(begin, end))))  # fmt: skip

    # ------------------------------------------------------------------ tasks

    def _single(self, kept: Memory, run: PrimExpr, head: PrimExpr) -> Stmt:
        """Process a run of the keys of a query; store the result if it is the only run."""
        heads, lanes = self.heads, self.single.lanes

        def body(sequence: Var, query: Var, begin: Var, end: Var, number: Var) -> Stmt:
            def finished(memory: Memory) -> Stmt:
                def row(h: Var) -> Stmt:
                    at = simplify(head * heads.group + h)
                    state = block([
                        loop("c", heads.columns, lambda c: BufferStore(
                            kept["sums_of_runs"], BufferLoad(memory["sums"], (h, c)), (run, at, c)),
                            ForKind.VECTORIZED),
                        vector_store(
                            kept["totals_of_runs"], (run, at, 0), vector_load(memory["totals"], (h, 0), lanes)),
                        BufferStore(kept["most_of_runs"], _at(memory["most"], h), (run, at)),
                    ])  # fmt: skip
                    return IfThenElse(number.equal(1), result(self.of, memory, h, lanes, query, at), state)

                return loop("h", self.kv_heads * heads.group, row)

            return self.single.written(Rows(sequence, head, query, int64(1)), begin, end, finished)

        return _fields(kept["runs"], run, (0, 1, 2, 3, 5), body)

    def _several(self, blocks: Buffer, number: PrimExpr, head: PrimExpr) -> Stmt:
        """Process a block of queries."""
        heads = self.heads

        def body(sequence: Var, first: Var, count: Var) -> Stmt:
            def finished(memory: Memory) -> Stmt:
                def query(q: Var) -> Stmt:
                    return loop("h", heads.group, lambda h: result(
                        self.of, memory, simplify(q * heads.group + h), self.several.lanes, simplify(first + q),
                        head * heads.group + h))  # fmt: skip

                return loop("q", self.queries, lambda q: IfThenElse(q < count, query(q)))

            rows = Rows(sequence, head, first, count)
            begin, end = (self.of.at("page_indptr", simplify(sequence + d)).astype("int64") for d in range(2))
            return let("begin", begin, lambda begin: let(
                "end", end, lambda end: self.several.written(rows, begin, end, finished)))  # fmt: skip

        return _fields(blocks, number, (0, 1, 2), body)

    def _merged(self, kept: Memory, run: PrimExpr, head: PrimExpr) -> Stmt:
        """Fold the runs of a query's keys, if this is the first of several."""
        heads, lanes = self.heads, self.single.lanes
        zero, least = const(0.0, "float32"), const(float("-inf"), "float32")
        padded = -(-heads.group // lanes) * lanes
        shapes = {
            "sums": ((heads.group, heads.columns), "float32"), "totals": ((heads.group, lanes), "float32"),
            **dict.fromkeys(STATE, ((padded,), "float32")),
        }  # fmt: skip

        def at(h: Var) -> PrimExpr:
            return simplify(head * heads.group + h)

        def body(query: Var, first: Var, number: Var) -> Stmt:
            def cleared(memory: Memory) -> Stmt:
                def row(h: Var) -> Stmt:
                    return block(loop("c", memory[name].shape[1], lambda c, name=name: BufferStore(
                        memory[name], zero, (h, c)), ForKind.VECTORIZED) for name in ("sums", "totals"))  # fmt: skip

                return block([
                    *(loop("r", padded, lambda r, name=name: BufferStore(memory[name], least, (r,)),
                    ForKind.VECTORIZED) for name in ("most", "greatest")), rolled("h", heads.group, row),
                ])  # fmt: skip

            def added(memory: Memory, k: PrimExpr) -> Stmt:
                def greatest(h: Var) -> Stmt:
                    return BufferStore(memory["greatest"], BufferLoad(kept["most_of_runs"], (k, at(h))), (h,))

                def row(h: Var) -> Stmt:
                    return block(fold_row(memory, h, lanes, name, kept[f"{name}_of_runs"], (k, at(h)))
                    for name in ("sums", "totals"))  # fmt: skip

                return block([
                    rolled("h", heads.group, greatest), levels(memory), rolled("h", heads.group, row),
                ])  # fmt: skip

            def folded(memory: Memory) -> Stmt:
                return block([
                    cleared(memory), rolled("k", number, lambda k: added(memory, simplify(first + k))),
                    rolled("h", heads.group, lambda h: result(self.of, memory, h, lanes, query, at(h))),
                ])  # fmt: skip

            return IfThenElse(And(run.equal(first), number > 1), scratches(shapes, folded))

        return _fields(kept["runs"], run, (1, 4, 5), body)


def _at(buffer: Buffer, index: PrimExpr | int) -> PrimExpr:
    return BufferLoad(buffer, (int64(index),))


def _fields(table: Buffer, row: PrimExpr, columns: tuple[int, ...], body: Callable[..., Stmt]) -> Stmt:
    """Bind fields of a row of a table to names."""
    names: list[Var] = []

    def rest(left: tuple[int, ...]) -> Stmt:
        if not left:
            return body(*names)

        def named(name: Var) -> Stmt:
            names.append(name)
            return rest(left[1:])

        return let("field", BufferLoad(table, (row, int64(left[0]))), named)

    return rest(columns)


__all__ = ["PagedAttention", "PagedParameters"]
