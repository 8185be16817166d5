"""Regions of a buffer as a block's loops see them: boxes over the loops that are kept, widened over the others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from ...prim import Analyzer, Call, PrimExpr, Var, free_vars, post_order, substitute
from ..buffer import Buffer, BufferLoad, BufferRegion
from ..regions import Interval, bounds_of
from ..stmt import BlockRealize, For
from .scope import accesses

Box: TypeAlias = "list[Interval | None]"
"""For each dimension the least and the greatest index; None: the whole dimension."""


def loop_domain(loops: Iterable[For]) -> dict[Var, Interval | None]:
    """The values of the variables of loops, given outermost first, over the variables that are free around them."""
    domain: dict[Var, Interval | None] = {}
    for loop in loops:
        low, high = bounds_of(loop.min, domain), bounds_of(loop.min + loop.extent - 1, domain)
        domain[loop.loop_var] = None if low is None or high is None else (low[0], high[1])
    return domain


def relaxed_box(region: BufferRegion, realize: BlockRealize, inner: Iterable[For]) -> Box:
    """A box that holds everything a block touches of a region, over all iterations of the loops in `inner`."""
    values = {v.var: value for v, value in zip(realize.block.iter_vars, realize.iter_values, strict=True)}
    domain = loop_domain(inner)
    box: Box = []
    for extent in region.region:
        low = bounds_of(substitute(extent.min, values), domain)
        high = bounds_of(substitute(extent.min + extent.extent - 1, values), domain)
        box.append(None if low is None or high is None else (low[0], high[1]))
    return box


def reads_memory(expr: PrimExpr) -> bool:
    """True if a value is read from a buffer or given by a call: it may be another one at another place."""
    reads: list[PrimExpr] = []
    post_order(expr, lambda part: reads.append(part) if isinstance(part, (BufferLoad, Call)) else None)
    return bool(reads)


def written_regions(realize: BlockRealize, buffer: Buffer) -> list[BufferRegion]:
    """The regions of a buffer that a block writes."""
    return [region for region in accesses(realize.block).writes if region.buffer is buffer]


def read_regions(realize: BlockRealize, buffer: Buffer) -> list[BufferRegion]:
    """The regions of a buffer that a block reads."""
    return [region for region in accesses(realize.block).reads if region.buffer is buffer]


def in_own_slab(writes: Box, reads: Box, var: Var, analyzer: Analyzer) -> bool:
    """True if some dimension is cut into slabs by a loop's variable, and what is read lies in the slab that is written.

    The slab of an iteration is the range it writes; each next one begins behind the end of the one before.
    """
    return any(
        written is not None and read is not None and _in_slab(written, read, var, analyzer)
        for written, read in zip(writes, reads, strict=True)
    )


def _in_slab(written: Interval, read: Interval, var: Var, analyzer: Analyzer) -> bool:
    low, high = written
    step: PrimExpr = analyzer.simplify(substitute(low, {var: var + 1}) - low)
    if var in set(free_vars(step)):
        return False
    conditions = (high - low < step, low <= read[0], read[1] <= high)
    return all(analyzer.can_prove(condition) for condition in conditions)


__all__ = [
    "Box",
    "in_own_slab",
    "loop_domain",
    "read_regions",
    "reads_memory",
    "relaxed_box",
    "written_regions",
]
