"""transform_block_layout: replace a block's variables and loops according to an index map.

    for i, j in T.grid(64, 128):                   for ax0 in range(8192):
        with T.block("B"):                             with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])            v0 = T.axis.spatial(8192, ax0)
            B[vi, vj] = A[vi, vj] * 2.0                    B[v0 // 128, v0 % 128] = A[v0 // 128, v0 % 128] * 2.0

    after transform_block_layout(B, lambda i, j: (i * 128 + j,))

A new variable computed from reduction variables is a reduction variable. A loop whose variable is only permuted is
kept. If there are more values than before, the block gets a condition.

Rejected: a block that is neither complete nor a reduction; loops that are not bound to one variable each, contain other
statements, are not serial, or have annotations; maps that mix reduction and data-parallel variables, or are not proved
to be injective. If the block accesses other parameters beside one that it writes, the function gets the attribute
``tir.noalias``, since overlapping arguments would depend on the order of the writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ....prim import LE, LT, Analyzer, IntImm, Or, PrimExpr, Var, const, free_vars, intrin, is_const, simplify
from ....runtime.records import dataclass
from ...buffer import BufferLoad, BufferRegion, IterVar, Range
from ...dependence import accesses
from ...functor import StmtExprMutator, substitute
from ...index_map import IndexMap
from ...regions import complete_block
from ...statements import TRUE, conjunction, conjuncts
from ...stmt import Block, BlockRealize, BufferStore, For, ForKind, Stmt
from ..base import ScheduleBase, primitive
from ..buffers import demand_apart
from ..conditions import analyzer_at, require_complete_or_reduction
from ..error import ARGUMENT, BINDING, STRUCTURE, ScheduleError
from ..relayout import mapped_shape
from ..rv import BlockRV
from ..state import ScheduleState
from .split import require_plain
from .transform_layout import Mapping, index_map_argument


@primitive
def transform_block_layout(sch: ScheduleBase, block: BlockRV, index_map: Mapping) -> None:
    """Replace the variables of a block by those that an index map computes, with one loop for each.

    Parameters
    ----------
    index_map : map from the values of the block's variables to the values of the new ones.

    Raises ScheduleError in the cases listed in the module's docstring.
    """
    state, realize = sch.state, sch.state.realize(block)
    require_complete_or_reduction(realize, state.scope(block).block)
    loops = _own_loops(state, block, realize)
    mapping = index_map_argument(sch, index_map, len(realize.block.iter_vars))
    plan = _plan(realize, mapping)
    state.replace(loops[0] if loops else realize, plan.nest(realize), block.function)
    used = accesses(realize.block)
    for buffer in used.written_buffers:
        demand_apart(state, block.function, buffer, used.read_buffers | used.written_buffers)


def _own_loops(state: ScheduleState, rv: BlockRV, realize: BlockRealize) -> list[For]:
    """Return the loops bound to a block's variables, outermost first; raise unless each is bound to one variable."""
    values = realize.iter_values
    if not is_const(realize.predicate, 1):
        raise ScheduleError(
            BINDING, f"block {rv.name} has a condition, which the new variables could not express", realize
        )
    bound = {value for value in values if isinstance(value, Var)}
    around = state.loops(rv)
    own = [loop for loop in around if loop.loop_var in bound]
    number = sum(not is_const(value) for value in values)
    if len(own) < number or own != around[len(around) - len(own) :]:
        raise ScheduleError(
            STRUCTURE,
            f"the loops directly around block {rv.name} are not one for each of its variables",
            realize,
            hint="fuse or reorder the loops so that each variable is one of the innermost loops",
        )
    _require_whole_domains(state, rv, realize, own)
    inner: Stmt = realize
    for loop in reversed(own):
        require_plain(loop)
        if loop.body is not inner:
            message = f"loop {loop.loop_var.name} holds more than the next loop or block {rv.name}"
            raise ScheduleError(STRUCTURE, message, loop)
        inner = loop
    return own


def _require_whole_domains(state: ScheduleState, rv: BlockRV, realize: BlockRealize, own: Sequence[For]) -> None:
    """Raise unless each variable takes all values of its domain, from 0 on."""
    analyzer = analyzer_at(state, rv, inclusive=False)
    loops = {loop.loop_var: loop for loop in own}
    for iter_var, value in zip(realize.block.iter_vars, realize.iter_values, strict=True):
        low, extent = value, const(1, value.dtype)
        if isinstance(value, Var):
            low, extent = loops[value].min, loops[value].extent
        dom = iter_var.dom
        if dom is None or not all(
            analyzer.can_prove(c) for c in (low.equal(0), dom.min.equal(0), extent.equal(dom.extent))
        ):
            raise ScheduleError(
                BINDING,
                f"variable {iter_var.var.name} of block {rv.name} is not known to take all values of its domain, "
                "from 0 on",
                realize,
            )


@dataclass
class _Plan:
    """New variables of a block, their loops, and the old variables as functions of the new ones."""

    iter_vars: list[IterVar]
    loop_vars: list[Var]
    condition: PrimExpr
    """Predicate of the block, over the loop variables."""
    table: dict[Var, PrimExpr]

    def nest(self, realize: BlockRealize) -> Stmt:
        """Return the loops around the block."""
        old = realize.block.replace(iter_vars=())
        block: Block = substitute(old, self.table).replace(iter_vars=tuple(self.iter_vars))
        block = _Simplified(self.iter_vars).visit_children(block)
        if not accesses(realize.block).opaque:
            block = complete_block(block)
        result: Stmt = BlockRealize(tuple(self.loop_vars), self.condition, block)
        for iter_var, loop_var in zip(reversed(self.iter_vars), reversed(self.loop_vars), strict=True):
            assert iter_var.dom is not None
            result = For(loop_var, iter_var.dom.min, iter_var.dom.extent, ForKind.SERIAL, result)
        return result


class _Simplified(StmtExprMutator):
    """Simplify indices and regions under the domains of variables."""

    def __init__(self, iter_vars: Sequence[IterVar]) -> None:
        super().__init__()
        self.analyzer = Analyzer()
        for iter_var in iter_vars:
            self.analyzer.bind(iter_var.var, iter_var.dom)

    def visit_BufferLoad(self, node: BufferLoad) -> BufferLoad:
        changed = self.visit_children(node)
        return changed.replace(indices=tuple(map(self.analyzer.simplify, changed.indices)))

    def visit_BufferStore(self, node: BufferStore) -> BufferStore:
        changed = self.visit_children(node)
        return changed.replace(indices=tuple(map(self.analyzer.simplify, changed.indices)))

    def visit_BufferRegion(self, node: BufferRegion) -> BufferRegion:
        changed = self.visit_children(node)
        simplify = self.analyzer.simplify
        ranges = tuple(Range.from_min_extent(simplify(r.min), simplify(r.extent)) for r in changed.region)
        return changed.replace(region=ranges)


def _plan(realize: BlockRealize, mapping: IndexMap) -> _Plan:
    """Return the new variables. Raises ScheduleError for an unsuitable map."""
    old = realize.block.iter_vars
    dtypes = {str(iter_var.var.dtype) for iter_var in old}
    dtype = dtypes.pop() if len(dtypes) == 1 else "int64"
    mapping = mapping.with_dtype(dtype)
    extents = [iter_var.dom.extent for iter_var in old if iter_var.dom is not None]
    try:
        shape = mapped_shape(mapping, extents)
        inverse, padding = mapping.non_surjective_inverse(extents)
    except ValueError as error:
        raise ScheduleError(ARGUMENT, str(error), realize) from error
    iter_vars: list[IterVar] = []
    loop_vars: list[Var] = []
    positions = {var: i for i, var in enumerate(mapping.initial_indices)}
    for d, (final, extent) in enumerate(zip(mapping.final_indices, shape, strict=True)):
        kind = _kind([old[positions[var]] for var in free_vars(final) if var in positions], realize)
        same = old[positions[final]] if isinstance(final, Var) else None
        value = realize.iter_values[positions[final]] if isinstance(final, Var) else None
        if same is not None and isinstance(value, Var):
            iter_vars.append(same)
            loop_vars.append(value)
            continue
        size = extent.astype(dtype) if isinstance(extent, IntImm) else extent
        var = Var(f"v{d}", size.dtype)
        iter_vars.append(IterVar(Range.from_min_extent(const(0, size.dtype), size), var, kind))
        loop_vars.append(Var(f"ax{d}", size.dtype))
    return _Plan(
        iter_vars,
        loop_vars,
        _inside(inverse, padding, loop_vars, iter_vars, realize),
        {
            iter_var.var: _placed(index, inverse, [v.var for v in iter_vars]).astype(iter_var.var.dtype)
            for iter_var, index in zip(old, inverse.final_indices, strict=True)
            if all(iter_var is not new for new in iter_vars)
        },
    )


def _kind(sources: Sequence[IterVar], realize: BlockRealize) -> str:
    """Return the kind of a variable computed from others."""
    kinds = {source.iter_type for source in sources}
    if len(kinds) > 1:
        names = ", ".join(source.var.name for source in sources)
        raise ScheduleError(
            ARGUMENT,
            f"the index map mixes data-parallel variables and reductions: {names}",
            realize,
            hint="map them to variables of their own",
        )
    return kinds.pop() if kinds else "spatial"


def _placed(expr: PrimExpr, inverse: IndexMap, values: Sequence[Var]) -> PrimExpr:
    """Substitute values for the inverse map's indices."""
    table = {var: value.astype(var.dtype) for var, value in zip(inverse.initial_indices, values, strict=True)}
    return substitute(expr, table)


def _inside(
    inverse: IndexMap, padding: PrimExpr, loop_vars: Sequence[Var], iter_vars: Sequence[IterVar], realize: BlockRealize
) -> PrimExpr:
    """Return the condition that new values correspond to old ones, which must hold at the start of reductions."""
    if is_const(padding, 0):
        return TRUE
    condition = conjunction(list(_negated(_placed(padding, inverse, loop_vars))))
    reducing: dict[Var, PrimExpr] = {
        loop_var: const(0, loop_var.dtype)
        for loop_var, iter_var in zip(loop_vars, iter_vars, strict=True)
        if iter_var.iter_type == "reduce"
    }
    if reducing:
        for conjunct in conjuncts(condition):
            if not set(free_vars(conjunct)).isdisjoint(reducing) and not _holds_at_start(conjunct, reducing, realize):
                raise ScheduleError(
                    ARGUMENT,
                    f"the new values begin with one that is no old one, where {conjunct} does not hold",
                    realize,
                )
    return condition


def _negated(condition: PrimExpr) -> Iterator[PrimExpr]:
    """Yield conditions whose conjunction negates a condition."""
    match condition:
        case Or():
            yield from _negated(condition.a)
            yield from _negated(condition.b)
        case LE():
            yield condition.b < condition.a
        case LT():
            yield condition.b <= condition.a
        case _:
            yield simplify(intrin.logical_not(condition))


def _holds_at_start(condition: PrimExpr, reducing: dict[Var, PrimExpr], realize: BlockRealize) -> bool:
    """True if a condition holds for the first values of nonempty reductions."""
    analyzer = Analyzer()
    for iter_var in realize.block.iter_vars:
        if iter_var.iter_type == "reduce" and iter_var.dom is not None:
            analyzer.assume(iter_var.dom.extent >= 1)
    return analyzer.can_prove(substitute(condition, reducing))
