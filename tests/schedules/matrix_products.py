"""Products of matrices for tests of schedule rules."""

from __future__ import annotations

import numpy as np

from relax import te
from relax.codegen import build_module, resolve
from relax.schedules.cpu import Product
from relax.transform import PassContext


def product(m, n, k, residual=False, transposed=False, dtype="float32"):
    """``C = A @ B``, or ``max(A @ B + bias, 0) + R``."""
    a = te.placeholder((m, k), dtype, "A")
    b = te.placeholder((n, k) if transposed else (k, n), dtype, "B")
    axis = te.reduce_axis((0, k), "k")

    def element(i, j):
        return te.sum(a[i, axis] * (b[j, axis] if transposed else b[axis, j]), axis=axis)

    c = te.compute((m, n), element, "C")
    if not residual:
        return te.create_prim_func([a, b, c])
    bias, r = te.placeholder((n,), dtype, "bias"), te.placeholder((m, n), dtype, "R")
    zero = te.const(0, dtype)
    d = te.compute((m, n), lambda i, j: te.max(c[i, j] + bias[j], zero) + r[i, j], "D")
    return te.create_prim_func([a, b, bias, r, d])


def integers(*shape):
    return np.random.default_rng(0).integers(-3, 4, shape).astype("float32")


def is_by_sevens(func):
    """True for loops of Strassen's algorithm, which have sums of the left operand."""
    return "lefts" in func.script()


def packed(func, target, fast=True):
    """The function for packed weights, and their packing."""
    with PassContext(config={"relax.fast_algorithms": fast}):
        result = Product().pack(func, target, [1])
    assert result is not None
    return result.func, result.packings[1]


class Compiled:
    """A product by packed weights, for the machine that the tests run on."""

    def __init__(self, m, n, k, fast=True, **options):
        func, self.packing = packed(product(m, n, k, **options), resolve("llvm"), fast)
        self.is_by_sevens = is_by_sevens(func)
        self.kernel = build_module(func)["main"]

    def __call__(self, a, b, *others):
        result = np.full((a.shape[0], b.shape[1]), 77, "float32")
        self.kernel(a, self.packing(b), *others, result)
        return result
