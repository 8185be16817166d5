"""loop_partition: split a loop's range into consecutive loops.

    for i in range(n):                      with T.block("B_i_common"):
        with T.block("B"):                      with T.block("B_i_0_partition"):
            vi = T.axis.spatial(n, i)               for i_0 in range(4):
            B[vi] = A[vi]                               with T.block("B_i_0"):
                                                            vi = T.axis.spatial(n, i_0)
                                                            B[vi] = A[vi]
                                                with T.block("B_i_1_partition"):
                                                    for i_1 in range(n - 4):
                                                        with T.block("B_i_1"):
                                                            vi = T.axis.spatial(n, i_1 + 4)
                                                            B[vi] = A[vi]

`factors` are the iteration counts of the loops; at most one is None and takes the remaining iterations. Otherwise the
remainder becomes a last loop. Each part is a block, so that it is scheduled in a separate scope, with a variable for
each outer loop that it depends on.

Rejected: a loop that is not serial or has annotations; factors below 1, or whose sum may exceed the extent; a loop
inside a reduction loop that may be empty, as the parts would not run the init.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....prim import Analyzer, PrimExpr, Var, const, is_const
from ...buffer import IterVar
from ...functor import substitute
from ...regions import complete_block
from ...renew import renew_bound_vars
from ...statements import TRUE, map_parts, seq_of
from ...stmt import Block, BlockRealize, For, ForKind, Stmt
from ...usage import free_vars as variables_used
from ..base import ScheduleBase, primitive
from ..conditions import analyzer_at, blocks_below, bound_loops, loop_range, require_started
from ..error import ARGUMENT, STRUCTURE, ScheduleError
from ..rv import ExprRV, LoopRV
from .split import require_in_scope, require_plain


@primitive
def loop_partition(
    sch: ScheduleBase, loop: LoopRV, factors: Sequence[int | ExprRV | None], preserve_unit_iters: bool = True
) -> list[LoopRV]:
    """Partition a loop into consecutive loops of `factors` iterations each; one of them may be None.

    Parameters
    ----------
    preserve_unit_iters : False replaces the index of a loop of one iteration by a constant.

    Returns the new loops. Raises ScheduleError in the cases listed in the module's docstring.
    """
    node = sch.state.loop(loop)
    require_plain(node)
    analyzer = analyzer_at(sch.state, loop)
    require_in_scope(sch, loop, factors)
    extents = _extents(node, factors, analyzer)
    children = blocks_below(node)
    if not children:
        raise ScheduleError(STRUCTURE, f"there is no block in loop {node.loop_var.name}", node)
    outer_vars = {around.loop_var for around in sch.state.loops(loop)[:-1]}
    for child in children:
        if child.block.init is not None and outer_vars & bound_loops(child, "reduce"):
            require_started(sch.state, child, loop.function, "the parts")
    base = f"{children[0].block.name_hint}_{node.loop_var.name}"
    names = _Names(sch, loop.function)
    variables: list[Var] = []
    parts: list[Stmt] = []
    start: PrimExpr = node.min
    outer = _loops_around(sch, loop)
    for number, extent in enumerate(extents):
        var = Var(f"{node.loop_var.name}_{number}", node.loop_var.dtype)
        value = start if not preserve_unit_iters and is_const(extent, 1) else var + start
        body = substitute(node.body, {node.loop_var: analyzer.simplify(value)})
        body = names.renewed(renew_bound_vars(body), f"_{node.loop_var.name}_{number}")
        part = For(var, const(0, var.dtype), extent, ForKind.SERIAL, body)
        parts.append(_block(names.fresh(f"{base}_{number}_partition"), part, outer))
        variables.append(var)
        start = analyzer.simplify(start + extent)
    sch.state.replace(node, _block(names.fresh(f"{base}_common"), seq_of(parts), outer), loop.function)
    return [LoopRV(loop.function, var) for var in variables]


def _extents(node: For, factors: Sequence[int | ExprRV | None], analyzer: Analyzer) -> list[PrimExpr]:
    """Return the number of iterations of each part."""
    dtype = node.loop_var.dtype
    if not factors or sum(factor is None for factor in factors) > 1:
        raise ScheduleError(
            ARGUMENT, f"factors must be at least one extent, at most one of them None, found {list(factors)}"
        )
    extents: list[PrimExpr] = []
    total: PrimExpr = const(0, dtype)
    for factor in factors:
        extent = const(factor or 0, dtype) if factor is None or isinstance(factor, int) else factor.astype(dtype)
        if factor is not None and not analyzer.can_prove(extent >= 1):
            raise ScheduleError(ARGUMENT, f"the factor {factor} is not known to be 1 or more", node)
        extents.append(extent)
        total = total + extent
    if not analyzer.can_prove(total <= node.extent):
        raise ScheduleError(
            ARGUMENT,
            f"the sum of the factors {list(factors)} may be more than the extent {node.extent} of the loop",
            node,
        )
    rest = analyzer.simplify(node.extent - total)
    if None in factors:
        extents[list(factors).index(None)] = rest
    elif not analyzer.can_prove_equal(rest, const(0, dtype)):
        extents.append(rest)
    return extents


class _Names:
    """Fresh names for blocks that are not in the state yet."""

    def __init__(self, sch: ScheduleBase, function: str) -> None:
        self.sch, self.function = sch, function
        self.taken: set[str] = set()

    def fresh(self, hint: str) -> str:
        name, number = self.sch.state.fresh_name(self.function, hint), 0
        while name in self.taken or self.sch.state.has_block(self.function, name):
            number += 1
            name = f"{hint}_{number}"
        self.taken.add(name)
        return name

    def renewed(self, stmt: Stmt, suffix: str) -> Stmt:
        """Return a statement whose blocks have fresh names."""
        inner = map_parts(stmt, lambda child: self.renewed(child, suffix))
        if not isinstance(inner, BlockRealize):
            return inner
        name = self.fresh(inner.block.name_hint + suffix)
        return inner.replace(block=inner.block.replace(name_hint=name))


def _loops_around(sch: ScheduleBase, loop: LoopRV) -> dict[Var, tuple[For, str]]:
    """Return the loops around a loop in its scope, with the kind of block variable to bind to each."""
    result: dict[Var, tuple[For, str]] = {}
    reduced: set[Var] = set()
    for child in blocks_below(sch.state.loop(loop)):
        reduced.update(bound_loops(child, "reduce"), bound_loops(child, "opaque"))
    for node in sch.state.loops(loop)[:-1]:
        result[node.loop_var] = (node, "opaque" if node.loop_var in reduced else "spatial")
    return result


def _block(name: str, body: Stmt, outer: dict[Var, tuple[For, str]]) -> BlockRealize:
    """Return a block around a statement, with a variable for each outer loop that it uses."""
    used = variables_used(body)
    bound = {var: Var(f"v{var.name}", var.dtype) for var in outer if var in used}
    iter_vars = [IterVar(loop_range(outer[var][0]), new, outer[var][1]) for var, new in bound.items()]
    block = Block(iter_vars, (), (), name, substitute(body, bound))
    return BlockRealize(tuple(bound), TRUE, complete_block(block))
