"""Proofs that a block writes all elements of a portion of a buffer, starting at an anchor."""

from __future__ import annotations

from collections.abc import Sequence

from ...prim import GE, GT, LE, LT, FloorDiv, IntImm, PrimExpr, Var, const, free_vars, is_const, simplify, substitute
from ...prim.iter_map import IterMapLevel, detect_iter_map
from ..buffer import BufferRegion, Range
from ..statements import conjunction, conjuncts
from ..stmt import BlockRealize, For, IfThenElse, While
from .conditions import analyzer_at, loop_range
from .error import ORDER, ScheduleError
from .rv import LoopRV
from .sites import Path, Portion, Site


def writes_all_of(site: Site, realize: BlockRealize, path: Path, region: BufferRegion, portion: Portion) -> bool:
    """True if a block certainly writes all elements of a portion, from the anchor on and in the current iteration.

    Either the indices are an affine map of the loops onto a box; or each index is a sum of multiples of its own loop
    variables without gaps, and the conditions of the block hold for all elements of the portion.
    """
    if any(isinstance(stmt, (IfThenElse, While)) for stmt in path[path.index(site.anchor) :]):
        return False
    loops = site.inner_loops(path)
    if not all(_runs_if_needed(site, loop, realize) for loop in loops):
        return False
    bound = dict(zip((v.var for v in realize.block.iter_vars), realize.iter_values, strict=True))
    indices: list[PrimExpr] = [substitute(extent.min, bound) for extent in region.region]
    reduce_loops = [loop for loop in loops if loop.loop_var in _reducing(realize)]
    conditions: list[PrimExpr] = []
    for condition in conjuncts(realize.predicate):
        if not _uses(condition, _reducing(realize)):
            conditions.append(condition)
        elif realize.block.init is None or not _starts(site, condition, reduce_loops, loops):
            return False
    spatial_loops = [loop for loop in loops if loop.loop_var not in _reducing(realize)]
    if _maps_onto(site, indices, region, spatial_loops, conditions, portion):
        return True
    variables = [loop.loop_var for loop in loops]
    taken: set[Var] = set()
    for index, extent, needed in zip(indices, region.region, portion.ranges, strict=True):
        used = set(free_vars(index)) & set(variables)
        if used & taken or not _reaches(site, index, extent.extent, [x for x in loops if x.loop_var in used], needed):
            return False
        taken |= used
    return all(_holds_for(site, c, indices, portion, set(variables)) for c in conditions)


def require_copied_after_init(site: Site, realize: BlockRealize) -> None:
    """Raise if a block's init may run although the copy is not executed.

    This happens if the copy is inside a reduction loop that may have no iteration: then only the init runs.
    """
    if realize.block.init is None:
        return
    for loop in site.around:
        rv = LoopRV(site.scope.function, loop.loop_var)
        if loop.loop_var in _reducing(realize) and not analyzer_at(site.state, rv).can_prove(loop.extent >= 1):
            name = realize.block.name_hint
            raise ScheduleError(
                ORDER,
                f"the copy would stand in loop {loop.loop_var.name}, over which block {name} sums up: where the loop "
                "has no iteration, only the init runs, and nothing is copied",
                loop,
                hint="choose a loop outside of the reduction",
            )


def _reducing(realize: BlockRealize) -> set[Var]:
    """Return the loop variables to which a block's reduction variables are bound."""
    pairs = zip(realize.block.iter_vars, realize.iter_values, strict=True)
    return {var for iter_var, value in pairs if iter_var.iter_type == "reduce" for var in free_vars(value)}


def _starts(site: Site, condition: PrimExpr, reduce_loops: Sequence[For], loops: Sequence[For]) -> bool:
    """True if a condition holds in the first iteration of a reduction, provided there is one."""
    at_start = substitute(condition, {loop.loop_var: loop.min for loop in reduce_loops})
    if _uses(at_start, {loop.loop_var for loop in loops}):
        return False
    analyzer = site.analyzer.copy()
    for extent in (loop.extent for loop in reduce_loops):
        analyzer.assume(extent >= 1)
        if isinstance(extent, FloorDiv) and isinstance(extent.b, IntImm) and extent.b.value > 0:
            analyzer.assume(extent.a >= extent.b)
    return analyzer.can_prove(at_start)


def _maps_onto(
    site: Site,
    indices: Sequence[PrimExpr],
    region: BufferRegion,
    loops: Sequence[For],
    conditions: Sequence[PrimExpr],
    portion: Portion,
) -> bool:
    """True if indices of single elements are an affine map of loops onto a box that contains the portion."""
    if not all(is_const(extent.extent, 1) for extent in region.region):
        return False
    used = {var for expr in (*indices, *conditions) for var in free_vars(expr)}
    domain = {loop.loop_var: loop_range(loop) for loop in loops if loop.loop_var in used}
    mapped = detect_iter_map(
        indices, domain, conjunction(conditions), IterMapLevel.Surjective, analyzer=site.analyzer.copy()
    )
    for index, needed in zip(mapped.indices, portion.ranges, strict=False):
        extent: PrimExpr = const(1, index.dtype)
        for split in index.args:
            if len(index.args) > 1 or not is_const(split.scale, 1):
                return False
            extent = split.extent
        inside = (index.base <= needed.min, needed.min + needed.extent <= index.base + extent)
        if not all(site.analyzer.can_prove(condition) for condition in inside):
            return False
    return len(mapped.indices) == len(indices)


def _runs_if_needed(site: Site, loop: For, realize: BlockRealize) -> bool:
    """True if a loop without iterations implies that there is nothing to write, or that the init writes it."""
    using = [
        iter_var
        for iter_var, value in zip(realize.block.iter_vars, realize.iter_values, strict=True)
        if loop.loop_var in set(free_vars(value))
    ]
    if not using:
        return site.analyzer.can_prove(loop.extent >= 1)
    kinds = {iter_var.iter_type for iter_var in using}
    return kinds == {"spatial"} or (kinds == {"reduce"} and realize.block.init is not None)


def _reaches(site: Site, index: PrimExpr, width: PrimExpr, loops: Sequence[For], needed: Range) -> bool:
    """True if a sum of multiples of loop variables, with accesses of `width` elements, covers a range."""
    analyzer = site.analyzer
    variables = {loop.loop_var for loop in loops}
    terms: list[tuple[int, PrimExpr]] = []
    first, rest = substitute(index, {loop.loop_var: loop.min for loop in loops}), index
    for loop in loops:
        step = simplify(substitute(index, {loop.loop_var: loop.loop_var + 1}) - index)
        if not isinstance(step, IntImm) or step.value <= 0:
            return False
        terms.append((step.value, loop.extent))
        rest = rest - loop.loop_var * step.value
    if _uses(simplify(rest), variables):
        return False
    reach: PrimExpr = width
    for step, extent in sorted(terms, key=lambda term: term[0]):
        if not analyzer.can_prove(reach >= step):
            return False
        reach = reach + (extent - 1) * step
    return analyzer.can_prove(first <= needed.min) and analyzer.can_prove(needed.min + needed.extent <= first + reach)


def _holds_for(site: Site, condition: PrimExpr, indices: Sequence[PrimExpr], portion: Portion, inner: set[Var]) -> bool:
    """True if a condition holds whenever the indices lie in the portion."""
    if not _uses(condition, inner):
        analyzer = site.analyzer.copy()
        for needed, limits in zip(portion.ranges, portion.conditions, strict=True):
            for limit in limits if is_const(needed.extent, 1) else ():
                analyzer.assume(limit(needed.min))
        return analyzer.can_prove(condition)
    if not isinstance(condition, (LT, LE, GT, GE)):
        return False
    difference = condition.a - condition.b
    for index, needed, limits in zip(indices, portion.ranges, portion.conditions, strict=True):
        rest = simplify(difference - index)
        if index.dtype != difference.dtype or _uses(rest, inner):
            continue
        analyzer = site.analyzer.copy()
        element = Var("element", index.dtype)
        analyzer.bind(element, needed)
        for limit in limits:
            analyzer.assume(limit(element))
        zero = const(0, index.dtype)
        return analyzer.can_prove(type(condition)(element + rest, zero))
    return False


def _uses(expr: PrimExpr, variables: set[Var]) -> bool:
    return not variables.isdisjoint(free_vars(expr))
