"""The first few elements in order, which are found in one pass, against a stable sort of NumPy."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from relax import te, topi
from relax.codegen import build_module
from relax.runtime import num_threads, set_num_threads
from support import PLAIN_LOOPS, compiled, interpreted, same


def first_of(k, axis, largest, dtype="float32", of=("n", "m")):
    """The kernel of the k first elements and their indices, of dimensions that are not known."""
    x = te.placeholder([te.var(name, "int64") for name in of], dtype, "X")
    return te.create_prim_func([x, *topi.topk(x, te.const(k, "int64"), axis, "both", largest, "int64")])


def expected(x, k, axis, largest):
    """The same by a stable sort, NaN being greater than every number; of equal elements the first comes first."""
    key = np.where(np.isnan(x), np.inf, x) if x.dtype.kind == "f" else x.astype("int64")
    order = np.lexsort((np.arange(x.shape[axis]).reshape([-1 if d == axis % x.ndim else 1 for d in range(x.ndim)])
                        + 0 * key, key if not largest else -key), axis=axis)  # fmt: skip
    indices = np.take(order, range(k), axis)
    return np.take_along_axis(x, indices, axis), indices


def check(x, k, axis, largest):
    func = first_of(k, axis, largest, x.dtype.name)
    values, indices = expected(x, k, axis, largest)
    for run in (interpreted, partial(compiled, target=PLAIN_LOOPS)):
        same(run(func, x, np.zeros_like(values, order="C"), np.full(indices.shape, 77)), [x, values, indices])


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize(("k", "size"), [(1, 1), (1, 40), (3, 3), (5, 40), (64, 70), (65, 70)])
def test_few_and_many(k, size, largest):
    """65 are as many as are found by sorting the row."""
    x = np.random.default_rng(0).integers(-9, 9, (3, size)).astype("float32")  # with equal ones
    check(x, k, 1, largest)


@pytest.mark.parametrize("rows", [0, 1, 4])
def test_another_axis(rows):
    x = np.random.default_rng(1).standard_normal((30, rows)).astype("float32")
    check(x, 4, 0, True)


@pytest.mark.parametrize("dtype", ["float16", "float64", "int8", "int32", "uint8"])
@pytest.mark.parametrize("largest", [True, False])
def test_dtypes(dtype, largest):
    x = np.random.default_rng(2).integers(0, 99, (2, 50)).astype(dtype)
    check(x, 7, 1, largest)


@pytest.mark.parametrize("ordered", [np.arange, lambda n: -np.arange(n), np.zeros], ids=["up", "down", "equal"])
def test_rows_that_are_in_order_already(ordered):
    x = np.stack([ordered(50), ordered(50)]).astype("float32")
    check(x, 6, 1, True)


@pytest.mark.parametrize("largest", [True, False])
def test_nan_is_greater_than_every_number(largest):
    x = np.array([[1, np.nan, -np.inf, np.inf, 2, np.nan, -0.0, 0.0]], "float32")
    values, indices = np.empty((1, 5), "float32"), np.empty((1, 5), "int64")
    build_module(first_of(5, 1, largest), PLAIN_LOOPS)["main"](x, values, indices)
    assert indices.tolist() == ([[1, 5, 3, 4, 0]] if largest else [[2, 6, 7, 0, 4]])


def test_too_many_are_refused_when_it_runs():
    """Nothing is read beyond a row that has fewer elements."""
    run = build_module(first_of(5, 1, True), PLAIN_LOOPS)["main"]
    with pytest.raises(IndexError):
        run(np.zeros((1, 3), "float32"), np.zeros((1, 5), "float32"), np.zeros((1, 5), "int64"))


@pytest.mark.parametrize("shape", [(1, 5, 40), (3, 1, 40), (2, 3, 1), (0, 2, 5)])
@pytest.mark.parametrize("threads", [1, 3])
def test_rows_are_sorted_side_by_side(shape, threads):
    x = np.random.default_rng(3).integers(0, 9, shape).astype("float32")
    given = te.placeholder([te.var(name, "int64") for name in "nmk"], "float32", "X")
    func = te.create_prim_func([given, topi.sort(given, 2)])
    assert "T.parallel" in func.script()
    before = num_threads()
    set_num_threads(threads)
    try:
        for run in (partial(interpreted, reverse_parallel=True), partial(compiled, target=PLAIN_LOOPS)):
            same(run(func, x, np.full_like(x, 77)), [x, np.sort(x, 2)])
    finally:
        set_num_threads(before)
