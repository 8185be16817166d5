"""Padding, pixel_shuffle and pixel_unshuffle."""

# The parameters of a formula are index variables; te.compute says so, but not in a way a type checker can follow.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from ... import te
from ...prim import PrimExpr, Select, const, intrin, is_const


def pad(
    data: te.Tensor,
    pad_before: Sequence[Any],
    pad_after: Sequence[Any] | None = None,
    pad_value: Any = 0.0,
    name: str = "PadInput",
) -> te.Tensor:
    """Pad the data with `pad_value`: `pad_before` and `pad_after` elements per dimension (after None: as before)."""
    after = pad_before if pad_after is None else pad_after
    fill = const(pad_value, data.dtype) if isinstance(pad_value, (int, float)) else pad_value
    shape = [size + low + high for size, low, high in zip(data.shape, pad_before, after, strict=True)]

    def element(*i: PrimExpr) -> PrimExpr:
        source = [index - low for index, low in zip(i, pad_before, strict=True)]
        inside = [c for at, size in zip(source, data.shape, strict=True) for c in (at >= 0, at < size)]
        return intrin.if_then_else(intrin.all(*inside), data(*source), fill) if inside else data()

    return te.compute(shape, element, name, tag="injective,pad")


PadMode = Literal["constant", "reflect", "replicate", "circular", "edge", "wrap"]
"""Modes of `pad_by_mode`; "edge" and "wrap" are NumPy's names for "replicate" and "circular"."""


def _source(index: PrimExpr, size: PrimExpr, mode: PadMode) -> PrimExpr:
    """Index of the data element whose value the padded index takes."""
    one = const(1, "int64")
    if mode in ("replicate", "edge"):
        return intrin.max(intrin.min(index, size - 1), const(0, "int64"))
    if mode in ("circular", "wrap"):
        return intrin.floormod(index, intrin.max(size, one))
    period = (size - 1) * 2
    turn = intrin.floormod(index, intrin.max(period, one))
    return Select(turn < size, turn, period - turn)


def pad_by_mode(
    data: te.Tensor, pad_width: Sequence[Any], pad_mode: PadMode = "constant", pad_value: int | float = 0.0
) -> te.Tensor:
    """The data with pad_width[2d] elements added before and pad_width[2d + 1] after it in dimension d; negative widths
    crop.

    Added elements are `pad_value`, or elements of the data: mirrored at the first and last one (reflect), the first or
    last one (replicate), or as if the data repeated (circular).
    """
    before, after = list(pad_width[::2]), list(pad_width[1::2])
    if pad_mode == "constant":
        fill = pad_value if data.dtype.is_float else int(pad_value)
        return pad(data, before, after, const(fill, data.dtype), "pad")
    shape = [size + low + high for size, low, high in zip(data.shape, before, after, strict=True)]
    # Dimensions that stay whole are read as they are.
    whole = [is_const(low, 0) and is_const(high, 0) for low, high in zip(before, after, strict=True)]

    def element(*i: PrimExpr) -> PrimExpr:
        per_dimension = zip(i, before, data.shape, whole, strict=True)
        return data(*(at if same else _source(at - low, size, pad_mode) for at, low, size, same in per_dimension))

    return te.compute(shape, element, "pad", tag="injective,pad")


def pixel_shuffle(data: te.Tensor, upscale_factor: int) -> te.Tensor:
    """(…, C·r², H, W) as (…, C, H·r, W·r): each pixel becomes r × r pixels, taken from its channels."""
    r = upscale_factor
    *outer, channels, height, width = data.shape

    def element(*i: Any) -> PrimExpr:
        *at, c, y, x = i
        return data(*at, (c * r + y % r) * r + x % r, y // r, x // r)

    shape = (*outer, channels // (r * r), height * r, width * r)
    return te.compute(shape, element, "pixel_shuffle", tag="injective")


def pixel_unshuffle(data: te.Tensor, downscale_factor: int) -> te.Tensor:
    """(…, C, H·r, W·r) as (…, C·r², H, W): the inverse of `pixel_shuffle`."""
    r = downscale_factor
    *outer, channels, height, width = data.shape

    def element(*i: Any) -> PrimExpr:
        *at, c, y, x = i
        return data(*at, c // (r * r), y * r + c // r % r, x * r + c % r)

    shape = (*outer, channels * (r * r), height // r, width // r)
    return te.compute(shape, element, "pixel_unshuffle", tag="injective")
