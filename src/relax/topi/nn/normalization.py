"""Normalisation over the elements of a sample, a group or a batch."""

# The parameters of a formula are index variables; te.compute says so, but not in a way a type checker can follow.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ... import te
from ...prim import PrimExpr, const, intrin
from ..util import accumulator_dtype, normalize_axes, normalize_axis
from .padding import pad


def _total(
    x: te.Tensor, axes: tuple[int, ...], name: str, element: Callable[[Any, Sequence[Any]], Any]
) -> tuple[te.Tensor, PrimExpr]:
    """Return (sum over `axes` of `element`(value in the accumulator dtype, indices along the other axes), element
    count).
    """
    wide = accumulator_dtype(x.dtype)
    inner = {d: te.reduce_axis((0, x.shape[d]), f"k{d}") for d in axes}
    count: PrimExpr = const(1, "int64")
    for d in axes:
        count = count * x.shape[d]

    def formula(*outer: Any) -> Any:
        kept = iter(outer)
        index = [inner[d].var if d in inner else next(kept) for d in range(x.ndim)]
        return te.sum(element(x(*index).astype(wide), outer), axis=list(inner.values()))

    outer_shape = [size for d, size in enumerate(x.shape) if d not in axes]
    return te.compute(outer_shape, formula, name, tag="comm_reduce"), count


def _moments(x: te.Tensor, axes: tuple[int, ...], prefix: str) -> tuple[te.Tensor, te.Tensor]:
    """Mean and biased variance over `axes`, in the accumulator dtype; a second pass over x - mean computes the
    variance.
    """
    sums, count = _total(x, axes, f"{prefix}_sum", lambda value, _outer: value)
    mean = te.compute(sums.shape, lambda *o: sums(*o) / count.astype(sums.dtype), f"{prefix}_mean")

    def squared(value: Any, outer: Sequence[Any]) -> Any:
        centred = value - mean(*outer)
        return centred * centred

    squares, _ = _total(x, axes, f"{prefix}_squares", squared)
    variance = te.compute(sums.shape, lambda *o: squares(*o) / count.astype(sums.dtype), f"{prefix}_variance")
    return mean, variance


def _scaled(value: Any, gamma: te.Tensor, beta: te.Tensor, at: Sequence[Any], center: bool, scale: bool) -> PrimExpr:
    """value · γ + β, with the parameters at index `at`."""
    value = value * gamma(*at).astype(value.dtype) if scale else value
    return value + beta(*at).astype(value.dtype) if center else value


def _inverse_root(value: Any) -> Any:
    """1 / √value, computed once and multiplied into all elements that share a variance."""
    return const(1, value.dtype) / intrin.sqrt(value)


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
    mean, variance = _moments(x, folded, "layer_norm")
    wide = mean.dtype

    def formula(*i: Any) -> Any:
        outer = [v for d, v in enumerate(i) if d not in folded]
        inner = [i[a] for a in order]
        value = (x(*i).astype(wide) - mean(*outer)) * _inverse_root(variance(*outer) + epsilon)
        return _scaled(value, gamma, beta, inner, center, scale).astype(x.dtype)

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
    ones are returned advanced by `momentum`. The factor γ / √(variance + ε) is computed once for a channel.
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
        factor = _inverse_root(variance(c).astype(wide) + epsilon)
        factor = factor * gamma(c).astype(wide) if scale else factor
        value = (x(*i).astype(wide) - mean(c).astype(wide)) * factor
        return (value + beta(c).astype(wide) if center else value).astype(x.dtype)

    return te.compute(x.shape, formula, "batch_norm"), new_mean, new_var


def group_norm(
    x: te.Tensor,
    gamma: te.Tensor,
    beta: te.Tensor,
    num_groups: int,
    channel_axis: int,
    axes: Sequence[int],
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
) -> te.Tensor:
    """Normalisation over `axes` and the channels of a group (Wu & He 2018); γ and β per channel."""
    axis = normalize_axis(channel_axis, x.ndim)
    folded = normalize_axes(axes, x.ndim)
    per_group = x.shape[axis] // num_groups
    grouped_shape = [*x.shape[:axis], const(num_groups, "int64"), per_group, *x.shape[axis + 1 :]]

    def read(*i: Any) -> PrimExpr:
        return x(*i[:axis], i[axis] * per_group + i[axis + 1], *i[axis + 2 :])

    grouped = te.compute(grouped_shape, read, "grouped", tag="injective")
    inner = (axis + 1, *(d if d < axis else d + 1 for d in folded))
    mean, variance = _moments(grouped, tuple(sorted(inner)), "group_norm")
    wide = accumulator_dtype(x.dtype)

    def formula(*i: Any) -> Any:
        outer = [v // per_group if d == axis else v for d, v in enumerate(i) if d not in folded]
        value = (x(*i).astype(wide) - mean(*outer)) * _inverse_root(variance(*outer) + epsilon)
        return _scaled(value, gamma, beta, [i[axis]], center, scale).astype(x.dtype)

    return te.compute(x.shape, formula, "group_norm")


def instance_norm(
    x: te.Tensor,
    gamma: te.Tensor,
    beta: te.Tensor,
    channel_axis: int,
    axes: Sequence[int],
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
) -> te.Tensor:
    """Normalisation over `axes`, per channel (Ulyanov et al. 2016); γ and β per channel."""
    axis = normalize_axis(channel_axis, x.ndim)
    folded = normalize_axes(axes, x.ndim)
    mean, variance = _moments(x, folded, "instance_norm")
    wide = accumulator_dtype(x.dtype)

    def formula(*i: Any) -> Any:
        outer = [v for d, v in enumerate(i) if d not in folded]
        value = (x(*i).astype(wide) - mean(*outer)) * _inverse_root(variance(*outer) + epsilon)
        return _scaled(value, gamma, beta, [i[axis]], center, scale).astype(x.dtype)

    return te.compute(x.shape, formula, "instance_norm")


def rms_norm(x: te.Tensor, weight: te.Tensor, axes: int | Sequence[int] = -1, epsilon: float = 1e-5) -> te.Tensor:
    """x / √(mean x² + ε) · weight over `axes` (Zhang & Sennrich 2019); the weight has those axes' shape."""
    order = [normalize_axis(a, x.ndim) for a in ([axes] if isinstance(axes, int) else axes)]
    folded = normalize_axes(order, x.ndim)
    wide = accumulator_dtype(x.dtype)
    squares, count = _total(x, folded, "rms_norm_squares", lambda value, _outer: value * value)

    def formula(*i: Any) -> Any:
        outer = [v for d, v in enumerate(i) if d not in folded]
        scale = _inverse_root(squares(*outer) / count.astype(wide) + epsilon)
        return (x(*i).astype(wide) * scale * weight(*(i[a] for a in order)).astype(wide)).astype(x.dtype)

    return te.compute(x.shape, formula, "rms_norm")


def lrn(
    x: te.Tensor, size: int, axis: int = 1, alpha: float = 1e-4, beta: float = 0.75, bias: float = 2.0
) -> te.Tensor:
    """x / (bias + alpha/size · Σ x²)^beta: the sum over `size` neighbours along `axis` (Krizhevsky et al. 2012)."""
    axis = normalize_axis(axis, x.ndim)
    wide = accumulator_dtype(x.dtype)
    low = (size - 1) // 2
    before, after = ([width if d == axis else 0 for d in range(x.ndim)] for width in (low, size - 1 - low))
    source = pad(x, before, after, const(0, x.dtype), "padded")
    k = te.reduce_axis((0, size), "k")

    def squares(*i: Any) -> Any:
        value = source(*i[:axis], i[axis] + k.var, *i[axis + 1 :]).astype(wide)
        return te.sum(value * value, axis=k)

    sums = te.compute(x.shape, squares, "lrn_squares", tag="comm_reduce")

    def formula(*i: Any) -> Any:
        divisor = intrin.power(sums(*i) * const(alpha / size, wide) + const(bias, wide), const(beta, wide))
        return (x(*i).astype(wide) / divisor).astype(x.dtype)

    return te.compute(x.shape, formula, "lrn")
