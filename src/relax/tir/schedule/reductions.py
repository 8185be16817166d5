"""Reduction blocks and the loops around them: which loops reduce, and when a block's init runs.

A block's init runs at each iteration in which every reduction variable has its first value and the predicate holds. If
the loops that reduce reach that value in their first iterations, and never again, the init belongs in front of them:

    for i, k in T.grid(n, m):              for i in range(n):   B[i] = 0
        B[i] (init 0) += A[i, k]           for i, k in T.grid(n, m):   B[i] += A[i, k]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from ...prim import Analyzer, PrimExpr, Var, free_vars
from ...prim.iter_map import IterMapLevel, detect_iter_map
from ..buffer import Range
from ..functor import substitute
from ..renew import renew_bound_vars
from ..statements import TRUE, conjunction, conjuncts, map_parts, parts_of
from ..stmt import BlockRealize, For, Stmt
from .conditions import loop_range
from .error import BINDING, ScheduleError
from .state import ScheduleState


@dataclass(frozen=True)
class BoundLoops:
    """The variables of loops by the kind of the block variables that they are bound to."""

    spatial: frozenset[Var]
    reduce: frozenset[Var]

    @property
    def both(self) -> frozenset[Var]:
        """The loops bound to variables of both kinds."""
        return self.spatial & self.reduce

    @property
    def only_reduce(self) -> frozenset[Var]:
        """The loops bound to reduction variables alone."""
        return self.reduce - self.spatial


def bound_loops(realize: BlockRealize, loops: Sequence[For]) -> BoundLoops:
    """The loops among `loops` that the data-parallel and the reduction variables of a block are bound to."""
    variables = {loop.loop_var for loop in loops}
    used: dict[bool, set[Var]] = {True: set(), False: set()}
    for iter_var, value in zip(realize.block.iter_vars, realize.iter_values, strict=True):
        used[iter_var.iter_type == "reduce"].update(variables.intersection(free_vars(value)))
    return BoundLoops(frozenset(used[False]), frozenset(used[True]))


def require_single_start(realize: BlockRealize, loops: Sequence[For], analyzer: Analyzer) -> None:
    """Raise unless the loops reach each point of the block once, and the start of the reductions in first iterations.

    `loops` are the loops within which the init shall run ahead; those around them stand still.
    """
    name = realize.block.name_hint
    kinds = bound_loops(realize, loops)
    level = IterMapLevel.Bijective if kinds.both else IterMapLevel.Injective
    problem = _mapping_problem(realize, loops, level)
    if problem is not None:
        raise ScheduleError(
            BINDING,
            f"the loops inside may reach one point of block {name} twice, which would start its reduction again: "
            + problem,
            realize,
        )
    for loop in loops:
        if loop.loop_var not in kinds.spatial | kinds.reduce and not analyzer.can_prove(loop.extent.equal(1)):
            raise ScheduleError(
                BINDING, f"loop {loop.loop_var.name} is bound to no variable of block {name}", loop, realize
            )
    first = {loop.loop_var: loop.min for loop in loops if loop.loop_var in kinds.reduce}
    for iter_var, value in zip(realize.block.iter_vars, realize.iter_values, strict=True):
        if iter_var.iter_type != "reduce" or iter_var.dom is None:
            continue
        if not analyzer.can_prove(substitute(value, first).equal(iter_var.dom.min)):
            raise ScheduleError(
                BINDING,
                f"variable {iter_var.var.name} of block {name} is {value}, which need not be {iter_var.dom.min} in the "
                "first iterations of its loops",
                realize,
            )


def _mapping_problem(realize: BlockRealize, loops: Sequence[For], level: IterMapLevel) -> str | None:
    """The reason for which a claim does not hold of a block's bindings; None if it does, with or without predicate."""
    if not realize.iter_values:
        return None
    ranges = {loop.loop_var: loop_range(loop) for loop in loops}
    problem = None
    for predicate in (TRUE, realize.predicate):
        mapped = detect_iter_map(realize.iter_values, ranges, predicate, level, False)
        if mapped.indices:
            return None
        problem = problem or "; ".join(mapped.errors)
    return problem


def start_predicate(
    realize: BlockRealize,
    loops: Sequence[For],
    analyzer: Analyzer,
    around: Mapping[Var, Range] = MappingProxyType({}),
) -> PrimExpr:
    """The condition under which the init of a block runs for a point, over loops of data-parallel variables alone.

    `analyzer` has the ranges of all loops around the block but for those that reduce; `around` has the ranges of
    reduction variables further out. Raises ScheduleError for a condition on loops of both kinds that may fail at the
    start.
    """
    kinds = bound_loops(realize, loops)
    dropped = [loop for loop in loops if loop.loop_var not in kinds.spatial]
    first = {loop.loop_var: loop.min for loop in dropped}
    first.update((var, item.min) for var, item in around.items())
    extents = [*(loop.extent for loop in dropped), *(item.extent for item in around.values())]
    kept: list[PrimExpr] = []
    for condition in conjuncts(realize.predicate):
        used = set(free_vars(condition))
        if kinds.both & used:
            raise _unclear(realize, condition)
        if not used.intersection(first):
            kept.append(condition)
            continue
        at_start = substitute(condition, first)
        if holds_with_iterations(at_start, extents, analyzer):
            continue
        if not all(analyzer.can_prove(extent >= 1) for extent in extents):
            raise _unclear(realize, condition)
        kept.append(analyzer.simplify(at_start))
    return conjunction(kept)


def holds_with_iterations(condition: PrimExpr, extents: Sequence[PrimExpr], analyzer: Analyzer) -> bool:
    """True if a condition holds, or some loop, of those of the extents, has no iteration where it fails."""
    if analyzer.can_prove(condition):
        return True
    facts = analyzer.copy()
    facts.assume(~condition)
    return any(facts.can_prove(extent <= 0) for extent in extents)


def _unclear(realize: BlockRealize, condition: PrimExpr) -> ScheduleError:
    return ScheduleError(
        BINDING,
        f"the condition {condition} of block {realize.block.name_hint} may fail where its reduction starts",
        realize,
        hint="split the loops of data-parallel and of reduction variables apart",
    )


def path_between(outer: Stmt, inner: Stmt) -> list[Stmt]:
    """The statements from one down to another, which is inside of it and of no block inside of it; both included."""
    if outer is inner:
        return [outer]
    for part in parts_of(outer):
        if isinstance(part, BlockRealize) and part is not inner:
            continue
        below = path_between(part, inner)
        if below:
            return [outer, *below]
    return []


def fresh_copy(stmt: Stmt, state: ScheduleState, function: str) -> Stmt:
    """A copy of a statement with variables and block names of its own."""
    taken: set[str] = set()

    def rename(part: Stmt) -> Stmt:
        if not isinstance(part, BlockRealize):
            return map_parts(part, rename)
        name = fresh_name(state, function, part.block.name_hint, taken)
        return part.replace(block=part.block.replace(name_hint=name, body=rename(part.block.body)))

    return rename(renew_bound_vars(stmt))


def fresh_name(state: ScheduleState, function: str, hint: str, taken: set[str]) -> str:
    """A name that neither a block of the function nor a name in `taken` has; it is added to `taken`."""
    name, number = state.fresh_name(function, hint), 0
    while name in taken:
        number += 1
        name = state.fresh_name(function, f"{hint}_{number}")
    taken.add(name)
    return name


__all__ = [
    "BoundLoops", "bound_loops", "fresh_copy", "fresh_name", "holds_with_iterations", "path_between",
    "require_single_start", "start_predicate",
]  # fmt: skip
