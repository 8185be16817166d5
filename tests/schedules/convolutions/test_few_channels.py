"""FewChannels: convolutions of few input channels with known weights, in tiles of channels by neighbouring pixels."""

from __future__ import annotations

import numpy as np
import pytest
from applied import Applied, convolved, same_on_threads, whole

from relax import te, tir
from relax.schedules import schedule
from relax.schedules.cpu import RULES, FewChannels

CASES = {
    "first layer": {"ci": 3, "co": 8, "size": (20, 34), "kernel": (3, 3), "stride": 2, "pad": 1},
    "7 × 7, several images": {
        "ci": 3, "co": 5, "size": (17, 40), "kernel": (7, 7), "n": 2, "stride": 2, "pad": 3,
    },
    "stride 1": {"ci": 1, "co": 9, "size": (9, 65), "kernel": (3, 3), "pad": 1},
    "stride 3, no padding": {"ci": 2, "co": 4, "size": (20, 70), "kernel": (3, 4), "stride": 3},
    "stride 4": {"ci": 4, "co": 3, "size": (12, 140), "kernel": (4, 4), "stride": 4},
    "windows longer than a vector": {"ci": 1, "co": 6, "size": (3, 60), "kernel": (1, 37), "pad": (0, 18)},
    "windows across lines": {"ci": 3, "co": 6, "size": (39, 37), "kernel": (4, 1), "stride": 2},
    "a channel": {"ci": 1, "co": 1, "size": (29, 43), "kernel": (5, 5), "pad": 2},
    "more lines than an item has": {"ci": 1, "co": 2, "size": (130, 18), "kernel": (3, 3), "pad": 1},
    "sound": {"ci": 1, "co": 11, "size": (250,), "kernel": (5,), "n": 2, "stride": 2, "pad": 2},
    "lines along the first dimension": {"ci": 2, "co": 17, "size": (140, 1), "kernel": (5, 1), "n": 2},
    "float64": {"ci": 3, "co": 8, "size": (8, 21), "kernel": (3, 3), "stride": 2, "pad": 1, "dtype": "float64"},
}  # fmt: skip


def packed(known, target, *behind):
    """The convolution with packed weights."""
    return Applied(FewChannels(), known.func(*behind), target, known=[1])


def check(known, run, *size):
    """Run a function and compare."""
    x, k = (whole(*shape, dtype=known.dtype, seed=i) for i, shape in enumerate(known.shapes(*size)[:2]))
    run.computes(convolved(x, k, known.stride, known.pad), x, k)


@pytest.mark.parametrize("case", CASES)
def test_known_sizes(conv, target, case):
    known = conv(**CASES[case])
    for machine in (target, "llvm"):
        check(known, packed(known, machine))


@pytest.mark.parametrize("stride", [1, 2, 3])
def test_one_kernel_for_all_sizes(conv, stride):
    n, h, w = (te.var(name, "int64") for name in "nhw")
    unknown = conv(3, 10, (h, w), (3, 3), n, stride, 1)
    run = packed(unknown, "llvm")
    sizes = [
        (1, (1, 1)), (2, (5, 7)), (0, (4, 4)), (1, (0, 3)), (1, (3, 0)), (1, (3, 16)), (1, (2, 65)), (3, (9, 63)),
        (1, (115, 15)), (1, (60, 257)),
    ]  # fmt: skip
    for size in sizes:
        check(unknown, run, *size)


def test_lines_of_any_length(conv):
    n, w = (te.var(name, "int64") for name in "nw")
    unknown = conv(2, 5, (w,), (3,), n, 2)
    run = packed(unknown, "llvm")
    for batch, length in ((1, 1), (2, 7), (0, 4), (1, 3), (3, 64), (1, 130)):
        check(unknown, run, batch, (length,))


def test_narrow_vectors_and_few_registers(conv):
    n, h, w = (te.var(name, "int64") for name in "nhw")
    unknown = conv(3, 7, (h, w), (3, 2), n, 2, 1)
    for cpu in ("x86-64", "haswell"):
        run = packed(unknown, f"llvm -mcpu={cpu}")
        for size in ((1, (1, 1)), (2, (3, 2)), (0, (4, 4)), (1, (4, 37))):
            check(unknown, run, *size)


def test_what_stands_behind_is_computed_as_results_are_stored(conv):
    def scaled(y):
        def formula(n, c, h, w):
            channel = c.astype("float32")
            return tir.max(y[n, c, h, w] * (1 / tir.sqrt(channel + 1.0)) + channel, 0.0)

        return te.compute(y.shape, formula, "scaled")

    known = conv(3, 10, (9, 40), (3, 3), stride=2, pad=1)
    run = packed(known, "llvm", scaled)
    assert "conv2d = T.alloc_buffer" not in run.func.script()
    x, k, y = (whole(*shape, seed=i) for i, shape in enumerate(known.shapes()))
    channels = np.arange(10, dtype="float32")[:, None, None]
    result = np.maximum(convolved(x, k, 2, 1) / np.sqrt(channels + 1) + channels, 0)
    np.testing.assert_allclose(run(x, k, y), result, rtol=1e-6, atol=1e-5)


def test_a_number_that_is_none_stays_in_its_windows(conv):
    known = conv(3, 6, (8, 40), (3, 3), stride=2, pad=1)
    x, k = (whole(*shape, seed=i) for i, shape in enumerate(known.shapes()[:2]))
    x[0, 1, 3, 20], x[0, 2, 7, 39], k[k == 0] = np.nan, np.inf, 1
    with np.errstate(invalid="ignore"):
        expected = convolved(x, k, 2, 1)
    assert np.isnan(expected).sum() == 2 * 6
    assert np.isinf(expected).sum() == 6
    packed(known, "llvm").computes(expected, x, k)


def test_the_number_of_threads_changes_nothing(conv, monkeypatch):
    known = conv(3, 16, (60, 60), (3, 3), stride=2, pad=1)
    same_on_threads(monkeypatch, packed(known, "llvm"), *known.shapes())


def test_others_are_left_alone(target, conv):
    others = [
        conv(5, 16, (30, 30), (3, 3)),
        conv(4, 16, (30, 30), (3, 3), groups=2),
        conv(3, 16, (30, 30), (1, 1)),
        conv(3, 16, (30, 30), (3, 3), dilation=2),
        conv(3, 16, (30, 130), (3, 5), stride=5),
        conv(3, 16, (30, 130), (1, 3), stride=2),
        conv(3, 16, (30, 15), (3, 3)),
        conv(3, 16, (18, 18, 18), (3, 3, 3)),
        conv(3, 16, (30, 30), (3, 3), dtype="float16"),
    ]
    for other in others:
        assert not FewChannels().pack(other.func(), target, [1])
    known = conv(3, 16, (30, 40), (3, 3), stride=2).func()
    assert not FewChannels().pack(known, target, [])
    assert not FewChannels().pack(known, target, [0])
    assert not FewChannels().pack(known.without_attr("tir.noalias"), target, [1])
    assert schedule(known, target, [FewChannels()]) is known


def test_first_layers_are_its_own(target, conv):
    known = conv(3, 32, (224, 224), (3, 3), stride=2, pad=1).func()
    chosen = next(rule for rule in RULES if rule.pack(known, target, [1]))
    assert isinstance(chosen, FewChannels)
