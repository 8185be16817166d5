"""Space of loop nests for any sum over a box: tiles, register tile, vector axis, order and unrolling of the sums.

    for i, j in T.parallel(tiles):                              sampled: the size of a tile along each axis
        acc[0:4, 0:16] = 0
        for k in …:                                             sampled: the order of sums, an unrolled inner part
            for i in T.unroll(4): for j in T.vectorized(16):    sampled: the axis of vectors
                acc[i, j] += …
        C[tile] = acc, or what the next block makes of it

Made by primitives of `tir.Schedule`, which refuse what would change a result: so it serves kernels that no rule
knows, and dynamic sizes. Blocks before the sum, such as a padding, are computed where they are read.

Not for functions with several sums, with more than one block behind the sum, and long sums of floats that are no
sums of products: rules add those in blocks, for their accuracy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from .. import tir
from ..ir import DiagnosticError
from ..prim import Add, IntImm, Mul, free_vars
from ..tir import Block, BufferStore
from ..tir.functor import post_order_visit
from ..tir.nests import loads_in
from ..tir.schedule import BlockRV, ExprRV, LoopRV, ScheduleError
from ..tir.schedule.error import ARGUMENT

TILES: Final = (1, 2, 3, 4, 6, 8)
"""Sizes of a register tile along axes without vectors."""
VECTORS: Final = (8, 16, 32, 64)
"""Sizes of a register tile along the axis of vectors."""
PARTS: Final = (1, 2, 4, 8)
"""Iterations of the innermost sum that are unrolled."""
MOST: Final = 1024
"""Most elements of a register tile."""
TERMS: Final = 64
"""Most terms of a plain sum of floats that are added one after another."""


def loop_nests(sch: tir.Schedule) -> bool:
    """Apply primitives with sampled decisions to a schedule; return False if the space is not for its function.

    Raises ScheduleError for decisions that do not fit together.
    """
    parts = _parts(sch)
    if parts is None:
        return False
    main, behind = parts
    node = sch.get(main)
    has_sums = node.init is not None
    if has_sums and _is_long_plain_sum(node, sch.get_loops(main), sch):
        return False
    result = behind if behind is not None else sch.cache_write(main, 0, "global") if has_sums else main
    outer, inner, vector = _tiled(sch, result)
    if has_sums:
        sch.compute_at(main, outer[-1])
        _sum(sch, main, len(outer), vector)
    _inner(sch, inner, vector)
    task = sch.fuse(*outer) if len(outer) > 1 else outer[0]
    sch.parallel(task)
    return True


def _parts(sch: tir.Schedule) -> tuple[BlockRV, BlockRV | None] | None:
    """Return the main block and the one behind it, after inlining those before it; None for another structure."""
    blocks = sch.get_child_blocks(sch.get_block("root"))
    sums = [block for block in blocks if sch.get(block).init is not None]
    if not blocks or len(sums) > 1:
        return None
    main = sums[0] if sums else blocks[-1]
    position = next(i for i, block in enumerate(blocks) if block is main)
    if len(blocks) - position > 2:
        return None
    if any(var.iter_type not in ("spatial", "reduce") for block in blocks for var in sch.get(block).iter_vars):
        return None
    try:
        for block in blocks[:position]:
            sch.compute_inline(block)
    except DiagnosticError:
        return None
    behind = blocks[position + 1] if position + 1 < len(blocks) else None
    several = [block for block in (main, behind) if block is not None]
    if any(len(sch.get_loops(block)) != len(sch.get(block).iter_vars) for block in several):
        return None
    if not any(var.iter_type == "spatial" for var in sch.get(main).iter_vars):
        return None
    return main, behind


def _is_long_plain_sum(node: Block, loops: Sequence[LoopRV], sch: tir.Schedule) -> bool:
    """True for a sum of floats that are no products, of more than `TERMS` terms, or a dynamic number."""
    store = node.body
    if not isinstance(store, BufferStore) or not store.value.dtype.is_float or not isinstance(store.value, Add):
        return False
    products: list[Mul] = []

    def visit(part: object) -> None:
        if isinstance(part, Mul) and loads_in(part.a) and loads_in(part.b):
            products.append(part)

    post_order_visit(store.value, visit)
    extents = [
        sch.get(loop).extent
        for loop, var in zip(loops, node.iter_vars, strict=True)
        if var.iter_type == "reduce"
    ]  # fmt: skip
    count = math.prod(extent.value if isinstance(extent, IntImm) else TERMS + 1 for extent in extents)
    return not products and count > TERMS


def _tiled(sch: tir.Schedule, block: BlockRV) -> tuple[list[LoopRV], list[tuple[LoopRV, int]], int]:
    """Split each loop of a block into tiles; return the loops over tiles, those inside with their axes, and the axis of
    vectors.

    The axis is -1 if nothing is vectorised.
    """
    loops = sch.get_loops(block)
    last = len(loops) - 1
    weights = [0.7 if axis == last else 0.2 / max(last, 1) for axis in range(len(loops))]
    axis = sch.sample_categorical([*range(len(loops)), len(loops)], [*weights, 0.1])
    vector = sch.get(axis)
    vector = -1 if vector > last else vector
    outer: list[LoopRV] = []
    inner: list[LoopRV] = []
    left = MOST
    for number in sorted(range(len(loops)), key=lambda number: (number != vector, -number)):
        tile = _sampled(sch, loops[number], VECTORS if number == vector else TILES, left)
        left //= max(sch.get(tile), 1)
        first, second = sch.split(loops[number], [None, tile])
        outer.append(first)
        inner.append(second)
    order = sorted(range(len(loops)), key=lambda number: (number != vector, -number))
    outer, inner = ([several[order.index(n)] for n in range(len(loops))] for several in (outer, inner))
    tile = sorted(zip(inner, range(len(inner)), strict=True), key=lambda pair: pair[1] == vector)
    sch.reorder(*outer, *(loop for loop, _ in tile))
    return outer, tile, vector


def _sampled(sch: tir.Schedule, loop: LoopRV, sizes: Sequence[int], most: int) -> ExprRV:
    """Sample a tile's size: those that divide a static extent are three times as likely."""
    extent = sch.get(loop).extent
    static = extent.value if isinstance(extent, IntImm) else None
    fitting = [size for size in sizes if size <= most and (static is None or size <= static)] or [1]
    if static is not None and static <= sizes[-1] and static <= most:
        fitting = sorted({*fitting, static})
    weights = [3.0 if static is None or static % size == 0 else 1.0 for size in fitting]
    total = sum(weights)
    return sch.sample_categorical(fitting, [weight / total for weight in weights])


def _sum(sch: tir.Schedule, block: BlockRV, outside: int, vector: int) -> None:
    """Arrange the loops of the sum of one tile: sums outside, the tile unrolled and vectorised inside."""
    axes = _axes(sch, block, outside)
    kinds = [var.iter_type for var in sch.get(block).iter_vars]
    sums = [loop for loop, axis in axes if kinds[axis] == "reduce"]
    if not sums:
        raise ScheduleError(ARGUMENT, "the sum has one term")
    if len(sums) > 1 and sch.get(sch.sample_categorical([0, 1], [0.7, 0.3])):
        sums = [sums[-1], *sums[:-1]]
    part = _sampled(sch, sums[-1], PARTS, PARTS[-1])
    last, unrolled = sch.split(sums[-1], [None, part])
    sums = [*sums[:-1], last]
    tile = _tile(axes, kinds, vector)
    sch.reorder(*sums, unrolled, *(loop for loop, _ in tile))
    sch.unroll(unrolled)
    init = sch.decompose_reduction(block, sums[0])
    _inner(sch, tile, vector)
    own = sch.get(init).iter_vars
    _inner(sch, _tile(_axes(sch, init, outside), [var.iter_type for var in own], vector), vector)


def _axes(sch: tir.Schedule, block: BlockRV, outside: int) -> list[tuple[LoopRV, int]]:
    """Return the loops of a block from the `outside`-th on, each with the number of the block variable that it moves.

    Loops of one iteration have been removed.
    """
    values = sch.state.realize(block).iter_values
    found: list[tuple[LoopRV, int]] = []
    for loop in sch.get_loops(block)[outside:]:
        var = sch.get(loop).loop_var
        moved = [number for number, value in enumerate(values) if any(v is var for v in free_vars(value))]
        if len(moved) != 1:
            raise ScheduleError(ARGUMENT, "a loop moves several block variables, or none")
        found.append((loop, moved[0]))
    return found


def _tile(axes: Sequence[tuple[LoopRV, int]], kinds: Sequence[str], vector: int) -> list[tuple[LoopRV, int]]:
    """Return the loops over spatial axes, that along the axis of vectors last."""
    spatial = [(loop, axis) for loop, axis in axes if kinds[axis] == "spatial"]
    return sorted(spatial, key=lambda pair: pair[1] == vector)


def _inner(sch: tir.Schedule, tile: Sequence[tuple[LoopRV, int]], vector: int) -> None:
    """Unroll the loops of a register tile, and vectorise that along the axis of vectors."""
    for loop, axis in tile:
        if axis == vector:
            sch.vectorize(loop)
        else:
            sch.unroll(loop)
