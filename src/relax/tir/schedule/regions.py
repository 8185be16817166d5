"""Regions of a block's accesses as boxes over outer loops, widened over all iterations of inner loops."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from ...prim import Analyzer, Call, IntImm, PrimExpr, Var, free_vars, post_order, substitute
from ...prim.iter_map import IterMapLevel, detect_iter_map
from ..buffer import Buffer, BufferLoad, BufferRegion, Range
from ..dependence import accesses
from ..regions import Interval, bounds_of
from ..stmt import BlockRealize, For

Box: TypeAlias = "list[Interval | None]"
"""Least and greatest index of each dimension; None for the whole dimension."""


def loop_domain(loops: Iterable[For]) -> dict[Var, Interval | None]:
    """Return the intervals of loop variables, over variables bound outside; loops are given outermost first."""
    domain: dict[Var, Interval | None] = {}
    for loop in loops:
        low, high = bounds_of(loop.min, domain), bounds_of(loop.min + loop.extent - 1, domain)
        domain[loop.loop_var] = None if low is None or high is None else (low[0], high[1])
    return domain


def relaxed_box(region: BufferRegion, realize: BlockRealize, inner: Iterable[For]) -> Box:
    """Return a box that contains a region of a block, over all iterations of the loops in `inner`."""
    values = {v.var: value for v, value in zip(realize.block.iter_vars, realize.iter_values, strict=True)}
    domain = loop_domain(inner)
    box: Box = []
    for extent in region.region:
        low = bounds_of(substitute(extent.min, values), domain)
        high = bounds_of(substitute(extent.min + extent.extent - 1, values), domain)
        box.append(None if low is None or high is None else (low[0], high[1]))
    return box


def reads_memory(expr: PrimExpr) -> bool:
    """True if an expression loads from a buffer or calls a function: its value may differ at another place."""
    reads: list[PrimExpr] = []
    post_order(expr, lambda node: reads.append(node) if isinstance(node, (BufferLoad, Call)) else None)
    return bool(reads)


def written_regions(realize: BlockRealize, buffer: Buffer) -> list[BufferRegion]:
    """Return the regions of a buffer that a block writes."""
    return [region for region in accesses(realize.block).writes if region.buffer is buffer]


def read_regions(realize: BlockRealize, buffer: Buffer) -> list[BufferRegion]:
    """Return the regions of a buffer that a block reads."""
    return [region for region in accesses(realize.block).reads if region.buffer is buffer]


def in_own_slab(writes: Box, reads: Box, var: Var, analyzer: Analyzer, domain: Range | None = None) -> bool:
    """True if a loop's variable partitions the buffer into slabs, and each iteration reads only its own slab.

    The slab of an iteration is the range it writes. Either each slab starts after the end of the previous one, in some
    dimension; or the slabs of several dimensions together are distinct, as for ``f // m`` and ``f % m``, which requires
    the variable's range `domain`.
    """
    pairs = [
        (written, read)
        for written, read in zip(writes, reads, strict=True)
        if written is not None and read is not None and _lies_in(read, written, analyzer)
    ]
    if any(_steps_apart(written, var, analyzer) for written, _ in pairs):
        return True
    if domain is None:
        return False
    digits = [written[0] for written, _ in pairs if _is_spaced(written, var, domain, analyzer)]
    mapped = detect_iter_map(digits, {var: domain}, True, IterMapLevel.Injective, False)
    return bool(digits) and bool(mapped.indices)


def _lies_in(inner: Interval, outer: Interval, analyzer: Analyzer) -> bool:
    return analyzer.can_prove(outer[0] <= inner[0]) and analyzer.can_prove(inner[1] <= outer[1])


def _steps_apart(written: Interval, var: Var, analyzer: Analyzer) -> bool:
    """True if each step of a variable moves a range past its previous end."""
    low, high = written
    step: PrimExpr = analyzer.simplify(substitute(low, {var: var + 1}) - low)
    return var not in set(free_vars(step)) and analyzer.can_prove(high - low < step)


def _is_spaced(written: Interval, var: Var, domain: Range, analyzer: Analyzer) -> bool:
    """True if ranges with different starts, for different values of a variable, do not overlap."""
    low, high = written
    offset = analyzer.simplify(low - substitute(low, {var: domain.min}))
    length = analyzer.simplify(high - low + 1)
    if set(free_vars(offset)) != {var} or not isinstance(length, IntImm):
        return False
    return analyzer.modular_set(offset).coeff >= length.value
