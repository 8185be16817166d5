"""Element-wise operators of two tensors, which broadcast as NumPy's arrays do.

Both operands have one dtype: there are no implicit conversions. A Python number takes the dtype of the other operand,
if it fits; a scalar of the program (PrimValue) beside a tensor is treated as a tensor of rank 0. Two scalars yield the
scalar `R.prim_value` of their expression; overflow of int64 arithmetic is an error, as for sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from .. import topi
from ..expr import Call, PrimValue
from ..ir import DataType, RelaxExpr, StructInfo
from ..prim import IntImm, PrimExpr, Var, evaluate
from ..runtime.rounding import convert_array
from ..struct_info import ObjectStructInfo, PrimStructInfo, TensorStructInfo
from .base import Gradients, Term
from .dims import broadcast, same_dtype, tensor
from .errors import OPERANDS, OperatorError
from .facts import Exactness, MixedPrecision
from .gradients import apply, collapsed, is_float, masked
from .known import known_struct_info
from .literals import literals_like
from .operands import ANY, FLOATS, INTEGERS, NUMBERS
from .operator import Array, Operator, operator, row


class Binary(Operator):
    """Base of binary element-wise operators: accepted dtypes, and the result dtype (None: the operands')."""

    __slots__ = ()

    elementwise: ClassVar[bool] = True
    exactness: ClassVar[Exactness] = Exactness.IEEE
    mixed_precision: ClassVar[MixedPrecision] = MixedPrecision.FOLLOW

    takes: ClassVar[tuple[str, ...]] = NUMBERS
    gives: ClassVar[str | None] = None
    takes_scalars: ClassVar[bool] = True
    """True if the formula also has a scalar form, so both operands may be scalars."""

    steps: ClassVar[bool] = False
    """True if the function is piecewise constant and has no gradient."""

    def prepare(self, arguments: Sequence[Any]) -> Sequence[Any]:
        return literals_like(arguments, ("x1", "x2"))

    def infer(
        self, x1: TensorStructInfo | PrimStructInfo, x2: TensorStructInfo | PrimStructInfo
    ) -> TensorStructInfo | PrimStructInfo:
        left, right = as_tensor(x1), as_tensor(x2)
        self.require_dtype(left, "x1", *self.takes)
        self.require_dtype(right, "x2", *self.takes)
        dtype = same_dtype(left.dtype, right.dtype)
        if isinstance(x1, PrimStructInfo) and isinstance(x2, PrimStructInfo):
            return self.infer_scalar(x1, x2)
        return broadcast(left, right, self.gives or dtype)

    def infer_scalar(self, x1: PrimStructInfo, x2: PrimStructInfo) -> PrimStructInfo:
        """Struct info of the scalar result of two scalars, with its value if both are known."""
        if not self.takes_scalars:
            hint = "make one a tensor: R.full((), value, dtype)"
            raise OperatorError(OPERANDS, "one operand must be a tensor", hint=hint)
        variables = Var("x1", x1.dtype), Var("x2", x2.dtype)
        expr: PrimExpr = self.formula(*variables)
        if x1.value is None or x2.value is None:
            return PrimStructInfo(expr.dtype)
        if isinstance(x1.value, IntImm) and isinstance(x2.value, IntImm):
            try:
                evaluate(expr, dict(zip(variables, (x1.value.value, x2.value.value), strict=True)), checked=True)
            except ArithmeticError:  # left to run time
                return PrimStructInfo(expr.dtype)
        return PrimStructInfo(value=self.formula(x1.value, x2.value))

    def weakest_result(self, infos: Sequence[StructInfo | None]) -> StructInfo:
        tensors = any(isinstance(info, TensorStructInfo) for info in infos) or not self.takes_scalars
        return TensorStructInfo(None, "") if tensors else ObjectStructInfo()

    def legalize(self, builder: Any, call: Call) -> RelaxExpr:
        values: list[PrimExpr] = []
        for arg in call.args:
            info = known_struct_info(arg)
            if not isinstance(info, PrimStructInfo):
                return super().legalize(builder, call)
            values.append(Var("s", info.dtype) if info.value is None else info.value)
        for arg, value in zip(call.args, values, strict=True):
            if known_struct_info(arg) != PrimStructInfo(value=value):
                builder.match_cast(arg, PrimStructInfo(value=value))
        return PrimValue(self.formula(*values), span=call.span)

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        x1, x2 = operands
        floats = is_float(x1), is_float(x2)
        if self.steps or not any(floats):
            return None, None
        partials = self.partials(x1, x2, result, grad)
        if partials is None:
            return None
        gradients = [
            collapsed(partial, operand) if float_ else None
            for partial, operand, float_ in zip(partials, operands, floats, strict=True)
        ]
        missing = any(f and g is None for f, g in zip(floats, gradients, strict=True))
        return None if missing else gradients

    def partials(self, x1: Term, x2: Term, y: Term, grad: Term) -> tuple[RelaxExpr, RelaxExpr] | None:
        """Gradients with respect to both operands, in the result's shape; None if none are defined."""
        return None


def as_tensor(info: TensorStructInfo | PrimStructInfo) -> TensorStructInfo:
    """Convert a scalar to a tensor of rank 0."""
    return info if isinstance(info, TensorStructInfo) else tensor((), info.dtype)


class Comparison(Binary):
    """Base of comparisons, whose result is bool."""

    __slots__ = ()

    total = True
    steps = True
    takes = ANY
    gives = "bool"


class Logic(Binary):
    """Base of logical operators; a number is true if it is not 0."""

    __slots__ = ()

    total = True
    commutative = True
    steps = True
    takes = ANY
    gives = "bool"


class Bitwise(Binary):
    """Base of bitwise operators on integers and bools."""

    __slots__ = ()

    total = True
    commutative = True
    steps = True
    takes = (*INTEGERS, "bool")


class Shift(Binary):
    """Base of shifts of integers."""

    __slots__ = ()

    exactness: ClassVar[Exactness] = Exactness.NEVER
    steps = True
    takes = INTEGERS


Reference = Callable[[Array, Array], Array]


def _rounded_once(function: Callable[..., Any]) -> Reference:
    """Wrap a NumPy function: compute in at least float32, then round to the operands' dtype."""

    def reference(x1: Array, x2: Array) -> Array:
        dtype = DataType(np.result_type(x1, x2))
        narrow = dtype.is_float and dtype.bits < 32
        if not narrow:
            return np.asarray(function(x1, x2))
        result = np.asarray(function(np.asarray(x1, np.float32), np.asarray(x2, np.float32)))
        return result if result.dtype == np.bool_ else result.astype(dtype.numpy())

    return reference


def _of_integers(floats: Reference, integers: Reference) -> Reference:
    """Combine a function of floats and one of integers, for which a zero divisor is an error."""

    def reference(x1: Array, x2: Array) -> Array:
        if DataType(np.result_type(x1, x2)).is_float:
            return floats(x1, x2)
        if np.any(np.asarray(x2) == 0):
            raise ZeroDivisionError("integer division by zero")
        return integers(x1, x2)

    return reference


def _truncated(x1: Array, x2: Array) -> Array:
    floor = np.asarray(x1 // x2)
    inexact = (x1 - floor * x2) != 0
    return (floor + (inexact & ((np.asarray(x1) < 0) ^ (np.asarray(x2) < 0)))).astype(floor.dtype)


# -------------------------------------------------------------------------------------------- arithmetic


@operator("relax.add")
class Add(Binary):
    """x1 + x2; integers wrap around; of booleans, True where either is."""

    commutative = True
    total = True
    takes = ANY

    compute = topi.add
    reference = _rounded_once(np.add)

    def partials(self, x1: Term, x2: Term, y: Term, grad: Term) -> tuple[RelaxExpr, RelaxExpr]:
        return grad, grad


@operator("relax.subtract")
class Subtract(Binary):
    """x1 - x2; integers wrap around."""

    total = True

    compute = topi.subtract
    reference = _rounded_once(np.subtract)

    def partials(self, x1: Term, x2: Term, y: Term, grad: Term) -> tuple[RelaxExpr, RelaxExpr]:
        return grad, -grad


@operator("relax.multiply")
class Multiply(Binary):
    """x1 · x2; integers wrap around; of booleans, True where both are."""

    commutative = True
    total = True
    takes = ANY

    compute = topi.multiply
    reference = _rounded_once(np.multiply)

    def partials(self, x1: Term, x2: Term, y: Term, grad: Term) -> tuple[RelaxExpr, RelaxExpr]:
        return grad * x2, grad * x1


@operator("relax.divide")
class Divide(Binary):
    """x1 / x2. The quotient of integers is an integer, truncated toward zero as in C; by zero it is an error.

    (`floor_divide` rounds down; for the fraction, convert with `astype` first.)
    """

    compute = topi.divide
    reference = _of_integers(_rounded_once(np.divide), _truncated)

    def partials(self, x1: Term, x2: Term, y: Term, grad: Term) -> tuple[RelaxExpr, RelaxExpr]:
        return grad / x2, -(grad * y / x2)


@operator("relax.floor_divide")
class FloorDivide(Binary):
    """x1 / x2 rounded down, as Python's ``//``; of integers, division by zero is an error."""

    exactness: ClassVar[Exactness] = Exactness.INTEGERS
    steps = True
    compute = topi.floor_divide
    reference = _of_integers(_rounded_once(np.floor_divide), np.floor_divide)


@operator("relax.mod")
class Mod(Binary):
    """The remainder of `divide`, which has the sign of x1; of integers, division by zero is an error."""

    exactness: ClassVar[Exactness] = Exactness.INTEGERS
    compute = topi.mod
    reference = _of_integers(_rounded_once(np.fmod), np.fmod)

    def partials(self, x1: Term, x2: Term, y: Term, grad: Term) -> tuple[RelaxExpr, RelaxExpr] | None:
        return grad, apply("negative", grad) * apply("trunc", apply("divide", x1, x2))


@operator("relax.floor_mod")
class FloorMod(Binary):
    """The remainder of `floor_divide`, with the sign of x2, as Python's ``%``; of integers, division by zero is an
    error.
    """

    exactness: ClassVar[Exactness] = Exactness.INTEGERS
    compute = topi.floor_mod
    reference = _of_integers(_rounded_once(np.mod), np.mod)

    def partials(self, x1: Term, x2: Term, y: Term, grad: Term) -> tuple[RelaxExpr, RelaxExpr] | None:
        return grad, apply("negative", grad) * apply("floor", apply("divide", x1, x2))


def _integer_power(base: int, exponent: int, dtype: DataType) -> int:
    if exponent < 0:
        if base == 0:
            raise ZeroDivisionError("division by zero: 0 to a negative power")
        return base ** (exponent % 2) if abs(base) == 1 else 0
    value = pow(base, exponent, 1 << dtype.bits)
    return value - (1 << dtype.bits) if dtype.is_int and value > dtype.max_value else value


@operator("relax.power")
class Power(Binary):
    """x1 to the power x2.

    Of integers it wraps around, and a negative power is 1 / x1^|x2| truncated toward zero (of 0 an error).
    """

    exactness: ClassVar[Exactness] = Exactness.NEVER
    mixed_precision: ClassVar[MixedPrecision] = MixedPrecision.NEVER
    accuracy = 4
    compute = topi.power
    takes_scalars = False

    def reference(self, x1: Array, x2: Array) -> Array:
        dtype = DataType(np.result_type(x1, x2))
        if dtype.is_float:
            wide = np.power(np.asarray(x1, np.float64), np.asarray(x2, np.float64))
            return convert_array(np.asarray(wide), dtype.numpy())
        power = np.frompyfunc(lambda a, b: _integer_power(int(a), int(b), dtype), 2, 1)
        return np.asarray(power(x1, x2)).astype(dtype.numpy())

    def partials(self, x1: Term, x2: Term, y: Term, grad: Term) -> tuple[RelaxExpr, RelaxExpr] | None:
        if not is_float(x1):  # a scalar of the program, whose logarithm is none
            return None
        return grad * x2 * x1 ** (x2 - 1.0), grad * y * apply("log", x1)


@operator("relax.log_add_exp")
class LogAddExp(Binary):
    """log(e^x1 + e^x2), without intermediate overflow."""

    exactness: ClassVar[Exactness] = Exactness.NEVER
    mixed_precision: ClassVar[MixedPrecision] = MixedPrecision.FOLLOW
    takes = FLOATS
    total = True

    compute = topi.log_add_exp

    def reference(self, x1: Array, x2: Array) -> Array:
        wide = np.logaddexp(np.asarray(x1, np.float64), np.asarray(x2, np.float64))
        return convert_array(np.asarray(wide), np.result_type(x1, x2))

    def partials(self, x1: Term, x2: Term, y: Term, grad: Term) -> tuple[RelaxExpr, RelaxExpr]:
        return grad * apply("exp", x1 - y), grad * apply("exp", x2 - y)


@operator("relax.maximum")
class Maximum(Binary):
    """The larger of two elements; NaN if either is; of booleans, True where either is."""

    commutative = True
    total = True
    takes = ANY

    compute = topi.maximum
    reference = _rounded_once(np.maximum)

    def partials(self, x1: Term, x2: Term, y: Term, grad: Term) -> tuple[RelaxExpr, RelaxExpr]:
        return masked(grad, x1 >= x2), masked(grad, x1 < x2)


@operator("relax.minimum")
class Minimum(Binary):
    """The smaller of two elements; NaN if either is; of booleans, True where both are."""

    commutative = True
    total = True
    takes = ANY

    compute = topi.minimum
    reference = _rounded_once(np.minimum)

    def partials(self, x1: Term, x2: Term, y: Term, grad: Term) -> tuple[RelaxExpr, RelaxExpr]:
        return masked(grad, x1 <= x2), masked(grad, x1 > x2)


# --------------------------------------------------------------------------- comparison, logic, bits, shifts


def _row(
    base: type[Binary], name: str, doc: str, compute: Callable[..., Any], reference: Reference, **facts: Any
) -> type[Binary]:
    """Declare an operator without gradients from its formula and its reference."""
    return row(f"relax.{name}", base, doc, compute=compute, reference=reference, **facts)


def _compared(name: str, doc: str, compute: Callable[..., Any], of: Any, **facts: Any) -> type[Binary]:
    return _row(Comparison, name, doc, compute, _rounded_once(of), **facts)


# fmt: off
Equal = _compared("equal", "True where x1 = x2; NaN equals nothing.", topi.equal, np.equal, commutative=True)
NotEqual = _compared(
    "not_equal", "True where x1 ≠ x2; NaN differs from everything.", topi.not_equal, np.not_equal, commutative=True,
)
Less = _compared("less", "True where x1 < x2.", topi.less, np.less)
LessEqual = _compared("less_equal", "True where x1 ≤ x2.", topi.less_equal, np.less_equal)
Greater = _compared("greater", "True where x1 > x2.", topi.greater, np.greater)
GreaterEqual = _compared("greater_equal", "True where x1 ≥ x2.", topi.greater_equal, np.greater_equal)

LogicalAnd = _row(Logic, "logical_and", "True where both are true.", topi.logical_and, np.logical_and)
LogicalOr = _row(Logic, "logical_or", "True where either is true.", topi.logical_or, np.logical_or)
LogicalXor = _row(Logic, "logical_xor", "True where one of the two is true.", topi.logical_xor, np.logical_xor)

BitwiseAnd = _row(Bitwise, "bitwise_and", "The bits set in both.", topi.bitwise_and, np.bitwise_and)
BitwiseOr = _row(Bitwise, "bitwise_or", "The bits set in either.", topi.bitwise_or, np.bitwise_or)
BitwiseXor = _row(Bitwise, "bitwise_xor", "The bits set in one of the two.", topi.bitwise_xor, np.bitwise_xor)

LeftShift = _row(
    Shift, "left_shift", "x1 shifted left by x2 bits; 0 if x2 is negative or at least the width.", topi.left_shift,
    np.left_shift,
)
RightShift = _row(
    Shift, "right_shift",
    "x1 shifted right by x2 bits, keeping its sign; a negative x2 counts as the width, as a larger one does.",
    topi.right_shift, np.right_shift,
)
# fmt: on
