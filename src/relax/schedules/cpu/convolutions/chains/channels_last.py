"""Chains of convolutions (`chains.chain`) with channels-last data or results.

    E[n, c, y, x] = f(Σ We[c, ci] * X[n, y, x, ci])         is read as  Σ We[c, ci] * X1[n, ci, y, x]
    C[n, h, w, co] = k(P[n, co, h, w], X[n, h, w, co])                  C1[n, co, h, w] = k(P[n, co, h, w], X1[…])

`with_channels_first` returns a channels-first function that rules recognise, over replacement buffers. Loops written
for these are rewritten to access the function's own buffers (`own_accesses`). If no rule supports that for a chain, the
replacement buffers become copies (`with_copies`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from .....prim import PrimExpr, simplify
from .....runtime.records import dataclass
from .....tir import BlockRealize, Buffer, BufferLoad, BufferRegion, BufferStore, PrimFunc, Range, Stmt
from .....tir.nests import Nest, loads_in, nest_of, root_of
from .....tir.permuted_parameters import FIRST, LAST, PermutedAccesses, with_permuted_parameters
from .....tir.schedule.sites import element_nest, whole
from .....tir.statements import seq_of
from .....tir.written import written_params
from .chain import chain_of

CHANNEL: Final = 1
"""Index of the output channel among the variables of a nest."""
RANK: Final = 4
"""Dimensions of an image: batch, channels, rows, columns."""


@dataclass(frozen=True)
class Images:
    """Parameters of a kernel of convolutions that its rule reads and writes in either layout."""

    data: Buffer
    """The data, which are images in rows of pixels; those of a first layer have too few channels to be moved."""
    result: Buffer
    beside: tuple[Buffer, ...]
    """Images that results are computed from at their own place, such as a residual."""
    weights: tuple[Buffer, ...]
    is_first: bool = False
    """True if the data are those of a first layer."""


def images_at(store: BufferStore, params: Sequence[Buffer]) -> tuple[Buffer, ...]:
    """Return the parameters of four dimensions that the value of a store reads at the place that it writes."""
    found = dict.fromkeys(
        load.buffer
        for load in loads_in(store.value)
        if load.buffer in params
        and load.buffer.ndim == RANK
        and all(a is b for a, b in zip(load.indices, store.indices, strict=True))
    )
    return tuple(found)


def with_channels_first(func: PrimFunc) -> tuple[PrimFunc, dict[Buffer, Buffer]]:
    """Return the function in channels-first layout, and its original buffers by their replacements."""
    nests = [nest_of(stmt) for stmt in root_of(func)[1]]
    known = [nest for nest in nests if nest is not None]
    if len(known) < len(nests):
        return func, {}
    params = [buffer for buffer in func.buffer_map.values() if buffer.ndim == RANK and not buffer.strides]
    last = [buffer for buffer in params if _is_last(buffer, known)]
    if not last:
        return func, {}
    changed, made = with_permuted_parameters(func, dict.fromkeys(last, FIRST))
    return changed, {new: old for old, new in made.items()}


def _is_last(buffer: Buffer, nests: list[Nest]) -> bool:
    """True if the last index of every access is a channel: the output channel or the first reduction variable."""
    found: list[bool] = []
    for nest in nests:
        variables = nest.variables
        channels = (*variables[CHANNEL : CHANNEL + 1], *variables[RANK : RANK + 1])
        accesses = [a for a in (*nest.stores, *loads_in(nest.block.body)) if a.buffer is buffer]
        found += [any(simplify(a.indices[-1]) is channel for channel in channels) for a in accesses]
    return bool(found) and all(found)


def own_accesses(last: Mapping[Buffer, Buffer]) -> PermutedAccesses:
    """Return the rewrite of channels-first accesses back to the function's own buffers."""
    return PermutedAccesses({first: (own, LAST) for first, own in last.items()})


def with_copies(func: PrimFunc) -> PrimFunc:
    """Return a chain in channels-first layout, with copies of its channels-last buffers.

    Other functions, and chains without such buffers, are returned unchanged.
    """
    changed, last = with_channels_first(func)
    body = changed.body
    if not last or not isinstance(body, BlockRealize) or not chain_of(changed):
        return func
    written = {changed.buffer_map[changed.params[i]] for i in written_params(changed)}
    before = [_copied(first, own, True) for first, own in last.items() if first not in written]
    behind = [_copied(first, own, False) for first, own in last.items() if first in written]
    statements = seq_of([*before, *root_of(changed)[1], *behind])
    root = body.block.replace(body=statements, alloc_buffers=(*body.block.alloc_buffers, *last))
    return func.replace(body=body.replace(block=root))


def _copied(first: Buffer, own: Buffer, is_read: bool) -> Stmt:
    """Return the nest that copies from (`is_read`) or to a buffer of the function."""

    def copied(indices: Sequence[PrimExpr]) -> Stmt:
        there = [indices[axis] for axis in LAST]
        if is_read:
            return BufferStore(first, BufferLoad(own, there), indices)
        return BufferStore(own, BufferLoad(first, indices), there)

    def regions(region: tuple[Range, ...]) -> tuple[tuple[BufferRegion, ...], tuple[BufferRegion, ...]]:
        a, b = (BufferRegion(first, region),), (BufferRegion(own, tuple(region[axis] for axis in LAST)),)
        return (b, a) if is_read else (a, b)

    portion = whole(first.shape, [str(size.dtype) for size in first.shape])
    return element_nest(f"{first.name}_copied", first.shape, portion, copied, regions)
