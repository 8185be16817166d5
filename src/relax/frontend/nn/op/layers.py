"""Operators of layers: products, convolutions, normalisation, attention, images, and communication."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from .... import op as relax_op
from ....prim import PrimExpr
from ..tensor import Tensor, emit, get_default_dtype
from .lift import Unary, lifted

Ints = int | Sequence[int]

softmax: Callable[..., Tensor] = lifted("nn.softmax", "softmax", operands="x")
softplus: Callable[..., Tensor] = lifted("nn.softplus", "softplus", operands="x")
prelu: Callable[..., Tensor] = lifted("nn.prelu", "prelu", operands="x alpha name")

ccl_allreduce: Callable[..., Tensor] = lifted("ccl.allreduce", "ccl_allreduce")
ccl_allgather: Callable[..., Tensor] = lifted("ccl.allgather", "ccl_allgather", operands="x num_workers name")
ccl_broadcast_from_worker0: Unary = lifted("ccl.broadcast_from_worker0", "broadcast_from_worker")


def gelu(x: Tensor, approximate: str | None = None, name: str = "gelu") -> Tensor:
    """Return x · Φ(x), Φ the normal distribution; with `approximate` "tanh" the formula with a hyperbolic tangent.

    Raises ValueError for another approximation.
    """
    if approximate not in (None, "none", "tanh"):
        raise ValueError(f'approximate must be None, "none" or "tanh", found {approximate!r}')
    return emit(relax_op.nn.gelu_tanh if approximate == "tanh" else relax_op.nn.gelu, name, x)


def matmul(a: Tensor, b: Tensor, out_dtype: str | None = None, name: str = "matmul") -> Tensor:
    """Return the matrix product of the last two dimensions, in `out_dtype`, by default that of the operands."""
    return emit(relax_op.matmul, name, a, b, out_dtype or "")


# ------------------------------------------------------------------------------------ convolutions


def conv1d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Ints = 1,
    padding: Ints | str = 0,
    dilation: Ints = 1,
    groups: int = 1,
    name: str = "conv1d",
) -> Tensor:
    """Return the convolution of sequences (n, c, w) with kernels (o, c / groups, k), plus a bias (o).

    `padding` "same" keeps the width, at stride 1; "valid" is 0.
    """
    pads = _padding(padding, weight, stride, dilation)
    y = emit(relax_op.nn.conv1d, _named(name, bias), x, weight, stride, pads, dilation, groups)
    return _biased(y, bias, 1, name)


def conv2d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Ints = 1,
    padding: Ints | str = 0,
    dilation: Ints = 1,
    groups: int = 1,
    data_layout: str = "NCHW",
    name: str = "conv2d",
) -> Tensor:
    """Return the convolution of images with kernels (o, c / groups, h, w), plus a bias (o).

    `data_layout`, that of the images, is "NCHW" or "NHWC". `padding` is as that of `conv1d`.
    """
    pads = _padding(padding, weight, stride, dilation)
    y = emit(relax_op.nn.conv2d, _named(name, bias), x, weight, stride, pads, dilation, groups, data_layout)
    return _biased(y, bias, data_layout.index("C"), name)


def conv3d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Ints = 1,
    padding: Ints | str = 0,
    dilation: Ints = 1,
    groups: int = 1,
    data_layout: str = "NCDHW",
    name: str = "conv3d",
) -> Tensor:
    """Return the convolution of volumes with kernels (o, c / groups, d, h, w), plus a bias (o).

    `data_layout` and `padding` are as those of `conv2d`.
    """
    pads = _padding(padding, weight, stride, dilation)
    y = emit(relax_op.nn.conv3d, _named(name, bias), x, weight, stride, pads, dilation, groups, data_layout)
    return _biased(y, bias, data_layout.index("C"), name)


def conv1d_transpose(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Ints = 1,
    padding: Ints = 0,
    output_padding: Ints = 0,
    dilation: Ints = 1,
    groups: int = 1,
    name: str = "conv1d_transpose",
) -> Tensor:
    """Return the transpose of `conv1d`: sequences (n, c, w), kernels (c, o / groups, k), a bias (o)."""
    y = emit(
        relax_op.nn.conv1d_transpose, _named(name, bias), x, weight, stride, padding, output_padding, dilation, groups
    )  # fmt: skip
    return _biased(y, bias, 1, name)


def _named(name: str, bias: Tensor | None) -> str:
    """Return the name of a product: that of the result, unless a bias is added to it."""
    return name if bias is None else ""


def _biased(y: Tensor, bias: Tensor | None, axis: int, name: str) -> Tensor:
    if bias is None:
        return y
    shape = [bias.shape[0] if index == axis else 1 for index in range(y.ndim)]
    return emit(relax_op.add, name, y, emit(relax_op.reshape, "", bias, shape))


def _padding(padding: Ints | str, weight: Tensor, stride: Ints, dilation: Ints) -> Ints:
    """Return the padding of all dimensions, for the words "same" and "valid" too. Raises ValueError for others."""
    if not isinstance(padding, str):
        return padding
    if padding == "valid":
        return 0
    sizes = weight.shape[2:]
    count = len(sizes)
    steps = [stride] * count if isinstance(stride, int) else [*stride]
    if padding != "same" or any(step != 1 for step in steps):
        raise ValueError(
            f'padding must be numbers, "valid", or "same" at stride 1; found {padding!r} at stride {stride}'
        )
    gaps = [dilation] * count if isinstance(dilation, int) else [*dilation]
    totals = [gap * (int(size) - 1) for gap, size in zip(gaps, sizes, strict=True)]  # type: ignore[arg-type]
    return [total // 2 for total in totals] + [total - total // 2 for total in totals]


# ------------------------------------------------------------------------------------ normalisation


def layer_norm(
    x: Tensor,
    normalized_shape: int | Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    name: str = "layer_norm",
) -> Tensor:
    """Return (x - mean) / √(variance + eps) · weight + bias over the last dimensions, of `normalized_shape`."""
    sizes = [normalized_shape] if isinstance(normalized_shape, int) else [*normalized_shape]
    axes = [*range(-len(sizes), 0)]
    scale = _filled(weight, 1.0, sizes, x.dtype)
    offset = _filled(bias, 0.0, sizes, x.dtype)
    return emit(
        relax_op.nn.layer_norm, name, x, scale, offset, axes, eps, center=bias is not None, scale=weight is not None
    )


def rms_norm(
    x: Tensor, weight: Tensor, axes: int | Sequence[int], epsilon: float = 1e-5, name: str = "rms_norm"
) -> Tensor:
    """Return x / √(mean x² + epsilon) · weight over `axes`."""
    return emit(relax_op.nn.rms_norm, name, x, weight, axes, epsilon)


def group_norm(
    x: Tensor,
    num_groups: int,
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float = 1e-5,
    channel_axis: int = 1,
    axes: Sequence[int] | None = None,
    name: str = "group_norm",
) -> Tensor:
    """Return x normalised over each of `num_groups` groups of channels and over `axes`, scaled and shifted by channel.

    `axes` are by default all but the batch and the channels.
    """
    channel = channel_axis % x.ndim
    others = [axis for axis in range(1, x.ndim) if axis != channel] if axes is None else [*axes]
    sizes = [x.shape[channel]]
    scale, offset = _filled(weight, 1.0, sizes, x.dtype), _filled(bias, 0.0, sizes, x.dtype)
    return emit(
        relax_op.nn.group_norm, name, x, scale, offset, num_groups, channel, others, eps,
        center=bias is not None, scale=weight is not None,
    )  # fmt: skip


def _filled(weight: Tensor | None, value: float, sizes: Sequence[int | PrimExpr], dtype: str) -> Tensor:
    """Return a parameter of a normalisation, or a tensor of one value in its place."""
    if weight is not None:
        return weight
    return emit(relax_op.full, "", sizes, Tensor.from_scalar(value, dtype), dtype)


# ------------------------------------------------------------------------------------ attention, embeddings


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    is_causal: bool | None = False,
    scale: float | None = None,
    name: str = "scaled_dot_product_attention",
) -> Tensor:
    """Return softmax(scale · Q Kᵀ + mask) V, head by head: (batch, m, heads, e).

    query (batch, m, heads, d), key (batch, n, heads, d), value (batch, n, heads, e). `attn_mask` broadcasts to (batch,
    heads, m, n); of booleans, those that are true count, other elements are added to the scores. `is_causal` lets query
    i see the keys j ≤ i. `scale` is 1/√d by default.
    """
    causal = "TopLeft" if is_causal else None
    if attn_mask is not None and attn_mask.dtype == "bool":
        zero, least = (Tensor.from_scalar(number, query.dtype) for number in (0.0, -math.inf))
        attn_mask = emit(relax_op.where, "", attn_mask, zero, least)
    return emit(relax_op.nn.attention, name, query, key, value, attn_mask, scale, causal)


def get_timestep_embedding(
    x: Tensor,
    embedding_dim: int,
    flip_sin_to_cos: bool = False,
    downscale_freq_shift: float = 1,
    scale: float = 1,
    max_period: int = 10000,
    name: str = "get_timestep_embedding",
) -> Tensor:
    """Return sines and cosines of the times `x`, (n): (n, embedding_dim), in the default dtype.

    Frequencies fall from 1 towards 1 / max_period. Sines come first, cosines with `flip_sin_to_cos`; a last column of
    zeros makes an odd number of columns.
    """
    half = embedding_dim // 2
    exponents = emit(relax_op.arange, "", 0, half, 1, "float32")
    exponents = exponents * (-math.log(max_period)) / float(half - downscale_freq_shift)
    frequencies = emit(relax_op.expand_dims, "", emit(relax_op.exp, "", exponents), 0)
    times = emit(relax_op.expand_dims, "", x.astype("float32"), 1)
    angles = times * frequencies
    angles = angles if scale == 1 else angles * float(scale)
    parts = [emit(relax_op.sin, "", angles), emit(relax_op.cos, "", angles)]
    both = emit(relax_op.concat, "", parts[::-1] if flip_sin_to_cos else parts, -1)
    if embedding_dim % 2:
        both = emit(relax_op.nn.pad, "", both, [0, 0, 0, 1])
    return emit(relax_op.astype, name, both, get_default_dtype())


def interpolate(
    x: Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool | None = None,
    data_layout: str = "NCHW",
    name: str = "interpolate",
) -> Tensor:
    """Return images resized to `size`, or by `scale_factor`, as torch's function of the same name does.

    `mode` is "nearest", "bilinear" or "bicubic". Raises ValueError for other modes, unless one of `size` and
    `scale_factor` is given, for `antialias`, and if a scaled size is dynamic.
    """
    if recompute_scale_factor or antialias:
        raise ValueError("interpolate: recompute_scale_factor and antialias are not supported")
    if mode not in _METHODS:
        raise ValueError(f"interpolate: mode must be one of {', '.join(map(repr, _METHODS))}, found {mode!r}")
    if (size is None) == (scale_factor is None):
        raise ValueError("interpolate: give one of size and scale_factor")
    if size is None:
        factors = [scale_factor] * 2 if isinstance(scale_factor, (int, float)) else [*(scale_factor or ())]
        old = [x.shape[data_layout.index(axis)] for axis in "HW"]
        sizes = [_scaled(length, factor) for length, factor in zip(old, factors, strict=True)]
    else:
        sizes = [size] * 2 if isinstance(size, (int, PrimExpr)) else [*size]
    coordinates = "align_corners" if align_corners else ("asymmetric" if mode == "nearest" else "half_pixel")
    rounding = "floor" if mode == "nearest" else "round"
    return emit(
        relax_op.image.resize2d, name, x, sizes, layout=data_layout, method=_METHODS[mode],
        coordinate_transformation_mode=coordinates, rounding_method=rounding, cubic_alpha=-0.75,
    )  # fmt: skip


_METHODS = {"nearest": "nearest_neighbor", "bilinear": "linear", "bicubic": "cubic"}


def _scaled(length: int | PrimExpr, factor: float) -> int | PrimExpr:
    if isinstance(length, int):
        return int(length * factor)
    if float(factor).is_integer():
        return length * int(factor)
    raise ValueError(f"interpolate: the dynamic size {length} cannot be scaled by {factor}; give the size")
