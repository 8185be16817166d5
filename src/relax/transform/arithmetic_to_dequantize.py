"""Rewrite arithmetic on constant integers, `(numbers - zeros) * scales + minima`, as `R.dequantize`.

Before   n = R.astype(R.const(W), "float32")                   # W: (256, 4, 32), int8
         d = R.subtract(n, R.astype(R.const(z), "float32"))    # z: (256, 4, 1), int8
         w = R.reshape(R.multiply(d, R.const(s)), [256, 128])  # s: (256, 4, 1)
         y = R.matmul(x, R.permute_dims(w))
After    d = R.dequantize(R.const(V), R.const(t), R.const(u), axis=0)    # V: (1024, 32), int8; t, u: (1024,)
         w = R.reshape(R.reshape(d, [256, 4, 32]), [256, 128])
         y = R.matmul(x, R.permute_dims(w))

Quantised programs of torch (torchao), and models of exporters without DequantizeLinear, compute the right operand of
products and convolutions like this. `FakeQuantizationToInteger` and `DequantizeInProducts` then match `R.dequantize`
only. Each of zeros, scales and minima may be missing; the scale is then 1.

Each weight keeps its bits: differences of integers are exact in the accepted float dtypes, and the product is rounded
once. Minima are added after `R.dequantize`, as before.

Declines: numbers that are not constants, or of more than 16 bits; float16 and bfloat16 that do not hold all
differences; zero points that are no integers; scales and minima that are not constants or have more dimensions than the
numbers; reshapes and transpositions between the operators.
"""

# NumPy's stubs leave the results of transposing and reshape partly unknown.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..analysis.properties import NORMAL_FORM, SHAPES_LOWERED
from ..dpl.rewrite import KnownValues
from ..expr import BindingBlock, Call, Constant, Function, const
from ..ir import DataType, IRModule, RelaxExpr
from ..op import is_call_of, operator_of
from ..op.binary import Add, Multiply, Subtract
from ..op.gradients import apply, tensor_info
from ..op.linear_algebra import Matmul
from ..op.nn.convolution import Convolution
from ..op.qdq import Dequantize
from ..op.unary import Astype
from ..rewrite import bindings_in
from ..runtime.records import dataclass
from .constant_moves import moved_array, moved_constant, moves_of
from .decorators import function_pass

Array: TypeAlias = "NDArray[Any]"

EXACT: Final = {"float32": 1 << 17, "float16": 1 << 11, "bfloat16": 1 << 8}
"""Magnitude up to which each float dtype represents all integers (float32: that of all differences of 16 bits). Float32
represents their products by float16 and bfloat16 scales, so these are rounded once.
"""

DEEPEST: Final = 6
"""Nested operators of the longest form: cast, subtract, cast, multiply, add, and one to spare."""


@function_pass(opt_level=1, needs={NORMAL_FORM}, breaks={SHAPES_LOWERED})
def ArithmeticToDequantize(func: Function, mod: IRModule) -> Function:
    """Rewrite arithmetic on constant integers as `R.dequantize`; see the module's docstring."""
    return _Arithmetic(mod).rewrite_function(func)


@dataclass(frozen=True)
class _Weights:
    """Weights (numbers - zeros) * scales + minima, arrays that broadcast to the shape of numbers; None: left out."""

    numbers: Array
    dtype: str
    most: int
    """Magnitude up to which the program converts and subtracts integers exactly."""
    zeros: Array | None = None
    scales: Array | None = None
    minima: Array | None = None

    def converted(self, dtype: str) -> _Weights | None:
        """Return the weights in another dtype: from float32 rounded once, or before there are scales."""
        if dtype == self.dtype:
            return self
        if dtype not in EXACT or self.minima is not None or (self.scales is not None and self.dtype != "float32"):
            return None
        return replace(self, dtype=dtype, most=min(self.most, EXACT[dtype]))

    def with_zeros(self, zeros: Array | None) -> _Weights | None:
        """Return the weights with zero points; None unless they are integers and all differences are exact."""
        if zeros is None or self.zeros is not None or self.scales is not None or not self.fits(zeros):
            return None
        wide = zeros.astype(np.float64)
        if not zeros.size or not (np.abs(wide) < 1 << 15).all() or not np.array_equal(wide, np.rint(wide)):
            return None
        return replace(self, zeros=zeros.astype(np.int32))

    def with_scales(self, scales: Array | None) -> _Weights | None:
        """Return the weights with scales; None unless there are none yet."""
        if scales is None or self.scales is not None or self.minima is not None or not self.fits(scales):
            return None
        return replace(self, scales=scales)

    def with_minima(self, minima: Array | None) -> _Weights | None:
        """Return the weights with summands; None unless they have scales and no summands."""
        if minima is None or self.scales is None or self.minima is not None or not self.fits(minima):
            return None
        return replace(self, minima=minima)

    def fits(self, part: Array) -> bool:
        """True if an array broadcasts to the shape of the numbers."""
        sizes = zip(reversed(part.shape), reversed(self.numbers.shape), strict=False)
        return part.ndim <= self.numbers.ndim and all(size in (1, whole) for size, whole in sizes)

    def parameters(self) -> tuple[Array, Array]:
        """Return scales, float32, and zero points, in as many dimensions as the numbers have."""
        ndim = self.numbers.ndim
        scales = np.ones((), np.float32) if self.scales is None else self.scales.astype(np.float32)
        zeros = np.zeros((), np.int32) if self.zeros is None else self.zeros
        if (zeros == zeros.flat[0]).all():
            zeros = zeros.flat[:1]
        own = zeros.astype(self.numbers.dtype)
        zeros = own if np.array_equal(own, zeros) else zeros
        scales, zeros = (np.reshape(part, (1,) * (ndim - part.ndim) + part.shape) for part in (scales, zeros))
        return scales, zeros

    @property
    def is_exact(self) -> bool:
        """True if the dtypes of the program hold all differences."""
        zeros = np.zeros(1, np.int32) if self.zeros is None else self.zeros
        low, high = int(self.numbers.min()), int(self.numbers.max())
        most = max(abs(low), abs(high), abs(high - int(zeros.min())), abs(low - int(zeros.max())))
        return most <= self.most


class _Arithmetic(KnownValues):
    def __init__(self, mod: IRModule) -> None:
        super().__init__(mod)
        self._dequantised: dict[tuple[RelaxExpr, str], RelaxExpr | None] = {}
        """Dequantised variable by original value and dtype, within a block: products by the same weights share it."""

    def concerns(self, function: Function) -> bool:
        """True if something is converted to floats."""
        return any(is_call_of(binding.value, Astype) for binding in bindings_in(function))

    def call(self, call: Call) -> RelaxExpr:
        call = self.parts(call)
        if not isinstance(operator_of(call), Matmul | Convolution):
            return call
        moves, value = moves_of(self, call.args[1])
        dtype = tensor_info(value).dtype
        if isinstance(value, Call) and is_call_of(value, Astype) and tensor_info(value.args[0]).dtype == "float32":
            more, value = moves_of(self, value.args[0])
            moves = [*moves, *more]
        weights = self.dequantised(value, str(dtype))
        if weights is None:
            return call
        for move in reversed(moves):
            operator = operator_of(move)
            assert operator is not None
            weights = self.builder.emit(operator.call(weights, *move.args[1:]).replace(span=move.span))
        return call.replace(args=(call.args[0], weights, *call.args[2:]))

    def block(self, block: BindingBlock) -> BindingBlock:
        outer, self._dequantised = self._dequantised, {}
        new = super().block(block)
        self._dequantised = outer
        return new

    def dequantised(self, value: RelaxExpr, dtype: str) -> RelaxExpr | None:
        """Return the dequantised variable that replaces a value cast to `dtype`; None if it is not recognised."""
        key = (value, dtype)
        if key not in self._dequantised:
            weights = self.weights(value)
            weights = None if weights is None else weights.converted(dtype)
            accepted = weights is not None and weights.numbers.size > 0 and weights.is_exact
            self._dequantised[key] = self.emitted(weights) if weights is not None and accepted else None
        return self._dequantised[key]

    # ------------------------------------------------------------------------------------ recognition

    def weights(self, expr: RelaxExpr, most: int = DEEPEST) -> _Weights | None:
        """Return the weights that at most `most` nested operators compute of constants."""
        value = self.value(expr)
        operator = operator_of(value) if isinstance(value, Call) else None
        if not isinstance(value, Call) or most == 0:
            return None
        if isinstance(operator, Astype):
            return self.converted(value, most)
        if not isinstance(operator, Add | Subtract | Multiply):
            return None
        orders = [value.args] if isinstance(operator, Subtract) else [value.args, value.args[::-1]]
        for left, right in orders:
            other = self.constant(right)
            inner = None if other is None else self.weights(left, most - 1)
            if inner is not None:
                parts = {Add: inner.with_minima, Subtract: inner.with_zeros, Multiply: inner.with_scales}
                return parts[type(operator)](other)
        return None

    def converted(self, call: Call, most: int) -> _Weights | None:
        """Return integers converted to floats, or floats converted to others before there are scales."""
        numbers, dtype = moved_constant(self, call.args[0]), str(tensor_info(call).dtype)
        if dtype not in EXACT:
            return None
        if numbers is None:
            inner = self.weights(call.args[0], most - 1)
            return inner.converted(dtype) if inner is not None and inner.scales is None else None
        own = DataType(numbers.dtype.name)
        return _Weights(numbers, dtype, EXACT[dtype]) if own.is_integer and own.bits <= 16 else None

    def constant(self, expr: RelaxExpr) -> Array | None:
        """Return the elements of a constant, maybe moved, or cast from integers without a loss; None for others."""
        moves, value = moves_of(self, expr)
        if isinstance(value, Call) and is_call_of(value, Astype):
            inner, dtype = moved_constant(self, value.args[0]), tensor_info(value).dtype
            if inner is None or not DataType(inner.dtype.name).is_integer or str(dtype) not in EXACT:
                return None
            converted = inner.astype(dtype.numpy())
            return moved_array(converted, moves) if np.array_equal(converted.astype(inner.dtype), inner) else None
        return moved_array(value.data.numpy(), moves) if isinstance(value, Constant) else None

    # ------------------------------------------------------------------------------------ writing

    def emitted(self, weights: _Weights) -> RelaxExpr:
        """Emit weights. Dimensions along which scales or zero points vary become one, the first."""
        numbers, ndim, emit = weights.numbers, weights.numbers.ndim, self.builder.emit
        parts = weights.parameters()
        varying = [d for d in range(ndim) if any(part.shape[d] > 1 for part in parts)]
        spread = [numbers.shape[d] if d in varying else 1 for d in range(ndim)]
        vectors = [np.ravel(np.broadcast_to(part, spread) if part.size > 1 else part) for part in parts]
        scale, zero = (const(vector if vector.size > 1 else vector[0]) for vector in vectors)
        if len(varying) <= 1:
            operator = Dequantize(varying[0] if varying else -1, DataType(weights.dtype))
            result = emit(operator.call(const(np.ascontiguousarray(numbers)), scale, zero))
        else:
            order = [*varying, *(d for d in range(ndim) if d not in varying)]
            turned = np.transpose(numbers, order)
            rows = np.ascontiguousarray(np.reshape(turned, (max(vector.size for vector in vectors), -1)))
            result = emit(Dequantize(0, DataType(weights.dtype)).call(const(rows), scale, zero))
            result = emit(apply("reshape", result, turned.shape))
            if order != sorted(order):
                result = emit(apply("permute_dims", result, axes=[order.index(d) for d in range(ndim)]))
        return result if weights.minima is None else emit(Add().call(result, const(weights.minima)))


__all__ = ["ArithmeticToDequantize"]
