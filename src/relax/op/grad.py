"""Operators for automatic differentiation, ``relax.op.grad.no_grad``, …: markers and backward functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from .. import topi
from ..struct_info import PrimStructInfo, TensorStructInfo
from .base import Gradients, Term
from .binary import as_tensor
from .dims import require_same_dim, same_dtype
from .errors import SHAPES, OperatorError
from .gradients import apply, tensor_info
from .nn.loss import NLLLoss
from .operands import FLOATS
from .operator import Array, Operator, namespace, operator
from .shapes import Move


class Mark(Move):
    """Base of markers for differentiation, whose value is their operand's."""

    __slots__ = ()

    elementwise: ClassVar[bool] = True
    total = True

    def infer(self, input: TensorStructInfo) -> TensorStructInfo:
        return input

    compute = topi.identity

    def reference(self, input: Array) -> Array:
        return input.copy()

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        return (grad,)


@operator("relax.grad.no_grad")
class NoGrad(Mark):
    """The input, through which no gradient flows."""

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        return (None,)


@operator("relax.grad.start_checkpoint")
class StartCheckpoint(Mark):
    """The input, as the start of a checkpointed segment: the backward function recomputes its values."""


@operator("relax.grad.end_checkpoint")
class EndCheckpoint(Mark):
    """The input, as the end of a checkpointed segment: this value is kept for the backward function."""


@operator("relax.grad.take_backward")
class TakeBackward(Operator):
    """The gradient of `take` with respect to x: zeros of x's shape, to which output_grad is added at the indices.

    A negative index counts from the end; one out of range is an error.
    Sums of 16- and 8-bit floats are rounded at each step.
    """

    takes = FLOATS

    axis: int | None = None

    def infer(
        self, output_grad: TensorStructInfo, x: TensorStructInfo, indices: TensorStructInfo | PrimStructInfo
    ) -> TensorStructInfo:
        index = as_tensor(indices)
        self.require_dtype(x, "x", *self.takes)
        self.require_dtype(index, "indices", "int", "uint")
        same_dtype(output_grad.dtype, x.dtype, ("output_grad", "x"))
        axis = None if self.axis is None else self.require_axis(self.axis, x, "x")
        ranks = (x.ndim, index.ndim, output_grad.ndim)
        if -1 not in ranks:
            rank = index.ndim + (0 if axis is None else x.ndim - 1)
            fits = output_grad.ndim == rank
            expected = f"of {rank} dimensions, as take gives"
            self.require(fits, "output_grad", expected, code=SHAPES, found=str(output_grad.ndim))
        return x

    compute = topi.take_backward

    def reference(self, output_grad: Array, x: Array, indices: Array) -> Array:
        axis = 0 if self.axis is None else self.axis % x.ndim
        flat: Array = np.zeros(x.size if self.axis is None else x.shape, x.dtype)
        index: Array = np.asarray(indices)
        position: list[Any] = [slice(None)] * flat.ndim
        index_tuples: Any = np.ndindex(index.shape)
        for at in index_tuples if output_grad.size else ():
            position[axis] = int(index[at])
            flat[tuple(position)] += output_grad[(*[slice(None)] * axis, *at)]
        return flat.reshape(x.shape)

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        _, x, indices = operands
        flat = apply("flatten", grad) if self.axis is None and tensor_info(x).ndim != 1 else grad
        return (apply("take", flat, indices, axis=self.axis or 0), None, None)


@operator("relax.grad.nll_loss_backward")
class NllLossBackward(Operator):
    """The gradient of `nn.nll_loss` with respect to the predictions: -weight · output_grad at the target's class,
    elsewhere 0.

    For the reduction "mean" it is divided by the sum of the weights of all targets. A target that is `ignore_index`
    has weight 0. Where there are weights, a target that names no class is an error.
    """

    takes = FLOATS

    reduction: Literal["mean", "sum", "none"] = "mean"
    ignore_index: int = -100

    def infer(
        self,
        output_grad: TensorStructInfo,
        predictions: TensorStructInfo,
        targets: TensorStructInfo,
        weights: TensorStructInfo | None = None,
    ) -> TensorStructInfo:
        loss = NLLLoss(self.reduction, self.ignore_index).infer(predictions, targets, weights)
        error = OperatorError(SHAPES, "output_grad must have the shape of the loss", operand="output_grad")
        if -1 not in (output_grad.ndim, loss.ndim) and output_grad.ndim != loss.ndim:
            raise error
        for actual, size in zip(output_grad.dims or (), loss.dims or (), strict=False):
            require_same_dim(actual, size, error)
        return predictions

    compute = topi.nll_loss_backward

    def reference(self, output_grad: Array, predictions: Array, targets: Array, weights: Array | None = None) -> Array:
        x = predictions[None] if predictions.ndim == 1 else predictions
        labels: Array = np.asarray(targets)
        target = labels.reshape((*x.shape[:1], *x.shape[2:]))
        wide = np.float64 if x.dtype == np.float64 else np.float32
        used = target != self.ignore_index
        each = np.ones(target.shape, wide) if weights is None else weights.astype(wide)[np.where(used, target, 0)]
        each = np.where(used, each, 0).astype(wide)
        scale = output_grad.astype(wide) / (each.sum(dtype=wide) if self.reduction == "mean" else 1)
        count: int = x.shape[1]
        hits = np.asarray(np.equal(target[..., None], np.arange(count)))
        at_class = np.moveaxis(hits, -1, 1)
        grad: Array = at_class * -np.expand_dims(each * np.broadcast_to(scale, target.shape), 1)
        return grad.reshape(predictions.shape).astype(predictions.dtype)


__all__: list[str] = []

if TYPE_CHECKING:
    from ._signatures.grad import *  # noqa: F403  # pyright: ignore[reportMissingModuleSource]
else:
    __getattr__, __dir__ = namespace("relax.grad.")
