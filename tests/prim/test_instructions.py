"""Calls of instructions: the operands they take, and multiply-adds that round once."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from relax.ir import DataType
from relax.prim import Var, const
from relax.prim import instructions as instr

WORDS = Var("w", "int32x4")
SUMS = {"u8s8": "int32x4", "u7s8": "int32x4", "s8s8": "int32x4", "s16s16": "int32x4", "bf16": "float32x4"}


@pytest.mark.parametrize("kind", SUMS)
def test_dot_products_have_the_dtype_of_their_sums(kind):
    call = getattr(instr, f"dot_{kind}")(Var("s", SUMS[kind]), WORDS, WORDS)
    assert (str(call.dtype), call.op.name) == (SUMS[kind], f"tir.dot_{kind}")


@pytest.mark.parametrize(
    ("total", "words"), [("float32x4", "int32x4"), ("int32x4", "int8x4"), ("int32x8", "int32x4")], ids=str
)
def test_dot_products_of_other_dtypes_are_refused(total, words):
    with pytest.raises(TypeError, match="dot_u8s8: expected int32, int32 and int32 of as many lanes, found"):
        instr.dot_u8s8(Var("s", total), Var("a", words), WORDS)


def test_products_of_tiles_take_addresses():
    address, distance = Var("p", "handle"), const(16, "int64")
    call = instr.tile_dot("bf16", *[address, distance] * 3, 4, 4, 1)
    assert call.op.name == "tir.tile_dot_bf16"
    assert [str(arg.dtype) for arg in call.args] == ["handle", "int64"] * 3 + ["int64"] * 3
    with pytest.raises(TypeError, match="tile_dot_bf16: expected addresses of the matrices"):
        instr.tile_dot("bf16", distance, distance, address, distance, address, distance, 4, 4, 1)


@pytest.mark.parametrize("name", ["add", "mul", "max", "min"])
def test_reductions_of_lanes(name):
    reduce = getattr(instr, f"vector_reduce_{name}")
    assert str(reduce(Var("v", "float32x8")).dtype) == "float32"
    assert reduce(Var("x", "int32")).name == "x"
    with pytest.raises(TypeError, match="expected a power of two lanes, found 6"):
        reduce(Var("v", "float32x6"))
    with pytest.raises(TypeError, match="expected a vector of integers, float32 or float64, found float16x8"):
        reduce(Var("v", "float16x8"))


@pytest.mark.parametrize("name", ["and", "or"])
def test_reductions_of_conditions(name):
    reduce = getattr(instr, f"vector_reduce_{name}")
    assert str(reduce(Var("v", "boolx8")).dtype) == "bool"
    with pytest.raises(TypeError, match="expected a vector of bool, found int32x8"):
        reduce(Var("v", "int32x8"))


def test_multiply_adds_of_other_dtypes_are_refused():
    x = Var("x", "float32x4")
    assert str(instr.fma(x, x, x).dtype) == "float32x4"
    with pytest.raises(TypeError, match="fma: expected three float32 or float64 of as many lanes, found float16"):
        instr.fma(Var("h", "float16"), Var("h", "float16"), Var("h", "float16"))


def test_prefetches_take_an_element():
    with pytest.raises(TypeError, match="prefetch: expected an element of a buffer, found x"):
        instr.prefetch(Var("x", "float32"))


def fused(dtype, *numbers):
    return instr.fused(DataType(dtype), *numbers)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_multiply_adds_round_once(dtype):
    """Numbers whose product needs twice the digits: rounding it first gives another sum."""
    kind = np.dtype(dtype).type
    unit = float(np.finfo(kind).eps)
    a, c = 1.0 + unit, -(1.0 + 2 * unit)
    assert fused(dtype, a, a, c) == unit * unit
    rng = np.random.default_rng(0)
    for a, b, c in rng.standard_normal((200, 3)).astype(kind).tolist():
        value, exact = fused(dtype, a, b, c), Fraction(a) * Fraction(b) + Fraction(c)
        below, above = (float(np.nextafter(kind(value), kind(side))) for side in (-math.inf, math.inf))
        assert abs(Fraction(value) - exact) <= min(abs(Fraction(below) - exact), abs(Fraction(above) - exact))


def test_multiply_adds_at_the_ends_of_the_range():
    greatest = float(np.finfo("float32").max)
    assert fused("float32", greatest, 2.0, 0.0) == math.inf
    assert fused("float32", -greatest, 2.0, 0.0) == -math.inf
    assert fused("float32", 2.0**-75, 2.0**-75, 0.0) == 0.0
    assert fused("float32", 2.0**-74, 2.0**-75, 0.0) == 2.0**-149
    assert math.isnan(fused("float32", math.inf, 0.0, 1.0))
    assert fused("float32", 1.0, math.inf, 1.0) == math.inf


def test_zeros_have_the_sign_of_the_sum():
    assert math.copysign(1.0, fused("float64", -0.0, 1.0, -0.0)) == -1.0
    assert math.copysign(1.0, fused("float64", 3.0, 2.0, -6.0)) == 1.0
