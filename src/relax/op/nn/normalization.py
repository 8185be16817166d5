"""Normalisation over elements of a sample (layer_norm, rms_norm), groups of channels, or the batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import topi
from ...expr import ShapeExpr, Tuple, TupleGetItem
from ...info.text import prim_text
from ...ir import StructInfo
from ...prim import PrimExpr, const, simplify
from ...struct_info import TensorStructInfo, TupleStructInfo
from ..base import Gradients, Term
from ..dims import normalize_axes, require_same_dim, same_dtype
from ..errors import SHAPES, OperatorError
from ..facts import Axes, Permuted, has_rank, moved_axis
from ..gradients import apply, tensor_info
from ..operands import FLOATS
from ..operator import Array, Operator, operator
from .activation import wide


def _require_sizes(
    name: str, info: TensorStructInfo, expected: tuple[PrimExpr, ...] | None, count: int, requirement: str
) -> None:
    """Raise OperatorError if a parameter is proved not to have the sizes of the normalised axes."""
    if info.ndim not in (-1, count):
        plural = "" if count == 1 else "s"
        raise OperatorError(SHAPES, f"{name} must have {count} dimension{plural}, found {info.ndim}", operand=name)
    if info.dims is None or expected is None:
        return
    for d, (actual, size) in enumerate(zip(info.dims, expected, strict=True)):
        message = f"dimension {d} of {name} must be {requirement}"
        remark = {name: f"dimension {d} is {prim_text(actual)}"}
        require_same_dim(actual, size, OperatorError(SHAPES, message, remarks=remark))


class OverAxes(Operator):
    """Base class of normalisation over `axes`, with parameters shaped like those axes, in their order."""

    __slots__ = ()

    takes = FLOATS

    axes: tuple[int, ...] = (-1,)
    epsilon: float = 1e-5

    def normalised(self, data: TensorStructInfo, parameters: dict[str, TensorStructInfo]) -> TensorStructInfo:
        """Struct info of the result. Raises OperatorError for parameters that do not fit."""
        self.require_dtype(data, "data", *self.takes)
        dtype = data.dtype
        for name, info in parameters.items():
            dtype = same_dtype(dtype, info.dtype, ("data", name))
        self.require_attribute(len(self.axes) > 0, "axes", "at least one axis")
        if data.ndim != -1:
            axes = normalize_axes(self.axes, data.ndim, "axes", "data")
            sizes = None if data.dims is None else tuple(data.dims[a] for a in axes)
            for name, info in parameters.items():
                _require_sizes(name, info, sizes, len(axes), "the size of the normalised axis")
        return data if data.dtype == dtype else data.replace(dtype=dtype)

    def lifted(self, parameter: Array, ndim: int) -> Array:
        """Reshape a parameter to broadcast to data of `ndim` dimensions."""
        axes = tuple(a % ndim for a in self.axes)
        sizes = dict(zip(axes, parameter.shape, strict=True))
        return wide(parameter).transpose(np.argsort(axes)).reshape([sizes.get(d, 1) for d in range(ndim)])

    def lifted_term(self, parameter: Term, ndim: int) -> Term:
        """`lifted` on expressions."""
        axes = [a % ndim for a in self.axes]
        if axes != sorted(axes):
            order = sorted(range(len(axes)), key=axes.__getitem__)
            parameter = apply("permute_dims", parameter, axes=order)
        other_axes = [d for d in range(ndim) if d not in axes]
        return apply("expand_dims", parameter, axis=other_axes) if other_axes else parameter

    def parameter_gradient(self, grad: Term, ndim: int) -> Term:
        """Gradient with respect to a parameter, given that of the `lifted` parameter in the data's shape."""
        axes = [a % ndim for a in self.axes]
        other_axes = [d for d in range(ndim) if d not in axes]
        total = apply("sum", grad, axis=other_axes) if other_axes else grad
        ranks = [sorted(axes).index(a) for a in axes]
        return total if axes == sorted(axes) else apply("permute_dims", total, axes=ranks)

    def permuted(self, axes: Axes, infos: Sequence[StructInfo]) -> Permuted | None:
        if not has_rank(infos, axes):
            return None
        moved = self.replace(axes=tuple(moved_axis(a, axes) for a in self.axes))
        return Permuted(moved, (axes, *[None] * (len(infos) - 1)), (axes,))


@operator("relax.nn.layer_norm")
class LayerNorm(OverAxes):
    """(x - mean) / √(variance + ε) · γ + β over `axes`; γ and β have the sizes of those axes.

    γ is applied only with `scale`, β only with `center`. Mean and variance are accumulated in at least float32.
    """

    center: bool = True
    scale: bool = True
    compute = topi.nn.layer_norm

    def infer(self, data: TensorStructInfo, gamma: TensorStructInfo, beta: TensorStructInfo) -> TensorStructInfo:
        return self.normalised(data, {"gamma": gamma, "beta": beta})

    def reference(self, data: Array, gamma: Array, beta: Array) -> Array:
        out = _standardised(wide(data), self.axes, self.epsilon)
        out = out * self.lifted(gamma, data.ndim) if self.scale else out
        out = out + self.lifted(beta, data.ndim) if self.center else out
        return out.astype(data.dtype)

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        data, gamma, _ = operands
        ndim = tensor_info(data).ndim
        if ndim == -1:
            return None
        standard, root = _standardised_term(data, self.axes, self.epsilon)
        slope = grad * self.lifted_term(gamma, ndim) if self.scale else grad
        return (
            _standardised_gradient(standard, root, slope, self.axes),
            self.parameter_gradient(grad * standard, ndim) if self.scale else None,
            self.parameter_gradient(grad, ndim) if self.center else None,
        )


@operator("relax.nn.rms_norm")
class RMSNorm(OverAxes):
    """x / √(mean x² + ε) · weight over `axes`; the weight has the sizes of those axes.

    The squares are accumulated in at least float32.
    """

    compute = topi.nn.rms_norm

    def infer(self, data: TensorStructInfo, weight: TensorStructInfo) -> TensorStructInfo:
        return self.normalised(data, {"weight": weight})

    def reference(self, data: Array, weight: Array) -> Array:
        x = wide(data)
        count = x.dtype.type(np.prod([x.shape[a] for a in self.axes]))
        with np.errstate(all="ignore"):
            squares = (x * x).sum(self.axes, keepdims=True)
            out = x / np.sqrt(squares / count + x.dtype.type(self.epsilon))
        return (out * self.lifted(weight, x.ndim)).astype(data.dtype)

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        data, weight = operands
        ndim = tensor_info(data).ndim
        if ndim == -1:
            return None
        root = apply("sqrt", _mean(data * data, self.axes) + self.epsilon)
        standard, slope = data / root, grad * self.lifted_term(weight, ndim)
        by_data = (slope - standard * _mean(slope * standard, self.axes)) / root
        return by_data, self.parameter_gradient(grad * standard, ndim)


def _standardised(x: Array, axes: Sequence[int], epsilon: float) -> Array:
    """(x - mean) / √(variance + ε) over `axes`, in NumPy."""
    folded = tuple(a % x.ndim for a in axes)
    count = x.dtype.type(np.prod([x.shape[a] for a in folded]))
    with np.errstate(all="ignore"):
        centred = x - x.sum(folded, keepdims=True) / count
        variance = (centred * centred).sum(folded, keepdims=True) / count
        return centred / np.sqrt(variance + x.dtype.type(epsilon))


def _mean(x: Term, axes: Sequence[int]) -> Term:
    return apply("mean", x, axis=tuple(axes), keepdims=True)


def _standardised_term(x: Term, axes: Sequence[int], epsilon: float) -> tuple[Term, Term]:
    """Expressions of (x - mean) / √(variance + ε) over `axes` and of the root."""
    root = apply("sqrt", apply("variance", x, axis=tuple(axes), keepdims=True) + epsilon)
    return (x - _mean(x, axes)) / root, root


def _standardised_gradient(standard: Term, root: Term, grad: Term, axes: Sequence[int]) -> Term:
    """Gradient with respect to x, given that with respect to the standardised x."""
    return (grad - _mean(grad, axes) - standard * _mean(grad * standard, axes)) / root


class OfChannels(Operator):
    """Base class of group_norm and instance_norm: over `axes`, with parameters per channel."""

    __slots__ = ()

    takes = FLOATS

    channel_axis: int
    axes: tuple[int, ...]
    epsilon: float
    center: bool
    scale: bool

    def normalised(
        self, data: TensorStructInfo, gamma: TensorStructInfo, beta: TensorStructInfo
    ) -> tuple[TensorStructInfo, PrimExpr | None]:
        """Struct info of the result, and the number of channels. Raises OperatorError for parameters that do not
        fit.
        """
        self.require_dtype(data, "data", *self.takes)
        dtype, channels = data.dtype, None
        axis = self.require_axis(self.channel_axis, data)
        if axis is not None:
            axes = normalize_axes(self.axes, data.ndim, "axes", "data")
            self.require_attribute(axis not in axes, "axes", "axes other than the channel_axis")
            channels = None if data.dims is None else data.dims[axis]
        for name, info in (("gamma", gamma), ("beta", beta)):
            dtype = same_dtype(dtype, info.dtype, ("data", name))
            _require_sizes(name, info, None if channels is None else (channels,), 1, "the number of channels")
        return data if data.dtype == dtype else data.replace(dtype=dtype), channels

    def channels_gradient(self, operands: Sequence[Term], grad: Term, standard: Term, slopes: Term) -> Gradients | None:
        """Gradients with respect to data (`slopes`), and to γ and β: sums over all axes but the channels'."""
        ndim = tensor_info(operands[0]).ndim
        other_axes = [d for d in range(ndim) if d != self.channel_axis % ndim]
        return (
            slopes,
            apply("sum", grad * standard, axis=other_axes) if self.scale else None,
            apply("sum", grad, axis=other_axes) if self.center else None,
        )

    def scaled(self, grad: Term, gamma: Term, ndim: int) -> Term:
        """Gradient with respect to the factor of γ, given that with respect to the result."""
        other_axes = [d for d in range(ndim) if d != self.channel_axis % ndim]
        return grad * apply("expand_dims", gamma, axis=other_axes) if self.scale else grad

    def affine(self, x: Array, gamma: Array, beta: Array) -> Array:
        """x · γ + β, channel by channel."""
        shape = [-1 if d == self.channel_axis % x.ndim else 1 for d in range(x.ndim)]
        x = x * wide(gamma).reshape(shape) if self.scale else x
        return x + wide(beta).reshape(shape) if self.center else x

    def permuted(self, axes: Axes, infos: Sequence[StructInfo]) -> Permuted | None:
        if not has_rank(infos, axes):
            return None
        folded = tuple(moved_axis(a, axes) for a in self.axes)
        moved = self.replace(channel_axis=moved_axis(self.channel_axis, axes), axes=folded)
        return Permuted(moved, (axes, None, None), (axes,))


@operator("relax.nn.group_norm")
class GroupNorm(OfChannels):
    """(x - mean) / √(variance + ε) · γ + β, over `axes` and the channels of each of `num_groups` groups.

    γ and β have one element per channel. `axes` does not name the `channel_axis`.
    """

    num_groups: int
    channel_axis: int
    axes: tuple[int, ...]
    epsilon: float = 1e-5
    center: bool = True
    scale: bool = True
    compute = topi.nn.group_norm

    def infer(self, data: TensorStructInfo, gamma: TensorStructInfo, beta: TensorStructInfo) -> TensorStructInfo:
        self.require_attribute(self.num_groups >= 1, "num_groups", "at least 1")
        result, channels = self.normalised(data, gamma, beta)
        if channels is not None:
            message = f"{prim_text(channels)} channels cannot be split into {self.num_groups} groups"
            rest = simplify(channels % self.num_groups)
            require_same_dim(rest, const(0, "int64"), OperatorError(SHAPES, message, operand="data"))
        return result

    def reference(self, data: Array, gamma: Array, beta: Array) -> Array:
        axis = self.channel_axis % data.ndim
        shape = data.shape
        x = wide(data).reshape(*shape[:axis], self.num_groups, shape[axis] // self.num_groups, *shape[axis + 1 :])
        folded = [a % data.ndim for a in self.axes]
        out = _standardised(x, [axis + 1, *(a if a < axis else a + 1 for a in folded)], self.epsilon)
        return self.affine(out.reshape(shape), gamma, beta).astype(data.dtype)

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        data, gamma, _ = operands
        dims = tensor_info(data).dims
        if dims is None:
            return None
        ndim, axis = len(dims), self.channel_axis % len(dims)
        groups = [self.num_groups, simplify(dims[axis] // self.num_groups)]
        split = ShapeExpr((*dims[:axis], *groups, *dims[axis + 1 :]))
        axes = [axis + 1, *(a + (a > axis) for a in (a % ndim for a in self.axes))]
        standard, root = _standardised_term(apply("reshape", data, split), axes, self.epsilon)
        slope = apply("reshape", self.scaled(grad, gamma, ndim), split)
        whole = ShapeExpr(tuple(dims))
        by_data = apply("reshape", _standardised_gradient(standard, root, slope, axes), whole)
        return self.channels_gradient(operands, grad, apply("reshape", standard, whole), by_data)


@operator("relax.nn.instance_norm")
class InstanceNorm(OfChannels):
    """(x - mean) / √(variance + ε) · γ + β over `axes`, per channel. γ and β have one element per channel.

    `axes` does not name the `channel_axis`.
    """

    channel_axis: int
    axes: tuple[int, ...]
    epsilon: float = 1e-5
    center: bool = True
    scale: bool = True
    compute = topi.nn.instance_norm

    def infer(self, data: TensorStructInfo, gamma: TensorStructInfo, beta: TensorStructInfo) -> TensorStructInfo:
        return self.normalised(data, gamma, beta)[0]

    def reference(self, data: Array, gamma: Array, beta: Array) -> Array:
        out = _standardised(wide(data), self.axes, self.epsilon)
        return self.affine(out, gamma, beta).astype(data.dtype)

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        data, gamma, _ = operands
        ndim = tensor_info(data).ndim
        if ndim == -1:
            return None
        standard, root = _standardised_term(data, self.axes, self.epsilon)
        by_data = _standardised_gradient(standard, root, self.scaled(grad, gamma, ndim), self.axes)
        return self.channels_gradient(operands, grad, standard, by_data)


def _field(value: Term, index: int) -> Term:
    """A field of a tuple."""
    return value.fields[index] if isinstance(value, Tuple) else TupleGetItem(value, index)


@operator("relax.nn.batch_norm")
class BatchNorm(Operator):
    """(y, moving_mean, moving_var): y = (x - mean) / √(variance + ε) · γ + β per channel of `axis`.

    Mean and variance are the moving statistics, which are returned unchanged; with `training` they are those of the
    batch (the variance biased), and the moving statistics are returned as (1 - momentum) · old + momentum · batch.
    """

    takes = FLOATS

    axis: int = 1
    epsilon: float = 1e-5
    center: bool = True
    scale: bool = True
    momentum: float = 0.1
    training: bool = False
    compute = topi.nn.batch_norm

    def infer(
        self,
        data: TensorStructInfo,
        gamma: TensorStructInfo,
        beta: TensorStructInfo,
        moving_mean: TensorStructInfo,
        moving_var: TensorStructInfo,
    ) -> TupleStructInfo:
        self.require_dtype(data, "data", *self.takes)
        axis = self.require_axis(self.axis, data)
        sizes = None if data.dims is None or axis is None else (data.dims[axis],)
        dtype = data.dtype
        named = {"gamma": gamma, "beta": beta, "moving_mean": moving_mean, "moving_var": moving_var}
        for name, info in named.items():
            _require_sizes(name, info, sizes, 1, "the number of channels")
            dtype = same_dtype(dtype, info.dtype, ("data", name))
        return TupleStructInfo((data, moving_mean, moving_var))

    def reference(self, data: Array, gamma: Array, beta: Array, moving_mean: Array, moving_var: Array) -> list[Array]:
        x, axis = wide(data), self.axis % data.ndim
        shape = [-1 if d == axis else 1 for d in range(data.ndim)]
        mean, variance = wide(moving_mean), wide(moving_var)
        new_mean, new_var = moving_mean, moving_var
        with np.errstate(all="ignore"):
            if self.training:
                other_axes = tuple(d for d in range(data.ndim) if d != axis)
                batch_mean = x.sum(other_axes) / x.dtype.type(max(x.size, 0) / max(x.shape[axis], 1))
                centred = x - batch_mean.reshape(shape)
                batch_var = (centred * centred).sum(other_axes) / x.dtype.type(x.size / max(x.shape[axis], 1))
                new_mean = (mean * (1 - self.momentum) + batch_mean * self.momentum).astype(data.dtype)
                new_var = (variance * (1 - self.momentum) + batch_var * self.momentum).astype(data.dtype)
                mean, variance = batch_mean, batch_var
            out = (x - mean.reshape(shape)) / np.sqrt(variance.reshape(shape) + x.dtype.type(self.epsilon))
        if self.scale:
            out = out * wide(gamma).reshape(shape)
        if self.center:
            out = out + wide(beta).reshape(shape)
        return [out.astype(data.dtype), new_mean, new_var]

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        data, gamma, _, moving_mean, moving_var = operands
        ndim = tensor_info(data).ndim
        if ndim == -1:
            return None
        by_y, by_mean, by_var = (_field(grad, i) for i in range(3))
        other_axes = tuple(d for d in range(ndim) if d != self.axis % ndim)

        def along(vector: Any) -> Any:
            return apply("expand_dims", vector, axis=other_axes) if other_axes else vector

        def total(value: Any) -> Any:
            return apply("sum", value, axis=other_axes) if other_axes else value

        slope = by_y * along(gamma) if self.scale else by_y
        if self.training:
            share = self.momentum
            mean, (standard, root) = _mean(data, other_axes), _standardised_term(data, other_axes, self.epsilon)
            statistics = along(by_mean) * share + along(by_var) * (data - mean) * (2 * share)
            count = apply("sum", apply("ones_like", data), axis=other_axes, keepdims=True)
            by_data = _standardised_gradient(standard, root, slope, other_axes) + statistics / count
            by_mean, by_var = by_mean * (1 - share), by_var * (1 - share)
        else:
            root = along(apply("sqrt", moving_var + self.epsilon))
            standard = (data - along(moving_mean)) / root
            by_data = slope / root
            by_mean = by_mean - total(by_data)
            by_var = by_var - total(slope * standard / (root * root)) * 0.5
        return (
            by_data,
            total(by_y * standard) if self.scale else None,
            total(by_y) if self.center else None,
            by_mean,
            by_var,
        )

    def permuted(self, axes: Axes, infos: Sequence[StructInfo]) -> Permuted | None:
        if not has_rank(infos, axes):
            return None
        moved = self.replace(axis=moved_axis(self.axis, axes))
        return Permuted(moved, (axes, None, None, None, None), (axes, None, None))


@operator("relax.nn.lrn")
class LRN(Operator):
    """x / (bias + alpha/size · Σ x²)^beta: the sum over the `size` elements around each one along `axis`.

    ⌊(size - 1)/2⌋ of them come before it, and ⌈(size - 1)/2⌉ after; outside of the data they are 0.
    """

    takes = FLOATS

    size: int = 5
    axis: int = 1
    alpha: float = 1e-4
    beta: float = 0.75
    bias: float = 2.0

    def infer(self, data: TensorStructInfo) -> TensorStructInfo:
        self.require_dtype(data, "data", *self.takes)
        self.require_axis(self.axis, data)
        self.require_attribute(self.size >= 1, "size", "at least 1")
        return data

    compute = topi.nn.lrn

    def reference(self, data: Array) -> Array:
        x = np.moveaxis(wide(data), self.axis, -1)
        low = (self.size - 1) // 2
        padded = np.pad(x * x, [*[(0, 0)] * (x.ndim - 1), (low, self.size - 1 - low)])
        sums = sum(padded[..., k : k + x.shape[-1]] for k in range(self.size))
        out = x / (sums * (self.alpha / self.size) + self.bias) ** self.beta
        return np.moveaxis(out, -1, self.axis).astype(data.dtype)

    def permuted(self, axes: Axes, infos: Sequence[StructInfo]) -> Permuted | None:
        if not has_rank(infos, axes):
            return None
        return Permuted(self.replace(axis=moved_axis(self.axis, axes)), (axes,), (axes,))
