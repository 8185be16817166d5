"""split: split a loop into nested loops.

    for i in range(n):                      for i_0, i_1 in T.grid((n + 15) // 16, 16):
        with T.block("B"):                      with T.block("B"):
            vi = T.axis.spatial(n, i)               vi = T.axis.spatial(n, i_0 * 16 + i_1)
            B[vi] = A[vi] + 1.0                     T.where(i_0 * 16 + i_1 < n)
                                                    B[vi] = A[vi] + 1.0

`factors` are the extents of the new loops, outermost first; at most one is None and becomes the extent divided by the
others, rounded up. If the product may exceed the extent, the blocks get a condition.

Rejected: a loop that is not serial or has annotations; factors below 1, or whose product is less than the extent; a
condition for a statement outside of blocks. With `disable_predication` there is no condition, but a precondition of the
function: the factors must divide the extent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....prim import Analyzer, IntImm, PrimExpr, Var, const, free_vars, is_const, prove, simplify
from ....prim.intrin import ceildiv, floormod
from ...functor import substitute
from ...statements import conjunction, conjuncts, map_parts
from ...stmt import BlockRealize, BufferStore, Evaluate, For, Precondition, Stmt, While
from ..base import ScheduleBase, primitive, sizes_of
from ..conditions import analyzer_at
from ..error import ARGUMENT, STRUCTURE, ScheduleError
from ..rv import ExprRV, LoopRV


@primitive
def split(
    sch: ScheduleBase,
    loop: LoopRV,
    factors: Sequence[int | ExprRV | None],
    preserve_unit_iters: bool = True,
    disable_predication: bool = False,
) -> list[LoopRV]:
    """Split a loop into nested loops of the extents `factors`, outermost first; one of them may be None.

    Parameters
    ----------
    preserve_unit_iters : False omits loops of one iteration from the block bindings.
    disable_predication : True adds a precondition that the factors divide the extent, instead of conditions.

    Returns the new loops. Raises ScheduleError in the cases listed in the module's docstring.
    """
    node = sch.state.loop(loop)
    require_plain(node)
    analyzer = analyzer_at(sch.state, loop)
    require_in_scope(sch, loop, factors)
    extents = _extents(node, factors, analyzer)
    variables = [Var(f"{node.loop_var.name}_{i}", node.loop_var.dtype) for i in range(len(extents))]
    value: PrimExpr = const(0, node.loop_var.dtype)
    for var, extent in zip(variables, extents, strict=True):
        digit = const(0, var.dtype) if not preserve_unit_iters and _is_one(extent) else var
        value = value * extent + digit
        analyzer.bind(var, _Span(const(0, var.dtype), extent))
    value = analyzer.simplify(value)
    start = value if is_const(node.min, 0) else value + node.min
    body: Stmt = substitute(node.body, {node.loop_var: start})
    if not analyzer.can_prove(value < node.extent):
        if disable_predication:
            _demand_division(sch, loop, node, extents)
        else:
            body = guarded(body, value < node.extent, node)
    for var, extent in zip(reversed(variables), reversed(extents), strict=True):
        body = For(var, const(0, var.dtype), extent, node.kind, body)
    sch.state.replace(node, body, loop.function)
    return [LoopRV(loop.function, var) for var in variables]


class _Span:
    """The range of a new loop's variable."""

    def __init__(self, low: PrimExpr, extent: PrimExpr) -> None:
        self.min, self.extent = low, extent


def require_plain(node: For) -> None:
    """Raise unless a loop is serial and has no annotations, which could not be inherited."""
    if node.kind is not node.kind.SERIAL or node.annotations or node.thread_binding:
        reason = (
            f"has annotations ({', '.join(node.annotations)})" if node.annotations else (f"is {node.kind.name.lower()}")
        )
        raise ScheduleError(
            STRUCTURE, f"loop {node.loop_var.name} {reason}", node, hint="change the loops first, then say how they run"
        )


def _is_one(extent: PrimExpr) -> bool:
    return prove(extent.equal(1)) is True


def require_in_scope(sch: ScheduleBase, loop: LoopRV, factors: Sequence[Any]) -> None:
    """Raise if a factor contains a variable that is not defined at the loop."""
    func = sch.state.func(loop.function)
    present: set[Var] = set(sizes_of(func))
    for stmt in sch.state.ancestors(loop):
        bound = [stmt.loop_var] if isinstance(stmt, For) else [v.var for v in stmt.block.iter_vars]
        present.update(bound)
    for factor in factors:
        outside = set[Var]() if not isinstance(factor, PrimExpr) else set(free_vars(factor)) - present
        if outside:
            name = min(var.name for var in outside)
            raise ScheduleError(
                ARGUMENT, f"the factor {factor} mentions {name}, which is no size, parameter or loop around the loop"
            )


def _extents(node: For, factors: Sequence[int | ExprRV | None], analyzer: Analyzer) -> list[PrimExpr]:
    """Return the extents of the new loops, with the None factor resolved."""
    dtype = node.loop_var.dtype
    open_places = [i for i, factor in enumerate(factors) if factor is None]
    if not factors or len(open_places) > 1:
        raise ScheduleError(
            ARGUMENT, f"factors must be at least one extent, at most one of them None, found {list(factors)}"
        )
    extents: list[PrimExpr] = []
    for factor in factors:
        extent = (
            const(1, dtype)
            if factor is None
            else (const(factor, dtype) if isinstance(factor, int) else factor.astype(dtype))
        )
        if not analyzer.can_prove(extent >= 1):
            raise ScheduleError(ARGUMENT, f"the factor {factor} is not known to be 1 or more", node)
        extents.append(extent)
    product: PrimExpr = const(1, dtype)
    for extent in extents:
        product = product * extent
    if open_places:
        extents[open_places[0]] = analyzer.simplify(ceildiv(node.extent, product))
    elif not analyzer.can_prove(simplify(product) >= node.extent):
        raise ScheduleError(
            ARGUMENT,
            f"the product of the factors {list(factors)} may be less than the extent {node.extent} of the loop",
            node,
            hint="let one factor be None: it is what the others leave",
        )
    return extents


def guarded(body: Stmt, condition: PrimExpr, loop: For) -> Stmt:
    """Add a condition to the blocks in a statement."""

    def guard(stmt: Stmt) -> Stmt:
        if isinstance(stmt, BlockRealize):
            return stmt.replace(predicate=conjunction([*conjuncts(stmt.predicate), condition]))
        if isinstance(stmt, (BufferStore, Evaluate, While)):
            raise ScheduleError(
                STRUCTURE,
                f"loop {loop.loop_var.name} needs a condition, which a statement outside of blocks cannot get",
                stmt,
                loop,
                hint="put the statement into a block",
            )
        return map_parts(stmt, guard)

    return guard(body)


def _demand_division(sch: ScheduleBase, loop: LoopRV, node: For, extents: Sequence[PrimExpr]) -> None:
    """Add a precondition that the factors divide the extent."""
    product = extents[-1]
    for extent in extents[1:-1]:
        product = product * extent
    outer = {around.loop_var for around in sch.state.loops(loop)[:-1]}
    if outer & {*free_vars(node.extent), *free_vars(product)}:
        raise ScheduleError(
            ARGUMENT,
            f"the extent {node.extent} depends on a loop: no caller can answer for a multiple of {product}",
            node,
            hint="let the blocks have a condition: disable_predication=False",
        )
    func = sch.state.func(loop.function)
    number = product.value if isinstance(product, IntImm) else product
    message = f"the extent {node.extent} of loop {node.loop_var.name} must be a multiple of {number}"
    demand = Precondition(floormod(node.extent, product).equal(0), message)
    sch.state.replace_function(loop.function, func.replace(preconditions=(*func.preconditions, demand)))
