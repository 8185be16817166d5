"""Losses: Relax functions from predictions and targets to a scalar.

    loss = MSELoss("mean")(prediction_info, target_info)

    @R.function
    def mse_loss(predictions: R.Tensor((n, 2)), targets: R.Tensor((n, 2))):
        with R.dataflow():
            lv = R.subtract(predictions, targets)
            lv1 = R.multiply(lv, lv)
            gv = R.mean(lv1)
            R.output(gv)
        return gv

The reduction is "mean", "sum", or "none" for the loss of each element (L1, MSE) or sample (cross entropies). Classes
are dimension 1 of predictions, or the only one.
"""

from __future__ import annotations

from typing import Final, Literal, cast

from .. import op
from ..block_builder import BlockBuilder
from ..expr import Call, Function, Var
from ..info.text import struct_info_text
from ..ir import RelaxExpr, StructInfo
from ..struct_info import TensorStructInfo
from .errors import misfit

Reduction = Literal["mean", "sum", "none"]

_REDUCTIONS: Final = ("mean", "sum", "none")


class Loss:
    """Base class of losses: called with the struct info (or variables) of predictions and targets, it returns the
    function.
    """

    num_backbone_outputs: int = 1
    """Number of model results that the loss takes: the first parameters of the function."""

    def __init__(self, loss_name: str, reduction: Reduction = "mean") -> None:
        if reduction not in _REDUCTIONS:
            raise misfit(
                f"{type(self).__name__}: the reduction is {reduction!r}, expected mean, sum or none",
                hint='write reduction="mean"',
            )
        self._loss_name = loss_name
        self._reduction: Reduction = reduction

    def __call__(self, predictions: Var | StructInfo, targets: Var | StructInfo) -> Function:
        """Return the loss as a function of predictions and targets, under the loss's name."""
        return self._function(predictions, targets)

    def _function(
        self, predictions: Var | StructInfo, targets: Var | StructInfo, weights: Var | StructInfo | None = None
    ) -> Function:
        params = [_parameter(predictions, "predictions"), _parameter(targets, "targets")]
        if weights is not None:
            params.append(_parameter(weights, "weights"))
        builder = BlockBuilder()
        with builder.function(self._loss_name, params):
            with builder.dataflow():
                result = builder.emit_output(self._value(*params))
            builder.emit_func_output(result)
        return cast(Function, builder.get()[self._loss_name])

    def _value(self, predictions: Var, targets: Var, weights: Var | None = None) -> RelaxExpr:
        """Loss as an expression."""
        raise NotImplementedError(f"{type(self).__name__} does not say what it computes")

    def _with_reduction(self, losses: RelaxExpr) -> RelaxExpr:
        """Return the mean or the sum of the losses, or the losses unchanged, by the `reduction` of the constructor."""
        if self._reduction == "none":
            return losses
        return op.mean(losses) if self._reduction == "mean" else op.sum(losses)


def _parameter(value: Var | StructInfo, name: str) -> Var:
    """Create a variable for a parameter given by struct info; a variable is returned unchanged."""
    return value if isinstance(value, Var) else Var(name, value)


class L1Loss(Loss):
    """|predictions - targets|, element by element."""

    def __init__(self, reduction: Reduction = "mean") -> None:
        super().__init__("l1_loss", reduction)

    def _value(self, predictions: Var, targets: Var, weights: Var | None = None) -> RelaxExpr:
        return self._with_reduction(op.abs(op.subtract(predictions, targets)))


class MSELoss(Loss):
    """(predictions - targets)², element by element."""

    def __init__(self, reduction: Reduction = "mean") -> None:
        super().__init__("mse_loss", reduction)

    def _value(self, predictions: Var, targets: Var, weights: Var | None = None) -> RelaxExpr:
        difference = op.subtract(predictions, targets)
        return self._with_reduction(op.multiply(difference, difference))


class CrossEntropyLoss(Loss):
    """The cross entropy of softmax(predictions) and the classes in targets: log_softmax, then nll_loss.

    predictions: (N, C, d1, …) or (C); targets: (N, d1, …) or () of integers; weights, of the classes: (C). The mean is
    weighted by the weights of the targets. A target `ignore_index` counts nothing.
    """

    def __init__(self, reduction: Reduction = "mean", ignore_index: int = -100) -> None:
        super().__init__("cross_entropy_loss", reduction)
        self.ignore_index = ignore_index

    def __call__(
        self, predictions: Var | StructInfo, targets: Var | StructInfo, weights: Var | StructInfo | None = None
    ) -> Function:
        """Return the loss as a function of predictions, targets and, if given, weights."""
        return self._function(predictions, targets, weights)

    def _value(self, predictions: Var, targets: Var, weights: Var | None = None) -> RelaxExpr:
        logs = _log_probabilities(predictions, type(self).__name__)
        return op.nn.nll_loss(logs, targets, weights, self._reduction, self.ignore_index)


class CategoricalCrossEntropyLoss(Loss):
    """The cross entropy of softmax(predictions) and the probabilities in targets, which are shaped like predictions.

    Of one-hot targets it is CrossEntropyLoss of their classes. The mean is over the samples, weighted by the weights of
    their targets. With an `ignore_index` that is a class, targets are taken as one-hot, and those of that class count
    nothing.
    """

    def __init__(self, reduction: Reduction = "mean", ignore_index: int = -100) -> None:
        super().__init__("categorical_cross_entropy_loss", reduction)
        self.ignore_index = ignore_index

    def __call__(
        self, predictions: Var | StructInfo, targets: Var | StructInfo, weights: Var | StructInfo | None = None
    ) -> Function:
        """Return the loss as a function of predictions, targets and, if given, weights."""
        return self._function(predictions, targets, weights)

    def _value(self, predictions: Var, targets: Var, weights: Var | None = None) -> RelaxExpr:
        logs = _log_probabilities(predictions, type(self).__name__)
        info = cast(TensorStructInfo, predictions.struct_info)
        axis = _class_axis(info)
        if self.ignore_index >= 0:
            classes = op.argmax(targets, axis=axis)
            return op.nn.nll_loss(logs, classes, weights, self._reduction, self.ignore_index)
        shares: RelaxExpr = op.astype(targets, str(info.dtype))
        if weights is not None:
            later = list(range(1, info.ndim - axis))
            shares = op.multiply(shares, op.expand_dims(weights, later) if later else weights)
        losses = op.negative(op.sum(op.multiply(logs, shares), axis=axis))
        if self._reduction == "mean":
            return op.divide(op.sum(losses), op.sum(shares))
        return self._with_reduction(losses)


def _log_probabilities(predictions: Var, loss: str) -> Call:
    info = predictions.struct_info_
    if not isinstance(info, TensorStructInfo) or info.ndim < 1:
        hint = "give the struct info of a tensor with a dimension of classes"
        raise misfit(f"{loss}: predictions are {struct_info_text(info)}", predictions.span, hint)
    return op.nn.log_softmax(predictions, axis=_class_axis(info))


def _class_axis(info: TensorStructInfo) -> int:
    return 0 if info.ndim == 1 else 1
