"""Reciprocals of scales: where products with them are proved to round to the same integers as quotients."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import relax
from relax import op
from relax.codegen import resolve
from relax.ir import DataType
from relax.op.qdq import Quantize
from relax.op.reciprocals import by_reciprocal, fused, reciprocal
from relax.script import relax as R
from support import PLAIN_LOOPS

rng = np.random.default_rng(5)
SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 3e38, -3e38, 1e-45], "float32")
CASES = [(0.0361, 124, "uint8"), (0.125, 0, "uint8"), (1.0, 255, "uint8"), (0.0123, -5, "int8"), (7e-6, 127, "int8")]


def near_halves(scale: float, zero: int, dtype: str) -> np.ndarray:
    """The floats about each number where the integer changes, random bits, and what is no number."""
    info = np.iinfo(dtype)
    halves = (np.arange(info.min - zero - 3, info.max - zero + 3) + 0.5) * np.float32(scale)
    lines = [halves.astype("float32")]
    for _ in range(3):
        lines = [np.nextafter(lines[0], np.float32(-np.inf)), *lines, np.nextafter(lines[-1], np.float32(np.inf))]
    bits = rng.integers(0, 2**32, 5000, dtype=np.uint32).view("float32")
    return np.concatenate([*lines, bits, SPECIAL])


def quantized(scale: float, zero: int, dtype: str) -> relax.IRModule:
    """A function that quantises a vector."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor(("n",), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            parameters = relax.const(np.float32(scale)), relax.const(np.array(zero, dtype))
            result = builder.emit_output(op.quantize(x, *parameters, out_dtype=dtype))
        builder.emit_func_output(result)
    return builder.get()


@pytest.mark.filterwarnings("ignore:(overflow|invalid value|divide by zero) encountered")
@pytest.mark.parametrize(("scale", "zero", "dtype"), CASES)
def test_the_integers_of_the_quotient(scale, zero, dtype):
    machine = relax.VirtualMachine(relax.build(quantized(scale, zero, dtype), PLAIN_LOOPS), relax.cpu())
    data = near_halves(scale, zero, dtype)
    expected = Quantize(out_dtype=DataType(dtype)).evaluate(data, np.array(scale, "float32"), np.array(zero, dtype))
    for size in (0, 1, 17, data.size):
        actual = machine["main"](relax.nd.array(data[:size])).numpy()
        np.testing.assert_array_equal(actual, expected[:size])


@pytest.mark.parametrize(("scale", "is_divided"), [(0.0361, False), (1 - 2.0**-24, True), (2.0**-61, True)])
def test_a_scale_without_a_reciprocal_divides(scale, is_divided):
    with resolve("llvm"):
        script = relax.transform.LegalizeOps()(quantized(scale, 3, "uint8")).script()
    assert ("T.fma(" in script) != is_divided
    assert (" / " in script) == is_divided


def test_a_machine_without_fma_divides():
    with resolve("llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64"):
        script = relax.transform.LegalizeOps()(quantized(0.0361, 3, "uint8")).script()
    assert "T.fma(" not in script
    assert " / " in script


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_the_proof_is_about_all_floats(dtype):
    """Quotients of random floats of any size round to what it says, for scales and zero points that have a pair."""
    limits = DataType(dtype)
    data = rng.integers(0, 2**32, 20000, dtype=np.uint32).view("float32")
    data = data[~np.isnan(data)]
    for _ in range(20):
        scale, zero = np.float32(rng.random() + 1e-3), int(rng.integers(limits.min_value, limits.max_value))
        pair = reciprocal(scale, zero, limits)
        assert pair is not None
        assert pair.min() > 0
        values = np.concatenate([data, (data.view("uint32") % 2**16).astype("float32") * scale / 256])
        with np.errstate(over="ignore"):
            quotients = [np.rint(values / scale), np.rint(by_reciprocal(values, pair))]
        first, second = (np.clip(q + zero, limits.min_value, limits.max_value) for q in quotients)
        np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize(
    ("scale", "dtype"),
    [(0.0, "int8"), (-0.5, "int8"), (np.nan, "int8"), (np.inf, "int8"), (1e-30, "int8"), (0.1, "int16")],
)
def test_declines(scale, dtype):
    assert reciprocal(np.float32(scale), 0, DataType(dtype)) is None


def test_a_sum_is_rounded_once():
    x = rng.standard_normal(500).astype("float32")
    addend = (rng.standard_normal(500) * 2.0 ** rng.integers(-30, 5, 500)).astype("float32")
    factor = np.float32(29.090908)
    for a, b, actual in zip(x, addend, fused(x, factor, addend), strict=True):
        exact = Fraction(float(a)) * Fraction(float(factor)) + Fraction(float(b))
        others = [np.nextafter(actual, np.float32(to)) for to in (-np.inf, np.inf)]
        distance = abs(Fraction(float(actual)) - exact)
        assert all(distance <= abs(Fraction(float(other)) - exact) for other in others)
