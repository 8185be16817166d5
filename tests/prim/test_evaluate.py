"""What scalar expressions compute."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest

from relax.info.dims import simplify_dim
from relax.ir import DataType
from relax.prim import (
    EQ,
    LT,
    NE,
    Add,
    And,
    Call,
    Cast,
    Div,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Max,
    Min,
    Mod,
    Mul,
    Or,
    Select,
    StringImm,
    Sub,
    Var,
    const,
    evaluate,
    intrin,
)

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float16", "float32", "float64", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float4_e2m1fn"]


def pair(dtype: str) -> tuple[Var, Var]:
    return Var("a", dtype), Var("b", dtype)


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize(
    "cls, reference",
    [
        (Add, np.add),
        (Sub, np.subtract),
        (Mul, np.multiply),
        (FloorDiv, np.floor_divide),
        (FloorMod, np.mod),
        (Min, np.minimum),
        (Max, np.maximum),
        (LT, np.less),
    ],
)
def test_integer_arithmetic_is_numpys(dtype, cls, reference):
    a, b = pair(dtype)
    info = np.iinfo(dtype)
    values = sorted({info.min, info.min + 1, info.max, info.max - 1, 0, 1, 2, 7, *([-1, -3] if info.min else [])})
    for left in values:
        for right in values:
            if right == 0 and cls in (FloorDiv, FloorMod):
                continue
            with np.errstate(all="ignore"):
                expected = reference(np.array([left], dtype), np.array([right], dtype))[0]
            assert evaluate(cls(a, b), {a: left, b: right}) == expected, (left, right)


@pytest.mark.parametrize(
    "a, b, quotient, rest", [(7, 2, 3, 1), (-7, 2, -3, -1), (7, -2, -3, 1), (-7, -2, 3, -1), (-128, -1, -128, 0)]
)
def test_truncated_division(a, b, quotient, rest):
    x, y = pair("int8")
    assert evaluate(Div(x, y), {x: a, y: b}) == quotient
    assert evaluate(Mod(x, y), {x: a, y: b}) == rest


@pytest.mark.parametrize("cls", [Div, Mod, FloorDiv, FloorMod])
def test_division_by_zero_names_the_expression(cls):
    x, y = pair("int64")
    with pytest.raises(ZeroDivisionError, match="division by zero in"):
        evaluate(1 + cls(x, y), {x: 1, y: 0})


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("cls, reference", [(Add, np.add), (Mul, np.multiply), (Div, np.divide), (Sub, np.subtract)])
def test_floats_are_rounded_after_every_operation(dtype, cls, reference):
    a, b = pair(dtype)
    for left in (1.0, 1 / 3, -2.5, 0.0, -0.0, 100.0):
        for right in (3.0, 0.1, -1.0, 0.0):
            np_dtype = a.dtype.numpy()
            with np.errstate(all="ignore"):
                rounded = np.array([left]).astype(np_dtype), np.array([right]).astype(np_dtype)
                exact = reference(*(r.astype(np.float64) for r in rounded))
                expected = float(exact.astype(np_dtype)[0])
            found = evaluate(cls(Cast(dtype, FloatImm("float64", left)), b), {b: float(rounded[1][0])})
            assert found == expected or (math.isnan(found) and math.isnan(expected)), (left, right)


def test_nan_in_comparisons_minima_and_maxima():
    a, b = pair("float32")
    env = {a: math.nan, b: 1.0}
    assert evaluate(LT(a, b), env) is False
    assert evaluate(EQ(a, a), env) is False
    assert evaluate(NE(a, a), env) is True
    for cls in (Min, Max):
        assert math.isnan(evaluate(cls(a, b), env))
        assert math.isnan(evaluate(cls(b, a), env))


def test_only_what_is_needed_is_evaluated():
    x = Var("x", "int64")
    fails = EQ(x // 0, 1)
    env = {x: 1}
    assert evaluate(And(x < 0, fails), env) is False
    assert evaluate(Or(x > 0, fails), env) is True
    assert evaluate(intrin.if_then_else(x > 0, x, x // 0), env) == 1
    assert evaluate(Select(x > 0, x, x // 0), env) == 1
    with pytest.raises(ZeroDivisionError):
        evaluate(And(x > 0, fails), env)


@pytest.mark.parametrize(
    "value, dtype, expected",
    [
        (3.9, "int32", 3),
        (-3.9, "int32", -3),
        (1e30, "int32", 2**31 - 1),
        (-1e30, "int32", -(2**31)),
        (1e30, "int64", 2**63 - 1),
        (-1.0, "uint8", 0),
        (math.nan, "int32", 0),
        (math.inf, "int8", 127),
        (0.5, "bool", True),
        (math.nan, "bool", True),
        (0.1, "float16", float(np.float16(0.1))),
        (0.1, "bfloat16", float(ml_dtypes.bfloat16(0.1))),
        (1e30, "float16", math.inf),
    ],
)
def test_casts_of_floats(value, dtype, expected):
    x = Var("x", "float64")
    assert evaluate(Cast(dtype, x), {x: value}) == expected


@pytest.mark.parametrize(
    "value, dtype, expected", [(300, "int8", 44), (-1, "uint8", 255), (5, "bool", True), (1, "float32", 1.0)]
)
def test_casts_of_integers(value, dtype, expected):
    x = Var("x", "int32")
    assert evaluate(Cast(dtype, x), {x: value}) == expected


def test_let_binds_its_body_only():
    x, t = pair("int64")
    assert evaluate(Let(t, x + 1, t * t), {x: 2}) == 9
    assert evaluate(Let(t, t + 1, t * t), {t: 2}) == 9


def test_shifts_beyond_the_width():
    x, s = pair("int8")
    for amount, left, right in ((0, -5, -5), (1, -10, -3), (7, -128, -1), (8, 0, -1), (-1, 0, -1)):
        env = {x: -5, s: amount}
        assert evaluate(x << s, env) == left
        assert evaluate(x >> s, env) == right


def test_shifts_of_unsigned_numbers_keep_all_their_digits():
    x, s = pair("uint64")
    for amount, right in ((0, 2**64 - 1), (1, 2**63 - 1), (63, 1), (64, 0), (2**64 - 1, 0)):
        assert evaluate(x >> s, {x: 2**64 - 1, s: amount}) == right
    assert evaluate(x << s, {x: 2**64 - 1, s: 1}) == 2**64 - 2


@pytest.mark.parametrize("dtype", [*INTEGERS, "int4", "uint2"])
@pytest.mark.parametrize(
    "name", ["bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "shift_left", "shift_right"]
)
def test_operations_on_bits_are_those_of_arrays(name, dtype):
    kind = DataType(dtype)
    low, high = int(kind.min_value), int(kind.max_value)
    drawn = np.random.default_rng(0).random(8)
    values = sorted({low, high, 0, 1, max(low, -1), high // 3, *(int(low + part * (high - low)) for part in drawn)})
    x, s = Var("x", dtype), Var("s", dtype)
    operands = (x,) if name == "bitwise_not" else (x, s)
    call = Call(dtype, f"tir.{name}", operands)
    on_arrays = call.op.get_attr("numpy")
    for a in values:
        for b in values:
            expected = on_arrays(*(np.array(value, kind.numpy()) for value in (a, b)[: len(operands)]))
            assert evaluate(call, {x: a, s: b}) == int(np.asarray(expected).astype(kind.numpy()))


def test_what_has_no_value_says_so():
    x = Var("x", "int32")
    with pytest.raises(KeyError, match="the variable x has no value"):
        evaluate(x + 1)
    with pytest.raises(TypeError, match="has no value outside of a running program"):
        evaluate(intrin.call_extern("int32", "rand"))
    with pytest.raises(TypeError, match="has no value outside of a running program"):
        evaluate(Call("int32", "tir.something_new", (x,)), {x: 1})


def test_values_given_are_converted_to_the_dtype():
    x, f = Var("x", "uint8"), Var("f", "float16")
    assert evaluate(x + 0, {x: 256 + 3}) == 3
    assert evaluate(f * 1.0, {f: 0.1}) == float(np.float16(0.1))
    assert evaluate(const(0.1, "float16")) == float(np.float16(0.1))


def test_what_has_no_value():
    with pytest.raises(TypeError, match="a StringImm has no value outside of a running program"):
        evaluate(StringImm("text"))
    with pytest.raises(TypeError, match="a scalar has no value as handle"):
        evaluate(Cast("handle", const(1)))
    n = Var("n", "int64")
    with pytest.raises(KeyError, match="the variable n has no value"):
        evaluate(n + 1)


def test_sizes_that_do_not_fit():
    n, i = Var("n", "int64"), Var("i", "int32")
    assert evaluate(n * 2, {n: 2**62}) == -(2**63)
    with pytest.raises(OverflowError, match="a size does not fit into 64 bits"):
        evaluate(n * 2, {n: 2**62}, checked=True)
    assert evaluate(i * 2, {i: 2**30}, checked=True) == -(2**31)
    assert evaluate(n * 2, {n: 3}, checked=True) == 6


def test_constants_that_leave_64_bits_have_no_value_yet():
    """As sizes they are an error when they are computed; elsewhere, and in other dtypes, they wrap around."""
    for dtype, great in (("int64", 2**62), ("int32", 2**30), ("uint8", 2**7)):
        product = IntImm(dtype, great) * IntImm(dtype, 4)
        assert isinstance(product, IntImm) is (dtype != "int64")
        assert evaluate(product) == 0
    great = IntImm("int64", 2**62) * IntImm("int64", 4)
    with pytest.raises(OverflowError, match="a size does not fit into 64 bits: .*4611686018427387904"):
        evaluate(great, checked=True)
    with pytest.raises(OverflowError):
        evaluate(simplify_dim(great), checked=True)
