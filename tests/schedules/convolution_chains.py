"""Chains of three convolutions for the tests of rules that fuse them, with what they must compute."""

from __future__ import annotations

import numpy as np
from applied import Applied

from relax import te, tir, topi
from relax.codegen import build_module
from relax.schedules.cpu import ByRows
from support import PLAIN_LOOPS

CASES = {
    "a residual": {"ci": 5, "middle": 20, "co": 5, "residual": True},
    "stride 2": {"ci": 3, "middle": 16, "co": 9, "stride": 2},
    "two widths of tiles": {"ci": 4, "middle": 70, "co": 70},
    "a channel": {"ci": 1, "middle": 1, "co": 1},
    "5 × 5, stride 2": {"ci": 2, "middle": 33, "co": 24, "kernel": 5, "pad": 2, "stride": 2},
    "no padding": {"ci": 6, "middle": 17, "co": 40, "pad": 0},
    "a stride that meets each line once": {"ci": 2, "middle": 18, "co": 3, "stride": 3},
}
FIRST_LAYERS = {
    "3 × 3, stride 2": {"ci": 3, "middle": 32, "co": 16, "windows": ((3, 3), (2, 2), 1)},
    "3 × 3": {"ci": 4, "middle": 17, "co": 3, "windows": ((3, 3), (1, 1), 1)},
    "7 × 7, stride 4, then 2": {"ci": 1, "middle": 20, "co": 5, "stride": 2, "windows": ((7, 7), (4, 4), 3)},
    "other numbers down than along lines": {"ci": 2, "middle": 50, "co": 20, "windows": ((2, 3), (1, 3), 1)},
    "no padding": {"ci": 3, "middle": 9, "co": 8, "windows": ((2, 2), (2, 2), 0)},
}
"""Chains whose first convolution has windows: their taps, strides and padding."""
SIZES = [(1, 1, 1), (2, 3, 5), (0, 4, 4), (1, 0, 3), (1, 5, 0), (1, 13, 7), (2, 7, 8), (1, 2, 31)]
"""Batches and images: of nothing, a pixel, a tile's pixels of a line, one more, and primes."""


class Chain:
    """Three convolutions with what is computed of their results: a scale and bounds, and perhaps the data added."""

    def __init__(
        self, ci, middle, co, kernel=3, stride=1, pad=1, residual=False, dilation=1, dtype="float32",
        windows=((1, 1), (1, 1), 0), windows_dilation=1,
    ):  # fmt: skip
        self.ci, self.middle, self.co = ci, middle, co
        self.kernel, self.stride, self.pad = kernel, stride, pad
        self.residual, self.dilation, self.dtype = residual, dilation, dtype
        self.taps, self.steps, self.before = windows
        self.windows_dilation = windows_dilation

    def tensors(self, size=None):
        n, h, w = (te.var(name, "int64") for name in "nhw") if size is None else size
        shapes = [(n, self.ci, h, w), *self.shapes()]
        names = ("X", "E", "D", "P", "a", "b", "c")
        return [te.placeholder(shape, self.dtype, name) for shape, name in zip(shapes, names, strict=True)]

    def shapes(self):
        """The shapes of what is known: weights and scales."""
        weights = [
            (self.middle, self.ci, *self.taps),
            (self.middle, 1, *[self.kernel] * 2),
            (self.co, self.middle, 1, 1),
        ]
        return [*weights, (self.middle,), (self.middle,), (self.co,)]

    def func(self, size=None, more=lambda first, second: []):
        """The chain as a PrimFunc, which may have results of its middle too."""
        x, e, d, p, a, b, c = self.tensors(size)
        layouts = ("NCHW", "OIHW")
        wide = topi.nn.conv(x, e, list(self.steps), self.before, self.windows_dilation, 1, *layouts)
        first = bounded(wide, a)
        second = topi.nn.conv(first, d, self.stride, self.pad, self.dilation, self.middle, *layouts)
        second = bounded(second, b)
        third = topi.nn.conv(second, p, 1, 0, 1, 1, *layouts)

        def element(n, i, y, z):
            total = third[n, i, y, z] + c[i]
            return total + x[n, i, y, z] if self.residual else total

        result = te.compute(third.shape, element, "result")
        return te.create_prim_func([x, e, d, p, a, b, c, *more(first, second), result])

    def arrays(self, n, h, w):
        """Small integers, so that sums are exact in any order, and a result full of rubbish."""
        generator = np.random.default_rng(0)
        shapes = [(n, self.ci, h, w), *self.shapes()]
        values = [generator.integers(-2, 3, shape).astype(self.dtype) for shape in shapes]
        out = (
            (s + 2 * self.pad - self.dilation * (self.kernel - 1) - 1) // self.stride + 1
            for s in self.middle_size(h, w)
        )
        return [*values, np.full((n, self.co, *out), 77, self.dtype)]

    def middle_size(self, h, w):
        """The lines and columns of the image between the convolutions."""
        sizes = zip((h, w), self.taps, self.steps, strict=True)
        return [(size + 2 * self.before - taps) // step + 1 for size, taps, step in sizes]

    def sizes(self):
        """The images that are not smaller than a window."""
        least = self.dilation * (self.kernel - 1) + 1 - 2 * self.pad
        return [size for size in SIZES if min(self.middle_size(*size[1:])) >= max(least, 0)]


def bounded(y, scale):
    """max(min(y * scale, 6), 0), with a scale for each channel."""

    def element(n, c, h, w):
        return tir.max(tir.min(y[n, c, h, w] * scale[c], 6.0), 0.0)

    return te.compute(y.shape, element, "bounded")


def packed(func, target="llvm"):
    """The function with packed weights and scales."""
    return Applied(ByRows(), func, target, known=[1, 2, 3, 4, 5, 6])


def same_results(func, arrays, *runs):
    """The loops as they are written compute the same of arguments, the last of which is the result."""
    plain = build_module(func, PLAIN_LOOPS)["main"]
    for given in arrays:
        expected = [array.copy() for array in given]
        plain(*expected)
        for run in runs:
            run.computes(expected[-1], *given[:-1])


def same_by_rows(target, chain, *sizes, known=None):
    """The function by rows computes what the loops as they are written do, interpreted and compiled."""
    func = chain.func(known)
    same_results(func, (chain.arrays(*size) for size in sizes), packed(func, target), packed(func))
