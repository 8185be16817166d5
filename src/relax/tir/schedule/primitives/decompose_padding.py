"""decompose_padding: split a padding block into one that fills the buffer and one that writes the interior.

    for i in range(130):                            for i in range(130):
        with T.block("P"):                              with T.block("P_pad_const"):
            vi = T.axis.spatial(130, i)                     vi = T.axis.spatial(130, i)
            P[vi] = T.if_then_else(                         P[vi] = 0.0
                1 <= vi and vi < 129, A[vi - 1], 0.0)   for i in range(128):
                                                            with T.block("P"):
                                                                vi = T.axis.spatial(130, i + 1)
                                                                P[vi] = A[vi - 1]

The filling block is placed before `loop`, in copies of the loops from `loop` to the block. A loop is narrowed to the
interior if a bound depends only on its variable and sizes; other bounds become a condition of the block.

Rejected: a block that is not complete, or does not store an if_then_else or Select whose other value is a constant; a
loop that does not enclose the block, or contains other blocks; a buffer with other writers; an outer non-serial loop
whose iterations write the same elements.
"""

from __future__ import annotations

from ....prim import Analyzer, Call, FloatImm, IntImm, PrimExpr, Select, Var, const, free_vars, is_const, simplify
from ....prim.expr import GE, GT, LE, LT, CompareExpr
from ....prim.intrin import max as maximum
from ....prim.intrin import min as minimum
from ...dependence import accesses
from ...functor import substitute
from ...regions import complete_block
from ...renew import renew_bound_vars
from ...statements import conjunction, conjuncts, seq_of
from ...stmt import BlockRealize, BufferStore, For, ForKind, Stmt
from ..base import ScheduleBase, primitive
from ..conditions import has_own_storage, require_complete
from ..error import KIND, ORDER, STRUCTURE, ScheduleError
from ..facts import analyzer_at
from ..inline import single_store
from ..order import require_only_loops_around, scope_at
from ..regions import in_own_slab, relaxed_box
from ..rv import BlockRV, LoopRV
from ..state import ScheduleState


@primitive
def decompose_padding(sch: ScheduleBase, block: BlockRV, loop: LoopRV) -> BlockRV:
    """Split a padding block into a filling block before `loop`, and a block for the interior.

    Returns the filling block. Raises ScheduleError in the cases listed in the module's docstring.
    """
    state = sch.state
    realize = state.realize(block)
    require_complete(state, block)
    require_only_loops_around(state, block)
    store = single_store(realize)
    condition, inside, padding = _condition_and_values(realize, store)
    loops = _loops_from(state, block, loop)
    _require_own_elements(state, block, loop)
    name = state.fresh_name(block.function, f"{block.name}_pad_const")
    filling = complete_block(realize.block.replace(name_hint=name, body=store.replace(value=padding)))
    fill: Stmt = realize.replace(block=filling)
    for node in reversed(loops):
        fill = node.replace(body=fill)
    fill = renew_bound_vars(fill)
    around = scope_at(state, loop).variables
    rest = _inside(realize, store.replace(value=inside), condition, loops, around, analyzer_at(state, loop))
    state.replace(loops[0], seq_of([fill, rest]), block.function)
    return BlockRV(block.function, name)


def _condition_and_values(realize: BlockRealize, store: BufferStore) -> tuple[PrimExpr, PrimExpr, PrimExpr]:
    """Return the condition of the interior, the value there, and the padding constant."""
    match store.value:
        case Call() if store.value.intrinsic == "if_then_else":
            condition, inside, padding = store.value.args
        case Select(condition, inside, padding):
            pass
        case _:
            condition = inside = padding = store.value
    if not isinstance(padding, (IntImm, FloatImm)) or padding is inside:
        raise ScheduleError(
            KIND,
            f"block {realize.block.name_hint} does not write a padded value",
            realize,
            hint="buffer[...] = T.if_then_else(inside, value, constant)",
        )
    return condition, inside, padding


def _loops_from(state: ScheduleState, block: BlockRV, loop: LoopRV) -> list[For]:
    """Return the loops from `loop` down to a block; raise if they contain anything else."""
    realize, node = state.realize(block), state.loop(loop)
    around = state.loops(block)
    position = next((i for i, item in enumerate(around) if item is node), None)
    if position is None:
        raise ScheduleError(STRUCTURE, f"loop {loop.var.name} is not around block {block.name}", node, realize)
    loops = around[position:]
    for outer, inner in zip(loops, [*loops[1:], realize], strict=True):
        if outer.body is not inner:
            raise ScheduleError(
                STRUCTURE,
                f"loop {outer.loop_var.name} has something else in it than block {block.name}",
                outer,
                hint="choose a loop further inside",
            )
    return loops


def _require_own_elements(state: ScheduleState, block: BlockRV, loop: LoopRV) -> None:
    """Raise if iterations of an outer parallel loop may write the same elements: one would overwrite another's
    interior.
    """
    realize, loops = state.realize(block), state.loops(block)
    for i, node in enumerate(loops):
        if node.loop_var is loop.var:
            return
        if node.kind in (ForKind.SERIAL, ForKind.UNROLLED):
            continue
        around = LoopRV(block.function, node.loop_var)
        analyzer = analyzer_at(state, around, inclusive=True)
        for region in accesses(realize.block).writes:
            if node.kind is ForKind.PARALLEL and has_own_storage(state, region.buffer, around):
                continue
            box = relaxed_box(region, realize, loops[i + 1 :])
            if not in_own_slab(box, box, node.loop_var, analyzer):
                raise ScheduleError(
                    ORDER,
                    f"iterations of loop {node.loop_var.name}, which is not serial, may write the same elements of "
                    f"{region.buffer.name}: one would fill what another one wrote",
                    node,
                )


# ------------------------------------------------------------------------------------------ the part inside


def _inside(
    realize: BlockRealize,
    store: BufferStore,
    condition: PrimExpr,
    loops: list[For],
    around: set[Var],
    analyzer: Analyzer,
) -> Stmt:
    """Return the loops with the block for the interior; `around` are the variables of all loops of the scope."""
    block = realize.block
    values = {v.var: w for v, w in zip(block.iter_vars, realize.iter_values, strict=True)}
    conditions = [simplify(substitute(conjunct, values)) for conjunct in conjuncts(condition)]
    bounds = {loop.loop_var: (loop.min, loop.min + loop.extent) for loop in loops}
    ends = {var for loop in loops for end in (loop.min, loop.extent) for var in free_vars(end)}
    movable = [loop.loop_var for loop in loops if loop.loop_var not in ends]
    rest: list[PrimExpr] = []
    for conjunct in conditions:
        bound = next((b for var in movable if (b := _bound(conjunct, var, around)) is not None), None)
        if bound is None:
            rest.append(conjunct)
            continue
        var, low, high = bound
        first, last = bounds[var]
        bounds[var] = (first if low is None else maximum(first, low), last if high is None else minimum(last, high))
    placed = realize.replace(
        block=complete_block(block.replace(body=store)), predicate=conjunction([*conjuncts(realize.predicate), *rest])
    )
    facts = analyzer.copy()
    starts: dict[Var, PrimExpr] = {}
    extents: list[PrimExpr] = []
    for loop in loops:
        low, high = (facts.simplify(end.astype(loop.loop_var.dtype)) for end in bounds[loop.loop_var])
        extent = facts.simplify(high - low)
        if not facts.can_prove(extent >= 0):
            extent = maximum(extent, const(0, extent.dtype))
        if loop.loop_var in set(movable) and not is_const(low, 0):
            starts[loop.loop_var] = loop.loop_var + low
        extents.append(extent if loop.loop_var in set(movable) else loop.extent)
    stmt: Stmt = substitute(placed, starts)
    for loop, extent in zip(reversed(loops), reversed(extents), strict=True):
        start = const(0, loop.loop_var.dtype) if loop.loop_var in set(movable) else loop.min
        stmt = loop.replace(min=start, extent=extent, body=stmt)
    return stmt


def _bound(condition: PrimExpr, var: Var, loops: set[Var]) -> tuple[Var, PrimExpr | None, PrimExpr | None] | None:
    """Return (var, lower bound, exclusive upper bound) that a comparison implies for `var` alone.

    None if there is no bound, or it depends on the variables of `loops`.
    """
    kind = type(condition)
    if not isinstance(condition, CompareExpr) or kind not in (LT, LE, GT, GE) or var not in set(free_vars(condition)):
        return None
    difference = condition.a - condition.b
    moved = var.astype(difference.dtype)
    for sign, rest in ((1, simplify(difference - moved)), (-1, simplify(difference + moved))):
        if not loops.isdisjoint(free_vars(rest)):
            continue
        # sign * var + rest is compared with 0.
        edge = simplify(-rest if sign == 1 else rest)
        strict = kind in (LT, GT)
        if (kind in (GT, GE)) == (sign == 1):
            return var, simplify(edge + 1) if strict else edge, None
        return var, None, edge if strict else simplify(edge + 1)
    return None
