"""ScaledProduct: products of float32 by int8 or int4 with scales, which become floats in registers."""

from __future__ import annotations

import ml_dtypes  # noqa: F401  (NumPy learns int4)
import numpy as np
import pytest
from applied import Applied

from relax import te, tir
from relax.schedules import schedule
from relax.schedules.cpu import ScaledProduct

ROWS = [0, 1, 2, 3, 5, 7, 11, 12, 13]
FORMS = [("int8", 37, 70, 37), ("int8", 96, 64, 32), ("int4", 96, 70, 32), ("int4", 20, 41, 1), ("int4", 130, 16, 65)]
"""The dtype of numbers, the depth, the columns, and the rows of numbers to a row of scales."""


def product(m, k, n, dtype, group, behind=None):
    a, q = te.placeholder((m, k), "float32", "A"), te.placeholder((k, n), dtype, "Q")
    s = te.placeholder((k // group, n), "float32", "S")
    axis = te.reduce_axis((0, k), "k")

    def element(i, j):
        scale = s[axis // group if group < k else 0, j]
        return te.sum(a[i, axis] * (q[axis, j].astype("float32") * scale), axis=axis)

    c = te.compute((m, n), element, "C")
    result = c if behind is None else te.compute(c.shape, lambda *i: behind(c(*i)), "D")
    return te.create_prim_func([a, q, s, result])


def operands(rows, k, n, dtype, group):
    """Numbers whose sums are exact: whole ones, with powers of two as scales."""
    generator = np.random.default_rng(rows)
    limit = 8 if dtype == "int4" else 128
    a = generator.integers(-3, 4, (rows, k)).astype("float32")
    q = generator.integers(-limit, limit, (k, n)).astype(dtype)
    return a, q, (2.0 ** generator.integers(-2, 3, (k // group, n))).astype("float32")


def weights(q, s):
    return q.astype("float32") * np.repeat(s, len(q) // len(s), axis=0)


def packed(func, target="llvm"):
    return Applied(ScaledProduct(), func, target, known=[1, 2])


@pytest.mark.parametrize(("dtype", "k", "n", "group"), FORMS)
def test_unknown_rows(target, dtype, k, n, group):
    func = product(te.var("m", "int64"), k, n, dtype, group)
    compiled, interpreted = packed(func), packed(func, target)
    for rows in ROWS:
        a, q, s = operands(rows, k, n, dtype, group)
        for run in (compiled, interpreted) if rows in (0, 1, 13) else (compiled,):
            run.computes(a @ weights(q, s), a, q, s)


@pytest.mark.parametrize("rows", [1, 3, 6, 30])
def test_known_rows_and_what_is_behind(rows):
    func = product(rows, 256, 41, "int4", 16, lambda total: tir.max(total, tir.const(0, "float32")))
    a, q, s = operands(rows, 256, 41, "int4", 16)
    packed(func).computes(np.maximum(a @ weights(q, s), 0), a, q, s)


def test_each_weight_is_rounded_before_it_is_multiplied():
    func = product(te.var("m", "int64"), 128, 80, "int8", 128)
    run = packed(func)
    generator = np.random.default_rng(0)
    q, s = (generator.integers(-128, 128, (128, 80)).astype("int8"), generator.random((1, 80)).astype("float32"))
    for rows in (1, 16):
        a = np.zeros((rows, 128), "float32")
        a[np.arange(rows), np.arange(rows) * 3] = 1
        run.computes(weights(q, s)[: rows * 3 : 3], a, q, s)


@pytest.mark.parametrize("rows", [2, 14])
def test_what_is_no_number_stays_in_its_row_and_column(rows):
    func = product(te.var("m", "int64"), 64, 40, "int4", 32)
    a, q, s = operands(rows, 64, 40, "int4", 32)
    a[0, 3], a[1, 20], s[1, 39] = np.inf, np.nan, -np.inf
    with np.errstate(invalid="ignore"):
        packed(func).computes(a @ weights(q, s), a, q, s)


def test_others_are_left_alone(target):
    func = product(te.var("m", "int64"), 64, 64, "int8", 32)
    assert schedule(func, target, [ScaledProduct()]) is func
    for known in ([], [0], [1], [2]):  # both numbers and scales must be known
        assert ScaledProduct().pack(func, target, known) is None
    wide = product(te.var("m", "int64"), 64, 64, "int16", 32)
    assert ScaledProduct().pack(wide, target, [1, 2]) is None
    axis = te.reduce_axis((0, 64), "k")
    a, q, s = (te.placeholder((64, 64), dtype) for dtype in ("float32", "int8", "float32"))
    turned = te.compute(
        (64, 64), lambda i, j: te.sum(a[i, axis] * (q[axis, j].astype("float32") * s[63 - axis, j]), axis=axis)
    )
    assert ScaledProduct().pack(te.create_prim_func([a, q, s, turned]), target, [1, 2]) is None
