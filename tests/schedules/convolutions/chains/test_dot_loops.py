"""ByRows for bfloat16: three convolutions by dot products of words, with what is between them rounded in registers."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from applied import DOTS, X86, Applied
from convolution_chains import same_results

from relax import te, tir, topi
from relax.codegen import resolve
from relax.ir import DataType
from relax.schedules.cpu import ByRows
from relax.schedules.cpu.convolutions.chains.chain import chain_of
from relax.schedules.cpu.convolutions.chains.dot_loops import WideTaps, WordRowPacking
from relax.schedules.cpu.tile.words import words_for

BFLOAT, FLOAT = ml_dtypes.bfloat16, DataType("float32")
CASES = {
    "a residual, half a word": {"ci": 5, "middle": 20, "co": 5, "residual": True},
    "stride 2": {"ci": 4, "middle": 16, "co": 9, "stride": 2},
    "two widths of tiles": {"ci": 6, "middle": 70, "co": 70},
    "one input, 5 × 5": {"ci": 1, "middle": 34, "co": 24, "kernel": 5, "stride": 2},
    "float32 results": {"ci": 8, "middle": 18, "co": 40, "dtype": "float32"},
}
SIZES = [(1, 1, 1), (2, 3, 5), (0, 4, 4), (1, 0, 3), (1, 5, 0), (1, 13, 7), (2, 7, 8), (1, 2, 31)]
"""Batches and images: of nothing, a pixel, a tile's pixels of a line, one more, and primes."""


def convolution(x, w, stride=1, pad=0, groups=1):
    return topi.nn.conv(x, w, stride, pad, 1, groups, "NCHW", "OIHW", out_dtype="float32")


def bounded(y, scale):
    """A scale for each channel, and bounds, in float32; rounded to bfloat16."""

    def element(n, c, h, w):
        return tir.max(tir.min(y[n, c, h, w] * scale[c], 6.0), 0.0).astype("bfloat16")

    return te.compute(y.shape, element, "bounded")


def chain(ci, middle, co, kernel=3, stride=1, residual=False, dtype="bfloat16"):
    """The chain as a PrimFunc: its last result has the data added, or is as it is, rounded or not."""
    n, h, w = (te.var(name, "int64") for name in "nhw")
    x = te.placeholder((n, ci, h, w), "bfloat16", "X")
    shapes = ((middle, ci, 1, 1), (middle, 1, kernel, kernel), (co, middle, 1, 1))
    weights = [te.placeholder(shape, "bfloat16", name) for shape, name in zip(shapes, "EDP", strict=True)]
    a, b = (te.placeholder((middle,), "float32", name) for name in "ab")
    first = bounded(convolution(x, weights[0]), a)
    second = bounded(convolution(first, weights[1], stride, kernel // 2, middle), b)
    third = convolution(second, weights[2])

    def element(*at):
        total = third(*at) + x(*at).astype("float32") if residual else third(*at)
        return total.astype(dtype)

    return te.create_prim_func([x, *weights, a, b, te.compute(third.shape, element, "result")])


def arrays(n, h, w, ci, middle, co, kernel=3, stride=1, dtype="bfloat16", **_):
    """Small whole numbers and thirds: what is between the convolutions is rounded, and sums are exact."""
    generator = np.random.default_rng(0)
    shapes = ((n, ci, h, w), (middle, ci, 1, 1), (middle, 1, kernel, kernel), (co, middle, 1, 1))
    values = [generator.integers(-2, 3, shape).astype(BFLOAT) for shape in shapes]
    scales = [generator.choice(np.array([1, 1 / 3, 0.6], "f4"), (middle,)) for _ in "ab"]
    out = ((size + 2 * (kernel // 2) - kernel) // stride + 1 for size in (h, w))
    return [*values, *scales, np.full((n, co, *out), 77, BFLOAT if dtype == "bfloat16" else dtype)]


def packed(func, target="llvm"):
    return Applied(ByRows(), func, target, known=[1, 2, 3, 4, 5])


def has_words(target):
    return words_for(target, DataType("bfloat16"), DataType("bfloat16"), FLOAT) is not None


@pytest.mark.parametrize("case", CASES)
def test_unknown_sizes(case):
    """This machine computes what the loops as they are written do, by rows where it has dot products."""
    options = CASES[case]
    func = chain(**options)
    rows = packed(func) if has_words(resolve("llvm")) else Applied(ByRows(), func)
    if rows.packings:
        kinds = [type(rows.packings[i]) for i in (1, 2, 3)]
        assert kinds == [WordRowPacking, WideTaps, WordRowPacking]
    same_results(func, (arrays(*size, **options) for size in SIZES), rows)


@pytest.mark.parametrize("cores", [1, 2])
def test_interpreted(cores):
    """The rule's result for a machine with the instruction."""
    options, size = {"ci": 3, "middle": 18, "co": 3, "residual": True}, (1, 3, 9)
    func = chain(**options)
    same_results(func, [arrays(*size, **options)], packed(func, f"{DOTS} -num-cores={cores}"))


@pytest.mark.parametrize("name", [f"{X86} -mcpu=skylake-avx512", DOTS])
def test_other_machines_and_odd_numbers_of_channels_have_each_convolution_by_its_rule(name):
    func = chain(8, 21 if name == DOTS else 20, 8)
    assert chain_of(func)
    rows = ByRows().pack(func, resolve(name), [1, 2, 3, 4, 5])
    assert not rows or not any(isinstance(p, WordRowPacking | WideTaps) for p in rows.packings.values())
    arrangement = ByRows().apply(func, resolve(name), False)
    assert arrangement
    tir.verify_well_formed(arrangement)


def test_numbers_of_two_kinds_are_no_chain():
    """An expansion whose results are not rounded, for a depthwise convolution of float32."""
    x, e = te.placeholder((1, 8, 9, 9), "bfloat16"), te.placeholder((16, 8, 1, 1), "bfloat16")
    d, p = te.placeholder((16, 1, 3, 3), "float32"), te.placeholder((8, 16, 1, 1), "float32")
    y = convolution(convolution(convolution(x, e), d, 1, 1, 16), p)
    assert str(chain_of(te.create_prim_func([x, e, d, p, y]))) == "the convolutions differ in dtype"
