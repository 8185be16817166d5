"""Reduction blocks and their loops: which loops reduce, and when the init runs.

A block's init runs at each iteration in which every reduction variable has its first value and the predicate holds. If
the reduction loops reach that value in their first iterations only, the init can run before them:

    for i, k in T.grid(n, m):              for i in range(n):   B[i] = 0
        B[i] (init 0) += A[i, k]           for i, k in T.grid(n, m):   B[i] += A[i, k]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from ...prim import Analyzer, PrimExpr, Var, free_vars
from ...prim.iter_map import IterMapLevel, detect_iter_map
from ...runtime.records import dataclass
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
    """Loop variables by the kind of the block variables that they are bound to."""

    spatial: frozenset[Var]
    reduce: frozenset[Var]

    @property
    def both(self) -> frozenset[Var]:
        """Loops bound to variables of both kinds."""
        return self.spatial & self.reduce

    @property
    def only_reduce(self) -> frozenset[Var]:
        """Loops bound to reduction variables only."""
        return self.reduce - self.spatial


def bound_loops(realize: BlockRealize, loops: Sequence[For]) -> BoundLoops:
    """Return the loops among `loops` to which the data-parallel and the reduction variables of a block are bound."""
    variables = {loop.loop_var for loop in loops}
    used: dict[bool, set[Var]] = {True: set(), False: set()}
    for iter_var, value in zip(realize.block.iter_vars, realize.iter_values, strict=True):
        used[iter_var.iter_type == "reduce"].update(variables.intersection(free_vars(value)))
    return BoundLoops(frozenset(used[False]), frozenset(used[True]))


def require_single_start(realize: BlockRealize, loops: Sequence[For], analyzer: Analyzer) -> None:
    """Raise unless the loops reach each point of the block once, and start the reductions in their first iterations.

    `loops` are the loops in front of which the init will run; the outer loops are fixed.
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
            hint="bind each iteration of the loops to a point of its own",
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
    """Return why a block's bindings do not satisfy `level`, with or without the predicate, or None if they do."""
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
    realize: BlockRealize, loops: Sequence[For], analyzer: Analyzer, around: Mapping[Var, Range] = MappingProxyType({})
) -> PrimExpr:
    """Return the condition under which the init of a block runs, over data-parallel loops only.

    `analyzer` holds the ranges of all loops around the block except reduction loops; `around` holds the ranges of outer
    reduction variables. Raises ScheduleError for a condition on loops of both kinds that may fail at the start.
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
    """True if a condition holds, or its failure implies that a loop with one of the `extents` has no iteration."""
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
    """Return the statements from `outer` down to `inner`, both included; `inner` is in no block inside `outer`."""
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
    """Return a copy of a statement with fresh variables and block names."""
    taken: set[str] = set()

    def rename(current: Stmt) -> Stmt:
        if not isinstance(current, BlockRealize):
            return map_parts(current, rename)
        name = fresh_name(state, function, current.block.name_hint, taken)
        return current.replace(block=current.block.replace(name_hint=name, body=rename(current.block.body)))

    return rename(renew_bound_vars(stmt))


def fresh_name(state: ScheduleState, function: str, hint: str, taken: set[str]) -> str:
    """Return a block name that is neither in the function nor in `taken`, and add it to `taken`."""
    name, number = state.fresh_name(function, hint), 0
    while name in taken:
        number += 1
        name = state.fresh_name(function, f"{hint}_{number}")
    taken.add(name)
    return name
