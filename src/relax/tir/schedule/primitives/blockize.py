"""blockize: turn inner loops around a block, together with the block, into an outer block.

    for i_0, j_0, i_1, j_1 in T.grid(8, 8, 16, 16):    for i_0, j_0 in T.grid(8, 8):
        with T.block("B"):                                 with T.block("B_o"):
            vi = T.axis.spatial(128, i_0 * 16 + i_1)           vi_o, vj_o = T.axis.remap("SS", [i_0, j_0])
            vj = T.axis.spatial(128, j_0 * 16 + j_1)           for i_1, j_1 in T.grid(16, 16):
            B[vi, vj] = A[vi, vj] * 2.0                            with T.block("B"):
                                                                       vi_i, vj_i = T.axis.remap("SS", ...)
    sch.blockize(i_1)                                                  B[vi_o * 16 + vi_i, ...] = ...

Each variable is divided into an outer part, over the outer loops, and an inner part; inner parts with a single value
are omitted, and outer ones too if `preserve_unit_iters` is False. If an outer part reduces, the init moves into the new
block, where a block `NAME_init` executes it over the inner data-parallel loops.

Consecutive blocks given as a list become one block; their common loops are the outer loops.

Rejected: a loop that contains more than loops and one block; variables that are not outer part * constant + inner part;
a condition on loops that no variable represents; a reduction that does not start in the first iterations of the inner
loops; blocks of a list that are not adjacent, or with reductions over their common loops.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import field

from ....ir import structural_equal
from ....prim import (
    Analyzer,
    FloorDiv,
    IntImm,
    IterMark,
    PrimExpr,
    Var,
    const,
    free_vars,
    is_const,
    normalize_iter_map_to_expr,
    simplify,
)
from ....prim.functor import map_expressions
from ....prim.iter_divide import divide_subspace
from ....runtime.records import dataclass
from ...buffer import IterVar, Range
from ...dependence import accesses
from ...functor import post_order_visit, substitute
from ...regions import bounds_of, complete_block
from ...renew import renew_bound_vars
from ...statements import TRUE, conjunction, conjuncts, seq_of
from ...stmt import Block, BlockRealize, For, SeqStmt, Stmt
from ..base import ScheduleBase, primitive
from ..conditions import analyzer_at, loop_range
from ..error import ARGUMENT, BINDING, ORDER, STRUCTURE, ScheduleError
from ..reductions import bound_loops, require_single_start, start_predicate
from ..regions import loop_domain
from ..rv import BlockRV, LoopRV
from ..state import ScheduleState
from ..tensor_match import shown


@primitive
def blockize(sch: ScheduleBase, target: LoopRV | Sequence[BlockRV], preserve_unit_iters: bool = True) -> BlockRV:
    """Turn a loop and its contents, or consecutive blocks, into one block, which is returned.

    Parameters
    ----------
    target : the loop, or the blocks in program order.
    preserve_unit_iters : False omits variables of the new block with a single value.

    Raises ScheduleError in the cases listed in the module's docstring.
    """
    state = sch.state
    if isinstance(target, LoopRV):
        return _blockize_loop(state, target, preserve_unit_iters)
    blocks = [target] if isinstance(target, BlockRV) else list(target)
    if not blocks:
        raise ScheduleError(ARGUMENT, "target must be a loop, or a list of one block or more")
    return _blockize_blocks(state, blocks, preserve_unit_iters)


def _blockize_loop(state: ScheduleState, target: LoopRV, preserve: bool) -> BlockRV:
    loop = state.loop(target)
    realize = _only_block(loop)
    rv = state.block_rv(realize, target.function)
    loops = state.loops(rv)
    position = next(i for i, item in enumerate(loops) if item is loop)
    outer = _Outer(preserve)
    inner = _divided(state, rv, loops[:position], loops[position:], outer)
    name = state.fresh_name(target.function, f"{realize.block.name_hint}_o")
    init: Stmt | None = None
    if realize.block.init is not None and outer.reduces:
        init = _outer_init(state, rv, inner, loops[position:], outer)
        update = inner.realize.block.replace(init=None)
        inner.realize = inner.realize.replace(block=complete_block(update, mask=1))
    body = _in_loops(inner.realize, loops[position:])
    block = Block(outer.iter_vars, (), (), name, body, init)
    new = BlockRealize(outer.values, conjunction(outer.conditions), complete_block(block))
    state.replace(loop, new, target.function)
    return BlockRV(target.function, name)


def _only_block(loop: For) -> BlockRealize:
    """Return the only block in a loop; raise if it contains more than loops around one block."""
    stmt: Stmt = loop
    while isinstance(stmt, For):
        stmt = stmt.body
    if not isinstance(stmt, BlockRealize):
        raise ScheduleError(
            STRUCTURE,
            f"loop {loop.loop_var.name} has more inside than loops and one block",
            loop,
            hint="give a loop further inside, or the blocks as a list",
        )
    return stmt


def _in_loops(stmt: Stmt, loops: Sequence[For]) -> Stmt:
    for item in reversed(loops):
        stmt = item.replace(body=stmt)
    return stmt


# ------------------------------------------------------------------------------------------ division


@dataclass
class _Outer:
    """The variables of the new outer block, with their values, and its conditions."""

    preserve: bool
    pairs: list[tuple[IterVar, PrimExpr]] = field(default_factory=list[tuple[IterVar, PrimExpr]])
    conditions: list[PrimExpr] = field(default_factory=list[PrimExpr])

    @property
    def iter_vars(self) -> tuple[IterVar, ...]:
        return tuple(iter_var for iter_var, _ in self.pairs)

    @property
    def values(self) -> tuple[PrimExpr, ...]:
        return tuple(value for _, value in self.pairs)

    @property
    def reduces(self) -> bool:
        """True if the new block has a reduction variable."""
        return any(iter_var.iter_type == "reduce" for iter_var, _ in self.pairs)

    def add(self, iter_var: IterVar, value: PrimExpr) -> PrimExpr:
        """Return a variable with this domain, kind and value, adding it if there is none yet."""
        for present, bound in self.pairs:
            if structural_equal((present.dom, present.iter_type, bound), (iter_var.dom, iter_var.iter_type, value)):
                return present.var
        self.pairs.append((iter_var, value))
        return iter_var.var


@dataclass
class _Inner:
    """The inner block: the inner parts of its variables, and its old variables in terms of outer and inner ones."""

    realize: BlockRealize
    first: Mapping[Var, PrimExpr]
    """First value of each loop variable."""
    iter_vars: list[IterVar] = field(default_factory=list[IterVar])
    values: list[PrimExpr] = field(default_factory=list[PrimExpr])
    substitution: dict[Var, PrimExpr] = field(default_factory=dict[Var, PrimExpr])
    bound: list[PrimExpr] = field(default_factory=list[PrimExpr])
    """Values of the old variables in terms of outer variables and inner loop variables."""

    def outer_part(
        self, iter_var: IterVar, mark: IterMark, inner: IterMark, outer: _Outer, outside: Sequence[For], shared: bool
    ) -> PrimExpr:
        """Return the outer part of a variable, multiplied by the extent of the inner part."""
        value = normalize_iter_map_to_expr(mark.source)
        if is_const(mark.extent, 1) and (shared or not outer.preserve):
            return substitute(value, self.first) * simplify(inner.extent)
        var = iter_var.var
        name = var.name if is_const(inner.extent, 1) else f"{var.name}_o"
        outer_var = IterVar(_outer_domain(mark, value, outside), Var(name, var.dtype), iter_var.iter_type)
        return outer.add(outer_var, value) * simplify(inner.extent)

    def add(self, iter_var: IterVar, above: PrimExpr, mark: IterMark) -> None:
        """Add the inner variable of a divided variable, unless it has a single value."""
        below = normalize_iter_map_to_expr(mark.source)
        if is_const(mark.extent, 1):
            below = simplify(substitute(below, self.first))
            value = above + below
        else:
            inner_var = IterVar(_from(mark), Var(f"{iter_var.var.name}_i", iter_var.var.dtype), iter_var.iter_type)
            self.iter_vars.append(inner_var)
            self.values.append(below)
            value = above + inner_var.var
        self.substitution[iter_var.var] = simplify(value)
        self.bound.append(simplify(above + below))


def _divided(
    state: ScheduleState,
    rv: BlockRV,
    outside: Sequence[For],
    inside: Sequence[For],
    outer: _Outer,
    shared: bool = False,
) -> _Inner:
    """Divide a block's variables into outer and inner parts; adds the outer parts to `outer`.

    With `shared`, several blocks share the outer variables: those with a single value are left out.
    """
    realize = state.realize(rv)
    block = realize.block
    _require_own_bounds(inside, outside)
    single = {item.loop_var: item.min for item in [*outside, *inside] if is_const(item.extent, 1)}
    realize = realize.replace(predicate=substitute(realize.predicate, single))
    ranges = {loop.loop_var: loop_range(loop) for loop in [*outside, *inside]}
    analyzer = analyzer_at(state, state.block_rv(state.scope(rv), rv.function), inclusive=True)
    divided = divide_subspace(
        list(realize.iter_values),
        ranges,
        [loop.loop_var for loop in inside],
        TRUE if shared else realize.predicate,  # the other blocks run where this one does not
        analyzer=analyzer,
    )
    if isinstance(divided, str):
        raise ScheduleError(
            BINDING,
            f"the variables of block {block.name_hint} cannot be divided into parts of outer and of inner loops: "
            f"{divided}",
            realize,
            hint="split the loops so that the inner ones cover whole tiles",
        )
    *divisions, (outer_condition, inner_condition) = divided
    first = {loop.loop_var: loop.min for loop in [*outside, *inside]}
    result = _Inner(realize, first)
    for iter_var, (outer_mark, inner_mark) in zip(block.iter_vars, divisions, strict=True):
        above = result.outer_part(iter_var, outer_mark, inner_mark, outer, outside, shared)
        result.add(iter_var, above, inner_mark)
    outer.conditions += conjuncts(outer_condition.extent)
    condition = realize.predicate if shared else inner_condition.extent
    predicate = _inner_predicate(realize, condition, result, outside)
    inner_block: Block = substitute(block.replace(iter_vars=()), result.substitution)
    inner_block = inner_block.replace(iter_vars=tuple(result.iter_vars))
    if not accesses(block).opaque:
        inner_block = complete_block(inner_block)
    result.realize = BlockRealize(tuple(result.values), predicate, inner_block)
    return result


def _from(mark: IterMark) -> Range:
    """Return the range of a part, which starts at its base."""
    return Range.from_min_extent(getattr(mark.source, "base", const(0, mark.dtype)), mark.extent)


def _outer_domain(mark: IterMark, value: PrimExpr, outside: Sequence[For]) -> Range:
    """Return the domain of an outer part; derived from its loops if its extent divides by a non-constant."""
    domain = _from(mark)
    if _is_whole(domain.extent):
        return domain
    interval = bounds_of(value, loop_domain(outside))
    if interval is None:
        return domain
    low, high = simplify(interval[0]), simplify(interval[1] - interval[0] + 1)
    return Range.from_min_extent(low, high)


def _is_whole(extent: PrimExpr) -> bool:
    """True if an extent divides by constants only."""
    divisions: list[PrimExpr] = []
    post_order_visit(extent, lambda node: divisions.append(node) if isinstance(node, FloorDiv) else None)
    return all(isinstance(division, FloorDiv) and isinstance(division.b, IntImm) for division in divisions)


def _require_own_bounds(inside: Sequence[For], outside: Sequence[For]) -> None:
    variables = {item.loop_var for item in outside}
    for item in inside:
        if variables & {*free_vars(item.min), *free_vars(item.extent)}:
            raise ScheduleError(
                STRUCTURE, f"the bounds of loop {item.loop_var.name} depend on a loop outside of the new block", item
            )


def _inner_predicate(realize: BlockRealize, condition: PrimExpr, inner: _Inner, outside: Sequence[For]) -> PrimExpr:
    """Return the inner condition in terms of the new block's variables and the inner loops."""
    variables = {item.loop_var for item in outside}
    pairs = list(zip(realize.iter_values, inner.bound, strict=True))
    terms: list[PrimExpr] = []
    for term in conjuncts(condition):
        rewritten = _by_values(term, pairs, variables)
        if variables.intersection(free_vars(rewritten)):
            raise ScheduleError(
                BINDING,
                f"the condition {term} of block {realize.block.name_hint} is on loops outside of the new block, for "
                "which no variable of it stands",
                realize,
                hint="choose factors that divide the extent, or pad the computation",
            )
        terms.append(rewritten)
    return conjunction(terms)


def _by_values(expr: PrimExpr, pairs: Sequence[tuple[PrimExpr, PrimExpr]], variables: set[Var]) -> PrimExpr:
    """Replace subexpressions that equal a value up to a remainder, to eliminate `variables` from an expression."""
    if not variables.intersection(free_vars(expr)):
        return expr
    for value, replacement in pairs:
        if value.dtype == expr.dtype:
            rest = simplify(expr - value)
            if not variables.intersection(free_vars(rest)):
                return simplify(replacement + rest)
    return map_expressions(expr, lambda child: _by_values(child, pairs, variables))


def _outer_init(state: ScheduleState, rv: BlockRV, inner: _Inner, inside: Sequence[For], outer: _Outer) -> Stmt:
    """Return the init of the new block: the old init, in the inner data-parallel loops."""
    realize = state.realize(rv)
    block = inner.realize.block
    kinds = bound_loops(realize, inside)
    analyzer = analyzer_at(state, LoopRV(rv.function, inside[0].loop_var)) if inside else Analyzer()
    for item in inside:
        if item.loop_var not in kinds.only_reduce:
            analyzer.bind(item.loop_var, loop_range(item))
    for iter_var in outer.iter_vars:
        if iter_var.dom is not None and iter_var.iter_type != "reduce":
            analyzer.bind(iter_var.var, iter_var.dom)
    for iter_var, value in zip(realize.block.iter_vars, realize.iter_values, strict=True):
        start = simplify(substitute(value, inner.first))
        low = start if iter_var.dom is None else iter_var.dom.min
        if iter_var.iter_type == "reduce" and not analyzer.can_prove(start.equal(low)):
            raise ScheduleError(
                ORDER,
                f"variable {iter_var.var.name} of block {realize.block.name_hint} is {shown(start)} where its loops "
                f"begin, which need not be the start {shown(low)} of its domain",
                realize,
            )
    reduced = {v.var: v.dom for v in outer.iter_vars if v.iter_type == "reduce" and v.dom is not None}
    _require_start_of_inner(inner.realize, inside, analyzer)
    predicate = start_predicate(inner.realize, inside, analyzer, reduced)
    pairs = [
        (iter_var, value)
        for iter_var, value in zip(block.iter_vars, inner.realize.iter_values, strict=True)
        if iter_var.iter_type != "reduce"
    ]
    assert block.init is not None
    init_block = Block(
        tuple(iter_var for iter_var, _ in pairs),
        (),
        (),
        f"{block.name_hint}_init",
        block.init,
        annotations=block.annotations,
        match_buffers=block.match_buffers,
        alloc_buffers=block.alloc_buffers,
    )
    nest: Stmt = BlockRealize(tuple(value for _, value in pairs), predicate, complete_block(init_block))
    return renew_bound_vars(_in_loops(nest, [item for item in inside if item.loop_var in kinds.spatial]))


def _require_start_of_inner(realize: BlockRealize, inside: Sequence[For], analyzer: Analyzer) -> None:
    try:
        require_single_start(realize, inside, analyzer)
    except ScheduleError as error:
        raise ScheduleError(ORDER, error.diagnostics[0].message, *error.places) from None


# ------------------------------------------------------------------------------------------ several blocks


def _blockize_blocks(state: ScheduleState, blocks: Sequence[BlockRV], preserve: bool) -> BlockRV:
    function = blocks[0].function
    realizes = [state.realize(block) for block in blocks]
    parent, parts, outside = _siblings(state, blocks)
    outer = _Outer(preserve)
    nests: list[Stmt] = []
    for rv, realize, part in zip(blocks, realizes, parts, strict=True):
        loops = state.loops(rv)
        inside = loops[len(outside) :]
        stmt: Stmt = part
        while isinstance(stmt, For):
            stmt = stmt.body
        if stmt is not realize:
            raise ScheduleError(
                STRUCTURE, f"there is more than loops around block {realize.block.name_hint}", part, realize
            )
        inner = _divided(state, rv, outside, inside, outer, shared=True)
        nests.append(_in_loops(inner.realize, inside))
    if outer.reduces:
        raise ScheduleError(
            STRUCTURE,
            "a loop around all of the blocks is bound to a reduction variable",
            *realizes,
            hint="decompose_reduction first, or choose blocks below the loops of their reductions",
        )
    name = state.fresh_name(function, f"outer_{''.join(r.block.name_hint + '_' for r in realizes)}")
    block = Block(outer.iter_vars, (), (), name, seq_of(nests))
    new = BlockRealize(outer.values, conjunction(outer.conditions), complete_block(block))
    state.replace(parent, _with_parts(parent, parts, new), function)
    return BlockRV(function, name)


def _siblings(state: ScheduleState, blocks: Sequence[BlockRV]) -> tuple[For | BlockRealize, list[Stmt], list[For]]:
    """Return the innermost common parent of the blocks, its statements that hold one block each, and their common
    loops.
    """
    scope = state.scope(blocks[0])
    if any(state.scope(block) is not scope for block in blocks):
        raise ScheduleError(STRUCTURE, "the blocks are not in one scope", *map(state.realize, blocks))
    chains = [state.loops(block) for block in blocks]
    # A block without loops of its own is a part itself: loops around it alone stay outside.
    common = [
        items[0]
        for items in itertools.takewhile(lambda items: all(i is items[0] for i in items), zip(*chains, strict=False))
    ]
    parent: For | BlockRealize = common[-1] if common else scope
    body = parent.body if isinstance(parent, For) else parent.block.body
    items = list(body.seq) if isinstance(body, SeqStmt) else [body]
    parts: list[Stmt] = [
        chain[len(common)] if len(chain) > len(common) else state.realize(block)
        for chain, block in zip(chains, blocks, strict=True)
    ]
    positions = [next((i for i, item in enumerate(items) if item is part), None) for part in parts]
    first = positions[0]
    if first is None or positions != list(range(first, first + len(parts))):
        raise ScheduleError(
            STRUCTURE, "the blocks do not stand directly behind each other, in this order", *map(state.realize, blocks)
        )
    return parent, parts, common


def _with_parts(parent: For | BlockRealize, parts: Sequence[Stmt], new: Stmt) -> Stmt:
    """Replace consecutive statements in a loop or block by one statement."""
    body = parent.body if isinstance(parent, For) else parent.block.body
    dropped = set(map(id, parts[1:]))
    items = body.seq if isinstance(body, SeqStmt) else (body,)
    new_body = seq_of(new if item is parts[0] else item for item in items if id(item) not in dropped)
    return (
        parent.replace(body=new_body)
        if isinstance(parent, For)
        else parent.replace(block=parent.block.replace(body=new_body))
    )
