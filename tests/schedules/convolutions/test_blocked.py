"""Blocked: convolutions with known weights, in register tiles of pixels by channels."""

from __future__ import annotations

import numpy as np
import pytest
from applied import Applied, convolved, same_on_threads, whole

from relax import te, tir
from relax.schedules import schedule
from relax.schedules.cpu import Blocked

CASES = {
    "stride 1": {"ci": 8, "co": 16, "size": (9, 11), "kernel": (5, 5), "pad": 2},
    "stride 2, several images": {
        "ci": 19, "co": 50, "size": (10, 29), "kernel": (3, 3), "n": 2, "stride": 2, "pad": 1,
    },
    "stride 3, dilation 2": {
        "ci": 8, "co": 48, "size": (17, 17), "kernel": (3, 2), "stride": 3, "pad": 2, "dilation": 2,
    },
    "first layer": {"ci": 3, "co": 40, "size": (20, 34), "kernel": (7, 7), "n": 2, "stride": 2, "pad": 3},
    "one line": {"ci": 16, "co": 17, "size": (3, 12), "kernel": (3, 3)},
    "sound": {"ci": 1, "co": 40, "size": (250,), "kernel": (64,), "n": 2, "stride": 16},
    "one dimension": {"ci": 20, "co": 16, "size": (37,), "kernel": (3,), "n": 3, "pad": 2, "dilation": 2},
    "lines of a third of a tile": {"ci": 16, "co": 40, "size": (6,), "kernel": (3,), "n": 5},
    "lines of a pixel": {"ci": 20, "co": 64, "size": (3,), "kernel": (3,), "n": 3},
    "many blocks of channels, an odd number": {"ci": 1, "co": 260, "size": (112,), "kernel": (64,), "stride": 16},
    "windows along lines": {"ci": 16, "co": 16, "size": (5, 20), "kernel": (1, 4)},
    "windows across lines": {"ci": 16, "co": 32, "size": (19, 7), "kernel": (4, 1), "stride": 2},
    "lines along the first dimension": {"ci": 20, "co": 33, "size": (40, 1), "kernel": (5, 1), "n": 2},
}  # fmt: skip


def packed(known, target, *behind):
    """The convolution with packed weights."""
    return Applied(Blocked(), known.func(*behind), target, known=[1])


def check(known, run, *size):
    """Run a function and compare."""
    x, k = (whole(*shape, seed=i) for i, shape in enumerate(known.shapes(*size)[:2]))
    run.computes(convolved(x, k, known.stride, known.pad, known.dilation), x, k)


@pytest.mark.parametrize("case", CASES)
def test_known_sizes(conv, case):
    known = conv(**CASES[case])
    check(known, packed(known, "llvm"))


@pytest.mark.parametrize("stride", [1, 2])
def test_one_kernel_for_all_sizes(conv, stride):
    n, h, w = (te.var(name, "int64") for name in "nhw")
    unknown = conv(3, 19, (h, w), (3, 3), n, stride, 1)
    run = packed(unknown, "llvm")
    sizes = (1, (1, 1)), (2, (5, 7)), (0, (4, 4)), (1, (0, 3)), (1, (3, 62)), (1, (2, 65)), (3, (9, 23))
    for size in sizes:
        check(unknown, run, *size)


@pytest.mark.parametrize("pixels", ["line", "column"])
def test_one_dimension_of_any_size(conv, pixels):
    n, w = (te.var(name, "int64") for name in "nw")
    shape, taps = ((w,), (3,)) if pixels == "line" else ((w, 1), (3, 1))
    unknown = conv(5, 19, shape, taps, n, 2)
    run = packed(unknown, "llvm")
    for batch, length in ((1, 1), (2, 7), (0, 4), (1, 3), (3, 64), (1, 130)):
        check(unknown, run, batch, (length, *[1] * (len(shape) - 1)))


def test_the_interpreter_agrees_on_lines_along_the_first_dimension(conv):
    w = te.var("w", "int64")
    unknown = conv(6, 9, (w, 1), (3, 1), 2, 2)
    run = packed(unknown, "llvm -mcpu=x86-64")
    for length in (3, 8, 15):
        check(unknown, run, 2, (length, 1))


def test_the_interpreter_agrees(conv):
    n, h, w = (te.var(name, "int64") for name in "nhw")
    unknown = conv(3, 6, (h, w), (3, 2), n, 2, 1)
    run = packed(unknown, "llvm -mcpu=x86-64")
    assert run.packings[1].width == 8
    for size in ((1, (1, 1)), (2, (3, 2)), (0, (4, 4)), (1, (2, 13))):
        check(unknown, run, *size)


@pytest.mark.parametrize(("channels", "width"), [(16, 16), (17, 24), (24, 24), (25, 32), (40, 48)])
def test_three_half_vectors_where_two_whole_ones_would_be_emptier(target, conv, channels, width):
    n, h, w = (te.var(name, "int64") for name in "nhw")
    unknown = conv(11, channels, (h, w), (2, 2), n, 1, 1)
    run = packed(unknown, target)
    assert run.packings[1].width == width
    for size in ((1, (1, 1)), (2, (3, 5)), (0, (4, 4)), (1, (2, 17))):
        check(unknown, run, *size)


def test_few_lines_are_divided_by_channels(conv):
    known = conv(8, 130, (6, 6), (3, 3), pad=1)
    run = packed(known, "llvm -num-cores=4")
    assert run.packings[1].shape[0] >= 2
    check(known, run)


def test_what_stands_behind_is_computed_as_results_are_stored(conv):
    def clipped(y):
        def formula(n, c, h, w):
            return tir.max(y[n, c, h, w] + c.astype("float32"), tir.const(0, "float32"))

        return te.compute(y.shape, formula, "clipped")

    known = conv(8, 16, (9, 20), (3, 3), stride=2, pad=1)
    run = packed(known, "llvm", clipped)
    assert "conv2d = T.alloc_buffer" not in run.func.script()
    x, k = (whole(*shape, seed=i) for i, shape in enumerate(known.shapes()[:2]))
    channels = np.arange(16, dtype="float32")[:, None, None]
    run.computes(np.maximum(convolved(x, k, 2, 1) + channels, 0), x, k)


def test_the_number_of_threads_changes_nothing(conv, monkeypatch):
    known = conv(16, 32, (20, 20), (3, 3), stride=2, pad=1)
    same_on_threads(monkeypatch, packed(known, "llvm"), *known.shapes())


def test_others_are_left_alone(target, conv):
    others = [
        conv(16, 32, (14, 14), (1, 1)),
        conv(32, 32, (14, 14), (3, 3), groups=2),
        conv(16, 32, (14, 14), (3, 3), dtype="float64"),
        conv(16, 8, (14, 14), (3, 3)),
        conv(16, 32, (50,), (1,)),
        conv(16, 32, (5, 5, 5), (3, 3, 3)),
    ]
    for other in others:
        assert not Blocked().pack(other.func(), target, [1])
    known = conv(16, 32, (14, 14), (3, 3), stride=2).func()
    assert not Blocked().pack(known, target, [])
    assert not Blocked().pack(known, target, [0])
    assert not Blocked().pack(known.without_attr("tir.noalias"), target, [1])
    assert schedule(known, target, [Blocked()]) is known
