"""Scalar expressions: what stands in shapes, loop bounds and loop bodies (language.md §1).

    PrimExpr ::= Var | IntImm | FloatImm | StringImm
               | Add | Sub | Mul | Div | Mod | FloorDiv | FloorMod | Min | Max        two operands of one dtype
               | EQ | NE | LT | LE | GT | GE | And | Or | Not                         bool
               | Select(condition, true_value, false_value) | Cast(dtype, value)
               | Call(dtype, op, args) | Let(var, value, body)

`Div` and `Mod` truncate toward zero as C does; `FloorDiv` and `FloorMod` are Python's ``//`` and ``%``.
TIR adds BufferLoad, Ramp, Broadcast and Reduce. Python operators on PrimExpr build these nodes, after
bringing the operands to one dtype; operations on two constants are folded.

The functions that build nodes (`convert`, `binary`, `cast` …) stand below the classes: the operators of PrimExpr call
them, and they make its subclasses, so that neither half could be imported without the other.

``==`` builds an EQ too. A PrimExpr has no truth value except a constant, and EQ/NE, which then say whether both sides
are the same object: so expressions can be keys of a dict.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, TypeAlias, TypeGuard, final

import numpy as np

from ..ir import BaseExpr, DataType, GlobalVar, Node, Op, Span, binder, child, label, node, register_op, set_slot
from ..runtime.rounding import round_number
from ..runtime.sizes import number_text
from . import arithmetic
from .arithmetic import Arithmetic, wrap

ExprLike: TypeAlias = "PrimExpr | int | float | bool | np.integer[Any] | np.floating[Any] | np.bool_"

_BOOLS: tuple[type[Any], ...] = (bool, np.bool_)
_INTEGERS: tuple[type[Any], ...] = (int, np.integer)
_FLOATS: tuple[type[Any], ...] = (float, np.floating)

BOOL = DataType("bool")
INT32 = DataType("int32")
INT64 = DataType("int64")
_INT32_LEAST, _INT32_GREATEST = INT32.min_value, INT32.max_value
_INT64_LEAST, _INT64_GREATEST = INT64.min_value, INT64.max_value
FLOAT32 = DataType("float32")
FLOAT64 = DataType("float64")


class PrimExpr(BaseExpr):
    """A scalar (or, in TIR, a short vector)."""

    __slots__ = ("_identity", "_simplified", "_traits", "dtype")

    dtype: DataType
    _traits: int
    _simplified: Any
    _identity: Any

    def __add__(self, other: ExprLike) -> PrimExpr:
        return NotImplemented if defers(other) else binary(Add, self, other)

    def __radd__(self, other: ExprLike) -> PrimExpr:
        return binary(Add, other, self)

    def __sub__(self, other: ExprLike) -> PrimExpr:
        return NotImplemented if defers(other) else binary(Sub, self, other)

    def __rsub__(self, other: ExprLike) -> PrimExpr:
        return binary(Sub, other, self)

    def __mul__(self, other: ExprLike) -> PrimExpr:
        return NotImplemented if defers(other) else binary(Mul, self, other)

    def __rmul__(self, other: ExprLike) -> PrimExpr:
        return binary(Mul, other, self)

    def __truediv__(self, other: ExprLike) -> PrimExpr:
        return NotImplemented if defers(other) else true_divide(self, other)

    def __rtruediv__(self, other: ExprLike) -> PrimExpr:
        return true_divide(other, self)

    def __floordiv__(self, other: ExprLike) -> PrimExpr:
        return binary(FloorDiv, self, other)

    def __rfloordiv__(self, other: ExprLike) -> PrimExpr:
        return binary(FloorDiv, other, self)

    def __mod__(self, other: ExprLike) -> PrimExpr:
        return binary(FloorMod, self, other)

    def __rmod__(self, other: ExprLike) -> PrimExpr:
        return binary(FloorMod, other, self)

    def __neg__(self) -> PrimExpr:
        if isinstance(self, IntImm):
            return IntImm(self.dtype, wrap(-self.value, self.dtype))
        if isinstance(self, FloatImm):
            return FloatImm(self.dtype, -self.value)
        # 0 - x loses the sign of a zero; -1 * x keeps it.
        return const(-1, self.dtype) * self if self.dtype.is_float else const(0, self.dtype) - self

    def __lt__(self, other: ExprLike) -> PrimExpr:
        return binary(LT, self, other)

    def __le__(self, other: ExprLike) -> PrimExpr:
        return binary(LE, self, other)

    def __gt__(self, other: ExprLike) -> PrimExpr:
        return binary(GT, self, other)

    def __ge__(self, other: ExprLike) -> PrimExpr:
        return binary(GE, self, other)

    def __eq__(self, other: Any) -> Any:
        return binary(EQ, self, other, fold=False) if is_expr_like(other) else NotImplemented

    def __ne__(self, other: Any) -> Any:
        return binary(NE, self, other, fold=False) if is_expr_like(other) else NotImplemented

    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        raise TypeError(
            f"the truth of the symbolic expression {self} is not known while the program is being built; "
            "use relax.tir.all / relax.tir.any for logic, or relax.prim.prove for a question"
        )

    def __and__(self, other: ExprLike) -> PrimExpr:
        return bitwise("bitwise_and", self, other)

    def __rand__(self, other: ExprLike) -> PrimExpr:
        return bitwise("bitwise_and", other, self)

    def __or__(self, other: ExprLike) -> PrimExpr:
        return bitwise("bitwise_or", self, other)

    def __ror__(self, other: ExprLike) -> PrimExpr:
        return bitwise("bitwise_or", other, self)

    def __xor__(self, other: ExprLike) -> PrimExpr:
        return bitwise("bitwise_xor", self, other)

    def __rxor__(self, other: ExprLike) -> PrimExpr:
        return bitwise("bitwise_xor", other, self)

    def __invert__(self) -> PrimExpr:
        return Not(self) if self.dtype.is_bool else Call(self.dtype, "tir.bitwise_not", (self,))

    def __lshift__(self, other: ExprLike) -> PrimExpr:
        return bitwise("shift_left", self, other)

    def __rshift__(self, other: ExprLike) -> PrimExpr:
        return bitwise("shift_right", self, other)

    def astype(self, dtype: str) -> PrimExpr:
        """Convert to another dtype."""
        return cast(dtype, self)

    def equal(self, other: ExprLike) -> PrimExpr:
        """The expression ``self == other``."""
        return binary(EQ, self, other)


class _Marked(PrimExpr):
    """Room for the derived fact of a variable."""

    __slots__ = ("_nonnegative",)


def _name(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a variable's name is text, found {type(value).__name__}")
    return value


@final
@node
class Var(_Marked):
    """A scalar variable, identified by object, not by name.

    `nonnegative` is set once, when a signature or match_cast binds the variable to a dimension.
    """

    __is_variable__: ClassVar[bool] = True

    name: str = label(converter=_name)
    dtype: DataType = child(default=INT32, converter=DataType)

    @property
    def name_hint(self) -> str:
        return self.name

    @property
    def nonnegative(self) -> bool:
        """True if the value is known to be ≥ 0, as for sizes."""
        return getattr(self, "_nonnegative", False)

    def __extra_state__(self) -> Any:
        return True if self.nonnegative else None

    def __setstate__(self, state: Any) -> None:
        mark_nonnegative(self)  # there is state only then


_nonnegative_marks = 0


def mark_nonnegative(var: Var) -> None:
    """Mark a variable as a size, hence ≥ 0."""
    global _nonnegative_marks
    if not var.nonnegative:
        _nonnegative_marks += 1
        set_slot(var, "_nonnegative", True)


def nonnegative_epoch() -> int:
    """Counter of marked variables: when it changes, expressions may simplify further."""
    return _nonnegative_marks


def SizeVar(name: str, dtype: str | DataType = "int32", span: Span | None = None) -> Var:
    """A variable known to be ≥ 0."""
    var = Var(name, dtype, span=span)
    set_slot(var, "_nonnegative", True)  # nothing was simplified with it yet
    return var


@final
@node
class IntImm(PrimExpr):
    """An integer or bool constant. Raises ValueError when the value does not fit the dtype."""

    dtype: DataType = child(converter=DataType)
    value: int = child(converter=int)

    def __post_init__(self) -> None:
        dtype = self.dtype
        if dtype is INT64 and _INT64_LEAST <= self.value <= _INT64_GREATEST:
            return
        if not (dtype.is_integer or dtype.is_bool):
            raise ValueError(f"IntImm: dtype {dtype!s} is not an integer type")
        if not dtype.min_value <= self.value <= dtype.max_value:
            raise ValueError(f"IntImm: {self.value} does not fit {dtype!s}")

    def __bool__(self) -> bool:
        return self.value != 0

    def __int__(self) -> int:
        return self.value

    def __index__(self) -> int:
        return self.value


def _float_or_integer(value: Any) -> float:
    # An integer is kept until the dtype is known: as a float64 first, it would be rounded twice.
    number = float(value)
    return int(value) if isinstance(value, _INTEGERS) else number


@final
@node
class FloatImm(PrimExpr):
    """A floating-point constant (held as a Python float, meaning the nearest value of its dtype)."""

    dtype: DataType = child(converter=DataType)
    value: float = child(converter=_float_or_integer)

    def __post_init__(self) -> None:
        if not self.dtype.is_float:
            raise ValueError(f"FloatImm: dtype {self.dtype!s} is not a floating-point type")
        if isinstance(self.value, int):
            set_slot(self, "value", round_number(self.value, self.dtype.element_of))

    def __bool__(self) -> bool:
        return self.value != 0

    def __float__(self) -> float:
        return self.value


@final
@node
class StringImm(PrimExpr):
    """A string constant, such as the name in a call_extern."""

    value: str

    def __post_init__(self) -> None:
        set_slot(self, "dtype", DataType("handle"))


def _scalar(value: Any) -> PrimExpr:
    return value if isinstance(value, PrimExpr) else convert(value)


def _convert_pair(expr: PrimExpr, first: str, second: str) -> None:
    """Convert numeric operands to constants of the other operand's dtype."""
    a, b = getattr(expr, first), getattr(expr, second)
    if not (isinstance(a, PrimExpr) and isinstance(b, PrimExpr)):
        a, b = match_dtypes(a, b)
        set_slot(expr, first, a)
        set_slot(expr, second, b)


def bind_value(binding: Any) -> None:
    """Convert the value of a Let: a number takes the variable's dtype. Raises TypeError if it cannot."""
    name = type(binding).__name__
    if not isinstance(binding.var, Var):
        raise TypeError(f"{name} binds a Var, found {type(binding.var).__name__}")
    if not isinstance(binding.value, PrimExpr):
        value = match_dtypes(binding.var, binding.value)[1]
        if value.dtype != binding.var.dtype:
            raise TypeError(f"{name}: {binding.value} is no {binding.var.dtype!s}, the dtype of {binding.var.name}")
        set_slot(binding, "value", value)


class BinaryExpr(PrimExpr):
    """Two operands of one dtype, `a` and `b`."""

    __slots__ = ()

    a: PrimExpr
    b: PrimExpr

    functions: ClassVar[Arithmetic]
    """Functions that compute it."""
    symbol: ClassVar[str] = ""

    def __post_init__(self) -> None:
        _convert_pair(self, "a", "b")
        if self.a.dtype != self.b.dtype:
            raise TypeError(
                f"{type(self).__name__}: the operands differ in dtype: {self.a.dtype!s} and {self.b.dtype!s}"
            )
        set_slot(self, "dtype", self.result_dtype(self.a.dtype))

    def result_dtype(self, operand: DataType) -> DataType:
        return operand


class CompareExpr(BinaryExpr):
    """A comparison; the result is bool."""

    __slots__ = ()

    def result_dtype(self, operand: DataType) -> DataType:
        return BOOL if operand.lanes < 2 else BOOL.with_lanes(operand.lanes)


class LogicExpr(BinaryExpr):
    """A connective of two bools; the second operand is evaluated only if needed."""

    __slots__ = ()

    def __post_init__(self) -> None:
        _convert_pair(self, "a", "b")
        for side in (self.a, self.b):
            if not side.dtype.is_bool:
                raise TypeError(f"{type(self).__name__}: an operand has dtype {side.dtype!s}, expected bool")
        set_slot(self, "dtype", self.a.dtype)


@final
@node
class Add(BinaryExpr):
    """a + b; integers wrap around."""

    a: PrimExpr
    b: PrimExpr
    functions: ClassVar[Arithmetic] = arithmetic.ADD
    symbol: ClassVar[str] = "+"


@final
@node
class Sub(BinaryExpr):
    """a - b; integers wrap around."""

    a: PrimExpr
    b: PrimExpr
    functions: ClassVar[Arithmetic] = arithmetic.SUB
    symbol: ClassVar[str] = "-"


@final
@node
class Mul(BinaryExpr):
    """a · b; integers wrap around."""

    a: PrimExpr
    b: PrimExpr
    functions: ClassVar[Arithmetic] = arithmetic.MUL
    symbol: ClassVar[str] = "*"


@final
@node
class Div(BinaryExpr):
    """Division; of integers, truncated toward zero."""

    a: PrimExpr
    b: PrimExpr
    functions: ClassVar[Arithmetic] = arithmetic.DIV
    symbol: ClassVar[str] = "/"


@final
@node
class Mod(BinaryExpr):
    """The remainder of Div: its sign is the dividend's."""

    a: PrimExpr
    b: PrimExpr
    functions: ClassVar[Arithmetic] = arithmetic.MOD


@final
@node
class FloorDiv(BinaryExpr):
    """Division rounded toward minus infinity."""

    a: PrimExpr
    b: PrimExpr
    functions: ClassVar[Arithmetic] = arithmetic.FLOOR_DIV
    symbol: ClassVar[str] = "//"


@final
@node
class FloorMod(BinaryExpr):
    """The remainder of FloorDiv: its sign is the divisor's."""

    a: PrimExpr
    b: PrimExpr
    functions: ClassVar[Arithmetic] = arithmetic.FLOOR_MOD
    symbol: ClassVar[str] = "%"


@final
@node
class Min(BinaryExpr):
    """The smaller; of floats, NaN if either is."""

    a: PrimExpr
    b: PrimExpr
    functions: ClassVar[Arithmetic] = arithmetic.MIN


@final
@node
class Max(BinaryExpr):
    """The larger; of floats, NaN if either is."""

    a: PrimExpr
    b: PrimExpr
    functions: ClassVar[Arithmetic] = arithmetic.MAX


@final
@node
class EQ(CompareExpr):
    """a = b; of floats, false if either is NaN."""

    a: PrimExpr
    b: PrimExpr
    functions: ClassVar[Arithmetic] = arithmetic.EQUAL
    symbol: ClassVar[str] = "=="

    def __bool__(self) -> bool:
        return same(self.a, self.b)


@final
@node
class NE(CompareExpr):
    """a ≠ b; of floats, true if either is NaN."""

    a: PrimExpr
    b: PrimExpr
    functions: ClassVar[Arithmetic] = arithmetic.NOT_EQUAL
    symbol: ClassVar[str] = "!="

    def __bool__(self) -> bool:
        return not same(self.a, self.b)


@final
@node
class LT(CompareExpr):
    """a < b."""

    a: PrimExpr
    b: PrimExpr
    functions: ClassVar[Arithmetic] = arithmetic.LESS
    symbol: ClassVar[str] = "<"


@final
@node
class LE(CompareExpr):
    """a ≤ b."""

    a: PrimExpr
    b: PrimExpr
    functions: ClassVar[Arithmetic] = arithmetic.LESS_EQUAL
    symbol: ClassVar[str] = "<="


@final
@node
class GT(CompareExpr):
    """a > b."""

    a: PrimExpr
    b: PrimExpr
    functions: ClassVar[Arithmetic] = arithmetic.GREATER
    symbol: ClassVar[str] = ">"


@final
@node
class GE(CompareExpr):
    """a ≥ b."""

    a: PrimExpr
    b: PrimExpr
    functions: ClassVar[Arithmetic] = arithmetic.GREATER_EQUAL
    symbol: ClassVar[str] = ">="


@final
@node
class And(LogicExpr):
    """Both; `b` is evaluated only if `a` holds."""

    a: PrimExpr
    b: PrimExpr
    functions: ClassVar[Arithmetic] = arithmetic.AND


@final
@node
class Or(LogicExpr):
    """Either; `b` is evaluated only if `a` does not hold."""

    a: PrimExpr
    b: PrimExpr
    functions: ClassVar[Arithmetic] = arithmetic.OR


@final
@node
class Not(PrimExpr):
    """The negation."""

    a: PrimExpr = child(converter=_scalar)

    def __post_init__(self) -> None:
        if not self.a.dtype.is_bool:
            raise TypeError(f"Not: the operand has dtype {self.a.dtype!s}, expected bool")
        set_slot(self, "dtype", self.a.dtype)


@final
@node
class Select(PrimExpr):
    """One of two values; both may be evaluated (``if_then_else`` evaluates only one)."""

    condition: PrimExpr = child(converter=_scalar)
    true_value: PrimExpr
    false_value: PrimExpr

    def __post_init__(self) -> None:
        _convert_pair(self, "true_value", "false_value")
        if not self.condition.dtype.is_bool:
            raise TypeError(f"Select: the condition has dtype {self.condition.dtype!s}, expected bool")
        if self.true_value.dtype != self.false_value.dtype:
            raise TypeError(
                f"Select: the values differ in dtype: {self.true_value.dtype!s} and {self.false_value.dtype!s}"
            )
        set_slot(self, "dtype", self.true_value.dtype)


@final
@node
class Cast(PrimExpr):
    """A conversion. Float to int truncates toward zero; out-of-range values saturate and NaN becomes 0."""

    dtype: DataType = child(converter=DataType)
    value: PrimExpr = child(converter=_scalar)


def _arguments(values: Iterable[Any]) -> tuple[PrimExpr, ...]:
    return tuple([value if isinstance(value, PrimExpr) else convert(value) for value in values])


def _callee(op: str | Op | GlobalVar) -> Op | GlobalVar:
    return register_op(op) if isinstance(op, str) and not Op.exists(op) else Op.get(op) if isinstance(op, str) else op


@final
@node
class Call(PrimExpr):
    """A call of an intrinsic (an Op named ``tir.*``) or of a global PrimFunc."""

    dtype: DataType = child(converter=DataType)
    op: Op | GlobalVar = child(converter=_callee)
    args: tuple[PrimExpr, ...] = child(converter=_arguments)

    @property
    def intrinsic(self) -> str:
        """The intrinsic's name without ``tir.``; empty for a call of a global function."""
        return self.op.name.removeprefix("tir.") if isinstance(self.op, Op) else ""


@final
@node
class Let(PrimExpr):
    """`body`, in which `var` stands for `value`."""

    var: Var = binder()
    value: PrimExpr
    body: PrimExpr

    def __post_init__(self) -> None:
        bind_value(self)
        if not isinstance(self.body, PrimExpr):  # pyright: ignore[reportUnnecessaryIsInstance]
            set_slot(self, "body", convert(self.body))
        set_slot(self, "dtype", self.body.dtype)


def defers(other: Any) -> bool:
    """True if the other operand defines arithmetic with scalars, as tensors do."""
    return getattr(other, "__takes_scalars__", False)


ARITHMETIC: tuple[type[BinaryExpr], ...] = (Add, Sub, Mul, Div, Mod, FloorDiv, FloorMod, Min, Max)
COMPARISONS: tuple[type[CompareExpr], ...] = (EQ, NE, LT, LE, GT, GE)


def is_expr_like(value: Any) -> TypeGuard[ExprLike]:
    """True if `const` and `convert` accept the value as a scalar."""
    return isinstance(value, (PrimExpr, int, float, np.integer, np.floating, np.bool_))


def const(value: Any, dtype: str | None = None) -> IntImm | FloatImm:
    """Constant of `dtype`. Raises ValueError for a value that does not fit.

    Default dtype: that of a NumPy scalar; bool for a bool, int32 for an int, float32 for a float, or 64 bits if the
    value does not fit. Vector dtypes are not accepted (TIR's Broadcast makes vectors of constants).
    """
    if dtype is None:
        dtype = _own_dtype(value)
    if isinstance(value, (IntImm, FloatImm)):
        value = value.value
    kind = DataType(dtype)
    if kind.is_float:
        infinite = isinstance(value, _FLOATS) and math.isinf(value)
        if abs(value) > kind.max_finite and not infinite:
            shown = number_text(value) if isinstance(value, int) else value
            raise ValueError(f"const: {shown} does not fit {kind!s}")
        return FloatImm(kind, value)
    if isinstance(value, _FLOATS) and not float(value).is_integer():
        raise ValueError(f"const: {value} is not an integer, and the dtype is {kind!s}")
    return IntImm(kind, int(value))


_NUMPY: type[Any] = np.generic


def _own_dtype(value: Any) -> DataType:
    """The dtype of a number given without one."""
    if isinstance(value, (IntImm, FloatImm)):
        return value.dtype
    if isinstance(value, _NUMPY) or (hasattr(value, "dtype") and getattr(value, "shape", None) == ()):
        return DataType(value.dtype)
    if isinstance(value, bool):
        return BOOL
    if isinstance(value, int):
        return INT32 if INT32.min_value <= value <= INT32.max_value else INT64
    return FLOAT32 if not math.isfinite(value) or abs(value) <= FLOAT32.max_finite else FLOAT64


def convert(value: Any) -> PrimExpr:
    """Convert a Python or NumPy scalar to a PrimExpr; a PrimExpr is unchanged. Raises TypeError for other values."""
    if isinstance(value, PrimExpr):
        return value
    if type(value) is int:
        return IntImm(INT32 if _INT32_LEAST <= value <= _INT32_GREATEST else INT64, value)
    if is_expr_like(value):
        return const(value)
    if isinstance(value, str):
        return StringImm(value)
    as_expr: Callable[[], Any] | None = getattr(value, "asobject", None)
    if as_expr is not None:
        return convert(as_expr())
    raise TypeError(f"expected a scalar expression, found {type(value).__name__}")


def dimension(value: Any) -> PrimExpr:
    """Convert a size to a PrimExpr: integers become int64. Raises TypeError for values that are not integers."""
    if isinstance(value, _INTEGERS) and not isinstance(value, _BOOLS):
        return IntImm(INT64, int(value))
    if isinstance(value, str):
        raise TypeError(
            f"a dimension is an integer or an expression, found the text {value!r}; "
            f'R.Tensor and R.Shape read text, here stands a variable: tir.Var("n", "int64")'
        )
    expr = convert(value)
    if not expr.dtype.is_integer:
        raise TypeError(f"a dimension must be an integer expression, found dtype {expr.dtype!s}")
    if isinstance(expr, IntImm) and expr.dtype != INT64:
        return IntImm(INT64, expr.value)
    return expr


def dimensions(values: Iterable[Any]) -> tuple[PrimExpr, ...]:
    """Apply `dimension` to each value."""
    return tuple([dimension(value) for value in values])


def match_dtypes(a: Any, b: Any) -> tuple[PrimExpr, PrimExpr]:
    """Convert both operands to one dtype: literals adapt, else the wider of a kind, else ints become floats.

    Signed and unsigned integers of one width become signed; a bool takes the other's dtype.
    """
    if not isinstance(a, PrimExpr) and isinstance(b, PrimExpr):
        return _literal(a, b.dtype), b
    if not isinstance(b, PrimExpr) and isinstance(a, PrimExpr):
        return a, _literal(b, a.dtype)
    a, b = convert(a), convert(b)
    if a.dtype == b.dtype:
        return a, b
    target = promote(a.dtype, b.dtype)
    return cast(target, a), cast(target, b)


def promote(a: DataType, b: DataType) -> DataType:
    """Common dtype of operands of two dtypes. Raises TypeError if there is none."""
    if a.lanes != b.lanes:
        raise TypeError(f"operands with different numbers of lanes: {a!s} and {b!s}")
    if a == b or b.is_bool:
        return a
    if a.is_bool:
        return b
    if a.is_float and b.is_float:
        if a.bits == b.bits:
            raise TypeError(f"no common type for {a!s} and {b!s}; cast one of them")
        return a if a.bits > b.bits else b
    if a.is_float or b.is_float:
        return a if a.is_float else b
    if a.is_integer and b.is_integer:
        if a.bits == b.bits:
            return a if a.is_int else b
        return a if a.bits > b.bits else b
    raise TypeError(f"no common type for {a!s} and {b!s}")


def _literal(value: Any, dtype: DataType) -> PrimExpr:
    if isinstance(value, _FLOATS) and not dtype.is_float:
        return const(value)  # 0.5 * i is a float: do not squeeze the literal into i's type
    if (
        not is_expr_like(value)
        or dtype.is_handle
        or dtype.lanes > 1
        or (dtype.is_bool and not isinstance(value, _BOOLS))
    ):
        return convert(value)
    if dtype.is_integer and not dtype.min_value <= int(value) <= dtype.max_value:  # type: ignore[arg-type]
        return const(value)
    return const(value, dtype)


def binary(cls: type[BinaryExpr], a: Any, b: Any, fold: bool = True) -> PrimExpr:
    """``cls(a, b)`` with operands converted to one dtype; constants are folded if `fold`.

    Constants are not folded if int64 would wrap around: in a size, that is an error at run time.
    """
    if fold and type(a) is IntImm and a.dtype is INT64:  # most dimensions: the same without conversions
        result = _folded_int64(cls, a.value, b)
        if result is not None:
            return result
    a, b = match_dtypes(a, b)
    if a.dtype != b.dtype:
        target = promote(a.dtype, b.dtype)
        a, b = cast(target, a), cast(target, b)
    if fold and isinstance(a, IntImm) and isinstance(b, IntImm):
        value = fold_integers(cls, a.value, b.value)
        if value is not None and issubclass(cls, CompareExpr):
            return IntImm(BOOL, value)
        if value is not None:
            wrapped = wrap(value, a.dtype)
            if wrapped == value or a.dtype != "int64":
                return IntImm(a.dtype, wrapped)
    return cls(a, b)  # type: ignore[call-arg]


def _folded_int64(cls: type[BinaryExpr], a: int, b: Any) -> IntImm | None:
    """``cls(a, b)`` of an int64 constant and another, or a Python integer; None if the result is not a constant."""
    if type(b) is IntImm and b.dtype is INT64:
        other = b.value
    elif type(b) is int and _INT64_LEAST <= b <= _INT64_GREATEST:
        other = b
    else:
        return None
    value = fold_integers(cls, a, other)
    if value is None:
        return None
    if issubclass(cls, CompareExpr):
        return IntImm(BOOL, value)
    return IntImm(INT64, value) if _INT64_LEAST <= value <= _INT64_GREATEST else None


def true_divide(a: Any, b: Any) -> PrimExpr:
    """``a / b`` for floats. Raises TypeError for integers, whose division must be explicit."""
    a, b = match_dtypes(a, b)
    if a.dtype.is_integer and b.dtype.is_integer:
        raise TypeError("integers divide in several ways; write a // b (floor) or truncdiv(a, b)")
    return binary(Div, a, b)


def bitwise(name: str, a: Any, b: Any) -> PrimExpr:
    """A bitwise intrinsic; of bools, `and` and `or` are And and Or. Raises TypeError for floats."""
    a, b = match_dtypes(a, b)
    if a.dtype.is_bool and b.dtype.is_bool and name in ("bitwise_and", "bitwise_or"):
        return And(a, b) if name == "bitwise_and" else Or(a, b)
    if not (a.dtype.is_integer and b.dtype.is_integer) and not (a.dtype.is_bool and b.dtype.is_bool):
        raise TypeError(f"{name}: expected integers, found {a.dtype!s} and {b.dtype!s}")
    return Call(a.dtype, f"tir.{name}", (a, b))


def cast(dtype: str, value: Any) -> PrimExpr:
    """Convert `value` to `dtype`; constants are folded, and the same dtype makes no node."""
    target = DataType(dtype)
    expr = convert(value)
    if expr.dtype == target:
        return expr
    if isinstance(expr, IntImm) and target.lanes == 1:
        if target.is_float:
            return FloatImm(target, expr.value)
        if target.is_integer:
            return IntImm(target, wrap(expr.value, target))
    if isinstance(expr, FloatImm) and target.lanes == 1 and target.is_float:
        return FloatImm(target, round_number(expr.value, expr.dtype.element_of))
    return Cast(target, expr)


def fold_integers(cls: type[BinaryExpr], a: int, b: int) -> int | None:
    """Exact result of an operation on integers, not wrapped; None for a division by zero."""
    try:
        return cls.functions.integers(a, b)
    except ZeroDivisionError:
        return None


def same(a: PrimExpr, b: PrimExpr) -> bool:
    """True for the same object, or equal constants."""
    if a is b:
        return True
    if isinstance(a, (IntImm, FloatImm)) and isinstance(b, (IntImm, FloatImm)):
        return a.value == b.value
    return False


def is_const(expr: Node, value: int | None = None) -> bool:
    """True if an expression is an integer constant (equal to `value`, if given)."""
    return isinstance(expr, IntImm) and (value is None or expr.value == value)
