"""reindex, reindex_cache_read, reindex_cache_write: let a block access a copy indexed by its own variables.

    for i, j in T.grid(64, 128):                   for ax0, ax1 in T.grid(64, 128):
        with T.block("B"):                             with T.block("A_reindex"):
            vi, vj = T.axis.remap("SS", [i, j])            v0, v1 = T.axis.remap("SS", [ax0, ax1])
            B[vi, vj] = A[vj, vi] * 2.0                    A_reindex[v0, v1] = A[v1, v0]
                                                   for i, j in T.grid(64, 128):
                                                       with T.block("B"):
    after reindex(B, ("read", 0))                          vi, vj = T.axis.remap("SS", [i, j])
                                                           B[vi, vj] = A_reindex[vi, vj] * 2.0

The new buffer of `reindex` has a dimension for each block variable in the indices. The buffer of `reindex_cache_read`
and `reindex_cache_write` is laid out by a map from all variables of the block, in another storage scope. Read elements
are copied before the block, written ones after it.

Rejected: a block that accesses the buffer at several indices, or at indices that depend on more than its variables;
maps that send two elements to the same indices; and the cases that `cache_read` and `cache_write` reject.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....ir import Node, structural_equal
from ....prim import PrimExpr, Var, const, free_vars, intrin, is_const, substitute
from ....runtime.records import dataclass
from ...buffer import Buffer, BufferLoad, BufferRegion, IterVar, Range, decl_buffer
from ...dependence import scope_of
from ...functor import post_order_visit
from ...index_map import IndexMap
from ...stmt import BlockRealize, BufferStore, Stmt
from ..base import ScheduleBase, primitive
from ..buffers import Access, buffer_argument, either_buffer, is_allocated_in, require_accesses_only, require_scope_name
from ..conditions import require_complete_or_reduction
from ..coverage import require_copied_after_init, writes_all_of
from ..error import ARGUMENT, BUFFER, COVER, ORDER, ScheduleError
from ..regions import read_regions, written_regions
from ..relayout import Relayout, mapped_shape, moved_indices
from ..rv import BlockRV
from ..sites import Site, element_nest, paths, site_before, site_behind, whole
from ..state import Placed, ScheduleState
from .cache_read_write import blocks_in, put_copy, require_apart
from .transform_layout import Mapping, index_map_argument


@primitive
def reindex(sch: ScheduleBase, block: BlockRV, buffer: tuple[str, int] | str | Buffer) -> BlockRV:
    """Let a block access a copy of a buffer, indexed by the block's variables; returns the copying block.

    Parameters
    ----------
    buffer : ``("read", index)``, ``("write", index)``, a name, or a Buffer.

    Raises ScheduleError in the cases listed in the module's docstring.
    """
    realize = sch.state.realize(block)
    old = either_buffer(sch, realize, buffer)
    access: Access = "write" if written_regions(realize, old) else "read"
    return _reindexed(sch, block, old, access, None, old.scope, "reindex")


@primitive
def reindex_cache_read(
    sch: ScheduleBase, block: BlockRV, read_buffer_index: int | str | Buffer, storage_scope: str, index_map: Mapping
) -> BlockRV:
    """Let a block read a copy of a buffer in a storage scope, laid out by a map from the block's variables.

    Parameters
    ----------
    read_buffer_index : an index into the block's reads, a name, or a Buffer.
    index_map : map from the block's variables to the indices of the copy.

    Returns the block that copies. Raises ScheduleError in the cases listed in the module's docstring.
    """
    realize = sch.state.realize(block)
    old = buffer_argument(sch, realize, read_buffer_index, "read", "read_buffer_index")
    if written_regions(realize, old):
        raise ScheduleError(
            ORDER, f"block {block.name} reads and writes buffer {old.name}: it would not see what it writes", realize
        )
    mapping = index_map_argument(sch, index_map, len(realize.block.iter_vars))
    scope = require_scope_name(storage_scope)
    return _reindexed(sch, block, old, "read", mapping, scope, scope.replace(".", "_"))


@primitive
def reindex_cache_write(
    sch: ScheduleBase, block: BlockRV, write_buffer_index: int | str | Buffer, storage_scope: str, index_map: Mapping
) -> BlockRV:
    """Let a block write a buffer in a storage scope, laid out by a map from its variables, which is then copied back.

    Parameters
    ----------
    write_buffer_index : an index into the block's writes, a name, or a Buffer.
    index_map : map from the block's variables to the indices of the new buffer.

    Returns the block that copies. Raises ScheduleError in the cases listed in the module's docstring.
    """
    realize = sch.state.realize(block)
    old = buffer_argument(sch, realize, write_buffer_index, "write", "write_buffer_index")
    mapping = index_map_argument(sch, index_map, len(realize.block.iter_vars))
    scope = require_scope_name(storage_scope)
    return _reindexed(sch, block, old, "write", mapping, scope, scope.replace(".", "_"))


# ------------------------------------------------------------------------------------------ the new layout


@dataclass
class Reindexing:
    """Indices of one access in the old and in the new buffer, as functions of the block's variables."""

    iter_vars: tuple[IterVar, ...]
    """The variables of the block that occur in the indices."""
    old: Buffer
    places: tuple[PrimExpr, ...]
    new: Buffer
    moved: tuple[PrimExpr, ...]

    @property
    def extents(self) -> list[PrimExpr]:
        """Number of values of each variable."""
        return [_domain(iter_var).extent for iter_var in self.iter_vars]

    def nest(self, state: ScheduleState, site: Site, access: Access) -> Placed:
        """Return loops around a block that copies all accessed elements, as far as they are inside the buffer."""
        analyzer = site.analyzer.copy()
        for iter_var in self.iter_vars:
            analyzer.bind(iter_var.var, _domain(iter_var), override=True)
        conditions = [
            condition
            for index, size in zip(self.places, self.old.shape, strict=True)
            for condition in (index >= 0, index < size)
            if not analyzer.can_prove(condition)
        ]

        def at(expressions: Sequence[PrimExpr], values: Sequence[PrimExpr]) -> tuple[PrimExpr, ...]:
            table = {v.var: value.astype(v.var.dtype) for v, value in zip(self.iter_vars, values, strict=True)}
            return tuple(substitute(expr, table) for expr in expressions)

        source, target = (self.old, self.places), (self.new, self.moved)
        if access == "write":
            source, target = target, source

        def body(variables: tuple[Var, ...]) -> BufferStore:
            load = BufferLoad(source[0], at(source[1], variables))
            return BufferStore(target[0], load, at(target[1], variables))

        def regions(region: tuple[Range, ...]) -> tuple[tuple[BufferRegion, ...], tuple[BufferRegion, ...]]:
            values = [item.min for item in region]
            read, written = (_element(source[0], at(source[1], values)), _element(target[0], at(target[1], values)))
            return (read,), (written,)

        def where(values: Sequence[PrimExpr]) -> PrimExpr:
            return intrin.all(*at(conditions, values))

        dtypes = [str(iter_var.var.dtype) for iter_var in self.iter_vars]
        name = state.fresh_name(site.scope.function, self.new.name)
        portion = whole(self.extents, dtypes)
        return element_nest(name, self.extents, portion, body, regions, where if conditions else None)


def _domain(iter_var: IterVar) -> Range:
    assert iter_var.dom is not None
    return iter_var.dom


def _element(buffer: Buffer, indices: Sequence[PrimExpr]) -> BufferRegion:
    return BufferRegion(buffer, tuple(Range.from_min_extent(i, const(1, i.dtype)) for i in indices))


def _only_place(realize: BlockRealize, buffer: Buffer) -> tuple[PrimExpr, ...]:
    """Return the indices at which a block accesses a buffer. Raises ScheduleError if there are several."""
    index_tuples: list[tuple[PrimExpr, ...]] = []

    def is_new(indices: tuple[PrimExpr, ...]) -> bool:
        return not any(all(map(structural_equal, indices, other)) for other in index_tuples)

    def visit(node: Node) -> None:
        if isinstance(node, (BufferLoad, BufferStore)) and node.buffer is buffer and is_new(node.indices):
            index_tuples.append(node.indices)

    post_order_visit(realize.block, visit)
    name = realize.block.name_hint
    if len(index_tuples) != 1:
        raise ScheduleError(BUFFER, f"block {name} accesses buffer {buffer.name} at several places", realize)
    own = {iter_var.var for iter_var in realize.block.iter_vars}
    sizes = {var for size in buffer.shape for var in free_vars(size)}
    other_vars = {var for index in index_tuples[0] for var in free_vars(index)} - own - sizes
    if other_vars or any(index.dtype.lanes > 1 for index in index_tuples[0]):
        shown = ", ".join(sorted(var.name for var in other_vars)) or "vectors of indices"
        raise ScheduleError(
            BUFFER,
            f"the place at which block {name} accesses buffer {buffer.name} depends on {shown}, not only on its "
            "variables",
            realize,
        )
    return index_tuples[0]


def _reindexing(realize: BlockRealize, buffer: Buffer, mapping: IndexMap | None, scope: str, suffix: str) -> Reindexing:
    indices = _only_place(realize, buffer)
    variables = [iter_var.var for iter_var in realize.block.iter_vars]
    in_places = {var for index in indices for var in free_vars(index)}
    if mapping is None:
        kept = [var for var in variables if var in in_places]
        mapping = IndexMap(tuple(variables), tuple(kept))
    in_map = {
        var
        for var, initial in zip(variables, mapping.initial_indices, strict=True)
        if any(initial in set(free_vars(final)) for final in mapping.final_indices)
    }
    used = tuple(v for v in realize.block.iter_vars if v.var in in_places | in_map)
    for iter_var in used:
        if iter_var.dom is None or not is_const(iter_var.dom.min, 0):
            raise ScheduleError(ARGUMENT, f"the domain of {iter_var.var.name} does not begin at 0", realize)
    own = {v.var for v in used}
    initial = tuple(i for i, var in zip(mapping.initial_indices, variables, strict=True) if var in own)
    restricted = IndexMap(initial, mapping.final_indices)
    try:
        shape = mapped_shape(restricted, [_domain(v).extent for v in used])
    except ValueError as error:
        raise ScheduleError(ARGUMENT, str(error), realize) from error
    new = decl_buffer(shape, str(buffer.dtype), f"{buffer.name}_{suffix}", scope=scope)
    moved = tuple(moved_indices(restricted, [v.var for v in used]))
    return Reindexing(used, buffer, indices, new, moved)


# ------------------------------------------------------------------------------------------ changing the program


def _reindexed(
    sch: ScheduleBase,
    block: BlockRV,
    buffer: Buffer,
    access: Access,
    mapping: IndexMap | None,
    storage_scope: str,
    suffix: str,
) -> BlockRV:
    state, realize = sch.state, sch.state.realize(block)
    scope = BlockRV(block.function, state.scope(block).block.name_hint)
    require_accesses_only(state, block.function, buffer)
    plan = _reindexing(realize, buffer, mapping, storage_scope, suffix)
    site = (_site_of_read if access == "read" else _site_of_write)(state, scope, realize, plan)
    nest = plan.nest(state, site, access)
    change = Relayout(buffer, plan.new, lambda indices: plan.moved)

    def changed(stmt: Stmt) -> Stmt:
        assert isinstance(stmt, BlockRealize)
        return stmt.replace(block=change.visit(stmt.block))

    return put_copy(state, site, nest, plan.new, {state.realize(block): changed})


def _site_of_read(state: ScheduleState, scope: BlockRV, realize: BlockRealize, plan: Reindexing) -> Site:
    facts = scope_of(state.block(scope))
    ways = paths(facts.block.body)
    writers = facts.writers.get(plan.old, [])
    site, span = site_before(state, scope, [ways[realize]], [ways[writer] for writer in writers])
    for writer in (child for stmt in span for child in blocks_in(stmt) if child in writers):
        raise ScheduleError(
            ORDER,
            f"block {writer.block.name_hint} writes buffer {plan.old.name} between the copy and the block",
            writer,
        )
    require_apart(state, scope, plan.old, span)
    return site


def _site_of_write(state: ScheduleState, scope: BlockRV, realize: BlockRealize, plan: Reindexing) -> Site:
    facts = scope_of(state.block(scope))
    require_complete_or_reduction(realize, facts.block)
    for iter_var in plan.iter_vars:
        if iter_var.iter_type != "spatial":
            raise ScheduleError(
                ARGUMENT,
                f"the index map uses {iter_var.var.name}, over which block {realize.block.name_hint} sums up",
                realize,
            )
    ways = paths(facts.block.body)
    readers = [ways[child] for child in facts.children if child is not realize and read_regions(child, plan.old)]
    site = site_behind(state, scope, ways[realize], readers)
    require_copied_after_init(site, realize)
    variables = _element(plan.new, [iter_var.var for iter_var in plan.iter_vars]).region
    portion = whole(plan.extents, [str(iter_var.var.dtype) for iter_var in plan.iter_vars])
    region = BufferRegion(decl_buffer(plan.extents, str(plan.old.dtype)), variables)
    if not is_allocated_in(facts.block, plan.old) and not writes_all_of(site, realize, ways[realize], region, portion):
        raise ScheduleError(
            COVER,
            f"block {realize.block.name_hint} is not known to run for all values of its variables: what it does not "
            f"write of {plan.old.name} would be overwritten",
            realize,
        )
    require_apart(state, scope, plan.old, [site.anchor])
    return site
