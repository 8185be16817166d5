"""annotate_buffer_access, unsafe_hide_buffer_access: change a block's declared reads and writes.

    with T.block("B"):                         with T.block("B"):
        T.reads(A[0:128])                          T.reads(A[vi * 2:vi * 2 + 2])
        B[vi] = A[vi * 2 + vi % 2]                 T.block_attr({"explicit_read_region": 0})
                                                   B[vi] = A[vi * 2 + vi % 2]

    after annotate_buffer_access(B, 0, "read", lambda vi: ((vi * 2, vi * 2 + 2),))

``unsafe_hide_buffer_access(B, "read", [0])`` removes the first of the declared reads. Primitives inspect a block's body
instead of its declared accesses, but enclosing blocks inherit the declared accesses, so removing them is unsafe.

Rejected: regions that are not proved to contain all accesses of the block.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, cast

from ....prim import PrimExpr, Var, convert
from ...buffer import BufferRegion, Range
from ...index_map import IndexMap
from ...stmt import Block, BlockRealize
from ..base import ScheduleBase, primitive
from ..buffers import Access, buffer_argument
from ..conditions import analyzer_at
from ..error import ARGUMENT, COVER, ScheduleError
from ..regions import read_regions, written_regions
from ..rv import BlockRV


@primitive
def annotate_buffer_access(
    sch: ScheduleBase, block: BlockRV, buffer_index: int, buf_type: str, gen_new_ranges: Callable[..., Any] | IndexMap
) -> None:
    """Declare the region of a buffer that a block reads or writes.

    Parameters
    ----------
    buffer_index : an index into the block's reads or writes.
    buf_type : "read" or "write".
    gen_new_ranges : function of the block's variables that returns (begin, end) or one index for each dimension of the
        buffer; or begin and end of each dimension in turn, as an IndexMap does.

    Raises ScheduleError for a region that is not proved to contain all accesses of the block.
    """
    realize = sch.state.realize(block)
    access = _access(buf_type, ("read", "write"))
    buffer = buffer_argument(sch, realize, buffer_index, access, "buffer_index")
    variables = [iter_var.var for iter_var in realize.block.iter_vars]
    if not isinstance(gen_new_ranges, IndexMap):
        gen_new_ranges = _as_index_map(gen_new_ranges, len(variables), buffer.ndim)
        sch.recorded["gen_new_ranges"] = gen_new_ranges
    ends = gen_new_ranges.map_indices(variables)
    ranges = tuple(Range(*pair) for pair in zip(ends[::2], ends[1::2], strict=True))
    if len(ranges) != buffer.ndim:
        raise ScheduleError(
            ARGUMENT, f"gen_new_ranges gives {len(ranges)} ranges, buffer {buffer.name} has {buffer.ndim} dimensions"
        )
    region = BufferRegion(buffer, ranges)
    _require_inside(sch, block, realize, region, access)
    name = "reads" if access == "read" else "writes"
    declared: tuple[BufferRegion, ...] = getattr(realize.block, name)
    if all(item.buffer is not buffer for item in declared):
        declared = (*declared, region)
    declared = tuple(region if item.buffer is buffer else item for item in declared)
    number = next(i for i, item in enumerate(declared) if item is region)
    notes = {**realize.block.annotations, f"explicit_{access}_region": number}
    _put(sch, block, realize, realize.block.replace(**{name: declared}, annotations=notes))


@primitive
def unsafe_hide_buffer_access(sch: ScheduleBase, block: BlockRV, buf_type: str, buf_index_array: Sequence[int]) -> None:
    """Remove reads ("read"), writes ("write") or both ("opaque") from a block's declared accesses, by their indices.

    Raises ScheduleError for an index out of range.
    """
    realize = sch.state.realize(block)
    access = _access(buf_type, ("read", "write", "opaque"))
    changes: dict[str, tuple[BufferRegion, ...]] = {}
    for name in {"read": ("reads",), "write": ("writes",), "opaque": ("reads", "writes")}[access]:
        declared: tuple[BufferRegion, ...] = getattr(realize.block, name)
        for index in buf_index_array:
            if not 0 <= index < len(declared):
                raise ScheduleError(
                    ARGUMENT, f"block {block.name} has {len(declared)} {name}, there is none of index {index}", realize
                )
        changes[name] = tuple(item for i, item in enumerate(declared) if i not in set(buf_index_array))
    _put(sch, block, realize, realize.block.replace(**changes))


def _access(value: Any, allowed: tuple[str, ...]) -> Access:
    if value not in allowed:
        shown = " or ".join(f'"{item}"' for item in allowed)
        raise ScheduleError(ARGUMENT, f"buf_type must be {shown}, found {value!r}")
    return cast(Access, value)


def _as_index_map(function: Callable[..., Any], count: int, ndim: int) -> IndexMap:
    """Convert a function of block variables to an IndexMap with the begin and end of each dimension in turn."""

    def ends(*variables: Var) -> list[PrimExpr]:
        items = _items(function(*variables))
        if len(items) == 2 * ndim and not any(isinstance(item, (tuple, list, Range)) for item in items):
            items = list(zip(items[::2], items[1::2], strict=True))
        return [end for item in map(_range, items) for end in (item.min, item.min + item.extent)]

    names = [p.name for p in inspect.signature(function).parameters.values() if p.kind is not p.VAR_POSITIONAL]
    names += [f"i{d}" for d in range(len(names), count)]
    variables = tuple(Var(name, "int64") for name in names)
    return IndexMap(variables, tuple(ends(*variables)))


def _items(value: Any) -> list[Any]:
    return list(cast("Sequence[Any]", value)) if isinstance(value, (tuple, list)) else [value]


def _range(item: Any) -> Range:
    if isinstance(item, Range):
        return item
    if isinstance(item, (tuple, list)):
        ends = list(cast("Sequence[Any]", item))
        if len(ends) != 2:
            raise ScheduleError(
                ARGUMENT, f"gen_new_ranges gives {len(ends)} values for a range, which has a begin and an end"
            )
        return Range(*ends)
    index = convert(item)
    return Range.from_min_extent(index, convert(1).astype(index.dtype))


def _require_inside(
    sch: ScheduleBase, block: BlockRV, realize: BlockRealize, region: BufferRegion, access: Access
) -> None:
    """Raise unless all accesses of a block to a buffer are proved to be inside a region."""
    analyzer = analyzer_at(sch.state, block, inclusive=True)
    regions = (read_regions if access == "read" else written_regions)(realize, region.buffer)
    for used in regions:
        for d, (inner, outer) in enumerate(zip(used.region, region.region, strict=True)):
            conditions: tuple[PrimExpr, ...] = (
                outer.min <= inner.min, inner.min + inner.extent <= outer.min + outer.extent,
            )  # fmt: skip
            if not all(analyzer.can_prove(condition) for condition in conditions):
                verb = "reads" if access == "read" else "writes"
                last = analyzer.simplify(inner.min + inner.extent - 1)
                raise ScheduleError(
                    COVER,
                    f"block {block.name} {verb} indices {inner.min} to {last} of dimension {d} of "
                    f"{region.buffer.name}, which are not known to be in the region",
                    realize,
                )


def _put(sch: ScheduleBase, rv: BlockRV, realize: BlockRealize, block: Block) -> None:
    sch.state.replace(realize, realize.replace(block=block), rv.function)
