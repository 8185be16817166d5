"""Pooling: windows along the last dimensions, lines first and then the elements of a line."""

from __future__ import annotations

import numpy as np
import pytest
from applied import Applied

from relax import te, topi
from relax.codegen import build_module, resolve
from relax.schedules import schedule
from relax.schedules.cpu import Pooling
from relax.topi.nn import Pooling as Windows
from support import PLAIN_LOOPS, interpreted

LAYOUTS = {1: "NCW", 2: "NCHW", 3: "NCDHW"}


def pool(size, windows=3, strides=1, padding=0, dilation=1, ceil=False, mean=False, n=1, c=3, dtype="float32"):
    """A pool of images of `c` channels, the greatest values or (mean) the means, as a PrimFunc."""
    x = te.placeholder((n, c, *size), dtype, "X")
    given = Windows(windows, strides, padding, dilation, ceil, LAYOUTS[len(size)])
    y = topi.nn.avg_pool(x, given) if mean else topi.nn.max_pool(x, given)
    return te.create_prim_func([x, y])


def shapes(size, windows=3, strides=1, padding=0, dilation=1, n=1, c=3):
    """The shapes of the data and the result."""
    out = [(extent + 2 * padding - (windows - 1) * dilation - 1) // strides + 1 for extent in size]
    return (n, c, *size), (n, c, *out)


CASES = {
    "stride 1": {"size": (9, 40)},
    "stride 2": {"size": (11, 67), "strides": 2, "padding": 1},
    "stride 3": {"size": (20, 100), "windows": 2, "strides": 3},
    "stride 4, elements apart": {"size": (20, 131), "windows": 2, "strides": 4, "padding": 2, "dilation": 3},
    "a stride above that of shuffles": {"size": (33, 150), "windows": 5, "strides": 5},
    "one dimension": {"size": (1100,), "windows": 4, "strides": 2, "padding": 2},
    "three dimensions": {"size": (5, 7, 19), "windows": 2, "strides": 2, "padding": 1},
    "padding wider than the data": {"size": (3, 4), "windows": 7, "padding": 6, "dilation": 1},
}


@pytest.mark.parametrize("mean", [False, True], ids=["maxima", "means"])
@pytest.mark.parametrize("case", CASES)
def test_known_sizes(same, case, mean):
    options = CASES[case]
    same(pool(mean=mean, **options), Pooling(), shapes(**options))


@pytest.mark.parametrize("mean", [False, True], ids=["maxima", "means"])
@pytest.mark.parametrize("strides", [1, 2])
def test_unknown_sizes(same, mean, strides):
    n, h, w = (te.var(name, "int64") for name in "nhw")
    options = {"windows": 3, "strides": strides, "padding": 1}
    sizes = [(1, (1, 1)), (2, (5, 15)), (0, (4, 4)), (1, (3, 17)), (1, (2, 33)), (1, (9, 0)), (1, (2, 1031))]
    func = pool((h, w), mean=mean, n=n, **options)
    same(func, Pooling(), *(shapes(size, n=batch, **options) for batch, size in sizes))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "int8", "uint8", "int32", "int64"])
def test_dtypes(same, dtype):
    if dtype == "bfloat16":
        dtype = pytest.importorskip("ml_dtypes").bfloat16.__name__
    options = {"size": (11, 70), "strides": 2, "padding": 1}
    same(pool(dtype=dtype, **options), Pooling(), shapes(**options), dtype=dtype)


def test_windows_that_stick_out(same):
    options = {"size": (12, 38), "windows": 3, "strides": 2}
    data, (*batch, _, _) = shapes(**options)
    same(pool(ceil=True, **options), Pooling(), (data, (*batch, 6, 19)))


def test_no_number_wins_and_what_is_beside_the_data_does_not(target):
    func = pool((4, 40), strides=2, padding=1)
    x = np.full((1, 3, 4, 40), -np.inf, "float32")
    x[0, 0, 2, 7], x[0, 1, 3, 39], x[0, 2] = np.nan, np.inf, -5.0
    _, expected = interpreted(func, x, np.zeros((1, 3, 2, 20), "float32"))
    assert np.isnan(expected).sum() == 2
    assert (expected[0, 2] == -5).all()
    for machine in (target, "llvm"):
        Applied(Pooling(), func, machine).computes(expected, x)


def test_a_division_behind_the_windows_is_part_of_the_store(target):
    func = pool((20, 64), padding=1, mean=True)
    text = schedule(func, target, [Pooling()]).script()
    assert "avg_pool2d_sum" not in text
    assert "padded" not in text


def test_results_that_others_read_are_stored(same):
    x = te.placeholder((2, 3, 9, 40), "float32", "X")
    y = topi.nn.max_pool(x, Windows(3, 1, 1))
    z = te.compute(y.shape, lambda n, c, i, j: y[n, c, i, j] - y[n, c, i, 0], "Z")
    same(te.create_prim_func([x, z]), Pooling(), ((2, 3, 9, 40), (2, 3, 9, 40)))


def test_a_machine_without_masks():
    target = resolve("llvm -mcpu=haswell")
    h, w = te.var("h", "int64"), te.var("w", "int64")
    options = {"windows": 3, "strides": 2, "padding": 1}
    func = pool((h, w), **options)
    here = build_module(schedule(func, target, [Pooling()]), target)["main"]
    plain = build_module(func, PLAIN_LOOPS)["main"]
    for size in ((1, 1), (4, 19), (7, 64), (3, 0)):
        x, expected = (np.random.default_rng(0).integers(-9, 9, s).astype("float32") for s in shapes(size, **options))
        actual = np.full_like(expected, 77)
        plain(x, expected)
        here(x, actual)
        np.testing.assert_array_equal(actual, expected)


def test_others_are_left_alone(target):
    x = te.placeholder((2, 9, 40, 3), "float32", "X")
    channels_last = te.create_prim_func([x, topi.nn.max_pool(x, Windows(3, 1, 1, layout="NHWC"))])
    whole_images = pool((7, 7), 7)
    long_windows = pool((40, 90), 40)
    for func in (channels_last, whole_images, long_windows):
        assert schedule(func, target, [Pooling()]) is func
