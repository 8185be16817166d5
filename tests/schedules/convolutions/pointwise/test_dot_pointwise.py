"""WordPixels: 1×1 convolutions of bfloat16 and bytes by dot products of words, in tiles along pixels or channels."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from applied import DOTS, TILES, Applied, anything, convolved, whole

from relax import te, tir, topi
from relax.codegen import resolve
from relax.ir import DataType
from relax.schedules import schedule
from relax.schedules.cpu import WordPixels
from relax.schedules.cpu.convolutions.pointwise.pointwise import PointwiseParameters
from relax.schedules.cpu.tile.words import words_for

BFLOAT = ml_dtypes.bfloat16

CASES = {
    "whole tiles": (8, 24, (8, 16), 1),
    "half a word, rests of tiles": (5, 29, (7, 13), 1),
    "one input": (1, 24, (40, 33), 1),
    "stride 2": (9, 20, (9, 13), 2),
    "one dimension": (8, 16, (97,), 1),
    "three dimensions, stride 2": (16, 20, (3, 5, 9), 2),
    "parts of input channels": (170, 20, (3, 5), 1),
}
SIZES = [(1, (1, 1)), (2, (3, 5)), (0, (4, 4)), (1, (0, 3)), (2, (1, 31)), (1, (4, 8)), (1, (3, 11))]
"""Batches and images: of nothing, a pixel, a tile's number of pixels, one less and one more."""
LAYOUTS = {1: ("NCW", "OIW"), 2: ("NCHW", "OIHW"), 3: ("NCDHW", "OIDHW")}


@pytest.fixture(params=["pixels", "channels"])
def form(request, monkeypatch):
    """Both forms of the loops."""
    monkeypatch.setattr(WordPixels, "parameters", PointwiseParameters(along=request.param))


def convolution(ci, co, size, stride=1, n=1, dtype="bfloat16", behind=lambda y: y):
    x = te.placeholder((n, ci, *size), dtype, "X")
    w = te.placeholder((co, ci, *(1 for _ in size)), dtype, "W")
    y = topi.nn.conv(x, w, stride, 0, 1, 1, *LAYOUTS[len(size)], out_dtype="float32")
    return te.create_prim_func([x, w, behind(y)])


def operand(*shape):
    return whole(*shape, dtype=BFLOAT, seed=sum(shape))


def runs_of(func, dtypes=("bfloat16", "bfloat16", "float32")):
    """The function with packed weights: interpreted for a machine with the instruction, and for this one if it has it."""
    words = ((name, words_for(resolve(name), *map(DataType, dtypes))) for name in (DOTS, "llvm"))
    return [
        Applied(WordPixels(), func, name, known=[1])
        for name, kind in words
        if kind is not None and kind.kind in resolve(name).machine.dot_products
    ]


def same(func, x, w, expected, *dtypes):
    for run in runs_of(func, *dtypes):
        run.computes(expected, x, w)


@pytest.mark.parametrize("case", CASES)
def test_known_sizes(form, case):
    ci, co, size, stride = CASES[case]
    x, w = operand(2, ci, *size), operand(co, ci, *(1 for _ in size))
    same(convolution(ci, co, size, stride, 2), x, w, convolved(x, w, stride))


@pytest.mark.parametrize("stride", [1, 2])
def test_unknown_sizes(form, stride):
    n, h, w = (te.var(name, "int64") for name in "nhw")
    func, weights = convolution(3, 35, (h, w), stride, n), operand(35, 3, 1, 1)
    runs = runs_of(func)
    for batch, size in SIZES:
        x = operand(batch, 3, *size)
        for run in runs:
            run.computes(convolved(x, weights, stride), x, weights)


BYTES = ("uint8", "int8", "int32")


def bytes_convolution(ci, co, size, stride=1, data="uint8"):
    """Of a number of images that is not known: it may be worth it."""
    n = te.var("n", "int64")
    x = te.placeholder((n, ci, *size), data, "X")
    w = te.placeholder((co, ci, *(1 for _ in size)), "int8", "W")
    return te.create_prim_func([x, w, topi.nn.conv(x, w, stride, out_dtype="int32")])


@pytest.mark.parametrize("inputs", [1, 3, 8, 170])
@pytest.mark.parametrize("stride", [1, 2])
def test_bytes(form, inputs, stride):
    """The data have no sign, the weights have one: they are not exchanged, whichever are the rows of tiles."""
    x, w = anything(2, inputs, 7, 13, dtype="uint8"), anything(29, inputs, 1, 1, dtype="int8", seed=1)
    x[0], w[0] = 255, -128
    same(bytes_convolution(inputs, 29, (7, 13), stride), x, w, convolved(x, w, stride), BYTES)


def test_bytes_of_images_of_unknown_size(form):
    h, w = (te.var(name, "int64") for name in "hw")
    weights = anything(35, 6, 1, 1, dtype="int8")
    runs = runs_of(bytes_convolution(6, 35, (h, w)), BYTES)
    for batch, size in SIZES:
        x = anything(batch, 6, *size, dtype="uint8", seed=1)
        for run in runs:
            run.computes(convolved(x, weights), x, weights)


def test_results_of_bfloat16(form):
    """What stands behind a convolution is computed in float32 and rounded once, as it is stored."""

    def behind(y):
        third = tir.const(1 / 3, "float32")
        return te.compute(y.shape, lambda *i: (tir.max(y(*i), tir.const(0, "float32")) * third).astype("bfloat16"))

    x, w = operand(1, 9, 7, 9), operand(20, 9, 1, 1)
    expected = (np.maximum(convolved(x, w), 0) * np.float32(1 / 3)).astype(BFLOAT)
    same(convolution(9, 20, (7, 9), behind=behind), x, w, expected)


def test_what_is_no_number_stays_in_its_pixel(form):
    """The last of an odd number of channels fills its word with zeros, not with what is beside it."""
    x, w = operand(1, 5, 12, 19), np.ones((9, 5, 1, 1), BFLOAT)
    x[0, 4, 1, 2], x[0, 0, 3, 8], x[0, 1, 2, 5] = np.inf, np.nan, -np.inf
    expected = convolved(x, w)
    assert np.isinf(expected).sum() == 18
    assert np.isnan(expected).sum() == 9
    same(convolution(5, 9, (12, 19)), x, w, expected)


def test_others_are_left_alone():
    bfloat = convolution(16, 16, (9, 9))
    assert schedule(bfloat, resolve(DOTS), [WordPixels()]) is bfloat  # weights are not known
    assert not WordPixels().pack(bfloat, resolve(DOTS), [])
    for target in (TILES, "llvm -mcpu=skylake-avx512"):
        assert not WordPixels().pack(bfloat, resolve(target), [1])
    flipped = bytes_convolution(16, 16, (9, 9), data="int8")
    assert not WordPixels().pack(flipped, resolve(DOTS), [1])
    for dtype in ("float16", "float32"):
        func = convolution(16, 16, (9, 9), dtype=dtype)
        assert not WordPixels().pack(func, resolve(DOTS), [1])
    x, w = (te.placeholder(shape, "bfloat16") for shape in ((1, 16, 9, 9), (16, 16, 3, 3)))
    several = te.create_prim_func([x, w, topi.nn.conv(x, w, 1, 1, out_dtype="float32")])
    assert not WordPixels().pack(several, resolve(DOTS), [1])
