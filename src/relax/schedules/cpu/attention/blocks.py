"""Loops of `attention` for blocks of queries, each of which iterates over blocks of keys (see there)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from ....prim import GT, IntImm, Mul, PrimExpr, Select, Var, const, is_const, simplify
from ....prim.instructions import prefetch
from ....prim.intrin import ceildiv, exp, floordiv, floormod
from ....prim.intrin import min as minimum
from ....runtime.records import dataclass
from ....target import Target
from ....tir import Buffer, BufferLoad, BufferStore, DeclBuffer, Evaluate, ForKind, IfThenElse, IterVar, LetStmt, Stmt
from ....tir.attention import Attention
from ...build import alloc, block, int64, let, loop, named, scratch, size_of, tasks, vector_load, vector_store
from ..products.operands import Values
from ..tile import RegisterTile, multiply_add, register_tile, row_at
from ..tile.division import Tile, even_pieces, tile_for
from ..tile.transposes import turned
from ..tile.words import Words, bits_view, declared, words_for
from .finish import Finish
from .scores import Parts, Scores, part_of

LINE: Final = 64
"""Bytes of a cache line."""
FEWEST_TILES: Final = 10
"""Fewest key tiles per key block. The 7 tiles that fit an L1 cache of 32 kB are 3 to 15 % slower."""
MOST_TILES: Final = 20
"""Most key tiles per key block."""
NARROW_ROWS: Final = 8
"""Rows (keys or columns of the values) of a register tile whose queries fill one vector."""
AHEAD: Final = 16
"""Prefetch distance in keys."""
Shapes: TypeAlias = "dict[str, tuple[int | PrimExpr, ...]]"


@dataclass(frozen=True)
class AttentionParameters:
    """Numbers that the loops of attention in blocks of queries may choose; None: computed from the target."""

    tile: tuple[int, int] | None = None
    """Rows (keys or columns of the values) of a register tile, and vectors of queries."""
    keys: int | None = None
    """Register tiles of keys in a block."""


DEFAULT: Final = AttentionParameters()


class Streamed:
    """Writes the loops of one attention, block of queries by block of queries."""

    def __init__(
        self, one: Attention, target: Target, most_rows: int | None = None, parameters: AttentionParameters = DEFAULT
    ) -> None:
        """Prepare the loops; `most_rows` is an upper bound of the number of queries, if one is known."""
        self.one, self.scores = one, Scores(one)
        self.dtype = str(one.product.dtype)
        bits = one.product.dtype.bits
        tile = tile_for(target, bits, parameters.tile)
        self.rows, self.keys = size_of(one.row), size_of(one.key)
        self.depth, self.columns = _number(one.depth), _number(one.column)
        if isinstance(self.rows, IntImm):
            most_rows = self.rows.value
        vectors = tile.vectors
        if most_rows is not None:
            vectors = max(min(vectors, -(-most_rows // tile.lanes)), 1)
        self.tile = Tile(NARROW_ROWS if vectors == 1 < tile.vectors else tile.rows, vectors, tile.lanes)
        self.width = self.tile.columns
        """Queries per block."""
        self.words = _words_of_products(one, target)
        """Packed groups of queries and keys for dot product instructions; None: they are multiplied as floats."""
        fitting = target.machine.caches.l1 // 3 // (self.width * bits // 8)
        height = self.tile.rows
        self.most_keys = (parameters.keys or min(max(fitting // height, FEWEST_TILES), MOST_TILES)) * height
        """Keys per block: their weights and values fill most of the L1 cache."""

    # ------------------------------------------------------------------ tasks

    def tasks(self) -> Stmt:
        """Return the parallel loop over the batch and blocks of queries."""
        batch = self.one.batch
        sizes = [*(size_of(v) for v in batch), simplify(ceildiv(self.rows, self.width))]
        names = [*(v.var.name for v in batch), "qo"]

        def task(parts: list[PrimExpr]) -> Stmt:
            *outer, qo = parts
            values = dict(zip((v.var for v in batch), outer, strict=True))
            values[self.one.row.var] = simplify(qo * self.width)
            inside = simplify(minimum(int64(self.width), self.rows - values[self.one.row.var]))
            return named("inside", inside, lambda inside: self._queries(values, inside))

        return tasks("task", names, sizes, task)

    def _queries(self, values: Values, inside: PrimExpr) -> Stmt:
        """Process all keys for a block of queries."""
        shapes: Shapes = {
            "queries": (self.depth, self.width), "most": (self.width,), "total": (self.width,),
            "sums": (self.columns, self.width), "results": (self.width, self.columns),
        }  # fmt: skip
        if self.words is not None:
            shapes["queries"] = (self.depth // self.words.group, self.width)

        def body(memory: Mapping[str, Buffer]) -> Stmt:
            return block([
                self._start(values, memory, inside),
                self._all_keys(values, memory, inside),
                self._results(values, memory, inside),
            ])  # fmt: skip

        return self._allocated(shapes, body)

    def _allocated(self, shapes: Shapes, body: Callable[[Mapping[str, Buffer]], Stmt]) -> Stmt:
        def rest(names: Sequence[str], memory: Mapping[str, Buffer]) -> Stmt:
            if not names:
                return body(memory)
            name, *others = names
            dtype = "int32" if name == "queries" and self.words is not None else self.dtype
            return scratch(name, shapes[name], dtype, lambda b: rest(others, {**memory, name: b}))

        return rest(list(shapes), {})

    def _each(self, body: Callable[[PrimExpr], Stmt]) -> Stmt:
        """Return `body(query)` for each query of a block, vectorised."""
        lanes = self.tile.lanes
        return loop("v", self.tile.vectors, lambda v: loop(
            "x", lanes, lambda x: body(v * lanes + x), ForKind.VECTORIZED), ForKind.UNROLLED)  # fmt: skip

    def _start(self, values: Values, memory: Mapping[str, Buffer], inside: PrimExpr) -> Stmt:
        """Transpose the queries and initialise the running maximum, total and sums."""
        queries, sums, zero = memory["queries"], memory["sums"], const(0, self.dtype)
        nothing = const(0, str(queries.dtype))
        copy = self._queries_by_depth(values, queries, inside)
        cleared = loop("k", queries.shape[0], lambda k: self._each(
            lambda i: BufferStore(queries, nothing, (k, i))))  # fmt: skip
        if not is_const(inside, self.width):
            copy = block([IfThenElse(inside < self.width, cleared), copy])
        least = const(float("-inf"), self.dtype)
        return block([
            copy,
            loop("c", self.columns, lambda c: self._each(lambda i: BufferStore(sums, zero, (c, i)))),
            self._each(lambda i: block([
                BufferStore(memory["most"], least, (i,)), BufferStore(memory["total"], zero, (i,))])),
        ])  # fmt: skip

    def _queries_by_depth(self, values: Values, queries: Buffer, inside: PrimExpr) -> Stmt:
        """Copy the queries (or their packed groups) transposed, so that consecutive elements belong to consecutive
        queries.
        """
        one, lanes, words = self.one, self.tile.lanes, self.words
        view = part_of(one.query, values, ((one.row.var, inside), (one.depth.var, int64(self.depth))))
        if words is None:
            wide = one.product.dtype
            copy = turned(view, queries, inside, int64(self.depth), lanes, lambda value: value.astype(
                str(wide.with_lanes(value.dtype.lanes))))  # fmt: skip
            return DeclBuffer(view, copy)
        bits, group = bits_view(view), words.group
        number = self.depth // group

        def copied(rows: Buffer) -> Stmt:
            def row(i: Var) -> Stmt:
                return loop("w", number, lambda w: BufferStore(rows, words.neighbours(
                    vector_load(bits, (i, w * group), group), True), (i, w)))  # fmt: skip

            filled = declared([(view, one.query.buffer), (bits, view)], loop("i", inside, row))
            return block([filled, turned(rows, queries, inside, int64(number), lanes, lambda word: word)])

        return scratch("rows", (self.width, number), "int32", copied)

    # ------------------------------------------------------------------ keys

    def _all_keys(self, values: Values, memory: Mapping[str, Buffer], inside: PrimExpr) -> Stmt:
        begin, end = self.scores.visible(values, inside, self.keys)
        shapes: Shapes = {"weights": (self.most_keys, self.width), "new": (self.width,), "old": (self.width,)}

        def blocks(begin: PrimExpr, end: PrimExpr) -> Stmt:
            count = simplify(ceildiv(end - begin, self.most_keys))
            return loop("ko", count, lambda ko: let(
                "key", begin + ko * self.most_keys, lambda key: named(
                    "count", simplify(minimum(int64(self.most_keys), end - key)), lambda count: self._keys(
                        {**values, self.one.key.var: key}, memory, inside, count))))  # fmt: skip

        def of_memory(more: Mapping[str, Buffer]) -> Stmt:
            nonlocal memory
            memory = {**memory, **more}
            return named("begin", begin, lambda begin: named("end", end, lambda end: blocks(begin, end)))

        return self._allocated(shapes, of_memory)

    def _keys(self, values: Values, memory: Mapping[str, Buffer], inside: PrimExpr, count: PrimExpr) -> Stmt:
        """Process one block of keys for a block of queries."""
        one, width, lanes = self.one, self.width, self.tile.lanes
        keys = part_of(one.keys, values, ((one.key.var, count), (one.depth.var, int64(self.depth))))
        heads = part_of(one.values, values, ((one.key.var, count), (one.column.var, int64(self.columns))))

        def body(keys: Buffer, heads: Buffer) -> Stmt:
            scored = self.scores.with_parts(
                values, inside, count, (self.most_keys, width), lanes,
                lambda parts: self._scored(values, memory, inside, count, keys, parts))  # fmt: skip
            new, most = memory["new"], memory["most"]
            begin = self._each(lambda i: BufferStore(new, BufferLoad(most, (i,)), (i,)))
            return block([begin, scored, self._weighed(memory, count), self._mixed(memory, heads, count)])

        return DeclBuffer(keys, DeclBuffer(heads, self._factors(keys, count, lambda keys: (
            self._widened(heads, count, self.columns, lambda heads: body(keys, heads))))))  # fmt: skip

    def _factors(self, keys: Buffer, count: PrimExpr, body: Callable[[Buffer], Stmt]) -> Stmt:
        """Call `body` with a block of keys in the form in which they are multiplied."""
        return body(keys) if self.words is not None else self._widened(keys, count, self.depth, body)

    def _widened(self, part: Buffer, count: PrimExpr, size: int, body: Callable[[Buffer], Stmt]) -> Stmt:
        """Call `body` with a block of keys or values converted to the accumulator dtype."""
        if part.dtype == self.dtype:
            return body(part)

        def copied(wide: Buffer) -> Stmt:
            copy = loop("j", count, lambda j: loop("k", size, lambda k: BufferStore(
                wide, BufferLoad(part, (j, k)).astype(self.dtype), (j, k)), ForKind.VECTORIZED))  # fmt: skip
            return block([copy, body(wide)])

        return scratch("wide", (self.most_keys, size), self.dtype, copied)

    def _scored(
        self, values: Values, memory: Mapping[str, Buffer], inside: PrimExpr, count: PrimExpr, keys: Buffer,
        read: Parts,
    ) -> Stmt:  # fmt: skip
        """Compute the scores of a block and update each query's maximum."""
        weights, new, queries = memory["weights"], memory["new"], memory["queries"]

        def tile(first: PrimExpr, height: int) -> Stmt:
            def finished(tile: RegisterTile) -> Stmt:
                def lane(i: PrimExpr) -> Stmt:
                    names = [Var(f"s{p}", self.dtype) for p in range(height)]
                    stores = [BufferStore(weights, s, (first + p, i)) for p, s in enumerate(names)]
                    most = [Var(f"most{p}", self.dtype) for p in range(height + 1)]
                    result = block([*stores, BufferStore(new, most[-1], (i,))])
                    for name, old, greater in reversed(list(zip(names, most[:-1], most[1:], strict=True))):
                        # The maximum may ignore NaN: a NaN score yields a NaN weight for any maximum.
                        result = LetStmt(greater, Select(GT(name, old), name, old), result)
                    result = LetStmt(most[0], BufferLoad(new, (i,)), result)
                    for p, name in reversed(list(enumerate(names))):
                        product = BufferLoad(tile.acc, (int64(p), i))
                        place = (first + p, i)
                        result = LetStmt(name, self.scores.at(values, place, inside, read, product), result)
                    return result

                return self._each(lane)

            words = self.words
            bits = keys if words is None else bits_view(keys)

            def left(p: PrimExpr, k: PrimExpr) -> PrimExpr:
                if words is None:
                    return BufferLoad(keys, (first + p, k))
                group = words.group
                return words.neighbours(vector_load(bits, (first + p, k * group), group), True)

            def ahead(k: PrimExpr) -> PrimExpr:
                """Row index to prefetch at depth `k`: a key of the next tile."""
                numbers = LINE * 8 // keys.dtype.bits
                lines = -(-self.depth // numbers)
                key = first + height + floordiv(k, lines)
                return BufferLoad(keys, (key, floormod(k, lines) * numbers))

            made = self._tile(height, None, queries.shape[0], left, queries, finished, ahead, words)
            return declared([(bits, keys)], made)

        height = self.tile.rows
        whole = floordiv(count, height)
        parts = [loop("io", simplify(whole), lambda io: tile(simplify(io * height), height))]
        if isinstance(count, IntImm):
            left = count.value % height
            parts += [tile(int64(count.value - left), left)] if left else []
        elif self.scores.limits or not is_const(simplify(floormod(self.keys, height)), 0):
            # Remainder of the last block: single keys, which compile less code.
            parts.append(loop("r", floormod(count, height), lambda r: tile(whole * height + r, 1)))
        return block(parts)

    def _tile(
        self, height: int, start: Callable[[PrimExpr, PrimExpr], PrimExpr] | None, depth: PrimExpr,
        left: Callable[[PrimExpr, PrimExpr], PrimExpr], right: Buffer, finished: Callable[[RegisterTile], Stmt],
        ahead: Callable[[PrimExpr], PrimExpr] | None, words: Words | None = None,
    ) -> Stmt:  # fmt: skip
        """Accumulate left(row, depth) · right[depth] in registers, starting from `start`, and pass the tile to
        `finished`.

        Each step prefetches the cache line of an element needed later, as keys and values may be far apart in memory.
        With `tile.words`, both operands are packed groups, multiplied by dot product instructions.
        """
        lanes = self.tile.lanes

        def tile(tile: RegisterTile) -> Stmt:
            def step(k: Var) -> Stmt:
                asked = [] if ahead is None else [Evaluate(prefetch(ahead(k), locality=3))]
                return block([*asked, tile.step(lambda p: left(p, k), row_at(right, (k, int64(0)), lanes))])

            begun = tile.cleared() if start is None else tile.begun(start)
            return block([begun, loop("k", depth, step), finished(tile)])

        product = multiply_add if words is None else words.add
        return register_tile(
            height, self.tile.vectors, lanes, tile, sums=self.dtype, factors=str(right.dtype), product=product
        )

    def _weighed(self, memory: Mapping[str, Buffer], count: PrimExpr) -> Stmt:
        """Turn the scores of a block into softmax weights, and rescale earlier sums where the running maximum grew."""
        new, old, most, total = (memory[name] for name in ("new", "old", "most", "total"))
        least = const(float("-inf"), self.dtype)

        def begun(sums: Buffer, i: PrimExpr) -> Stmt:
            greatest = Var("greatest", self.dtype)
            # A query without visible keys so far has maximum -inf: exp(-inf - 0) is 0.
            safe = Select(greatest.equal(least), const(0, self.dtype), greatest)
            factor = Var("factor", self.dtype)
            level = Var("level", self.dtype)
            stores = block([
                BufferStore(old, factor, (i,)),
                BufferStore(sums, BufferLoad(total, (i,)) * factor, (i,)),
                BufferStore(most, greatest, (i,)),
                BufferStore(new, level, (i,)),
            ])  # fmt: skip
            body = LetStmt(factor, exp(BufferLoad(most, (i,)) - level), stores)
            return LetStmt(greatest, BufferLoad(new, (i,)), LetStmt(level, safe, body))

        return self._summed(memory, count, begun, lambda sums, i: BufferStore(total, BufferLoad(sums, (i,)), (i,)))

    def _summed(
        self, memory: Mapping[str, Buffer], count: PrimExpr,
        begun: Callable[[Buffer, PrimExpr], Stmt], finished: Callable[[Buffer, PrimExpr], Stmt],
    ) -> Stmt:  # fmt: skip
        """Replace a block of scores by weights and sum them; `begun` and `finished` run before and after it for each
        query.
        """
        new, weights = memory["new"], memory["weights"]

        def weight(sums: Buffer, j: Var, i: PrimExpr) -> Stmt:
            value = Var("weight", self.dtype)
            stores = block([
                BufferStore(weights, value, (j, i)),
                BufferStore(sums, BufferLoad(sums, (i,)) + value, (i,)),
            ])  # fmt: skip
            return LetStmt(value, exp(BufferLoad(weights, (j, i)) - BufferLoad(new, (i,))), stores)

        return alloc("added", (self.width,), self.dtype, "local", lambda sums: block([
            self._each(lambda i: begun(sums, i)),
            loop("j", count, lambda j: self._each(lambda i: weight(sums, j, i))),
            self._each(lambda i: finished(sums, i))]))  # fmt: skip

    def _mixed(self, memory: Mapping[str, Buffer], heads: Buffer, count: PrimExpr) -> Stmt:
        """Accumulate weight · value for a block of keys."""
        sums, old, lanes = memory["sums"], memory["old"], self.tile.lanes

        def tile(first: PrimExpr, height: int) -> Stmt:
            def start(p: PrimExpr, c: PrimExpr) -> PrimExpr:
                return Mul(vector_load(sums, (first + p, c), lanes), vector_load(old, (c,), lanes))

            def finished(tile: RegisterTile) -> Stmt:
                return tile.each(lambda p, c: vector_store(sums, (first + p, c), tile.load(p, c)))

            def left(p: PrimExpr, j: PrimExpr) -> PrimExpr:
                return BufferLoad(heads, (j, first + p))

            def ahead(j: PrimExpr) -> PrimExpr:
                return BufferLoad(heads, (j + AHEAD, first))

            return self._tile(height, start, count, left, memory["weights"], finished, ahead)

        segments = even_pieces(self.columns, -(-self.columns // self.tile.rows))
        return block(
            loop("co", s.count, lambda co, s=s: tile(simplify(s.start + co * s.size), s.size)) for s in segments
        )

    # ------------------------------------------------------------------ results

    def _results(self, values: Values, memory: Mapping[str, Buffer], inside: PrimExpr) -> Stmt:
        """Store the results of a block of queries."""
        results, total, most = memory["results"], memory["total"], memory["most"]
        copy = turned(memory["sums"], results, int64(self.columns), int64(self.width), self.tile.lanes, lambda x: x)
        finish = Finish(self.one, values, inside)
        rows = loop("i", inside, lambda i: finish.row(
            i, BufferLoad(total, (i,)), BufferLoad(most, (i,)), lambda c: BufferLoad(results, (i, c))))  # fmt: skip
        return block([copy, finish.declared(rows)])


def _words_of_products(one: Attention, target: Target) -> Words | None:
    """Packed groups of queries and keys if they are contiguous in memory and the target has dot products, else None."""
    query, keys, sums = one.query.dtype, one.keys.dtype, one.product.dtype
    if target.machine.vector_bits < 128 or keys.is_integer or one.keys.indices[-1] is not one.depth.var:
        return None
    words = words_for(target, query, keys, sums)
    return words if words is not None and _number(one.depth) % words.group == 0 else None


def _number(v: IterVar) -> int:
    size = size_of(v)
    assert isinstance(size, IntImm)
    return size.value
