"""WidenedProduct: products of float16, and of bfloat16 on machines without dot products, summed in float32."""

from __future__ import annotations

import ml_dtypes  # noqa: F401  (NumPy learns bfloat16)
import numpy as np
import pytest
from applied import Applied, whole

from relax import te, tir
from relax.schedules import schedule
from relax.schedules.cpu import WidenedProduct

DTYPES = ["float16", "bfloat16"]
ROWS = [0, 1, 2, 7, 12, 13]


def product(m, n, k, dtype, batch=(), behind=None):
    a = te.placeholder((*batch, m, k), dtype, "A")
    b = te.placeholder((k, n), dtype, "B")
    axis = te.reduce_axis((0, k), "k")

    def total(*i):
        return te.sum(a[(*i[:-1], axis)].astype("float32") * b[axis, i[-1]].astype("float32"), axis=axis)

    c = te.compute((*batch, m, n), total, "C")
    return te.create_prim_func([a, b, c if behind is None else te.compute(c.shape, lambda *i: behind(c(*i)), "D")])


def computed(a, b):
    with np.errstate(invalid="ignore"):
        return a.astype("float32") @ b.astype("float32")


def operands(rows, depth, columns, dtype, batch=()):
    shapes = (*batch, rows, depth), (depth, columns)
    return [whole(*shape, dtype=dtype, seed=sum(shape)) for shape in shapes]


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_unknown_rows(target, dtype, known):
    func = product(te.var("m", "int64"), 70, 37, dtype)
    runs = [Applied(WidenedProduct(), func, to, known=[1] * known) for to in ("llvm", target)]
    for rows in ROWS:
        a, b = operands(rows, 37, 70, dtype)
        for run in runs:
            run.computes(computed(a, b), a, b)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_batch_and_results_that_are_narrow_again(dtype):
    """What stands behind a product is computed in float32, and rounded as it is stored."""
    n, m, k = (te.var(name, "int64") for name in "nmk")
    func = product(m, 33, k, dtype, (n,), lambda total: (total * tir.const(1 / 3, "float32")).astype(dtype))
    run = Applied(WidenedProduct(), func)
    for batch, rows, depth in ((2, 5, 9), (1, 1, 1), (0, 3, 4), (2, 0, 4), (3, 13, 0), (1, 14, 131)):
        a, b = operands(rows, depth, 33, dtype, (batch,))
        run.computes((computed(a, b) * np.float32(1 / 3)).astype(dtype), a, b)


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_what_is_no_number_stays_in_its_row_and_column(dtype, known):
    func = product(te.var("m", "int64"), 40, 21, dtype)
    a, b = np.ones((9, 21), dtype), np.ones((21, 40), dtype)
    a[2, 3], a[8, 20], b[5, 39] = np.inf, np.nan, -np.inf
    Applied(WidenedProduct(), func, known=[1] * known).computes(computed(a, b), a, b)


def test_others_are_left_alone(target):
    wide = product(64, 64, 64, "float32")
    assert schedule(wide, target, [WidenedProduct()]) is wide
    a, b = (te.placeholder((64, 64), "float16") for _ in range(2))
    k = te.reduce_axis((0, 64), "k")
    turned = te.compute((64, 64), lambda i, j: te.sum(a[k, i].astype("float32") * b[k, j].astype("float32"), axis=k))
    func = te.create_prim_func([a, b, turned])
    assert schedule(func, target, [WidenedProduct()]) is func
