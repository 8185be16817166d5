"""rfactor: factor a reduction into partial reductions, one per iteration of a loop, and a block that combines them.

    for i, ko, ki in T.grid(n, 8, 4):               for i, ko, ki in T.grid(n, 8, 4):
        with T.block("B"):                              with T.block("B_rf"):
            vi = T.axis.spatial(n, i)                       vko, vi, vki = T.axis.remap("SSR", [ko, i, ki])
            vk = T.axis.reduce(32, ko * 4 + ki)             with T.init():
            with T.init():                                      B_rf[vko, vi] = 0.0
                B[vi] = 0.0                                 B_rf[vko, vi] = B_rf[vko, vi] + A[vi, vko * 4 + vki]
            B[vi] = B[vi] + A[vi, vk]               for i, ko in T.grid(n, 8):
                                                        with T.block("B"):
    sch.rfactor(ko, factor_axis=0)                          vko, vi = T.axis.remap("RS", [ko, i])
                                                            with T.init():
                                                                B[vi] = 0.0
                                                            B[vi] = B[vi] + B_rf[vko, vi]

With ``merge_loops=True`` the loops outside of the first reduction loop enclose both blocks:

    for i in range(n):
        for ko, ki in T.grid(8, 4):
            with T.block("B_rf"): ...
        for ko in range(8):
            with T.block("B"): ...

The partial results of each buffer are stored in a new buffer with an additional dimension, at `factor_axis`. The order
of combination changes: sums and products of floats are rounded differently. Selections that do not test for NaN (``V[i]
>= A[i, k]``) may select another element if there are NaNs.

Rejected: a loop that contains more than one reduction block; a loop that is bound to data-parallel variables, or to no
reduction variable; an unsupported combiner (see `reducers`), or one that depends on the order of elements, unless the
loop is the outermost reduction loop; bindings that are not affine; loop bounds that depend on each other; a condition
on loops of both kinds.
"""

from __future__ import annotations

import itertools
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

from ....prim import Analyzer, PrimExpr, Var, free_vars, is_const
from ....runtime.records import dataclass
from ...buffer import Buffer, BufferLoad, IterVar, Range, decl_buffer
from ...functor import StmtExprMutator, substitute
from ...regions import complete_block
from ...renew import renew_bound_vars
from ...statements import conjunction, conjuncts, seq_of
from ...stmt import Block, BlockRealize, BufferStore, For, ForKind, IfThenElse, LetStmt, Stmt
from ..base import ScheduleBase, primitive
from ..conditions import analyzer_at, blocks_below, loop_range, require_reduction
from ..error import ARGUMENT, BINDING, KIND, MATCH, STRUCTURE, ScheduleError
from ..reducers import Combination, NoCombination, combination_of
from ..reductions import bound_loops, holds_with_iterations, require_single_start, start_predicate
from ..rv import BlockRV, LoopRV
from ..state import ScheduleState


@primitive
def rfactor(sch: ScheduleBase, loop: LoopRV, factor_axis: int, merge_loops: bool = False) -> BlockRV:
    """Factor a reduction by a loop: partial results go into a new buffer, and a second block combines them.

    Returns the block of the partial reductions; the original random variable denotes the combining block.

    Parameters
    ----------
    loop : the loop, bound to reduction variables of the only block inside.
    factor_axis : index of the new dimension in the buffers of partial results; negative numbers count from the end.
    merge_loops : keep the loops outside of the first reduction loop around both blocks.

    Raises ScheduleError in the cases listed in the module's docstring.
    """
    state = sch.state
    factored = _Factored(state, loop, merge_loops)
    axis = factored.axis(factor_axis)
    partials = [_part_buffer(buffer, factored.loop, axis) for buffer in factored.combination.buffers]
    name = state.fresh_name(loop.function, f"{factored.realize.block.name_hint}_rf")
    first = factored.parts_nest(name, partials, axis)
    second = factored.combining_nest(partials, axis)
    rv = state.block_rv(factored.realize, loop.function)
    state.replace(factored.top, seq_of([first, second]), loop.function)
    scope = state.scope(rv)
    block = scope.block.replace(alloc_buffers=(*scope.block.alloc_buffers, *partials))
    state.replace(scope, scope.replace(block=block), loop.function)
    return BlockRV(loop.function, name)


def _part_buffer(buffer: Buffer, loop: For, axis: int) -> Buffer:
    shape = [*buffer.shape[:axis], loop.extent, *buffer.shape[axis:]]
    return decl_buffer(shape, buffer.dtype, f"{buffer.name}_rf", scope=buffer.scope)


@dataclass(frozen=True)
class _Iteration:
    """Variables of the partial-reduction block with their values, and the old variables in terms of them."""

    iter_vars: tuple[IterVar, ...]
    values: tuple[PrimExpr, ...]
    substitution: Mapping[Var, PrimExpr]
    of_loop: Mapping[Var, PrimExpr]
    """Block variable of each loop that has one of its own."""


class _Factored:
    """A reduction block and the perfectly nested loops around it."""

    def __init__(self, state: ScheduleState, loop: LoopRV, merge_loops: bool) -> None:
        self.state = state
        self.loop = state.loop(loop)
        self.realize = self.only_block()
        rv = state.block_rv(self.realize, loop.function)
        require_reduction(state, rv)
        around = state.loops(rv)
        self.loops = _chain(around, self.realize)
        self.top = self.loops[0] if self.loops else self.loop
        if not any(item is self.loop for item in self.loops):
            raise ScheduleError(
                STRUCTURE,
                f"loop {self.loop.loop_var.name} does not stand around block {self.realize.block.name_hint} alone",
                self.loop,
            )
        self.kinds = bound_loops(self.realize, around)
        self.require_bindings(around)
        if merge_loops:
            self.loops = _from_reduction(self.loops, self.kinds.reduce)
            self.top = self.loops[0]
        self.analyzer = analyzer_at(state, LoopRV(loop.function, self.top.loop_var))
        for item in self.loops:
            if item.loop_var not in self.kinds.reduce:
                self.analyzer.bind(item.loop_var, loop_range(item))
        require_single_start(self.realize, self.loops, self.analyzer)
        self.predicate = start_predicate(self.realize, self.loops, self.analyzer)
        self.combination = self.require_combination()

    def only_block(self) -> BlockRealize:
        children = blocks_below(self.loop)
        if len(children) != 1:
            names = ", ".join(child.block.name_hint for child in children)
            raise ScheduleError(
                STRUCTURE,
                f"loop {self.loop.loop_var.name} must have one block inside, found {names or 'none'}",
                self.loop,
            )
        return children[0]

    def require_bindings(self, around: Sequence[For]) -> None:
        """Raise unless the loop is bound to reduction variables only, and all reduction loops are perfectly nested."""
        name, var = self.realize.block.name_hint, self.loop.loop_var
        if var not in self.kinds.only_reduce:
            kind = "a data-parallel" if var in self.kinds.spatial else "no"
            raise ScheduleError(
                KIND,
                f"loop {var.name} is bound to {kind} variable of block {name}; only loops of a reduction alone can be "
                "factored",
                self.loop,
            )
        both = [item for item in around if item.loop_var in self.kinds.both]
        if both:
            raise ScheduleError(
                KIND,
                f"loop {both[0].loop_var.name} is bound to data-parallel and to reduction variables of block {name}",
                both[0],
                hint="split it into one loop of each kind",
            )
        inside = set(map(id, self.loops))
        for item in around:
            if id(item) not in inside and item.loop_var in self.kinds.reduce:
                raise ScheduleError(
                    STRUCTURE,
                    f"loop {item.loop_var.name}, which reduces, does not stand around block {name} alone",
                    item,
                )
        moving, every = {item.loop_var for item in self.loops}, {item.loop_var for item in around}
        for item in self.loops:
            if (every if item is self.loop else moving) & {*free_vars(item.min), *free_vars(item.extent)}:
                raise ScheduleError(STRUCTURE, f"the bounds of loop {item.loop_var.name} depend on another loop", item)

    def require_combination(self) -> Combination:
        block = self.realize.block
        name = block.name_hint
        if block.match_buffers or block.alloc_buffers:
            raise ScheduleError(MATCH, f"block {name} has buffers of its own", self.realize)
        try:
            combination = combination_of(block)
        except NoCombination as reason:
            raise ScheduleError(
                MATCH,
                f"block {name} is no reduction that can be done in parts: {reason}",
                self.realize,
                hint="write each result as its value so far, combined with something that does not read it",
            ) from None
        reducing = [item for item in self.loops if item.loop_var in self.kinds.reduce]
        if not combination.commutative and reducing[0] is not self.loop:
            raise ScheduleError(
                MATCH,
                f"the result of block {name} depends on the order of its elements, which factoring by loop "
                f"{self.loop.loop_var.name} would change",
                self.loop,
                hint=f"factor by the outermost loop of the reduction, {reducing[0].loop_var.name}, or let the "
                "combination decide between equals by their index",
            )
        return combination

    def axis(self, factor_axis: int) -> int:
        """Return the index of the new dimension, counted from the first."""
        ndim = len(self.combination.indices)
        if not -ndim - 1 <= factor_axis <= ndim:
            raise ScheduleError(
                ARGUMENT, f"factor_axis must be from {-ndim - 1} to {ndim}, found {factor_axis}", self.realize
            )
        return factor_axis + ndim + 1 if factor_axis < 0 else factor_axis

    # -------------------------------------------------------------------------------------- parts

    def iteration(self) -> _Iteration:
        """Return the variables of the partial-reduction block: loops replace the reduction variables bound to the
        loop.
        """
        block = self.realize.block
        own = self.split_loops()
        iter_vars = [_iter_var(self.loop, "spatial")]
        values: list[PrimExpr] = [self.loop.loop_var]
        of_loop: dict[Var, PrimExpr] = {self.loop.loop_var: iter_vars[0].var}
        substitution: dict[Var, PrimExpr] = {}
        dropped: list[tuple[IterVar, PrimExpr]] = []
        for iter_var, value in zip(block.iter_vars, self.realize.iter_values, strict=True):
            if iter_var.iter_type == "reduce" and own.intersection(free_vars(value)):
                dropped.append((iter_var, value))
                continue
            renewed = IterVar(iter_var.dom, Var(iter_var.var.name, iter_var.var.dtype), iter_var.iter_type)
            substitution[iter_var.var] = renewed.var
            iter_vars.append(renewed)
            values.append(value)
        for item in self.loops:
            if item.loop_var in own and item is not self.loop:
                inner_var = _iter_var(item, "reduce")
                of_loop[item.loop_var] = inner_var.var
                iter_vars.append(inner_var)
                values.append(item.loop_var)
        for iter_var, value in dropped:
            substitution[iter_var.var] = substitute(value, of_loop).astype(iter_var.var.dtype)
        return _Iteration(tuple(iter_vars), tuple(values), substitution, of_loop)

    def split_loops(self) -> set[Var]:
        """Return the loops of all reduction variables that share loops with those of the factored loop,
        transitively.
        """
        own = {self.loop.loop_var}
        moving = {item.loop_var for item in self.loops}
        size = 0
        while len(own) > size:
            size = len(own)
            for iter_var, value in zip(self.realize.block.iter_vars, self.realize.iter_values, strict=True):
                used = moving.intersection(free_vars(value))
                if iter_var.iter_type == "reduce" and used & own:
                    own |= used
        return own

    def parts_nest(self, name: str, partials: Sequence[Buffer], axis: int) -> Stmt:
        """Return the loops around the partial-reduction block; loop variables are kept."""
        iteration = self.iteration()
        block, combination = self.realize.block, self.combination
        position = _position(iteration.of_loop[self.loop.loop_var], self.loop)
        indices = _inserted(combination.indices, axis, position)
        storing = _Redirect(dict(zip(combination.buffers, partials, strict=True)), axis, position)
        body: Stmt = storing.visit(block.body)
        init = seq_of(
            BufferStore(partial, value, indices) for partial, value in zip(partials, combination.identity, strict=True)
        )
        outside, inside = self.conditions(iteration)
        if inside:
            body = IfThenElse(conjunction(inside), body)
        partial_block = Block(
            iteration.iter_vars,
            (),
            (),
            name,
            substitute(body, iteration.substitution),
            substitute(init, iteration.substitution),
            annotations=block.annotations,
        )
        nest: Stmt = BlockRealize(iteration.values, conjunction(outside), complete_block(partial_block))
        for item in reversed(self.loops):
            nest = item.replace(body=nest)
        return nest

    def conditions(self, iteration: _Iteration) -> tuple[list[PrimExpr], list[PrimExpr]]:
        """Split the predicate into conditions that remain, and conditions that move into the body, over block
        variables.

        Every partial reduction must run its init, so conditions on its own loops move into the body.
        """
        reducing = [item for item in self.loops if item.loop_var in self.kinds.reduce and item is not self.loop]
        first = {item.loop_var: item.min for item in reducing}
        extents = [item.extent for item in reducing]
        analyzer: Analyzer = self.analyzer.copy()
        analyzer.bind(self.loop.loop_var, loop_range(self.loop))
        outside: list[PrimExpr] = []
        inside: list[PrimExpr] = []
        for condition in conjuncts(self.realize.predicate):
            used = {*free_vars(condition)} & {item.loop_var for item in self.loops}
            if not used & self.kinds.reduce:
                outside.append(condition)
            elif used <= {*iteration.of_loop}:
                inside.append(substitute(condition, iteration.of_loop))
            elif holds_with_iterations(substitute(condition, first), extents, analyzer):
                outside.append(condition)
            else:
                raise ScheduleError(
                    BINDING,
                    f"the condition {condition} may leave parts of loop {self.loop.loop_var.name} without a start",
                    self.realize,
                )
        return outside, inside

    # -------------------------------------------------------------------------------------- their combination

    def combining_nest(self, partials: Sequence[Buffer], axis: int) -> Stmt:
        """Return loops with fresh variables around the block that combines the partial results; it keeps its name."""
        block, combination = self.realize.block, self.combination
        spatial = [
            (v, value)
            for v, value in zip(block.iter_vars, self.realize.iter_values, strict=True)
            if v.iter_type != "reduce"
        ]
        over_parts = _iter_var(self.loop, "reduce")
        indices = _inserted(combination.indices, axis, _position(over_parts.var, self.loop))
        so_far = tuple(BufferLoad(buffer, combination.indices) for buffer in combination.buffers)
        results = combination.combine(so_far, tuple(BufferLoad(partial, indices) for partial in partials))
        combining_block = Block(
            (over_parts, *(v for v, _ in spatial)),
            (),
            (),
            block.name_hint,
            _stored(combination.buffers, combination.indices, results),
            block.init,
            annotations=block.annotations,
        )
        values = (self.loop.loop_var, *(value for _, value in spatial))
        nest: Stmt = BlockRealize(values, self.predicate, complete_block(combining_block))
        for item in reversed(self.loops):
            if item is self.loop:
                nest = For(item.loop_var, item.min, item.extent, ForKind.SERIAL, nest)
            elif item.loop_var in self.kinds.spatial:
                nest = item.replace(body=nest)
        return renew_bound_vars(nest)


def _chain(around: Sequence[For], realize: BlockRealize) -> list[For]:
    """Return the innermost perfectly nested loops around a block."""
    result: list[For] = []
    inner: Stmt = realize
    for item in reversed(around):
        if item.body is not inner:
            break
        result.append(item)
        inner = item
    return result[::-1]


def _from_reduction(loops: Sequence[For], reducing: Container[Var]) -> list[For]:
    """Return the loops of a chain from the first reduction loop on."""
    return list(itertools.dropwhile(lambda item: item.loop_var not in reducing, loops))


def _iter_var(loop: For, kind: str) -> IterVar:
    dom = Range.from_min_extent(loop.min, loop.extent)
    return IterVar(dom, Var(f"v{loop.loop_var.name}", loop.loop_var.dtype), kind)


def _position(var: PrimExpr, loop: For) -> PrimExpr:
    """Return the index of an iteration's partial result."""
    return var if is_const(loop.min, 0) else var - loop.min


def _inserted(indices: Iterable[PrimExpr], axis: int, position: PrimExpr) -> tuple[PrimExpr, ...]:
    items = list(indices)
    return (*items[:axis], position, *items[axis:])


def _stored(buffers: Sequence[Buffer], indices: tuple[PrimExpr, ...], values: Sequence[PrimExpr]) -> Stmt:
    """Return stores of values that are all computed before the first store."""
    if len(buffers) == 1:
        return BufferStore(buffers[0], values[0], indices)
    variables = [Var(f"v_{buffer.name}", buffer.dtype) for buffer in buffers]
    stmt = seq_of(BufferStore(b, var, indices) for b, var in zip(buffers, variables, strict=True))
    for var, value in zip(reversed(variables), reversed(values), strict=True):
        stmt = LetStmt(var, value, stmt)
    return stmt


class _Redirect(StmtExprMutator):
    """Redirect accesses of the results to the buffers of partial results."""

    def __init__(self, buffers: Mapping[Buffer, Buffer], axis: int, position: PrimExpr) -> None:
        super().__init__()
        self.buffers, self.axis, self.position = buffers, axis, position

    def visit_BufferLoad(self, node: BufferLoad) -> Any:
        rewritten = self.visit_children(node)
        partial = self.buffers.get(node.buffer)
        if partial is None:
            return rewritten
        return rewritten.replace(buffer=partial, indices=_inserted(rewritten.indices, self.axis, self.position))

    def visit_BufferStore(self, node: BufferStore) -> Any:
        rewritten = self.visit_children(node)
        partial = self.buffers.get(node.buffer)
        if partial is None:
            return rewritten
        return rewritten.replace(buffer=partial, indices=_inserted(rewritten.indices, self.axis, self.position))
