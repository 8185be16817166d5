"""FewPixels: convolutions whose weights are read where they lie, as few pixels use them."""

from __future__ import annotations

import numpy as np
import pytest
from applied import Applied, convolved, whole

from relax import te, tir
from relax.schedules import schedule
from relax.schedules.cpu import Convolution, Winograd
from relax.schedules.cpu.convolutions.few_pixels import MOST_PIXELS, MOST_TILES

CASES = {
    "stride 2": {"ci": 16, "co": 32, "size": (7, 9), "kernel": (3, 3), "n": 2, "stride": 2, "pad": 1},
    "columns and depths beside whole vectors": {"ci": 17, "co": 37, "size": (4, 5), "kernel": (3, 3), "pad": 1},
    "dilation": {"ci": 16, "co": 20, "size": (9, 8), "kernel": (3, 3), "pad": 2, "dilation": 2},
    "one dimension": {"ci": 32, "co": 16, "size": (50,), "kernel": (5,), "n": 2, "pad": 2},
    "three dimensions": {"ci": 16, "co": 8, "size": (3, 4, 5), "kernel": (3, 2, 2), "pad": 1},
    "one pixel": {"ci": 16, "co": 57, "size": (3, 3), "kernel": (3, 3)},
}


@pytest.mark.parametrize("case", CASES)
def test_known_sizes(same, conv, target, case):
    known = conv(**CASES[case])
    same(known.func(), Convolution(), known.shapes())
    text = schedule(known.func(), target, [Convolution()]).script()
    assert "patches" in text
    assert "planes" not in text


def test_an_open_number_of_pixels_decides_in_the_kernel(same, conv, target):
    n, h, w = (te.var(name, "int64") for name in "nhw")
    open_sizes = conv(16, 20, (h, w), (3, 3), n, 2, 1)
    sizes = [(1, (1, 1)), (2, (5, 7)), (0, (4, 4)), (1, (15, 31)), (1, (17, 31)), (3, (1, 86))]
    same(open_sizes.func(), Convolution(), *(open_sizes.shapes(*size) for size in sizes))
    text = schedule(open_sizes.func(), target, [Convolution()]).script()
    assert f"<= {MOST_PIXELS}:" in text or f"<= T.int64({MOST_PIXELS}):" in text
    assert "patches" in text
    assert "planes" in text


def test_beside_transformed_weights(same, conv, target):
    n, h, w = (te.var(name, "int64") for name in "nhw")
    open_sizes = conv(32, 32, (h, w), (3, 3), n, pad=1)
    few = [open_sizes.shapes(*size) for size in ((1, (1, 1)), (1, (8, 8)), (2, (4, 7)), (0, (4, 4)))]
    arranged = schedule(open_sizes.func(), target, [Winograd()])
    assert f"<= {MOST_TILES}:" in arranged.script() or f"<= T.int64({MOST_TILES}):" in arranged.script()
    same(open_sizes.func(), Winograd(), *few)


def test_doubles(same, conv):
    double = conv(16, 9, (6, 6), (3, 3), pad=1, dtype="float64")
    same(double.func(), Convolution(), double.shapes(), dtype="float64")


def test_what_stands_behind_is_computed_as_results_are_stored(same, conv):
    def clipped(y):
        def formula(n, c, h, w):
            return tir.max(y[n, c, h, w] + c.astype("float32"), tir.const(0, "float32"))

        return te.compute(y.shape, formula, "clipped")

    known = conv(16, 20, (5, 6), (3, 3), 2, pad=1)
    same(known.func(clipped), Convolution(), known.shapes())


@pytest.mark.parametrize(
    "options",
    [
        {"ci": 16, "co": 8, "size": (6, 6), "kernel": (3, 3), "groups": 2},
        {"ci": 8, "co": 8, "size": (6, 6), "kernel": (3, 3)},
        {"ci": 144, "co": 8, "size": (6, 6), "kernel": (1, 1)},
        {"ci": 16, "co": 8, "size": (16, 16), "kernel": (3, 3)},
    ],
    ids=["groups", "shallow", "one tap", "many pixels"],
)
def test_others_read_planes(conv, target, options):
    text = schedule(conv(**options).func(), target, [Convolution()]).script()
    assert "patches" not in text
    assert "planes" in text


def test_nan_and_infinity_reach_their_own_results_only(conv):
    x, k = whole(1, 16, 4, 4), whole(20, 16, 3, 3, seed=1)
    expected = convolved(x, k, pad=1)
    x[0, 3, 0, 0], k[5, 2, 1, 1] = np.nan, np.inf
    x[0, 2] = 1
    finite = convolved(np.where(np.isnan(x), 0, x), np.where(np.isinf(k), 0, k), pad=1)
    result = np.zeros_like(expected)
    Applied(Convolution(), conv(16, 20, (4, 4), (3, 3), pad=1).func())(x, k, result)
    assert np.isnan(result[0, :, :2, :2]).all()
    assert np.isinf(result[0, 5][~np.isnan(result[0, 5])]).all()
    others = np.delete(np.arange(20), 5)
    np.testing.assert_array_equal(result[0, others][:, 2:], finite[0, others][:, 2:])
