"""Attention of few queries, as in autoregressive decoding: keys and values are read once, in order.

    for task in T.parallel(batch * queries):
        most, total, sums[0:dv] = -inf, 0, 0
        for ko in range(ceildiv(n, 512)):                        512 keys at a time
            for jo in range(32):                                 16 keys at a time
                products[0:16] = Σ over lanes of q[:] * K[key + p, :]      p in 0 .. 15, by a tree of shuffles
                weights[jo * 16 : …] = X of products
                new[:] = max(new, weights[jo * 16 : …])
            old = exp(most - max(new))                           most = max(new)
            weights = exp(weights - most)
            total = total * old + Σ weights
            acc = sums * old                                     in registers
            for j in range(512):
                acc[:] += weights[j] * V[key + j, :]
            sums = acc
        R[b, i, :] = sums / total

Vectors run along the elements of a head, and along keys for scores. Performance is bound by the memory bandwidth for
keys and values. If normalised weights are rounded, all keys form one block, whose sum of weights is that of the query.

Left to `attention`: keys and values whose heads are not contiguous.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ....prim import LT, Add, IntImm, Max, Mul, PrimExpr, Select, Var, const, simplify
from ....prim.instructions import vector_reduce_add, vector_reduce_max
from ....prim.intrin import ceildiv, exp, floordiv, floormod
from ....prim.intrin import max as maximum
from ....prim.intrin import min as minimum
from ....target import Target
from ....tir import Buffer, BufferLoad, BufferStore, DeclBuffer, ForKind, IterVar, LetStmt, Stmt
from ....tir.attention import Attention
from ...build import (
    alloc,
    block,
    int64,
    let,
    loop,
    named,
    ramp,
    scratch,
    size_of,
    spread,
    tasks,
    vector_load,
    vector_store,
)
from ..products.operands import Values
from ..tile.transposes import lane_sums
from .finish import Finish
from .scores import Parts, Scores, part_of

FEW_QUERIES: Final = 4
"""Most queries processed one by one; more fill enough lanes of vectors of queries."""
KEYS: Final = 512
"""Keys of a block; a multiple of the lanes of any vector."""


class Decoded:
    """Writes the loops of an attention, query by query."""

    def __init__(self, one: Attention, target: Target) -> None:
        self.one, self.scores = one, Scores(one)
        self.dtype = str(one.product.dtype)
        self.lanes = max(target.machine.vector_bits // one.product.dtype.bits, 1)
        self.vector = str(one.product.dtype.with_lanes(self.lanes))
        self.keys, self.depth, self.columns = size_of(one.key), _number(one.depth), _number(one.column)
        self.most_keys = int64(KEYS) if one.rounded is None else self.keys
        """Keys of a block."""

    def tasks(self) -> Stmt:
        """Return the parallel loop over the batch and queries."""
        spatial = (*self.one.batch, self.one.row)
        sizes = [size_of(v) for v in spatial]

        def task(parts: list[PrimExpr]) -> Stmt:
            return self._query(dict(zip((v.var for v in spatial), parts, strict=True)))

        names = [v.var.name for v in spatial]
        return tasks("task", names, sizes, task)

    def _padded(self, size: int) -> int:
        return -(-size // self.lanes) * self.lanes

    def _vectors(self, size: int, body: Callable[[int, PrimExpr | None], Stmt]) -> Stmt:
        """Return `body(first element, mask)` for each vector of a head; the mask is None for whole vectors."""
        parts: list[Stmt] = []
        for first in range(0, size, self.lanes):
            parts.append(body(first, self._mask(first, size)))
        return block(parts)

    def _mask(self, first: int, size: int) -> PrimExpr | None:
        """Mask of a head's last vector, or None for a whole vector."""
        if first + self.lanes <= size:
            return None
        return LT(ramp(first, self.lanes), spread(int64(size), self.lanes))

    def _query(self, values: Values) -> Stmt:
        """Process all keys for one query."""
        query = part_of(self.one.query, values, ((self.one.depth.var, int64(self.depth)),))
        zero = spread(const(0, self.dtype), self.lanes)

        def body(head: Buffer, sums: Buffer, state: Buffer) -> Stmt:
            def loaded(first: int, inside: PrimExpr | None) -> Stmt:
                part = vector_load(query, (first,), self.lanes, inside).astype(self.vector)
                return vector_store(head, (first,), part)

            finish = Finish(self.one, values, int64(1))
            stored = finish.row(
                int64(0), BufferLoad(state, (int64(1),)), BufferLoad(state, (int64(0),)),
                lambda c: BufferLoad(sums, (c,)))  # fmt: skip
            return block([
                DeclBuffer(query, self._vectors(self.depth, loaded)),
                self._vectors(self.columns, lambda first, _: vector_store(sums, (first,), zero)),
                BufferStore(state, const(float("-inf"), self.dtype), (int64(0),)),
                BufferStore(state, const(0, self.dtype), (int64(1),)),
                self._all_keys(values, head, sums, state),
                finish.declared(stored),
            ])  # fmt: skip

        return scratch("query", (self._padded(self.depth),), self.dtype, lambda head: scratch(
            "sums", (self._padded(self.columns),), self.dtype, lambda sums: scratch(
                "most_and_total", (2,), self.dtype, lambda state: body(head, sums, state))))  # fmt: skip

    def _all_keys(self, values: Values, head: Buffer, sums: Buffer, state: Buffer) -> Stmt:
        begin, end = self.scores.visible(values, int64(1), self.keys)

        def blocks(begin: PrimExpr, end: PrimExpr) -> Stmt:
            if self.one.rounded is not None:
                count = simplify(maximum(end - begin, int64(0)))
                at = {**values, self.one.key.var: begin}
                return named("count", count, lambda count: self._keys(at, head, sums, state, count))
            return loop("ko", simplify(ceildiv(end - begin, KEYS)), lambda ko: let(
                "key", begin + ko * KEYS, lambda key: named(
                    "count", simplify(minimum(int64(KEYS), end - key)), lambda count: self._keys(
                        {**values, self.one.key.var: key}, head, sums, state, count))))  # fmt: skip

        return named("begin", begin, lambda begin: named("end", end, lambda end: blocks(begin, end)))

    def _keys(self, values: Values, head: Buffer, sums: Buffer, state: Buffer, count: PrimExpr) -> Stmt:
        """Process one block of keys."""
        one, lanes = self.one, self.lanes
        keys = part_of(one.keys, values, ((one.key.var, count), (one.depth.var, int64(self.depth))))
        heads = part_of(one.values, values, ((one.key.var, count), (one.column.var, int64(self.columns))))

        def body(weights: Buffer, greatest: Buffer) -> Stmt:
            least = spread(const(float("-inf"), self.dtype), lanes)
            scored = self.scores.with_parts(values, int64(1), count, None, lanes, lambda parts: self._scored(
                values, head, keys, count, weights, greatest, parts))  # fmt: skip
            new = maximum(BufferLoad(state, (int64(0),)), vector_reduce_max(vector_load(greatest, (0,), lanes)))
            return block([
                vector_store(greatest, (0,), least), scored,
                let("new", new, lambda new: self._weighed(weights, heads, sums, state, count, new)),
            ])  # fmt: skip

        written = scratch("weights", (self.most_keys,), self.dtype, lambda weights: scratch(
            "greatest", (lanes,), self.dtype, lambda greatest: body(weights, greatest)))  # fmt: skip
        return DeclBuffer(keys, DeclBuffer(heads, written))

    def _groups(self, count: PrimExpr, whole: Callable[[PrimExpr], Stmt], single: Callable[[PrimExpr], Stmt]) -> Stmt:
        """Return `whole(first key)` for each full vector of keys, and `single(key)` for each remaining key."""
        groups, left = simplify(floordiv(count, self.lanes)), simplify(floormod(count, self.lanes))
        parts = [loop("jo", groups, lambda jo: whole(jo * self.lanes))]
        if not (isinstance(left, IntImm) and left.value == 0):
            parts.append(loop("j", left, lambda j: single(groups * self.lanes + j)))
        return block(parts)

    # ------------------------------------------------------------------ scores

    def _scored(
        self, values: Values, head: Buffer, keys: Buffer, count: PrimExpr, weights: Buffer, greatest: Buffer,
        parts: Parts,
    ) -> Stmt:  # fmt: skip
        """Compute the scores of a block of keys and the maximum per lane."""

        def at(j: PrimExpr, product: PrimExpr) -> PrimExpr:
            return self.scores.at(values, (j, int64(0)), int64(1), parts, product)

        def whole(j: PrimExpr) -> Stmt:
            def lane(products: Buffer, x: Var) -> Stmt:
                def stored(score: Var) -> Stmt:
                    more = Max(BufferLoad(greatest, (x,)), score)
                    return block([BufferStore(weights, score, (j + x,)), BufferStore(greatest, more, (x,))])

                return let("score", at(j + x, BufferLoad(products, (x,))), stored)

            def body(terms: Buffer, products: Buffer) -> Stmt:
                rows = [vector_load(terms, (p, 0), self.lanes) for p in range(self.lanes)]
                return block([
                    *(self._terms(head, keys, j + p, terms, p) for p in range(self.lanes)),
                    lane_sums(rows, lambda total: vector_store(products, (0,), total)),
                    loop("x", self.lanes, lambda x: lane(products, x), ForKind.VECTORIZED),
                ])  # fmt: skip

            return alloc("terms", (self.lanes, self.lanes), self.dtype, "local", lambda terms: alloc(
                "products", (self.lanes,), self.dtype, "local", lambda products: body(terms, products)))  # fmt: skip

        def single(j: PrimExpr) -> Stmt:
            zero = int64(0)

            def stored(score: Var) -> Stmt:
                more = Max(BufferLoad(greatest, (zero,)), score)
                return block([BufferStore(weights, score, (j,)), BufferStore(greatest, more, (zero,))])

            def body(terms: Buffer) -> Stmt:
                total = vector_reduce_add(vector_load(terms, (0, 0), self.lanes))
                return block([self._terms(head, keys, j, terms, 0), let("score", at(j, total), stored)])

            return alloc("terms", (1, self.lanes), self.dtype, "local", body)

        return self._groups(count, whole, single)

    def _terms(self, head: Buffer, keys: Buffer, j: PrimExpr, terms: Buffer, p: int) -> Stmt:
        """Accumulate query · key lane by lane into row p of `terms`."""
        lanes = self.lanes

        def added(first: int, inside: PrimExpr | None) -> Stmt:
            key = vector_load(keys, (j, first), lanes, inside).astype(self.vector)
            term = Mul(vector_load(head, (first,), lanes), key)
            return vector_store(terms, (p, 0), Add(vector_load(terms, (p, 0), lanes), term))

        zero = spread(const(0, self.dtype), lanes)
        return block([vector_store(terms, (p, 0), zero), self._vectors(self.depth, added)])

    # ------------------------------------------------------------------ values

    def _weighed(self, weights: Buffer, heads: Buffer, sums: Buffer, state: Buffer, count: PrimExpr, new: Var) -> Stmt:
        """Compute the softmax weights of a block of keys and their sum, and accumulate weight · value."""
        least, zero = const(float("-inf"), self.dtype), int64(0)
        safe = Select(new.equal(least), const(0, self.dtype), new)

        def body(safe: Var, old: Var) -> Stmt:
            def added(total: Buffer) -> Stmt:
                begin = spread(const(0, self.dtype), self.lanes)
                whole = vector_reduce_add(vector_load(total, (0,), self.lanes))
                before = BufferLoad(state, (int64(1),)) * old
                return block([
                    vector_store(total, (0,), begin),
                    self._exponentials(weights, count, safe, total),
                    BufferStore(state, before + whole, (int64(1),)),
                ])  # fmt: skip

            return block([
                scratch("added", (self.lanes,), self.dtype, added),
                BufferStore(state, new, (zero,)),
                self._mixed(weights, heads, sums, state, count, old),
            ])  # fmt: skip

        return let("level", safe, lambda safe: let(
            "old", exp(BufferLoad(state, (zero,)) - safe), lambda old: body(safe, old)))  # fmt: skip

    def _exponentials(self, weights: Buffer, count: PrimExpr, safe: Var, total: Buffer) -> Stmt:
        def one(j: PrimExpr, x: PrimExpr) -> Stmt:
            return let("weight", exp(BufferLoad(weights, (j,)) - safe), lambda weight: block([
                BufferStore(weights, weight, (j,)),
                BufferStore(total, BufferLoad(total, (x,)) + weight, (x,))]))  # fmt: skip

        return self._groups(
            count,
            lambda j: loop("x", self.lanes, lambda x: one(j + x, x), ForKind.VECTORIZED),
            lambda j: one(j, int64(0)),
        )

    def _mixed(self, weights: Buffer, heads: Buffer, sums: Buffer, state: Buffer, count: PrimExpr, old: Var) -> Stmt:
        """Accumulate weight · value for a block of keys."""
        lanes, narrow = self.lanes, self.one.rounded

        def factor(j: Var, inverse: PrimExpr) -> PrimExpr:
            weight = BufferLoad(weights, (j,))
            return weight if narrow is None else (weight * inverse).astype(str(narrow)).astype(self.dtype)

        def body(acc: Buffer) -> Stmt:
            def begun(first: int, _: PrimExpr | None) -> Stmt:
                before = vector_load(sums, (first,), lanes)
                return vector_store(acc, (first,), Mul(before, spread(old, lanes)))

            def key(j: Var, inverse: PrimExpr) -> Stmt:
                weight = Var("w", self.vector)

                def update(first: int, inside: PrimExpr | None) -> Stmt:
                    value = vector_load(heads, (j, first), lanes, inside).astype(self.vector)
                    return vector_store(acc, (first,), Add(vector_load(acc, (first,), lanes), Mul(weight, value)))

                return LetStmt(weight, spread(factor(j, inverse), lanes), self._vectors(self.columns, update))

            return block([
                self._vectors(self.columns, begun),
                let("inverse", const(1, self.dtype) / BufferLoad(state, (int64(1),)), lambda inverse: loop(
                    "j", count, lambda j: key(j, inverse))),
                self._vectors(self.columns, lambda first, _: vector_store(
                    sums, (first,), vector_load(acc, (first,), lanes))),
            ])  # fmt: skip

        return alloc("acc", (self._padded(self.columns),), self.dtype, "local", body)


def _number(v: IterVar) -> int:
    size = size_of(v)
    assert isinstance(size, IntImm)
    return size.value
