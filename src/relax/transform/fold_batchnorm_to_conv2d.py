"""Fold batch normalisations and known factors of channels behind a convolution into its weights.

Before   lv = R.nn.conv2d(x, R.const(W))                              # W: (o, i, h, w)
         lv1 = R.nn.batch_norm(lv, R.const(gamma), R.const(beta), R.const(mean), R.const(var), axis=1)
         y = lv1[0]
After    lv = R.nn.conv2d(x, R.const(W · s))                          # s = gamma / √(var + ε), for each channel o
         y = R.add(lv, R.const(beta - mean · s))                      # of shape (o, 1, 1)

A product by a constant that is one number, or one for each channel, is folded likewise, and so is what has a known
bias between: (conv(x, W) + b) · s = conv(x, W · s) + b · s. Convolutions of one to three dimensions, with groups, in
any layout, and transposed ones of one group are taken.

Weights and shifts are computed in float64 and rounded once. A result then differs from that of the operators by as many
roundings more as there are operators less, of numbers no greater than the sum of the magnitudes of its products, the
mean and the shift: the error bound of a sum of K products is that of one of K + 4. As other algorithms that round
differently from the operators as they are written, it is left out where the configuration ``relax.fast_algorithms`` is
False, and below optimisation level 2.

Declines: weights, statistics or factors that are not constants; dtypes other than float32 and float64 (a narrow
result is rounded before it is scaled); weights that would no longer be finite, or normal where they were not 0; a
convolution that is read elsewhere, or that a local function would compute each time it is called; batch norms with the
statistics of the batch, or whose moving ones are read.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ..analysis.properties import NORMAL_FORM, SHAPES_LOWERED
from ..dpl.rewrite import KnownValues
from ..expr import Call, Constant, Function, TupleGetItem, Var, const
from ..ir import IRModule, RelaxExpr
from ..ir.transform import FAST_ALGORITHMS, PassContext
from ..op import is_call_of, operator_of
from ..op.binary import Add, Multiply
from ..op.nn.convolution import AnyConvolution, Convolution
from ..op.nn.normalization import BatchNorm
from ..rewrite import bindings_in
from ..struct_info import TensorStructInfo
from .algebra.questions import read_counts
from .decorators import function_pass

DTYPES: Final = ("float32", "float64")

Channels = NDArray[Any]
"""One number per channel."""


@function_pass(opt_level=2, needs={NORMAL_FORM}, breaks={SHAPES_LOWERED})
def FoldBatchnormToConv2D(func: Function, mod: IRModule) -> Function:
    """Fold batch norms and factors of channels into the weights of convolutions; see the module's docstring."""
    if not PassContext.current().config.get(FAST_ALGORITHMS, True):
        return func
    return _Folder(mod).rewrite_function(func)


class _Folder(KnownValues):
    def __init__(self, mod: IRModule) -> None:
        super().__init__(mod)
        self.reads: Counter[Var] = Counter()

    def concerns(self, function: Function) -> bool:
        """True if a function has convolutions and operators that can be folded into them."""
        operators = {type(operator_of(b.value)) for b in bindings_in(function) if isinstance(b.value, Call)}
        return bool(operators & {BatchNorm, Multiply}) and any(issubclass(o, AnyConvolution) for o in operators)

    def rewrite_function(self, function: Function, name: str = "") -> Function:
        if not self.concerns(function):  # reads are counted where that is of use
            return function
        self.reads = read_counts(function)
        for binding in bindings_in(function):
            value = binding.value
            if isinstance(value, TupleGetItem) and isinstance(whole := value.tuple_value, Var):
                self.reads[whole] -= not self.reads[binding.var]  # a field that nobody reads is no reader
        return super().rewrite_function(function, name)

    def function(self, function: Function) -> RelaxExpr:
        outer, self.values = self.values, {}
        new = super().function(function)
        self.values = outer
        return new

    def call(self, call: Call) -> RelaxExpr:
        call = self.parts(call)
        if not is_call_of(call, Multiply):
            return call
        for data, factor in (call.args, call.args[::-1]):
            summed = self.convolved(data)
            scale = None if summed is None else summed.per_channel(self.value(factor))
            if summed is not None and scale is not None:
                return self.folded(call, summed, scale, np.zeros(()))
        return call

    def tuple_get_item(self, expr: TupleGetItem) -> RelaxExpr:
        """The first result of a batch norm of which no other is read."""
        new = super().tuple_get_item(expr)
        norm = self.value(expr.tuple_value)
        if expr.index != 0 or not isinstance(norm, Call) or not self.is_read_once(expr.tuple_value):
            return new
        operator, summed = operator_of(norm), self.convolved(norm.args[0]) if norm.args else None
        if not isinstance(operator, BatchNorm) or operator.training or summed is None:
            return new
        if operator.axis % summed.ndim != summed.axis:
            return new
        parameters = [_numbers(self.value(arg)) for arg in norm.args[1:]]
        if any(parameter is None or parameter.shape != (summed.channels,) for parameter in parameters):
            return new
        gamma, beta, mean, variance = (np.asarray(parameter) for parameter in parameters)
        with np.errstate(all="ignore"):
            scale = 1 / np.sqrt(variance + operator.epsilon) * (gamma if operator.scale else 1)
            shift = (beta if operator.center else 0) - mean * scale
        return self.folded(new, summed, scale, shift)

    def is_read_once(self, expr: RelaxExpr) -> bool:
        """True for a variable that nothing else reads; those of this pass are read where they are made."""
        return isinstance(expr, Var) and self.reads[expr] <= 1

    def convolved(self, expr: RelaxExpr) -> _Summed | None:
        """Return a single-use convolution with constant weights and the constant added to it."""
        value = self.value(expr)
        if not isinstance(value, Call) or not self.is_read_once(expr):
            return None
        if is_call_of(value, Add):
            for data, shift in (value.args, value.args[::-1]):
                summed = self.convolved(data)
                channels = None if summed is None else summed.per_channel(self.value(shift))
                if summed is not None and channels is not None:
                    summed.shift = summed.shift + channels
                    return summed
            return None
        operator = operator_of(value)
        if not isinstance(operator, AnyConvolution) or operator.is_packed:
            return None
        if not isinstance(operator, Convolution) and operator.groups != 1:
            return None
        return _Summed.of(value, operator, _numbers(self.value(value.args[1])))

    def folded(self, old: RelaxExpr, summed: _Summed, scale: Channels, shift: Channels) -> RelaxExpr:
        """The convolution by other weights, and what is added to it; `old` where numbers would be lost."""
        with np.errstate(all="ignore"):
            weight = summed.scaled(scale)
            total = summed.shift * scale + shift
            bias = np.broadcast_to(total, (summed.channels,)).astype(summed.dtype)
        if weight is None or not np.isfinite(bias).all():
            return old
        convolved: RelaxExpr = summed.operator.call(summed.call.args[0], const(weight))
        if not bias.any():
            return convolved
        behind = summed.ndim - 1 - summed.axis
        bias = np.reshape(bias, (summed.channels, *[1] * behind))
        var = self.builder.emit(convolved)
        self.note(var, convolved)
        return Add().call(var, const(bias))


class _Summed:
    """A convolution with constant weights and a constant summand."""

    def __init__(self, call: Call, operator: AnyConvolution, info: TensorStructInfo, weight: Channels) -> None:
        self.call = call
        self.operator = operator
        self.weight = weight
        self.dtype = str(info.dtype)
        self.ndim = info.ndim
        self.axis = operator.result_letters.index("C")
        self.channels = weight.shape[operator.kernel_layout.index("O")]
        self.shift: Channels = np.zeros(())

    @classmethod
    def of(cls, call: Call, operator: AnyConvolution, weight: Channels | None) -> _Summed | None:
        """The convolution alone, or None if its weights are not known, or its numbers of other dtypes."""
        infos = [call.struct_info_, *(arg.struct_info_ for arg in call.args)]
        static_infos = [info for info in infos if isinstance(info, TensorStructInfo) and info.dims is not None]
        dtypes = {str(info.dtype) for info in static_infos}
        if weight is None or len(static_infos) != len(infos) or len(dtypes) != 1 or not dtypes <= set(DTYPES):
            return None
        return cls(call, operator, static_infos[0], weight)

    def per_channel(self, value: RelaxExpr) -> Channels | None:
        """A constant that broadcasts to a number for each channel of the result, and does not make it larger."""
        numbers = _numbers(value)
        if numbers is None or numbers.ndim > self.ndim:
            return None
        shape = (1,) * (self.ndim - numbers.ndim) + numbers.shape
        if any(size != 1 and not (d == self.axis and size == self.channels) for d, size in enumerate(shape)):
            return None
        return np.reshape(numbers, -1)

    def scaled(self, scale: Channels) -> NDArray[Any] | None:
        """The weights of scaled channels; None if one that is not 0 would be infinite, or no normal number."""
        axis = self.operator.kernel_layout.index("O")
        scale = np.broadcast_to(scale, (self.channels,))
        factors = np.reshape(scale, [-1 if d == axis else 1 for d in range(self.weight.ndim)])
        exact: NDArray[Any] = self.weight * factors
        rounded = exact.astype(self.dtype)
        sizes, limits = np.abs(rounded), np.finfo(self.dtype)
        if sizes.size and limits.tiny <= sizes.min() and sizes.max() <= limits.max:  # as nearly always
            return rounded
        lost = (sizes < limits.tiny) & (self.weight != 0) & (factors != 0)
        return rounded if np.isfinite(rounded).all() and not lost.any() else None


def _numbers(value: RelaxExpr) -> Channels | None:
    """The elements of a constant of floats."""
    if not isinstance(value, Constant) or str(value.content.dtype) not in DTYPES:
        return None
    return np.asarray(value.data.numpy(), "float64")
