"""WordBlocked: convolutions of bfloat16 with known weights by dot products of words, in tiles of pixels by channels."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from applied import DOTS, TILES, X86, Applied, convolved, whole

from relax import te, tir, topi
from relax.codegen import resolve
from relax.ir import DataType
from relax.schedules.cpu import WordBlocked
from relax.schedules.cpu.tile.words import words_for

BFLOAT = ml_dtypes.bfloat16
LAYOUTS = {1: ("NCW", "OIW"), 2: ("NCHW", "OIHW")}

CASES = {
    "a line of tiles of all heights": {"ci": 9, "co": 32, "size": (3, 18), "kernel": (3, 3), "pad": 1},
    "stride 2, several images": {"ci": 40, "co": 60, "size": (5, 14), "kernel": (3, 3), "n": 2, "stride": 2},
    "dilation, an odd number of channels": {
        "ci": 33, "co": 64, "size": (9, 31), "kernel": (3, 2), "pad": 2, "dilation": 2,
    },
    "one dimension": {"ci": 10, "co": 32, "size": (29,), "kernel": (3,), "n": 3, "pad": 1},
    "lines along the first dimension": {"ci": 10, "co": 32, "size": (40, 1), "kernel": (5, 1), "n": 2},
    "images of a pixel": {"ci": 40, "co": 96, "size": (1, 1), "kernel": (3, 3), "pad": 1},
}  # fmt: skip


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """The rule takes few channels too."""
    monkeypatch.setattr("relax.schedules.cpu.convolutions.dot_blocked.CHANNELS", 1)


def convolution(ci, co, size, kernel, n=1, stride=1, pad=0, dilation=1, behind=lambda y: y):
    x, w = te.placeholder((n, ci, *size), "bfloat16", "X"), te.placeholder((co, ci, *kernel), "bfloat16", "W")
    y = topi.nn.conv(x, w, stride, pad, dilation, 1, *LAYOUTS[len(size)], out_dtype="float32")
    return te.create_prim_func([x, w, behind(y)])


def packed(func):
    """The function with packed weights: for this machine if it has the instruction; else interpreted, for one that has."""
    here = words_for(resolve("llvm"), DataType("bfloat16"), DataType("bfloat16"), DataType("float32"))
    return Applied(WordBlocked(), func, "llvm" if here is not None else DOTS, known=[1])


def operand(*shape):
    return whole(*shape, dtype=BFLOAT, seed=sum(shape))


def test_interpreted():
    """A line of a tile and a rest, of blocks that are not full, for a machine with the instruction."""
    func = convolution(5, 30, (1, 18), (1, 3), te.var("n", "int64"))
    x, w = operand(1, 5, 1, 18), operand(30, 5, 1, 3)
    Applied(WordBlocked(), func, DOTS, known=[1]).computes(convolved(x, w), x, w)


@pytest.mark.parametrize("case", CASES)
def test_known_sizes(case):
    options = CASES[case]
    x = operand(options.get("n", 1), options["ci"], *options["size"])
    w = operand(options["co"], options["ci"], *options["kernel"])
    windows = {name: options[name] for name in ("stride", "pad", "dilation") if name in options}
    packed(convolution(**options)).computes(convolved(x, w, **windows), x, w)


@pytest.mark.parametrize("stride", [1, 2])
def test_one_kernel_for_all_sizes(stride):
    """Lines of every rest beside tiles of 14 pixels."""
    n, h, w = (te.var(name, "int64") for name in "nhw")
    run, weights = packed(convolution(4, 30, (h, w), (3, 3), n, stride, 1)), operand(30, 4, 3, 3)
    for batch, size in [
        (0, (4, 4)),
        (1, (0, 3)),
        *((1 + x % 2, (1 + x % 3, x)) for x in (*range(1, 19), 27, 28, 29, 53)),
    ]:
        x = operand(batch, 4, *size)
        run.computes(convolved(x, weights, stride, 1), x, weights)


def test_results_of_bfloat16():
    """What stands behind a convolution is computed in float32 and rounded once, as it is stored."""
    third = np.float32(1 / 3)

    def behind(y):
        return te.compute(y.shape, lambda *i: (y(*i) * tir.const(third, "float32")).astype("bfloat16"))

    x, w = operand(1, 9, 3, 9), operand(32, 9, 3, 3)
    run = packed(convolution(9, 32, (3, 9), (3, 3), behind=behind))
    run.computes((convolved(x, w) * third).astype(BFLOAT), x, w)


def test_what_is_no_number_stays_in_its_window():
    """The last of an odd number of channels fills its word with zeros, not with what is beside it."""
    x, w = operand(1, 5, 8, 19), np.ones((32, 5, 2, 1), BFLOAT)
    x[0, 4, 1, 2], x[0, 0, 3, 8] = np.inf, np.nan
    expected = convolved(x, w)
    assert np.isnan(expected).sum() == np.isinf(expected).sum() == 2 * 32
    packed(convolution(5, 32, (8, 19), (2, 1))).computes(expected, x, w)


def test_others_are_left_alone(monkeypatch):
    func = convolution(16, 32, (9, 9), (3, 3))
    assert not WordBlocked().pack(func, resolve(DOTS), [])
    for target in (TILES, f"{X86} -mcpu=skylake-avx512"):
        assert not WordBlocked().pack(func, resolve(target), [1])
    for other in (convolution(16, 32, (9, 9), (1, 1)), convolution(16, 33, (9, 9), (3, 3))):
        assert not WordBlocked().pack(other, resolve(DOTS), [1])
    monkeypatch.undo()
    assert not WordBlocked().pack(func, resolve(DOTS), [1])  # few channels
