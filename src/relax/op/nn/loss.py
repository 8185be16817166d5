"""Losses: of log probabilities, against targets given as probabilities or as classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from ... import topi
from ...expr import PrimValue, const
from ...info.text import prim_text
from ...prim import cast
from ...struct_info import TensorStructInfo
from ..base import Gradients, Term
from ..dims import require_same_dim, same_dtype, tensor
from ..errors import SHAPES, OperatorError
from ..gradients import apply, dims_of, tensor_info
from ..operands import FLOATS, is_absent
from ..operator import Array, Operator, operator
from .activation import wide


@operator("relax.nn.cross_entropy_with_logits")
class CrossEntropyWithLogits(Operator):
    """-Σ predictions · labels, divided by the size of the batch (dimension 0) for two or more dimensions.

    Both have one shape; predictions are log probabilities, as returned by log_softmax.
    """

    takes = FLOATS

    compute = topi.nn.cross_entropy_with_logits

    def infer(self, predictions: TensorStructInfo, labels: TensorStructInfo) -> TensorStructInfo:
        self.require_dtype(predictions, "predictions", *self.takes)
        dtype = same_dtype(predictions.dtype, labels.dtype, ("predictions", "labels"))
        if -1 not in (predictions.ndim, labels.ndim) and predictions.ndim != labels.ndim:
            message = f"predictions have {predictions.ndim} dimensions, labels {labels.ndim}"
            raise OperatorError(SHAPES, message, operand="labels")
        for d, (a, b) in enumerate(zip(predictions.dims or (), labels.dims or (), strict=False)):
            remarks = {"predictions": f"dimension {d} is {prim_text(a)}", "labels": f"dimension {d} is {prim_text(b)}"}
            require_same_dim(a, b, OperatorError(SHAPES, "the sizes of predictions and labels differ", remarks=remarks))
        return tensor((), dtype)

    def reference(self, predictions: Array, labels: Array) -> Array:
        x = wide(predictions)
        total = -(x * wide(labels)).sum(dtype=x.dtype)
        batch = x.dtype.type(x.shape[0] if x.ndim > 1 else 1)
        return np.asarray(total / batch, predictions.dtype)

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        predictions, labels = operands
        dims = dims_of(predictions)
        if dims is None:
            return None
        share = -grad
        if len(dims) > 1:
            share = share / PrimValue(cast(predictions.struct_info.dtype, dims[0]))
        return share * labels, share * predictions


@operator("relax.nn.nll_loss")
class NLLLoss(Operator):
    """-weight · log probability of each target's class, and their sum or mean.

    predictions (N, C, d1, …) or (C), targets (N, d1, …) or () of integers, weights (C), 1 by default. A target of
    `ignore_index` has weight 0; any other target that is not a class is an error at run time. The "mean" divides the
    sum by that of the weights.
    """

    takes = FLOATS

    reduction: Literal["none", "sum", "mean"] = "mean"
    ignore_index: int = -100
    compute = topi.nn.nll_loss

    def infer(
        self, predictions: TensorStructInfo, targets: TensorStructInfo, weights: TensorStructInfo | None = None
    ) -> TensorStructInfo:
        self.require_dtype(predictions, "predictions", *self.takes)
        self.require_dtype(targets, "targets", "int", "uint")
        dtype = predictions.dtype
        if weights is not None:
            dtype = same_dtype(dtype, weights.dtype, ("predictions", "weights"))
        self._require_ranks(predictions, targets, weights)
        if predictions.dims is not None:
            classes, *rest = predictions.dims[1:] if predictions.ndim > 1 else predictions.dims
            kept = [*predictions.dims[:1], *rest] if predictions.ndim > 1 else []
            for d, (a, b) in enumerate(zip(kept, targets.dims or (), strict=False)):
                message = f"dimension {d} of targets is {prim_text(b)}, expected {prim_text(a)} as in predictions"
                require_same_dim(a, b, OperatorError(SHAPES, message, operand="targets"))
            if weights is not None and weights.dims is not None:
                (count,) = weights.dims
                message = f"weights must have one element per class, {prim_text(classes)}, found {prim_text(count)}"
                require_same_dim(classes, count, OperatorError(SHAPES, message, operand="weights"))
        if self.reduction != "none":
            return tensor((), dtype)
        return tensor(targets.dims, dtype, targets.ndim)

    def _require_ranks(
        self, predictions: TensorStructInfo, targets: TensorStructInfo, weights: TensorStructInfo | None
    ) -> None:
        if predictions.ndim == 0:
            message = "predictions must have a dimension of classes, found 0 dimensions"
            raise OperatorError(SHAPES, message, operand="predictions")
        if -1 not in (predictions.ndim, targets.ndim) and targets.ndim != predictions.ndim - 1:
            message = f"targets must have {predictions.ndim - 1} dimensions, found {targets.ndim}"
            raise OperatorError(SHAPES, message, operand="targets")
        if weights is not None and weights.ndim not in (-1, 1):
            message = f"weights must have 1 dimension, found {weights.ndim}"
            raise OperatorError(SHAPES, message, operand="weights")

    def reference(self, predictions: Array, targets: Array, weights: Array | None = None) -> Array:
        x = wide(predictions)
        axis = 1 if x.ndim > 1 else 0
        counted = targets != self.ignore_index
        chosen = np.where(counted, targets, 0)
        if not counted.any():
            chosen, losses, share = chosen, np.zeros(targets.shape, x.dtype), np.zeros(targets.shape, x.dtype)
        else:
            if np.any((chosen < 0) | (chosen >= x.shape[axis])):
                raise IndexError(f"a target is out of range for {x.shape[axis]} classes")
            picked = np.take_along_axis(x, np.expand_dims(chosen, axis), axis).squeeze(axis)
            each = np.ones_like(picked) if weights is None else wide(weights)[chosen]
            share = np.where(counted, each, 0)
            losses = np.where(counted, -picked * each, 0)
        if self.reduction == "none":
            return losses.astype(predictions.dtype)
        total = losses.sum(dtype=x.dtype)
        if self.reduction == "mean":
            total = total / share.sum(dtype=x.dtype)
        return np.asarray(total, predictions.dtype)

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        predictions, targets, *weights = operands
        attributes = {"reduction": self.reduction, "ignore_index": self.ignore_index}
        gradient = apply("grad.nll_loss_backward", grad, *operands, **attributes)
        if not weights or is_absent(weights[0]):
            return (gradient, None, *[None] * len(weights))
        by_weights = self._weights_gradient(predictions, targets, weights[0], result, grad)
        return None if by_weights is None else (gradient, None, by_weights)

    def _weights_gradient(
        self, predictions: Term, targets: Term, weights: Term, result: Term, grad: Term
    ) -> Term | None:
        """Gradient with respect to the weights: the sum of the losses of each class's targets."""
        dims, ndim = dims_of(weights), tensor_info(predictions).ndim
        if dims is None or ndim == -1:
            return None
        dtype = tensor_info(predictions).dtype
        axis = 0 if ndim == 1 else 1
        classes = apply("arange", PrimValue(0), PrimValue(dims[0]), PrimValue(1), dtype="int64")
        trailing = list(range(1, ndim - axis))
        classes = apply("expand_dims", classes, axis=trailing) if trailing else classes
        labels = apply("astype", apply("expand_dims", targets, axis=axis), dtype="int64")
        counted = apply("not_equal", labels, const(self.ignore_index, "int64"))
        hits = apply("astype", apply("logical_and", apply("equal", labels, classes), counted), dtype=dtype)
        losses = apply("nn.nll_loss", predictions, targets, reduction="none", ignore_index=self.ignore_index)
        share = grad
        if self.reduction == "mean":
            other_axes = [d for d in range(ndim) if d != axis]
            total = apply("sum", weights * (apply("sum", hits, axis=other_axes) if other_axes else hits))
            losses, share = losses - result, grad / total
        losses = apply("expand_dims", losses * share, axis=axis)
        other_axes = [d for d in range(ndim) if d != axis]
        return apply("sum", hits * losses, axis=other_axes) if other_axes else hits * losses
