"""BytePixels: convolutions of bytes whose data or results have channels behind pixels."""

from __future__ import annotations

import numpy as np
import pytest
from applied import DOTS, Applied, anything, convolved

from relax import te, topi
from relax.codegen import resolve
from relax.schedules.cpu import BytePixels
from relax.tir.permuted_parameters import LAST, with_permuted_parameters

MOVED = {"both": "XZO", "data": "XO", "result": "ZO"}
"""The parameters that have channels behind pixels."""

CASES = {
    "single elements": ((7, 7), (1, 1), 1, 0, 1),
    "a tile's pixels": ((2, 7), (1, 1), 1, 0, 1),
    "one more": ((3, 5), (1, 1), 1, 0, 1),
    "one less": ((1, 13), (1, 1), 1, 0, 1),
    "single elements, stride": ((9, 8), (1, 1), 2, 0, 1),
    "single elements, padding": ((3, 4), (1, 1), 1, 1, 1),
    "three by three": ((7, 7), (3, 3), 1, 1, 1),
    "one pixel": ((1, 1), (3, 3), 1, 1, 1),
    "no padding": ((5, 18), (2, 3), 1, 0, 1),
    "stride": ((9, 13), (3, 3), 2, 1, 1),
    "dilation": ((9, 8), (3, 2), 1, 2, 2),
    "a stride that leaves the last line out": ((8, 6), (3, 3), 2, 1, 1),
}


def function(ci, co, size, kernel, stride=1, pad=0, dilation=1, batch=None, moved="both", data="uint8"):
    """Of a number of images that is not known, with a bias and an image that is added."""
    n = te.var("n", "int64") if batch is None else batch
    x = te.placeholder((n, ci, *size), data, "X")
    w = te.placeholder((co, ci, *kernel), "int8", "W")
    y = topi.nn.conv(x, w, stride, pad, dilation, 1, "NCHW", "OIHW", out_dtype="int32")
    bias, other = te.placeholder((co,), "int32", "B"), te.placeholder(y.shape, "int8", "O")

    def changed(*i):
        return ((y[i] + bias[i[1]]) // 4 - other[i].astype("int32")).astype("uint8")

    func = te.create_prim_func([x, w, bias, other, te.compute(y.shape, changed, "Z")])
    assert BytePixels().images(func, resolve(DOTS)) or data == "int8"
    images = [b for b in func.buffer_map.values() if b.name in MOVED[moved]]
    return with_permuted_parameters(func, dict.fromkeys(images, LAST))[0]


def reference(x, w, bias, other, stride=1, pad=0, dilation=1):
    """The results by the definition of the convolution."""
    sums = convolved(x, w, stride, pad, dilation)
    return ((sums + bias[:, None, None]) // 4 - other.astype("int32")).astype("uint8")


def runner(func, weights, moved="both", is_compiled=True):
    """What runs the rule's result on images with channels before pixels: this machine if it has the instruction."""
    here = is_compiled and bool(BytePixels().pack(func, resolve("llvm"), [1]))
    packed = Applied(BytePixels(), func, "llvm" if here else DOTS, known=[1])

    def run(x, bias, other, expected):
        result = np.full_like(expected, 77)
        images = dict(zip("XOZ", (x, other, result), strict=True))
        for name in MOVED[moved]:
            images[name] = np.ascontiguousarray(images[name].transpose(LAST))
        found = packed(images["X"], weights, bias, images["O"], images["Z"])
        np.testing.assert_array_equal(found.transpose(0, 3, 1, 2) if "Z" in MOVED[moved] else found, expected)

    return run


def operands(batch, ci, co, size, kernel, *options):
    """Data, weights and what is beside the sums, and what is made of them; sums reach far."""
    x, w = anything(batch, ci, *size, dtype="uint8"), anything(co, ci, *kernel, dtype="int8", seed=1)
    if x.size:
        x[0], w[0] = 255, -128
    bias = np.arange(co, dtype="int32")
    shape = reference(x, w, bias, np.zeros((), "int8"), *options).shape
    other = anything(*shape, dtype="int8", seed=2)
    return x, w, bias, other, reference(x, w, bias, other, *options)


@pytest.mark.parametrize(
    ("case", "moved"), [*((case, "both") for case in CASES), ("three by three", "data"), ("stride", "result")]
)
def test_known_sizes(case, moved):
    size, kernel, *options = CASES[case]
    x, w, *rest = operands(2, 144, 64, size, kernel, *options)
    runner(function(144, 64, size, kernel, *options, moved=moved), w, moved)(x, *rest)


@pytest.mark.parametrize(("case", "batch", "moved"), [("one pixel", None, "both"), ("one less", 1, "data")])
def test_the_interpreter_gives_the_same(case, batch, moved):
    size, kernel, *options = CASES[case]
    x, w, *rest = operands(1, 16, 256, size, kernel, *options)
    func = function(16, 256, size, kernel, *options, moved=moved, batch=batch)
    runner(func, w, moved, is_compiled=False)(x, *rest)


@pytest.mark.parametrize(
    ("kernel", "stride", "moved"),
    [((1, 1), 1, "both"), ((1, 1), 2, "both"), ((3, 3), 1, "data"), ((3, 3), 2, "result")],
)
def test_unknown_sizes(kernel, stride, moved):
    h, w = (te.var(name, "int64") for name in "hw")
    pad = kernel[0] // 2
    _, weights, *_ = operands(1, 80, 128, (1, 1), kernel, stride, pad)
    run = runner(function(80, 128, (h, w), kernel, stride, pad, moved=moved), weights, moved)
    sizes = [(1, 1), (2, 7), (3, 5), (1, 13), (7, 7), (1, 31), (3, 17), (14, 14), (0, 3), (3, 0)]
    for batch, size in [*((1, size) for size in sizes), (0, (4, 4)), (3, (5, 3))]:
        x, _, *rest = operands(batch, 80, 128, size, kernel, stride, pad)
        run(x, *rest)


@pytest.mark.parametrize(
    ("inputs", "outputs", "groups", "size", "data", "reason"),
    [
        (8, 1024, 1, 7, "uint8", "channels do not fill packed groups and vectors: multiples of 16 and 32"),
        (512, 48, 1, 7, "uint8", "channels do not fill packed groups and vectors: multiples of 16 and 32"),
        (16, 224, 1, 7, "uint8", "there are too few weights or pixels"),
        (16, 512, 1, 1, "uint8", "there are too few weights or pixels"),
        (16, 512, 1, 7, "uint16", "the target has no dot products of uint16 and int8, summed in int32"),
        (32, 512, 2, 7, "uint8", "there are 2 groups"),
    ],
)
def test_images_that_stay_where_they_are(inputs, outputs, groups, size, data, reason):
    x = te.placeholder((1, inputs * groups, size, size), data, "X")
    w = te.placeholder((outputs, inputs, 1, 1), "int8", "W")
    y = topi.nn.conv(x, w, 1, 0, 1, groups, "NCHW", "OIHW", out_dtype="int32")
    refused = BytePixels().images(te.create_prim_func([x, w, y]), resolve(DOTS))
    assert not refused
    assert str(refused) == reason


def test_refused_by_the_rule():
    """Images with channels before pixels, numbers that have no dot products, and weights that are not known."""
    func = function(144, 64, (7, 7), (3, 3), 1, 1)
    assert BytePixels().pack(func, resolve(DOTS), [1])
    assert not BytePixels().pack(func, resolve(DOTS), [])
    assert not BytePixels().apply(func, resolve(DOTS), False)
    assert not BytePixels().pack(function(144, 64, (7, 7), (3, 3), 1, 1, data="int8"), resolve(DOTS), [1])
