"""Channels-first pointwise (1×1) convolutions of float32 or float64.

    for n, co, h, w, ci in T.grid(…):                   C[n, co, p] += W[co, ci] * X[n, ci, p]
        with T.block("conv"):                           for p in all pixels of an image: products of matrices,
            C[n, co, h, w] += W[co, ci, 0, 0] * …       in register tiles

Supports images of static and dynamic size, in one to three dimensions, with any batch. Element-wise epilogues (bias,
addition, activation) are fused into the store; per-channel values, such as the scale of a normalisation, are computed
once. With a stride, the pixels read are first copied (`strided_pixels`). `loops` has two loop forms:
vectorised over pixels (`along_pixels`), or over output channels (`along_channels`), which suits images whose pixels do
not fill vectors (7 × 7) and needs constant weights. Constant weights are packed for the tiles; others are read in
place.

Left to `direct`: larger kernels, padding, groups, dynamic channel counts, epilogues that read pixels in another
order, statically small problems, and functions without tir.noalias.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from .....prim import IntImm, PrimExpr, SizeVar, Var, const, is_const, post_order
from .....prim.traits import fails_itself
from .....runtime.records import dataclass
from .....target import Target
from .....tir import Buffer, BufferLoad, BufferStore, IterVar, PrimFunc, Range, Stmt
from .....tir.buffer import decl_buffer
from .....tir.functor import StmtExprMutator, substitute
from .....tir.nests import same_size
from .....tir.usage import free_vars
from ....build import product_of, size_of
from ....common_parts import CommonParts
from ....matrix_product import IndexMerger
from ....rule import PackedFunction, Refusal, ScheduleRule
from ....space import Space
from ...tile.division import shapes_of_tiles, tile_for
from ...tile.parameters import TALLEST
from ...tile.words import Words
from ..packed_weights import Declare, packed_kernels
from ..windows import Kernel, rewritten_kernels
from .along_channels import AlongChannels
from .along_pixels import AlongPixels
from .operands import Pixels, Table
from .strided_pixels import with_neighbours

WEIGHTS: Final = 1 << 17
"""Number of weights from which images of dynamic size are assumed small: deep layers have many channels."""
DEEP: Final = 320
"""Input channels from which they are also assumed small, if there are `NARROWED` times as many as output channels."""
NARROWED: Final = 3
"""Ratio of input to output channels at the end of an inverted residual, where channel rows would form few blocks."""
TRANSPOSED: Final = 3
"""Steps to transpose and store a vector of results."""
TRANSPOSED_OF_WORDS: Final = 6
"""Steps to transpose and store a vector of results if packed groups are multiplied."""


@dataclass(frozen=True)
class PointwiseParameters:
    """Numbers that the loops of a pointwise convolution may choose; None: those with the fewest steps."""

    along: str | None = None
    """Loop form: "pixels" or "channels", along which the vectors of a tile run."""
    tile: tuple[int, int] | None = None
    """Rows and vectors of a register tile."""


def space_of_pixels(target: Target) -> Space[PointwiseParameters]:
    """Return the loop forms of constant weights (others have that along pixels), and the shapes of tiles."""
    tiles = (None, *shapes_of_tiles(target, TALLEST))
    return Space(PointwiseParameters, {"along": (None, "pixels", "channels"), "tile": tiles})


DEFAULT: Final = PointwiseParameters()


class Pointwise(ScheduleRule):
    """Schedule rule for pointwise convolutions."""

    parameters = PointwiseParameters()

    def space(self, target: Target) -> Space[PointwiseParameters]:
        """Return the loop forms, and the shapes of tiles."""
        return space_of_pixels(target)

    def apply(self, func: PrimFunc, target: Target, tunable: bool) -> PrimFunc | Refusal:
        del tunable

        def rewrite(kernel: Kernel) -> Stmt | Refusal:
            pixels = pixels_of(kernel)
            if not pixels:
                return pixels
            lanes = tile_for(target, pixels.total.dtype.bits).lanes

            def loops(pixels: Pixels) -> Stmt:
                return AlongPixels(pixels, target, None, self.parameters.tile).loops(None)

            return with_neighbours(pixels, lanes, loops)

        return rewritten_kernels(func, rewrite)

    def pack(self, func: PrimFunc, target: Target, constants: Sequence[int]) -> PackedFunction | Refusal:
        """Return the function for weights packed as its tiles read them."""

        def write(kernel: Kernel, pixels: Pixels, declare: Declare) -> Stmt:
            def loops(pixels: Pixels) -> Stmt:
                writer = writer_for(pixels, target, None, self.parameters)
                packing = writer.packing()
                return writer.loops(declare(packing, packing.shape, str(kernel.windows.weight.buffer.dtype)))

            return with_neighbours(pixels, tile_for(target, pixels.total.dtype.bits).lanes, loops)

        return packed_kernels(func, constants, pixels_of, write)


def writer_for(
    pixels: Pixels, target: Target, words: Words | None = None, parameters: PointwiseParameters = DEFAULT
) -> AlongPixels | AlongChannels:
    """Choose the loop form with fewer steps; for a dynamic number of pixels, by the channel counts."""
    first, second = (form(pixels, target, words, parameters.tile) for form in (AlongPixels, AlongChannels))
    if parameters.along is not None:
        return first if parameters.along == "pixels" else second
    each = TRANSPOSED if words is None else TRANSPOSED_OF_WORDS
    moved = pixels.channels / first.lanes * each / first.inputs
    if isinstance(pixels.count, IntImm):
        return first if first.cost() <= second.cost() + pixels.count.value * moved else second
    inputs, channels = pixels.inputs, pixels.channels
    is_small = inputs * channels >= WEIGHTS or inputs >= max(DEEP, NARROWED * channels)
    return second if is_small else first


def pixels_of(kernel: Kernel) -> Pixels | Refusal:
    """Return the convolution as a product over the pixels of an image."""
    windows = kernel.windows
    numbers = windows.channels_of_group()
    if not numbers:
        return numbers
    inputs, channels = numbers
    if windows.taps != 1:
        return Refusal(f"the windows have {windows.taps} elements, not 1")
    if windows.padding is not None or not all(is_const(axis.before, 0) for axis in windows.axes):
        return Refusal("the data are padded")
    if not inputs or not channels:
        return Refusal("there are no channels")
    is_strided = any(a.stride != 1 or not same_size(a.size, a.extent) for a in windows.axes)
    merged = merged_pixels(kernel)
    if not merged:
        return merged
    data, names = windows.data, list(merged.names)
    area = _named_product("area", [axis.extent for axis in windows.axes], names) if is_strided else merged.count
    leading = data.shape[: data.ndim - len(windows.axes)]
    source = decl_buffer((*leading, area), str(data.dtype), f"{data.name}_pixels", data=data.data)
    return Pixels(
        windows.batch, windows.channel.var, merged.pixel, merged.count, channels, inputs, merged.store,
        merged.total, source, windows.weight.buffer, windows.axes if is_strided else (), merged.views, tuple(names),
        merged.tables,
    )  # fmt: skip


@dataclass(frozen=True)
class Merged:
    """Store of a result indexed by a flat pixel index, as parts of `Pixels`."""

    pixel: Var
    count: PrimExpr
    store: BufferStore
    total: Var
    views: tuple[Buffer, ...]
    names: tuple[tuple[Var, PrimExpr], ...]
    tables: tuple[Table, ...]


def merged_pixels(kernel: Kernel) -> Merged | Refusal:
    """Flatten the pixel axes of the store."""
    windows = kernel.windows
    names: list[tuple[Var, PrimExpr]] = []
    count = _named_product("pixels", [axis.size for axis in windows.axes], names)
    pixel = IterVar(Range.from_min_extent(const(0, "int64"), count), Var("pixel", "int64"))
    axes = tuple(axis.pixel for axis in windows.axes)
    store, total = finished(kernel)
    merger = IndexMerger(axes, pixel)
    merged = merger.visit(store)
    left = {id(var) for var in free_vars(merged)}
    if any(id(axis.var) in left for axis in axes):
        return Refusal("the epilogue reads an operand in another order of pixels, or uses their positions")
    merged, tables = with_tables(merged, windows.channel, (pixel.var, total, *(v.var for v in windows.batch)))
    return Merged(pixel.var, count, merged, total, tuple(merger.views.values()), tuple(names), tables)


def with_tables(store: BufferStore, channel: IterVar, varying: Sequence[Var]) -> tuple[BufferStore, tuple[Table, ...]]:
    """Move per-channel subexpressions of the store into tables; return the new store and the tables."""
    parts = CommonParts(varying)
    value = parts.visit(store.value)
    values: dict[Var, PrimExpr] = {}
    tables: list[Table] = []
    for name, part in parts.values:
        values[name] = part
        if not isinstance(part, BufferLoad) and part.dtype in ("float32", "float64") and is_total(part):
            buffer = decl_buffer([size_of(channel)], str(part.dtype), "table")
            tables.append(Table(buffer, channel.var, part))
            values[name] = BufferLoad(buffer, (channel.var,))
    return (store.replace(value=substitute(value, values)), tuple(tables)) if tables else (store, ())


def is_total(value: PrimExpr) -> bool:
    """True if evaluating the value cannot fail, apart from loads of buffers of static size."""
    parts: list[bool] = []

    def visit(part: PrimExpr) -> None:
        known = isinstance(part, BufferLoad) and all(isinstance(size, IntImm) for size in part.buffer.shape)
        parts.append(known or not fails_itself(part))

    post_order(value, visit)
    return all(parts)


def _named_product(name: str, sizes: Sequence[PrimExpr], names: list[tuple[Var, PrimExpr]]) -> PrimExpr:
    """Return the product of sizes, bound to a name unless it is a constant or variable."""
    total = product_of(sizes)
    if isinstance(total, (IntImm, Var)):
        return total
    var = SizeVar(name, "int64")
    names.append((var, total))
    return var


def finished(kernel: Kernel) -> tuple[BufferStore, Var]:
    """Return (store of a result with the epilogue applied, variable that stands for the sum)."""
    out = kernel.windows.out
    total = Var("total", out.buffer.dtype)
    if kernel.epilogue is None:
        return out.replace(value=total), total
    store = kernel.epilogue.stores[0]
    pairs = zip(store.indices, out.indices, strict=True)
    names = {index: there.astype(str(index.dtype)) for index, there in pairs if isinstance(index, Var)}
    value = substitute(_Summed(out.buffer, total).visit(store.value), names)
    return store.replace(value=value, indices=out.indices), total


class _Summed(StmtExprMutator):
    """Replaces loads of one buffer by a variable."""

    def __init__(self, buffer: Buffer, total: Var) -> None:
        super().__init__()
        self.buffer, self.total = buffer, total

    def visit_BufferLoad(self, node: BufferLoad) -> PrimExpr:
        return self.total if node.buffer is self.buffer else self.visit_children(node)
