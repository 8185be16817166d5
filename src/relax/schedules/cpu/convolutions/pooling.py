"""Pooling: sums, maxima and minima over windows that move along the last dimensions.

    for n, c, h, w, i, j in T.grid(…):                  for item in T.parallel(N * C * H * strips):
        with T.block("pool"):                               line = T.alloc_buffer((strip * 2 + …,))
            with T.init(): Y[n, c, h, w] = -inf             line[:] = -inf
            Y[n, c, h, w] = max(                            for i in range(3):
                Y[n, c, h, w],                                  if 0 <= h * 2 + i - 1 < H:
                padded[n, c, h * 2 + i, w * 2 + j])                 line[:] = max(line[:], X[n, c, h * 2 + i - 1, …])
                                                            for v in range(strip // 16):
                                                                Y[n, c, h, v * 16 + :] = max(
                                                                    line[v * 32 + 0, + 2, + 4, …],
                                                                    line[v * 32 + 1, …], line[v * 32 + 2, …])

A window is combined in two steps: its rows are combined into one, in contiguous vectors, then the elements along that
row. With a stride of up to 4, these are shuffled out of contiguous vectors. Data are read in place, without a padded
copy, as padding equals the identity. An element-wise nest behind the pooling, such as the division of a mean, is fused
into the store.

Left to `nests`: windows that do not move along the last dimension (channels-last), order-dependent reductions, static
rows of very few results, long windows, sums of floats over many rows, which need blocks (`sum_blocks`), and functions
without tir.noalias.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Final

from ....ir import structural_equal
from ....prim import Add, And, Cast, FloatImm, IntImm, Max, Min, PrimExpr, Select, Var, const, is_const, simplify
from ....prim.intrin import ceildiv
from ....prim.intrin import min as minimum
from ....runtime.records import dataclass
from ....target import Target
from ....tir import (
    AssertStmt,
    BlockRealize,
    Broadcast,
    Buffer,
    BufferLoad,
    BufferStore,
    ForKind,
    IfThenElse,
    PrimFunc,
    Ramp,
    Shuffle,
    Stmt,
)
from ....tir.functor import StmtExprMutator, substitute
from ....tir.nests import Nest, buffers_used, is_compact, loads_in, nest_of, root_of
from ....tir.schedule.reducers import Combination, NoCombination, combination_of
from ....tir.statements import seq_of
from ...build import alloc, block, int64, let, loop, ramp, scratch, size_of, spread, vector_load, vector_store
from ...rule import ALIASED, Refusal, ScheduleRule, refused
from .planes import Sizes, items
from .windows import LONGEST_SHUFFLE, Axis, axis_of, only_source, padding_of, same_place, same_shape, users_in

STRIP: Final = 512
"""Approximate number of elements of a row combined at a time."""
LINES: Final = 8
"""Rows of a block."""
MOST_TAPS: Final = 16
"""Most elements of a window along a row; they are unrolled."""
MOST_WRITTEN_OUT: Final = 4
"""Most rows of a window that are unrolled."""
MOST_REACH: Final = 512
"""Greatest distance between the first and last element of a window along a row."""
MOST_SUMMED: Final = 80
"""Most rows of a window in a sum of floats, which are added one after the other."""
SHORT: Final = 3
"""Shortest static row of results that is worth vectorising."""


_OTHER: Final = Refusal("no nest is a sum, maximum or minimum over windows", unrelated=True)


class Pooling(ScheduleRule):
    """Schedule rule for pooling windows along the last dimensions."""

    def apply(self, func: PrimFunc, target: Target, tunable: bool) -> PrimFunc | Refusal:
        del tunable
        allocated, statements = root_of(func)
        nests = [nest_of(stmt) for stmt in statements]
        results: list[Stmt | None] = list(statements)
        refusals: list[Refusal] = []
        for position in range(len(nests)):
            pool = _pool_of(nests, statements, position, allocated)
            if pool and not func.attrs.get("tir.noalias"):
                pool = ALIASED
            if not pool:
                refusals.append(pool)
                continue
            results[position] = None
            if pool.padding is not None:
                results[nests.index(pool.padding)] = None
            end = position if pool.epilogue is None else nests.index(pool.epilogue)
            results[end] = _Writer(pool, target).loops()
        if all(a is b for a, b in zip(results, statements, strict=True)):
            return refused(refusals, _OTHER.reason)
        body = seq_of([stmt for stmt in results if stmt is not None])
        if isinstance(func.body, BlockRealize):
            used = frozenset[Var]().union(*buffers_used(body))
            kept = tuple(buffer for buffer in allocated if buffer.data in used)
            body = func.body.replace(block=func.body.block.replace(body=body, alloc_buffers=kept))
        return func.replace(body=body)


@dataclass(frozen=True)
class _Pool:
    """Reduction over windows; `axes` are the last dimensions of the data."""

    out: BufferStore
    combination: Combination
    data: Buffer
    batch: tuple[PrimExpr, ...]
    """Sizes of the leading dimensions."""
    axes: tuple[Axis, ...]
    padding: Nest | None
    epilogue: Nest | None

    @property
    def identity(self) -> PrimExpr:
        return self.combination.identity[0]

    def combined(self, a: PrimExpr, b: PrimExpr) -> PrimExpr:
        """Combine two values or vectors."""
        return self.combination.combine((a,), (b,))[0]


# ------------------------------------------------------------------------------------- recognition


def _pool_of(
    nests: Sequence[Nest | None], statements: Sequence[Stmt], position: int, allocated: Sequence[Buffer]
) -> _Pool | Refusal:
    """Return the pooling that a statement computes."""
    nest = nests[position]
    if nest is None or not nest.is_reduction or len(nest.stores) != 1:
        return _OTHER
    combination, load = _combination(nest), _term(nest)
    if combination is None or load is None:
        return _OTHER
    axes = _axes(nest, load)
    if isinstance(axes, Refusal):
        return axes
    refusal = _not_worth_it(axes, nest.stores[0])
    if refusal is not None:
        return refusal
    data = load.buffer
    source, padding = only_source(data, nests, statements, position, allocated), None
    pad = None if source is None else padding_of(source)
    if pad is not None and _is_equal(pad.fill, combination.identity[0]):
        inside = pad.without(axes)
        if inside is not None:
            data, axes, padding = pad.data, inside, source
    if not is_compact(data):
        return Refusal("the data are not compact")
    epilogue = _epilogue(nest, data, nests, statements, position, allocated)
    batch = tuple(size_of(v) for v in nest.block.iter_vars[: load.buffer.ndim - len(axes)])
    return _Pool(nest.stores[0], combination, data, batch, axes, padding, epilogue)


def _is_equal(fill: FloatImm | IntImm, identity: PrimExpr) -> bool:
    """True if padding elements equal the identity of the reduction."""
    return isinstance(identity, (FloatImm, IntImm)) and fill.value == identity.value


def _combination(nest: Nest) -> Combination | None:
    """Return the reduction (sum, maximum or minimum) if it starts from its identity, or None."""
    try:
        combination = combination_of(nest.block)
    except NoCombination:
        return None
    init = nest.block.init
    is_plain = isinstance(init, BufferStore) and structural_equal(init.value, combination.identity[0])
    return combination if is_plain and isinstance(nest.stores[0].value, (Add, Max, Min)) else None


def _term(nest: Nest) -> BufferLoad | None:
    """Return the load of a data element that is combined directly or after a cast to the result's dtype."""
    store = nest.stores[0]
    if nest.block.body is not store or not isinstance(store.value, (Add, Max, Min)):
        return None
    a, b = store.value.a, store.value.b
    element = b if isinstance(a, BufferLoad) and a.buffer is store.buffer else a
    load = element.value if isinstance(element, Cast) else element
    if not isinstance(load, BufferLoad) or load.buffer is store.buffer:
        return None
    return load


def _axes(nest: Nest, load: BufferLoad) -> tuple[Axis, ...] | Refusal:
    """Return the window axes of the last dimensions; leading indices must be those of the result."""
    other = Refusal("the last loops do not move windows along the last dimensions of the data", unrelated=True)
    store, size = nest.stores[0], len(load.indices)
    spatial = [v for v in nest.block.iter_vars if v.iter_type != "reduce"]
    reduced = [v for v in nest.block.iter_vars if v.iter_type == "reduce"]
    leading = size - len(reduced)
    if leading < 0 or not reduced or len(store.indices) != size or len(spatial) != size:
        return other
    if any(index is not v.var for index, v in zip(store.indices, spatial, strict=True)):
        return other
    if nest.block.iter_vars != (*spatial, *reduced):
        return other
    if any(index is not v.var for index, v in zip(load.indices[:leading], spatial, strict=False)):
        return other
    axes: list[Axis] = []
    for d, tap in enumerate(reduced):
        at, extent = simplify(load.indices[leading + d]), int64(load.buffer.shape[leading + d])
        axis = axis_of(at, extent, spatial[leading + d], tap.var, size_of(tap))
        if not axis:
            return axis
        axes.append(axis)
    return tuple(axes)


def _not_worth_it(axes: Sequence[Axis], store: BufferStore) -> Refusal | None:
    """Refuse long windows and rows of few results."""
    *outer, axis = axes
    rows, reach = math.prod(other.taps for other in outer), (axis.taps - 1) * axis.dilation
    if isinstance(axis.size, IntImm) and axis.size.value < SHORT:
        return Refusal(f"rows of {axis.size.value} results, fewer than {SHORT}")
    if axis.taps > MOST_TAPS or reach > MOST_REACH:
        return Refusal(f"windows of {axis.taps} elements along rows, of which the last is {reach} after the first")
    if store.buffer.dtype.bits < 8:
        return Refusal(f"elements of {store.buffer.dtype} are smaller than a byte")
    if rows > MOST_SUMMED and isinstance(store.value, Add) and store.buffer.dtype.is_float:
        return Refusal(f"sums of {rows} rows, more than {MOST_SUMMED}, are added in blocks")
    return None


def _epilogue(
    nest: Nest, data: Buffer, nests: Sequence[Nest | None], statements: Sequence[Stmt], position: int,
    allocated: Sequence[Buffer],
) -> Nest | None:  # fmt: skip
    """Return the nest that computes one element per result and is its only reader, or None."""
    result = nest.stores[0].buffer
    readers, writers = users_in(result, statements)
    readers = [reader for reader in readers if reader != position]
    if result not in allocated or writers != [position] or len(readers) != 1 or readers[0] < position:
        return None
    behind = nests[readers[0]]
    if behind is None or behind.is_reduction:
        return None
    between = (buffers_used(stmt)[1] for stmt in statements[position + 1 : readers[0] + 1])
    store = behind.stores[0]
    if any(data.data in written for written in between) or not same_shape(store.buffer, result):
        return None
    loads = [load for load in loads_in(store.value) if load.buffer is result]
    in_place = all(isinstance(index, Var) for index in store.indices) and all(same_place(load, store) for load in loads)
    return behind if in_place and is_compact(store.buffer) else None


# ------------------------------------------------------------------------------------- loops


class _Writer:
    """Writes the loops of one pooling."""

    def __init__(self, pool: _Pool, target: Target) -> None:
        self.pool, dtype = pool, pool.out.buffer.dtype
        *self.outer, self.last = pool.axes
        self.dtype, self.lanes = str(dtype), max(target.machine.vector_bits // max(dtype.bits, 8), 1)
        self.sizes = Sizes()
        size, stride = self.last.size, self.last.stride
        most = max(STRIP // (self.lanes * stride), 1)
        if isinstance(size, IntImm):
            most = min(most, max(-(-size.value // self.lanes), 1))
        self.strip = most
        """Result vectors of a strip."""
        self.vectors = self.sizes.named("vectors", ceildiv(size, self.lanes))
        self.behind = -(-(self.last.taps - 1) * self.last.dilation // self.lanes)
        """Additional vectors of a data row read by windows, beyond result vectors times stride."""

    def loops(self) -> Stmt:
        """Return the parallel loop over strips of blocks of result rows."""
        strips = self.sizes.named("strips", ceildiv(self.vectors, self.strip))
        radix = [(f"n{d}", size) for d, size in enumerate(self.pool.batch)]
        radix += [(f"y{d}", axis.size) for d, axis in enumerate(self.outer[:-1])]
        radix += [("b", self.sizes.named("blocks", ceildiv(axis.size, LINES))) for axis in self.outer[-1:]]
        radix.append(("strip", strips))
        return self.sizes.around(items("item", radix, self._item))

    def _item(self, at: list[PrimExpr]) -> Stmt:
        """Compute a strip of a block of result rows."""
        *place, strip = at
        first = simplify(strip * self.strip)
        length = (self.strip * self.last.stride + self.behind) * self.lanes

        def of_count(count: Var) -> Stmt:
            return scratch("line", (length,), self.dtype, lambda line: lines(line, count))

        def lines(line: Buffer, count: Var) -> Stmt:
            if not self.outer:
                return self._line(line, place, first, count)
            *before, block_ = place
            begin, size = simplify(block_ * LINES), self.outer[-1].size
            return loop("i", simplify(minimum(int64(LINES), size - begin)), lambda i: let(
                "y", begin + i, lambda y: AssertStmt(And(y >= 0, y < size), "a line is one of them", self._line(
                    line, [*before, y], first, count))))  # fmt: skip

        return let("count", simplify(minimum(int64(self.strip), self.vectors - first)), of_count)

    def _line(self, line: Buffer, place: list[PrimExpr], first: PrimExpr, count: Var) -> Stmt:
        """Compute a strip of a result row."""
        vectors, lanes = simplify(count * self.last.stride + self.behind), self.lanes
        start = simplify(first * (lanes * self.last.stride) - self.last.before)

        def combined(may_be_beside: bool) -> Stmt:
            return loop("v", vectors, lambda v: let("x", start + v * lanes, lambda x: self._combined(
                place, x, may_be_beside, lambda value: vector_store(line, (v * lanes,), value))))  # fmt: skip

        inside = self._is_inside(place[len(self.pool.batch) :])
        lines = combined(False) if inside is None else IfThenElse(inside, combined(False), combined(True))
        return block([lines, loop("v", count, lambda v: self._results(line, place, first, v))])

    def _is_inside(self, ys: Sequence[PrimExpr]) -> PrimExpr | None:
        """Condition that all rows of a window are inside the data, or None if they always are."""
        result: PrimExpr | None = None
        for y, axis in zip(ys, self.outer, strict=True):
            reach = (axis.taps - 1) * axis.dilation - axis.before
            last = (axis.size - 1) * axis.stride + reach
            if is_const(axis.before, 0) and is_const(simplify(last < axis.extent), 1):
                continue
            inside = And(y * axis.stride >= axis.before, simplify(y * axis.stride + reach) < axis.extent)
            result = inside if result is None else And(result, inside)
        return result

    def _combined(
        self, place: Sequence[PrimExpr], x: Var, may_be_beside: bool, stored: Callable[[PrimExpr], Stmt]
    ) -> Stmt:
        """Combine a vector of each row of a window and pass it to `stored`.

        Padding never changes the combination; rows are tested only if they `may_be_beside` the data.
        """
        batch, ys = place[: len(self.pool.batch)], place[len(self.pool.batch) :]
        lanes, at = self.lanes, ramp(x, self.lanes)
        mask = And(at >= Broadcast(const(0, "int64"), lanes), at < Broadcast(self.last.extent, lanes))

        def of_taps(acc: Buffer, rows: list[PrimExpr], inside: PrimExpr | None) -> Stmt:
            d = len(rows)
            if d == len(self.outer):
                value = self._element(BufferLoad(self.pool.data, (*batch, *rows, at), inside))
                value = value if inside is None else Select(inside, value, self.identity)
                return vector_store(acc, (0,), self.pool.combined(vector_load(acc, (0,), lanes), value))
            axis, y = self.outer[d], ys[d]

            def of_row(row: Var) -> Stmt:
                one = of_taps(acc, [*rows, row], inside)
                return IfThenElse(And(row >= 0, row < axis.extent), one) if may_be_beside else one

            written_out = not may_be_beside and axis.taps <= MOST_WRITTEN_OUT
            return loop(f"k{d}", axis.taps, lambda k: let(
                "row", simplify(y * axis.stride + k * axis.dilation - axis.before), of_row,
            ), ForKind.UNROLLED if written_out else ForKind.SERIAL)  # fmt: skip

        def of_lines(acc: Buffer) -> Stmt:
            is_whole = And(x >= 0, x + lanes <= self.last.extent)
            lines = IfThenElse(is_whole, of_taps(acc, [], None), of_taps(acc, [], mask))
            return block([vector_store(acc, (0,), self.identity), lines, stored(vector_load(acc, (0,), lanes))])

        return alloc("acc", (lanes,), self.dtype, "local", of_lines)

    def _element(self, vector: PrimExpr) -> PrimExpr:
        """Vector of the data, cast to the dtype of the results."""
        return vector if str(vector.dtype.element_of) == self.dtype else vector.astype(f"{self.dtype}x{self.lanes}")

    def _results(self, line: Buffer, place: Sequence[PrimExpr], first: PrimExpr, v: Var) -> Stmt:
        """Compute a vector of results."""
        stride, lanes = self.last.stride, self.lanes

        def of_tap(tap: int) -> PrimExpr:
            distance = tap * self.last.dilation
            start = v * (lanes * stride)
            if stride == 1:
                return vector_load(line, (start + distance,), lanes)
            if stride > LONGEST_SHUFFLE:
                return BufferLoad(line, (Ramp(simplify(start + distance), int64(stride), lanes),))
            phase, begin = distance % stride, simplify(start + distance // stride * stride)
            parts = tuple(vector_load(line, (begin + part * lanes,), lanes) for part in range(stride))
            return Shuffle(parts, [stride * lane + phase for lane in range(lanes)])

        def stored(totals: Buffer, lane: Var) -> Stmt:
            x = simplify((first + v) * lanes) + lane
            return IfThenElse(x < self.last.size, let(
                "total", BufferLoad(totals, (lane,)), lambda total: self._put([*place, x], total)))  # fmt: skip

        total = reduce(self.pool.combined, (of_tap(tap) for tap in range(self.last.taps)))
        return alloc("totals", (lanes,), self.dtype, "local", lambda totals: block([
            vector_store(totals, (0,), total),
            loop("lane", lanes, lambda lane: stored(totals, lane), ForKind.VECTORIZED)]))  # fmt: skip

    def _put(self, place: Sequence[PrimExpr], total: Var) -> Stmt:
        """Apply the epilogue to a result and store it."""
        out, epilogue = self.pool.out, self.pool.epilogue
        if epilogue is None:
            return BufferStore(out.buffer, total, tuple(place))
        store = epilogue.stores[0]
        value = _Replaced(out.buffer, total).visit(store.value)
        at = {i: p.astype(str(i.dtype)) for i, p in zip(store.indices, place, strict=True) if isinstance(i, Var)}
        return BufferStore(store.buffer, substitute(value, at), tuple(place))

    @property
    def identity(self) -> PrimExpr:
        return spread(self.pool.identity, self.lanes)


class _Replaced(StmtExprMutator):
    """Replaces loads of one buffer by a value."""

    def __init__(self, buffer: Buffer, value: PrimExpr) -> None:
        super().__init__()
        self.buffer, self.value = buffer, value

    def visit_BufferLoad(self, node: BufferLoad) -> PrimExpr:
        return self.value if node.buffer is self.buffer else self.visit_children(node)
