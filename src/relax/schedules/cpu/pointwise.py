"""The rule for convolutions of single elements (1 × 1), with channels before pixels, of float32 or float64.

    for n, co, h, w, ci in T.grid(…):                   C[n, co, p] += W[co, ci] * X[n, ci, p]
        with T.block("conv"):                           for p in all pixels of an image: products of matrices,
            C[n, co, h, w] += W[co, ci, 0, 0] * …       in register tiles

Images of known and unknown size, in one to three dimensions, any batch; what is computed of each element behind the
convolution (bias, addition, activation) becomes part of the store; values that an output channel alone decides, such as
the scale of a normalisation, are computed once. With a stride, the pixels that are used are copied first
(`strided_pixels`). `pointwise_tiles` has the loops in their two forms: vectors along pixels, or along output channels,
which serves images whose pixels do not fill vectors (7 × 7), and needs weights that are known when a program is built;
`along_pixels` and `along_channels` write them.
Such weights are packed for the tiles; others are read where they are.

Refused, and left to `convolution`: kernels of several elements, padding, groups, numbers of channels that are not
known, nests behind the convolution that read pixels in another order, known sizes that are too small to be worth it,
and functions that do not promise that their arguments are apart (tir.noalias).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ...prim import IntImm, PrimExpr, SizeVar, Var, const, is_const, post_order, simplify
from ...prim.traits import fails_itself
from ...target import Target
from ...tir import Buffer, BufferLoad, BufferStore, IterVar, PrimFunc, Range, Stmt
from ...tir.buffer import decl_buffer
from ...tir.functor import StmtExprMutator, substitute
from ...tir.nests import same_size
from ...tir.usage import free_vars
from ..common_parts import CommonParts
from ..contraction import IndexMerger, size_of
from ..rule import PackedFunction, ScheduleRule
from .along_channels import AlongChannels
from .along_pixels import AlongPixels
from .packed_weights import Declare, packed_kernels
from .pixels import Pixels, Table
from .strided_pixels import with_neighbours
from .tiling import tile_for
from .windows import Kernel, rewritten_kernels
from .words import Words

WEIGHTS: Final = 1 << 17
"""The weights from which on images of unknown size are taken to be small: deep layers have many channels."""
DEEP: Final = 320
"""The input channels from which on they are so too, if there are `NARROWED` times as many as output channels."""
NARROWED: Final = 3
"""The ends of inverted residuals have fewer channels: those of a tile's rows would be few blocks."""
TRANSPOSED: Final = 3
"""The steps in which a vector of results is transposed and stored."""
TRANSPOSED_OF_WORDS: Final = 6
"""The same where words are multiplied."""


class Pointwise(ScheduleRule):
    """The rule for convolutions of single elements."""

    def apply(self, func: PrimFunc, target: Target, tunable: bool) -> PrimFunc | None:
        del tunable
        if not func.attrs.get("tir.noalias"):
            return None

        def rewrite(kernel: Kernel) -> Stmt | None:
            pixels = pixels_of(kernel)
            if pixels is None:
                return None
            lanes = tile_for(target, pixels.total.dtype.bits).lanes
            return with_neighbours(pixels, lanes, lambda pixels: AlongPixels(pixels, target).loops(None))

        return rewritten_kernels(func, rewrite)

    def pack(self, func: PrimFunc, target: Target, constants: Sequence[int]) -> PackedFunction | None:
        """The function for weights that are packed as its tiles read them."""

        def write(kernel: Kernel, declare: Declare) -> Stmt | None:
            pixels = pixels_of(kernel)
            if pixels is None:
                return None

            def loops(pixels: Pixels) -> Stmt:
                writer = writer_for(pixels, target)
                packing = writer.packing()
                return writer.loops(declare(packing, packing.shape, str(kernel.windows.weight.buffer.dtype)))

            return with_neighbours(pixels, tile_for(target, pixels.total.dtype.bits).lanes, loops)

        return packed_kernels(func, constants, write)


def writer_for(pixels: Pixels, target: Target, words: Words | None = None) -> AlongPixels | AlongChannels:
    """The form that takes fewer steps; for an unknown number of pixels, by the numbers of channels."""
    first, second = AlongPixels(pixels, target, words), AlongChannels(pixels, target, words)
    each = TRANSPOSED if words is None else TRANSPOSED_OF_WORDS
    moved = pixels.channels / first.lanes * each / first.inputs
    if isinstance(pixels.count, IntImm):
        return first if first.cost() <= second.cost() + pixels.count.value * moved else second
    inputs, channels = pixels.inputs, pixels.channels
    is_small = inputs * channels >= WEIGHTS or inputs >= max(DEEP, NARROWED * channels)
    return second if is_small else first


def pixels_of(kernel: Kernel) -> Pixels | None:
    """The convolution as a product over the pixels of an image; None for what the rule refuses."""
    windows = kernel.windows
    inputs, channels = windows.inputs, windows.channels
    if windows.groups != 1 or windows.depth is None or windows.padding is not None:
        return None
    if any(axis.taps != 1 or not is_const(axis.before, 0) for axis in windows.axes):
        return None
    if not isinstance(inputs, IntImm) or not isinstance(channels, IntImm):
        return None
    if not inputs.value or not channels.value:
        return None
    is_strided = any(a.stride != 1 or not same_size(a.size, a.extent) for a in windows.axes)
    merged = merged_pixels(kernel)
    if merged is None:
        return None
    data, names = windows.data, list(merged.names)
    area = (
        _named_product("area", [axis.extent for axis in windows.axes], names) if is_strided else merged.count
    )
    leading = data.shape[: data.ndim - len(windows.axes)]
    source = decl_buffer((*leading, area), str(data.dtype), f"{data.name}_pixels", data=data.data)
    return Pixels(
        windows.batch, windows.channel.var, merged.pixel, merged.count, channels.value, inputs.value, merged.store,
        merged.total, source, windows.weight.buffer, windows.axes if is_strided else (), merged.views, tuple(names),
        merged.tables,
    )  # fmt: skip


@dataclass(frozen=True)
class Merged:
    """The store of a result by the number of its pixel, as parts of `Pixels`."""

    pixel: Var
    count: PrimExpr
    store: BufferStore
    total: Var
    views: tuple[Buffer, ...]
    names: tuple[tuple[Var, PrimExpr], ...]
    tables: tuple[Table, ...]


def merged_pixels(kernel: Kernel) -> Merged | None:
    """The store of a result with one index for all axes of pixels; None if it reads them in another order."""
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
        return None
    merged, tables = with_tables(merged, windows.channel, (pixel.var, total, *(v.var for v in windows.batch)))
    return Merged(pixel.var, count, merged, total, tuple(merger.views.values()), tuple(names), tables)


def with_tables(
    store: BufferStore, channel: IterVar, varying: Sequence[Var]
) -> tuple[BufferStore, tuple[Table, ...]]:
    """The store with loads from tables for what is computed of an output channel alone, and the tables."""
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
    """True if nothing in a value can fail, loads from buffers of known sizes aside."""
    parts: list[bool] = []

    def visit(part: PrimExpr) -> None:
        known = isinstance(part, BufferLoad) and all(isinstance(size, IntImm) for size in part.buffer.shape)
        parts.append(known or not fails_itself(part))

    post_order(value, visit)
    return all(parts)


def _named_product(name: str, sizes: Sequence[PrimExpr], names: list[tuple[Var, PrimExpr]]) -> PrimExpr:
    """The product of sizes, by a name unless it is a number or a variable: proofs need not look at its factors."""
    total: PrimExpr = const(1, "int64")
    for size in sizes:
        total = total * size
    total = simplify(total)
    if isinstance(total, (IntImm, Var)):
        return total
    var = SizeVar(name, "int64")
    names.append((var, total))
    return var


def finished(kernel: Kernel) -> tuple[BufferStore, Var]:
    """The store of a result, as the nest behind the convolution changes it, and the variable that is the sum in it."""
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
    """Puts a variable in the place of loads of one buffer."""

    def __init__(self, buffer: Buffer, total: Var) -> None:
        super().__init__()
        self.buffer, self.total = buffer, total

    def visit_BufferLoad(self, node: BufferLoad) -> PrimExpr:
        return self.total if node.buffer is self.buffer else self.visit_children(node)


__all__ = [
    "Merged", "Pointwise", "finished", "is_total", "merged_pixels", "pixels_of", "with_tables", "writer_for",
]  # fmt: skip
