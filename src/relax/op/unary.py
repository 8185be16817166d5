"""Element-wise operators of one tensor.

Functions of the reals take floats; what is exact also takes integers. The result has the operand's shape and
dtype, or bool for the tests.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from .. import topi
from ..ir import DataType, RelaxExpr
from ..prim import FloatImm, PrimExpr
from ..runtime.rounding import convert_array, round_number
from ..struct_info import PrimStructInfo, TensorStructInfo
from .base import Gradients, Term
from .conversion import converted
from .dims import like
from .errors import DTYPES, OperatorError
from .facts import Exactness, MixedPrecision
from .gradients import apply, chained, is_float, masked, tensor_info
from .operator import Array, Operator, operator


class Unary(Operator):
    """The base: which dtypes are taken, and which one is given (the operand's, if None)."""

    __slots__ = ()

    exactness: ClassVar[Exactness] = Exactness.IEEE
    mixed_precision: ClassVar[MixedPrecision] = MixedPrecision.FOLLOW
    elementwise: ClassVar[bool] = True
    total = True

    takes: ClassVar[tuple[str, ...]] = ("float",)
    gives: ClassVar[str | None] = None
    steps: ClassVar[bool] = False
    """True if the function is constant between its steps, so that no gradient passes."""

    def infer(self, x: TensorStructInfo) -> TensorStructInfo:
        self.require_dtype(x, "x", *self.takes)
        return like(x, self.gives)

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        (x,) = operands
        return (None,) if self.steps else chained(grad, x, lambda: self.slope(x, result))

    def slope(self, x: Term, y: Term) -> RelaxExpr | None:
        """The derivative at x, where the function is y; None if none is stated."""
        return None


class RealUnary(Unary):
    """The base of functions of the reals, which are rounded."""

    __slots__ = ()

    exactness: ClassVar[Exactness] = Exactness.NEVER
    mixed_precision: ClassVar[MixedPrecision] = MixedPrecision.NEVER
    accuracy = 4


class NumberUnary(Unary):
    """The base of those that take any number."""

    __slots__ = ()

    takes = ("float", "int", "uint")


def _real(function: Callable[[Any], Any]) -> Callable[[Array], Array]:
    """A NumPy function of the reals, computed in float64, and rounded to the operand's dtype."""

    def reference(x: Array) -> Array:
        return convert_array(np.asarray(function(x.astype(np.float64))), x.dtype)

    return reference


def _whole(function: Callable[[Any], Any]) -> Callable[[Array], Array]:
    """A NumPy function of rounding; integers are whole already."""
    real = _real(function)
    return lambda x: x if DataType(x.dtype.name).is_integer else real(x)


def _test(function: Callable[[Any], Any], of_integers: bool) -> Callable[[Array], Array]:
    """A NumPy test of floats, and its answer for integers."""

    def reference(x: Array) -> Array:
        if DataType(x.dtype.name).is_integer:
            return np.full(x.shape, of_integers)
        return np.asarray(function(x.astype(np.float64)))

    return reference


# -------------------------------------------------------------------------------- functions of the reals


@operator("relax.exp")
class Exp(RealUnary):
    """e to the power x, element by element."""

    compute = topi.exp
    reference = _real(np.exp)

    def slope(self, x: Term, y: Term) -> RelaxExpr:
        return y


@operator("relax.log")
class Log(RealUnary):
    """The natural logarithm, element by element."""

    compute = topi.log
    reference = _real(np.log)

    def slope(self, x: Term, y: Term) -> RelaxExpr:
        return 1.0 / x


@operator("relax.sqrt")
class Sqrt(RealUnary):
    """The square root, element by element."""

    exactness: ClassVar[Exactness] = Exactness.IEEE
    mixed_precision: ClassVar[MixedPrecision] = MixedPrecision.FOLLOW
    accuracy = 0.5
    compute = topi.sqrt
    reference = _real(np.sqrt)

    def slope(self, x: Term, y: Term) -> RelaxExpr:
        return 0.5 / y


@operator("relax.rsqrt")
class Rsqrt(RealUnary):
    """1 / sqrt(x), element by element."""

    accuracy = 2
    compute = topi.rsqrt
    reference = _real(lambda x: np.ones_like(x) / np.sqrt(x))

    def slope(self, x: Term, y: Term) -> RelaxExpr:
        return y * y * y * -0.5


@operator("relax.sigmoid")
class Sigmoid(RealUnary):
    """1 / (1 + exp(-x)), element by element."""

    mixed_precision: ClassVar[MixedPrecision] = MixedPrecision.FOLLOW
    compute = topi.sigmoid
    reference = _real(lambda x: np.where(x >= 0, 1, np.exp(-np.abs(x))) / (1 + np.exp(-np.abs(x))))

    def slope(self, x: Term, y: Term) -> RelaxExpr:
        return y * (1.0 - y)


@operator("relax.erf")
class Erf(RealUnary):
    """The error function, element by element."""

    mixed_precision: ClassVar[MixedPrecision] = MixedPrecision.FOLLOW
    compute = topi.erf
    reference = _real(np.vectorize(math.erf, otypes=[np.float64]))

    def slope(self, x: Term, y: Term) -> RelaxExpr:
        return Exp().call(-(x * x)) * (2.0 / math.sqrt(math.pi))


@operator("relax.sin")
class Sin(RealUnary):
    """The sine, element by element."""

    compute = topi.sin
    reference = _real(np.sin)

    def slope(self, x: Term, y: Term) -> RelaxExpr:
        return Cos().call(x)


@operator("relax.cos")
class Cos(RealUnary):
    """The cosine, element by element."""

    compute = topi.cos
    reference = _real(np.cos)

    def slope(self, x: Term, y: Term) -> RelaxExpr:
        return -Sin().call(x)


@operator("relax.tan")
class Tan(RealUnary):
    """The tangent, element by element."""

    compute = topi.tan
    reference = _real(np.tan)

    def slope(self, x: Term, y: Term) -> RelaxExpr:
        return 1.0 + y * y


@operator("relax.asin")
class Asin(RealUnary):
    """The inverse sine, element by element."""

    compute = topi.asin
    reference = _real(np.arcsin)

    def slope(self, x: Term, y: Term) -> RelaxExpr:
        return Rsqrt().call(1.0 - x * x)


@operator("relax.acos")
class Acos(RealUnary):
    """The inverse cosine, element by element."""

    compute = topi.acos
    reference = _real(np.arccos)

    def slope(self, x: Term, y: Term) -> RelaxExpr:
        return -Rsqrt().call(1.0 - x * x)


@operator("relax.atan")
class Atan(RealUnary):
    """The inverse tangent, element by element."""

    compute = topi.atan
    reference = _real(np.arctan)

    def slope(self, x: Term, y: Term) -> RelaxExpr:
        return 1.0 / (1.0 + x * x)


@operator("relax.sinh")
class Sinh(RealUnary):
    """The hyperbolic sine, element by element."""

    compute = topi.sinh
    reference = _real(np.sinh)

    def slope(self, x: Term, y: Term) -> RelaxExpr:
        return Cosh().call(x)


@operator("relax.cosh")
class Cosh(RealUnary):
    """The hyperbolic cosine, element by element."""

    compute = topi.cosh
    reference = _real(np.cosh)

    def slope(self, x: Term, y: Term) -> RelaxExpr:
        return Sinh().call(x)


@operator("relax.tanh")
class Tanh(RealUnary):
    """The hyperbolic tangent, element by element."""

    mixed_precision: ClassVar[MixedPrecision] = MixedPrecision.FOLLOW
    compute = topi.tanh
    reference = _real(np.tanh)

    def slope(self, x: Term, y: Term) -> RelaxExpr:
        return 1.0 - y * y


@operator("relax.asinh")
class Asinh(RealUnary):
    """The inverse hyperbolic sine, element by element."""

    compute = topi.asinh
    reference = _real(np.arcsinh)

    def slope(self, x: Term, y: Term) -> RelaxExpr:
        return Rsqrt().call(x * x + 1.0)


@operator("relax.acosh")
class Acosh(RealUnary):
    """The inverse hyperbolic cosine, element by element."""

    compute = topi.acosh
    reference = _real(np.arccosh)

    def slope(self, x: Term, y: Term) -> RelaxExpr:
        return Rsqrt().call(x * x - 1.0)


@operator("relax.atanh")
class Atanh(RealUnary):
    """The inverse hyperbolic tangent, element by element."""

    compute = topi.atanh
    reference = _real(np.arctanh)

    def slope(self, x: Term, y: Term) -> RelaxExpr:
        return 1.0 / (1.0 - x * x)


# -------------------------------------------------------------------------------------- exact functions


@operator("relax.floor")
class Floor(NumberUnary):
    """The greatest whole number ≤ x; an integer as it is."""

    steps = True
    compute = topi.floor
    reference = _whole(np.floor)


@operator("relax.ceil")
class Ceil(NumberUnary):
    """The least whole number ≥ x; an integer as it is."""

    steps = True
    compute = topi.ceil
    reference = _whole(np.ceil)


@operator("relax.trunc")
class Trunc(NumberUnary):
    """x without its fraction; an integer as it is."""

    steps = True
    compute = topi.trunc
    reference = _whole(np.trunc)


@operator("relax.round")
class Round(NumberUnary):
    """The nearest whole number, halves to even, as NumPy rounds; an integer as it is."""

    steps = True
    compute = topi.round
    reference = _whole(np.rint)


@operator("relax.abs")
class Abs(NumberUnary):
    """The magnitude; of the least value of a signed type, that value (two's complement)."""

    compute = topi.abs
    reference = np.abs

    def slope(self, x: Term, y: Term) -> RelaxExpr:
        return Sign().call(x)


@operator("relax.negative")
class Negative(NumberUnary):
    """-x; integers wrap around."""

    compute = topi.negative
    reference = np.negative

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        return (Negative().call(grad),) if is_float(grad) else (None,)


@operator("relax.sign")
class Sign(NumberUnary):
    """-1, 0 or 1 as x is below, at or above 0; NaN stays NaN."""

    steps = True
    compute = topi.sign

    def reference(self, x: Array) -> Array:
        wide = x.astype(np.float64) if DataType(x.dtype.name).is_float else x
        return np.sign(wide).astype(x.dtype)


@operator("relax.square")
class Square(NumberUnary):
    """x · x; integers wrap around."""

    compute = topi.square

    def reference(self, x: Array) -> Array:
        return x * x

    def slope(self, x: Term, y: Term) -> RelaxExpr:
        return x * 2.0


@operator("relax.isnan")
class IsNan(NumberUnary):
    """True where x is not a number; an integer is one."""

    gives = "bool"
    steps = True
    compute = topi.isnan
    reference = _test(np.isnan, False)


@operator("relax.isinf")
class IsInf(NumberUnary):
    """True where x is an infinity."""

    gives = "bool"
    steps = True
    compute = topi.isinf
    reference = _test(np.isinf, False)


@operator("relax.isfinite")
class IsFinite(NumberUnary):
    """True where x is neither infinite nor NaN."""

    gives = "bool"
    steps = True
    compute = topi.isfinite
    reference = _test(np.isfinite, True)


@operator("relax.logical_not")
class LogicalNot(Unary):
    """The negation of a bool."""

    takes = ("bool",)
    steps = True
    compute = topi.logical_not
    reference = np.logical_not


@operator("relax.bitwise_not")
class BitwiseNot(Unary):
    """All bits flipped; of a bool, its negation."""

    takes = ("int", "uint", "bool")
    steps = True
    compute = topi.bitwise_not
    reference = np.invert


@operator("relax.clip")
class Clip(Operator):
    """min(max(x, min), max): NaN stays NaN, and where min > max the result is max.

    The bounds are numbers, or scalars of the program; beyond the values of an integer type they clip nothing.
    """

    mixed_precision: ClassVar[MixedPrecision] = MixedPrecision.FOLLOW
    elementwise: ClassVar[bool] = True
    total = True

    compute = topi.clip

    def infer(self, x: TensorStructInfo, min: PrimStructInfo, max: PrimStructInfo) -> TensorStructInfo:
        self.require_dtype(x, "x", "float", "int", "uint")
        for name, bound in (("min", min), ("max", max)):
            value = bound.value
            whole = not bound.dtype.is_float or (isinstance(value, FloatImm) and not value.value % 1)
            if x.dtype.is_integer and not (whole or _is_infinite(value)):
                raise OperatorError(
                    DTYPES, f"{name} must be an integer, as x is a tensor of {x.dtype!s}", operand=name
                )
        return x

    def reference(self, x: Array, min: Any, max: Any) -> Array:
        dtype = DataType(x.dtype.name)
        if dtype.is_integer:
            low, high = int(dtype.min_value), int(dtype.max_value)
            min, max = (low if b <= low else high if b >= high else int(b) for b in (min, max))
        else:
            min, max = (round_number(b, dtype) for b in (min, max))
        return np.minimum(np.maximum(x, np.array(min, x.dtype)), np.array(max, x.dtype))

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        x = operands[0]
        if not is_float(x):
            return (None,) * 3
        inside = apply("equal", result, x)
        return masked(grad, inside), None, None


def _is_infinite(value: PrimExpr | None) -> bool:
    return isinstance(value, FloatImm) and math.isinf(value.value)


@operator("relax.astype")
class Astype(Operator):
    """x converted to a dtype.

    A float to an integer truncates toward zero; what does not fit saturates and NaN gives 0. An integer to a
    narrower one wraps around. Anything but 0 is True as a bool.
    """

    exactness: ClassVar[Exactness] = Exactness.IEEE
    mixed_precision: ClassVar[MixedPrecision] = MixedPrecision.FOLLOW
    elementwise: ClassVar[bool] = True
    total = True

    dtype: DataType

    def infer(self, x: TensorStructInfo) -> TensorStructInfo:
        known = not (self.dtype.is_void or self.dtype.is_handle)
        self.require_attribute(known and self.dtype.lanes == 1, "dtype", "a number type or bool")
        return like(x, self.dtype)

    compute = topi.cast

    def reference(self, x: Array) -> Array:
        return converted(x, self.dtype)

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        (x,) = operands
        dtype = tensor_info(x).dtype
        if dtype.is_void:
            return None
        return (Astype(dtype).call(grad) if dtype.is_float and self.dtype.is_float else None,)


@operator("relax.wrap_param")
class WrapParam(Astype):
    """A parameter of the model, converted to a dtype as `astype` converts."""

    dtype: DataType = DataType("float32")
