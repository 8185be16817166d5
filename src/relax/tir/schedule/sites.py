"""Insertion points for copies of buffers in a scope, and the regions accessed from there on.

A scope's statements are a tree of loops, sequences and branches, with blocks as leaves. The copy of a buffer is
inserted beside one of these statements, its anchor:

    for i in range(8):                     for i in range(8):
        for j in range(16):                    for j in range(16):
            with T.block("A"): ...                 with T.block("A"): ...
        for j in range(16):          anchor        A_local[...] = A[...]
            with T.block("B"): ...                 for j in range(16):
    for i in range(128):                               with T.block("B"): ...
        with T.block("C"): ...             ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import TypeAlias

from ...prim import Analyzer, IntImm, PrimExpr, Var, const, free_vars, is_const
from ...runtime.records import dataclass
from ..buffer import Buffer, BufferLoad, BufferRegion, IterVar, Range
from ..statements import conjunction, map_parts, parts_of
from ..stmt import (
    AllocBuffer,
    AssertStmt,
    AttrStmt,
    Block,
    BlockRealize,
    BufferStore,
    DeclBuffer,
    For,
    ForKind,
    LetStmt,
    SeqStmt,
    Stmt,
)
from .conditions import analyzer_at, loop_range, require_parallel
from .regions import Box, relaxed_box
from .rv import BlockRV, LoopRV
from .state import ScheduleState

Path: TypeAlias = "tuple[Stmt, ...]"
"""Statements from a scope's body down to a block, both included."""


def paths(body: Stmt) -> dict[BlockRealize, Path]:
    """Return the path from a scope's body to each of its blocks, in program order."""
    result: dict[BlockRealize, Path] = {}
    stack: list[Path] = [(body,)]
    while stack:
        path = stack.pop()
        if isinstance(path[-1], BlockRealize):
            result[path[-1]] = path
        else:
            stack.extend((*path, part) for part in reversed(parts_of(path[-1])))
    return result


def edited(stmt: Stmt, edits: Mapping[Stmt, Callable[[Stmt], Stmt]]) -> Stmt:
    """Apply edits to statements of a scope, inner ones first; blocks are not entered."""
    result = stmt if isinstance(stmt, BlockRealize) else map_parts(stmt, lambda child: edited(child, edits))
    edit = edits.get(stmt)
    return result if edit is None else edit(result)


_WRAPPERS = (LetStmt, AssertStmt, AttrStmt, AllocBuffer, DeclBuffer, SeqStmt)
"""Statements that execute their parts exactly once, so that inserted statements run as often as the parts."""


def _peeled(path: Path, start: int) -> int:
    """Return the first index of `path`, from `start` on, whose statement is no wrapper."""
    while isinstance(path[start], _WRAPPERS):
        start += 1
    return start


@dataclass
class Site:
    """An insertion point beside a statement (the anchor), with the enclosing loops of the scope."""

    state: ScheduleState
    scope: BlockRV
    path: Path
    position: int
    """Index of the anchor in `path`."""
    behind: bool = False
    """True if copies are inserted after the anchor instead of before it."""
    hidden: set[Var] = field(default_factory=set[Var])
    """Variables of lets on the paths seen so far."""

    def __post_init__(self) -> None:
        self.anchor = self.path[self.position]
        self.around = [stmt for stmt in self.path[: self.position] if isinstance(stmt, For)]
        self.analyzer = analyzer_at(self.state, self.scope, inclusive=True)
        for loop in self.around:
            self.analyzer.bind(loop.loop_var, loop_range(loop))
        scope = self.state.block(self.scope)
        self.inner_vars = {loop.loop_var for loop in self.around} | {v.var for v in scope.iter_vars}

    def inner_loops(self, path: Path) -> list[For]:
        """Return the loops of a path at the anchor's level or below, outermost first."""
        self.hidden.update(stmt.var for stmt in path if isinstance(stmt, LetStmt))
        above = {id(stmt) for stmt in self.path[: self.position]}
        return [stmt for stmt in path if isinstance(stmt, For) and id(stmt) not in above]

    def box(self, region: BufferRegion, realize: BlockRealize, path: Path) -> Box:
        """Return a box that contains the accesses of a block to a region, from the anchor on, in the current
        iteration.
        """
        box = relaxed_box(region, realize, self.inner_loops(path))
        above = {s.var for s in self.path[: self.position] if isinstance(s, LetStmt)}
        hidden = self.hidden - above
        return [None if item is None or any(_uses(end, hidden) for end in item) else item for item in box]

    def require_parallel_around(self) -> None:
        """Raise if a non-serial loop around the anchor is no longer parallel after the change."""
        for loop in self.around:
            if loop.kind not in (ForKind.SERIAL, ForKind.UNROLLED):
                require_parallel(self.state, LoopRV(self.scope.function, loop.loop_var))


def _uses(expr: PrimExpr, variables: set[Var]) -> bool:
    return not variables.isdisjoint(free_vars(expr))


def common_depth(ways: Sequence[Path]) -> int:
    """Return the number of leading statements that the paths share."""
    depth = 0
    for statements in zip(*ways, strict=False):
        if any(stmt is not statements[0] for stmt in statements):
            break
        depth += 1
    return depth


def site_before(
    state: ScheduleState, scope: BlockRV, users: Sequence[Path], other_paths: Sequence[Path] = ()
) -> tuple[Site, list[Stmt]]:
    """Return the site before the first of `users`, inside all loops that they share with `other_paths`.

    Without `other_paths`, the site is as far outside as possible. Also returns the statements at the anchor's level,
    from the anchor to the last user.
    """
    depth = common_depth([*users, *other_paths])
    position = _peeled(users[0], depth if other_paths else 0)
    if depth > position:
        span = [users[0][position]]
    else:
        parts = parts_of(users[0][depth - 1])
        holding = [i for i, part in enumerate(parts) if any(part in path for path in users)]
        span = list(parts[holding[0] : holding[-1] + 1])
    return Site(state, scope, users[0], position), span


def site_behind(state: ScheduleState, scope: BlockRV, writer: Path, users: Iterable[Path]) -> Site:
    """Return the site directly after a writer, inside all loops that it shares with a user."""
    depth = max((common_depth([writer, user]) for user in users), default=0)
    return Site(state, scope, writer, _peeled(writer, depth), behind=True)


# ------------------------------------------------------------------------------------------ regions to be copied


@dataclass(frozen=True)
class Portion:
    """A part of a buffer: the elements of a box for which the conditions hold.

    Each condition is over the index of its dimension.
    """

    ranges: tuple[Range, ...]
    conditions: tuple[tuple[Callable[[PrimExpr], PrimExpr], ...], ...]


def portion_of(site: Site, buffer: Buffer, boxes: Sequence[Box], dtypes: Sequence[str]) -> Portion:
    """Return the part of a buffer that the boxes cover together, restricted to the buffer.

    A dimension is taken whole if the boxes have no common bounding interval, or if they may exceed the buffer and do
    not depend on enclosing loops.
    """
    ranges: list[Range] = []
    conditions: list[tuple[Callable[[PrimExpr], PrimExpr], ...]] = []
    for d, size in enumerate(buffer.shape):
        interval = _united(site.analyzer, [box[d] for box in boxes])
        limits: tuple[Callable[[PrimExpr], PrimExpr], ...] = ()
        if interval is not None:
            limits = _limits(site, interval, size)
            if limits and not any(_uses(end, site.inner_vars) for end in interval):
                interval, limits = None, ()
        if interval is None:
            ranges.append(_all_of(size, dtypes[d]))
        else:
            low, extent = interval[0], site.analyzer.simplify(interval[1] - interval[0] + 1)
            if isinstance(low, IntImm) and isinstance(extent, IntImm):
                low, extent = const(low.value, dtypes[d]), const(extent.value, dtypes[d])
            ranges.append(Range.from_min_extent(low, extent))
        conditions.append(limits)
    return Portion(tuple(ranges), tuple(conditions))


def _limits(
    site: Site, interval: tuple[PrimExpr, PrimExpr], size: PrimExpr
) -> tuple[Callable[[PrimExpr], PrimExpr], ...]:
    """Return the conditions that keep an index inside a dimension, without those that always hold."""
    low, high = interval
    limits: list[Callable[[PrimExpr], PrimExpr]] = []
    if not site.analyzer.can_prove(low >= 0):
        limits.append(lambda index: index >= 0)
    if not site.analyzer.can_prove(high < size):
        limits.append(lambda index: index < size)
    return tuple(limits)


def _united(
    analyzer: Analyzer, intervals: Sequence[tuple[PrimExpr, PrimExpr] | None]
) -> tuple[PrimExpr, PrimExpr] | None:
    """Return the bounding interval of all intervals, or None if it is unknown."""
    result: tuple[PrimExpr, PrimExpr] | None = None
    for interval in intervals:
        if interval is None:
            return None
        low, high = analyzer.simplify(interval[0]), analyzer.simplify(interval[1])
        if result is not None:
            down, up = analyzer.simplify(low - result[0]), analyzer.simplify(high - result[1])
            if not isinstance(down, IntImm) or not isinstance(up, IntImm):
                return None
            low, high = (low if down.value < 0 else result[0]), (high if up.value > 0 else result[1])
        result = low, high
    return result


def whole(shape: Sequence[PrimExpr], dtypes: Sequence[str]) -> Portion:
    """Return the portion with all elements of a shape; static sizes get the given dtypes."""
    return Portion(tuple(map(_all_of, shape, dtypes)), ((),) * len(shape))


def _all_of(size: PrimExpr, dtype: str) -> Range:
    extent = const(size.value, dtype) if isinstance(size, IntImm) else size
    return Range.from_min_extent(const(0, extent.dtype), extent)


def index_dtypes(buffer: Buffer, regions: Iterable[BufferRegion]) -> list[str]:
    """Return the dtype of the accesses' indices for each dimension."""
    result = ["int64"] * buffer.ndim
    for region in reversed(list(regions)):
        for d, extent in enumerate(region.region):
            if not isinstance(extent.min, IntImm) or extent.min.dtype.bits < 64:
                result[d] = str(extent.min.dtype)
    return result


def copy_nest(name: str, source: Buffer, target: Buffer, portion: Portion) -> BlockRealize | For:
    """Return loops around a block called `name` that copies a part of one buffer to the same indices of another.

    for ax0 in range(16):
        with T.block("A_local"):
            v0 = T.axis.spatial(128, i * 16 + ax0)
            A_local[v0] = A[v0]
    """
    return element_nest(
        name,
        source.shape,
        portion,
        lambda indices: BufferStore(target, BufferLoad(source, indices), indices),
        lambda region: ((BufferRegion(source, region),), (BufferRegion(target, region),)),
    )


def element_nest(
    name: str,
    shape: Sequence[PrimExpr],
    portion: Portion,
    body: Callable[[tuple[Var, ...]], Stmt],
    accesses: Callable[[tuple[Range, ...]], tuple[tuple[BufferRegion, ...], tuple[BufferRegion, ...]]],
    where: Callable[[Sequence[PrimExpr]], PrimExpr] | None = None,
) -> BlockRealize | For:
    """Return loops over the elements of a part of a shape, around a block with a variable for each dimension.

    `where` returns a condition under which the block runs, given the values of its variables.
    """
    loops: list[tuple[Var, PrimExpr]] = []
    iter_vars: list[IterVar] = []
    values: list[PrimExpr] = []
    predicates: list[PrimExpr] = []
    for d, (extent, limits) in enumerate(zip(portion.ranges, portion.conditions, strict=True)):
        loop_var = Var(f"ax{d}", extent.extent.dtype)
        size = shape[d]
        var = Var(f"v{d}", loop_var.dtype if isinstance(size, IntImm) else size.dtype)
        value = loop_var if is_const(extent.min, 0) else extent.min + loop_var
        loops.append((loop_var, extent.extent))
        iter_vars.append(IterVar(Range.from_min_extent(const(0, var.dtype), size.astype(var.dtype)), var))
        values.append(value.astype(var.dtype))
        predicates += [limit(value) for limit in limits]
    if where is not None:
        predicates.append(where(values))
    variables = tuple(v.var for v in iter_vars)
    region = tuple(Range.from_min_extent(var, const(1, var.dtype)) for var in variables)
    reads, writes = accesses(region)
    block = Block(tuple(iter_vars), reads, writes, name, body(variables))
    nest: BlockRealize | For = BlockRealize(tuple(values), conjunction(predicates), block)
    for loop_var, extent in reversed(loops):
        nest = For(loop_var, const(0, loop_var.dtype), extent, ForKind.SERIAL, nest)
    return nest
