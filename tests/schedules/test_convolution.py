"""Convolution: convolutions with channels before pixels, as products of panels gathered from the data."""

from __future__ import annotations

import pytest

from relax import te, topi
from relax.schedules import schedule
from relax.schedules.cpu import Convolution


def convolution(n, ci, co, h, w, kernel, stride=1, pad=0, dilation=1, groups=1):
    x = te.placeholder((n, ci, h, w), "float32", "X")
    k = te.placeholder((co, ci // groups, *kernel), "float32", "K")
    return te.create_prim_func([x, k, topi.nn.conv(x, k, stride, pad, dilation, groups)])


def shapes(n, ci, co, h, w, kernel, stride=1, pad=0, dilation=1):
    def extent(size, taps):
        return (size + 2 * pad - dilation * (taps - 1) - 1) // stride + 1

    return [(n, ci, h, w), (co, ci, *kernel), (n, co, extent(h, kernel[0]), extent(w, kernel[1]))]


CASES = [
    (1, 4, 8, 9, 9, (3, 3), 1, 1),
    (2, 5, 7, 12, 10, (3, 3), 2, 1),
    (1, 16, 20, 8, 9, (1, 1)),
    (2, 16, 20, 9, 9, (1, 1), 2),
    (1, 3, 8, 12, 21, (7, 7), 2, 3),
    (1, 4, 6, 17, 17, (3, 3), 1, 2, 2),
    (1, 8, 8, 14, 70, (3, 1)),
]


@pytest.mark.parametrize("case", CASES)
def test_known_sizes(same, case):
    same(convolution(*case), Convolution(), shapes(*case))


def test_unknown_images_in_windows_of_one_element(same):
    n, h, w = (te.var(name, "int64") for name in "nhw")
    sizes = [(2, 6, 9), (1, 9, 33), (0, 5, 5), (1, 3, 70)]
    func = convolution(n, 16, 20, h, w, (1, 1))
    same(func, Convolution(), *(shapes(n, 16, 20, h, w, (1, 1)) for n, h, w in sizes))


def test_unknown_batches(same):
    func = convolution(te.var("n", "int64"), 4, 8, 9, 9, (3, 3), 1, 1)
    same(func, Convolution(), *(shapes(n, 4, 8, 9, 9, (3, 3), 1, 1) for n in (0, 1, 3)))


def test_windows_of_one_element_are_not_copied_one_by_one(target):
    func = schedule(convolution(1, 64, 64, 8, 16, (1, 1)), target, [Convolution()])
    assert "panel[k, T.Ramp(v * 16, T.int64(1), 16)] = X_pixels_tile[k, T.Ramp(" in func.script()


def test_one_and_three_dimensions(same):
    x, k = te.placeholder((2, 8, 50), "float32", "X"), te.placeholder((16, 8, 5), "float32", "K")
    same(te.create_prim_func([x, k, topi.nn.conv(x, k, 1, 2, 1, 1, "NCW", "OIW")]), Convolution(),
         [(2, 8, 50), (16, 8, 5), (2, 16, 50)])  # fmt: skip
    x, k = te.placeholder((1, 4, 4, 5, 9), "float32", "X"), te.placeholder((8, 4, 2, 2, 2), "float32", "K")
    same(te.create_prim_func([x, k, topi.nn.conv(x, k, 1, 0, 1, 1, "NCDHW", "OIDHW")]), Convolution(),
         [(1, 4, 4, 5, 9), (8, 4, 2, 2, 2), (1, 8, 3, 4, 8)])  # fmt: skip


def test_others_are_left_alone(target):
    grouped = convolution(1, 32, 32, 16, 16, (3, 3), groups=4)
    depthwise = convolution(1, 32, 32, 16, 16, (3, 3), groups=32)
    x, k = te.placeholder((1, 16, 16, 8), "float32", "X"), te.placeholder((3, 3, 8, 8), "float32", "K")
    pixels_first = te.create_prim_func([x, k, topi.nn.conv(x, k, 1, 1, 1, 1, "NHWC", "HWIO")])
    unknown = convolution(1, 32, 32, te.var("h", "int64"), 16, (3, 3), 1, 1)
    a, b, k = (
        te.placeholder((n := te.var("n", "int64"),), name="a"),
        te.placeholder((n,), name="b"),
        te.reduce_axis((0, n)),
    )
    dot = te.create_prim_func([a, b, te.compute((), lambda: te.sum(a[k] * b[k], axis=k), "dot")])
    for func in (grouped, depthwise, pixels_first, unknown, dot):
        assert schedule(func, target, [Convolution()]) is func
