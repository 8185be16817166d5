"""Scalar and short vector expressions to LLVM values: a table for regular operations, a short match for others.

Integers wrap around, floats are rounded after every operation. Operands that may fail are evaluated only when needed:
`Select`, ``if_then_else``, `And` and `Or` branch if an operand may fail, and are straight-line code otherwise.
"""

from __future__ import annotations

from typing import Final, cast

from ..native.builder import vector
from ..native.formula import Val, broadcast, signed, suffix
from ..native.types import check_lanes, element_type, is_small_float
from ..prim import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    BinaryExpr,
    Cast,
    CompareExpr,
    Div,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    LogicExpr,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    PrimExpr,
    Select,
    StringImm,
    Sub,
)
from ..prim.intervals import dtype_range
from ..prim.traits import has_effects
from ..runtime.rounding import round_number
from ..tir import Broadcast, Ramp, Reduce, Shuffle
from . import division
from .choice import choice, either, needs_care
from .context import Context, Rule
from .convert import convert, one_of, rounded
from .exact import exact

# ------------------------------------------------------------------------------------ arithmetic

_FLOAT_OPS: Final[dict[type, str]] = {Add: "fadd", Sub: "fsub", Mul: "fmul", Div: "fdiv", Mod: "frem"}
_INT_OPS: Final[dict[type, str]] = {Add: "add", Sub: "sub", Mul: "mul"}
_BOOL_OPS: Final[dict[type, str]] = {Add: "or", Sub: "xor", Mul: "and", Max: "or", Min: "and"}
_FLOAT_COMPARE: Final[dict[type, str]] = {
    EQ: "oeq", NE: "une", LT: "olt", LE: "ole", GT: "ogt", GE: "oge"
}  # fmt: skip
_INT_COMPARE: Final[dict[type, str]] = {EQ: "eq", NE: "ne", LT: "lt", LE: "le", GT: "gt", GE: "ge"}
_COUNTED: Final = (("i32", 16), ("i16", 32), ("i8", 127), ("i16", 1 << 14))
"""(Type of lane counts, maximum number of lanes): vectors of 512 bits as far as the counts fit."""
_MOST_COUNTED: Final = max(most for _, most in _COUNTED)


def _binary(cx: Context, expr: PrimExpr) -> Val:
    expr = cast(BinaryExpr, expr)
    dtype, kind = expr.a.dtype, type(expr)
    if dtype.is_integer and kind in division.KINDS:
        return division.divide(cx, expr, cx.value(expr.a), cx.value(expr.b))
    a, b = cx.value(expr.a), cx.value(expr.b)
    if dtype.is_float:
        return _float_binary(cx, expr, a, b)
    op = (_BOOL_OPS if dtype.is_bool else _INT_OPS).get(kind)
    if op is not None and cx.exact and dtype == "int64":
        return exact(cx, op, a, b, expr)
    if op is not None:
        return a.integer(op, a.ref, b.ref)
    if kind in (Min, Max) and dtype.is_integer:
        return a.intrinsic(f"{'u' if dtype.is_uint else 's'}{'min' if kind is Min else 'max'}", b)
    cx.report("E5904", f"{kind.__name__} is not defined for {dtype!s}", expr)
    return cx.anything(expr.dtype)


def _float_binary(cx: Context, expr: BinaryExpr, a: Val, b: Val) -> Val:
    kind = type(expr)
    if kind in (Min, Max):
        # The sign of a zero is not specified, as in NumPy; nsz lets it be one or two instructions.
        return one_of(cx, expr.dtype, nan_extremum(a, b, "minimum" if kind is Min else "maximum"))
    if kind in (FloorDiv, FloorMod):
        quotient, remainder = division.floor_divide_floats(a, b)
        return rounded(cx, expr.dtype, quotient if kind is FloorDiv else remainder)
    flags = cx.flags.get(expr, "")
    return rounded(cx, expr.dtype, a.make(f"{_FLOAT_OPS[kind]} {flags}{a.full_type} {a.ref}, {b.ref}"))


def nan_extremum(a: Val, b: Val, name: str) -> Val:
    """Minimum or maximum of two floats; NaN if either is NaN."""
    t = a.full_type
    function = a.b.module.intrinsic(f"llvm.{name}.{suffix(a.type, a.lanes)}", t, t, t)
    return a.make(f"call nsz {t} {function}({t} {a.ref}, {t} {b.ref})")


def _compare(cx: Context, expr: PrimExpr) -> Val:
    expr = cast(CompareExpr, expr)
    dtype, kind = expr.a.dtype, type(expr)
    lanes = _first_lanes(cx, expr)
    if lanes is not None:
        return lanes
    a, b = cx.value(expr.a), cx.value(expr.b)
    order = _INT_COMPARE[kind]
    sign = "" if kind in (EQ, NE) else ("s" if dtype.is_int else "u")
    return a.compare(_FLOAT_COMPARE[kind], sign + order, b)


def _first_lanes(cx: Context, expr: CompareExpr) -> Val | None:
    """Mask of consecutive int64 lanes below (LT) or not below (GE) a bound; None for other comparisons.

    The mask is a prefix of the lanes or its complement. Counting lanes takes few scalar instructions and a compare of
    narrow integers; comparing 16 int64 lanes would take two vector registers.
    """
    match expr:
        case LT(Ramp(base, IntImm(_, 1), lanes), Broadcast(bound)) | GE(
            Ramp(base, IntImm(_, 1), lanes), Broadcast(bound)
        ) if base.dtype == "int64" and lanes <= _MOST_COUNTED:
            low, high = cx.facts.interval(base)
        case _:
            return None
    if high + lanes > dtype_range(base.dtype)[1]:
        return None
    if isinstance(bound, IntImm) and isinstance(expr, GE) and low >= bound.value:
        return cx.constant(expr.dtype, True)
    first = cx.value(base)
    count = cx.value(bound).intrinsic("smax", first).intrinsic("smin", first + lanes) - first
    type_ = next(type_ for type_, most in _COUNTED if lanes <= most)
    numbers = ", ".join(f"{type_} {lane}" for lane in range(lanes))
    order = "slt" if isinstance(expr, LT) else "sge"
    return Val(cx.b, type_, lanes, f"<{numbers}>").compare("", order, broadcast(count.to(type_), lanes))


# ------------------------------------------------------------------------------------ logic and choice


def _logic(cx: Context, expr: PrimExpr) -> Val:
    expr = cast(LogicExpr, expr)
    decided = isinstance(expr, Or)
    a = cx.value(expr.a)
    if expr.dtype.lanes > 1 or not needs_care(cx, expr.b):
        with cx.facts.condition(expr.a, not decided), cx.sometimes():
            b = cx.value(expr.b)
        return a.integer("or" if decided else "and", a.ref, b.ref)
    outcome, stable = a.constant(decided), not has_effects(expr)
    if decided:
        return either(cx, expr.a, a, lambda: outcome, lambda: cx.value(expr.b), stable)
    return either(cx, expr.a, a, lambda: cx.value(expr.b), lambda: outcome, stable)


def _not(cx: Context, expr: PrimExpr) -> Val:
    a = cx.value(cast(Not, expr).a)
    return a ^ 1 if a.lanes == 1 else a.make(f"xor {a.full_type} {a.ref}, splat (i1 true)")


def _select(cx: Context, expr: PrimExpr) -> Val:
    expr = cast(Select, expr)
    return choice(cx, expr.condition, expr.true_value, expr.false_value)


def _let(cx: Context, expr: PrimExpr) -> Val:
    expr = cast(Let, expr)
    with cx.bound(expr.var, expr.value):
        return cx.value(expr.body)


# ------------------------------------------------------------------------------------ the rest


def _float_constant(cx: Context, expr: PrimExpr) -> Val:
    expr = cast(FloatImm, expr)
    number = expr.value
    if is_small_float(expr.dtype):
        number = round_number(number, expr.dtype.element_of)
    return cx.constant(expr.dtype, number)


def _cast(cx: Context, expr: PrimExpr) -> Val:
    expr = cast(Cast, expr)
    return convert(cx, cx.value(expr.value), expr.value.dtype, expr.dtype)


def _ramp(cx: Context, expr: PrimExpr) -> Val:
    expr = cast(Ramp, expr)
    type_, base = element_type(expr.dtype), cx.value(expr.base)
    stride = expr.stride.value if isinstance(expr.stride, IntImm) else 1
    numbers = ", ".join(f"{type_} {signed(i * stride, expr.dtype.bits)}" for i in range(expr.lanes))
    steps = Val(cx.b, type_, expr.lanes, f"<{numbers}>")
    if not isinstance(expr.stride, IntImm):
        strides = broadcast(cx.value(expr.stride), expr.lanes)
        steps = steps.make(f"mul {steps.full_type} {strides.ref}, {steps.ref}")
    return steps if base.ref == "0" else broadcast(base, expr.lanes) + steps


def _broadcast(cx: Context, expr: PrimExpr) -> Val:
    expr = cast(Broadcast, expr)
    element_type(expr.dtype)  # refuses vectors that are too long
    return broadcast(cx.value(expr.value), expr.lanes)


def _shuffle(cx: Context, expr: PrimExpr) -> Val:
    expr = cast(Shuffle, expr)
    chosen = [index.value for index in expr.indices]
    check_lanes(expr.dtype)
    parts = [cx.value(vector) for vector in expr.vectors]
    places = [(part, lane) for part in parts for lane in range(part.lanes)]
    if len(chosen) == 1:
        return _one_lane(*places[chosen[0]])
    if len(parts) <= 2 and all(part.lanes == parts[0].lanes > 1 for part in parts):
        a, b = parts[0], parts[-1]
        lanes = ", ".join(f"i32 {i}" for i in chosen)
        mask = f"<{len(chosen)} x i32> <{lanes}>"
        text = f"shufflevector {a.full_type} {a.ref}, {b.full_type} {b.ref}, {mask}"
        return Val(cx.b, a.type, len(chosen), cx.b.op(text))
    result, type_ = "poison", vector(parts[0].type, len(chosen))
    for at, index in enumerate(chosen):
        one = _one_lane(*places[index])
        result = cx.b.op(f"insertelement {type_} {result}, {one.type} {one.ref}, i64 {at}")
    return Val(cx.b, parts[0].type, len(chosen), result)


def _one_lane(value: Val, lane: int) -> Val:
    if value.lanes == 1:
        return value
    return Val(value.b, value.type, 1, value.b.op(f"extractelement {value.full_type} {value.ref}, i64 {lane}"))


def _string(cx: Context, expr: PrimExpr) -> Val:
    return Val(cx.b, "ptr", 1, cx.b.module.string(cast(StringImm, expr).value))


def _reduce(cx: Context, expr: PrimExpr) -> Val:
    cx.report(
        "E5904", "a Reduce is no scalar expression; make a PrimFunc with te.create_prim_func first", cast(Reduce, expr)
    )
    return cx.anything(expr.dtype)


RULES: Final[dict[type, Rule]] = {
    **dict.fromkeys((Add, Sub, Mul, Div, Mod, FloorDiv, FloorMod, Min, Max), _binary),
    **dict.fromkeys((EQ, NE, LT, LE, GT, GE), _compare),
    And: _logic, Or: _logic, Not: _not, Select: _select, Let: _let, FloatImm: _float_constant, Cast: _cast,
    Ramp: _ramp, Broadcast: _broadcast, Shuffle: _shuffle, StringImm: _string, Reduce: _reduce,
}  # fmt: skip
