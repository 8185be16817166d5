"""Windows over the spatial dimensions of a layout: their numbers, and the padding they may reach into.

The letters of a layout name its dimensions: N the batch, C the channels, and D, H, W (or H, W, or W) the spatial ones.
Dimensions of a packed layout are split: in NCHW16c, c is the innermost part of C, of size 16 (`relax.tir.layout`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ... import te
from ...prim import PrimExpr, const, convert, intrin, is_const
from ...tir.layout import is_divisible, parsed
from ..transform import transpose
from .padding import pad


def spatial_axes(layout: str) -> str:
    """The spatial letters of a layout, outermost first: "HW" of "NHWC"."""
    return "".join(axis for axis in "DHW" if axis in layout)


def per_axis(value: int | Sequence[int], count: int) -> tuple[int, ...]:
    """Return one number per spatial dimension, repeating a single one. Raises ValueError for another count."""
    values = (value,) if isinstance(value, int) else tuple(value)
    values = values * count if len(values) == 1 else values
    if len(values) != count:
        raise ValueError(f"expected 1 or {count} numbers, found {len(values)}")
    return values


def pad_pairs(padding: int | Sequence[int], count: int = 2) -> tuple[tuple[int, int], ...]:
    """(before, after) per spatial dimension from one number, one per dimension, or befores then afters.

    Raises ValueError for another count.
    """
    values = [padding] if isinstance(padding, int) else list(padding)
    if len(values) == 1:
        values = values * count
    if len(values) == count:
        values = values * 2
    if len(values) != 2 * count:
        raise ValueError(f"padding must have 1, {count} or {2 * count} numbers, found {len(values)}")
    return tuple((values[d], values[d + count]) for d in range(count))


def conv_extent(size: PrimExpr, kernel: Any, pads: tuple[int, int], stride: int, dilation: int) -> PrimExpr:
    """⌊(size + pads - dilation · (kernel - 1) - 1) / stride⌋ + 1."""
    span = (kernel - 1) * dilation + 1
    padded = size + (pads[0] + pads[1]) - span
    return (padded // stride if stride != 1 else padded) + 1


def conv_transpose_extent(
    size: PrimExpr, kernel: Any, pads: tuple[int, int], stride: int, dilation: int, output_padding: int
) -> PrimExpr:
    """(size - 1) · stride + dilation · (kernel - 1) + 1 + output_padding - pads."""
    return (size - 1) * stride + (kernel - 1) * dilation + (1 + output_padding - pads[0] - pads[1])


def pool_extent(
    size: PrimExpr, window: int, pads: tuple[int, int], stride: int, dilation: int, ceil_mode: bool
) -> PrimExpr:
    """Number of windows. With `ceil_mode`, no window starts in the padding after the data."""
    span = (window - 1) * dilation + 1
    room = size + (pads[0] + pads[1] - span)
    if not ceil_mode:
        return (room // stride if stride != 1 else room) + 1
    return intrin.min((room + (stride - 1)) // stride + 1, (size + (pads[0] - 1)) // stride + 1)


def relaid(x: te.Tensor, source: str, target: str) -> te.Tensor:
    """Convert a tensor from one layout to another; elements that only fill up a part of a split dimension are 0."""
    if source == target:
        return x
    old, new = parsed(source), parsed(target)
    if sorted(old.axis_names) == sorted(new.axis_names):
        return transpose(x, list(map(old.axis_names.index, new.axis_names)))
    extents = old.extents(x.shape)
    filled = [letter for letter in new.plain if not is_divisible(extents[letter], max(new.factor_of(letter), 1))]

    def element(*i: Any) -> PrimExpr:
        whole = new.joined(i)
        value = x(*old.split(whole))
        inside = [whole[letter] < extents[letter] for letter in filled]
        return intrin.if_then_else(intrin.all(*inside), value, const(0, x.dtype)) if inside else value

    return te.compute(new.shape(extents), element, "T_layout_transform", tag="injective")


def padded(data: te.Tensor, layout: Sequence[str], pads: Mapping[str, tuple[Any, Any]], value: Any) -> te.Tensor:
    """Pad the data so that no window leaves it; returns the data itself without padding."""
    widths = {axis: [convert(width) for width in pair] for axis, pair in pads.items()}
    if all(is_const(width, 0) for pair in widths.values() for width in pair):
        return data
    none = [const(0, "int64")] * 2
    before, after = ([widths.get(axis, none)[end] for axis in layout] for end in (0, 1))
    return pad(data, before, after, value, "padded")
