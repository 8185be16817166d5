"""Depthwise: convolutions with one input channel to a group, a channel's image at a time."""

from __future__ import annotations

import re

import ml_dtypes  # noqa: F401  (NumPy learns bfloat16)
import numpy as np
import pytest

from relax import te, tir, topi
from relax.codegen import build_module, resolve
from relax.schedules import schedule
from relax.schedules.cpu import Depthwise

CASES = {
    "stride 1": {"ci": 8, "co": 8, "size": (7, 33), "kernel": (3, 3), "pad": 1, "groups": 8},
    "stride 2": {
        "ci": 16, "co": 16, "size": (12, 15), "kernel": (3, 3), "n": 2, "stride": 2, "pad": 1, "groups": 16,
    },
    "two outputs to an input": {
        "ci": 8, "co": 16, "size": (19, 40), "kernel": (5, 3), "stride": 3, "pad": 2, "dilation": 2, "groups": 8,
    },
    "a stride above that of shuffles": {
        "ci": 4, "co": 4, "size": (43, 299), "kernel": (3, 2), "stride": 5, "pad": 1, "groups": 4,
    },
    "taps too far apart for registers": {
        "ci": 4, "co": 4, "size": (30, 20), "kernel": (3, 3), "pad": 10, "dilation": 10, "groups": 4,
    },
    "lines of half a vector": {"ci": 6, "co": 6, "size": (9, 8), "kernel": (5, 5), "pad": 2, "groups": 6},
    "lines of one more": {"ci": 6, "co": 6, "size": (9, 9), "kernel": (5, 5), "pad": 2, "groups": 6},
    "short lines, stride 2": {
        "ci": 16, "co": 16, "size": (14, 13), "kernel": (5, 5), "stride": 2, "pad": 2, "groups": 16,
    },
    "one dimension": {"ci": 6, "co": 6, "size": (300,), "kernel": (5,), "pad": 2, "groups": 6},
    "three dimensions": {"ci": 6, "co": 6, "size": (3, 5, 20), "kernel": (3, 2, 3), "pad": 1, "groups": 6},
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_known_sizes(same, conv, case):
    known = conv(**CASES[case])
    same(known.func(), Depthwise(), known.shapes())


def test_unknown_sizes(same, conv):
    n, h, w = (te.var(name, "int64") for name in "nhw")
    unknown = conv(4, 4, (h, w), (3, 3), n, 2, 1, groups=4)
    sizes = [(1, (1, 1)), (2, (5, 15)), (0, (4, 4)), (1, (3, 17)), (1, (2, 33)), (1, (59, 0)), (1, (58, 3))]
    same(unknown.func(), Depthwise(), *(unknown.shapes(*size) for size in sizes))


def test_a_machine_without_masks_reads_a_padded_copy(conv):
    h, w = te.var("h", "int64"), te.var("w", "int64")
    case = conv(2, 2, (h, w), (3, 3), stride=2, pad=1, groups=2)
    arranged = schedule(case.func(), resolve("llvm -mcpu=haswell"), [Depthwise()])
    assert "plane" in arranged.script()
    x, k, expected = (
        np.random.default_rng(0).integers(-3, 4, shape).astype("float32") for shape in case.shapes(1, (4, 19))
    )
    actual = np.full_like(expected, 77)
    tir.interpret(case.func(), x, k, expected)
    tir.interpret(arranged, x, k, actual)
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize(("machine", "fused"), [("haswell", True), ("haswell -mattr=-fma", False)])
def test_a_padded_copy_is_multiplied_and_added_at_once(conv, machine, fused):
    """Where there is an instruction for it; elsewhere it would be a call for each element."""
    h, w = te.var("h", "int64"), te.var("w", "int64")
    func = conv(2, 2, (h, w), (3, 3), pad=1, groups=2).func()
    arranged = schedule(func, resolve(f"llvm -mcpu={machine}"), [Depthwise()])
    assert "plane" in arranged.script()
    assert ("T.fma" in arranged.script()) == fused


def test_lines_of_half_a_vector_are_in_half_vectors(target, conv):
    def lanes(width):
        case = conv(60, 60, (9, width), (3, 3), pad=1, groups=60)
        text = schedule(case.func(), target, [Depthwise()]).script()
        return max(map(int, re.findall(r"boolx(\d+)", text)))

    assert (lanes(7), lanes(8), lanes(9)) == (8, 8, 16)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_narrow_floats_are_read_where_they_are(target, dtype):
    """Sums are float32; what stands behind the convolution may make them narrow again."""
    h, w = te.var("h", "int64"), te.var("w", "int64")
    x, k = te.placeholder((1, 4, h, w), dtype, "X"), te.placeholder((4, 1, 3, 3), dtype, "K")
    y = topi.nn.conv(x, k, 2, 1, 1, 4, out_dtype="float32")
    out = te.compute(y.shape, lambda *i: (y(*i) * tir.const(1 / 3, "float32")).astype(dtype), "out")
    func = te.create_prim_func([x, k, out])
    arranged, here = (schedule(func, to, [Depthwise()]) for to in (target, resolve("llvm")))
    assert "plane" not in arranged.script()
    compiled = build_module(here)["main"]
    generator = np.random.default_rng(0)
    for height, width in ((0, 5), (1, 1), (4, 17), (7, 35)):
        data = generator.integers(-3, 4, (1, 4, height, width)).astype(dtype)
        weights = generator.integers(-3, 4, (4, 1, 3, 3)).astype(dtype)
        if height > 1:
            data[0, 1, 1, 2], data[0, 2, 3, 4] = np.nan, np.inf
        expected, interpreted, native = np.full((3, 1, 4, -(-height // 2), -(-width // 2)), 77, dtype)
        tir.interpret(func, data, weights, expected)
        tir.interpret(arranged, data, weights, interpreted)
        compiled(data, weights, native)
        np.testing.assert_array_equal(interpreted.astype("float32"), expected.astype("float32"))
        np.testing.assert_array_equal(native.astype("float32"), expected.astype("float32"))


def test_what_a_channel_decides_is_computed_once(target, conv):
    h, w = te.var("h", "int64"), te.var("w", "int64")
    scale, rest = te.placeholder((4,), name="S"), te.placeholder((1, 4, h, w), name="R")
    x, k = te.placeholder((1, 4, h, w), name="X"), te.placeholder((4, 1, 3, 3), name="K")
    y = topi.nn.conv(x, k, 1, 1, 1, 4)
    out = te.compute(y.shape, lambda n, c, i, j: y[n, c, i, j] * (1.0 / tir.sqrt(scale[c])) + rest[n, c, i, j], "out")
    func = te.create_prim_func([x, k, scale, rest, out])
    arranged = schedule(func, target, [Depthwise()])
    text = arranged.script()
    assert "common: T.float32 = T.float32(1.0) / T.sqrt(S[g])" in text
    assert text.count("T.sqrt") == 1
    generator = np.random.default_rng(0)
    for size in ((0, 5), (3, 1), (4, 17)):
        shapes = (1, 4, *size), (4, 1, 3, 3), (4,), (1, 4, *size)
        data = [generator.integers(1, 4, shape).astype("float32") for shape in shapes]
        expected, actual = np.zeros((2, 1, 4, *size), "float32")
        tir.interpret(func, *data, expected)
        tir.interpret(arranged, *data, actual)
        np.testing.assert_array_equal(actual, expected)


def test_zeros_beside_the_data_times_infinity_are_no_numbers(target, conv):
    h, w = te.var("h", "int64"), te.var("w", "int64")
    case = conv(2, 2, (h, w), (3, 3), pad=1, groups=2)
    x, k, y = (np.ones(shape, "float32") for shape in case.shapes(1, (3, 5)))
    k[0, 0, 0, 0] = np.inf
    expected = y.copy()
    tir.interpret(case.func(), x, k, expected)
    tir.interpret(schedule(case.func(), target, [Depthwise()]), x, k, y)
    assert np.isnan(expected).any()
    np.testing.assert_array_equal(y, expected)


def test_others_are_left_alone(target, conv):
    one_group = conv(8, 8, (9, 9), (3, 3))
    several_inputs = conv(16, 16, (16, 16), (3, 3), groups=4)
    many_taps = conv(64, 64, (16, 16), (9, 9), groups=64)
    for other in (one_group, several_inputs, many_taps):
        func = other.func()
        assert schedule(func, target, [Depthwise()]) is func


@pytest.mark.parametrize("kernel", [3, 5])
@pytest.mark.parametrize("stride", [1, 2])
def test_a_dynamic_number_of_channels(same, conv, stride, kernel):
    """Groups as many as channels; interpreted for some sizes, and compiled."""
    channels, h, w = (te.size_var(name, "int64") for name in "chw")
    x = te.placeholder((1, channels, h, w), "float32", "X")
    k = te.placeholder((channels, 1, kernel, kernel), "float32", "K")
    pad = kernel // 2
    out = topi.nn.conv(x, k, [stride] * 2, [pad] * 4, [1, 1], channels, "NCHW", "OIHW")
    func = te.create_prim_func([x, k, out])
    arranged = schedule(func, resolve("llvm"), [Depthwise()])
    assert arranged is not func
    compiled = build_module(arranged)["main"]
    rng = np.random.default_rng(0)
    for count in (1, 3, 17):
        data = rng.integers(-3, 4, (1, count, 7, 19)).astype("float32")
        weight = rng.integers(-3, 4, (count, 1, kernel, kernel)).astype("float32")
        shape = (1, count, (6 + stride) // stride, (18 + stride) // stride)
        expected, found = np.full(shape, 77, "float32"), np.full(shape, 78, "float32")
        tir.interpret(func, data, weight, expected)
        compiled(data, weight, found)
        np.testing.assert_array_equal(found, expected)
        if count == 3:
            interpreted = np.full(shape, 79, "float32")
            tir.interpret(arranged, data, weight, interpreted)
            np.testing.assert_array_equal(interpreted, expected)
