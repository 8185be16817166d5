"""Operators on blocks and windows: space to batch, dilation, ring buffers, region pooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import op
from ...expr import ShapeExpr
from ...ir import RelaxExpr
from ...prim import IntImm, const
from .declare import (
    ALWAYS,
    FOLLOW,
    INJECTIVE,
    OUT_ELEMWISE_FUSABLE,
    attr,
    axis_of,
    declare,
    dims,
    dtype,
    optional_dtype,
    rank,
    scalar,
)

# -- blocks as batches


def _space_to_batch(a: Any, x: RelaxExpr) -> RelaxExpr:
    """Split each spatial dimension into blocks; the position in a block becomes part of the batch."""
    blocks = _blocks(a)
    count = len(blocks)
    widths = [0, 0, *(width for pair in a.paddings for width in pair)]
    widths += [0] * (2 * rank(x) - len(widths))
    sizes = [size + widths[2 * d] + widths[2 * d + 1] for d, size in enumerate(dims(x))]
    for size, block in zip(sizes[1:], blocks, strict=False):
        if isinstance(size, IntImm) and size.value % block:
            raise ValueError(f"{size.value} padded elements are no multiple of a block of {block}")
    padded = op.nn.pad(x, widths, "constant", a.pad_value) if any(widths) else x
    split = [(size // const(b, "int64"), b) for size, b in zip(sizes[1:], blocks, strict=False)]
    blocked = op.reshape(padded, ShapeExpr([sizes[0], *(s for pair in split for s in pair), *sizes[1 + count :]]))
    rest = range(1 + 2 * count, rank(x) + count)
    order = [*range(2, 2 + 2 * count, 2), 0, *range(1, 1 + 2 * count, 2), *rest]
    product = _product(blocks)
    shape = [sizes[0] * product, *(size for size, _ in split), *sizes[1 + count :]]
    return op.reshape(op.permute_dims(blocked, order), ShapeExpr(shape))


def _batch_to_space(a: Any, x: RelaxExpr) -> RelaxExpr:
    """Inverse of `_space_to_batch`, with elements cropped at both ends."""
    blocks = _blocks(a)
    count, sizes = len(blocks), dims(x)
    product = _product(blocks)
    if isinstance(sizes[0], IntImm) and sizes[0].value % product:
        raise ValueError(f"a batch of {sizes[0].value} is no multiple of blocks of {product}")
    batch = sizes[0] // const(product, "int64")
    blocked = op.reshape(x, ShapeExpr([*blocks, batch, *sizes[1:]]))
    order = [
        count,
        *(axis for i in range(count) for axis in (count + 1 + i, i)),
        *range(2 * count + 1, rank(x) + count),
    ]
    whole = [size * block for size, block in zip(sizes[1:], blocks, strict=False)]
    result = op.reshape(op.permute_dims(blocked, order), ShapeExpr([batch, *whole, *sizes[1 + count :]]))
    axes = list(range(1, 1 + count))
    ends = [size - after for size, (_, after) in zip(whole, a.crops, strict=True)]
    return op.strided_slice(result, axes, [before for before, _ in a.crops], ends)


def _blocks(a: Any) -> list[int]:
    blocks = [int(block) for block in a.block_shape]
    if any(block < 1 for block in blocks):
        raise ValueError(f"block_shape has numbers from 1, found {blocks}")
    return blocks


def _product(numbers: Sequence[int]) -> int:
    result = 1
    for number in numbers:
        result *= number
    return result


declare(
    "nn.space_to_batch_nd", 1,
    attr("block_shape", "ints"), attr("paddings", "intss"), attr("pad_value", "float", 0.0),
    pattern=INJECTIVE, mixed=FOLLOW,
    means=_space_to_batch,
)  # fmt: skip
declare(
    "nn.batch_to_space_nd", 1, attr("block_shape", "ints"), attr("crops", "intss"),
    pattern=INJECTIVE, mixed=FOLLOW,
    means=_batch_to_space,
)  # fmt: skip

# -- dilation, buffers


def _dilate(a: Any, x: RelaxExpr) -> RelaxExpr:
    """Insert stride - 1 copies of the value after each element except the last."""
    if len(a.strides) != rank(x):
        raise ValueError(f"strides has {len(a.strides)} numbers for {rank(x)} dimensions")
    sizes, kind, value = list(dims(x)), dtype(x), scalar(a.dilation_value, x)
    for axis, stride in enumerate(a.strides):
        if stride == 1:
            continue
        before, after, size = sizes[:axis], sizes[axis + 1 :], sizes[axis]
        one = const(1, "int64")
        column = op.reshape(x, ShapeExpr([*before, size, one, *after]))
        gap = op.full(ShapeExpr([*before, size, stride - 1, *after]), value, kind)
        wide = op.reshape(op.concat([column, gap], axis + 1), ShapeExpr([*before, size * stride, *after]))
        if isinstance(size, IntImm) and size.value == 0:
            x = wide
            continue
        sizes[axis] = (size - 1) * stride + 1
        x = op.strided_slice(wide, [axis], [0], [sizes[axis]])
    return x


declare(
    "nn.dilate", 1, attr("strides", "ints"), attr("dilation_value", "float", 0.0),
    pattern=INJECTIVE, mixed=FOLLOW,
    means=_dilate,
)  # fmt: skip


def _fifo_buffer(a: Any, x: RelaxExpr, buffer: RelaxExpr) -> RelaxExpr:
    axis = axis_of(a.axis, x)
    more, size = dims(x)[axis], dims(buffer)[axis]
    return op.strided_slice(op.concat([buffer, x], axis), [axis], [more], [more + size])


declare(
    "nn.fifo_buffer", 2, attr("axis", "int"),
    mixed=FOLLOW,
    means=_fifo_buffer, operands="data buffer",
)  # fmt: skip

# -- pools


def _adaptive_max_pool(letters: str) -> None:
    """Maximum of each of a given number of parts, one dimension after another."""

    def means(a: Any, x: RelaxExpr) -> RelaxExpr:
        lengths = dict(zip(a.layout, dims(x), strict=True))
        counts = [a.output_size] * len(letters) if isinstance(a.output_size, int) else a.output_size
        for letter, count in zip(letters, counts, strict=True) if counts else ():
            axis, length = a.layout.index(letter), lengths[letter]
            x = op.concat([_bin_maxima(x, axis, length, k, count) for k in range(count)], axis)
        return x

    declare(
        f"nn.adaptive_max_pool{len(letters)}d", 1,
        attr("output_size", "int|ints", ()), attr("layout", "str", f"NC{letters}"), attr("out_layout", "str", ""),
        pattern=OUT_ELEMWISE_FUSABLE, mixed=FOLLOW,
        means=means,
    )  # fmt: skip


def _bin_maxima(x: RelaxExpr, axis: int, length: Any, index: int, count: int) -> RelaxExpr:
    """Maxima of part `index` of `count` along an axis."""
    begin = index * length // const(count, "int64")
    end = ((index + 1) * length + (count - 1)) // const(count, "int64")
    return op.max(op.strided_slice(x, [axis], [begin], [end]), [axis], True)


for _letters in ("W", "HW", "DHW"):
    _adaptive_max_pool(_letters)

# -- convolutions, regions


def _deformable(a: Any, x: RelaxExpr, offset: RelaxExpr, weight: RelaxExpr) -> RelaxExpr:
    if (a.data_layout, a.kernel_layout) != ("NCHW", "OIHW"):
        raise ValueError("only the layouts NCHW and OIHW have a counterpart in Relax")
    result = op.vision.deform_conv2d(
        x, offset, weight, None, None, a.strides, a.padding, a.dilation, a.groups, a.deformable_groups
    )
    out_dtype = optional_dtype(a.out_dtype)
    return op.astype(result, out_dtype) if out_dtype else result


declare(
    "nn.deformable_conv2d", 3,
    attr("strides", "ints[2]", (1, 1)), attr("padding", "int|ints", (0, 0)), attr("dilation", "ints[2]", (1, 1)),
    attr("deformable_groups", "int", 1), attr("groups", "int", 1), attr("channels", "int?", None),
    attr("kernel_size", "ints[2]?", None), attr("data_layout", "str", "NCHW"), attr("kernel_layout", "str", "OIHW"),
    attr("out_layout", "str", ""), attr("out_dtype", "dtype?", None),
    mixed=ALWAYS,
    means=_deformable, operands="data offset weight",
)  # fmt: skip
declare(
    "vision.roi_align", 2,
    attr("pooled_size", "ints[2]"), attr("spatial_scale", "float"), attr("sample_ratio", "int", -1),
    attr("layout", "str", "NCHW"), attr("mode", "str", "avg"),
    means=lambda a, x, rois: op.vision.roi_align(
        x, rois, None, list(a.pooled_size), a.spatial_scale, a.sample_ratio, False, a.layout, a.mode
    ),
    operands="data rois",
)  # fmt: skip
