"""Recognise attention: weighted sums of values whose weights are the softmax of query-key products.

    S[b, i, j] = Σ_k Q[b, i, k] · K[b, j, k]                    a sum of products
    X[b, i, j] = S[b, i, j] * c + mask[b, i, j]                 the scores: any elementwise nests
    M[b, i]    = max_j X[b, i, j]
    W[b, i, j] = exp(X[b, i, j] - M[b, i])                      or 0 where the score is -inf
    T[b, i]    = Σ_j W[b, i, j]
    O[b, i, d] = Σ_j W[b, i, j] · V[b, j, d]                    or of W[b, i, j] / T[b, i]
    R[b, i, d] = f(O[b, i, d], T[b, i])                         elementwise

In mixed precision, divided weights may be rounded to a narrower dtype before they multiply the values:
O[b, i, d] = Σ_j bfloat16(W[b, i, j] / T[b, i]) · V[b, j, d].

Elementwise nests in between are inlined, so their number and names do not matter. No other statement may read an
intermediate result of the chain.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from ..ir import DataType, structural_equal
from ..prim import EQ, Add, Call, Cast, Div, FloatImm, IntImm, Max, Mul, PrimExpr, Select, Sub, Var, free_vars, is_const
from ..runtime.records import dataclass
from .buffer import Buffer, BufferLoad, IterVar
from .contraction import reduction_of
from .functor import StmtExprMutator, substitute
from .nests import Nest, buffers_used, is_compact, loads_in, nest_of, root_of, same_size
from .stmt import BufferStore, PrimFunc, Stmt

NARROW: Final = ("float16", "bfloat16")
"""Dtypes permitted for operands and weights if scores and sums are float32."""


@dataclass(frozen=True)
class Attention:
    """The parts of a chain of nests that computes attention, as expressions of the same variables."""

    batch: tuple[IterVar, ...]
    """Variables that index the result, apart from `row` and `column`."""
    row: IterVar
    """Variable of the query position."""
    key: IterVar
    depth: IterVar
    """Reduction variable of the query-key product."""
    column: IterVar
    """Variable that indexes only the result and the values."""
    query: BufferLoad
    keys: BufferLoad
    values: BufferLoad
    product: Var
    """Variable in `score` that stands for the query-key product."""
    score: PrimExpr
    is_zero_unseen: bool
    """True if a score of -inf yields weight 0 even where all scores of its row are -inf (otherwise the weight is NaN).
    """
    sums: Var
    """Variable in the value of `out` that stands for the weighted sum."""
    total: Var
    """Variable in the value of `out` that stands for the sum of the weights."""
    is_divided: bool
    """True if weights are divided by their sum before they multiply the values: without keys, the result is 0."""
    rounded: DataType | None
    """Dtype to which divided weights are rounded before they multiply the values, or None if they are not rounded.

    If there is one, `sums` are the sums of divided weights, and the value of `out` does not divide them.
    """
    out: BufferStore
    chain: frozenset[int]
    """Indices of the statements that compute the attention."""
    inner: frozenset[Buffer]
    """Intermediate buffers of the chain."""

    @property
    def is_streamable(self) -> bool:
        """True if the last index of `keys` is `depth` and that of `values` is `column`, so both are contiguous in
        memory.
        """
        return self.keys.indices[-1] is self.depth.var and self.values.indices[-1] is self.column.var


def attention_of(func: PrimFunc) -> Attention | None:
    """Return the first attention among the nests in the root of a function, or None."""
    allocated, stmts = root_of(func)
    nests = [nest_of(stmt) for stmt in stmts]
    for position, nest in enumerate(nests):
        product = None if nest is None or not nest.is_reduction else _reduction_of(nest, position)
        if product is None or not product.is_sum or not isinstance(product.element, Mul):
            continue
        try:
            return _Chain(allocated, stmts, nests).attention(product)
        except _NoAttentionError:
            continue
    return None


class _NoAttentionError(Exception):
    """Raised when the nests do not compute attention."""


def _require(condition: bool) -> None:
    if not condition:
        raise _NoAttentionError


@dataclass(frozen=True)
class _Reduction:
    """A nest that sums, or takes the maximum, over one variable."""

    position: int
    store: BufferStore
    element: PrimExpr
    """The summed or compared value."""
    is_sum: bool
    """True for a sum from 0; False for a maximum from -inf."""
    over: IterVar
    spatial: tuple[IterVar, ...]


def _reduction_of(nest: Nest, position: int) -> _Reduction | None:
    found = reduction_of(nest.block)
    if found is None or len(found.reduced) != 1 or not isinstance(found.start, FloatImm):
        return None
    is_sum = found.operation is Add
    if (not is_sum and found.operation is not Max) or found.start.value != (0.0 if is_sum else -math.inf):
        return None
    return _Reduction(position, found.out, found.element, is_sum, found.reduced[0], found.spatial)


class _Chain:
    """Search for the nests that lead from a query-key product to the attention's result."""

    def __init__(self, allocated: Sequence[Buffer], stmts: Sequence[Stmt], nests: Sequence[Nest | None]) -> None:
        self.allocated, self.stmts, self.nests = frozenset(allocated), stmts, nests
        self.maps: dict[Buffer, tuple[int, Nest]] = {}
        """Index and nest of each elementwise nest with one store, by the buffer it writes."""
        self.reductions: dict[Buffer, _Reduction] = {}
        self.inlined: set[int] = set()
        """Indices of nests whose values were inlined into their readers."""
        for position, nest in enumerate(nests):
            if nest is None or len(nest.stores) != 1:
                continue
            buffer = nest.stores[0].buffer
            if not nest.is_reduction:
                self.maps[buffer] = position, nest
            elif (reduction := _reduction_of(nest, position)) is not None:
                self.reductions[buffer] = reduction

    def attention(self, product: _Reduction) -> Attention:
        """Return the attention that begins with `product`; raises _NoAttentionError if there is none."""
        reached = {product.store.buffer}
        first: _Reduction | None = None
        # Also behind the weighted sum, as the sum of the weights may stand there.
        for nest in self.nests[product.position + 1 :]:
            if nest is None or not any(load.buffer in reached for load in nest.loads()):
                continue
            reached |= {store.buffer for store in nest.stores}
            mixed = self.reductions.get(nest.stores[0].buffer)
            if first is None and mixed is not None and mixed.is_sum and isinstance(mixed.element, Mul):
                first = mixed
        if first is not None:
            return self._attention_of(product, first, reached)
        raise _NoAttentionError

    def _attention_of(self, product: _Reduction, mixed: _Reduction, reached: set[Buffer]) -> Attention:
        """Return the attention with the products `product` and weighted sums `mixed`. `reached` holds the buffers that
        depend on `product`.
        """
        assert isinstance(mixed.element, Mul)
        weights, values = _element(mixed.element.a), _element(mixed.element.b)
        if values.buffer in reached:
            weights, values = values, weights
        wide = mixed.store.buffer.dtype
        _require(weights.buffer in reached and values.buffer not in reached)
        key = mixed.over
        weight, rounded = _unrounded(_Inliner(self, reached).visit(weights), wide)
        weight, total = _undivided(weight)
        _require(rounded is None or total is not None)
        exponent, is_zero_unseen = _exponent_of(weight)
        largest = _element(exponent.b)
        self._check(largest, exponent.a, key, reached, is_sum=False)
        if total is not None:
            self._check(total, weight, key, reached, is_sum=True)
        stand_in, sums, whole = (Var(name, wide) for name in ("product", "sums", "total"))
        scores, indices = _over_product(exponent.a, product.store.buffer, stand_in)
        factors = self._factors(product, indices, key.var)
        is_undivided = total is not None and rounded is None
        store = mixed.store.replace(value=Div(sums, whole) if is_undivided else sums)
        out = self._finished(store, mixed, weight, whole, reached)
        self.inlined |= {product.position, mixed.position, self.reductions[largest.buffer].position}
        values = self._source(values)
        inner = self._inner(out.buffer)
        row, column = _roles(mixed.spatial, *factors, values)
        batch = tuple(v for v in mixed.spatial if v is not row and v is not column)
        result = Attention(
            batch, row, key, product.over, column, *factors, values, stand_in, scores, is_zero_unseen, sums, whole,
            total is not None, rounded, out, frozenset(self.inlined), inner,
        )  # fmt: skip
        _require(_is_regular(result))
        return result

    def _check(self, load: BufferLoad, element: PrimExpr, key: IterVar, reached: set[Buffer], is_sum: bool) -> None:
        """Require that `load` reads the sum or maximum of `element` over all keys."""
        reduction = self.reductions.get(load.buffer)
        _require(reduction is not None and reduction.is_sum == is_sum)
        assert reduction is not None
        at = _arguments(reduction.store, load.indices)
        _require(same_size(_size(reduction.over), _size(key)))
        _require(all(v.var in at or is_const(_size(v), 1) for v in reduction.spatial))
        own = _Inliner(self, reached).visit(substitute(reduction.element, {**at, reduction.over.var: key.var}))
        _require(structural_equal(own, element))
        self.inlined.add(reduction.position)

    def _factors(self, product: _Reduction, indices: tuple[PrimExpr, ...], key: Var) -> tuple[BufferLoad, BufferLoad]:
        """Return the query and key elements that the product at `indices` multiplies."""
        at = _arguments(product.store, indices)
        element = substitute(product.element, at)
        _require(isinstance(element, Mul))
        assert isinstance(element, Mul)
        a, b = (self._source(_element(factor)) for factor in (element.a, element.b))
        return (b, a) if key in free_vars(a) else (a, b)

    def _source(self, load: BufferLoad) -> BufferLoad:
        """Follow `load` through nests that only copy and have no other reader, back to the element they copy."""
        while load.buffer in self.maps and load.buffer in self.allocated:
            position, nest = self.maps[load.buffer]
            (store,) = nest.stores
            readers = [stmt for stmt in self.stmts if load.buffer.data in buffers_used(stmt)[0]]
            value = substitute(store.value, _arguments(store, load.indices))
            if len(readers) != 1 or not isinstance(value, BufferLoad):
                break
            self.inlined.add(position)
            load = value
        return load

    def _finished(
        self, store: BufferStore, mixed: _Reduction, weight: PrimExpr, whole: Var, reached: set[Buffer]
    ) -> BufferStore:
        """Return the store of the chain's result, with the elementwise nests that follow `store` inlined into it."""
        while store.buffer in self.allocated:
            readers = [i for i, stmt in enumerate(self.stmts) if store.buffer.data in buffers_used(stmt)[0]]
            nest = self.nests[readers[-1]] if readers else None
            if nest is None or nest.is_reduction or len(readers) != 1 + (store.buffer is mixed.store.buffer):
                break
            changed = self._mapped(store, nest, mixed.over, weight, whole, reached)
            if changed is None:
                break
            self.inlined.add(readers[-1])
            store = changed
        return store

    def _mapped(
        self, store: BufferStore, nest: Nest, key: IterVar, weight: PrimExpr, whole: Var, reached: set[Buffer]
    ) -> BufferStore | None:
        """Return the store of an elementwise nest that reads `store`, its loads replaced, or None."""
        (result,) = nest.stores
        loads = [load for load in loads_in(result.value) if load.buffer is store.buffer]
        first = loads[0].indices
        variables = [index for index in first if isinstance(index, Var)]
        if len(set(variables)) != len(first) or any(not structural_equal(load.indices, first) for load in loads):
            return None
        at = dict(zip(variables, store.indices, strict=True))
        if any(v.var not in at for v in nest.block.iter_vars):
            return None
        result = substitute(result, at)
        replaced: list[tuple[BufferLoad, PrimExpr]] = []
        for load in loads_in(result.value):
            if load.buffer is store.buffer:
                replaced.append((load, store.value))
            elif load.buffer in reached:
                self._check(load, weight, key, reached, is_sum=True)
                replaced.append((load, whole))
        return result.replace(value=_Replaced(replaced).visit(result.value))

    def _inner(self, result: Buffer) -> frozenset[Buffer]:
        """Return the intermediate buffers of the chain; requires that no other statement uses them."""
        buffers: set[Buffer] = set()
        for position in sorted(self.inlined):
            nest = self.nests[position]
            assert nest is not None
            buffers |= {store.buffer for store in nest.stores}
        buffers.discard(result)
        _require(buffers <= self.allocated and not buffers & {result})
        first, last = min(self.inlined), max(self.inlined)
        data = {buffer.data for buffer in buffers}
        read: set[Var] = set()
        for position, stmt in enumerate(self.stmts):
            reads, writes = buffers_used(stmt)
            if position in self.inlined:
                read |= reads
                continue
            _require(not (reads | writes) & data)
            # What the chain reads before it is written must not be read later instead.
            _require(not first < position < last or not writes & read)
            _require(not first < position < last or result.data not in reads | writes)
        return frozenset(buffers)


class _Inliner(StmtExprMutator):
    """Replace loads of elementwise intermediate results by the expressions that compute them."""

    def __init__(self, chain: _Chain, reached: set[Buffer]) -> None:
        super().__init__()
        self.chain, self.reached = chain, reached

    def visit_BufferLoad(self, node: BufferLoad) -> PrimExpr:
        node = self.visit_children(node)
        if node.buffer not in self.reached or node.buffer not in self.chain.maps:
            return node
        position, nest = self.chain.maps[node.buffer]
        (store,) = nest.stores
        self.chain.inlined.add(position)
        return self.visit(substitute(store.value, _arguments(store, node.indices)))


class _Replaced(StmtExprMutator):
    """Replace given loads by given expressions."""

    def __init__(self, pairs: Sequence[tuple[BufferLoad, PrimExpr]]) -> None:
        super().__init__()
        self.pairs = pairs

    def visit_BufferLoad(self, node: BufferLoad) -> PrimExpr:
        return next((value for load, value in self.pairs if load is node), node)


# ------------------------------------------------------------------------------------------ forms of expressions


def _size(iter_var: IterVar) -> PrimExpr:
    assert iter_var.dom is not None
    return iter_var.dom.extent


def _arguments(store: BufferStore, indices: Sequence[PrimExpr]) -> dict[Var, PrimExpr]:
    """Map the variables that `store` is indexed by to the indices of one element."""
    pairs = zip(store.indices, indices, strict=True)
    return {stored_index: index for stored_index, index in pairs if isinstance(stored_index, Var)}


def _element(value: PrimExpr) -> BufferLoad:
    """Return the loaded element, without a cast around it."""
    value = value.value if isinstance(value, Cast) else value
    _require(isinstance(value, BufferLoad))
    assert isinstance(value, BufferLoad)
    return value


def _unrounded(weight: PrimExpr, wide: DataType) -> tuple[PrimExpr, DataType | None]:
    """Split a weight into its value before rounding to a narrower dtype, and that dtype (None if it is not rounded)."""
    if weight.dtype == wide:
        return weight, None
    _require(isinstance(weight, Cast) and weight.value.dtype == wide and weight.dtype in NARROW)
    assert isinstance(weight, Cast)
    return weight.value, weight.dtype


def _undivided(weight: PrimExpr) -> tuple[PrimExpr, BufferLoad | None]:
    """Split a weight into its value before the division by the sum of weights, and that sum (None if it is not
    divided).
    """
    match weight:
        case Div(value, BufferLoad() as total):
            return value, total
        case Mul(value, Div(FloatImm(), BufferLoad() as total) as inverse) | Mul(
            Div(FloatImm(), BufferLoad() as total) as inverse, value
        ) if isinstance(inverse.a, FloatImm) and inverse.a.value == 1:
            return value, total
        case _:
            return weight, None


def _exponent_of(weight: PrimExpr) -> tuple[Sub, bool]:
    """Return the argument of the weight's exp, and whether a score of -inf yields weight 0 by a Select."""
    match weight:
        case Select(EQ(score, FloatImm() as least), FloatImm() as zero, Call() as power):
            exponent = _exponent(power)
            _require(zero.value == 0 and least.value == -math.inf and structural_equal(score, exponent.a))
            return exponent, True
        case Call() as power:
            return _exponent(power), False
        case _:
            raise _NoAttentionError


def _exponent(power: Call) -> Sub:
    _require(power.intrinsic == "exp" and isinstance(power.args[0], Sub))
    (exponent,) = power.args
    assert isinstance(exponent, Sub)
    return exponent


def _over_product(score: PrimExpr, products: Buffer, stand_in: Var) -> tuple[PrimExpr, tuple[PrimExpr, ...]]:
    """Return the score with `stand_in` in place of the product, and the indices at which the product is read."""
    loads = [load for load in loads_in(score) if load.buffer is products]
    _require(bool(loads) and all(structural_equal(load.indices, loads[0].indices) for load in loads))
    return _Replaced([(load, stand_in) for load in loads]).visit(score), loads[0].indices


# ------------------------------------------------------------------------------------------ roles of variables


def _roles(
    spatial: Sequence[IterVar], query: BufferLoad, keys: BufferLoad, values: BufferLoad
) -> tuple[IterVar, IterVar]:
    """Return the variables (row, column): the larger one that indexes only the query, and the one that indexes only the
    values.
    """
    of_query, of_keys, of_values = (
        {index for index in load.indices if isinstance(index, Var)} for load in (query, keys, values)
    )
    elsewhere = {var for load in (keys, values) for index in load.indices for var in free_vars(index)}
    rows = [v for v in spatial if v.var in of_query and v.var not in elsewhere]
    columns = [v for v in spatial if v.var in of_values and v.var not in of_query | of_keys]
    _require(bool(rows) and len(columns) == 1)
    # Heads that share their keys are indexed by the query alone too: the largest number is that of queries.
    return max(rows, key=_weight_of_size), columns[0]


def _weight_of_size(iter_var: IterVar) -> float:
    size = _size(iter_var)
    return size.value if isinstance(size, IntImm) else math.inf


def _is_regular(attention: Attention) -> bool:
    """True if the operands and the result are compact matrices over the expected variables, scores and results depend
    on no others, and results replace nothing that other results need.
    """
    row, key, depth, column = (v.var for v in (attention.row, attention.key, attention.depth, attention.column))
    own = {row, key, depth, column}
    accesses = (
        (attention.query, {row, depth}), (attention.keys, {key, depth}),
        (attention.values, {key, column}), (attention.out, {row, column}),
    )  # fmt: skip
    for access, variables in accesses:
        bare = [index for index in access.indices if isinstance(index, Var) and index in own]
        other_indices = [index for index in access.indices if not any(index is var for var in bare)]
        if set(bare) != variables or len(bare) != 2 or not is_compact(access.buffer):
            return False
        if any(own.intersection(free_vars(index)) for index in other_indices):
            return False
    read = {access.buffer.data for access, _ in accesses[:3]} | {load.buffer.data for load in loads_in(attention.score)}
    if attention.out.buffer.data in read:
        return False
    wide = attention.product.dtype
    dtypes = (attention.query.dtype, attention.keys.dtype, attention.values.dtype)
    narrow = NARROW if wide == "float32" else ()
    return (
        wide in ("float32", "float64")
        and all(dtype == wide or dtype in narrow for dtype in dtypes)
        and attention.score.dtype == wide
        and not {depth, column}.intersection(free_vars(attention.score))
        and not {key, depth}.intersection(free_vars(attention.out.value))
    )
