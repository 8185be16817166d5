"""Formulas of neural networks.

Narrow floats (16 and 8 bits) are computed in float32 and rounded once where a formula chains several roundings
(softmax, normalisation, convolution, attention).
"""

# The parameters of a formula are index variables; te.compute says so, but not in a way a type checker can follow.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .. import te
from ..ir import DataType
from ..prim import PrimExpr, Select, const, intrin, is_const
from .activation import gelu as gelu
from .activation import gelu_tanh as gelu_tanh
from .activation import relu as relu
from .activation import silu as silu
from .linalg import matmul as matmul
from .transform import flatten as flatten
from .util import accumulator_dtype, normalize_axes, normalize_axis


def _along(x: te.Tensor, axis: int) -> tuple[Any, Any]:
    """For the softmaxes: x - max in the accumulator dtype, and sums of functions of it along the axis."""
    wide = accumulator_dtype(x.dtype)
    outer_shape = [size for d, size in enumerate(x.shape) if d != axis]

    def insert(outer: Sequence[Any], value: Any) -> list[Any]:
        return [*outer[:axis], value, *outer[axis:]]

    k = te.reduce_axis((0, x.shape[axis]), "k")
    largest = te.compute(
        outer_shape, lambda *o: te.max(x(*insert(o, k.var)), axis=k), "softmax_max", tag="comm_reduce"
    )

    def shifted(index: Sequence[Any]) -> Any:
        outer = [i for d, i in enumerate(index) if d != axis]
        return x(*index).astype(wide) - largest(*outer).astype(wide)

    def total(function: Any, name: str) -> te.Tensor:
        e = te.reduce_axis((0, x.shape[axis]), "k")
        return te.compute(
            outer_shape,
            lambda *o: te.sum(function(shifted(insert(o, e.var))), axis=e),
            name,
            tag="comm_reduce",
        )

    return shifted, total


def softmax(x: te.Tensor, axis: int = -1) -> te.Tensor:
    """exp(x - max x) / Σ exp(x - max x) along one axis."""
    axis = normalize_axis(axis, x.ndim)
    shifted, sum_of = _along(x, axis)
    total = sum_of(intrin.exp, "softmax_sum")
    exps = te.compute(x.shape, lambda *i: intrin.exp(shifted(i)), "softmax_exp", tag="elemwise")

    def formula(*i: Any) -> Any:
        outer = [v for d, v in enumerate(i) if d != axis]
        return (exps(*i) / total(*outer)).astype(x.dtype)

    return te.compute(x.shape, formula, "softmax")


def log_softmax(x: te.Tensor, axis: int = -1) -> te.Tensor:
    """(x - max x) - log Σ exp(x - max x) along one axis.

    The sum is 1 for each greatest element and the rest, which is below 1 where only one is the greatest: the logarithm
    is taken as log1p, as the rest may be too small to be seen beside 1.
    """
    axis = normalize_axis(axis, x.ndim)
    wide = accumulator_dtype(x.dtype)
    zero, one = const(0, wide), const(1, wide)
    shifted, sum_of = _along(x, axis)
    rest = sum_of(lambda value: Select(value.equal(zero), zero, intrin.exp(value)), "softmax_rest")
    greatest = sum_of(lambda value: Select(value.equal(zero), one, zero), "softmax_count")

    def formula(*i: Any) -> Any:
        outer = [v for d, v in enumerate(i) if d != axis]
        return (shifted(i) - intrin.log1p(rest(*outer) + (greatest(*outer) - one))).astype(x.dtype)

    return te.compute(x.shape, formula, "log_softmax")


def _moments(x: te.Tensor, axes: tuple[int, ...], prefix: str) -> tuple[te.Tensor, te.Tensor]:
    """Mean and biased variance over `axes`, in the accumulator dtype; the variance in a second pass over x - mean."""
    wide = accumulator_dtype(x.dtype)
    outer_shape = [size for d, size in enumerate(x.shape) if d not in axes]
    count: PrimExpr = const(1, "int64")
    for d in axes:
        count = count * x.shape[d]

    def index(outer: Sequence[Any], inner: Sequence[Any]) -> list[Any]:
        kept, folded = iter(outer), iter(inner)
        return [next(folded) if d in axes else next(kept) for d in range(x.ndim)]

    def total(name: str, element: Any) -> te.Tensor:
        inner = [te.reduce_axis((0, x.shape[d]), f"k{d}") for d in axes]
        return te.compute(
            outer_shape,
            lambda *o: te.sum(element(o, index(o, [k.var for k in inner])), axis=inner),
            name,
            tag="comm_reduce",
        )

    sums = total(f"{prefix}_sum", lambda _outer, at: x(*at).astype(wide))
    mean = te.compute(outer_shape, lambda *o: sums(*o) / count.astype(wide), f"{prefix}_mean")

    def squared(outer: Any, at: Any) -> Any:
        centred = x(*at).astype(wide) - mean(*outer)
        return centred * centred

    squares = total(f"{prefix}_squares", squared)
    variance = te.compute(outer_shape, lambda *o: squares(*o) / count.astype(wide), f"{prefix}_variance")
    return mean, variance


def layer_norm(
    x: te.Tensor,
    gamma: te.Tensor,
    beta: te.Tensor,
    axes: int | Sequence[int],
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
) -> te.Tensor:
    """(x - mean) / √(variance + ε) · γ + β over `axes` (Ba, Kiros & Hinton 2016); γ and β have those axes' shape."""
    given = [axes] if isinstance(axes, int) else list(axes)
    order = [normalize_axis(a, x.ndim) for a in given]
    folded = normalize_axes(order, x.ndim)
    wide = accumulator_dtype(x.dtype)
    mean, variance = _moments(x, folded, "layer_norm")

    def formula(*i: Any) -> Any:
        outer = [v for d, v in enumerate(i) if d not in folded]
        inner = [i[a] for a in order]
        value = (x(*i).astype(wide) - mean(*outer)) / intrin.sqrt(variance(*outer) + epsilon)
        value = value * gamma(*inner).astype(wide) if scale else value
        value = value + beta(*inner).astype(wide) if center else value
        return value.astype(x.dtype)

    return te.compute(x.shape, formula, "layer_norm")


def batch_norm(
    x: te.Tensor,
    gamma: te.Tensor,
    beta: te.Tensor,
    moving_mean: te.Tensor,
    moving_var: te.Tensor,
    axis: int = 1,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
    momentum: float = 0.1,
    training: bool = False,
) -> tuple[te.Tensor, te.Tensor, te.Tensor]:
    """(x - mean) / √(variance + ε) · γ + β per channel (Ioffe & Szegedy 2015), and the moving statistics.

    Statistics are the moving ones; in training those of the batch, and the moving
    ones are returned advanced by `momentum`.
    """
    axis = normalize_axis(axis, x.ndim)
    wide = accumulator_dtype(x.dtype)
    channels = moving_mean.shape

    def copied(tensor: te.Tensor, name: str) -> te.Tensor:
        return te.compute(channels, lambda c: tensor(c), name)

    def advanced(old: te.Tensor, new: te.Tensor, name: str) -> te.Tensor:
        blend = lambda c: old(c).astype(wide) * (1 - momentum) + new(c) * momentum  # noqa: E731
        return te.compute(channels, lambda c: blend(c).astype(old.dtype), name)

    if training:
        mean, variance = _moments(x, tuple(d for d in range(x.ndim) if d != axis), "batch_norm")
        new_mean = advanced(moving_mean, mean, "moving_mean")
        new_var = advanced(moving_var, variance, "moving_var")
    else:
        mean, variance = moving_mean, moving_var
        new_mean, new_var = copied(moving_mean, "moving_mean"), copied(moving_var, "moving_var")

    def formula(*i: Any) -> Any:
        c = i[axis]
        deviation = intrin.sqrt(variance(c).astype(wide) + epsilon)
        value = (x(*i).astype(wide) - mean(c).astype(wide)) / deviation
        value = value * gamma(c).astype(wide) if scale else value
        value = value + beta(c).astype(wide) if center else value
        return value.astype(x.dtype)

    return te.compute(x.shape, formula, "batch_norm"), new_mean, new_var


def dropout(x: te.Tensor) -> tuple[te.Tensor, te.Tensor]:
    """Outside training dropout keeps everything: x itself and a mask of ones."""
    out = te.compute(x.shape, lambda *i: x(*i), "dropout")
    return out, te.compute(x.shape, lambda *_i: const(1, x.dtype), "dropout_mask")


def pad_pairs(padding: int | Sequence[int], dims: int = 2) -> tuple[tuple[int, int], ...]:
    """(before, after) per spatial dimension from one number, one per dimension, or befores then afters."""
    values = [padding] if isinstance(padding, int) else list(padding)
    if len(values) == 1:
        values = values * dims
    if len(values) == dims:
        values = values * 2
    if len(values) != 2 * dims:
        raise ValueError(f"padding must have 1, {dims} or {2 * dims} numbers, found {len(values)}")
    return tuple((values[d], values[d + dims]) for d in range(dims))


def pair(value: int | Sequence[int]) -> tuple[int, int]:
    """Two numbers from one or two."""
    values = [value] * 2 if isinstance(value, int) else list(value)
    values = values * 2 if len(values) == 1 else values
    if len(values) != 2:
        raise ValueError(f"expected 1 or 2 numbers, found {len(values)}")
    return values[0], values[1]


def conv_extent(size: PrimExpr, kernel: Any, pads: tuple[int, int], stride: int, dilation: int) -> PrimExpr:
    """⌊(size + pads - dilation · (kernel - 1) - 1) / stride⌋ + 1."""
    span = (kernel - 1) * dilation + 1
    padded = size + (pads[0] + pads[1]) - span
    return (padded // stride if stride != 1 else padded) + 1


def conv2d(
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
    """Cross-correlation of images with kernels, zero-padded; layouts are permutations of NCHW and OIHW."""
    out_layout = out_layout or data_layout
    kind = DataType(out_dtype) if out_dtype else data.dtype
    wide = accumulator_dtype(kind)
    (sh, sw), (dh, dw), pads = pair(strides), pair(dilation), pad_pairs(padding)
    size = dict(zip(data_layout, data.shape, strict=True))
    kernel = dict(zip(kernel_layout, weight.shape, strict=True))
    extent = {
        "N": size["N"],
        "C": kernel["O"],
        "H": conv_extent(size["H"], kernel["H"], pads[0], sh, dh),
        "W": conv_extent(size["W"], kernel["W"], pads[1], sw, dw),
    }
    per_group = kernel["O"] // groups if groups != 1 else None
    rc = te.reduce_axis((0, kernel["I"]), "rc")
    ry = te.reduce_axis((0, kernel["H"]), "ry")
    rx = te.reduce_axis((0, kernel["W"]), "rx")
    padded = any(p for both in pads for p in both)

    def formula(*i: Any) -> Any:
        at = dict(zip(out_layout, i, strict=True))
        y = at["H"] * sh + ry.var * dh - pads[0][0]
        x = at["W"] * sw + rx.var * dw - pads[1][0]
        channel = rc.var if per_group is None else at["C"] // per_group * kernel["I"] + rc.var
        source = {"N": at["N"], "C": channel, "H": y, "W": x}
        tap = {"O": at["C"], "I": rc.var, "H": ry.var, "W": rx.var}
        value = data(*(source[c] for c in data_layout)).astype(wide)
        if padded:
            inside = intrin.all(y >= 0, y < size["H"], x >= 0, x < size["W"])
            value = intrin.if_then_else(inside, value, const(0, wide))
        return te.sum(value * weight(*(tap[c] for c in kernel_layout)).astype(wide), axis=[rc, ry, rx])

    out = te.compute([extent[c] for c in out_layout], formula, "conv2d", tag="conv2d")
    return out if wide == kind else te.compute(out.shape, lambda *i: out(*i).astype(kind), "conv2d_cast")


def pool_extent(
    size: PrimExpr, window: int, pads: tuple[int, int], stride: int, dilation: int, ceil_mode: bool
) -> PrimExpr:
    """The number of windows. Rounding up counts no window that would start in the padding after the data."""
    span = (window - 1) * dilation + 1
    room = size + (pads[0] + pads[1] - span)
    if not ceil_mode:
        return (room // stride if stride != 1 else room) + 1
    return intrin.min((room + (stride - 1)) // stride + 1, (size + (pads[0] - 1)) // stride + 1)


def _pool(
    data: te.Tensor,
    name: str,
    pool_size: Any,
    strides: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
    layout: str,
) -> tuple[list[PrimExpr], list[Any], Any, tuple[tuple[int, int], ...]]:
    """Output shape, reduction axes, a function from output indices to ({axis: input index}, inside), and the pads."""
    window, stride, dilate, pads = pair(pool_size), pair(strides), pair(dilation), pad_pairs(padding)
    spatial = [layout.index("H"), layout.index("W")]
    shape = list(data.shape)
    for j, d in enumerate(spatial):
        shape[d] = pool_extent(data.shape[d], window[j], pads[j], stride[j], dilate[j], ceil_mode)
    inner = [te.reduce_axis((0, window[j]), f"{name}_r{j}") for j in range(2)]
    # Only padding, or a last window that sticks out, can lead outside.
    may_leave = ceil_mode or any(p for both in pads for p in both)

    def place(i: Sequence[Any]) -> tuple[list[Any], PrimExpr | None]:
        index = list(i)
        conditions: list[Any] = []
        for j, d in enumerate(spatial):
            at = i[d] * stride[j] + inner[j].var * dilate[j] - pads[j][0]
            index[d] = at
            conditions += [at >= 0, at < data.shape[d]]
        return index, intrin.all(*conditions) if may_leave else None

    return shape, inner, place, pads


def max_pool2d(
    data: te.Tensor,
    pool_size: int | Sequence[int] = (1, 1),
    strides: int | Sequence[int] = (1, 1),
    padding: int | Sequence[int] = (0, 0),
    dilation: int | Sequence[int] = (1, 1),
    ceil_mode: bool = False,
    layout: str = "NCHW",
) -> te.Tensor:
    """The greatest value of each window; padding never wins, NaN does."""
    shape, inner, place, _ = _pool(
        data, "max_pool2d", pool_size, strides, padding, dilation, ceil_mode, layout
    )

    def formula(*i: Any) -> Any:
        index, inside = place(i)
        value = data(*index)
        if inside is not None:
            lowest = data.dtype.min_value
            value = intrin.if_then_else(inside, value, const(lowest, data.dtype))
        return te.max(value, axis=inner)

    return te.compute(shape, formula, "max_pool2d", tag="pool_max")


def avg_pool2d(
    data: te.Tensor,
    pool_size: int | Sequence[int] = (1, 1),
    strides: int | Sequence[int] = (1, 1),
    padding: int | Sequence[int] = (0, 0),
    dilation: int | Sequence[int] = (1, 1),
    ceil_mode: bool = False,
    layout: str = "NCHW",
    count_include_pad: bool = False,
) -> te.Tensor:
    """The mean of each window, over its elements in the data, or (count_include_pad) in the padded data."""
    shape, inner, place, pads = _pool(
        data, "avg_pool2d", pool_size, strides, padding, dilation, ceil_mode, layout
    )
    wide = accumulator_dtype(data.dtype)
    window, stride, dilate = pair(pool_size), pair(strides), pair(dilation)

    def total(*i: Any) -> Any:
        index, inside = place(i)
        value = data(*index).astype(wide)
        return te.sum(
            value if inside is None else intrin.if_then_else(inside, value, const(0, wide)), axis=inner
        )

    sums = te.compute(shape, total, "avg_pool2d_sum", tag="pool_sum")

    def count(i: Sequence[Any]) -> PrimExpr:
        product: PrimExpr = const(1, "int64")
        for j, d in enumerate((layout.index("H"), layout.index("W"))):
            start = i[d] * stride[j] - pads[j][0]
            limit = data.shape[d] + (pads[j][1] if count_include_pad else 0)
            # Taps t with lower ≤ start + t·dilation < limit.
            last = intrin.min(intrin.ceildiv(limit - start, dilate[j]), window[j])
            first: Any = 0 if count_include_pad else intrin.max(intrin.ceildiv(-start, dilate[j]), 0)
            product = product * intrin.max(last - first, 0)
        return intrin.max(product, 1)

    return te.compute(shape, lambda *i: (sums(*i) / count(i).astype(wide)).astype(data.dtype), "avg_pool2d")


def attention(
    query: te.Tensor,
    key: te.Tensor,
    value: te.Tensor,
    bias: te.Tensor | None = None,
    scale: float | None = None,
    causal_mask: str | None = None,
    window_size: int | None = None,
) -> te.Tensor:
    """softmax(scale · Q Kᵀ + bias) V per head (Vaswani et al. 2017).

    Q (batch, m, heads, d), K (batch, n, heads, d), V (batch, n, heads, dv), bias broadcast to (batch, heads, m, n);
    scale defaults to 1/√d. `causal_mask` "TopLeft" lets query i see keys ≤ i, "BottomRight" keys ≤ i + n - m; with
    `window_size` w only the last w of those. A query that sees nothing gives 0.
    """
    wide = accumulator_dtype(query.dtype)
    batch, m, heads, depth = query.shape
    n, out_depth = key.shape[1], value.shape[3]
    factor = const(scale, wide) if scale is not None else const(1.0, wide) / intrin.sqrt(depth.astype(wide))

    def visible(i: Any, j: Any) -> PrimExpr | None:
        if causal_mask is None:
            return None
        last = i if causal_mask == "TopLeft" else i + n - m
        seen = j <= last
        return intrin.all(seen, j > last - window_size) if window_size is not None else seen

    k = te.reduce_axis((0, depth), "k")
    products = te.compute(
        (batch, heads, m, n),
        lambda b, h, i, j: te.sum(
            query(b, i, h, k.var).astype(wide) * key(b, j, h, k.var).astype(wide), axis=k
        ),
        "attention_qk",
        tag="matmul",
    )

    def score(b: Any, h: Any, i: Any, j: Any) -> Any:
        result = products(b, h, i, j) * factor
        if bias is not None:
            one = [is_const(s, 1) for s in bias.shape]
            at = [
                const(0, "int64") if single else index
                for single, index in zip(one, (b, h, i, j)[4 - bias.ndim :], strict=True)
            ]
            result = result + bias(*at).astype(wide)
        seen = visible(i, j)
        return result if seen is None else intrin.if_then_else(seen, result, const(-math.inf, wide))

    scores = te.compute((batch, heads, m, n), score, "attention_scores", tag="elemwise")
    j1 = te.reduce_axis((0, n), "j")
    largest = te.compute(
        (batch, heads, m), lambda b, h, i: te.max(scores(b, h, i, j1.var), axis=j1), "attention_max"
    )

    def weight(b: Any, h: Any, i: Any, j: Any) -> Any:
        exponential = intrin.exp(scores(b, h, i, j) - largest(b, h, i))
        seen = visible(i, j)
        return exponential if seen is None else intrin.if_then_else(seen, exponential, const(0, wide))

    weights = te.compute((batch, heads, m, n), weight, "attention_weights", tag="elemwise")
    j2 = te.reduce_axis((0, n), "j")
    total = te.compute(
        (batch, heads, m), lambda b, h, i: te.sum(weights(b, h, i, j2.var), axis=j2), "attention_total"
    )
    j3 = te.reduce_axis((0, n), "j")
    mixed = te.compute(
        (batch, m, heads, out_depth),
        lambda b, i, h, d: te.sum(weights(b, h, i, j3.var) * value(b, j3.var, h, d).astype(wide), axis=j3),
        "attention_wv",
        tag="matmul",
    )

    def normalised(b: Any, i: Any, h: Any, d: Any) -> Any:
        divisor = total(b, h, i)
        nothing = divisor.equal(0.0)
        return intrin.if_then_else(nothing, const(0, wide), mixed(b, i, h, d) / divisor).astype(query.dtype)

    return te.compute((batch, m, heads, out_depth), normalised, "attention")


def dense(
    data: te.Tensor, weight: te.Tensor, bias: te.Tensor | None = None, out_dtype: str | None = None
) -> te.Tensor:
    """data · weightᵀ + bias, for matrices."""
    dtype = DataType(out_dtype) if out_dtype else data.dtype
    total = accumulator_dtype(dtype)
    k = te.reduce_axis((0, data.shape[-1]), "k")

    def element(i: PrimExpr, j: PrimExpr) -> PrimExpr:
        return te.sum(data(i, k.var).astype(total) * weight(j, k.var).astype(total), axis=k)

    shape = (data.shape[0], weight.shape[0])
    product = te.compute(shape, element, "dense", tag="dense")
    if bias is None and total == dtype:
        return product

    def finish(i: PrimExpr, j: PrimExpr) -> PrimExpr:
        value = product(i, j)
        return (value if bias is None else value + bias(j).astype(total)).astype(dtype)

    return te.compute(shape, finish, "dense_bias", tag="broadcast")


def bias_add(data: te.Tensor, bias: te.Tensor, axis: int = 1) -> te.Tensor:
    """data + bias, where bias lies along one axis."""
    place = normalize_axis(axis, data.ndim)
    return te.compute(data.shape, lambda *i: data(*i) + bias(i[place]), "bias_add", tag="broadcast")


def leaky_relu(x: te.Tensor, alpha: float) -> te.Tensor:
    """x where it is positive, alpha · x elsewhere."""
    zero, slope = const(0, x.dtype), const(alpha, x.dtype)
    return te.compute(
        x.shape, lambda *i: Select(x(*i) > zero, x(*i), x(*i) * slope), "leaky_relu", tag="elemwise"
    )


def pad(
    data: te.Tensor,
    pad_before: Sequence[Any],
    pad_after: Sequence[Any] | None = None,
    pad_value: Any = 0.0,
    name: str = "PadInput",
) -> te.Tensor:
    """The data amid `pad_value`: so many before and after it in each dimension (None: after as before)."""
    after = pad_before if pad_after is None else pad_after
    fill = const(pad_value, data.dtype) if isinstance(pad_value, (int, float)) else pad_value
    shape = [size + low + high for size, low, high in zip(data.shape, pad_before, after, strict=True)]

    def element(*i: PrimExpr) -> PrimExpr:
        source = [index - low for index, low in zip(i, pad_before, strict=True)]
        inside = [c for at, size in zip(source, data.shape, strict=True) for c in (at >= 0, at < size)]
        return intrin.if_then_else(intrin.all(*inside), data(*source), fill) if inside else data()

    return te.compute(shape, element, name, tag="injective,pad")
