"""The rule for convolutions of 3, 5 or 7 taps by tiles: F(4×4, 3×3) has a quarter of the multiplications.

    for n, co, h, w, ci, i, j in T.grid(…):             U = G · W[co, ci] · Gᵀ                  36 slots e
        with T.block("conv"):                           for some tiles of 4×4 pixels in T.parallel(…):
            with T.init(): C[n, co, h, w] = 0               V[e, t, ci] = Bᵀ · (6×6 pixels) · B
            C[n, co, h, w] += …                             M[e, t, co] = sum over ci of V[e, t, ci] * U[e, ci, co]
                                                            C[n, co, …] = Aᵀ · M · A            the tiles' pixels

`winograd_tiles` writes the loops, for images of any number and size, known or not; `winograd_transforms` has the
transforms of an axis. The error of an element is at most `ERROR` roundings of the sum of its products' magnitudes.

The transforms of the two axes are chosen together. Large tiles take fewer multiplications and more weights: F(4×4) has
36 for each kernel, F(4×2) 24, F(2×2) 16, F(2×1), with the direct form of one axis, 12, and the direct form 9. Where
tiles are few the time to read the weights counts: F(4×4) is chosen for 256 channels of 14×14 pixels, F(2×2) for 512 of
7×7. Images of unknown size are taken to be as large as they are in networks that halve them as they double channels.

Convolutions of lines, of one axis or with a second one of one tap, have one transform: F(4, 5) has 8 multiplications
for 20. F(2×2, 5×5) has 36 for 100. Transforms of 8 slots are for one axis beside the direct form of the other: their
errors are twice those of the others, and the errors of two axes multiply.

Tiles of 4 pixels are for axes with at most as many zeros before and behind the data as taps on one side of the middle:
with more zeros, some pixels have few products, which are small beside those of their tile.

Weights are transformed in each call, which takes about as long as `TRANSFORM` multiplications for each of them; those
that are known when a program is built are transformed then.

Narrow floats are converted to float32 where they are copied. The direct form of bfloat16 takes half the steps where
the machine has dot products for it: it is left to `dot_convolutions` unless this is faster still, and always where
the machine multiplies tiles.

Refused: what the direct form computes faster (few pixels, few channels), other kernels, strides and dilations, groups,
channels whose number is not known, float64, and everything where ``relax.fast_algorithms`` is False in the PassContext.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Final

from ...ir.transform import FAST_ALGORITHMS, PassContext
from ...prim import IntImm, PrimExpr, prove
from ...target import Target
from ...tir import PrimFunc, Stmt
from ..contraction import size_of
from ..rule import PackedFunction, ScheduleRule
from .operands import is_large_sum
from .packed_weights import Declare, packed_kernels
from .tiling import tile_for
from .windows import Axis, Kernel, Windows, rewritten_kernels
from .winograd_plan import Plan
from .winograd_tiles import Tiles
from .winograd_transforms import F23, F25, F27, F43, F45, S2, KernelTransform, Transform, direct_form
from .words import words_for

ERROR: Final = 64
"""Bound of the error of an element, in units of 2⁻²⁴ times the sum of the magnitudes of its products.

It is one for data of like size: roundings of a far larger element of the same tile, not met by this one, count too.
"""

TRANSFORM: Final = 1000
"""The cost of transforming one kernel, in multiplications of the direct form."""
TRANSFORM_LINE: Final = 300
"""That of a kernel of one axis."""
VECTOR: Final = 7
"""The cost of transforming a vector of data or results, in steps that multiply two vectors and add them."""
DIRECT: Final = 1.2
"""The steps of the direct form over those that count."""
NARROW: Final = 0.6
"""The same of bfloat16, two products of which a lane of a vector adds in a step."""
STREAMED: Final = 14
"""The tiles for which it takes as long to multiply a weight as to read it from memory."""
HIDDEN: Final = 0.8
"""The part of the shorter of these times that is hidden behind the longer."""
LARGE: Final = {3: [F43], 5: [F45]}
"""Transforms of an axis of stride 1, by its taps, where few zeros are before and behind the data."""
SMALL: Final = {3: [F23], 5: [F25], 7: [F27]}
"""Those whatever the zeros."""
STEPPED: Final = {3: [S2]}
"""Those of stride 2."""
EXACT: Final = 6
"""The most slots of a transform beside another one than the direct form."""
FILLED: Final = 4
"""The number of which tiles are computed in multiples."""
FEWEST: Final = 16
"""Channels of data or results below which transforms take too long."""
FEW: Final = 7
"""Taps that are those of one axis: they save less, and take twice as many channels."""
MOST: Final = 28
"""The most tiles of an item."""
TYPICAL: Final = 3584
"""Channels times pixels of a line, for images of unknown size: networks halve their images as they double channels."""
SEQUENCE: Final = 256
"""Pixels of an only line of unknown size, if it has many channels."""
CHUNK: Final = 4
"""Those of one with fewer: models that are fed as data come, such as detectors of speech, take few at a time."""
WIDE: Final = 256
"""The number of channels that are many."""


class Winograd(ScheduleRule):
    """The rule for convolutions of axes of 1, 3, 5 or 7 taps."""

    def apply(self, func: PrimFunc, target: Target, tunable: bool) -> PrimFunc | None:
        del tunable
        if not func.attrs.get("tir.noalias") or not PassContext.current().config.get(FAST_ALGORITHMS, True):
            return None

        def rewrite(kernel: Kernel) -> Stmt | None:
            plan = _plan(kernel.windows, target, is_known=False)
            return None if plan is None else Tiles(kernel, plan).kernel()

        return rewritten_kernels(func, rewrite, is_large_sum)

    def pack(self, func: PrimFunc, target: Target, constants: Sequence[int]) -> PackedFunction | None:
        """The function for weights that are transformed already."""
        if not PassContext.current().config.get(FAST_ALGORITHMS, True):
            return None

        def write(kernel: Kernel, declare: Declare) -> Stmt | None:
            plan = _plan(kernel.windows, target, is_known=True)
            if plan is None:
                return None
            return Tiles(kernel, plan).kernel(
                declare(plan.weights, plan.weights.shape, "float32", "transformed")
            )

        return packed_kernels(func, constants, write, is_large_sum)


# ------------------------------------------------------------------ the choice


@dataclass(frozen=True)
class _Shape:
    """A convolution that has this form; sizes that are not known are None."""

    inputs: int
    outputs: int
    images: int | None
    height: int | None
    width: int | None
    taps: int

    def pixels(self) -> tuple[int, int, int]:
        """The images, lines and pixels of a line; probable numbers for those that are not known."""
        typical = max(TYPICAL // self.outputs, 4)
        if self.height == 1:
            typical = SEQUENCE if min(self.inputs, self.outputs) >= WIDE else CHUNK
        height, width = (typical if size is None else size for size in (self.height, self.width))
        return 1 if self.images is None else self.images, height, width

    def tiles(self, rows: Transform, columns: Transform) -> int:
        """The tiles of all images."""
        images, height, width = self.pixels()
        return images * -(-height // rows.m) * -(-width // columns.m)


def _plan(windows: Windows, target: Target, is_known: bool) -> Plan | None:
    """The sizes of a convolution that has this form, and is faster in it; weights that are known cost no transform."""
    shape, lanes = _shape(windows), tile_for(target, 32).lanes
    if shape is None or lanes < F43.m:
        return None
    dtypes = windows.data.dtype, windows.weight.buffer.dtype, windows.out.buffer.dtype
    if words_for(target, *dtypes, in_tiles=True) not in (None, words_for(target, *dtypes)):
        return None
    direct = NARROW if words_for(target, *dtypes) is not None else None
    transform = 0 if is_known else TRANSFORM if shape.taps > FEW else TRANSFORM_LINE
    chosen = _chosen(shape, windows, lanes, transform, direct)
    return None if chosen is None else _sizes(shape, *chosen, target)


def _shape(windows: Windows) -> _Shape | None:
    if len(windows.axes) > 2 or windows.groups != 1 or windows.depth is None:
        return None
    inputs, outputs = _number(windows.inputs), _number(windows.channels)
    if windows.out.buffer.dtype != "float32" or inputs is None or outputs is None:
        return None
    images: int | None = 1
    for v in windows.batch:
        size = _number(size_of(v))
        images = None if size is None or images is None else images * size
    height, width = (_number(axis.size) for axis in windows.lines)
    return _Shape(inputs, outputs, images, height, width, prod(axis.taps for axis in windows.axes))


def _forms(axis: Axis) -> list[Transform]:
    """The transforms that an axis may have.

    Large tiles are for few zeros before and behind the data: where a pixel meets one element of an axis, the sum of its
    products is small beside those of the tile, whose roundings it has.
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
    """The transforms that the two axes may have together."""
    rows, columns = (_forms(axis) for axis in windows.lines)
    return [
        pair
        for pair in product(rows, columns)
        if any(form.exact for form in pair) or max(form.slots for form in pair) <= EXACT
    ]


def _chosen(
    shape: _Shape, windows: Windows, lanes: int, transform: int, narrow: float | None
) -> tuple[Transform, Transform] | None:
    """The transforms with which a convolution is faster than in the direct form; None if it is not.

    `narrow` are the steps of the direct form over those that count, where the machine has dot products for it.
    """
    if min(shape.inputs, shape.outputs) < (FEWEST if shape.taps > FEW else 2 * FEWEST):
        return None
    products = shape.inputs * shape.outputs / lanes

    def cost(forms: tuple[Transform, Transform]) -> float:
        tiles, slots = -(-shape.tiles(*forms) // FILLED) * FILLED, forms[0].slots * forms[1].slots
        vectors = (
            -(-shape.inputs // lanes) * slots + -(-shape.outputs // lanes) * forms[0].count * forms[1].count
        )
        computed, read = tiles * slots * products, STREAMED * slots * products
        return _overlapped(computed, read) + tiles * vectors * VECTOR + transform * products

    best = min(_pairs(windows), key=cost)
    if all(form.exact for form in best):
        return None
    if not transform and narrow is None and shape.taps > FEW:
        return best
    read = STREAMED * shape.taps * products if not transform else 0.0
    direct = _overlapped((narrow or DIRECT) * shape.taps * prod(shape.pixels()) * products, read)
    return best if cost(best) < direct else None


def _overlapped(computed: float, read: float) -> float:
    """The time of work and of reading its weights, of which most is hidden behind the longer."""
    return max(computed, read) + (1 - HIDDEN) * min(computed, read)


def _sizes(shape: _Shape, rows: Transform, columns: Transform, target: Target) -> Plan:
    """The division of a convolution among items, groups of channels and register tiles."""
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
    """The tiles that are computed if an item has at most so many; an item costs as much as two tiles more.

    Those for which cores wait at the end count half: there may be fewer threads than cores.
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
