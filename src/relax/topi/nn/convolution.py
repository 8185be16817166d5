"""Convolutions and transposed convolutions of 1 to 3 spatial dimensions.

Narrow floats (16 and 8 bits) are accumulated in float32 and rounded once.
"""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ... import te
from ...ir import DataType
from ...prim import PrimExpr, const, intrin
from ..util import accumulator_dtype
from .windows import conv_extent, conv_transpose_extent, pad_pairs, padded, per_axis, spatial_axes


def _rounded(out: te.Tensor, dtype: DataType) -> te.Tensor:
    """The accumulated sums in the dtype of the result."""
    if out.dtype == dtype:
        return out
    return te.compute(out.shape, lambda *i: out(*i).astype(dtype), f"{out.name}_cast")


def conv(
    data: te.Tensor,
    weight: te.Tensor,
    strides: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    data_layout: str = "NCHW",
    kernel_layout: str = "OIHW",
    out_layout: str | None = None,
    out_dtype: str | None = None,
) -> te.Tensor:
    """Cross-correlation of zero-padded data with kernels; layouts are permutations of N, C and the spatial letters."""
    out_layout = out_layout or data_layout
    kind = DataType(out_dtype) if out_dtype else data.dtype
    wide = accumulator_dtype(kind)
    axes = spatial_axes(data_layout)
    stride, dilate = per_axis(strides, len(axes)), per_axis(dilation, len(axes))
    pads = pad_pairs(padding, len(axes))
    size = dict(zip(data_layout, data.shape, strict=True))
    kernel = dict(zip(kernel_layout, weight.shape, strict=True))
    extent = {"N": size["N"], "C": kernel["O"]}
    for j, axis in enumerate(axes):
        extent[axis] = conv_extent(size[axis], kernel[axis], pads[j], stride[j], dilate[j])
    source = padded(data, data_layout, dict(zip(axes, pads, strict=True)), const(0, data.dtype))
    per_group = kernel["O"] // groups if groups != 1 else None
    rc = te.reduce_axis((0, kernel["I"]), "rc")
    taps = {axis: te.reduce_axis((0, kernel[axis]), f"r{axis.lower()}") for axis in axes}

    def formula(*i: Any) -> Any:
        at = dict(zip(out_layout, i, strict=True))
        channel = rc.var if per_group is None else at["C"] // per_group * kernel["I"] + rc.var
        read = {"N": at["N"], "C": channel}
        tap = {"O": at["C"], "I": rc.var} | {axis: taps[axis].var for axis in axes}
        for j, axis in enumerate(axes):
            read[axis] = at[axis] * stride[j] + taps[axis].var * dilate[j]
        value = source(*(read[c] for c in data_layout)).astype(wide)
        return te.sum(
            value * weight(*(tap[c] for c in kernel_layout)).astype(wide), axis=[rc, *taps.values()]
        )

    name = f"conv{len(axes)}d"
    return _rounded(te.compute([extent[c] for c in out_layout], formula, name, tag=name), kind)


def conv2d(
    data: te.Tensor,
    weight: te.Tensor,
    strides: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    data_layout: str = "NCHW",
    kernel_layout: str = "",
    out_dtype: str | None = None,
) -> te.Tensor:
    """`conv` of images, in TVM's order of parameters."""
    letters = kernel_layout or "OIHW"
    return conv(data, weight, strides, padding, dilation, 1, data_layout, letters, None, out_dtype)


def conv_transpose(
    data: te.Tensor,
    weight: te.Tensor,
    strides: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    output_padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    data_layout: str = "NCHW",
    kernel_layout: str = "IOHW",
    out_layout: str | None = None,
    out_dtype: str | None = None,
) -> te.Tensor:
    """The convolution's gradient by its data: w[k] · data[y] is added to element y·stride + k·dilation - pad.

    Each element gathers only the taps k that meet one of the data. With t = its index + pad and g = gcd(stride,
    dilation), there are some if g divides t: k ≡ (t/g) · (dilation/g)⁻¹ modulo step = stride/g.
    """
    out_layout = out_layout or data_layout
    kind = DataType(out_dtype) if out_dtype else data.dtype
    wide = accumulator_dtype(kind)
    axes = spatial_axes(data_layout)
    stride, dilate = per_axis(strides, len(axes)), per_axis(dilation, len(axes))
    pads, more = pad_pairs(padding, len(axes)), per_axis(output_padding, len(axes))
    size = dict(zip(data_layout, data.shape, strict=True))
    kernel = dict(zip(kernel_layout, weight.shape, strict=True))
    extent = {"N": size["N"], "C": kernel["O"] * groups}
    for j, axis in enumerate(axes):
        extent[axis] = conv_transpose_extent(size[axis], kernel[axis], pads[j], stride[j], dilate[j], more[j])
    shared = [math.gcd(s, d) for s, d in zip(stride, dilate, strict=True)]
    step = [s // g for s, g in zip(stride, shared, strict=True)]
    per_group = kernel["I"] // groups if groups != 1 else kernel["I"]
    rc = te.reduce_axis((0, per_group), "rc")
    taps = [
        te.reduce_axis((0, intrin.ceildiv(kernel[axis], step[j])), f"r{axis.lower()}")
        for j, axis in enumerate(axes)
    ]

    def place(j: int, index: Any) -> tuple[Any, Any, list[PrimExpr]]:
        """The tap, the element of the data it meets, and the conditions under which both exist."""
        t = index + pads[j][0]
        conditions: list[PrimExpr] = []
        tap = taps[j].var
        if step[j] > 1:
            inverse = pow(dilate[j] // shared[j], -1, step[j])
            tap = t // shared[j] * inverse % step[j] + tap * step[j]
            conditions.append(tap < kernel[axes[j]])
        if shared[j] > 1:
            conditions.append((t % shared[j]).equal(0))
        at = (t - tap * dilate[j]) // stride[j]
        return tap, at, [*conditions, at >= 0, at < size[axes[j]]]

    def formula(*i: Any) -> Any:
        at = dict(zip(out_layout, i, strict=True))
        channel = rc.var if groups == 1 else at["C"] // kernel["O"] * per_group + rc.var
        read = {"N": at["N"], "C": channel}
        tap = {"O": at["C"] if groups == 1 else at["C"] % kernel["O"], "I": channel}
        inside: list[PrimExpr] = []
        for j, axis in enumerate(axes):
            tap[axis], read[axis], conditions = place(j, at[axis])
            inside += conditions
        value = data(*(read[c] for c in data_layout)).astype(wide)
        product = value * weight(*(tap[c] for c in kernel_layout)).astype(wide)
        return te.sum(intrin.if_then_else(intrin.all(*inside), product, const(0, wide)), axis=[rc, *taps])

    name = f"conv{len(axes)}d_transpose"
    return _rounded(te.compute([extent[c] for c in out_layout], formula, name, tag=name), kind)
