"""Activations, softmax, normalisation, losses, padding."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..graph import Graph
from ..registry import writer
from ..tensor import Size, Tensor
from .creation import numbers
from .indexing import index_of
from .reduce import mean_over, reduced, variance_over

# ------------------------------------------------------------------------------------------- activations


@writer("relax.nn.relu")
def relu(g: Graph, operator: Any, data: Tensor) -> Tensor:
    return g.run("Max", data, g.const(0, data.dtype))


@writer("relax.nn.relu6")
def relu6(g: Graph, operator: Any, data: Tensor) -> Tensor:
    return g.run("Min", g.run("Max", data, g.const(0, data.dtype)), g.const(6, data.dtype))


@writer("relax.nn.leakyrelu")
def leakyrelu(g: Graph, operator: Any, data: Tensor) -> Tensor:
    x = data.wide()
    return (x > 0).where(x, x * operator.alpha)


@writer("relax.nn.prelu")
def prelu(g: Graph, operator: Any, data: Tensor, alpha: Tensor) -> Tensor:
    x, slope = data.wide(), alpha.wide()
    if alpha.ndim == 1 and data.ndim:
        slope = slope.reshape([-1 if d == operator.axis % data.ndim else 1 for d in range(data.ndim)])
    return (x > 0).where(x, x * slope)


def _at_minus_infinity(g: Graph, x: Tensor, value: Tensor) -> Tensor:
    """A value, replaced by -0 where x is -∞."""
    return x.equal(-math.inf).where(-0.0, value)


@writer("relax.nn.gelu")
def gelu(g: Graph, operator: Any, data: Tensor) -> Tensor:
    x = data.wide()
    half = g.run("Erf", x * math.sqrt(0.5)) + 1.0
    return _at_minus_infinity(g, x, x * (half * 0.5))


@writer("relax.nn.gelu_tanh")
def gelu_tanh(g: Graph, operator: Any, data: Tensor) -> Tensor:
    x = data.wide()
    inner = (x + x * x * x * 0.044715) * math.sqrt(2 / math.pi)
    return _at_minus_infinity(g, x, x * ((g.run("Tanh", inner) + 1.0) * 0.5))


@writer("relax.nn.silu")
def silu(g: Graph, operator: Any, data: Tensor) -> Tensor:
    x = data.wide()
    return _at_minus_infinity(g, x, x * g.run("Sigmoid", x))


@writer("relax.nn.softplus")
def softplus(g: Graph, operator: Any, data: Tensor) -> Tensor:
    x = data.wide()
    scaled = x * operator.beta
    soft = g.run("Log", g.run("Exp", -g.run("Abs", scaled)) + 1.0) + g.run("Max", scaled, g.const(0, x.dtype))
    return (scaled > operator.threshold).where(x, soft / operator.beta)


@writer("relax.nn.selu")
def selu(g: Graph, operator: Any, data: Tensor) -> Tensor:
    x = data.wide()
    below = (g.run("Exp", x) - 1.0) * 1.6732632423543772
    return (x > 0).where(x, below) * 1.0507009873554805


@writer("relax.nn.softmax")
def softmax(g: Graph, operator: Any, data: Tensor) -> Tensor:
    return g.run("Softmax", data, rank=data.rank, axis=operator.axis % data.ndim)


@writer("relax.nn.log_softmax")
def log_softmax(g: Graph, operator: Any, data: Tensor) -> Tensor:
    return g.run("LogSoftmax", data, rank=data.rank, axis=operator.axis % data.ndim)


@writer("relax.nn.dropout")
def dropout(g: Graph, operator: Any, data: Tensor) -> list[Tensor]:
    return [data, g.const(1, data.dtype).expand(data.sizes())]


# ------------------------------------------------------------------------------------------- normalisation


def _standardised(g: Graph, x: Tensor, axes: Sequence[int], epsilon: float) -> Tensor:
    centred = (x - mean_over(x, axes)).ranked(x.ndim)
    return centred / g.run("Sqrt", variance_over(x, axes) + epsilon)


def _lifted(parameter: Tensor, axes: Sequence[int], ndim: int) -> Tensor:
    """A parameter with the sizes of some axes, as it broadcasts to data of `ndim` dimensions."""
    order = sorted(range(len(axes)), key=lambda i: axes[i])
    moved = parameter.wide().transpose(order)
    return moved.ranked(len(axes)).unsqueeze(*[d for d in range(ndim) if d not in axes])


@writer("relax.nn.layer_norm")
def layer_norm(g: Graph, operator: Any, data: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
    axes = [axis % data.ndim for axis in operator.axes]
    if operator.scale and axes and axes == list(range(axes[0], data.ndim)):
        inputs = [data, gamma, beta] if operator.center else [data, gamma]
        return g.run_all("LayerNormalization", inputs, rank=data.rank, axis=axes[0], epsilon=operator.epsilon)
    out = _standardised(g, data.wide(), axes, operator.epsilon)
    out = out * _lifted(gamma, axes, data.ndim) if operator.scale else out
    return out + _lifted(beta, axes, data.ndim) if operator.center else out


@writer("relax.nn.rms_norm")
def rms_norm(g: Graph, operator: Any, data: Tensor, weight: Tensor) -> Tensor:
    axes, x = [axis % data.ndim for axis in operator.axes], data.wide()
    squares = Tensor(g, (x * x).name, x.dtype, x.rank, x.dims)
    out = x / g.run("Sqrt", mean_over(squares, axes) + operator.epsilon)
    return out * _lifted(weight, axes, data.ndim)


def _affine(operator: Any, x: Tensor, gamma: Tensor, beta: Tensor, axis: int, ndim: int) -> Tensor:
    """x · γ + β along one axis."""
    x = x * _lifted(gamma, [axis], ndim) if operator.scale else x
    return x + _lifted(beta, [axis], ndim) if operator.center else x


@writer("relax.nn.instance_norm")
def instance_norm(g: Graph, operator: Any, data: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
    out = _standardised(g, data.wide(), [axis % data.ndim for axis in operator.axes], operator.epsilon)
    return _affine(operator, out, gamma, beta, operator.channel_axis % data.ndim, data.ndim)


@writer("relax.nn.group_norm")
def group_norm(g: Graph, operator: Any, data: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
    axis, groups, sizes = operator.channel_axis % data.ndim, operator.num_groups, data.sizes()
    each = sizes[axis] // groups if not isinstance(sizes[axis], Tensor) else sizes[axis] / groups  # type: ignore[operator]
    split: list[Size] = [*sizes[:axis], groups, each, *sizes[axis + 1 :]]
    folded = sorted([axis + 1, *(a if a < axis else a + 1 for a in (a % data.ndim for a in operator.axes))])
    x = data.wide().reshape(split)
    out = _standardised(g, x, folded, operator.epsilon).reshape(sizes)
    return _affine(operator, out, gamma, beta, axis, data.ndim)


@writer("relax.nn.batch_norm")
def batch_norm(g: Graph, operator: Any, data: Tensor, gamma: Tensor, beta: Tensor, mean: Tensor, var: Tensor) -> Any:
    x, axis, ndim = data.wide(), operator.axis % data.ndim, data.ndim
    plain = axis == 1 and operator.scale and operator.center and not operator.training
    if plain and data.dtype in ("float32", "float64"):
        inputs = [data, gamma, beta, mean, var]
        return [g.run_all("BatchNormalization", inputs, rank=ndim, epsilon=operator.epsilon), mean, var]
    new_mean, new_var = mean, var
    along, across = mean.wide(), var.wide()
    if operator.training:
        others = [d for d in range(ndim) if d != axis]
        along, across = mean_over(x, others).reshape([-1]), variance_over(x, others).reshape([-1])
        share = operator.momentum
        new_mean = mean.wide() * (1 - share) + along * share
        new_var = var.wide() * (1 - share) + across * share
    out = (x - _lifted(along, [axis], ndim)) / g.run("Sqrt", _lifted(across, [axis], ndim) + operator.epsilon)
    return [_affine(operator, out, gamma, beta, axis, ndim), new_mean, new_var]


@writer("relax.nn.lrn")
def lrn(g: Graph, operator: Any, data: Tensor) -> Tensor:
    x, axis, size = data.wide(), operator.axis % data.ndim, operator.size
    low = (size - 1) // 2
    pads = [low * int(d == axis) for d in range(data.ndim)] + [
        (size - 1 - low) * int(d == axis) for d in range(data.ndim)
    ]
    padded = g.run("Pad", x * x, g.ints(pads), g.const(0, x.dtype), rank=data.ndim)
    count = data.size(axis)
    total = padded.slice(axis, 0, count)
    for k in range(1, size):
        total = total + padded.slice(axis, k, count + k)
    return x / g.run("Pow", total * (operator.alpha / size) + operator.bias, g.const(operator.beta, x.dtype))


# ------------------------------------------------------------------------------------------- losses


@writer("relax.nn.cross_entropy_with_logits")
def cross_entropy(g: Graph, operator: Any, predictions: Tensor, labels: Tensor) -> Tensor:
    x = predictions.wide()
    total = -reduced(g, "ReduceSum", (x * labels.wide()).ranked(predictions.ndim), list(range(predictions.ndim)), False)
    return total / predictions.size(0).to(x.dtype) if predictions.ndim > 1 else total


def _shares(g: Graph, operator: Any, targets: Tensor, weights: Tensor | None, dtype: str) -> tuple[Tensor, Tensor]:
    """The class of each target, 0 for one that is ignored, and its weight, which then is 0."""
    target = index_of(targets)
    counted = ~target.equal(operator.ignore_index)
    chosen = counted.where(target, 0)
    if weights is None:
        return chosen, counted.to(dtype)
    each = g.run("Gather", weights.to(dtype), chosen, rank=targets.ndim, axis=0)
    return chosen, counted.where(each, 0.0)


@writer("relax.nn.nll_loss")
def nll_loss(g: Graph, operator: Any, predictions: Tensor, targets: Tensor, weights: Tensor | None) -> Tensor:
    x, axis = predictions.wide(), int(predictions.ndim > 1)
    chosen, share = _shares(g, operator, targets, weights, x.dtype)
    picked = g.run("GatherElements", x, chosen.ranked(targets.ndim).unsqueeze(axis), rank=predictions.ndim, axis=axis)
    counted = ~index_of(targets).equal(operator.ignore_index)
    losses = counted.where(-(picked.squeeze(axis) * share), 0.0)
    if operator.reduction == "none":
        return losses
    axes = list(range(targets.ndim))
    total = reduced(g, "ReduceSum", losses.ranked(targets.ndim), axes, False)
    if operator.reduction == "sum":
        return total
    return total / reduced(g, "ReduceSum", share.ranked(targets.ndim), axes, False)


@writer("relax.grad.nll_loss_backward")
def nll_loss_backward(
    g: Graph, operator: Any, grad: Tensor, predictions: Tensor, targets: Tensor, weights: Tensor | None
) -> Tensor:
    axis = int(predictions.ndim > 1)
    dtype = predictions.wide().dtype
    _, share = _shares(g, operator, targets, weights, dtype)
    scale = grad.to(dtype)
    if operator.reduction == "mean":
        scale = scale / reduced(g, "ReduceSum", share.ranked(targets.ndim), list(range(targets.ndim)), False)
    classes = numbers(g, predictions.size(axis))
    shape = [-1 if d == axis else 1 for d in range(predictions.ndim)]
    hits = index_of(targets).ranked(targets.ndim).unsqueeze(axis).equal(classes.reshape(shape))
    return hits.to(dtype) * -(share * scale).ranked(targets.ndim).unsqueeze(axis)


@writer("relax.grad.take_backward")
def take_backward(g: Graph, operator: Any, grad: Tensor, x: Tensor, indices: Tensor) -> Tensor:
    wide = grad.wide()
    zero = g.const(0, wide.dtype)
    if operator.axis is None:
        size = x.flat().size(0)
        zeros = zero.expand([size])
        flat = index_of(indices).reshape([-1])
        return g.run("ScatterElements", zeros, flat, wide.reshape([-1]), rank=1, axis=0, reduction="add").reshape(
            x.sizes()
        )
    axis, sizes = operator.axis % x.ndim, x.sizes()
    merged = wide.reshape([*sizes[:axis], index_of(indices).flat().size(0), *sizes[axis + 1 :]])
    index = index_of(indices).reshape([-1]).unsqueeze(*range(1, x.ndim - axis))
    shape = g.node("Shape", merged, dtype="int64", rank=1)
    index = g.run("Expand", index, shape, rank=x.ndim)
    return g.run("ScatterElements", zero.expand(sizes), index, merged, rank=x.ndim, axis=axis, reduction="add")


# ------------------------------------------------------------------------------------------- padding, pixels

_MODES = {
    "constant": "constant",
    "reflect": "reflect",
    "replicate": "edge",
    "edge": "edge",
    "circular": "wrap",
    "wrap": "wrap",
}


@writer("relax.nn.pad")
def pad(g: Graph, operator: Any, data: Tensor, widths: list[Tensor]) -> Tensor:
    if not widths:
        return data
    numbers_ = [width.constant.item() if width.constant is not None else None for width in widths]
    ordered = [*range(0, len(widths), 2), *range(1, len(widths), 2)]
    crops = any(number is None or number < 0 for number in numbers_)
    if all(number is not None for number in numbers_):
        added = g.ints(max(int(numbers_[i]), 0) for i in ordered)  # type: ignore[arg-type]
    else:
        added = g.run("Max", g.shape([widths[i].to("int64") for i in ordered]), g.const(0, "int64"))
    mode = _MODES[operator.pad_mode]
    value = g.const(operator.pad_value, data.dtype) if mode == "constant" else None
    whole = g.run("Pad", data, added, value, rank=data.ndim, mode=mode)
    if not crops:
        return whole
    vector = [
        g.run("Max", -g.shape([widths[i].to("int64") for i in part]), g.const(0, "int64"))
        for part in (ordered[: data.ndim], ordered[data.ndim :])
    ]
    shape = g.node("Shape", whole, dtype="int64", rank=1)
    return g.run("Slice", whole, vector[0], shape - vector[1], rank=data.ndim)


@writer("relax.nn.pixel_shuffle")
def pixel_shuffle(g: Graph, operator: Any, data: Tensor) -> Tensor:
    r, n, dims = operator.upscale_factor, data.ndim - 3, [g.scalar(size) for size in data.sizes()]
    *outer, c, h, w = dims
    blocked = data.reshape([*outer, c / (r * r), r, r, h, w])
    moved = blocked.transpose([*range(n + 1), n + 3, n + 1, n + 4, n + 2])
    return moved.reshape([*outer, c / (r * r), h * r, w * r])


@writer("relax.nn.pixel_unshuffle")
def pixel_unshuffle(g: Graph, operator: Any, data: Tensor) -> Tensor:
    r, n, dims = operator.downscale_factor, data.ndim - 3, [g.scalar(size) for size in data.sizes()]
    *outer, c, h, w = dims
    blocked = data.reshape([*outer, c, h / r, r, w / r, r])
    moved = blocked.transpose([*range(n + 1), n + 2, n + 4, n + 1, n + 3])
    return moved.reshape([*outer, c * (r * r), h / r, w / r])
