"""Winograd convolutions of 3, 5 or 7 taps per axis: F(4×4, 3×3) has a quarter of the multiplications.

    for n, co, h, w, ci, i, j in T.grid(…):             U = G · W[co, ci] · Gᵀ                  36 slots e
        with T.block("conv"):                           for some tiles of 4×4 pixels in T.parallel(…):
            with T.init(): C[n, co, h, w] = 0               V[e, t, ci] = Bᵀ · (6×6 pixels) · B
            C[n, co, h, w] += …                             M[e, t, co] = sum over ci of V[e, t, ci] * U[e, ci, co]
                                                            C[n, co, …] = Aᵀ · M · A            the tiles' pixels

`winograd.tiles` writes the loops, for any number of images of static or dynamic size; `winograd.transforms` has the
transforms of an axis. The error of an element is at most `ERROR` roundings of the sum of its products' magnitudes.

The transforms of both axes are chosen together. Large tiles take fewer multiplications and more weights: F(4×4) has 36
per kernel, F(4×2) 24, F(2×2) 16, F(2×1), with the direct form of one axis, 12, and the direct form 9. With few tiles,
the time to read the weights matters: F(4×4) is chosen for 256 channels of 14×14 pixels, F(2×2) for 512 of 7×7. Images
of dynamic size are assumed as large as in networks that halve them as they double channels.

One-dimensional convolutions, or those whose second axis has one tap, use one transform: F(4, 5) has 8 multiplications
instead of 20. F(2×2, 5×5) has 36 instead of 100. Transforms with 8 slots are used on one axis only, with the direct
form on the other: their errors are twice as large, and the errors of two axes multiply.

Tiles of 4 pixels require padding of at most the taps on one side of the middle: with more padding, some pixels have few
products, whose sum is small beside the errors of their tile.

Weights are transformed in each call, which takes about as long as `TRANSFORM` multiplications per kernel; constant
weights are transformed at compile time.

Narrow floats are converted to float32 by the copy. The direct form of bfloat16 takes half the steps if the target has
dot products for it: it is left to `dot_convolution` unless Winograd is still faster, and always on targets with tile
instructions.

Not supported: cases in which the direct form is faster (few pixels, few channels), other kernels, strides and
dilations, groups, dynamic channel counts, float64, and everything if ``relax.fast_algorithms`` is False in the
PassContext.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import Final

from .....ir.transform import FAST_ALGORITHMS, PassContext
from .....prim import IntImm, PrimExpr, prove
from .....runtime.records import dataclass
from .....target import Target
from .....tir import PrimFunc, Stmt
from ....build import size_of
from ....rule import PackedFunction, Refusal, ScheduleRule
from ...large_sums import number_sum
from ...tile.division import tile_for
from ...tile.words import words_for
from ..few_pixels import MOST_TILES, unless_few
from ..packed_weights import Declare, packed_kernels
from ..windows import Axis, Kernel, Windows, rewritten_kernels
from .plan import Plan
from .tiles import Tiles
from .transforms import F23, F25, F27, F43, F45, S2, KernelTransform, Transform, direct_form

ERROR: Final = 64
"""Error bound of an element, in units of 2⁻²⁴ times the sum of the magnitudes of its products.

It holds for data of similar magnitude: rounding errors of a much larger element of the same tile count too, even if the
window does not contain it.
"""

TRANSFORM: Final = 1000
"""Cost of transforming one kernel, in multiplications of the direct form."""
TRANSFORM_LINE: Final = 300
"""Cost of transforming a kernel of one axis."""
VECTOR: Final = 7
"""Cost of transforming a vector of data or results, in vector multiply-add steps."""
DIRECT: Final = 1.2
"""Steps of the direct form relative to its useful multiply-adds."""
NARROW: Final = 0.6
"""Steps of the direct form for bfloat16, whose dot products add two products per lane."""
STREAMED: Final = 14
"""Number of tiles for which multiplying by a weight takes as long as reading it from memory."""
HIDDEN: Final = 0.8
"""Fraction of the shorter of these times that is hidden behind the longer one."""
LARGE: Final = {3: [F43], 5: [F45]}
"""Transforms of an axis of stride 1, by taps, for little padding before and after the data."""
SMALL: Final = {3: [F23], 5: [F25], 7: [F27]}
"""Transforms of an axis of stride 1, by taps, for any padding."""
STEPPED: Final = {3: [S2]}
"""Transforms of an axis of stride 2, by taps."""
EXACT: Final = 6
"""Most slots per axis if both axes are transformed (neither in the direct form)."""
FILLED: Final = 4
"""Granularity in which tiles are computed."""
FEWEST: Final = 16
"""Channels of data or results below which transforms do not pay."""
FEW: Final = 7
"""Taps up to which a kernel counts as one-dimensional, which saves less and needs twice the channels."""
MOST: Final = 28
"""Most tiles of a work item."""
TYPICAL: Final = 3584
"""Channels times row pixels assumed for images of dynamic size: networks halve images as they double channels."""
SEQUENCE: Final = 256
"""Pixels assumed for a single row of dynamic size with many channels."""
CHUNK: Final = 4
"""Pixels assumed for one with fewer channels: streaming models, such as voice activity detectors, process few at a
time.
"""
WIDE: Final = 256
"""Number of channels that count as many."""


class Winograd(ScheduleRule):
    """Schedule rule for convolutions with axes of 1, 3, 5 or 7 taps."""

    def apply(self, func: PrimFunc, target: Target, tunable: bool) -> PrimFunc | Refusal:
        del tunable

        def rewrite(kernel: Kernel) -> Stmt | Refusal:
            plan = _plan(kernel.windows, target, is_known=False)
            return unless_few(kernel, target, MOST_TILES, Tiles(kernel, plan).kernel()) if plan else plan

        return rewritten_kernels(func, rewrite, number_sum)

    def pack(self, func: PrimFunc, target: Target, constants: Sequence[int]) -> PackedFunction | Refusal:
        """Return the function for transformed weights."""

        def recognised(kernel: Kernel) -> Plan | Refusal:
            return _plan(kernel.windows, target, is_known=True)

        def write(kernel: Kernel, plan: Plan, declare: Declare) -> Stmt:
            packed = declare(plan.weights, plan.weights.shape, "float32", "transformed")
            return Tiles(kernel, plan, packed).kernel()

        return packed_kernels(func, constants, recognised, write, number_sum)


# ------------------------------------------------------------------ the choice


@dataclass(frozen=True)
class _Shape:
    """Sizes of a convolution in a supported form; dynamic sizes are None."""

    inputs: int
    outputs: int
    images: int | None
    height: int | None
    width: int | None
    taps: int

    def pixels(self) -> tuple[int, int, int]:
        """(Images, rows, pixels of a row), with likely values for dynamic sizes."""
        typical = max(TYPICAL // self.outputs, 4)
        if self.height == 1:
            typical = SEQUENCE if min(self.inputs, self.outputs) >= WIDE else CHUNK
        height, width = (typical if size is None else size for size in (self.height, self.width))
        return 1 if self.images is None else self.images, height, width

    def tiles(self, rows: Transform, columns: Transform) -> int:
        """Number of tiles of all images."""
        images, height, width = self.pixels()
        return images * -(-height // rows.m) * -(-width // columns.m)


def _plan(windows: Windows, target: Target, is_known: bool) -> Plan | Refusal:
    """Return the plan of a convolution if Winograd is faster; transforming constant weights (`is_known`) is free."""
    if not PassContext.current().config.get(FAST_ALGORITHMS, True):
        return Refusal(f"{FAST_ALGORITHMS} is False")
    shape, lanes = _shape(windows), tile_for(target, 32).lanes
    if not shape:
        return shape
    if lanes < F43.m:
        return Refusal(f"the target's vectors have fewer than {F43.m} elements")
    dtypes = windows.data.dtype, windows.weight.buffer.dtype, windows.out.buffer.dtype
    if words_for(target, *dtypes, in_tiles=True) not in (None, words_for(target, *dtypes)):
        return Refusal(f"the target multiplies {windows.data.dtype} in tiles, which is faster")
    direct = NARROW if words_for(target, *dtypes) is not None else None
    transform = 0 if is_known else TRANSFORM if shape.taps > FEW else TRANSFORM_LINE
    chosen = _chosen(shape, windows, lanes, transform, direct)
    return _sizes(shape, *chosen, target) if chosen else chosen


def _shape(windows: Windows) -> _Shape | Refusal:
    channels = windows.channels_of_group(2)
    if not channels:
        return channels
    if windows.out.buffer.dtype != "float32":
        return Refusal(f"the sum is of {windows.out.buffer.dtype}, not of float32")
    images: int | None = 1
    for v in windows.batch:
        size = _number(size_of(v))
        images = None if size is None or images is None else images * size
    height, width = (_number(axis.size) for axis in windows.lines)
    return _Shape(*channels, images, height, width, windows.taps)


def _forms(axis: Axis) -> list[Transform]:
    """Transforms that an axis may use.

    Large tiles require little padding: at the border, a pixel reads few data elements, so its sum is small compared
    with the rounding errors of the tile's other products.
    """
    direct = direct_form(axis.taps, axis.stride, axis.dilation)
    if axis.dilation != 1 or axis.stride > 2:
        return [direct]
    if axis.stride == 2:
        return [*STEPPED.get(axis.taps, []), direct]
    behind = axis.size - 1 + axis.taps - axis.before - axis.extent
    narrow = prove(axis.before <= axis.taps // 2) and prove(behind <= axis.taps // 2)
    large = LARGE.get(axis.taps, []) if narrow else []
    return [*large, *SMALL.get(axis.taps, []), direct]


def _pairs(windows: Windows) -> list[tuple[Transform, Transform]]:
    """Pairs of transforms that the two axes may use together."""
    rows, columns = (_forms(axis) for axis in windows.lines)
    return [
        pair
        for pair in product(rows, columns)
        if any(form.exact for form in pair) or max(form.slots for form in pair) <= EXACT
    ]


def _chosen(
    shape: _Shape, windows: Windows, lanes: int, transform: int, narrow: float | None
) -> tuple[Transform, Transform] | Refusal:
    """Return the fastest pair of transforms, unless the direct form is faster.

    `narrow` is the relative cost of the direct form if the target has dot products for the dtype.
    """
    fewest = FEWEST if shape.taps > FEW else 2 * FEWEST
    if min(shape.inputs, shape.outputs) < fewest:
        return Refusal(f"only {shape.inputs} input and {shape.outputs} output channels, fewer than {fewest}")
    products = shape.inputs * shape.outputs / lanes

    def cost(forms: tuple[Transform, Transform]) -> float:
        tiles, slots = -(-shape.tiles(*forms) // FILLED) * FILLED, forms[0].slots * forms[1].slots
        vectors = -(-shape.inputs // lanes) * slots + -(-shape.outputs // lanes) * forms[0].count * forms[1].count
        computed, read = tiles * slots * products, STREAMED * slots * products
        return _overlapped(computed, read) + tiles * vectors * VECTOR + transform * products

    pairs = _pairs(windows)
    if all(form.exact for pair in pairs for form in pair):
        return Refusal("no transform is for the taps, strides and dilations of an axis")
    slower = Refusal("transforms take longer than they save")
    best = min(pairs, key=cost)
    if all(form.exact for form in best):
        return slower
    if not transform and narrow is None and shape.taps > FEW:
        return best
    read = STREAMED * shape.taps * products if not transform else 0.0
    direct = _overlapped((narrow or DIRECT) * shape.taps * prod(shape.pixels()) * products, read)
    return best if cost(best) < direct else slower


def _overlapped(computed: float, read: float) -> float:
    """Time of a computation overlapped with reading its weights; most of the shorter time is hidden."""
    return max(computed, read) + (1 - HIDDEN) * min(computed, read)


def _sizes(shape: _Shape, rows: Transform, columns: Transform, target: Target) -> Plan:
    """Divide a convolution into work items, channel groups and register tiles."""
    tile, caches, cores = tile_for(target, 32), target.machine.caches, target.machine.cores
    slots = rows.slots * columns.slots
    lanes, registers = tile.lanes, tile.rows * tile.vectors
    blocks = -(-shape.outputs // lanes)
    vectors = min((2, 3, 4, 1), key=lambda v: -(-blocks // v) * v) if tile.vectors > 2 else min(2, blocks)
    tall = max(registers // vectors // 3, 1) * 3
    unit, bytes_ = tall // 3, 4 * slots * -(-shape.inputs // lanes) * lanes
    limit = max(min(4 * caches.l2 // bytes_, MOST), 2 * unit) // unit * unit
    most, tiles = min(limit, 32 // unit * unit), shape.tiles(rows, columns)
    if None not in (shape.images, shape.height, shape.width):
        most = min(range(2 * unit, limit + 1, unit), key=lambda share: _work(tiles, share, unit, cores))
    panels = -(-blocks // vectors)
    held = max(caches.l2 // 5 // (4 * rows.count * columns.count * most * vectors * lanes), 1)
    groups = max(-(-panels // held), min(panels, cores))
    each = min(range(-(-panels // groups), 0, -1), key=lambda each: -(-panels // each) * each)
    depth = -(-shape.inputs // lanes)
    most_blocks = max(caches.l1 // 2 // (4 * lanes * (most + vectors * lanes)), 1)
    chunk = min(range(1, most_blocks + 1), key=lambda blocks: (-(-depth // blocks) * (blocks + 1), -blocks))
    return Plan(
        rows, columns, shape.inputs, shape.outputs, lanes, vectors, tall, most, each,
        chunk, cores,
    )  # fmt: skip


def _work(tiles: int, share: int, unit: int, cores: int) -> float:
    """Tiles computed if a work item has at most `share` tiles; each item has an overhead of two tiles.

    Idle time of cores at the end counts half: there may be fewer threads than cores.
    """

    def rows(count: int) -> int:
        return max(-(-count // unit), 2) * unit

    items = max(-(-tiles // share), 1)
    each = rows(-(-tiles // items))
    count = -(-tiles // each)
    computed = (count - 1) * each + rows(tiles - (count - 1) * each) + 2 * count
    waits = -(-count // cores) * cores * (each + 2) - computed if count >= cores else 0
    return computed + waits / 2


def _number(size: PrimExpr) -> int | None:
    return size.value if isinstance(size, IntImm) else None


__all__ = ["ERROR", "KernelTransform", "Winograd"]
