"""Attention to keys and values in pages (`topi.paged_attention.attend_to_pages`).

    for i in range(b):                          sequences with one query: a list of parts of up to 256 keys
                                                others: a list of blocks of up to 48 rows (queries times heads)
    for task in T.parallel(parts * kv_heads):   a query, up to 256 keys of some heads
        …                                       `paged_rows`
    for task in T.parallel(parts * kv_heads):   the parts of a sequence's keys become one result
        …
    for task in T.parallel(blocks * kv_heads):  a block of queries, and all keys up to its last position
        …                                       `paged_rows`

The division into tasks depends on the lengths of sequences only, so that the result for a sequence does not depend on
other sequences, nor on the number of threads.

Vectors have as many lanes as divide the sizes of pages and of values evenly. Not supported: fewer than four.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from ....ir import structural_equal
from ....prim import And, PrimExpr, Var, const, simplify
from ....prim.intrin import ceildiv, exp, floordiv
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
from ...build import block, int64, let, loop, scratch, tasks
from ...rule import ALIASED, Refusal, ScheduleRule
from ...space import Space
from ..tile.division import shapes_of_tiles
from ..tile.parameters import TALLEST
from ..tile.shares import share_of
from .paged_rows import PagedRows, result, total_of
from .paged_shapes import FEWEST_LANES, Memory, Rows, TaskShape, lanes_for

ROWS: Final = 48
"""Rows of a block of queries."""
KEYS: Final = 128
"""Keys of a block of pages, for blocks of queries."""
PART: Final = 256
"""Most keys of a task with one query."""
LEAST_PART: Final = 128
"""Keys of a task with one query from which those of a sequence are divided among cores."""
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
    """Keys of a block of pages, for blocks of queries."""


class PagedAttention(ScheduleRule):
    """Schedule rule for attention to pages."""

    parameters = PagedParameters()

    def space(self, target: Target) -> Space[PagedParameters]:
        """Return the shapes of register tiles, the rows of a block of queries, and its keys."""
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
        self.part = max(PART // heads.page_size, 1)
        """Most pages of a task with one query."""
        self.least_part = max(LEAST_PART // heads.page_size, 1)
        self.cores = target.num_cores
        keys = parameters.keys or KEYS
        least = RUN // (heads.depth * heads.page_size * of["keys"].dtype.bits // 8)
        divisors = (n for n in range(1, heads.kv_heads + 1) if heads.kv_heads % n == 0)
        self.kv_heads = next((n for n in divisors if n >= least), heads.kv_heads)
        """Heads of keys of a task with one query."""
        self.single = PagedRows(of, TaskShape(heads, target, 1, self.part, parameters.tile, self.kv_heads))
        pages = max(keys // heads.page_size, 1)
        self.several = PagedRows(of, TaskShape(heads, target, self.queries, pages, parameters.tile))
        self.b, self.n, self.m = of["windows"].shape[0], of["queries"].shape[0], of["page_ids"].shape[0]

    def attention(self) -> Stmt:
        """Return the lists of tasks, then the tasks."""
        heads = self.heads
        most_parts = simplify(self.b + floordiv(self.m, min(self.part, self.least_part)))
        most_blocks = simplify(self.b + floordiv(self.n, self.queries))
        partial = (most_parts, heads.query_heads)

        def body(counts: Buffer, parts: Buffer, blocks: Buffer, sums: Buffer, state: Buffer) -> Stmt:
            lists = self._lists(counts, parts, blocks)
            return block([
                lists,
                let("parts", _at(counts, 0), lambda count: IfThenElse(count > 0, block([
                    self._tasks(count, heads.kv_heads // self.kv_heads, lambda part, head: self._single(
                        parts, sums, state, part, simplify(head * self.kv_heads))),
                    IfThenElse(_at(counts, 2) > 0, self._tasks(
                        count, heads.kv_heads, lambda part, head: self._merged(parts, sums, state, part, head))),
                ]))),
                let("blocks", _at(counts, 1), lambda count: IfThenElse(count > 0, self._tasks(
                    count, heads.kv_heads, lambda number, head: self._several(blocks, number, head)))),
            ])  # fmt: skip

        written = scratch("counts", (3,), "int64", lambda counts: scratch(
            "parts", (most_parts, 6), "int64", lambda parts: scratch(
                "blocks", (most_blocks, 3), "int64", lambda blocks: scratch(
                    "sums_of_parts", (*partial, heads.columns), "float32", lambda sums: scratch(
                        "state_of_parts", (*partial, 2), "float32", lambda state: body(
                            counts, parts, blocks, sums, state))))))  # fmt: skip
        indptr = self.of.at
        covered = And(indptr("query_indptr", 0).equal(0), indptr("query_indptr", self.b).astype("int64").equal(self.n))
        return AssertStmt(covered, QUERIES_UNCOVERED, written)

    def _tasks(self, count: Var, heads: int, body: Callable[[PrimExpr, PrimExpr], Stmt]) -> Stmt:
        return tasks("task", ["number", "head"], [count, int64(heads)], lambda parts: body(parts[0], parts[1]))

    # ------------------------------------------------------------------ lists

    def _lists(self, counts: Buffer, parts: Buffer, blocks: Buffer) -> Stmt:
        """Fill the lists: of (sequence, query, first page, end, first part, number of parts), and of (sequence, first
        query, number of queries).
        """

        def added(to: Buffer, which: int, *values: PrimExpr) -> Stmt:
            return let("place", _at(counts, which), lambda place: block([
                *(BufferStore(to, value, (place, int64(i))) for i, value in enumerate(values)),
                BufferStore(counts, place + 1, (int64(which),)),
            ]))  # fmt: skip

        def single(i: Var, query: Var, begin: Var, end: Var) -> Stmt:
            def of_parts(number: Var, first: Var) -> Stmt:
                def part(k: Var) -> Stmt:
                    bounds = (simplify(begin + share_of(simplify(k + d), end - begin, number)) for d in range(2))
                    return added(parts, 0, i, query, *bounds, first, number)

                several = IfThenElse(number > 1, BufferStore(counts, int64(1), (int64(2),)))
                return block([several, loop("k", number, part)])

            for_cores = minimum(ceildiv(end - begin, self.least_part), int64(self.cores))
            number = maximum(maximum(ceildiv(end - begin, self.part), for_cores), int64(1))
            return let("number", number, lambda number: let(
                "first", _at(counts, 0), lambda first: of_parts(number, first)))  # fmt: skip

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

    def _bounds(
        self, name: str, message: str, most: PrimExpr, i: PrimExpr, body: Callable[[Var, Var], Stmt]
    ) -> Stmt:  # fmt: skip
        begin, end = (self.of.at(name, simplify(i + d)).astype("int64") for d in range(2))
        return let("begin", begin, lambda begin: let("end", end, lambda end: AssertStmt(
            And(And(begin >= 0, begin <= end), end <= most), message, body(begin, end))))  # fmt: skip

    # ------------------------------------------------------------------ tasks

    def _single(self, parts: Buffer, sums: Buffer, state: Buffer, part: PrimExpr, head: PrimExpr) -> Stmt:
        """Process a part of the keys of a query; store the result if it is the only part."""
        heads = self.heads

        def body(sequence: Var, query: Var, begin: Var, end: Var, number: Var) -> Stmt:
            def finished(memory: Memory) -> Stmt:
                def row(h: Var) -> Stmt:
                    most, total = _at(memory["most"], h), total_of(memory, h, self.single.lanes)
                    at = simplify(head * heads.group + h)
                    whole = result(self.of, memory["sums"], (h,), most, total, query, at)
                    kept = block([
                        loop("c", heads.columns, lambda c: BufferStore(
                            sums, BufferLoad(memory["sums"], (h, c)), (part, at, c)), ForKind.VECTORIZED),
                        BufferStore(state, most, (part, at, int64(0))),
                        BufferStore(state, total, (part, at, int64(1))),
                    ])  # fmt: skip
                    return IfThenElse(number.equal(1), whole, kept)

                return loop("h", self.kv_heads * heads.group, row)

            return self.single.written(Rows(sequence, head, query, int64(1)), begin, end, finished)

        return _fields(parts, part, (0, 1, 2, 3, 5), body)

    def _several(self, blocks: Buffer, number: PrimExpr, head: PrimExpr) -> Stmt:
        """Process a block of queries."""
        heads = self.heads

        def body(sequence: Var, first: Var, count: Var) -> Stmt:
            def finished(memory: Memory) -> Stmt:
                def query(q: Var) -> Stmt:
                    def row(h: Var) -> Stmt:
                        r = simplify(q * heads.group + h)
                        most, total = _at(memory["most"], r), total_of(memory, r, self.several.lanes)
                        at = simplify(first + q)
                        return result(self.of, memory["sums"], (r,), most, total, at, head * heads.group + h)

                    return loop("h", heads.group, row)

                return loop("q", self.queries, lambda q: IfThenElse(q < count, query(q)))

            rows = Rows(sequence, head, first, count)
            begin, end = (self.of.at("page_indptr", simplify(sequence + d)).astype("int64") for d in range(2))
            return let("begin", begin, lambda begin: let(
                "end", end, lambda end: self.several.written(rows, begin, end, finished)))  # fmt: skip

        return _fields(blocks, number, (0, 1, 2), body)

    def _merged(self, parts: Buffer, sums: Buffer, state: Buffer, part: PrimExpr, head: PrimExpr) -> Stmt:
        """Merge the parts of a query's keys, if this is the first of several."""
        heads, zero, least = self.heads, const(0.0, "float32"), const(float("-inf"), "float32")

        def of_part(buffer: Buffer, k: PrimExpr, h: Var, *more: PrimExpr | int) -> PrimExpr:
            return BufferLoad(buffer, (k, simplify(head * heads.group + h), *map(int64, more)))

        def body(query: Var, first: Var, number: Var) -> Stmt:
            def row(h: Var, memory: Buffer, mixed: Buffer) -> Stmt:
                def greatest(k: Var) -> Stmt:
                    most = of_part(state, first + k, h, 0)
                    return BufferStore(memory, maximum(_at(memory, 0), most), (int64(0),))

                def added(k: Var) -> Stmt:
                    at = simplify(first + k)
                    most = of_part(state, at, h, 0)
                    level = _at(memory, 0)
                    factor = exp(most - level)

                    def with_factor(factor: Var) -> Stmt:
                        total = _at(memory, 1) + of_part(state, at, h, 1) * factor
                        return block([
                            BufferStore(memory, total, (int64(1),)),
                            loop("c", heads.columns, lambda c: BufferStore(
                                mixed, _at(mixed, c) + of_part(sums, at, h, c) * factor, (c,)), ForKind.VECTORIZED),
                        ])  # fmt: skip

                    return IfThenElse(most > least, let("factor", factor, with_factor))

                return block([
                    BufferStore(memory, least, (int64(0),)), BufferStore(memory, zero, (int64(1),)),
                    loop("c", heads.columns, lambda c: BufferStore(mixed, zero, (c,)), ForKind.VECTORIZED),
                    loop("k", number, greatest), loop("k", number, added),
                    result(self.of, mixed, (), _at(memory, 0), _at(memory, 1), query, head * heads.group + h),
                ])  # fmt: skip

            rows = scratch("memory", (2,), "float32", lambda memory: scratch(
                "mixed", (heads.columns,), "float32", lambda mixed: loop(
                    "h", heads.group, lambda h: row(h, memory, mixed))))  # fmt: skip
            return IfThenElse(And(part.equal(first), number > 1), rows)

        return _fields(parts, part, (1, 4, 5), body)


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
