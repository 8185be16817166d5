"""transform_layout: rearrange the elements of a buffer according to an index map.

    B = T.alloc_buffer((128, 128))                 B = T.alloc_buffer((8, 8, 16, 16))
    with T.block("B"):                             with T.block("B"):
        B[vi, vj] = A[vi, vj] * 2.0                    B[vi // 16, vj // 16, vi % 16, vj % 16] = A[vi, vj] * 2.0

    after transform_layout(block, ("write", 0), lambda i, j: (i // 16, j // 16, i % 16, j % 16))

Parameters change too: callers must then pass a tensor in the new layout. If some elements of the new shape receive no
old element, `pad_value` is their value: a block after the last writer of the buffer stores it. For a buffer that is
only read, `pad_value` is an assumption on the caller's tensor, which no generated code relies on.

Rejected: maps that are not proved to be injective; padding without `pad_value`; buffers with strides, views, vector
accesses, or whose pointer is passed on; parameters whose old shape binds a size that the new shape does not bind. If
the parameter or another one is written, the function gets the attribute ``tir.noalias``, since the meaning of
overlapping arguments depends on their layouts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

from ....prim import PrimExpr, Var, convert, is_const, substitute
from ...buffer import Buffer, BufferRegion
from ...dependence import loads_in, scope_of
from ...index_map import IndexMap
from ...statements import seq_of
from ...stmt import BufferStore, PrimFunc
from ...usage import shape_vars_bound_by
from ...written import written_params
from ..base import ScheduleBase, primitive
from ..buffers import allocating_block, demand_apart, either_buffer, is_parameter, require_accesses_only
from ..error import ARGUMENT, BUFFER, ScheduleError
from ..regions import read_regions, written_regions
from ..relayout import Relayout, mapped_shape, moved_indices
from ..rv import BlockRV
from ..sites import edited, element_nest, index_dtypes, paths, site_behind, whole
from ..state import ScheduleState

Mapping: TypeAlias = "IndexMap | Callable[..., Any]"


@primitive
def transform_layout(
    sch: ScheduleBase,
    block: BlockRV,
    buffer: tuple[str, int] | str | Buffer,
    index_map: Mapping,
    pad_value: int | float | PrimExpr | IndexMap | Callable[..., Any] | None = None,
    *,
    assume_injective_transform: bool = False,
) -> None:
    """Rearrange the elements of a buffer that a block reads or writes.

    Parameters
    ----------
    buffer : ``("read", index)``, ``("write", index)``, a name, or a Buffer.
    index_map : map from the old to the new indices of an element.
    pad_value : value of elements that receive no old element: a number, or a function of their indices.
    assume_injective_transform : has no effect: injectivity is always proved.

    Raises ScheduleError in the cases listed in the module's docstring.
    """
    del assume_injective_transform
    state, realize = sch.state, sch.state.realize(block)
    old = either_buffer(sch, realize, buffer)
    regions = [*written_regions(realize, old), *read_regions(realize, old)]
    mapping = index_map_argument(sch, index_map, old.ndim).with_dtype(
        index_dtypes(old, regions)[0] if old.ndim else "int64"
    )
    require_accesses_only(state, block.function, old)
    if old.strides or old.elem_offset is not None:
        raise ScheduleError(BUFFER, f"buffer {old.name} has strides or an offset", realize)
    if callable(pad_value):
        pad_value = sch.recorded["pad_value"] = as_index_map(pad_value, len(mapping.final_indices))
    padding = Padding(mapping, old, pad_value)
    new = old.replace(data=Var(old.data.name, "handle"), shape=mapped_shape(mapping, old.shape), axis_separators=())
    change = Relayout(old, new, partial(moved_indices, mapping))
    if is_parameter(state.func(block.function), old):
        func = _with_parameter(state.func(block.function), old, new, change)
        state.replace_function(block.function, func)
        _demand_apart(state, block.function, func, new)
        around = state.root(block.function)
    else:
        around = allocating_block(state, block, old)
        changed = around.replace(block=change.visit(around.block))
        state.replace(around, changed, block.function)
        around = changed
    if padding.exists:
        padding.write(state, BlockRV(block.function, around.block.name_hint), new)


def index_map_argument(sch: ScheduleBase, value: Any, ndim: int) -> IndexMap:
    """Return the argument `index_map`; the trace holds it as an IndexMap."""
    mapping = as_index_map(value, ndim)
    sch.recorded["index_map"] = mapping
    return mapping


def as_index_map(value: Any, ndim: int) -> IndexMap:
    """Return an index map, or the one described by a function of `ndim` indices."""
    try:
        if not isinstance(value, IndexMap):
            if not callable(value):
                raise ScheduleError(
                    ARGUMENT, f"index_map must be an IndexMap or a function, found {type(value).__name__}"
                )
            value, separators = IndexMap.from_func_with_separators(value, ndim)
            if separators:
                raise ScheduleError(
                    ARGUMENT,
                    "index_map must have no axis separators",
                    hint="set_axis_separator takes them, after transform_layout",
                )
        if len(value.initial_indices) != ndim:
            raise ValueError(f"the index map takes {len(value.initial_indices)} indices, expected {ndim}")
    except (ValueError, TypeError) as error:
        raise ScheduleError(ARGUMENT, str(error)) from error
    return IndexMap(value.initial_indices, value.final_indices)


class Padding:
    """The elements of a new layout that receive no element of the old one, and their values."""

    def __init__(self, mapping: IndexMap, old: Buffer, value: Any) -> None:
        try:
            inverse, condition = mapping.non_surjective_inverse(old.shape)
        except ValueError as error:
            raise ScheduleError(ARGUMENT, str(error)) from error
        self.places, self.condition, self.dtype = inverse.initial_indices, condition, old.dtype
        self.exists = not is_const(condition, 0)
        self.value = value
        if self.exists and value is None:
            raise ScheduleError(
                ARGUMENT,
                f"the new layout of buffer {old.name} has places to which nothing moves, where {condition}",
                hint="give pad_value=, what they shall hold",
            )

    def write(self, state: ScheduleState, scope: BlockRV, buffer: Buffer) -> None:
        """Insert a block that writes the padding after the last writer of a buffer, if there is one."""
        facts = scope_of(state.block(scope))
        writers = facts.writers.get(buffer, [])
        if not writers:
            return
        site = site_behind(state, scope, paths(facts.block.body)[writers[-1]], [])
        dtypes = index_dtypes(buffer, written_regions(writers[-1], buffer))
        nest = element_nest(
            state.fresh_name(scope.function, f"{buffer.name}_pad"),
            buffer.shape,
            whole(buffer.shape, dtypes),
            lambda indices: BufferStore(buffer, self.value_at(indices), indices),
            lambda region: ((), (BufferRegion(buffer, region),)),
            lambda indices: self._moved(self.condition, indices),
        )
        realize = state.realize(scope)
        body = edited(facts.block.body, {site.anchor: lambda stmt: seq_of((stmt, nest))})
        state.replace(realize, realize.replace(block=realize.block.replace(body=body)), scope.function)

    def value_at(self, indices: Sequence[PrimExpr]) -> PrimExpr:
        """Return the padding value at some indices."""
        value = self.value
        if isinstance(value, IndexMap):
            mapping = value
            if len(mapping.final_indices) != 1:
                raise ScheduleError(ARGUMENT, f"pad_value must give one value, found {len(mapping.final_indices)}")
            table = {var: index.astype(var.dtype) for var, index in zip(mapping.initial_indices, indices, strict=True)}
            value = substitute(mapping.final_indices[0], table)
        expr = convert(value)
        if loads_in(expr):
            raise ScheduleError(ARGUMENT, "pad_value must not read a buffer")
        return expr.astype(self.dtype)

    def _moved(self, expr: PrimExpr, indices: Sequence[PrimExpr]) -> PrimExpr:
        table = {var: index.astype(var.dtype) for var, index in zip(self.places, indices, strict=True)}
        return substitute(expr, table)


def _with_parameter(func: PrimFunc, old: Buffer, new: Buffer, change: Relayout) -> PrimFunc:
    """Replace a parameter's buffer and its accesses in a function."""
    buffers = {param: new if buffer is old else buffer for param, buffer in func.buffer_map.items()}
    bound = {*func.params, *(var for buffer in buffers.values() for var in shape_vars_bound_by(buffer))}
    lost = [var.name for var in shape_vars_bound_by(old) if var not in bound]
    if lost:
        raise ScheduleError(
            BUFFER,
            f"the new shape of parameter {old.name} does not say what {', '.join(lost)} is",
            hint="make the size a parameter, or the size of another buffer",
        )
    return func.replace(buffer_map=buffers, body=change.visit(func.body))


def _demand_apart(state: ScheduleState, function: str, func: PrimFunc, buffer: Buffer) -> None:
    """Set ``tir.noalias`` if a parameter is written, or another parameter is."""
    written = {func.buffer_map[func.params[i]] for i in written_params(func)}
    demand_apart(state, function, buffer, func.buffer_map.values() if buffer in written else written)
