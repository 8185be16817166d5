"""Region cover: the producer writes everything that a consumer reads, in the same iterations of their common loops.

    for i in range(8):
        for j in range(18):
            A[i * 16 + j] = ...            writes [i * 16, i * 16 + 17]
        for j in range(16):
            B[i * 16 + j] = A[i * 16 + j] + A[i * 16 + j + 2]          reads a subset, in each iteration of i

The proof is about an arbitrary element that an iteration of the consumer reads, within the buffer. Writes are
under-approximated: stores under conditions in a block's body do not count, and indices count only if their values have
no gaps (see `image`). Reads are over-approximated: see `dependence.accesses`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from ...prim import Analyzer, CompareExpr, IntImm, PrimExpr, Var, const, free_vars, is_const, simplify, substitute
from ...prim.iter_map import IterMapLevel, detect_iter_map
from ...runtime.records import dataclass
from ..buffer import Buffer, IterVar, Range
from ..statements import conjunction, conjuncts
from ..stmt import AllocBuffer, AttrStmt, Block, BlockRealize, BufferStore, For, SeqStmt, Stmt
from .facts import analyzer_at, loop_range
from .inverse import inverse_of
from .regions import read_regions, reads_memory
from .rv import BlockRV
from .state import ScheduleState


@dataclass(frozen=True)
class Store:
    """Elements that are certainly written: those at `indices`, for all values of `loops` that satisfy `conditions`."""

    buffer: Buffer
    indices: tuple[PrimExpr, ...]
    loops: tuple[For, ...]
    """The loops over whose variables the indices range, outermost first."""
    conditions: tuple[PrimExpr, ...]

    def substituted(self, values: Mapping[Var, PrimExpr]) -> Store:
        """Substitute expressions for variables."""
        if not values:
            return self
        return replace(
            self,
            indices=tuple(substitute(index, values) for index in self.indices),
            loops=tuple(
                loop.replace(min=substitute(loop.min, values), extent=substitute(loop.extent, values))
                for loop in self.loops
            ),
            conditions=tuple(substitute(condition, values) for condition in self.conditions),
        )


def stores_of(realize: BlockRealize, loops: Iterable[For]) -> Iterator[Store]:
    """Yield the stores that a block certainly executes, in all iterations of the given loops around it."""
    block = realize.block
    values = {v.var: value for v, value in zip(block.iter_vars, realize.iter_values, strict=True)}
    for store in _stores_in(block):
        inner = store.substituted(values)
        conditions = (*conjuncts(realize.predicate), *inner.conditions)
        yield replace(inner, loops=(*loops, *inner.loops), conditions=conditions)


def _stores_in(block: Block) -> Iterator[Store]:
    if not block.match_buffers:
        yield from _stores_below(block.body)


def _stores_below(stmt: Stmt) -> Iterator[Store]:
    match stmt:
        case BufferStore():
            if all(index.dtype.lanes == 1 for index in stmt.indices):
                yield Store(stmt.buffer, stmt.indices, (), ())
        case SeqStmt(seq):
            for child in seq:
                yield from _stores_below(child)
        case For():
            for store in _stores_below(stmt.body):
                yield replace(store, loops=(stmt, *store.loops))
        case AllocBuffer() | AttrStmt():
            yield from _stores_below(stmt.body)
        case BlockRealize():
            yield from stores_of(stmt, ())
        case _:  # conditions, variables of lets, loops of unknown length: nothing certain
            return


# ------------------------------------------------------------------------------------------ images


def image(
    values: Sequence[PrimExpr],
    loops: Sequence[For],
    conditions: Iterable[PrimExpr],
    points: Sequence[PrimExpr],
    analyzer: Analyzer,
) -> list[PrimExpr] | None:
    """Return the image of expressions over the iterations of loops, as conditions on `points`; None if unknown.

        values i_0 * 16 + i_1, loops i_0 in [0, 8) and i_1 in [0, 18), condition i_0 * 16 + i_1 < n
        gives    0 <= p, p <= 129, p < n

    The conditions hold for exactly the points that are reached.
    """
    conditions = tuple(conditions)
    result = _image_of_sums(values, loops, conditions, points, analyzer)
    return _image_of_digits(values, loops, conditions, points, analyzer) if result is None else result


def _image_of_digits(
    values: Sequence[PrimExpr],
    loops: Sequence[For],
    conditions: Iterable[PrimExpr],
    points: Sequence[PrimExpr],
    analyzer: Analyzer,
) -> list[PrimExpr] | None:
    """Return the image of digits of loop variables, such as the bindings of fused loops."""
    inner = {loop.loop_var: loop_range(loop) for loop in loops}
    outside = [c for c in conditions if set(inner).isdisjoint(free_vars(c))]
    inside = [c for c in conditions if not set(inner).isdisjoint(free_vars(c))]
    level = IterMapLevel.Surjective
    mapped = detect_iter_map(values, inner, conjunction(inside), level, False, analyzer=analyzer)
    if mapped.errors:
        return None
    result = outside
    for index, point in zip(mapped.indices, points, strict=True):
        if not index.args:
            result.append(point.equal(index.base))
            continue
        (digit,) = index.args
        if not is_const(digit.scale, 1):
            return None
        result += [index.base <= point, point < index.base + digit.extent]
    return result


def _image_of_sums(
    values: Sequence[PrimExpr],
    loops: Sequence[For],
    conditions: Iterable[PrimExpr],
    points: Sequence[PrimExpr],
    analyzer: Analyzer,
) -> list[PrimExpr] | None:
    """Return the image of sums of loop variables, whose terms may overlap."""
    inner = {loop.loop_var for loop in loops}
    ranged = _ranged(analyzer, loops)
    used: set[Var] = set()
    result: list[PrimExpr] = []
    for value, point in zip(values, points, strict=True):
        variables = inner & set(free_vars(value))
        interval = _dense(value, [loop for loop in loops if loop.loop_var in variables], analyzer, ranged)
        if interval is None or used & variables:
            return None
        used |= variables
        low, high, runs = interval
        result += [point.equal(low)] if low is high else [low <= point, point <= high]
        result += runs
    unused = {loop.loop_var: loop.min for loop in loops if loop.loop_var not in used}
    result += [loop.extent >= 1 for loop in loops if loop.loop_var in unused]
    for condition in conditions:
        variables = inner & set(free_vars(condition))
        if not variables:
            result.append(condition)
        elif variables <= set(unused) and analyzer.can_prove(substitute(condition, unused)):
            continue  # the first iteration of those loops fulfils it
        elif not ranged.can_prove(condition):
            moved = _at_point(condition, values, points, inner)
            if moved is None:
                return None
            result.append(moved)
    return result


def _ranged(analyzer: Analyzer, loops: Iterable[For]) -> Analyzer:
    result = analyzer.copy()
    for loop in loops:
        result.bind(loop.loop_var, loop_range(loop), override=True)
    return result


def _dense(
    value: PrimExpr, loops: Sequence[For], analyzer: Analyzer, ranged: Analyzer
) -> tuple[PrimExpr, PrimExpr, list[PrimExpr]] | None:
    """Return the least and greatest value of an expression without gaps, and the conditions for any values to exist.

    None if there may be gaps. `ranged` is `analyzer` with the ranges of the loops.
    """
    if not loops:
        return value, value, []
    variables = {loop.loop_var for loop in loops}
    terms: list[tuple[PrimExpr, PrimExpr]] = []
    low = value
    for loop in reversed(loops):
        var = loop.loop_var
        if variables & {*free_vars(loop.min), *free_vars(loop.extent)}:
            return None
        factor = ranged.simplify(substitute(value, {var: var + 1}) - value)
        if variables & set(free_vars(factor)):
            return None
        downwards = isinstance(factor, IntImm) and factor.value < 0
        low = substitute(low, {var: loop.min + loop.extent - 1 if downwards else loop.min})
        terms.append((simplify(-factor) if downwards else factor, loop.extent))
    terms.sort(key=lambda term: term[0].value if isinstance(term[0], IntImm) else 1 << 62)
    room: PrimExpr = const(1, value.dtype)
    runs: list[PrimExpr] = []
    for position, (factor, extent) in enumerate(terms):
        if not (analyzer.can_prove(factor >= 1) and analyzer.can_prove(factor <= room)):
            return None
        last = position == len(terms) - 1
        if not (last and analyzer.can_prove(factor.equal(room))):  # else nothing lies between the ends
            runs.append(extent >= 1)
        room = simplify(room + factor * (extent - 1).astype(factor.dtype))
    low = analyzer.simplify(low)
    return low, analyzer.simplify(low + room - 1), runs


def _at_point(
    condition: PrimExpr, values: Sequence[PrimExpr], points: Sequence[PrimExpr], inner: set[Var]
) -> PrimExpr | None:
    """Restate a comparison on a point: possible if its operands' difference is ± some value plus a loop-invariant."""
    if not isinstance(condition, CompareExpr) or not condition.a.dtype.is_integer:
        return None
    difference = condition.a - condition.b
    for value, point in zip(values, points, strict=True):
        same, moved = value.astype(difference.dtype), point.astype(difference.dtype)
        for rest, shown in ((difference - same, moved), (difference + same, -moved)):
            remainder = simplify(rest)
            if inner.isdisjoint(free_vars(remainder)):
                return condition.replace(a=simplify(shown + remainder), b=const(0, difference.dtype))
    return None


def fresh_points(exprs: Sequence[PrimExpr]) -> list[Var]:
    """Return fresh variables that stand for values of expressions in proofs."""
    return [Var(f"p{i}", expr.dtype) for i, expr in enumerate(exprs)]


# ------------------------------------------------------------------------------------------ cover


def shared_loops(first: Sequence[For], second: Sequence[For]) -> int:
    """Return the number of common loops of two blocks, from the outermost on."""
    count = 0
    for a, b in zip(first, second, strict=False):
        if a is not b:
            break
        count += 1
    return count


def covers(state: ScheduleState, function: str, producer: BlockRealize, consumer: BlockRealize, buffer: Buffer) -> bool:
    """True if, in each iteration of the common loops, the producer writes everything that the consumer reads.

    The written values are final, as a reduction in the producer does not extend over the common loops.
    """
    target = state.block_rv(consumer, function)
    outer = state.loops(state.block_rv(producer, function))
    count = shared_loops(outer, state.loops(target))
    shared = {loop.loop_var for loop in outer[:count]}
    if sums_up_over(producer, shared):
        return False
    stores = [store for store in stores_of(producer, outer[count:]) if store.buffer is buffer]
    analyzer = _consumer_facts(state, target)
    values = {v.var: w for v, w in zip(consumer.block.iter_vars, consumer.iter_values, strict=True)}
    for region in read_regions(consumer, buffer):
        facts = analyzer.copy()
        points = [_point_in(extent, values, facts) for extent in region.region]
        for point, size in zip(points, buffer.shape, strict=True):
            facts.assume(point >= 0)
            facts.assume(point < size)
        if not (
            any(_writes_point(store, points, shared, facts) for store in stores)
            or _is_written_by_one(producer, outer[count:], buffer, points, shared, facts)
        ):
            return False
    return True


def _point_in(extent: Range, values: Mapping[Var, PrimExpr], facts: Analyzer) -> PrimExpr:
    """Return an index that represents any index of a range: the only one, or a variable constrained in `facts`.

    `values` holds the values of the variables in the range.
    """
    low = substitute(extent.min, values)
    point = Var("p", low.dtype)
    if reads_memory(low) or reads_memory(extent.extent):
        return point
    if is_const(extent.extent, 1):
        return low
    facts.assume(point >= low)
    facts.assume(point < low + substitute(extent.extent, values))
    return point


def _consumer_facts(state: ScheduleState, rv: BlockRV) -> Analyzer:
    analyzer = analyzer_at(state, rv)
    realize = state.realize(rv)
    for condition in conjuncts(realize.predicate):
        analyzer.assume(condition)
    return analyzer


def _runs(loops: Iterable[For], shared: set[Var], facts: Analyzer) -> Analyzer:
    """Return the facts extended by: loops whose extents depend on no other loop have iterations.

    Otherwise the store would never run, and the read elements would be uninitialised.
    """
    loops = tuple(loops)
    variables = shared | {loop.loop_var for loop in loops}
    runs = facts.copy()
    for loop in loops:
        if variables.isdisjoint(free_vars(loop.extent)):
            runs.assume(loop.extent >= 1)
    return runs


def _writes_point(store: Store, points: Sequence[PrimExpr], shared: set[Var], facts: Analyzer) -> bool:
    """True if a store is proved to write the point described by `facts`."""
    runs = _runs(store.loops, shared, facts)
    constraints = image(store.indices, store.loops, store.conditions, points, runs)
    return constraints is not None and all(runs.can_prove(constraint) for constraint in constraints)


def _is_written_by_one(
    producer: BlockRealize,
    loops: Sequence[For],
    buffer: Buffer,
    points: Sequence[PrimExpr],
    shared: set[Var],
    facts: Analyzer,
) -> bool:
    """True if a block is proved to run for the values of its variables that write the point described by `facts`."""
    block = producer.block
    body = block.body.seq if isinstance(block.body, SeqStmt) else (block.body,)
    store = next((stmt for stmt in body if isinstance(stmt, BufferStore) and stmt.buffer is buffer), None)
    if store is None or block.match_buffers:
        return False
    values = inverse_of([v for v in block.iter_vars if v.iter_type == "spatial"], store.indices, points)
    if values is None:
        return False
    at = [values.get(v.var, v.dom.min) for v in block.iter_vars if v.dom is not None]
    indices = [substitute(index, values) for index in store.indices]
    runs = _runs(loops, shared, facts)
    constraints = domain_points(producer, loops, at, runs)
    if constraints is None:
        return False
    constraints += [index.equal(point) for index, point in zip(indices, points, strict=True)]
    return all(runs.can_prove(constraint) for constraint in constraints)


def sums_up_over(realize: BlockRealize, variables: set[Var]) -> bool:
    """True if reduction variables of a block are bound to some of these loop variables."""
    return any(
        iter_var.iter_type != "spatial" and not variables.isdisjoint(free_vars(value))
        for iter_var, value in zip(realize.block.iter_vars, realize.iter_values, strict=True)
    )


# ------------------------------------------------------------------------------------------ domains


def domain_points(
    realize: BlockRealize, loops: Sequence[For], points: Sequence[PrimExpr], analyzer: Analyzer
) -> list[PrimExpr] | None:
    """Return the values of a block's variables over the iterations of loops, as conditions on points: see `image`."""
    return image(realize.iter_values, loops, tuple(conjuncts(realize.predicate)), points, analyzer)


def sums_all(realize: BlockRealize, loops: Sequence[For], analyzer: Analyzer) -> bool:
    """True if a reduction block executes all steps in the domains of its reduction variables."""
    reduced = [
        (v, value)
        for v, value in zip(realize.block.iter_vars, realize.iter_values, strict=True)
        if v.iter_type != "spatial"
    ]
    used = {var for _, value in reduced for var in free_vars(value)}
    inner = [loop for loop in loops if loop.loop_var in used]
    conditions = [c for c in conjuncts(realize.predicate) if not used.isdisjoint(free_vars(c))]
    points = fresh_points([value for _, value in reduced])
    reached = image([value for _, value in reduced], inner, conditions, points, analyzer)
    domain = [
        condition
        for (v, _), p in zip(reduced, points, strict=True)
        if v.dom is not None
        for condition in (p >= v.dom.min, p < v.dom.min + v.dom.extent)
    ]
    return reached is not None and implied(analyzer, domain, reached)


def stays_in_domain(realize: BlockRealize, loops: Sequence[For], analyzer: Analyzer) -> bool:
    """True if a block's variables stay in their domains in all iterations of loops."""
    facts = _ranged(analyzer, loops)
    for condition in conjuncts(realize.predicate):
        facts.assume(condition)
    return all(facts.can_prove(c) for c in domain_conditions(realize.block, realize.iter_values))


def domain_conditions(block: Block, values: Sequence[PrimExpr]) -> list[PrimExpr]:
    """Return the conditions that values are in the domains of a block's variables."""
    result: list[PrimExpr] = []
    for iter_var, value in zip(block.iter_vars, values, strict=True):
        if iter_var.dom is not None:
            result += [value >= iter_var.dom.min, value < iter_var.dom.min + iter_var.dom.extent]
    return result


def implied(facts: Analyzer, premises: Iterable[PrimExpr], conclusions: Iterable[PrimExpr]) -> bool:
    """True if the facts and premises imply the conclusions."""
    assuming = facts.copy()
    for premise in premises:
        assuming.assume(premise)
    return all(assuming.can_prove(conclusion) for conclusion in conclusions)


def sums_once(realize: BlockRealize, loops: Sequence[For], analyzer: Analyzer) -> bool:
    """True if a reduction block executes each step at most once per result.

    From the outermost reduction loop inwards, no two iterations have the same values.
    """
    start = next((i for i, loop in enumerate(loops) if sums_up_over(realize, {loop.loop_var})), None)
    if start is None:
        return all(v.iter_type == "spatial" or _is_one(v) for v in realize.block.iter_vars)
    inner = {loop.loop_var: loop_range(loop) for loop in loops[start:]}
    conditions = [c for c in conjuncts(realize.predicate) if not set(inner).isdisjoint(free_vars(c))]
    level = IterMapLevel.Injective
    mapped = detect_iter_map(realize.iter_values, inner, conjunction(conditions), level, False, analyzer=analyzer)
    return not mapped.errors


def _is_one(iter_var: IterVar) -> bool:
    return iter_var.dom is not None and is_const(iter_var.dom.extent, 1)
