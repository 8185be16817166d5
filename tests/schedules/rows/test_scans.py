"""Scans: running sums and products, along a line and across the lines, against NumPy and the loops they were made from."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from applied import Applied

from relax import te, topi
from relax.codegen import resolve
from relax.runtime import num_threads, set_num_threads
from relax.schedules import schedule
from relax.schedules.cpu import Scans
from relax.script import from_source


@cache
def scan_of(formula, rank, of="float32", **options):
    """The kernel of a scan over dimensions that are not known."""
    shape = [te.var(name, "int64") for name in "nmk"[:rank]]
    x = te.placeholder(shape, of, "X")
    return te.create_prim_func([x, formula(x, **options)])


@cache
def runs_of(func, target):
    return Applied(Scans(), func, target), Applied(Scans(), func)


def check(func, target, given, expected, tolerance=1e-5):
    """The rule's result, interpreted and compiled on one and two threads, gives what is expected."""
    runs = runs_of(func, target)
    threads = num_threads()
    try:
        for run in runs:
            for count in (1, 2):
                set_num_threads(count)
                result = run(given, np.full(expected.shape, 77, expected.dtype))
                np.testing.assert_allclose(result, expected, tolerance, tolerance)
    finally:
        set_num_threads(threads)


def numbers(*shape, dtype="float32"):
    generator = np.random.default_rng(1)
    if "int" in dtype:
        return generator.integers(-50, 50, shape).astype(dtype)
    return generator.standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("length", [0, 1, 2, 15, 16, 17, 33, 67])
@pytest.mark.parametrize("lines", [0, 1, 3])
@pytest.mark.parametrize("exclusive", [False, True])
def test_sums_along_lines(target, lines, length, exclusive):
    func = scan_of(topi.cumsum, 2, axis=1, exclusive=exclusive)
    x = numbers(lines, length)
    sums = np.cumsum(x, 1, dtype="float32")
    check(func, target, x, (sums - x) if exclusive else sums, 2e-5)


@pytest.mark.parametrize("shape", [(0, 5), (1, 5), (5, 0), (7, 1), (7, 33), (3, 1025), (2, 2048)])
@pytest.mark.parametrize("exclusive", [False, True])
def test_sums_across_lines(target, shape, exclusive):
    func = scan_of(topi.cumsum, 2, axis=0, exclusive=exclusive)
    x = numbers(*shape)
    sums = np.cumsum(x, 0, dtype="float32")
    check(func, target, x, (sums - x) if exclusive else sums, 2e-5)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_three_dimensions(target, axis):
    x = numbers(5, 6, 35)
    check(scan_of(topi.cumsum, 3, axis=axis), target, x, np.cumsum(x, axis))


@pytest.mark.parametrize("dtype", ["float64", "int8", "int32", "int64", "uint8"])
def test_dtypes(target, dtype):
    x = numbers(4, 41, dtype=dtype)
    func = scan_of(topi.cumsum, 2, dtype, axis=1, dtype=dtype)
    check(func, target, x, np.cumsum(x, 1, dtype=dtype), 0 if "int" in dtype else 1e-12)


def test_products_keep_their_order(target):
    """A product that overflows stays infinite, and one that underflows 0: elements are multiplied in order."""
    x = np.ones((2, 40), "float32")
    x[0, :3] = 1e30, 1e30, 1e-30
    x[1, :4] = 1e-30, 1e-30, 1e30, 1e30
    with np.errstate(over="ignore"):
        expected = np.cumprod(x, 1, dtype="float32")
    check(scan_of(topi.cumprod, 2, axis=1), target, x, expected, 0)


@pytest.mark.parametrize("axis", [0, 1])
def test_nan_and_infinity_go_on(target, axis):
    x = numbers(40, 40)
    x[3, 5], x[7, 20], x[20, 7] = np.nan, np.inf, -np.inf
    with np.errstate(invalid="ignore"):
        expected = np.cumsum(x, axis)
    check(scan_of(topi.cumsum, 2, axis=axis), target, x, expected)


def test_sums_of_long_lines_are_as_accurate_as_blocks(target):
    """Sums in vectors have shorter chains of roundings than one after the other: within n / 16 + 5 of them."""
    x = np.abs(numbers(1, 40_000))
    result = Applied(Scans(), scan_of(topi.cumsum, 2, axis=1))(x, np.zeros_like(x))
    exact = np.cumsum(x.astype("float64"), 1)
    bound = (np.arange(x.size) / 16 + 5) * np.finfo("float32").eps / 2 * exact
    assert (np.abs(result - exact) <= bound).all()


OTHER = """
from relax.script import tir as T

@T.prim_func
def main(X: T.Buffer((64, 64), "float32"), Y: T.Buffer((64, 64), "float32")):
    T.func_attr({"tir.noalias": True})
    for i, k in T.grid(64, 64):
        Y[i, k] = VALUE
"""


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("T.if_then_else(k == 0, T.float32(0), Y[i, k - 2]) + X[i, k]", "not the element before"),
        ("T.if_then_else(k == 0, T.float32(0), Y[k - 1, k - 1]) + X[i, k]", "of another line"),
        ("T.if_then_else(k == 0, T.float32(0), X[i, k - 1]) + X[i, k]", "nothing runs"),
        ("T.if_then_else(k == 1, T.float32(0), Y[i, k - 1]) + X[i, k]", "not the first"),
        ("T.if_then_else(k == 0, T.float32(0), Y[i, k - 1]) + Y[i, k]", "reads its own element"),
        ("Y[i, k] + X[i, k]", "no condition"),
    ],
)
def test_others_are_left_alone(target, value, reason):
    func = from_source(OTHER.replace("VALUE", value), check_well_formed=False)
    assert schedule(func, target, [Scans()]) is func, reason


def test_small_scans_and_those_that_may_overlap_are_left_alone(target):
    x = te.placeholder((8, 8), "float32", "X")
    small = te.create_prim_func([x, topi.cumsum(x, axis=1)])
    overlapping = scan_of(topi.cumsum, 2, axis=1).without_attr("tir.noalias")
    for func in (small, overlapping):
        assert schedule(func, target, [Scans()]) is func


def test_what_is_not_along_memory_keeps_the_result_in_a_register(target):
    n = te.var("n", "int64")
    x = te.placeholder((n, 40), "float32", "X")
    func = te.create_prim_func([x, topi.cumsum(topi.transpose(x), axis=1)])
    script = schedule(func, target, [Scans()]).script()
    given = numbers(23, 40)
    check(func, target, given, np.cumsum(given.T, 1))
    assert "carry" in script


def test_the_flattened_tensor(target):
    x = numbers(5, 33)
    check(scan_of(topi.cumsum, 2, axis=None), target, x, np.cumsum(x))


@pytest.mark.parametrize(
    ("columns", "cores", "strips"), [(1024, 1, 1), (1024, 2, 2), (600, 2, 2), (400, 2, 1), (4096, 3, 4)]
)
def test_known_columns_are_divided_for_the_cores(columns, cores, strips):
    x = te.placeholder((5, columns), "float32", "X")
    func = te.create_prim_func([x, topi.cumsum(x, axis=0)])
    target = resolve(f"llvm -mcpu=skylake-avx512 -num-cores={cores}")
    assert (f"T.parallel(T.int64({strips}))" in schedule(func, target, [Scans()]).script()) == (strips > 1)
    given = numbers(5, columns)
    check(func, target, given, np.cumsum(given, 0, dtype="float32"), 2e-5)
