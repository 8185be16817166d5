"""merge: fuse adjacent loops with equal bounds into one.

    for i in range(8):                      for i_m in range(8):
        for j in range(4):                      for j in range(4):
            with T.block("B"): ...                  with T.block("B"): ...
    for i in range(8):                          for j in range(4):
        for j in range(4):                          with T.block("C"): ...
            with T.block("C"): ...

The enclosing loops, up to the common parent, are merged as well.

Rejected: loops that are not serial or have annotations; nests with different depths or bounds; nests that are not
adjacent or not perfectly nested; statements outside of blocks; a block that accesses elements which a block of another
nest writes in a different iteration.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from ....prim import PrimExpr, Var
from ...dependence import accesses, scope_of
from ...functor import substitute
from ...statements import map_parts, seq_of
from ...stmt import BlockRealize, For, SeqStmt, Stmt
from ..base import ScheduleBase, primitive
from ..conditions import analyzer_at, blocks_below, require_only_blocks
from ..error import ARGUMENT, KIND, ORDER, STRUCTURE, ScheduleError
from ..interchange import Nest, separates
from ..regions import read_regions, written_regions
from ..rv import LoopRV
from ..state import Placed
from .split import require_plain


@primitive
def merge(sch: ScheduleBase, *loops: LoopRV) -> LoopRV:
    """Merge adjacent loop nests up to their common parent, and return the innermost merged loop.

    Raises ScheduleError in the cases listed in the module's docstring.
    """
    nodes = [sch.state.loop(loop) for loop in loops]
    if len({node.loop_var for node in nodes}) < 2 or len({node.loop_var for node in nodes}) < len(nodes):
        raise ScheduleError(ARGUMENT, "merge takes two or more different loops", *nodes)
    function = loops[0].function
    around = _common(sch, loops)
    nests = [_nest(sch, loop, around) for loop in loops]
    tops = _side_by_side(around, [nest[0] for nest in nests])
    nests.sort(key=lambda nest: next(i for i, top in enumerate(tops) if top is nest[0]))
    _require_equal_bounds(sch, nests, function)
    members = [{child.block.name_hint for child in blocks_below(nest[0])} for nest in nests]
    variables = [Var(f"{node.loop_var.name}_m", node.loop_var.dtype) for node in nests[0]]
    bodies = [
        substitute(nest[-1].body, {node.loop_var: _as(var, node) for node, var in zip(nest, variables, strict=True)})
        for nest in nests
    ]
    merged: Stmt = seq_of(bodies)
    for node, var in zip(reversed(nests[0]), reversed(variables), strict=True):
        merged = For(var, node.min, node.extent, node.kind, merged)
    sch.state.replace(around, _with_merged(around, tops, merged), function)
    result = LoopRV(function, variables[-1])
    _require_independent(sch, result, variables, members)
    return result


def _as(var: Var, node: For) -> PrimExpr:
    return var.astype(node.loop_var.dtype)


def _common(sch: ScheduleBase, loops: Sequence[LoopRV]) -> Placed:
    """Return the innermost common ancestor of all loops, in their common scope."""
    lists = [sch.state.ancestors(loop) for loop in loops]
    scopes = [sch.state.scope(loop) for loop in loops]
    if any(scope is not scopes[0] for scope in scopes):
        raise ScheduleError(STRUCTURE, "the loops are not in the same block", *map(sch.state.loop, loops))
    for stmt in lists[0]:
        if all(any(item is stmt for item in chain) for chain in lists[1:]):
            return stmt
    raise AssertionError("loops of one scope are below its block")


def _nest(sch: ScheduleBase, loop: LoopRV, around: Placed) -> list[For]:
    """Return the loops from directly below `around` to `loop`, outermost first; raise unless they are perfectly
    nested.
    """
    nodes = sch.state.loops(loop)
    start = next((i + 1 for i, node in enumerate(nodes) if node is around), 0)
    nest = nodes[start:]
    require_only_blocks(nest[0])
    for outer, inner in itertools.pairwise(nest):
        if outer.body is not inner:
            raise ScheduleError(
                STRUCTURE, f"loop {outer.loop_var.name} contains more than loop {inner.loop_var.name}", outer, inner
            )
    for node in nest:
        require_plain(node)
    return nest


def _side_by_side(around: Placed, tops: Sequence[For]) -> list[For]:
    """Return the outermost loops in program order; raise unless they are adjacent."""
    ids = {id(top) for top in tops}
    if len(ids) < len(tops):
        raise ScheduleError(STRUCTURE, "one of the loops is inside of another one", *tops)
    seq = _sequence(around.body if isinstance(around, For) else around.block.body, ids)
    positions = [] if seq is None else [i for i, child in enumerate(seq.seq) if id(child) in ids]
    if seq is None or len(positions) < len(tops) or positions[-1] - positions[0] >= len(tops):
        raise ScheduleError(
            STRUCTURE,
            "the loops do not stand directly behind each other",
            *tops,
            hint="merge takes loops with nothing between them",
        )
    return [child for child in seq.seq[positions[0] : positions[-1] + 1] if isinstance(child, For)]


def _sequence(stmt: Stmt, ids: set[int]) -> SeqStmt | None:
    """Return the sequence in a statement, outside of its blocks and loops, that contains a statement in `ids`."""
    sequences: list[SeqStmt] = []

    def look(current: Stmt) -> Stmt:
        if isinstance(current, SeqStmt) and any(id(item) in ids for item in current.seq):
            sequences.append(current)
        elif not isinstance(current, (For, BlockRealize)):
            map_parts(current, look)
        return current

    look(stmt)
    return sequences[0] if sequences else None


def _with_merged(around: Placed, tops: Sequence[For], merged: Stmt) -> Placed:
    """Replace the loops in their parent statement by the merged loop."""
    ids = {id(top) for top in tops}

    def rewrite(current: Stmt) -> Stmt:
        if isinstance(current, SeqStmt) and any(id(item) in ids for item in current.seq):
            items = [
                merged if item is tops[0] else item for item in current.seq if item is tops[0] or id(item) not in ids
            ]
            return seq_of(items)
        return current if isinstance(current, (For, BlockRealize)) else map_parts(current, rewrite)

    if isinstance(around, For):
        return around.replace(body=rewrite(around.body))
    return around.replace(block=around.block.replace(body=rewrite(around.block.body)))


def _require_equal_bounds(sch: ScheduleBase, nests: Sequence[Sequence[For]], function: str) -> None:
    first = nests[0]
    analyzer = analyzer_at(sch.state, LoopRV(function, first[0].loop_var))
    for nest in nests[1:]:
        if len(nest) != len(first):
            raise ScheduleError(
                STRUCTURE,
                f"loop {first[-1].loop_var.name} is {len(first)} deep below what is around all, "
                f"loop {nest[-1].loop_var.name} {len(nest)} deep",
                first[-1],
                nest[-1],
            )
        names = {node.loop_var: _as(item.loop_var, node) for node, item in zip(nest, first, strict=True)}
        for node, item in zip(nest, first, strict=True):
            low, extent = substitute([node.min, node.extent], names)
            if not (analyzer.can_prove_equal(low, item.min) and analyzer.can_prove_equal(extent, item.extent)):
                raise ScheduleError(
                    STRUCTURE,
                    f"the loops {item.loop_var.name} and {node.loop_var.name} have different bounds: "
                    f"[{item.min}, {item.min} + {item.extent}) and [{low}, {low} + {extent})",
                    item,
                    node,
                )


def _require_independent(
    sch: ScheduleBase, inner: LoopRV, variables: Sequence[Var], members: Sequence[set[str]]
) -> None:
    """Raise if a block accesses elements that another nest writes in a different iteration of the merged loops."""
    chain = [node for node in sch.state.loops(inner) if node.loop_var in set(variables)]
    scope = scope_of(sch.state.scope(inner).block)

    children = blocks_below(chain[-1])
    nest = Nest(chain, children, sch.state, inner.function)
    number = {name: i for i, names in enumerate(members) for name in names}
    for writer in children:
        used = accesses(writer.block)
        if used.opaque or used.written_buffers & scope.loose:
            raise ScheduleError(
                KIND,
                f"block {writer.block.name_hint} has effects, or writes what a statement outside of blocks reads",
                writer,
            )
        for other in children:
            if number[writer.block.name_hint] != number[other.block.name_hint]:
                _require_separated(nest, writer, other)


def _require_separated(nest: Nest, writer: BlockRealize, other: BlockRealize) -> None:
    for region in accesses(writer.block).writes:
        buffer = region.buffer
        touched = [*read_regions(other, buffer), *written_regions(other, buffer)]
        for loop in nest.chain if touched else ():
            if not separates(nest, loop, region, writer, touched, other):
                raise ScheduleError(
                    ORDER,
                    f"block {other.block.name_hint} may touch elements of {buffer.name} that block "
                    f"{writer.block.name_hint} writes in another iteration of loop {loop.loop_var.name}",
                    other,
                    writer,
                )
