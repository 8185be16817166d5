"""Blocked: convolutions with known weights, in register tiles of pixels by channels."""

from __future__ import annotations

import numpy as np
import pytest

from relax import te, tir
from relax.codegen import build_module, resolve
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
    """The function of a convolution whose weights are known, and their packing."""
    result = Blocked().pack(known.func(*behind), target, [1])
    assert result is not None
    tir.verify_well_formed(result.func)
    return result.func, result.packings[1]


def integers(shapes):
    """Small integers, so that sums are exact in any order; the last array, the result, is full of rubbish."""
    generator = np.random.default_rng(0)
    arrays = [generator.integers(-3, 4, shape).astype("float32") for shape in shapes]
    arrays[-1][...] = 77
    return arrays


def expected(known, x, k):
    """The convolution as NumPy computes it."""
    axes, d, s = x.ndim - 2, known.dilation, known.stride
    padded = np.pad(x, [(0, 0)] * 2 + [(known.pad, known.pad)] * axes)
    spans = [(taps - 1) * d + 1 for taps in known.kernel]
    if min(size - span for size, span in zip(padded.shape[2:], spans, strict=True)) < 0 or not x.shape[0]:
        return np.zeros((x.shape[0], k.shape[0], *[0] * axes), "float32")
    windows = np.lib.stride_tricks.sliding_window_view(padded, spans, tuple(range(2, 2 + axes)))
    windows = windows[(slice(None),) * 2 + (slice(None, None, s),) * axes + (slice(None, None, d),) * axes]
    return np.einsum("ncwi,oci->now" if axes == 1 else "nchwij,ocij->nohw", windows, k, optimize=True)


def check(known, packing, run, *size):
    """Run a function and compare."""
    x, k, y = integers(known.shapes(*size))
    run(x, np.ascontiguousarray(packing(k)), y)
    if y.size:
        np.testing.assert_array_equal(y, expected(known, x, k))


@pytest.mark.parametrize("case", CASES)
def test_known_sizes(conv, case):
    known = conv(**CASES[case])
    func, packing = packed(known, resolve("llvm"))
    check(known, packing, build_module(func)["main"])


@pytest.mark.parametrize("stride", [1, 2])
def test_one_kernel_for_all_sizes(conv, stride):
    n, h, w = (te.var(name, "int64") for name in "nhw")
    unknown = conv(3, 19, (h, w), (3, 3), n, stride, 1)
    func, packing = packed(unknown, resolve("llvm"))
    kernel = build_module(func)["main"]
    for size in (
        (1, (1, 1)),
        (2, (5, 7)),
        (0, (4, 4)),
        (1, (0, 3)),
        (1, (3, 62)),
        (1, (2, 65)),
        (3, (9, 23)),
    ):
        check(unknown, packing, kernel, *size)


@pytest.mark.parametrize("pixels", ["line", "column"])
def test_one_dimension_of_any_size(conv, pixels):
    n, w = (te.var(name, "int64") for name in "nw")
    shape, taps = ((w,), (3,)) if pixels == "line" else ((w, 1), (3, 1))
    unknown = conv(5, 19, shape, taps, n, 2)
    func, packing = packed(unknown, resolve("llvm"))
    kernel = build_module(func)["main"]
    for batch, length in ((1, 1), (2, 7), (0, 4), (1, 3), (3, 64), (1, 130)):
        check(unknown, packing, kernel, batch, (length, *[1] * (len(shape) - 1)))


def test_the_interpreter_agrees_on_lines_along_the_first_dimension(conv):
    w = te.var("w", "int64")
    unknown = conv(6, 9, (w, 1), (3, 1), 2, 2)
    func, packing = packed(unknown, resolve("llvm -mcpu=x86-64"))
    for length in (3, 8, 15):
        check(unknown, packing, lambda *args: tir.interpret(func, *args), 2, (length, 1))


def test_the_interpreter_agrees(conv):
    n, h, w = (te.var(name, "int64") for name in "nhw")
    unknown = conv(3, 6, (h, w), (3, 2), n, 2, 1)
    func, packing = packed(unknown, resolve("llvm -mcpu=x86-64"))
    assert packing.width == 8
    for size in ((1, (1, 1)), (2, (3, 2)), (0, (4, 4)), (1, (2, 13))):
        check(unknown, packing, lambda *args: tir.interpret(func, *args, reverse_parallel=True), *size)


@pytest.mark.parametrize(("channels", "width"), [(16, 16), (17, 24), (24, 24), (25, 32), (40, 48)])
def test_three_half_vectors_where_two_whole_ones_would_be_emptier(target, conv, channels, width):
    n, h, w = (te.var(name, "int64") for name in "nhw")
    unknown = conv(11, channels, (h, w), (2, 2), n, 1, 1)
    func, packing = packed(unknown, target)
    assert packing.width == width
    for size in ((1, (1, 1)), (2, (3, 5)), (0, (4, 4)), (1, (2, 17))):
        check(unknown, packing, lambda *args: tir.interpret(func, *args, reverse_parallel=True), *size)


def test_few_lines_are_divided_by_channels(conv):
    known = conv(8, 130, (6, 6), (3, 3), pad=1)
    func, packing = packed(known, resolve("llvm -num-cores=4"))
    assert packing.shape[0] >= 2
    check(known, packing, build_module(func)["main"])


def test_what_stands_behind_is_computed_as_results_are_stored(conv):
    def clipped(y):
        def formula(n, c, h, w):
            return tir.max(y[n, c, h, w] + c.astype("float32"), tir.const(0, "float32"))

        return te.compute(y.shape, formula, "clipped")

    known = conv(8, 16, (9, 20), (3, 3), stride=2, pad=1)
    func, packing = packed(known, resolve("llvm"), clipped)
    assert "conv2d = T.alloc_buffer" not in func.script()
    x, k, y = integers(known.shapes())
    build_module(func)["main"](x, np.ascontiguousarray(packing(k)), y)
    channels = np.arange(16, dtype="float32")[:, None, None]
    np.testing.assert_array_equal(y, np.maximum(expected(known, x, k) + channels, 0))


def test_the_number_of_threads_changes_nothing(conv, monkeypatch):
    known = conv(16, 32, (20, 20), (3, 3), stride=2, pad=1)
    func, packing = packed(known, resolve("llvm"))
    kernel = build_module(func)["main"]
    generator = np.random.default_rng(0)
    x, k, y = (generator.standard_normal(shape).astype("float32") for shape in known.shapes())
    results = []
    for threads in ("1", "2"):
        monkeypatch.setenv("RELAX_NUM_THREADS", threads)
        kernel(x, np.ascontiguousarray(packing(k)), y)
        results.append(y.copy())
    np.testing.assert_array_equal(*results)


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
        assert Blocked().pack(other.func(), target, [1]) is None
    known = conv(16, 32, (14, 14), (3, 3), stride=2).func()
    assert Blocked().pack(known, target, []) is None
    assert Blocked().pack(known, target, [0]) is None
    assert Blocked().pack(known.without_attr("tir.noalias"), target, [1]) is None
    assert schedule(known, target, [Blocked()]) is known
