"""Backward functions of pooling: ``relax.op.grad.max_pool2d_backward`` and avg_pool2d_backward."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np

from .. import topi
from ..expr import ShapeExpr, TupleGetItem
from ..ir import StructInfo
from ..struct_info import TensorStructInfo
from .base import Gradients, Term
from .dims import require_same_dim, same_dtype
from .errors import SHAPES, OperatorError
from .facts import Axes, Permuted
from .gradients import apply, dims_of, masked
from .nn.activation import wide
from .nn.pooling import Pool
from .nn.windows import in_layout
from .operator import Array, Operator, operator


class PoolBackward(Pool):
    """Base class: gradient of pooling with respect to its data, given that with respect to its result."""

    __slots__ = ()

    takes: ClassVar[tuple[str, ...]] = ("float",)
    spatial = "HW"
    packs: ClassVar[bool] = False

    pool_size: tuple[int, ...] = (1,)
    strides: tuple[int, ...] = (1,)
    padding: tuple[int, ...] = (0,)
    dilation: tuple[int, ...] = (1,)
    ceil_mode: bool = False
    count_include_pad: bool = False
    layout: str = "NC*"
    out_layout: str | None = None

    def infer(self, output_grad: TensorStructInfo, data: TensorStructInfo) -> TensorStructInfo:
        pooled = self.pooled_info(data)
        same_dtype(output_grad.dtype, data.dtype, ("output_grad", "data"))
        self.require_rank("output_grad", output_grad, self.result_letters)
        for d, (actual, size) in enumerate(zip(output_grad.dims or (), pooled.dims or (), strict=False)):
            message = f"dimension {d} of output_grad must be that of the pooled data"
            require_same_dim(actual, size, OperatorError(SHAPES, message, operand="output_grad"))
        return data

    def backward(self, formula: Any, output_grad: Any, data: Any) -> Any:
        """Formula of the gradient, in the layout of the data."""
        if self.result_letters != self.layout:
            order = [self.result_letters.index(axis) for axis in self.layout]
            output_grad = topi.transpose(output_grad, order)
        return self.pooled(partial(formula, output_grad), data)

    def laid_out(self, pooled: Any) -> Any:
        return pooled  # the gradient has the layout of the data

    def add_window(self, total: Array, window: tuple[Array, ...], x: Array, grad: Array, counted: int) -> None:
        """Add a window's gradient (N, C) to `total`, (N, C, H, W) like x; `window` holds the indices of its
        elements.
        """
        raise NotImplementedError

    def reference(self, output_grad: Array, data: Array) -> Array:
        x = wide(self.canonical(data))
        grad = wide(in_layout(output_grad, self.result_letters, self.letters))
        total: Array = np.zeros(x.shape, x.dtype)
        for position, window, counted in self.windows(x.shape):
            if all(along.size for along in window):
                self.add_window(total, window, x, grad[(..., *position)], counted)
        return in_layout(total, self.letters, self.layout).astype(data.dtype)

    def _attributes(self) -> dict[str, Any]:
        """Attributes of the pooling operator of this backward function."""
        names = ("pool_size", "strides", "padding", "dilation", "ceil_mode", "layout", "out_layout")
        return {name: getattr(self, name) for name in names}

    def permuted(self, axes: Axes, infos: Sequence[StructInfo]) -> Permuted | None:
        return None  # both operands would have to move

    def in_layouts(self, layouts: Sequence[str], infos: Sequence[StructInfo]) -> Permuted | None:
        return Operator.in_layouts(self, layouts, infos)


@operator("relax.grad.max_pool2d_backward")
class MaxPool2dBackward(PoolBackward):
    """The gradient of `nn.max_pool2d` with respect to its data: output_grad, added at the first maximum of each
    window.
    """

    def compute(self, output_grad: Any, data: Any) -> Any:
        return self.backward(topi.nn.max_pool_backward, output_grad, data)

    def add_window(self, total: Array, window: tuple[Array, ...], x: Array, grad: Array, counted: int) -> None:
        values = x[window]
        planes: Any = np.ndindex(grad.shape)
        for n, c in planes:
            row, column = np.unravel_index(np.argmax(values[n, c]), values.shape[2:])
            total[n, c, window[2].flat[row], window[3].flat[column]] += grad[n, c]

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        output_grad, data = operands
        dims = dims_of(output_grad)
        if dims is None:
            return None
        places = TupleGetItem(apply("nn.max_pool2d_with_indices", data, **self._attributes()), 1)
        indices = apply("flatten", places)
        inside = apply("greater_equal", indices, apply("zeros_like", indices))  # -1 stands for a window of padding
        read = masked(apply("take", apply("flatten", grad), indices, axis=0), inside)
        return (apply("reshape", read, ShapeExpr(tuple(dims))), None)


@operator("relax.grad.avg_pool2d_backward")
class AvgPool2dBackward(PoolBackward):
    """The gradient of `nn.avg_pool2d` with respect to its data: each window's output_grad, spread evenly over its
    elements.
    """

    def compute(self, output_grad: Any, data: Any) -> Any:
        formula = partial(topi.nn.avg_pool_backward, count_include_pad=self.count_include_pad)
        return self.backward(formula, output_grad, data)

    def add_window(self, total: Array, window: tuple[Array, ...], x: Array, grad: Array, counted: int) -> None:
        count = counted if self.count_include_pad else window[2].size * window[3].size
        total[window] += (grad / x.dtype.type(max(count, 1)))[..., None, None]

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        mean = apply("nn.avg_pool2d", grad, **self._attributes(), count_include_pad=self.count_include_pad)
        return (mean, None)
