"""Attention to keys and values in pages: formulas of the kernels that a paged KV cache calls, as PrimFuncs.

A cache holds the keys and values of a layer in a pool of P pages of s tokens. A sequence is a list of pages.

    keys   (P, kv_heads, depth, s)       a page holds its tokens' keys transposed, token innermost
    values (P, kv_heads, s, columns)

`append_to_pages` rotates queries and keys by their positions and stores keys and values in pages; `attend_to_pages`
computes attention. The number of tokens n, of sequences b, of pages in the pool P and of pages listed m are symbolic
and may be 0. Page numbers, slots and lists are checked: a kernel reads and writes nothing outside of its arguments.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from ..prim import NE, PrimExpr, Select, SizeVar, Var, const, intrin
from ..runtime.records import dataclass
from ..tir.buffer import Buffer, BufferLoad, IterVar, Range, decl_buffer
from ..tir.regions import complete_block
from ..tir.statements import seq_of
from ..tir.stmt import AssertStmt, Block, BlockRealize, BufferStore, For, ForKind, IfThenElse, LetStmt, PrimFunc, Stmt

RULE: Final = "schedule_rule.paged_attention"
"""Annotation of the block of both formulas: the fields of `PagedHeads` by name."""
FLOATS: Final = ("float32", "bfloat16", "float16")
"""Dtypes of activations and of pages."""
NO_SLOT: Final = -1
"""Slot of a token whose key and value are not stored."""


@dataclass(frozen=True)
class PagedHeads:
    """Constants of the kernels of a paged KV cache. Raises ValueError for constants that do not fit together."""

    query_heads: int
    kv_heads: int
    """Heads of keys and values; `query_heads` is a multiple of it, and consecutive query heads share one."""
    depth: int
    """Elements of a query or key of a head."""
    columns: int
    """Elements of a value of a head."""
    page_size: int = 16
    """Tokens of a page."""
    dtype: str = "float32"
    """Dtype of activations: queries, new keys and values, results."""
    page_dtype: str = "float32"
    """Dtype of keys and values in pages."""
    rotated: int = 0
    """Pairs of elements of a query or key that are rotated; 0 for none."""
    interleaved: bool = False
    """True to rotate the pairs (2i, 2i + 1), False for (i, i + rotated)."""
    softcap: float = 0.0
    """Limit c of the scores, c · tanh(score / c); 0 for none."""

    def __post_init__(self) -> None:
        for name in ("query_heads", "kv_heads", "depth", "columns", "page_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, found {getattr(self, name)}")
        if self.query_heads % self.kv_heads:
            raise ValueError(f"{self.query_heads} query heads cannot share {self.kv_heads} heads of keys evenly")
        if not 0 <= 2 * self.rotated <= self.depth:
            raise ValueError(f"{self.rotated} pairs cannot be rotated in heads of {self.depth} elements")
        for name in ("dtype", "page_dtype"):
            if getattr(self, name) not in FLOATS:
                raise ValueError(f"{name} must be one of {', '.join(FLOATS)}, found {getattr(self, name)}")
        if not 0 <= self.softcap < math.inf:
            raise ValueError(f"softcap must be a finite number from 0 on, found {self.softcap}")

    @property
    def group(self) -> int:
        """Query heads that share a head of keys."""
        return self.query_heads // self.kv_heads

    @property
    def annotation(self) -> dict[str, Any]:
        """Fields by name, as the formulas' annotation has them."""
        return {name: getattr(self, name) for name in _FIELDS}


_FIELDS: Final = (
    "query_heads", "kv_heads", "depth", "columns", "page_size", "dtype", "page_dtype", "rotated", "interleaved",
    "softcap",
)  # fmt: skip


# ------------------------------------------------------------------------------------------------ parameters


class Parameters:
    """Buffers of a kernel's parameters, by name, and its symbolic sizes."""

    def __init__(self, heads: PagedHeads, buffers: Mapping[str, Buffer]) -> None:
        self.heads, self.buffers = heads, dict(buffers)

    @staticmethod
    def of_shapes(heads: PagedHeads, shapes: Mapping[str, tuple[Sequence[Any], str]]) -> Parameters:
        """Return new parameters of these shapes and dtypes."""
        return Parameters(heads, {name: decl_buffer(*of, name) for name, of in shapes.items()})

    @staticmethod
    def of_function(heads: PagedHeads, names: Sequence[str], func: PrimFunc) -> Parameters:
        """Return the parameters of a function, which have these names."""
        return Parameters(heads, {n: func.buffer_map[p] for n, p in zip(names, func.params, strict=True)})

    def __getitem__(self, name: str) -> Buffer:
        return self.buffers[name]

    def at(self, name: str, *indices: Any) -> PrimExpr:
        """Element of a parameter."""
        return BufferLoad(self.buffers[name], tuple(map(_index, indices)))

    def wide(self, name: str, *indices: Any) -> PrimExpr:
        """Element of a parameter as float32."""
        return self.at(name, *indices).astype("float32")

    def store(self, name: str, value: PrimExpr, *indices: Any) -> Stmt:
        """Store a value, converted to the parameter's dtype."""
        buffer = self.buffers[name]
        return BufferStore(buffer, value.astype(str(buffer.dtype)), tuple(map(_index, indices)))

    def function(self, body: Stmt) -> PrimFunc:
        """Return the function with these parameters."""
        root = Block((), (), (), "root", body)
        handles = {Var(f"var_{name}", "handle"): buffer for name, buffer in self.buffers.items()}
        attrs = {"global_symbol": "main", "tir.noalias": True}
        return PrimFunc(tuple(handles), BlockRealize((), _TRUE, root), buffer_map=handles, attrs=attrs)


_TRUE: Final = const(1, "bool")


def _index(value: Any) -> PrimExpr:
    return const(value, "int64") if isinstance(value, int) else value.astype("int64")


def _pages(heads: PagedHeads) -> dict[str, tuple[Sequence[Any], str]]:
    pool = SizeVar("pages", "int64")
    return {
        "keys": ((pool, heads.kv_heads, heads.depth, heads.page_size), heads.page_dtype),
        "values": ((pool, heads.kv_heads, heads.page_size, heads.columns), heads.page_dtype),
    }


def append_parameters(heads: PagedHeads) -> Parameters:
    """Return the parameters of `append_to_pages`."""
    n = SizeVar("n", "int64")
    width = (heads.query_heads + heads.kv_heads) * heads.depth + heads.kv_heads * heads.columns
    return Parameters.of_shapes(heads, {
        "qkv": ((n, width), heads.dtype), "angles": ((n, 2, heads.rotated), "float32"), "slots": ((n,), "int32"),
        **_pages(heads), "queries": ((n, heads.query_heads, heads.depth), heads.dtype),
    })  # fmt: skip


def attend_parameters(heads: PagedHeads) -> Parameters:
    """Return the parameters of `attend_to_pages`."""
    n, b, m = (SizeVar(name, "int64") for name in ("n", "b", "m"))
    return Parameters.of_shapes(heads, {
        "queries": ((n, heads.query_heads, heads.depth), heads.dtype), "query_positions": ((n,), "int32"),
        "query_indptr": ((b + 1,), "int32"), **_pages(heads), "page_indptr": ((b + 1,), "int32"),
        "page_ids": ((m,), "int32"), "page_positions": ((m,), "int32"), "windows": ((b, 2), "int32"),
        "scale": ((1,), "float32"), "out": ((n, heads.query_heads, heads.columns), heads.dtype),
        "lse": ((n, heads.query_heads), "float32"),
    })  # fmt: skip


# ------------------------------------------------------------------------------------------------ statements


def _loop(name: str, extent: Any, body: Callable[[Var], Stmt], kind: ForKind = ForKind.SERIAL) -> Stmt:
    var = Var(name, "int64")
    return For(var, const(0, "int64"), _index(extent), kind, body(var))


def _let(name: str, value: PrimExpr, body: Callable[[Var], Stmt]) -> Stmt:
    var = Var(name, value.dtype)
    return LetStmt(var, value, body(var))


def _checked(condition: PrimExpr, message: str, body: Stmt) -> Stmt:
    return AssertStmt(condition, message, body)


def _task(
    name: str, axis: str, extent: PrimExpr, heads: PagedHeads, body: Callable[[Var], Stmt], local: Sequence[Buffer] = ()
) -> Stmt:
    """Return a parallel loop over one block, with the annotation."""
    var = Var(f"v_{axis}", "int64")
    v = IterVar(Range.from_min_extent(const(0, "int64"), extent), var)
    block = Block((v,), (), (), name, body(var), alloc_buffers=tuple(local), annotations={RULE: heads.annotation})
    realize = BlockRealize
    return _loop(axis, extent, lambda i: realize((i,), _TRUE, complete_block(block)), ForKind.PARALLEL)


PAGE_OUTSIDE: Final = "page_ids: a page is not in the pool"
"""Message for a page number that is negative, or not below the number of pages."""
SLOT_OUTSIDE: Final = "slots: a slot is neither -1 nor in the pool"
"""Message for a slot outside of the pages."""
QUERIES_UNCOVERED: Final = "query_indptr: it must begin with 0, not decrease, and end with the number of queries"
"""Message for ranges of queries that do not cover them in order."""
PAGES_OUTSIDE: Final = "page_indptr: it must not be negative, decrease, or exceed the number of pages listed"
"""Message for ranges of pages that are not in order, or not in the list."""


# ------------------------------------------------------------------------------------------------ append


def append_to_pages(heads: PagedHeads) -> PrimFunc:
    """Create the function that rotates queries and keys, and stores keys and values in pages.

    (qkv (n, …), angles (n, 2, rotated) float32, slots (n,) int32, keys, values, queries (n, query_heads, depth)):
    a row of `qkv` has the query heads, the heads of keys and those of values of a token; `angles` are its cosines and
    sines; its slot is page · page_size + offset, or -1 if it is not stored. A slot outside of the pool is an error.
    """
    of = append_parameters(heads)
    n, pages = of["slots"].shape[0], of["keys"].shape[0]
    depth, columns, size = heads.depth, heads.columns, heads.page_size

    def token(t: Var) -> Stmt:
        queries = _loop("h", heads.query_heads, lambda h: _rotated(
            of, t, h * depth, lambda c, value: of.store("queries", value, t, h, c)))  # fmt: skip

        def stored(page: Var, offset: Var) -> Stmt:
            first = heads.query_heads * depth
            keys = _loop("g", heads.kv_heads, lambda g: _rotated(
                of, t, first + g * depth, lambda c, value: of.store("keys", value, page, g, c, offset)))  # fmt: skip
            first += heads.kv_heads * depth
            values = _loop("g", heads.kv_heads, lambda g: _loop("c", columns, lambda c: of.store(
                "values", of.wide("qkv", t, first + g * columns + c), page, g, offset, c)))  # fmt: skip
            return _checked(intrin.all(page >= 0, page < pages), SLOT_OUTSIDE, seq_of([keys, values]))

        slot = of.at("slots", t).astype("int64")
        kept = _let("slot", slot, lambda slot: IfThenElse(NE(slot, const(NO_SLOT, "int64")), _let(
            "page", intrin.floordiv(slot, size), lambda page: _let(
                "offset", intrin.floormod(slot, size), lambda offset: stored(page, offset)))))  # fmt: skip
        return seq_of([queries, kept])

    return of.function(_task("append", "t", n, heads, token))


def _rotated(of: Parameters, t: Var, start: Any, store: Callable[[PrimExpr, PrimExpr], Stmt]) -> Stmt:
    """Store the elements of a query or key, whose elements in qkv begin at `start`, rotated."""
    heads = of.heads
    pairs = heads.rotated

    def pair(i: Var) -> Stmt:
        first, second = (i * 2, i * 2 + 1) if heads.interleaved else (i, i + pairs)

        def results(a: Var, b: Var) -> Stmt:
            cosine, sine = of.at("angles", t, 0, i), of.at("angles", t, 1, i)
            return seq_of([store(first, a * cosine - b * sine), store(second, b * cosine + a * sine)])

        return _let("a", of.wide("qkv", t, start + first), lambda a: _let(
            "b", of.wide("qkv", t, start + second), lambda b: results(a, b)))  # fmt: skip

    rest = _loop("c", heads.depth - 2 * pairs, lambda c: store(
        c + 2 * pairs, of.wide("qkv", t, start + (c + 2 * pairs))))  # fmt: skip
    return seq_of([_loop("i", pairs, pair), rest])


# ------------------------------------------------------------------------------------------------ attend


def attend_to_pages(heads: PagedHeads) -> PrimFunc:
    """Create the function that computes attention of queries to keys and values in pages.

    (queries (n, query_heads, depth), query_positions (n,) int32, query_indptr (b + 1,) int32, keys, values, page_indptr
    (b + 1,) int32, page_ids (m,) int32, page_positions (m,) int32, windows (b, 2) int32, scale (1,) float32,
    out (n, query_heads, columns), lse (n, query_heads) float32): the queries of sequence i attend to the keys of its
    pages. The key at offset t of a listed page has position page_positions + t; it counts for a query if the position
    is not above the query's, and is inside the window (none if it is not positive) or below the number of sinks;
    `windows` has both. out is Σ softmax(scale · q·k) v in float32, lse the logarithm to base 2 of the sum of
    exponentials; where no key counts they are 0 and -inf. Raises an error for lists that are not in order, and for
    pages outside of the pool.
    """
    of = attend_parameters(heads)
    n, b = of["queries"].shape[0], of["windows"].shape[0]
    local = {
        name: decl_buffer((size,), "float32", name, scope="local")
        for name, size in (("dot", 1), ("most", 1), ("total", 1), ("sums", heads.columns))
    }

    def head(h: Var) -> Stmt:
        covered = intrin.all(of.at("query_indptr", 0).equal(0), of.at("query_indptr", b).astype("int64").equal(n))
        sequences = _loop("i", b, lambda i: _sequence(of, i, lambda row, pages, pages_end: _row(
            of, local, h, i, row, pages, pages_end)))  # fmt: skip
        return _checked(covered, QUERIES_UNCOVERED, sequences)

    return of.function(_task("attend", "h", _index(heads.query_heads), heads, head, list(local.values())))


def _sequence(of: Parameters, i: Var, row: Callable[[PrimExpr, Var, Var], Stmt]) -> Stmt:
    """Call `row(query, first page, end of the pages)` for each query of a sequence, whose lists are checked."""
    n, m = of["queries"].shape[0], of["page_ids"].shape[0]

    def bounds(name: str, message: str, most: PrimExpr, body: Callable[[Var, Var], Stmt]) -> Stmt:
        begin, end = of.at(name, i).astype("int64"), of.at(name, i + 1).astype("int64")
        return _let("begin", begin, lambda begin: _let("end", end, lambda end: _checked(
            intrin.all(begin >= 0, begin <= end, end <= most), message, body(begin, end))))  # fmt: skip

    return bounds("query_indptr", QUERIES_UNCOVERED, n, lambda first, end: bounds(
        "page_indptr", PAGES_OUTSIDE, m, lambda page, pages_end: _loop(
            "q", end - first, lambda q: row(first + q, page, pages_end))))  # fmt: skip


def counts(position: PrimExpr, query: PrimExpr, window: PrimExpr, sinks: PrimExpr) -> PrimExpr:
    """Condition on which the key at a position counts for a query, whose position is `query`."""
    near = intrin.any(window <= 0, position > query - window, position < sinks)
    return intrin.all(position <= query, near)


def _row(
    of: Parameters, local: Mapping[str, Buffer], h: Var, i: Var, row: PrimExpr, first: Var, end: Var
) -> Stmt:  # fmt: skip
    """Compute attention of a query head: the greatest score, then the weights."""
    heads, zero = of.heads, const(0, "int64")
    most, total, sums = (local[name] for name in ("most", "total", "sums"))

    def load(buffer: Buffer, index: PrimExpr = zero) -> PrimExpr:
        return BufferLoad(buffer, (index,))

    def set_to(buffer: Buffer, value: PrimExpr, index: PrimExpr = zero) -> Stmt:
        return BufferStore(buffer, value, (index,))

    def greatest(score: Var, page: Var, t: Var) -> Stmt:
        del page, t
        return set_to(most, Select(score > load(most), score, load(most)))

    def weighed(level: Var) -> Callable[[Var, Var, Var], Stmt]:
        return lambda score, page, t: added_to(level, score, page, t)

    def added_to(level: Var, score: Var, page: Var, t: Var) -> Stmt:
        def added(weight: Var) -> Stmt:
            kv_head = intrin.floordiv(h, heads.group)
            return seq_of([
                set_to(total, load(total) + weight),
                _loop("c", heads.columns, lambda c: set_to(
                    sums, load(sums, c) + weight * of.wide("values", page, kv_head, t, c), c)),
            ])  # fmt: skip

        return _let("weight", intrin.exp(score - level), added)

    def results(level: Var) -> Stmt:
        nothing, none = const(0.0, "float32"), load(total).equal(const(0.0, "float32"))
        return seq_of([
            set_to(total, nothing),
            _loop("c", heads.columns, lambda c: set_to(sums, nothing, c)),
            _each_key(of, local, h, i, row, first, end, weighed(level)),
            _loop("c", heads.columns, lambda c: of.store(
                "out", Select(none, nothing, load(sums, c) / load(total)), row, h, c)),
            of.store("lse", level * const(math.log2(math.e), "float32") + intrin.log2(load(total)), row, h),
        ])  # fmt: skip

    least = const(-math.inf, "float32")
    return seq_of([
        set_to(most, least),
        _each_key(of, local, h, i, row, first, end, greatest),
        _let("level", Select(load(most).equal(least), const(0.0, "float32"), load(most)), results),
    ])  # fmt: skip


def _each_key(
    of: Parameters, local: Mapping[str, Buffer], h: Var, i: Var, row: PrimExpr, first: Var, end: Var,
    body: Callable[[Var, Var, Var], Stmt],
) -> Stmt:  # fmt: skip
    """Call `body(score, page, offset)` for the keys that count for a query head."""
    heads, pages, dot = of.heads, of["keys"].shape[0], local["dot"]
    zero = const(0, "int64")

    def key(page: Var, t: Var, position: PrimExpr) -> Stmt:
        def term(k: Var) -> Stmt:
            factor = of.wide("keys", page, intrin.floordiv(h, heads.group), k, t)
            sums = BufferLoad(dot, (zero,)) + of.wide("queries", row, h, k) * factor
            return BufferStore(dot, sums, (zero,))

        score = BufferLoad(dot, (zero,)) * of.at("scale", 0)
        if heads.softcap:
            cap = const(heads.softcap, "float32")
            score = cap * intrin.tanh(score / cap)
        near = counts(position, of.at("query_positions", row), of.at("windows", i, 0), of.at("windows", i, 1))
        return IfThenElse(near, seq_of([
            BufferStore(dot, const(0.0, "float32"), (zero,)),
            _loop("k", heads.depth, term),
            _let("score", score, lambda score: body(score, page, t)),
        ]))  # fmt: skip

    def page_of(p: Var) -> Stmt:
        position = of.at("page_positions", first + p)
        return _let("page", of.at("page_ids", first + p).astype("int64"), lambda page: _checked(
            intrin.all(page >= 0, page < pages), PAGE_OUTSIDE, _loop("t", heads.page_size, lambda t: key(
                page, t, position + t.astype("int32")))))  # fmt: skip

    return _loop("p", end - first, page_of)


__all__ = [
    "FLOATS", "NO_SLOT", "RULE", "PagedHeads", "Parameters", "append_parameters", "append_to_pages",
    "attend_parameters", "attend_to_pages", "counts",
]  # fmt: skip
