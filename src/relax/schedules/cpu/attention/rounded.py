"""Attention whose normalised weights are rounded, as in mixed precision: the scores of all keys are stored.

    X[b, i, j] = Σ_k float32(Q[b, i, k]) · float32(K[b, j, k])        queries = words of Q[b, 64 queries, :]ᵀ
    W[b, i, j] = exp(X[b, i, j] - M[b, i])                            for ko in range(ceildiv(n, 120)):
    T[b, i]    = Σ_j W[b, i, j]                                           weights[ko] = scores, by dot products
    P[b, i, j] = bfloat16(W[b, i, j] * (1 / T[b, i]))                     new = max(new, weights[ko])
    O[b, i, d] = Σ_j float32(P[b, i, j]) · float32(V[b, j, d])        weights = exp(weights - new)
                                                                      total = Σ weights
                                                                      for ko in range(ceildiv(n, 120)):
                                                                          rounded = words of weights[ko] * (1 / total)
                                                                          words = words of V[b, 120 keys, :]
                                                                          sums += wordsᵀ · rounded, by dot products

The sum of a query's weights must be known before a weight is rounded, to round the same values as the nests. The scores
of 64 queries and all their keys take n / 4 kB, which fits the L2 cache for some thousand keys.

Packed groups (`tile.words`) are pairs of bfloat16: consecutive along the depth for scores, of consecutive keys for
results. Without bfloat16 dot products, and for float16, products are computed in float32 with weights rounded to
the narrow dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ....prim import PrimExpr, Select, Var, const, simplify
from ....prim.intrin import ceildiv, floordiv, floormod
from ....prim.intrin import max as maximum
from ....prim.intrin import min as minimum
from ....target import Target
from ....tir import Buffer, BufferLoad, BufferStore, DeclBuffer, ForKind, IfThenElse, Stmt
from ....tir.attention import Attention
from ....tir.buffer import decl_buffer
from ...build import block, int64, let, loop, named, scratch, vector_load, vector_store
from ..products.operands import Values
from ..tile import RegisterTile
from ..tile.division import even_pieces
from ..tile.words import Words, bits_view, declared, words_for
from .blocks import DEFAULT, AttentionParameters, Shapes, Streamed
from .scores import part_of


class Rounded(Streamed):
    """Writes the loops of an attention with rounded weights, block of queries by block of queries."""

    def __init__(
        self, one: Attention, target: Target, most_rows: int | None = None, parameters: AttentionParameters = DEFAULT
    ) -> None:
        super().__init__(one, target, most_rows, parameters)
        assert one.rounded is not None
        self.narrow = str(one.rounded)
        self.most_keys: int = self.most_keys + self.most_keys % 2
        self.pairs: Words | None = None
        """Packed groups of weights and values for dot product instructions; None: they are multiplied as floats."""
        if target.machine.vector_bits >= 128:
            self.pairs = words_for(target, one.rounded, one.values.dtype, one.product.dtype)

    def _all_keys(self, values: Values, memory: Mapping[str, Buffer], inside: PrimExpr) -> Stmt:
        begin, end = self.scores.visible(values, inside, self.keys)
        shapes: Shapes = {"new": (self.width,), "inverse": (self.width,)}
        most = simplify(ceildiv(self.keys, self.most_keys) * self.most_keys)
        shapes["weights"] = (most, self.width)

        def of_memory(more: Mapping[str, Buffer]) -> Stmt:
            own = {**memory, **more}

            def steps(begin: PrimExpr, count: PrimExpr) -> Stmt:
                def each(name: str, body: Callable[[PrimExpr, PrimExpr, Buffer], Stmt]) -> Stmt:
                    return self._blocks(name, begin, count, own["weights"], body)

                def scored(key: PrimExpr, number: PrimExpr, weights: Buffer) -> Stmt:
                    at = {**values, self.one.key.var: key}
                    return self._scored_keys(at, {**own, "weights": weights}, inside, number)

                def mixed(key: PrimExpr, number: PrimExpr, weights: Buffer) -> Stmt:
                    at = {**values, self.one.key.var: key}
                    return self._mixed_keys(at, {**own, "weights": weights}, number)

                new = own["new"]
                started = self._each(lambda i: BufferStore(new, BufferLoad(own["most"], (i,)), (i,)))
                return block([
                    started, each("ko", scored), self._exponentials(own, count), each("kb", mixed),
                ])  # fmt: skip

            count = simplify(maximum(end - begin, int64(0)))
            return named("begin", begin, lambda begin: named("seen", count, lambda count: steps(begin, count)))

        return self._allocated(shapes, of_memory)

    def _blocks(
        self, name: str, begin: PrimExpr, count: PrimExpr, weights: Buffer,
        body: Callable[[PrimExpr, PrimExpr, Buffer], Stmt],
    ) -> Stmt:  # fmt: skip
        """Return `body(first key, number of keys, weights)` for each key block from `begin` on."""

        def part(ko: Var) -> Stmt:
            first = ko * self.most_keys
            view = decl_buffer(
                (self.most_keys, self.width), self.dtype, "block", data=weights.data,
                elem_offset=first * self.width,
            )  # fmt: skip
            number = simplify(minimum(int64(self.most_keys), count - first))
            made = named("count", number, lambda number: let(
                "key", begin + first, lambda key: body(key, number, view)))  # fmt: skip
            return DeclBuffer(view, made)

        return loop(name, simplify(ceildiv(count, self.most_keys)), part)

    def _scored_keys(self, values: Values, memory: Mapping[str, Buffer], inside: PrimExpr, count: PrimExpr) -> Stmt:
        """Compute the scores of a block of keys and update each query's maximum."""
        one = self.one
        keys = part_of(one.keys, values, ((one.key.var, count), (one.depth.var, int64(self.depth))))

        def scored(keys: Buffer) -> Stmt:
            shape = self.most_keys, self.width
            return self.scores.with_parts(values, inside, count, shape, self.tile.lanes, lambda parts: (
                self._scored(values, memory, inside, count, keys, parts)))  # fmt: skip

        return DeclBuffer(keys, self._factors(keys, count, scored))

    def _exponentials(self, memory: Mapping[str, Buffer], count: PrimExpr) -> Stmt:
        """Compute the weights of all keys from their scores, and the inverse of their sum."""
        new, inverse = memory["new"], memory["inverse"]
        zero = const(0, self.dtype)

        def level(i: PrimExpr) -> PrimExpr:
            greatest = BufferLoad(new, (i,))
            if not self.one.is_zero_unseen:
                return greatest
            # If all scores are -inf, their weights are 0: exp(-inf - 0) is 0.
            return Select(greatest.equal(const(float("-inf"), self.dtype)), zero, greatest)

        def begun(sums: Buffer, i: PrimExpr) -> Stmt:
            return let("level", level(i), lambda level: block([
                BufferStore(new, level, (i,)), BufferStore(sums, zero, (i,))]))  # fmt: skip

        return self._summed(memory, count, begun, lambda sums, i: BufferStore(
            inverse, const(1, self.dtype) / BufferLoad(sums, (i,)), (i,)))  # fmt: skip

    # ------------------------------------------------------------------ values

    def _mixed_keys(self, values: Values, memory: Mapping[str, Buffer], count: PrimExpr) -> Stmt:
        """Accumulate rounded weight · value for a block of keys."""
        one = self.one
        heads = part_of(one.values, values, ((one.key.var, count), (one.column.var, int64(self.columns))))
        if self.pairs is None:

            def of_floats(heads: Buffer) -> Stmt:
                added = self._added(memory["sums"], heads, memory["weights"], count, None)
                return block([self._rounded(memory, count), added])

            return DeclBuffer(heads, self._widened(heads, count, self.columns, of_floats))
        pairs, group = self.pairs, self.pairs.group
        shape, number = self.most_keys // group, simplify(ceildiv(count, group))

        def of_words(left: Buffer, right: Buffer) -> Stmt:
            return block([
                self._words(pairs, self._divided(memory), right, count),
                self._words_of_values(pairs, heads, left, count),
                self._added(memory["sums"], left, right, number, pairs),
            ])  # fmt: skip

        return DeclBuffer(heads, scratch("heads", (shape, self.columns), "int32", lambda left: scratch(
            "rounded", (shape, self.width), "int32", lambda right: of_words(left, right))))  # fmt: skip

    def _divided(self, memory: Mapping[str, Buffer]) -> Callable[[PrimExpr, PrimExpr], PrimExpr]:
        """Rounded normalised weight of a key and a query."""
        weights, inverse = memory["weights"], memory["inverse"]
        return lambda j, i: (BufferLoad(weights, (j, i)) * BufferLoad(inverse, (i,))).astype(self.narrow)

    def _rounded(self, memory: Mapping[str, Buffer], count: PrimExpr) -> Stmt:
        """Normalise and round the weights of a block of keys."""
        weights, divided = memory["weights"], self._divided(memory)
        return loop("j", count, lambda j: self._each(
            lambda i: BufferStore(weights, divided(j, i).astype(self.dtype), (j, i))))  # fmt: skip

    def _words(
        self, words: Words, number: Callable[[PrimExpr, PrimExpr], PrimExpr], target: Buffer, count: PrimExpr
    ) -> Stmt:
        """Pack consecutive keys of `number(key, query)` into groups, for each query of a block."""

        def pair(w: PrimExpr, i: PrimExpr, inside: int) -> Stmt:
            return BufferStore(target, words.word(_group(words, number, w, i, inside), True), (w, i))

        return self._each_word(words, count, lambda w, inside: self._each(lambda i: pair(w, i, inside)))

    def _words_of_values(self, words: Words, heads: Buffer, target: Buffer, count: PrimExpr) -> Stmt:
        """Pack the values of consecutive keys into groups."""
        bits = bits_view(heads)

        def pair(w: PrimExpr, inside: int) -> Stmt:
            def number(j: PrimExpr, c: PrimExpr) -> PrimExpr:
                return BufferLoad(bits, (j, c))

            def word(c: PrimExpr) -> Stmt:
                return BufferStore(target, words.word(_group(words, number, w, c, inside), False), (w, c))

            return loop("c", self.columns, word, ForKind.VECTORIZED)

        return declared([(bits, heads)], self._each_word(words, count, pair))

    def _each_word(self, words: Words, count: PrimExpr, body: Callable[[PrimExpr, int], Stmt]) -> Stmt:
        """Return `body(group, elements inside)` for each packed group of `count` keys."""
        group = words.group
        whole, left = simplify(floordiv(count, group)), simplify(floormod(count, group))
        tails = [IfThenElse(left.equal(inside), body(whole, inside)) for inside in range(1, group)]
        return block([loop("w", whole, lambda w: body(w, group)), *tails])

    def _added(self, sums: Buffer, heads: Buffer, weights: Buffer, depth: PrimExpr, words: Words | None) -> Stmt:
        """Accumulate the products of values and weights."""
        lanes = self.tile.lanes

        def tile(first: PrimExpr, height: int) -> Stmt:
            def start(p: PrimExpr, c: PrimExpr) -> PrimExpr:
                return vector_load(sums, (first + p, c), lanes)

            def finished(tile: RegisterTile) -> Stmt:
                return tile.each(lambda p, c: vector_store(sums, (first + p, c), tile.load(p, c)))

            def left(p: PrimExpr, j: PrimExpr) -> PrimExpr:
                return BufferLoad(heads, (j, first + p))

            return self._tile(height, start, depth, left, weights, finished, None, words)

        segments = even_pieces(self.columns, -(-self.columns // self.tile.rows))
        return block(
            loop("co", s.count, lambda co, s=s: tile(simplify(s.start + co * s.size), s.size)) for s in segments
        )


def _group(
    words: Words, number: Callable[[PrimExpr, PrimExpr], PrimExpr], w: PrimExpr, i: PrimExpr, inside: int
) -> list[PrimExpr]:
    """Elements of packed group `w`, zero from element `inside` on."""
    numbers = [number(w * words.group + p, i) for p in range(inside)]
    return numbers + [const(0, str(numbers[0].dtype))] * (words.group - inside)
