"""Element-wise operators of one tensor.

Real-valued functions take floats; exact ones also take integers. The result has the operand's shape and dtype, or bool
for the tests.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
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
from .operands import ANY, FLOATS, INTEGERS, NUMBERS
from .operator import Array, Operator, operator, row


class Unary(Operator):
    """Base class of unary element-wise operators: accepted dtypes, and the result dtype (None: the operand's)."""

    __slots__ = ()

    exactness: ClassVar[Exactness] = Exactness.IEEE
    mixed_precision: ClassVar[MixedPrecision] = MixedPrecision.FOLLOW
    elementwise: ClassVar[bool] = True
    total = True

    takes: ClassVar[tuple[str, ...]] = FLOATS
    gives: ClassVar[str | None] = None
    steps: ClassVar[bool] = False
    """True if the function is piecewise constant and has no gradient."""

    def infer(self, x: TensorStructInfo) -> TensorStructInfo:
        self.require_dtype(x, "x", *self.takes)
        return like(x, self.gives)

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        (x,) = operands
        return (None,) if self.steps else chained(grad, x, lambda: self.slope(x, result))

    def slope(self, x: Term, y: Term) -> RelaxExpr | None:
        """Derivative at x, with y the function's value; None if none is defined."""
        return None


class RealUnary(Unary):
    """Base class of real-valued functions, whose results are rounded."""

    __slots__ = ()

    exactness: ClassVar[Exactness] = Exactness.NEVER
    mixed_precision: ClassVar[MixedPrecision] = MixedPrecision.NEVER
    accuracy = 4


class NumberUnary(Unary):
    """Base class of functions of any number dtype."""

    __slots__ = ()

    takes = NUMBERS


class AnyUnary(Unary):
    """Base class of functions of numbers and booleans."""

    __slots__ = ()

    takes = ANY


def _real(function: Callable[[Any], Any]) -> Callable[[Array], Array]:
    """Wrap a NumPy function: compute in float64, then round to the operand's dtype."""

    def reference(x: Array) -> Array:
        return convert_array(np.asarray(function(x.astype(np.float64))), x.dtype)

    return reference


def _whole(function: Callable[[Any], Any]) -> Callable[[Array], Array]:
    """Wrap a NumPy rounding function; integers and booleans are returned unchanged."""
    real = _real(function)
    return lambda x: real(x) if DataType(x.dtype.name).is_float else x


def _test(function: Callable[[Any], Any], of_integers: bool) -> Callable[[Array], Array]:
    """Wrap a NumPy test of floats, with its constant result for integers and booleans."""

    def reference(x: Array) -> Array:
        if not DataType(x.dtype.name).is_float:
            return np.full(x.shape, of_integers)
        return np.asarray(function(x.astype(np.float64)))

    return reference


def _row(
    base: type[Unary],
    name: str,
    doc: str,
    compute: Callable[..., Any],
    reference: Callable[[Array], Array],
    slope: Callable[[Term, Term], RelaxExpr] | None = None,
    **facts: Any,
) -> type[Unary]:
    """Declare an operator from its formula, its reference, and its derivative in terms of x and the function's value
    y.
    """
    if slope is not None:
        facts["slope"] = staticmethod(slope)
    return row(f"relax.{name}", base, doc, compute=compute, reference=reference, **facts)


# -------------------------------------------------------------------------------- functions of the reals

_of_reals = partial(_row, RealUnary)

# fmt: off
Exp = _of_reals("exp", "e to the power x, element by element.", topi.exp, _real(np.exp), lambda x, y: y)
Log = _of_reals("log", "The natural logarithm, element by element.", topi.log, _real(np.log), lambda x, y: 1.0 / x)
Sqrt = _of_reals(
    "sqrt", "The square root, element by element.", topi.sqrt, _real(np.sqrt), lambda x, y: 0.5 / y,
    exactness=Exactness.IEEE, mixed_precision=MixedPrecision.FOLLOW, accuracy=0.5,
)
Rsqrt = _of_reals(
    "rsqrt", "1 / sqrt(x), element by element.", topi.rsqrt, _real(lambda x: np.ones_like(x) / np.sqrt(x)),
    lambda x, y: y * y * y * -0.5, accuracy=2,
)
Sigmoid = _of_reals(
    "sigmoid", "1 / (1 + exp(-x)), element by element.", topi.sigmoid,
    _real(lambda x: np.where(x >= 0, 1, np.exp(-np.abs(x))) / (1 + np.exp(-np.abs(x)))),
    lambda x, y: y * (1.0 - y), mixed_precision=MixedPrecision.FOLLOW,
)
Erf = _of_reals(
    "erf", "The error function, element by element.", topi.erf, _real(np.vectorize(math.erf, otypes=[np.float64])),
    lambda x, y: apply("exp", -(x * x)) * (2.0 / math.sqrt(math.pi)), mixed_precision=MixedPrecision.FOLLOW,
)
Erfc = _of_reals(
    "erfc", "1 - erf(x), exact where erf(x) is near 1, element by element.", topi.erfc,
    _real(np.vectorize(math.erfc, otypes=[np.float64])),
    lambda x, y: apply("exp", -(x * x)) * (-2.0 / math.sqrt(math.pi)),
)
Sin = _of_reals("sin", "The sine, element by element.", topi.sin, _real(np.sin), lambda x, y: apply("cos", x))
Cos = _of_reals("cos", "The cosine, element by element.", topi.cos, _real(np.cos), lambda x, y: -apply("sin", x))
Tan = _of_reals("tan", "The tangent, element by element.", topi.tan, _real(np.tan), lambda x, y: 1.0 + y * y)
Asin = _of_reals(
    "asin", "The inverse sine, element by element.", topi.asin, _real(np.arcsin),
    lambda x, y: apply("rsqrt", 1.0 - x * x),
)
Acos = _of_reals(
    "acos", "The inverse cosine, element by element.", topi.acos, _real(np.arccos),
    lambda x, y: -apply("rsqrt", 1.0 - x * x),
)
Atan = _of_reals(
    "atan", "The inverse tangent, element by element.", topi.atan, _real(np.arctan), lambda x, y: 1.0 / (1.0 + x * x),
)
Sinh = _of_reals(
    "sinh", "The hyperbolic sine, element by element.", topi.sinh, _real(np.sinh), lambda x, y: apply("cosh", x),
)
Cosh = _of_reals(
    "cosh", "The hyperbolic cosine, element by element.", topi.cosh, _real(np.cosh), lambda x, y: apply("sinh", x),
)
Tanh = _of_reals(
    "tanh", "The hyperbolic tangent, element by element.", topi.tanh, _real(np.tanh), lambda x, y: 1.0 - y * y,
    mixed_precision=MixedPrecision.FOLLOW,
)
Asinh = _of_reals(
    "asinh", "The inverse hyperbolic sine, element by element.", topi.asinh, _real(np.arcsinh),
    lambda x, y: apply("rsqrt", x * x + 1.0),
)
Acosh = _of_reals(
    "acosh", "The inverse hyperbolic cosine, element by element.", topi.acosh, _real(np.arccosh),
    lambda x, y: apply("rsqrt", x * x - 1.0),
)
Atanh = _of_reals(
    "atanh", "The inverse hyperbolic tangent, element by element.", topi.atanh, _real(np.arctanh),
    lambda x, y: 1.0 / (1.0 - x * x),
)
# fmt: on


# -------------------------------------------------------------------------------------- exact functions


def _sign(x: Array) -> Array:
    if x.dtype == np.bool_:
        return x
    wide = x.astype(np.float64) if DataType(x.dtype.name).is_float else x
    return np.sign(wide).astype(x.dtype)


_stepped = partial(_row, AnyUnary, steps=True)
_tested = partial(_row, AnyUnary, steps=True, gives="bool")

# fmt: off
Floor = _stepped(
    "floor", "The greatest whole number ≤ x; integers and booleans unchanged.", topi.floor, _whole(np.floor),
)
Ceil = _stepped("ceil", "The least whole number ≥ x; integers and booleans unchanged.", topi.ceil, _whole(np.ceil))
Trunc = _stepped("trunc", "x without its fraction; integers and booleans unchanged.", topi.trunc, _whole(np.trunc))
Round = _stepped(
    "round", "The nearest whole number, halves to even, as NumPy rounds; integers unchanged.", topi.round,
    _whole(np.rint), takes=NUMBERS,
)
Abs = _row(
    AnyUnary, "abs", "The magnitude; of the least value of a signed type, that value (two's complement).", topi.abs,
    np.abs, lambda x, y: apply("sign", x),
)
Sign = _stepped("sign", "-1, 0 or 1 as x is below, at or above 0; NaN stays NaN.", topi.sign, _sign)
Square = _row(
    NumberUnary, "square", "x · x; integers wrap around.", topi.square, lambda x: x * x, lambda x, y: x * 2.0,
)
IsNan = _tested(
    "isnan", "True where x is not a number; an integer is one.", topi.isnan, _test(np.isnan, False), cls="IsNan",
)
IsInf = _tested("isinf", "True where x is an infinity.", topi.isinf, _test(np.isinf, False), cls="IsInf")
IsFinite = _tested(
    "isfinite", "True where x is neither infinite nor NaN.", topi.isfinite, _test(np.isfinite, True), cls="IsFinite",
)
LogicalNot = _tested("logical_not", "True where x is 0 or False.", topi.logical_not, np.logical_not)
BitwiseNot = _row(
    Unary, "bitwise_not", "All bits flipped; of a bool, its negation.", topi.bitwise_not, np.invert,
    takes=(*INTEGERS, "bool"), steps=True,
)
# fmt: on


@operator("relax.negative")
class Negative(NumberUnary):
    """-x; integers wrap around."""

    compute = topi.negative
    reference = np.negative

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        return (Negative().call(grad),) if is_float(grad) else (None,)


@operator("relax.clip")
class Clip(Operator):
    """min(max(x, min), max): NaN stays NaN, and where min > max the result is max.

    The bounds are numbers, or scalars of the program; bounds outside the range of an integer dtype, or of 0 and 1 for
    booleans, have no effect.
    """

    mixed_precision: ClassVar[MixedPrecision] = MixedPrecision.FOLLOW
    elementwise: ClassVar[bool] = True
    total = True

    compute = topi.clip

    def infer(self, x: TensorStructInfo, min: PrimStructInfo, max: PrimStructInfo) -> TensorStructInfo:
        for name, bound in (("min", min), ("max", max)):
            value = bound.value
            whole = not bound.dtype.is_float or (isinstance(value, FloatImm) and not value.value % 1)
            if (x.dtype.is_integer or x.dtype.is_bool) and not (whole or _is_infinite(value)):
                raise OperatorError(DTYPES, f"{name} must be an integer, as x is a tensor of {x.dtype!s}", operand=name)
        return x

    def reference(self, x: Array, min: Any, max: Any) -> Array:
        dtype = DataType(x.dtype.name)
        if not dtype.is_float:
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

    Floats convert to integers by truncation, saturating; NaN becomes 0. Integers wrap around in narrower dtypes. Every
    value but 0 becomes True as a bool.
    """

    exactness: ClassVar[Exactness] = Exactness.IEEE
    mixed_precision: ClassVar[MixedPrecision] = MixedPrecision.FOLLOW
    elementwise: ClassVar[bool] = True
    total = True

    dtype: DataType

    def infer(self, x: TensorStructInfo) -> TensorStructInfo:
        is_number = not (self.dtype.is_void or self.dtype.is_handle)
        self.require_attribute(is_number and self.dtype.lanes == 1, "dtype", "a number type or bool")
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
    """A parameter of the model, converted to a dtype like `astype`."""

    dtype: DataType = DataType("float32")
