"""The builders of intrinsics: dtype checks, folding, facts."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from relax.ir import GlobalVar, Op
from relax.prim import And, Call, FloatImm, IntImm, Not, Or, SizeVar, Var, const, evaluate, intrin, prove
from relax.tir import decl_buffer

x = Var("x", "float32")
y = Var("y", "float32")
i = Var("i", "int32")
p = Var("p", "bool")
n = SizeVar("n", "int64")

UNARY = [
    "exp", "exp2", "exp10", "log", "log2", "log10", "log1p", "tanh", "sigmoid", "sqrt", "rsqrt", "sin", "cos", "tan",
    "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "erf",
]  # fmt: skip


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_floats(name):
    build = getattr(intrin, name)
    call = build(x)
    assert isinstance(call, Call)
    assert (call.intrinsic, call.dtype, call.op) == (name, "float32", Op.get(f"tir.{name}"))
    assert build(Var("h", "float16x4")).dtype == "float16x4"
    reference = call.op.get_attr("numpy")
    for value in (0.25, 0.5, 1.0, 2.0, -0.5, math.nan):
        with np.errstate(all="ignore"):
            expected = np.float32(reference(np.float64(value)))
        found = evaluate(call, {x: value})
        assert found == expected or (math.isnan(found) and math.isnan(expected))
    with pytest.raises(TypeError, match=f"{name}: expected a floating-point operand, found int32; cast it first"):
        build(i)


def test_literals_become_floats():
    assert intrin.exp(1).args[0].dtype == "float32"
    assert intrin.power(x, 2).args[1].dtype == "float32"
    assert intrin.power(2, x).args[0].dtype == "float32"


@pytest.mark.parametrize("name", ["atan2", "pow", "fmod", "copysign", "hypot"])
def test_functions_of_two_floats(name):
    call = getattr(intrin, name)(x, y)
    assert evaluate(call, {x: 1.5, y: -2.0}) == np.float32(call.op.get_attr("numpy")(1.5, -2.0))
    with pytest.raises(TypeError, match=f"{name}: expected a floating-point operand"):
        getattr(intrin, name)(i, i)


@pytest.mark.parametrize(
    "name, values",
    [
        ("floor", {1.5: 1, -1.5: -2, 2.0: 2}),
        ("ceil", {1.5: 2, -1.5: -1}),
        ("trunc", {1.5: 1, -1.5: -1}),
        ("round", {0.5: 1, 1.5: 2, 2.5: 3, -0.5: -1, -2.5: -3, 0.49999997: 0}),
        ("nearbyint", {0.5: 0, 1.5: 2, 2.5: 2, -0.5: 0, -2.5: -2}),
    ],
)
def test_rounding(name, values):
    build = getattr(intrin, name)
    for value, expected in values.items():
        assert evaluate(build(x), {x: value}) == expected
        folded = build(FloatImm("float32", value))
        assert isinstance(folded, FloatImm)
        assert folded.value == expected
    assert build(i) is i
    assert math.isnan(build(FloatImm("float32", math.nan)).value)


def test_tests_of_floats():
    for name, values in {
        "isnan": (True, False, False),
        "isinf": (False, True, False),
        "isfinite": (False, False, True),
    }.items():
        build = getattr(intrin, name)
        for value, expected in zip((math.nan, math.inf, 1.0), values):
            assert evaluate(build(x), {x: value}) is expected
            assert build(const(value, "float32")).value == expected
    assert intrin.isnan(i).value == 0
    assert intrin.isfinite(i).value == 1


def test_abs():
    assert intrin.abs(const(-3)).value == 3
    assert intrin.abs(const(-128, "int8")).value == -128
    assert math.copysign(1, intrin.abs(const(-0.0, "float32")).value) == 1
    u = Var("u", "uint8")
    assert intrin.abs(u) is u
    assert evaluate(intrin.abs(i), {i: -4}) == 4
    with pytest.raises(TypeError, match="abs: expected a number, found handle"):
        intrin.abs(Var("h", "handle"))


def test_bits():
    assert intrin.popcount(const(-1, "int8")).value == 8
    assert intrin.popcount(const(-1, "int2")).value == -2  # what two bits make of 2
    narrow = Var("narrow", "int2")
    assert evaluate(intrin.popcount(narrow), {narrow: -1}) == -2
    assert prove(intrin.popcount(narrow) >= 0) is None
    assert intrin.clz(const(1, "int64")).value == 63
    assert intrin.clz(n).dtype == "int32"
    assert evaluate(intrin.popcount(i), {i: -1}) == 32
    assert evaluate(intrin.clz(i), {i: 0}) == 32
    with pytest.raises(TypeError, match="popcount: expected an integer, found float32"):
        intrin.popcount(x)


@pytest.mark.parametrize("a", range(-7, 8))
@pytest.mark.parametrize("b", [-3, -1, 1, 2, 3])
def test_divisions(a, b):
    assert intrin.truncdiv(const(a), b).value == int(a / b)
    assert intrin.truncmod(const(a), b).value == math.fmod(a, b)
    assert intrin.floordiv(const(a), b).value == a // b
    assert intrin.floormod(const(a), b).value == a % b
    assert evaluate(intrin.ceildiv(i, b), {i: a}) == -(-a // b)


def test_ceildiv_by_a_variable():
    j = Var("j", "int32")
    for a in range(-6, 7):
        for b in (-4, -1, 1, 3):
            assert evaluate(intrin.ceildiv(i, j), {i: a, j: b}) == -(-a // b)
    size = SizeVar("s", "int32")
    assert evaluate(intrin.ceildiv(i, size), {i: 7, size: 2}) == 4
    with pytest.raises(TypeError, match="ceildiv: expected integers"):
        intrin.ceildiv(x, y)


def test_divisions_are_checked():
    with pytest.raises(TypeError, match="truncdiv: expected integers; use / for floating point"):
        intrin.truncdiv(x, y)
    with pytest.raises(TypeError, match="floordiv: expected numbers, found bool"):
        intrin.floordiv(p, p)
    assert intrin.div(x, y).dtype == "float32"


def test_all_and_any():
    assert isinstance(intrin.all(p, i < 3), And)
    assert isinstance(intrin.any(p, i < 3), Or)
    assert intrin.all(p) is p
    assert intrin.all(True, p) is p
    assert intrin.all(False, p).value == 0
    assert intrin.any(True, p).value == 1
    assert intrin.all(True, True).value == 1
    assert isinstance(intrin.all(p, False), And)  # p is evaluated first, and may fail
    with pytest.raises(ValueError, match="all: no argument given"):
        intrin.all()
    with pytest.raises(TypeError, match="any: expected a bool condition, found int32"):
        intrin.any(i)


def test_if_then_else():
    assert intrin.if_then_else(True, i, 2) is i
    call = intrin.if_then_else(p, i, 2)
    assert call.dtype == "int32"
    assert call.args[2].dtype == "int32"
    with pytest.raises(TypeError, match="if_then_else: expected a bool condition, found int32"):
        intrin.if_then_else(i, i, i)


def test_logical_not_and_likely():
    assert isinstance(intrin.logical_not(p), Not)
    assert intrin.logical_not(True).value == 0
    assert evaluate(intrin.likely(p), {p: True}) is True


def test_extern_calls():
    call = intrin.call_extern("float32", "sinf", x)
    assert call.intrinsic == "call_extern"
    assert call.args[0].value == "sinf"
    assert not intrin.is_pure(call)
    assert intrin.is_pure(intrin.call_pure_extern("float32", "sinf", x))
    assert intrin.call_packed("my.func", i).dtype == "int32"


def test_reinterpret():
    assert evaluate(intrin.reinterpret("int32", x), {x: 1.0}) == 0x3F800000
    assert evaluate(intrin.reinterpret("float32", i), {i: 0x40000000}) == 2.0
    assert intrin.reinterpret("float32", x) is x
    with pytest.raises(TypeError, match="reinterpret: float32 and int64 differ in width"):
        intrin.reinterpret("int64", x)


def test_limits():
    assert intrin.max_value("int8").value == 127
    assert intrin.min_value("uint8").value == 0
    assert intrin.max_value("float32").value == np.finfo("float32").max
    assert intrin.min_value("bfloat16").value < -3e38
    assert intrin.infinity("float16").value == math.inf
    assert math.isnan(intrin.nan("float64").value)
    for dtype in ("float8_e4m3fn", "float4_e2m1fn"):
        with pytest.raises(TypeError, match=f"infinity: dtype {dtype} has no infinity"):
            intrin.infinity(dtype)
    with pytest.raises(TypeError, match="max_value: dtype handle is not a number type"):
        intrin.max_value("handle")


def test_call_intrin_by_name():
    assert intrin.call_intrin("float32", "tir.exp", x).intrinsic == "exp"
    assert isinstance(intrin.call_intrin("int32", "popcount", 3).args[0], IntImm)
    with pytest.raises(KeyError, match="tir.expp"):
        intrin.call_intrin("float32", "expp", x)


def test_every_intrinsic_says_what_it_is():
    for name in Op.list_op_names():
        if name.startswith("tir.") and Op.get(name).has_attr("effect"):
            assert Op.get(name).get_attr("effect") in ("pure", "opaque")


def test_division_of_indices():
    assert evaluate(intrin.indexdiv(n, 4), {n: 7}) == 1
    assert evaluate(intrin.indexmod(n, 4), {n: 7}) == 3


def test_builders_of_bits_and_choices():
    assert evaluate(intrin.bitwise_or(n, 1), {n: 6}) == 7
    assert evaluate(intrin.bitwise_xor(n, 3), {n: 6}) == 5
    assert evaluate(intrin.bitwise_not(n), {n: 6}) == -7
    assert evaluate(intrin.select(p, n, 3), {p: False, n: 6}) == 3
    assert evaluate(intrin.bitwise_and(n, 3), {n: 6}) == 2


def test_calls_by_name():
    assert intrin.call_intrin("float32", "tir.exp", x).op is intrin.call_intrin("float32", Op.get("tir.exp"), x).op
    assert intrin.call_intrin("float32", "exp", x).intrinsic == "exp"
    assert intrin.power(2, 0.5).dtype == "float32"


EXTREMES = {
    "float64": [float("inf"), -float("inf"), float("nan"), 1e308, -1e308, 5e-324, 0.0, -0.0, 2.5],
    "float32": [float("inf"), float("nan"), 3e38, 1e-45, 0.0],
    "float16": [float("inf"), 65504.0, float("nan"), 0.0],
    "int64": [0, -1, 2**63 - 1, -(2**63)],
    "int8": [0, -1, 127, -128],
    "uint64": [0, 2**64 - 1],
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("dtype", EXTREMES)
def test_folding_warns_of_nothing(dtype):
    """NumPy warns of inf - inf and of overflow; folding says what comes out of it, or declines."""
    values = [const(value, dtype) for value in EXTREMES[dtype]]
    for name in intrin.__all__:
        for count in (1, 2, 3):
            for args in itertools.product(values, repeat=count):
                try:
                    getattr(intrin, name)(*args)
                except (TypeError, ValueError, ZeroDivisionError, OverflowError, AttributeError, KeyError):
                    continue


def test_rounding_infinities():
    for value in (float("inf"), -float("inf")):
        for name in ("round", "floor", "ceil", "trunc", "nearbyint"):
            assert getattr(intrin, name)(const(value, "float64")).value == value
    assert math.isnan(intrin.round(const(float("nan"), "float64")).value)


def test_the_end_of_a_function_has_the_dtype_of_its_value():
    assert (intrin.ret(x).dtype, intrin.ret(x).args) == ("float32", (x,))


def test_pointers_say_what_they_point_to():
    data = Var("data", "handle")
    pointer = intrin.tvm_access_ptr("float16", data, 0, 8, 1)
    assert (pointer.dtype, pointer.args[0].dtype) == ("handle", "float16")
    again = intrin.tvm_access_ptr(pointer.args[0], data, 0, 8, 1)
    assert again.args[0] is pointer.args[0]
    element = decl_buffer((4,), "float16", "A")[2]
    assert (intrin.address_of(element).dtype, intrin.address_of(element).args) == ("handle", (element,))
    with pytest.raises(TypeError, match="address_of: expected an element of a buffer, found x"):
        intrin.address_of(x)


def test_a_range_in_parts():
    call = Call("", GlobalVar("part"), (const(0, "int32"), n))
    parts = intrin.parallel_for(call, 2)
    assert parts.args[0] is call
    assert parts.args[1].value == 2
    for wrong in (n, Call("", GlobalVar("part"), (n,)), Call("", GlobalVar("part"), (x, x))):
        with pytest.raises(TypeError, match=r"parallel_for: expected a call f\(begin, end, ...\)"):
            intrin.parallel_for(wrong, 0)
