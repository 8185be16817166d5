"""Formulas that are less exact than the operators: the bounds they state."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import relax
from relax import te
from relax.codegen import build_module
from relax.ir import DataType


def kernel(dtype):
    x = te.placeholder((relax.tir.Var("n", "int64"),), dtype, "x")
    return te.create_prim_func([x, relax.topi.fast_tanh(x)])


def computed(dtype, x):
    found = np.empty_like(x)
    build_module({"f": kernel(dtype)})["f"](x, found)
    return found


def test_fast_tanh_over_all_of_float32():
    """Every 4999th float, of either sign: all exponents, 1700 of each."""
    bits = np.arange(0, 2**32, 4999, dtype="uint32")
    x = bits.view("float32")
    found = computed("float32", x)
    with np.errstate(invalid="ignore"):
        exact = np.tanh(x.astype("float64"))
    np.testing.assert_array_equal(np.isnan(found), np.isnan(x))
    number = ~np.isnan(x)
    found, exact = found[number].astype("float64"), exact[number]
    step = np.spacing(np.nextafter(np.abs(exact).astype("float32"), np.float32(0))).astype("float64")
    assert (np.abs(found - exact) / step).max() <= 8
    assert np.abs(found).max() <= 1
    np.testing.assert_array_equal(np.signbit(found), np.signbit(exact))


def test_fast_tanh_of_limits():
    x = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, 3e38], "float32")
    expected = np.array([np.nan, 1, -1, 0.0, -0.0, 1e-45, 1], "float32")
    found, interpreted = computed("float32", x), np.empty_like(x)
    relax.tir.interpret(kernel("float32"), x, interpreted)
    for values in (found, interpreted):
        np.testing.assert_allclose(values, expected, rtol=4e-7)
        np.testing.assert_array_equal(np.signbit(values[1:]), np.signbit(expected[1:]))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_fast_tanh_of_narrow_floats(dtype):
    """Every value."""
    kind = DataType(dtype).numpy()
    x = np.arange(1 << (8 * kind.itemsize)).astype(f"u{kind.itemsize}").view(kind)
    found = computed(dtype, x).astype("float64")
    with np.errstate(invalid="ignore"):
        exact = np.tanh(x.astype("float64"))
    np.testing.assert_array_equal(np.isnan(found), np.isnan(exact))
    found, exact = found[~np.isnan(exact)], exact[~np.isnan(exact)]
    info = ml_dtypes.finfo(kind)
    step = np.ldexp(1.0, np.frexp(exact)[1] - int(info.nmant) - 1)
    assert (np.abs(found - exact) / np.maximum(step, float(info.smallest_subnormal))).max() <= 1


def test_fast_tanh_of_float64_is_exact():
    x = np.linspace(-30, 30, 1001)
    np.testing.assert_allclose(computed("float64", x), np.tanh(x), rtol=1e-15)


@pytest.mark.parametrize("size", [0, 1, 7])
def test_fast_tanh_of_any_number_of_elements(size):
    x = np.linspace(-2, 2, size, dtype="float32")
    np.testing.assert_allclose(computed("float32", x), np.tanh(x), rtol=1e-6)
