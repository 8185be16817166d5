"""Intrinsics: the scalar functions, each a registered Op ``tir.<name>`` with its facts.

The facts of an Op (read with ``op.get_attr``):

* ``effect``: "pure" (a value computed from the arguments) or "opaque" (may do anything);
* ``numpy``: the reference, a function on NumPy arrays; None where there is none;
* ``exact``: whether the result has one correct value, which every implementation gives bit for bit (unlike ``exp``);
* ``total``: whether a pure intrinsic always has a value (only ``if_then_else`` is lazy: see `evaluate`).

The builders check dtypes, and fold constants only where the result is exact. Names and argument orders
are TVM's ``tir.*``. Integer division and ``all``/``any``/``min``/``max`` build plain nodes.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from typing import Any, TypeVar

import ml_dtypes
import numpy as np

from ..ir import DataType, GlobalVar, Op, register_op
from .arithmetic import wrap
from .expr import (
    BOOL,
    And,
    Call,
    Div,
    ExprLike,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mod,
    Not,
    Or,
    PrimExpr,
    Select,
    StringImm,
    Var,
    binary,
    cast,
    const,
    convert,
    match_dtypes,
)

NumpyFunction = Callable[..., Any]
F = TypeVar("F", bound=Callable[..., PrimExpr])


def _round_half_away(x: Any) -> Any:
    # np.round rounds halves to even. x + 0.5 would be wrong just below a half: compare the fraction.
    whole: Any = np.trunc(x)
    return whole + np.copysign(np.abs(x - whole) >= 0.5, x)


def _unsigned_bits(x: Any) -> tuple[list[int], int]:
    """Elements as unsigned integers, and their width in bits."""
    width = DataType(x.dtype.name).bits
    return [int(value) & (2**width - 1) for value in np.ravel(x)], width


def _shift_left(x: Any, by: Any) -> Any:
    return _shifted(np.left_shift, x, by, x.dtype.type(0))


def _shift_right(x: Any, by: Any) -> Any:
    dtype = DataType(x.dtype.name)
    sign = np.right_shift(x, dtype.bits - 1) if dtype.is_int else x.dtype.type(0)
    return _shifted(np.right_shift, x, by, sign)


def _shifted(shift: Any, x: Any, by: Any, emptied: Any) -> Any:
    """`x` shifted; `emptied` if no bit is left: for shifts by the width or more, or by a negative number."""
    inside: Any = (by >= 0) & (by < DataType(x.dtype.name).bits)
    result: Any = shift(x, (by * inside).astype(x.dtype))
    return result * inside + emptied * ~inside


def _popcount(x: Any) -> Any:
    values, _ = _unsigned_bits(x)
    return _shaped([value.bit_count() for value in values], x, x.dtype)


def _clz(x: Any) -> Any:
    values, width = _unsigned_bits(x)
    return _shaped([width - value.bit_length() for value in values], x, np.int32)


def _shaped(values: list[int], like: Any, dtype: Any) -> Any:
    flat: Any = np.array(values, dtype)
    return flat.reshape(like.shape)


def _exp10(x: Any) -> Any:
    return np.power(10.0, x)


def _sigmoid(x: Any) -> Any:
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1, e) / (1 + e)


def _rsqrt(x: Any) -> Any:
    return 1 / np.sqrt(x)


_REFERENCES: dict[str, NumpyFunction] = {
    "exp": np.exp, "exp2": np.exp2, "exp10": _exp10, "log": np.log, "log2": np.log2,
    "log10": np.log10, "log1p": np.log1p, "tanh": np.tanh, "sigmoid": _sigmoid,
    "sqrt": np.sqrt, "rsqrt": _rsqrt, "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh,
    "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "erf": np.vectorize(math.erf, [np.float64]), "erfc": np.vectorize(math.erfc, [np.float64]),
    "atan2": np.arctan2, "pow": np.power, "fmod": np.fmod, "copysign": np.copysign, "hypot": np.hypot,
    "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "nearbyint": np.rint, "round": _round_half_away,
    "fabs": np.abs, "abs": np.abs, "isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite,
    "popcount": _popcount, "clz": _clz, "likely": np.asarray, "if_then_else": np.where,
    "bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor,
    "bitwise_not": np.invert, "shift_left": _shift_left, "shift_right": _shift_right,
}  # fmt: skip

_EXACT = {
    "sqrt", "copysign", "floor", "ceil", "trunc", "nearbyint", "round", "fabs", "abs", "isnan", "isinf", "isfinite",
    "popcount", "clz", "likely", "if_then_else",
    "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "shift_left", "shift_right",
}  # fmt: skip

for _name, _function in _REFERENCES.items():
    register_op(f"tir.{_name}", effect="pure", total=True, exact=_name in _EXACT, numpy=_function)
register_op("tir.reinterpret", effect="pure", total=True, numpy=None)
register_op("tir.call_pure_extern", effect="pure", total=False, numpy=None)
register_op("tir.undef", effect="pure", total=True, numpy=None)
register_op("tir.type_annotation", effect="pure", total=True, numpy=None)
for _name in ("address_of", "tvm_access_ptr"):
    register_op(f"tir.{_name}", effect="pure", total=False, numpy=None)
for _name in ("call_extern", "call_packed", "assume", "ret", "parallel_for"):
    register_op(f"tir.{_name}", effect="opaque", total=False, numpy=None)


def call_intrin(dtype: str, op: str | Op, *args: Any) -> Call:
    """Call an intrinsic by name (``tir.`` may be omitted). Raises KeyError with similar names if unknown."""
    if isinstance(op, str):
        op = Op.get(op if op.startswith("tir.") else f"tir.{op}")
    return Call(dtype, op, tuple(convert(arg) for arg in args))


def is_pure(call: Call) -> bool:
    """True if a call only computes a value from its arguments; False for calls of global functions."""
    return not isinstance(call.op, GlobalVar) and call.op.get_attr("effect") == "pure"


# ------------------------------------------------------------------------- functions of floating point


def _float(name: str, value: Any) -> PrimExpr:
    expr = convert(value)
    if isinstance(expr, IntImm) and not isinstance(value, PrimExpr):
        expr = const(expr.value, "float32")
    if not expr.dtype.is_float:
        raise TypeError(f"{name}: expected a floating-point operand, found {expr.dtype!s}; cast it first")
    return expr


def _two_floats(name: str, a: Any, b: Any) -> tuple[PrimExpr, PrimExpr]:
    if not isinstance(a, PrimExpr) and not isinstance(b, PrimExpr):
        a = _float(name, a)
    a, b = match_dtypes(a, b)
    return _float(name, a), _float(name, b)


def _unary(name: str, doc: str) -> Callable[[ExprLike], PrimExpr]:
    def build(x: ExprLike) -> PrimExpr:
        operand = _float(name, x)
        return Call(operand.dtype, f"tir.{name}", (operand,))

    build.__name__ = build.__qualname__ = name
    build.__doc__ = doc
    return build


exp = _unary("exp", "e to the power x.")
exp2 = _unary("exp2", "2 to the power x.")
exp10 = _unary("exp10", "10 to the power x.")
log = _unary("log", "The natural logarithm.")
log2 = _unary("log2", "The logarithm to base 2.")
log10 = _unary("log10", "The logarithm to base 10.")
log1p = _unary("log1p", "log(1 + x), exact near 0.")
tanh = _unary("tanh", "The hyperbolic tangent.")
sigmoid = _unary("sigmoid", "1 / (1 + exp(-x)).")
sqrt = _unary("sqrt", "The square root.")
rsqrt = _unary("rsqrt", "1 / sqrt(x).")
sin = _unary("sin", "The sine.")
cos = _unary("cos", "The cosine.")
tan = _unary("tan", "The tangent.")
asin = _unary("asin", "The inverse sine.")
acos = _unary("acos", "The inverse cosine.")
atan = _unary("atan", "The inverse tangent.")
sinh = _unary("sinh", "The hyperbolic sine.")
cosh = _unary("cosh", "The hyperbolic cosine.")
asinh = _unary("asinh", "The inverse hyperbolic sine.")
acosh = _unary("acosh", "The inverse hyperbolic cosine.")
atanh = _unary("atanh", "The inverse hyperbolic tangent.")
erf = _unary("erf", "The error function.")
erfc = _unary("erfc", "1 - erf(x), exact where erf(x) is near 1.")


def _binary_float(name: str, doc: str) -> Callable[[ExprLike, ExprLike], PrimExpr]:
    def build(a: ExprLike, b: ExprLike) -> PrimExpr:
        left, right = _two_floats(name, a, b)
        return Call(left.dtype, f"tir.{name}", (left, right))

    build.__name__ = build.__qualname__ = name
    build.__doc__ = doc
    return build


atan2 = _binary_float("atan2", "The angle of the point (b, a).")
pow = power = _binary_float("pow", "a to the power b.")
fmod = _binary_float("fmod", "The remainder of a / b with the sign of a.")
copysign = _binary_float("copysign", "The magnitude of a with the sign of b.")
hypot = _binary_float("hypot", "sqrt(a*a + b*b) without overflow on the way.")


def _rounding(name: str, doc: str) -> Callable[[ExprLike], PrimExpr]:
    reference = _REFERENCES[name]

    def build(x: ExprLike) -> PrimExpr:
        operand = convert(x)
        if operand.dtype.is_integer:
            return operand
        operand = _float(name, operand)
        if isinstance(operand, FloatImm):
            with np.errstate(all="ignore"):
                return FloatImm(operand.dtype, float(reference(np.float64(operand.value))))
        return Call(operand.dtype, f"tir.{name}", (operand,))

    build.__name__ = build.__qualname__ = name
    build.__doc__ = doc
    return build


floor = _rounding("floor", "The greatest whole number ≤ x. An integer is returned as it is.")
ceil = _rounding("ceil", "The least whole number ≥ x. An integer is returned as it is.")
trunc = _rounding("trunc", "x without its fraction. An integer is returned as it is.")
round = _rounding("round", "The nearest whole number, halves away from zero. An integer is returned as it is.")
nearbyint = _rounding("nearbyint", "The nearest whole number, halves to even. An integer is returned as it is.")


def _test_float(name: str, of_integers: bool, doc: str) -> Callable[[ExprLike], PrimExpr]:
    reference = _REFERENCES[name]

    def build(x: ExprLike) -> PrimExpr:
        operand = convert(x)
        if isinstance(operand, IntImm) or (operand.dtype.is_integer and operand.dtype.is_scalar):
            return IntImm(BOOL, of_integers)
        operand = _float(name, operand)
        if isinstance(operand, FloatImm):
            return IntImm(BOOL, bool(reference(operand.value)))
        return Call(BOOL.with_lanes(operand.dtype.lanes), f"tir.{name}", (operand,))

    build.__name__ = build.__qualname__ = name
    build.__doc__ = doc
    return build


isnan = _test_float("isnan", False, "Whether x is not a number.")
isinf = _test_float("isinf", False, "Whether x is an infinity.")
isfinite = _test_float("isfinite", True, "Whether x is neither infinite nor NaN.")


def abs(x: ExprLike) -> PrimExpr:
    """The magnitude; of the least integer of a signed type, that integer (two's complement).

    Raises TypeError for what is no number.
    """
    operand = convert(x)
    if operand.dtype.is_uint or operand.dtype.is_bool:
        return operand
    if isinstance(operand, IntImm):
        return IntImm(operand.dtype, wrap(builtins.abs(operand.value), operand.dtype))
    if isinstance(operand, FloatImm):
        return FloatImm(operand.dtype, math.fabs(operand.value))
    if not (operand.dtype.is_int or operand.dtype.is_float):
        raise TypeError(f"abs: expected a number, found {operand.dtype!s}")
    return Call(operand.dtype, "tir.abs", (operand,))


fabs = abs

# --------------------------------------------------------------------------------------------- integers


def _integer(name: str, value: Any) -> PrimExpr:
    expr = convert(value)
    if not expr.dtype.is_integer:
        raise TypeError(f"{name}: expected an integer, found {expr.dtype!s}")
    return expr


def popcount(x: ExprLike) -> PrimExpr:
    """The number of one bits, in the operand's dtype: of an int2, -2 for the two bits of -1."""
    operand = _integer("popcount", x)
    if isinstance(operand, IntImm):
        bits = operand.value & ((1 << operand.dtype.bits) - 1)
        return const(bits.bit_count(), "int64").astype(operand.dtype)
    return Call(operand.dtype, "tir.popcount", (operand,))


def clz(x: ExprLike) -> PrimExpr:
    """The number of leading zero bits, an int32; all the bits for 0."""
    operand = _integer("clz", x)
    if isinstance(operand, IntImm):
        bits = operand.value & ((1 << operand.dtype.bits) - 1)
        return const(operand.dtype.bits - bits.bit_length(), "int32")
    return Call(DataType("int32").with_lanes(operand.dtype.lanes), "tir.clz", (operand,))


def _division(name: str, a: Any, b: Any) -> tuple[PrimExpr, PrimExpr]:
    a, b = match_dtypes(a, b)
    for side in (a, b):
        if not (side.dtype.is_integer or side.dtype.is_float):
            raise TypeError(f"{name}: expected numbers, found {side.dtype!s}")
    return a, b


def truncdiv(a: ExprLike, b: ExprLike, span: Any = None) -> PrimExpr:
    """Integer division rounded toward zero, as in C. Raises TypeError for floats."""
    left, right = _division("truncdiv", a, b)
    if left.dtype.is_float or right.dtype.is_float:
        raise TypeError("truncdiv: expected integers; use / for floating point")
    return binary(Div, left, right)


def truncmod(a: ExprLike, b: ExprLike, span: Any = None) -> PrimExpr:
    """The remainder of truncdiv: its sign is a's."""
    return binary(Mod, *_division("truncmod", a, b))


def floordiv(a: ExprLike, b: ExprLike, span: Any = None) -> PrimExpr:
    """Division rounded toward minus infinity, as Python's ``//``."""
    return binary(FloorDiv, *_division("floordiv", a, b))


def floormod(a: ExprLike, b: ExprLike, span: Any = None) -> PrimExpr:
    """The remainder of floordiv: its sign is b's, as Python's ``%``."""
    return binary(FloorMod, *_division("floormod", a, b))


def div(a: ExprLike, b: ExprLike, span: Any = None) -> PrimExpr:
    """Division as in C: truncated for integers."""
    return binary(Div, *_division("div", a, b))


def indexdiv(a: ExprLike, b: ExprLike, span: Any = None) -> PrimExpr:
    """Division of indices (both ≥ 0, so that every rounding is the same)."""
    return floordiv(a, b)


def indexmod(a: ExprLike, b: ExprLike, span: Any = None) -> PrimExpr:
    """The remainder of indexdiv."""
    return floormod(a, b)


def ceildiv(a: ExprLike, b: ExprLike, span: Any = None) -> PrimExpr:
    """Integer division rounded toward plus infinity. Raises TypeError for floats."""
    left, right = _division("ceildiv", a, b)
    if left.dtype.is_float:
        raise TypeError("ceildiv: expected integers; use ceil(a / b) for floating point")
    if (isinstance(right, IntImm) and right.value > 0) or (isinstance(right, Var) and right.nonnegative):
        return floordiv(left + (right - 1), right)
    return -floordiv(-left, right)


def shift_left(a: ExprLike, b: ExprLike, span: Any = None) -> PrimExpr:
    """a << b; 0 when b is negative or at least the number of bits."""
    return convert(a) << b


def shift_right(a: ExprLike, b: ExprLike, span: Any = None) -> PrimExpr:
    """a >> b, keeping the sign; all sign bits when b is negative or at least the number of bits."""
    return convert(a) >> b


def bitwise_and(a: ExprLike, b: ExprLike, span: Any = None) -> PrimExpr:
    """The bits set in both."""
    return convert(a) & b


def bitwise_or(a: ExprLike, b: ExprLike, span: Any = None) -> PrimExpr:
    """The bits set in either."""
    return convert(a) | b


def bitwise_xor(a: ExprLike, b: ExprLike, span: Any = None) -> PrimExpr:
    """The bits set in one of the two."""
    return convert(a) ^ b


def bitwise_not(a: ExprLike, span: Any = None) -> PrimExpr:
    """The bits not set; of a bool, its negation."""
    return ~convert(a)


# ------------------------------------------------------------------------------------- choice and logic


def min(a: ExprLike, b: ExprLike) -> PrimExpr:
    """The smaller of two; of floats, NaN if either is."""
    return binary(Min, a, b)


def max(a: ExprLike, b: ExprLike) -> PrimExpr:
    """The larger of two; of floats, NaN if either is."""
    return binary(Max, a, b)


def _condition(name: str, value: Any) -> PrimExpr:
    expr = convert(value)
    if not expr.dtype.is_bool:
        raise TypeError(f"{name}: expected a bool condition, found {expr.dtype!s}")
    return expr


def all(*args: Any) -> PrimExpr:
    """The conjunction, evaluated left to right until one is false. Raises ValueError without arguments."""
    return _fold_logic("all", And, args, decided_by=False)


def any(*args: Any) -> PrimExpr:
    """The disjunction, evaluated left to right until one is true. Raises ValueError without arguments."""
    return _fold_logic("any", Or, args, decided_by=True)


def _fold_logic(name: str, cls: type[And] | type[Or], args: tuple[Any, ...], decided_by: bool) -> PrimExpr:
    if not args:
        raise ValueError(f"{name}: no argument given")
    terms: list[PrimExpr] = []
    for arg in args:
        term = _condition(name, arg)
        if isinstance(term, IntImm):
            if bool(term.value) is not decided_by:
                continue
            terms.append(term)
            break  # what follows is never evaluated
        terms.append(term)
    if not terms:
        return IntImm(BOOL, not decided_by)
    result = terms[0]
    for term in terms[1:]:
        result = cls(result, term)
    return result


def logical_not(a: ExprLike) -> PrimExpr:
    """The negation of a bool."""
    operand = _condition("logical_not", a)
    return IntImm(BOOL, not operand.value) if isinstance(operand, IntImm) else Not(operand)


def if_then_else(cond: Any, t: Any, f: Any, span: Any = None) -> PrimExpr:
    """`t` if `cond` else `f`; only the chosen one is evaluated."""
    condition = _condition("if_then_else", cond)
    t, f = match_dtypes(t, f)
    if isinstance(condition, IntImm):
        return t if condition.value else f
    return Call(t.dtype, "tir.if_then_else", (condition, t, f))


def select(cond: Any, t: Any, f: Any) -> PrimExpr:
    """`t` if `cond` else `f`; both may be evaluated."""
    t, f = match_dtypes(t, f)
    return Select(_condition("select", cond), t, f)


def likely(cond: Any, span: Any = None) -> PrimExpr:
    """`cond`, expected to be true."""
    condition = _condition("likely", cond)
    return condition if isinstance(condition, IntImm) else Call(BOOL, "tir.likely", (condition,))


# ------------------------------------------------------------------------------------ calls and limits


def call_extern(dtype: str, func_name: str, *args: Any, span: Any = None) -> Call:
    """A call of a C function by its symbol, with whatever effects it has."""
    return Call(dtype, "tir.call_extern", (StringImm(func_name), *map(convert, args)))


def call_pure_extern(dtype: str, func_name: str, *args: Any, span: Any = None) -> Call:
    """A call of a C function that the caller vouches to be pure."""
    return Call(dtype, "tir.call_pure_extern", (StringImm(func_name), *map(convert, args)))


def call_packed(func_name: str, *args: Any, dtype: str = "int32", span: Any = None) -> Call:
    """A call of a packed function by its registered name."""
    return Call(dtype, "tir.call_packed", (StringImm(func_name), *map(convert, args)))


def parallel_for(call: Any, written: Any, span: Any = None) -> Call:
    """A call of a function for parts of the range [begin, end), its first two arguments, in any order or at once.

    Of the buffers that follow, the function writes the first `written`. Raises TypeError for another call.
    """
    begin_end = call.args[:2] if isinstance(call, Call) and isinstance(call.op, GlobalVar) else ()
    if len(begin_end) != 2 or not builtins.all(bound.dtype.is_integer for bound in begin_end):
        raise TypeError(f"parallel_for: expected a call f(begin, end, ...) of a function, found {call}")
    return Call("", "tir.parallel_for", (call, const(int(written), "int32")))


def assume(cond: Any, span: Any = None) -> Call:
    """A condition that the writer promises to hold where this is evaluated."""
    return Call(BOOL, "tir.assume", (_condition("assume", cond),))


def undef(dtype: str = "float32") -> Call:
    """A value that nobody may depend on (it is 0)."""
    return Call(dtype, "tir.undef", ())


def ret(value: Any = None, span: Any = None) -> Call:
    """The end of the function, with its value if it returns one."""
    if value is None:
        return Call("", "tir.ret", ())
    result = convert(value)
    return Call(result.dtype, "tir.ret", (result,))


def type_annotation(dtype: str) -> Call:
    """A dtype, as an argument of an intrinsic."""
    return Call(dtype, "tir.type_annotation", ())


def tvm_access_ptr(ptype: Any, data: Any, offset: Any, extent: Any, rw_mask: Any) -> Call:
    """The pointer to the element `offset` behind `data`; `extent` elements from there on are accessed.

    `ptype` is the dtype of the elements, `rw_mask` 1 for reads, 2 for writes, 3 for both.
    """
    kind = ptype if isinstance(ptype, Call) else type_annotation(ptype)
    return Call("handle", "tir.tvm_access_ptr", (kind, data, offset, extent, rw_mask))


def address_of(element: Any, span: Any = None) -> Call:
    """The pointer to an element of a buffer, or to a field of a struct, given as a load of it.

    Raises TypeError for another expression.
    """
    place = convert(element)
    if not hasattr(place, "buffer") and not (isinstance(place, Call) and place.intrinsic == "tvm_struct_get"):
        raise TypeError(f"address_of: expected an element of a buffer, found {place}")
    return Call("handle", "tir.address_of", (place,))


def reinterpret(dtype: str, value: Any, span: Any = None) -> PrimExpr:
    """The bits of a value read as another dtype of the same width. Raises TypeError if the widths differ."""
    target, expr = DataType(dtype), convert(value)
    if target.bits * target.lanes != expr.dtype.bits * expr.dtype.lanes:
        raise TypeError(f"reinterpret: {expr.dtype!s} and {target!s} differ in width")
    return expr if target == expr.dtype else Call(target, "tir.reinterpret", (expr,))


def max_value(dtype: str, span: Any = None) -> IntImm | FloatImm:
    """The greatest finite value of a dtype."""
    return _limit(DataType(dtype), "max")


def min_value(dtype: str, span: Any = None) -> IntImm | FloatImm:
    """The least finite value of a dtype."""
    return _limit(DataType(dtype), "min")


_finfo: Any = ml_dtypes.finfo


def _limit(dtype: DataType, which: str) -> IntImm | FloatImm:
    if dtype.is_integer or dtype.is_bool:
        return IntImm(dtype, int(dtype.max_value if which == "max" else dtype.min_value))
    if not dtype.is_float:
        raise TypeError(f"{which}_value: dtype {dtype!s} is not a number type")
    info: Any = _finfo(dtype.numpy())
    return FloatImm(dtype, float(getattr(info, which)))


def infinity(dtype: str, span: Any = None) -> FloatImm:
    """Positive infinity. Raises TypeError for a dtype that has none."""
    kind = DataType(dtype)
    if not kind.is_float or not math.isinf(kind.max_value):
        raise TypeError(f"infinity: dtype {kind!s} has no infinity")
    return FloatImm(kind, math.inf)


def nan(dtype: str = "float32") -> FloatImm:
    """Not-a-number of a floating-point dtype."""
    return FloatImm(DataType(dtype), math.nan)


__all__ = [
    "abs", "acos", "acosh", "address_of", "all", "any", "asin", "asinh", "assume", "atan", "atan2", "atanh",
    "bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "call_extern", "call_intrin", "call_packed",
    "call_pure_extern", "cast", "ceil", "ceildiv", "clz", "copysign", "cos", "cosh", "div", "erf", "erfc",
    "exp", "exp2", "exp10", "fabs", "floor", "floordiv", "floormod", "fmod", "hypot", "if_then_else",
    "indexdiv", "indexmod", "infinity", "is_pure", "isfinite", "isinf", "isnan", "likely", "log", "log1p",
    "log2", "log10", "logical_not", "max", "max_value", "min", "min_value", "nan", "nearbyint", "parallel_for",
    "popcount", "pow", "power", "reinterpret", "ret", "round", "rsqrt", "select", "shift_left", "shift_right",
    "sigmoid", "sin", "sinh", "sqrt", "tan", "tanh", "trunc", "truncdiv", "truncmod", "tvm_access_ptr",
    "type_annotation", "undef",
]  # fmt: skip
