"""Reductions to the index of the first maximum or minimum: argmax and argmin.

    for k in range(n):                           blocks = T.alloc_buffer((4, 16), "int32", scope="local")
        if V[0] < A[k] or isnan(A[k]) …:         for v in range(ceildiv(n, 64)):
            I[0] = k                                 for u in T.unroll(4):                      in vectors
            V[0] = A[k]                                  a, b = A[v * 64 + u * 16 + l], best[u, l]
                                                         if not (b >= a or isnan(b)):
                                                             best[u, l] = a
                                                             blocks[u, l] = v
                                                 V[0] = the greatest of best
                                                 I[0] = the least of blocks * 64 + u * 16 + l where best is V[0]

A lane sees its elements in order, so an element replaces the running extreme only if it is strictly better: indices
need no comparison and stay 32-bit until the end. A lane starts from the worst value at its first index, as if it had
read that value there. NaN counts as the best value. A row of `LONGEST` elements or more, whose indices need more bits,
raises when the kernel runs.

If memory runs along the rows, 32-bit indices count within segments of 2³⁰ elements and are widened after each.

Recognised by its selection (see `tir.schedule.selection`): the first of equal elements, with the element's index. Other
selections stay with `lanes`.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from typing import Final, TypeVar, cast

from ....ir import DataType, Node, structural_equal
from ....prim import (
    EQ,
    And,
    CompareExpr,
    IntImm,
    Not,
    Or,
    PrimExpr,
    Select,
    Var,
    const,
    evaluate,
    free_vars,
    is_const,
    simplify,
)
from ....prim.instructions import vector_reduce_max, vector_reduce_min
from ....prim.intrin import ceildiv, floordiv, floormod, if_then_else, isnan, max_value, min_value
from ....prim.intrin import max as maximum
from ....prim.intrin import min as minimum
from ....runtime.records import dataclass
from ....target import Target
from ....tir import AssertStmt, Buffer, BufferLoad, BufferStore, ForKind, LetStmt, Stmt
from ....tir.functor import StmtExprMutator, substitute
from ....tir.renew import renew_bound_vars
from ...build import alloc, block, int64, let, loop, ramp, spread, vector_load, vector_store
from ...stages import Axis, Stage
from ...straight import Binding, bound
from .passes import Element, store_all

N = TypeVar("N", bound=Node)

VECTORS: Final = 4
"""Accumulator vectors, enough to hide the latency of a comparison."""
AT_ONCE: Final = 2
"""Elements of a row compared between stores of the running extreme, if memory runs along the rows' axis."""
PIECE: Final = 1 << 30
"""Elements whose indices are counted in 32 bits, if memory runs along the rows' axis."""


LONGEST: Final = 1 << 35
"""Upper bound of the length of a contiguous row."""


@dataclass(frozen=True)
class FirstExtreme:
    """First maximum or minimum of `value` along `axis`, for each row."""

    stage: Stage
    axis: Axis
    index: Buffer
    result: Buffer
    value: PrimExpr
    is_max: bool

    @property
    def dtype(self) -> str:
        """Dtype of the running extreme: float32 for 16-bit floats."""
        dtype = self.result.dtype
        return "float32" if dtype.is_float and dtype.bits < 32 else str(dtype)

    @property
    def worst(self) -> PrimExpr:
        """Value that is no better than any element."""
        if self.result.dtype.is_float:
            return const(-math.inf if self.is_max else math.inf, self.dtype)
        return min_value(self.dtype) if self.is_max else max_value(self.dtype)

    def taken(self, so_far: PrimExpr, value: PrimExpr) -> PrimExpr:
        """True if a later value replaces the running extreme."""
        better = Not(so_far >= value if self.is_max else so_far <= value)
        return And(better, Not(isnan(so_far))) if self.result.dtype.is_float else better

    def equal(self, value: PrimExpr, best: PrimExpr) -> PrimExpr:
        """True if a value equals the extreme, which is NaN if any element is."""
        return Or(EQ(value, best), isnan(value)) if self.result.dtype.is_float else EQ(value, best)

    def of(self, at: PrimExpr, element: Element, inside: PrimExpr | None, body: Callable[[Var], Stmt]) -> Stmt:
        """Call `body` with the value of element `at`, or with the worst value if `inside` is false."""

        def wrap(value: PrimExpr) -> PrimExpr:
            return value if inside is None else if_then_else(inside, value, const(0, str(value.dtype)))

        value = self.value.astype(self.dtype)
        if inside is not None:
            value = if_then_else(inside, value, self.worst)
        whole = element.statement(wrap, [let("value", value, body)])
        moved = substitute(whole, {self.axis.var: at.astype(str(self.axis.var.dtype))})
        assert isinstance(moved, Stmt)
        return renew_bound_vars(moved)

    def updated(
        self,
        best: PrimExpr,
        number: PrimExpr,
        value: PrimExpr,
        later: PrimExpr,
        body: Callable[[PrimExpr, PrimExpr], Stmt],
    ) -> Stmt:
        """Call `body` with the running extreme and its index after one more value with a later index."""
        return let("best", best, lambda b: let("number", number, lambda n: let(
            "taken", self.taken(b, value), lambda taken: body(
                Select(taken, value, b), Select(taken, later, n)))))  # fmt: skip

    def stored(self, place: PrimExpr, best: PrimExpr, extent: PrimExpr) -> Stmt:
        """Store the results; an empty row stores the initial values of the reduction."""
        combination = self.stage.combination
        assert combination is not None
        results: list[PrimExpr] = [place, best]
        if not isinstance(extent, IntImm) or extent.value == 0:
            results = [
                if_then_else(extent > 0, value.astype(str(buffer.dtype)), identity)
                for value, buffer, identity in zip(results, combination.buffers, combination.identity, strict=True)
            ]
        values = [value.astype(str(buffer.dtype)) for value, buffer in zip(results, combination.buffers, strict=True)]
        return store_all(combination.buffers, combination.indices, values)


def first_extreme(element: Element, elements: tuple[Axis, ...]) -> FirstExtreme | None:
    """Return the reduction of a pass if it is an argmax or argmin and the only stage of the pass."""
    if len(element.updates) != 1 or element.stores or len(elements) != 1:
        return None
    (stage,), (axis,) = element.updates, elements
    combination = stage.combination
    if combination is None or len(combination.buffers) != 2 or not combination.commutative:
        return None
    index, result = combination.buffers
    sources = _sources(stage)
    dtype = result.dtype
    if sources is None or index.dtype not in ("int32", "int64") or dtype.bits < 8 or dtype.is_bool:
        return None
    if dtype.is_float and dtype not in ("float16", "bfloat16", "float32", "float64"):
        return None
    number = axis.var.astype(str(index.dtype))
    if not is_const(simplify(sources[index] - number), 0) or not _starts_from_identity(stage):
        return None
    is_max = _order(stage)
    return None if is_max is None else FirstExtreme(stage, axis, index, result, sources[result], is_max)


def _starts_from_identity(stage: Stage) -> bool:
    """True if the reduction starts from the result of an empty row."""
    assert stage.combination is not None
    starts = {store.buffer: store.value for store in stage.starts}
    identity = zip(stage.combination.buffers, stage.combination.identity, strict=True)
    return all(structural_equal(starts[buffer], value) for buffer, value in identity)


def _sources(stage: Stage) -> dict[Buffer, PrimExpr] | None:
    """Map each result to its source, for an update that selects between the running results and an element."""
    names: dict[Var, PrimExpr] = {}
    body = stage.body
    while isinstance(body, LetStmt):
        names[body.var] = body.value
        body = body.body
    sources: dict[Buffer, PrimExpr] = {}
    for store in stage.stores:
        value = store.value
        value = names.get(value, value) if isinstance(value, Var) else value
        if not isinstance(value, Select):
            return None
        sides = [side for side in (value.true_value, value.false_value) if not _is_so_far(side, names, stage)]
        if len(sides) != 1:
            return None
        if any(var in names for var in free_vars(sides[0])):
            return None
        sources[store.buffer] = sides[0]
    return sources


def _is_so_far(value: PrimExpr, names: dict[Var, PrimExpr], stage: Stage) -> bool:
    value = names.get(value, value) if isinstance(value, Var) else value
    return isinstance(value, BufferLoad) and value.buffer in stage.buffers


def _order(stage: Stage) -> bool | None:
    """True if the stage keeps the first maximum, False for the first minimum, None for any other selection.

    The condition is evaluated for a later element: its index is greater than the running one and not negative, so only
    comparisons of values remain. Two values in either order, and NaN, identify the selection.
    """
    combination = stage.combination
    assert combination is not None
    index, result = combination.buffers
    i, j = Var("i", index.dtype), Var("j", index.dtype)
    x, y = Var("x", result.dtype), Var("y", result.dtype)
    (chosen, _) = combination.combine((i, x), (j, y))
    if not isinstance(chosen, Select):
        return None
    later = _Later(i, j)
    condition = later.visit(chosen.condition)
    if not set(free_vars(condition)) <= {x, y} or later.compares_constants:
        return None

    def kept(a: float, b: float) -> bool:
        return bool(evaluate(condition, {x: a, y: b}))

    orders = [kept(1, 0), kept(0, 0), kept(0, 1)]
    if result.dtype.is_float:
        nan = math.nan
        if [kept(nan, 0), kept(nan, nan), kept(0, nan)] != [True, True, False]:
            return None
    return True if orders == [True, True, False] else False if orders == [False, True, True] else None


class _Later(StmtExprMutator):
    """Decides the index comparisons of a condition on elements i and j with i < j."""

    def __init__(self, i: Var, j: Var) -> None:
        super().__init__()
        self.i, self.j = i, j
        self.compares_constants = False
        """True if a value is compared with a constant."""

    def visit(self, node: N) -> N:
        if not isinstance(node, CompareExpr):
            return super().visit(node)
        variables = set(free_vars(node))
        if not variables <= {self.i, self.j}:
            self.compares_constants |= len(variables) < 2
            return node
        constants = [side.value for side in (node.a, node.b) if isinstance(side, IntImm)]
        numbers = {0, 1, 2, *(c + d for c in constants for d in (-1, 0, 1, 2) if c + d >= 0)}
        answers = {
            bool(evaluate(node, {self.i: first, self.j: second}))
            for first, second in itertools.combinations(sorted(numbers), 2)
        }
        return cast(N, const(answers.pop(), "bool")) if len(answers) == 1 else node


# ------------------------------------------------------------------------------------------ loops


def along_elements(extreme: FirstExtreme, element: Element, fixed: list[Binding], target: Target) -> Stmt:
    """Return the loops of a contiguous row; bind `fixed` before them."""
    lanes = max(target.machine.vector_bits // max(DataType(extreme.dtype).bits, 32), 1)
    size = extreme.axis.size
    count = VECTORS if size is None else min(VECTORS, max(-(-size // lanes), 1))
    return _Row(extreme, element, lanes, count).loops(fixed)


@dataclass(frozen=True)
class _Row:
    extreme: FirstExtreme
    element: Element
    lanes: int
    count: int

    def loops(self, fixed: list[Binding]) -> Stmt:
        extent = self.extreme.axis.extent.astype("int64")
        step = self.lanes * self.count
        whole, left = simplify(floordiv(extent, step)), simplify(floormod(extent, step))

        def filled(best: Buffer, blocks: Buffer) -> Stmt:
            parts = [loop("k", whole, lambda v: self.vectors(v, best, blocks, None))]
            if not is_const(left, 0):
                parts.append(self.vectors(whole, best, blocks, extent))
            starts = [
                store for u in range(self.count) for store in (
                    vector_store(best, (u, 0), spread(self.extreme.worst, self.lanes)),
                    vector_store(blocks, (u, 0), spread(const(0, "int32"), self.lanes)))]  # fmt: skip
            return block([*starts, bound(fixed, block(parts)), self.end(best, blocks, extent)])

        shape = (self.count, self.lanes)
        row = alloc("best", shape, self.extreme.dtype, "local", lambda best: alloc(
            "blocks", shape, "int32", "local", lambda blocks: filled(best, blocks)))  # fmt: skip
        if self.extreme.axis.size is not None and self.extreme.axis.size < LONGEST:
            return row
        message = f"the first extreme element of {LONGEST} or more cannot be found"
        return AssertStmt(extent < LONGEST, message, row)

    def vectors(self, number: PrimExpr, best: Buffer, blocks: Buffer, end: PrimExpr | None) -> Stmt:
        """Compare one block of vectors; ignore elements from `end` on."""
        first = simplify(number * (self.lanes * self.count))

        def lane(u: Var, at: Var) -> Stmt:
            here = (u, at)
            place = first + u * self.lanes + at
            return self.extreme.of(
                place, self.element, None if end is None else place < end,
                lambda value: self.extreme.updated(
                    BufferLoad(best, here), BufferLoad(blocks, here), value, number.astype("int32"),
                    lambda b, n: block([BufferStore(best, b, here), BufferStore(blocks, n, here)])),
            )  # fmt: skip

        return loop("u", self.count, lambda u: loop(
            "lane", self.lanes, lambda at: lane(u, at), ForKind.VECTORIZED), ForKind.UNROLLED)  # fmt: skip

    def end(self, best: Buffer, blocks: Buffer, extent: PrimExpr) -> Stmt:
        """Combine all lanes into the row's results: the extreme, and the first index that holds it."""
        lanes = self.lanes
        reduce, combine = (vector_reduce_max, maximum) if self.extreme.is_max else (vector_reduce_min, minimum)
        vectors = [vector_load(best, (u, 0), lanes) for u in range(self.count)]

        def places(value: Var) -> PrimExpr:
            none = spread(max_value("int32"), lanes)
            first: PrimExpr = none
            for u, vector in enumerate(vectors):
                number = vector_load(blocks, (u, 0), lanes) * spread(const(self.count, "int32"), lanes)
                number = number + spread(const(u, "int32"), lanes)
                holds = self.extreme.equal(vector, spread(value, lanes))
                first = minimum(first, Select(holds, number, none))
            wide = first.astype(f"int64x{lanes}" if lanes > 1 else "int64")
            return vector_reduce_min(wide * spread(int64(lanes), lanes) + ramp(0, lanes))

        return let("best", reduce(functools.reduce(combine, vectors)), lambda value: self.extreme.stored(
            places(value), value, extent))  # fmt: skip


def across_rows(extreme: FirstExtreme, element: Element, each: Callable[[Stmt], Stmt], at: Var, width: int) -> Stmt:
    """Return the loops of a strip of adjacent rows; `each` makes a loop over the rows with variable `at`."""
    extent = extreme.axis.extent.astype("int64")
    here = (at,)

    def piece(start: PrimExpr, count: PrimExpr, best: Buffer, numbers: Buffer) -> Stmt:
        def updated(k: PrimExpr, at_once: int, b: PrimExpr, n: PrimExpr) -> Stmt:
            if not at_once:
                return block([BufferStore(best, b, here), BufferStore(numbers, n, here)])
            return extreme.of(start + k, element, None, lambda value: extreme.updated(
                b, n, value, k.astype("int32"), lambda b, n: updated(k + 1, at_once - 1, b, n)))  # fmt: skip

        def some(k: PrimExpr, at_once: int) -> Stmt:
            return each(updated(k, at_once, BufferLoad(best, here), BufferLoad(numbers, here)))

        def counted(count: PrimExpr) -> Stmt:
            whole, left = simplify(floordiv(count, AT_ONCE)), simplify(floormod(count, AT_ONCE))
            rest = loop("k", left, lambda k: some(whole * AT_ONCE + k, 1))
            parts = [loop("k", whole, lambda k: some(k * AT_ONCE, AT_ONCE)), rest]
            return block(parts[:1] if is_const(left, 0) else parts)

        return counted(count) if isinstance(count, IntImm) else let("count", count, counted)

    def all_pieces(best: Buffer, numbers: Buffer, places: Buffer) -> Stmt:
        def one(p: Var) -> Stmt:
            start = p * PIECE
            number, before = BufferLoad(numbers, here), BufferLoad(places, here)
            widened = let("number", number, lambda n: let("before", before, lambda b: BufferStore(
                places, Select(n >= 0, n.astype("int64") + start, b), here)))  # fmt: skip
            return block([
                each(BufferStore(numbers, const(-1, "int32"), here)),
                piece(start, simplify(minimum(int64(PIECE), extent - start)), best, numbers),
                each(widened),
            ])  # fmt: skip

        return block([
            each(BufferStore(best, extreme.worst, here)),
            each(BufferStore(places, const(0, "int64"), here)),
            loop("p", simplify(ceildiv(extent, PIECE)), one),
            each(extreme.stored(BufferLoad(places, here), BufferLoad(best, here), extent)),
        ])  # fmt: skip

    shape = (width,)
    return alloc("best", shape, extreme.dtype, "global", lambda best: alloc(
        "numbers", shape, "int32", "global", lambda numbers: alloc(
            "places", shape, "int64", "global", lambda places: all_pieces(best, numbers, places))))  # fmt: skip
