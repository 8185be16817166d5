"""Iteration order: conditions under which loops may be interchanged or run concurrently.

Two accesses of one element, at least one of them a write, must keep their order. A loop *separates* two blocks if
elements that one of them writes in an iteration are accessed by the other in the same iteration only. Loops that
separate all dependent blocks may be reordered freely; other loops must keep their relative order.

Within one block: instances of a complete block may run in any order. Those of a reduction block may if its reduction
loops keep their relative order, or if its result does not depend on the order: sums (the language does not define their
order), minima, maxima, and products of integers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

from ...prim import Analyzer, PrimExpr, Var, free_vars, substitute
from ...prim.iter_map import IterMapLevel, detect_iter_map
from ...runtime.records import dataclass
from ..buffer import BufferRegion
from ..dependence import accesses
from ..stmt import Block, BlockRealize, For
from .block_kinds import complete_problem, kind_hint, reduction_problem
from .conditions import analyzer_at, loop_range
from .error import KIND, ORDER, ScheduleError
from .regions import in_own_slab, read_regions, relaxed_box, written_regions
from .rv import LoopRV
from .state import ScheduleState
from .updates import is_order_free_update


@dataclass
class Nest:
    """A chain of loops to be reordered, outermost first, and the blocks below."""

    chain: Sequence[For]
    children: Sequence[BlockRealize]
    state: ScheduleState
    function: str

    def loops_of(self, child: BlockRealize) -> list[For]:
        """Return the loops around a block from the first loop of the chain inwards."""
        around = self.state.loops(self.state.block_rv(child, self.function))
        return around[next(i for i, node in enumerate(around) if node.loop_var is self.chain[0].loop_var) :]

    @cached_property
    def analyzer(self) -> Analyzer:
        """The facts that hold inside the chain."""
        return analyzer_at(self.state, LoopRV(self.function, self.chain[-1].loop_var), inclusive=True)

    def analyzer_of(self, child: BlockRealize) -> Analyzer:
        """Return the facts that hold at a block."""
        return analyzer_at(self.state, self.state.block_rv(child, self.function))


def require_order_free(nest: Nest, order: Sequence[For], scope: Block) -> None:
    """Raise unless the loops of a chain may be nested in the given order."""
    for child in nest.children:
        _require_own_order(nest, child, order, scope)
    for child in nest.children:
        for other in nest.children:
            if other is not child:
                _require_mutual_order(nest, child, other, order)


def _keep_order(loops: Iterable[For], chain: Sequence[For], order: Sequence[For]) -> bool:
    """True if some loops have the same relative order in the chain and in the new order."""
    chosen = {loop.loop_var for loop in loops}
    before = [loop.loop_var for loop in chain if loop.loop_var in chosen]
    after = [loop.loop_var for loop in order if loop.loop_var in chosen]
    return all(a is b for a, b in zip(before, after, strict=True))


# ------------------------------------------------------------------------------------------ within one block


def _require_own_order(nest: Nest, child: BlockRealize, order: Sequence[For], scope: Block) -> None:
    """Raise unless the instances of a block may run in the new order."""
    problem = complete_problem(child, scope, alone=False)
    if problem is None:
        return
    name = child.block.name_hint
    if child.block.init is not None:
        problem = reduction_problem(child, scope, alone=False)
    elif any(v.iter_type == "reduce" for v in child.block.iter_vars):
        problem = accumulation_problem(child, scope)
    if problem is not None:
        raise ScheduleError(
            KIND, f"block {name} is neither complete nor a reduction block: {problem}", child, hint=kind_hint(child)
        )
    _require_one_start(nest, child)
    reduced = reduction_loops(child, nest.chain)
    mixed = _mixed_loops(nest, child) if child.block.init is not None else []
    if mixed and not _keep_order([*mixed, *reduced], nest.chain, order):
        raise ScheduleError(
            ORDER,
            f"loop {mixed[0].loop_var.name} is bound to data-parallel and to reduction variables of block {name}, so "
            "that in another order a sum might not begin with its first term",
            child,
            hint="split the loop where the parts of its variables meet, or decompose the reduction first",
        )
    if not _keep_order(reduced, nest.chain, order) and not is_order_free_update(child.block):
        names = ", ".join(loop.loop_var.name for loop in reduced)
        raise ScheduleError(
            ORDER,
            f"block {name} combines values in the order of the loops {names}, and its result may depend on it",
            child,
            hint="only sums, minima, maxima and products of integers may be computed in another order",
        )


def accumulation_problem(child: BlockRealize, scope: Block) -> str | None:
    """Return why a block does not accumulate into elements initialised elsewhere, or None if it does.

    Such a block is the update of a decomposed reduction. Other blocks may write the same elements.
    """
    problem = reduction_problem(child, scope, alone=False, initialised=True)
    if problem is not None:
        return problem
    return None if is_order_free_update(child.block) else "it has no init and does not combine what it writes"


def _require_one_start(nest: Nest, child: BlockRealize) -> None:
    """Raise unless each instance of a reduction runs once, the first one in the first iteration of all loops."""
    block = child.block
    ranges = {loop.loop_var: loop_range(loop) for loop in nest.loops_of(child)}
    mapped = detect_iter_map(list(child.iter_values), ranges, child.predicate, IterMapLevel.Injective, False)
    used = {var for value in child.iter_values for var in free_vars(value)}
    idle = [loop for loop in nest.chain if loop.loop_var not in used and not _is_single(loop, nest.analyzer)]
    if not mapped.indices or idle:
        reason = f"loop {idle[0].loop_var.name} repeats it" if idle else "; ".join(mapped.errors)
        raise ScheduleError(
            KIND,
            f"the values of block {block.name_hint} may be computed more than once: {reason}",
            child,
            hint="bind every loop around a reduction to a variable of the block",
        )
    analyzer = nest.analyzer_of(child)
    for iter_var, value in zip(block.iter_vars, child.iter_values, strict=True):
        if iter_var.iter_type == "reduce":
            first: PrimExpr = value
            for loop in reversed(nest.loops_of(child)):
                first = substitute(first, {loop.loop_var: loop.min})
            if not analyzer.can_prove(value >= first):
                raise ScheduleError(
                    KIND,
                    f"variable {iter_var.var.name} of block {block.name_hint} does not begin where its loops begin",
                    child,
                )


def _is_single(loop: For, analyzer: Analyzer) -> bool:
    return analyzer.can_prove(loop.extent <= 1)


def reduction_loops(child: BlockRealize, chain: Sequence[For]) -> list[For]:
    """Return the loops of a chain to which the reduction variables of a block are bound."""
    used: set[Var] = set()
    for iter_var, value in zip(child.block.iter_vars, child.iter_values, strict=True):
        if iter_var.iter_type != "spatial":
            used.update(free_vars(value))
    return [loop for loop in chain if loop.loop_var in used]


def _mixed_loops(nest: Nest, child: BlockRealize) -> list[For]:
    """Return the loops of a chain that are bound to both data-parallel and reduction variables of a block."""
    analyzer = nest.analyzer_of(child)
    used: dict[bool, set[Var]] = {True: set(), False: set()}
    for iter_var, value in zip(child.block.iter_vars, child.iter_values, strict=True):
        used[iter_var.iter_type == "spatial"].update(free_vars(analyzer.simplify(value)))
    return [loop for loop in nest.chain if loop.loop_var in used[True] & used[False]]


# ------------------------------------------------------------------------------------------ between blocks


def _require_mutual_order(nest: Nest, writer: BlockRealize, other: BlockRealize, order: Sequence[For]) -> None:
    """Raise unless two blocks access common elements in the same order under the new loop order."""
    for region in accesses(writer.block).writes:
        buffer = region.buffer
        touched = [*read_regions(other, buffer), *written_regions(other, buffer)]
        if not touched:
            continue
        crossing = [loop for loop in nest.chain if not separates(nest, loop, region, writer, touched, other)]
        if not _keep_order(crossing, nest.chain, order):
            names = ", ".join(loop.loop_var.name for loop in crossing)
            raise ScheduleError(
                ORDER,
                f"block {other.block.name_hint} may touch elements of {buffer.name} that block "
                f"{writer.block.name_hint} writes in other iterations of the loops {names}",
                writer,
                other,
                hint="move one of the blocks to loops of its own first",
            )


def separates(
    nest: Nest,
    loop: For,
    written: BufferRegion,
    writer: BlockRealize,
    touched: Iterable[BufferRegion],
    other: BlockRealize,
) -> bool:
    """True if a block accesses what another one writes only in the same iteration of a loop."""
    inner = [item for item in nest.loops_of(writer) if item is not loop]
    beside = [item for item in nest.loops_of(other) if item.loop_var is not loop.loop_var]
    box = relaxed_box(written, writer, inner)
    return all(
        in_own_slab(box, relaxed_box(region, other, beside), loop.loop_var, nest.analyzer, loop_range(loop))
        for region in touched
    )
