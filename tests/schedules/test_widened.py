"""WidenedProduct: products of float16, and of bfloat16 on machines without dot products, summed in float32."""

from __future__ import annotations

import ml_dtypes  # noqa: F401  (NumPy learns bfloat16)
import numpy as np
import pytest

from relax import te, tir
from relax.codegen import build_module, resolve
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
    return te.create_prim_func(
        [a, b, c if behind is None else te.compute(c.shape, lambda *i: behind(c(*i)), "D")]
    )


def numbers(shape, dtype):
    """Small whole numbers, whose sums are exact."""
    return np.random.default_rng(sum(shape)).integers(-3, 4, shape).astype(dtype)


def computed(a, b):
    with np.errstate(invalid="ignore"):
        return a.astype("float32") @ b.astype("float32")


def arranged(func, target, known):
    """The rule's result, and what makes its right operand of the matrix."""
    if not known:
        return schedule(func, target, [WidenedProduct()]), lambda b: b
    packed = WidenedProduct().pack(func, target, [1])
    assert packed is not None
    return packed.func, lambda b: np.ascontiguousarray(packed.packings[1](b))


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_unknown_rows(target, dtype, known):
    func = product(te.var("m", "int64"), 70, 37, dtype)
    (here, packing), (there, packing_there) = (arranged(func, to, known) for to in (resolve("llvm"), target))
    assert here is not func
    tir.verify_well_formed(there)
    kernel, b = build_module(here)["main"], numbers((37, 70), dtype)
    for rows in ROWS:
        a = numbers((rows, 37), dtype)
        native, interpreted = np.full((2, rows, 70), 77, "float32")
        kernel(a, packing(b), native)
        np.testing.assert_array_equal(native, computed(a, b))
        tir.interpret(there, a, packing_there(b), interpreted, reverse_parallel=True)
        np.testing.assert_array_equal(interpreted, computed(a, b))


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_batch_and_results_that_are_narrow_again(dtype):
    """What stands behind a product is computed in float32, and rounded as it is stored."""
    n, m, k = (te.var(name, "int64") for name in "nmk")
    func = product(m, 33, k, dtype, (n,), lambda total: (total * tir.const(1 / 3, "float32")).astype(dtype))
    kernel = build_module(arranged(func, resolve("llvm"), False)[0])["main"]
    for batch, rows, depth in ((2, 5, 9), (1, 1, 1), (0, 3, 4), (2, 0, 4), (3, 13, 0), (1, 14, 131)):
        a, b = numbers((batch, rows, depth), dtype), numbers((depth, 33), dtype)
        result = np.full((batch, rows, 33), 77, dtype)
        kernel(a, b, result)
        np.testing.assert_array_equal(result, (computed(a, b) * np.float32(1 / 3)).astype(dtype))


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_what_is_no_number_stays_in_its_row_and_column(dtype, known):
    func = product(te.var("m", "int64"), 40, 21, dtype)
    here, packing = arranged(func, resolve("llvm"), known)
    a, b = np.ones((9, 21), dtype), np.ones((21, 40), dtype)
    a[2, 3], a[8, 20], b[5, 39] = np.inf, np.nan, -np.inf
    result = np.full((9, 40), 77, "float32")
    build_module(here)["main"](a, packing(b), result)
    np.testing.assert_array_equal(result, computed(a, b))


def test_others_are_left_alone(target):
    wide = product(64, 64, 64, "float32")
    assert schedule(wide, target, [WidenedProduct()]) is wide
    a, b = (te.placeholder((64, 64), "float16") for _ in range(2))
    k = te.reduce_axis((0, 64), "k")
    turned = te.compute(
        (64, 64), lambda i, j: te.sum(a[k, i].astype("float32") * b[k, j].astype("float32"), axis=k)
    )
    func = te.create_prim_func([a, b, turned])
    assert schedule(func, target, [WidenedProduct()]) is func
