"""WordColumns: convolutions of several taps over small images of bytes, as products over copies of each tap."""

from __future__ import annotations

import numpy as np
import pytest
from applied import DOTS, Applied, anything, convolved

from relax import te, topi
from relax.codegen import resolve
from relax.schedules.cpu import WordColumns
from relax.schedules.cpu.convolutions.pointwise.along_channels import AlongChannels
from relax.schedules.cpu.convolutions.pointwise.along_pixels import AlongPixels

FORMS = {"pixels": AlongPixels, "channels": AlongChannels}

CASES = {
    "three by three": ((7, 7), (3, 3), 1, 1, 1),
    "one pixel": ((1, 1), (3, 3), 1, 1, 1),
    "a vector's pixels, and one more": ((2, 17), (2, 2), 1, 1, 1),
    "stride": ((9, 13), (3, 3), 2, 1, 1),
    "dilation": ((9, 8), (3, 2), 1, 2, 2),
    "a line": ((33,), (3,), 1, 1, 1),
    "columns": ((5, 6), (3, 1), (2, 1), 0, 1),
}
LAYOUTS = {1: ("NCW", "OIW"), 2: ("NCHW", "OIHW")}


@pytest.fixture(params=FORMS, autouse=True)
def form(request, monkeypatch):
    """Both forms of the loops, of any number of channels and of any images."""
    monkeypatch.setattr("relax.schedules.cpu.convolutions.dot_columns.writer_for", FORMS[request.param])
    monkeypatch.setattr("relax.schedules.cpu.convolutions.dot_columns.CHANNELS", 1)
    monkeypatch.setattr("relax.schedules.cpu.convolutions.dot_columns.WEIGHTS", 1)
    monkeypatch.setattr("relax.schedules.cpu.convolutions.dot_columns.WASTE", 0.01)


def convolution(ci, co, size, kernel, stride=1, pad=0, dilation=1):
    """Of a number of images that is not known: it may be worth it."""
    n = te.var("n", "int64")
    x = te.placeholder((n, ci, *size), "uint8", "X")
    w = te.placeholder((co, ci, *kernel), "int8", "W")
    y = topi.nn.conv(x, w, stride, pad, dilation, 1, *LAYOUTS[len(size)], out_dtype="int32")
    return te.create_prim_func([x, w, y])


def packed(func, is_compiled=True):
    """The function with packed weights: for this machine if it has the instruction and `is_compiled`, else interpreted."""
    here = is_compiled and bool(WordColumns().pack(func, resolve("llvm"), [1]))
    return Applied(WordColumns(), func, "llvm" if here else DOTS, known=[1])


def operands(x_shape, w_shape):
    return anything(*x_shape, dtype="uint8"), anything(*w_shape, dtype="int8", seed=1)


@pytest.mark.parametrize("inputs", [6, 36])
@pytest.mark.parametrize("case", CASES)
def test_known_sizes(case, inputs):
    """Six channels are a word and a half."""
    size, kernel, stride, pad, dilation = CASES[case]
    x, w = operands((2, inputs, *size), (35, inputs, *kernel))
    x[0], w[0] = 255, -128
    func = convolution(inputs, 35, size, kernel, stride, pad, dilation)
    packed(func).computes(convolved(x, w, stride, pad, dilation), x, w)


@pytest.mark.parametrize("case", ["one pixel", "a vector's pixels, and one more"])
def test_the_interpreter_gives_the_same(case):
    size, kernel, *options = CASES[case]
    x, w = operands((2, 6, *size), (19, 6, *kernel))
    func = convolution(6, 19, size, kernel, *options)
    packed(func, is_compiled=False).computes(convolved(x, w, *options), x, w)


@pytest.mark.parametrize("stride", [1, 2])
def test_unknown_sizes(stride):
    h, w = (te.var(name, "int64") for name in "hw")
    run = packed(convolution(5, 29, (h, w), (3, 3), stride, 1))
    sizes = (1, 1, 1), (2, 4, 5), (0, 4, 4), (1, 0, 3), (3, 7, 7), (1, 2, 31), (1, 3, 17)
    for batch, *size in sizes:
        x, weights = operands((batch, 5, *size), (29, 5, 3, 3))
        run.computes(convolved(x, weights, stride, 1), x, weights)


def test_what_is_computed_of_sums():
    """A bias of each channel and a tensor of the size of the result are read where each image's loops are."""
    n = te.var("n", "int64")
    x = te.placeholder((n, 8, 5, 5), "uint8", "X")
    w = te.placeholder((20, 8, 3, 3), "int8", "W")
    bias, other = te.placeholder((20,), "int32", "B"), te.placeholder((n, 20, 5, 5), "int32", "O")
    y = topi.nn.conv(x, w, 1, 1, 1, 1, *LAYOUTS[2], out_dtype="int32")
    z = te.compute(y.shape, lambda n, c, i, j: y[n, c, i, j] + bias[c] - other[n, c, i, j], "Z")
    func = te.create_prim_func([x, w, bias, other, z])
    data, weights = operands((2, 8, 5, 5), (20, 8, 3, 3))
    biases, others = np.arange(20, dtype="int32"), np.arange(1000, dtype="int32").reshape(2, 20, 5, 5)
    expected = convolved(data, weights, 1, 1) + biases[:, None, None] - others
    packed(func).computes(expected, data, weights, biases, others)


@pytest.mark.parametrize(
    ("data", "kernel", "groups"), [("int8", (3, 3), 1), ("uint8", (1, 1), 1), ("uint8", (3, 3), 2)]
)
def test_refused(data, kernel, groups):
    x = te.placeholder((1, 8, 7, 7), data, "X")
    w = te.placeholder((16, 8 // groups, *kernel), "int8", "W")
    y = topi.nn.conv(x, w, 1, 0, 1, groups, *LAYOUTS[2], out_dtype="int32")
    func = te.create_prim_func([x, w, y])
    assert not WordColumns().pack(func, resolve(DOTS), [1])
    assert not WordColumns().apply(func, resolve(DOTS), False)


def test_few_channels_and_lines_that_waste_little_are_refused(monkeypatch):
    monkeypatch.setattr("relax.schedules.cpu.convolutions.dot_columns.WASTE", 1.05)
    target = resolve(DOTS)
    assert WordColumns().pack(convolution(8, 16, (7, 7), (3, 3), 1, 1), target, [1])
    assert not WordColumns().pack(convolution(8, 16, (56, 56), (3, 3), 1, 1), target, [1])
    monkeypatch.setattr("relax.schedules.cpu.convolutions.dot_columns.CHANNELS", 17)
    assert not WordColumns().pack(convolution(8, 16, (7, 7), (3, 3), 1, 1), target, [1])
