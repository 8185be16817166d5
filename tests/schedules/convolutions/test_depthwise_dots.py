"""Depthwise convolutions of bfloat16 by dot products of neighbouring taps."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from applied import DOTS, X86, Applied, whole

from relax import te, tir, topi
from relax.codegen import resolve
from relax.schedules import schedule
from relax.schedules.cpu import Depthwise
from support import interpreted

BFLOAT = ml_dtypes.bfloat16
LAYOUTS = {1: ("NCW", "OIW"), 2: ("NCHW", "OIHW"), 3: ("NCDHW", "OIDHW")}

CASES = {
    "stride 1": {"size": (3, 33), "kernel": (3, 3), "pad": 1},
    "stride 2": {"size": (5, 67), "kernel": (3, 3), "stride": 2, "pad": 1},
    "lines of 7": {"size": (7, 7), "kernel": (3, 3), "pad": 1},
    "lines of 14": {"size": (5, 14), "kernel": (3, 3), "pad": 1},
    "lines of 14, stride 2": {"size": (9, 28), "kernel": (3, 3), "stride": 2, "pad": 1},
    "an even number of taps": {"size": (3, 40), "kernel": (2, 4), "pad": 2},
    "two taps, stride 2": {"size": (4, 40), "kernel": (2, 2), "stride": 2},
    "five taps": {"size": (4, 35), "kernel": (5, 5), "pad": 2},
    "one dimension": {"size": (70,), "kernel": (5,), "pad": 2},
    "three dimensions": {"size": (2, 3, 20), "kernel": (3, 2, 3), "pad": 1},
    "two outputs to an input": {"size": (8, 9), "kernel": (3, 3), "pad": 1, "outputs": 2},
}


def convolution(size, kernel, stride=1, pad=0, outputs=1, behind=lambda y: y):
    """Of a number of images that is not known: it may be worth it."""
    n = te.var("n", "int64")
    x = te.placeholder((n, 4, *size), "bfloat16", "X")
    k = te.placeholder((4 * outputs, 1, *kernel), "bfloat16", "K")
    y = topi.nn.conv(x, k, stride, pad, 1, 4, *LAYOUTS[len(size)], out_dtype="float32")
    return te.create_prim_func([x, k, behind(y)])


def same(func, x, k, shape, dtype="float32"):
    """The loops for a machine with the instruction, interpreted, and those for this machine compute what `func` does."""
    there, here = (Applied(Depthwise(), func, name) for name in (DOTS, "llvm"))
    assert "T.dot_bf16" in there.func.script()
    *_, expected = interpreted(func, x, k, np.full(shape, 77, dtype))
    for run in (there, here):
        found = run(x, k, np.full(shape, 77, dtype))
        np.testing.assert_array_equal(found.astype("f4"), expected.astype("f4"))


def numbers(*shape):
    return whole(*shape, dtype=BFLOAT, seed=sum(shape))


@pytest.mark.parametrize("case", CASES)
def test_known_sizes(case):
    func = convolution(**CASES[case])
    data, weights, result = ([int(size) for size in buffer.shape[1:]] for buffer in func.buffer_map.values())
    weights = [4 * CASES[case].get("outputs", 1), *weights]
    same(func, numbers(1, *data), numbers(*weights), (1, *result))


@pytest.mark.parametrize("stride", [1, 2])
def test_unknown_sizes(stride):
    func = convolution((te.var("h", "int64"), te.var("w", "int64")), (3, 3), stride, 1)
    for batch, height, width in [(1, 1, 1), (2, 5, 15), (0, 4, 4), (1, 2, 33), (1, 5, 0), (1, 30, 3)]:
        shape = batch, 4, -(-height // stride), -(-width // stride)
        same(func, numbers(batch, 4, height, width), numbers(4, 1, 3, 3), shape)


@pytest.mark.parametrize("stride", [1, 2])
def test_no_numbers_and_infinities_reach_the_pixels_that_they_meet(stride):
    """Taps beside a pixel's own are no part of its sums: zero times infinity would show."""
    func = convolution((6, 35), (3, 3), stride=stride, pad=1)
    x, k = numbers(1, 4, 6, 35), numbers(4, 1, 3, 3)
    x[0, 0, 2, 3], x[0, 1, 3, 4], x[0, 2, 5, 34], x[0, 3, 0, 0] = np.nan, np.inf, -np.inf, np.inf
    same(func, x, k, (1, 4, 6 // stride, -(-35 // stride)))


def test_zeros_beside_the_data_times_infinity_are_no_numbers():
    func = convolution((3, 5), (3, 3), pad=1)
    k = numbers(4, 1, 3, 3)
    k[0, 0, 0, 0], k[1, 0, 1, 2] = np.inf, np.inf
    same(func, np.ones((1, 4, 3, 5), BFLOAT), k, (1, 4, 3, 5))


def test_results_are_made_narrow_in_the_order_of_pixels():
    func = convolution((4, 19), (3, 3), pad=1, behind=lambda y: te.compute(
        y.shape, lambda *i: (y(*i) * tir.const(1 / 3, "float32")).astype("bfloat16"), "out"))  # fmt: skip
    same(func, numbers(1, 4, 4, 19), numbers(4, 1, 3, 3), (1, 4, 4, 19), BFLOAT)


@pytest.mark.parametrize(
    "other",
    [{"kernel": (3, 1)}, {"kernel": (3, 3), "stride": 3}, {"kernel": (7, 7), "pad": 3}],
    ids=["one tap", "stride 3", "more weights than registers"],
)
def test_others_are_converted_as_they_are_loaded(other):
    arranged = schedule(convolution((9, 40), **other), resolve(DOTS), [Depthwise()])
    assert "T.dot_bf16" not in arranged.script()


def test_machines_with_tiles_convert_too():
    target = resolve(f"{X86} -mcpu=sapphirerapids -mattr=+amx-tile,+amx-bf16")
    arranged = schedule(convolution((9, 40), (3, 3)), target, [Depthwise()])
    assert "T.dot_bf16" not in arranged.script()
