"""Normalisation: layer_norm, batch_norm."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ... import topi
from ...info.text import prim_text
from ...ir import StructInfo
from ...prim import PrimExpr
from ...struct_info import TensorStructInfo, TupleStructInfo
from ..dims import normalize_axes, require_same_dim, same_dtype
from ..errors import SHAPES, OperatorError
from ..facts import Axes, Permuted, has_rank, moved_axis
from ..operator import Array, Operator, operator
from .activation import wide


def _require_sizes(
    name: str, info: TensorStructInfo, expected: tuple[PrimExpr, ...] | None, count: int, what: str
) -> None:
    """Complain unless a parameter may have the sizes of the normalised axes."""
    if info.ndim not in (-1, count):
        plural = "" if count == 1 else "s"
        raise OperatorError(
            SHAPES, f"{name} must have {count} dimension{plural}, found {info.ndim}", operand=name
        )
    if info.dims is None or expected is None:
        return
    for d, (found, size) in enumerate(zip(info.dims, expected, strict=True)):
        message = f"dimension {d} of {name} must be {what}"
        remark = {name: f"dimension {d} is {prim_text(found)}"}
        require_same_dim(found, size, OperatorError(SHAPES, message, remarks=remark))


@operator("relax.nn.layer_norm")
class LayerNorm(Operator):
    """(x - mean) / √(variance + ε) · γ + β over `axes`; γ and β have the sizes of those axes.

    Without `scale` γ, without `center` β is not applied. Mean and variance are accumulated in float32 at least.
    """

    axes: tuple[int, ...] = (-1,)
    epsilon: float = 1e-5
    center: bool = True
    scale: bool = True
    compute = topi.nn.layer_norm

    def infer(
        self, data: TensorStructInfo, gamma: TensorStructInfo, beta: TensorStructInfo
    ) -> TensorStructInfo:
        self.require_dtype(data, "data", "float")
        dtype = same_dtype(data.dtype, gamma.dtype, ("data", "gamma"))
        dtype = same_dtype(dtype, beta.dtype, ("data", "beta"))
        self.require_attribute(len(self.axes) > 0, "axes", "at least one axis")
        if data.ndim != -1:
            axes = normalize_axes(self.axes, data.ndim, "axes", "data")
            sizes = None if data.dims is None else tuple(data.dims[a] for a in axes)
            for name, info in (("gamma", gamma), ("beta", beta)):
                _require_sizes(name, info, sizes, len(axes), "the size of the normalised axis")
        return data if data.dtype == dtype else data.replace(dtype=dtype)

    def reference(self, data: Array, gamma: Array, beta: Array) -> Array:
        x, axes = wide(data), tuple(a % data.ndim for a in self.axes)
        # γ and β list their dimensions in the order of `axes`.
        order = np.argsort(axes)
        shape = [data.shape[d] if d in axes else 1 for d in range(data.ndim)]
        with np.errstate(all="ignore"):
            count = x.dtype.type(np.prod([data.shape[a] for a in axes]))
            centred = x - x.sum(axes, keepdims=True) / count
            variance = (centred * centred).sum(axes, keepdims=True) / count
            out = centred / np.sqrt(variance + x.dtype.type(self.epsilon))
        if self.scale:
            out = out * wide(gamma).transpose(order).reshape(shape)
        if self.center:
            out = out + wide(beta).transpose(order).reshape(shape)
        return out.astype(data.dtype)

    def permuted(self, axes: Axes, infos: Sequence[StructInfo]) -> Permuted | None:
        if not has_rank(infos, axes):
            return None
        moved = self.replace(axes=tuple(moved_axis(a, axes) for a in self.axes))
        return Permuted(moved, (axes, None, None), (axes,))


@operator("relax.nn.batch_norm")
class BatchNorm(Operator):
    """(y, moving_mean, moving_var): y = (x - mean) / √(variance + ε) · γ + β per channel of `axis`.

    The statistics are the moving ones, which are returned as they are; with `training` they are those of the
    batch (the variance biased), and the moving ones are returned as (1 - momentum) · old + momentum · batch.
    """

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
        self.require_dtype(data, "data", "float")
        axis = self.require_axis(self.axis, data)
        sizes = None if data.dims is None or axis is None else (data.dims[axis],)
        dtype = data.dtype
        named = {"gamma": gamma, "beta": beta, "moving_mean": moving_mean, "moving_var": moving_var}
        for name, info in named.items():
            _require_sizes(name, info, sizes, 1, "the number of channels")
            dtype = same_dtype(dtype, info.dtype, ("data", name))
        return TupleStructInfo((data, moving_mean, moving_var))

    def reference(
        self, data: Array, gamma: Array, beta: Array, moving_mean: Array, moving_var: Array
    ) -> list[Array]:
        x, axis = wide(data), self.axis % data.ndim
        shape = [-1 if d == axis else 1 for d in range(data.ndim)]
        mean, variance = wide(moving_mean), wide(moving_var)
        new_mean, new_var = moving_mean, moving_var
        with np.errstate(all="ignore"):
            if self.training:
                others = tuple(d for d in range(data.ndim) if d != axis)
                batch_mean = x.sum(others) / x.dtype.type(max(x.size, 0) / max(x.shape[axis], 1))
                centred = x - batch_mean.reshape(shape)
                batch_var = (centred * centred).sum(others) / x.dtype.type(x.size / max(x.shape[axis], 1))
                new_mean = (mean * (1 - self.momentum) + batch_mean * self.momentum).astype(data.dtype)
                new_var = (variance * (1 - self.momentum) + batch_var * self.momentum).astype(data.dtype)
                mean, variance = batch_mean, batch_var
            out = (x - mean.reshape(shape)) / np.sqrt(variance.reshape(shape) + x.dtype.type(self.epsilon))
        if self.scale:
            out = out * wide(gamma).reshape(shape)
        if self.center:
            out = out + wide(beta).reshape(shape)
        return [out.astype(data.dtype), new_mean, new_var]

    def permuted(self, axes: Axes, infos: Sequence[StructInfo]) -> Permuted | None:
        if not has_rank(infos, axes):
            return None
        moved = self.replace(axis=moved_axis(self.axis, axes))
        return Permuted(moved, (axes, None, None, None, None), (axes, None, None))
