"""Replace composite operators by simple ones, for inference or for training.

Before   bn = R.nn.batch_norm(x, gamma, beta, mean, var)         After   lv = R.expand_dims(mean, axis=[2, 3])
         y = bn[0]                                                       lv1 = R.subtract(x, lv)
                                                                         lv2 = R.add(var, R.const(1e-5, "float32"))
                                                                         … y = lv9

For inference, batch_norm uses the moving statistics and returns copies of them; one with `training` set uses those of
its batch all the same. For training, every batch_norm uses the statistics of the batch and returns moving ones brought
up to date, and layer_norm becomes means and products too.

Narrow floats are computed in float32 inside, and rounded once, as in the operators. Still, floats are rounded in other
places than in one kernel: results may differ in the last bits, and the passes are not in the default pipeline.

Declines: operands whose ranks or dtypes are not known. `func_name` is the function to look at; by default, all are.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ... import op
from ...analysis.properties import NORMAL_FORM, SHAPES_LOWERED
from ...expr import Call, Function, Tuple, const
from ...ir import DataType, IRModule, RelaxExpr
from ...op import operator_of
from ...op.nn.normalization import BatchNorm, LayerNorm
from ...rewrite import Rewriter, bindings_in
from ...struct_info import TensorStructInfo
from ..decorators import module_pass
from ..remove_unused_functions import entry_names


@module_pass(needs={NORMAL_FORM}, breaks={SHAPES_LOWERED})
def DecomposeOpsForInference(mod: IRModule, func_name: str | None = None) -> IRModule:
    """Decompose batch_norm; see the module's docstring."""
    return _decomposed(mod, func_name, "DecomposeOpsForInference", training=False)


@module_pass(needs={NORMAL_FORM}, breaks={SHAPES_LOWERED})
def DecomposeOpsForTraining(mod: IRModule, func_name: str | None = None) -> IRModule:
    """Decompose batch_norm and layer_norm; see the module's docstring."""
    return _decomposed(mod, func_name, "DecomposeOpsForTraining", training=True)


def _decomposed(mod: IRModule, func_name: str | None, who: str, *, training: bool) -> IRModule:
    names = None if func_name is None else entry_names(mod, [func_name], who)
    return _Decomposer(mod, names, training).module()


class _Decomposer(Rewriter):
    def __init__(self, mod: IRModule, names: set[str] | None, training: bool) -> None:
        super().__init__(mod)
        self.names = names
        self.training = training

    def concerns(self, function: Function) -> bool:
        operators = (operator_of(b.value) for b in bindings_in(function) if isinstance(b.value, Call))
        return any(isinstance(operator, BatchNorm | LayerNorm) for operator in operators)

    def rewrite_function(self, function: Function, name: str = "") -> Function:
        if self.names is not None and name not in self.names:
            return function
        return super().rewrite_function(function, name)

    def call(self, call: Call) -> RelaxExpr:
        call = self.parts(call)
        operator, data = operator_of(call), call.args[0].struct_info_ if call.args else None
        if not isinstance(data, TensorStructInfo) or data.ndim < 1 or data.dtype.is_void:
            return call
        if isinstance(operator, BatchNorm):
            return self.batch_norm(call, operator, data)
        if isinstance(operator, LayerNorm) and self.training:
            return self.layer_norm(call, operator, data)
        return call

    def batch_norm(self, call: Call, operator: BatchNorm, data: TensorStructInfo) -> RelaxExpr:
        """The tuple that batch_norm gives, of simple operators."""
        of_batch = self.training or operator.training
        x, gamma, beta, old_mean, old_variance = (self.wide(arg) for arg in call.args)
        other_axes = tuple(d for d in range(data.ndim) if d != operator.axis % data.ndim)
        mean, variance = old_mean, old_variance
        if of_batch:
            mean, variance = self.emit(op.mean(x, other_axes)), self.emit(op.variance(x, other_axes))
        out = self.standardised(x, mean, variance, operator.epsilon, other_axes)
        if operator.scale:
            out = op.multiply(out, op.expand_dims(gamma, other_axes))
        if operator.center:
            out = op.add(out, op.expand_dims(beta, other_axes))
        if not of_batch:  # copies: a call gives fresh tensors
            copies = [op.astype(arg, str(dtype_of(arg))) for arg in call.args[3:]]
            return Tuple([narrowed(out, data), *copies], span=call.span)
        share = operator.momentum
        new = [
            op.add(op.multiply(old, number(1 - share, old)), op.multiply(batch, number(share, batch)))
            for old, batch in ((old_mean, mean), (old_variance, variance))
        ]
        return Tuple([narrowed(value, data) for value in (out, *new)], span=call.span)

    def layer_norm(self, call: Call, operator: LayerNorm, data: TensorStructInfo) -> RelaxExpr:
        """The result of layer_norm, of simple operators."""
        x, gamma, beta = (self.wide(arg) for arg in call.args)
        axes = tuple(axis % data.ndim for axis in operator.axes)
        mean = self.emit(op.mean(x, axes, keepdims=True))
        variance = self.emit(op.variance(x, axes, keepdims=True))
        out = self.standardised(x, mean, variance, operator.epsilon, ())
        if operator.scale:
            out = op.multiply(out, lifted(gamma, axes, data.ndim))
        if operator.center:
            out = op.add(out, lifted(beta, axes, data.ndim))
        return narrowed(out, data)

    def standardised(
        self, x: RelaxExpr, mean: RelaxExpr, variance: RelaxExpr, epsilon: float, lifted_axes: tuple[int, ...]
    ) -> RelaxExpr:
        """(x - mean) / √(variance + ε), where mean and variance lack some axes."""
        root = op.sqrt(op.add(variance, number(epsilon, variance)))
        if lifted_axes:
            mean, root = op.expand_dims(mean, lifted_axes), op.expand_dims(root, lifted_axes)
        return op.divide(op.subtract(x, mean), root)

    def wide(self, arg: RelaxExpr) -> RelaxExpr:
        """An operand in the dtype that is computed in."""
        dtype = dtype_of(arg)
        return self.emit(op.astype(arg, "float32")) if dtype.bits < 32 else arg

    def emit(self, value: RelaxExpr) -> RelaxExpr:
        return self.builder.emit(value)


def dtype_of(expr: RelaxExpr) -> DataType:
    """The dtype of a tensor."""
    info = expr.struct_info_
    return info.dtype if isinstance(info, TensorStructInfo) else DataType("float32")


def narrowed(value: RelaxExpr, data: TensorStructInfo) -> RelaxExpr:
    """Round a value computed in the wide dtype to the dtype of the data."""
    return op.astype(value, str(data.dtype)) if data.dtype.bits < 32 else value


def number(value: float, like: RelaxExpr) -> RelaxExpr:
    """A constant of a tensor's dtype."""
    return const(value, str(dtype_of(like)))


def lifted(parameter: RelaxExpr, axes: Iterable[int], ndim: int) -> Any:
    """A parameter with a dimension for each of some axes, in the shape that broadcasts to `ndim` dimensions."""
    axes = tuple(axes)
    order = sorted(range(len(axes)), key=axes.__getitem__)
    if order != list(range(len(axes))):
        parameter = op.permute_dims(parameter, order)
    missing_axes = [axis for axis in range(ndim) if axis not in axes]
    return op.expand_dims(parameter, missing_axes) if missing_axes else parameter
