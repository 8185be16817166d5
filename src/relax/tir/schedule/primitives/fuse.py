"""fuse: fuse nested loops into one.

    for i, j in T.grid(8, m):               for i_j_fused in range(8 * m):
        with T.block("B"):                      with T.block("B"):
            vi = T.axis.spatial(8, i)               vi = T.axis.spatial(8, i_j_fused // m)
            vj = T.axis.spatial(m, j)               vj = T.axis.spatial(m, i_j_fused % m)
            B[vi, vj] = A[vi, vj]                   B[vi, vj] = A[vi, vj]

The iterations keep their order. However, an empty reduction loop still runs the init, while an empty loop that is also
bound to data-parallel variables does not.

Rejected: loops that are not perfectly nested, outermost first; a loop that is not serial or has annotations; a loop
whose bounds depend on another fused loop; a possibly empty reduction loop together with other loops.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ....prim import PrimExpr, Var, const, free_vars, is_const
from ....prim.intrin import floordiv, floormod
from ...functor import substitute as substitute_in_stmt
from ...stmt import For, ForKind, Stmt
from ..base import ScheduleBase, primitive
from ..conditions import analyzer_at, blocks_below, bound_loops, loop_range, require_chain, require_started
from ..error import ARGUMENT, STRUCTURE, ScheduleError
from ..rv import LoopRV
from .split import require_plain


@primitive
def fuse(sch: ScheduleBase, *loops: LoopRV, preserve_unit_iters: bool = True) -> LoopRV:
    """Fuse nested loops, given outermost first, into one.

    Parameters
    ----------
    preserve_unit_iters : False omits loops of one iteration from the fused index.

    Returns the fused loop. Raises ScheduleError in the cases listed in the module's docstring.
    """
    if not loops:
        raise ScheduleError(ARGUMENT, "fuse takes at least one loop")
    nodes = require_chain(sch.state, list(loops))
    require_box(nodes)
    for node in nodes:
        require_plain(node)
    if len(nodes) == 1:
        return loops[0]
    fused_vars = {node.loop_var for node in nodes}
    for child in blocks_below(nodes[-1]):
        kinds = bound_loops(child, "reduce"), bound_loops(child, "spatial")
        if child.block.init is not None and all(fused_vars & variables for variables in kinds):
            require_started(sch.state, child, loops[0].function, "the fused loop")
    analyzer = analyzer_at(sch.state, loops[0])
    dtype = _widest(nodes)
    extent: PrimExpr = const(1, dtype)
    for node in nodes:
        extent = extent * node.extent.astype(dtype)
    extent = analyzer.simplify(extent)
    fused = Var("_".join([*(node.loop_var.name for node in nodes), "fused"]), dtype)
    result = For(fused, const(0, dtype), extent, ForKind.SERIAL, nodes[-1].body)
    analyzer.bind(fused, loop_range(result))
    values = {
        node.loop_var: analyzer.simplify(value).astype(node.loop_var.dtype)
        for node, value in zip(nodes, _digits(fused, nodes, preserve_unit_iters), strict=True)
    }
    body: Stmt = substitute_in_stmt(nodes[-1].body, values)
    sch.state.replace(nodes[0], result.replace(body=body), loops[0].function)
    return LoopRV(loops[0].function, fused)


def _widest(nodes: Iterable[For]) -> str:
    """Return the widest dtype of the loops."""
    return str(max((node.loop_var.dtype for node in nodes), key=lambda dtype: dtype.bits))


def _digits(fused: Var, nodes: Sequence[For], preserve_unit_iters: bool) -> list[PrimExpr]:
    """Return the values of the loops' variables: the digits of the fused variable, outermost first."""
    result: list[PrimExpr] = []
    below: PrimExpr = const(1, fused.dtype)
    for position, node in enumerate(reversed(nodes)):
        extent = node.extent.astype(fused.dtype)
        low = node.min.astype(fused.dtype)
        if is_const(extent, 0) or is_const(below, 0) or (not preserve_unit_iters and is_const(extent, 1)):
            digit: PrimExpr = const(0, fused.dtype)  # it never runs, or has this value alone
        else:
            digit = fused if is_const(below, 1) else floordiv(fused, below)
            if position < len(nodes) - 1:
                digit = floormod(digit, extent)
        result.append(digit if is_const(low, 0) else digit + low)
        below = extent if is_const(below, 1) else below * extent
    return result[::-1]


def require_box(nodes: Sequence[For]) -> None:
    """Raise if the bounds of a loop depend on another one."""
    variables: set[Var] = set()
    for outer in nodes:
        variables.add(outer.loop_var)
    for node in nodes:
        used = variables.intersection((*free_vars(node.min), *free_vars(node.extent)))
        if used:
            name = min(var.name for var in used)
            raise ScheduleError(
                STRUCTURE,
                f"the bounds of loop {node.loop_var.name} depend on loop {name}",
                *(item for item in nodes if item.loop_var in used),
                node,
            )
