"""Products by one pair of panels by sevens: exact on integers, within their bound, and safe with infinities."""

from __future__ import annotations

import numpy as np
import pytest
from matrix_products import Compiled, integers, is_by_sevens, packed, product

from relax import te, tir
from relax.codegen import resolve
from relax.runtime import num_threads, set_num_threads
from relax.schedules.cpu.products import strassen_pair
from relax.schedules.cpu.products.strassen import ERROR

COLUMNS = 128
"""The columns of a pair of panels of the machine of the tests."""


class OnePair(Compiled):
    """A product by one pair of panels, for the machine that the tests run on."""

    def __init__(self, m, k, **options):
        self.columns = COLUMNS if resolve("llvm").vector_bits == 512 else COLUMNS // 4
        super().__init__(m, self.columns, k, **options)


@pytest.fixture(scope="module")
def of_any_rows():
    """Weights of a depth whose halves are no whole vectors."""
    return OnePair(te.var("m", "int64"), 258)


@pytest.mark.parametrize(
    "m", [0, 1, 23, 24, 25, 28, 31, 32, 47, 48, 49, 56, 62, 63, 64, 95, 96, 97, 108, 128, 191, 200]
)
def test_one_function_for_any_number_of_rows(of_any_rows, m):
    a, b = integers(m, 258), integers(258, of_any_rows.columns)
    np.testing.assert_array_equal(of_any_rows(a, b), a @ b)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("m", [24, 62, 64, 128, 383])
def test_known_rows_and_what_follows_the_product(m, threads):
    before = num_threads()
    set_num_threads(threads)
    try:
        compiled = OnePair(m, 300, residual=True)
        n = compiled.columns
        a, b, bias, r = integers(m, 300), integers(300, n), integers(n), integers(m, n)
        np.testing.assert_array_equal(compiled(a, b, bias, r), np.maximum(a @ b + bias, 0) + r)
    finally:
        set_num_threads(before)


@pytest.mark.parametrize("m", [0, 11, 12, 15, 16, 20, 23, 24, 26, 28, 49])
@pytest.mark.parametrize("k", [20, 34, 64])
def test_the_interpreter_computes_the_same(target, monkeypatch, m, k):
    """With smaller limits, so that the interpreter need not take long: parts of 6 to 12 rows of a half."""
    for name, value in {"LEAST_ROWS": 12, "LEAST_DEPTH": 20, "MOST_ROWS": 24, "WASTE": 4}.items():
        monkeypatch.setattr(strassen_pair, name, value)
    func, packing = packed(product(te.var("m", "int64"), COLUMNS, k, residual=True), target)
    assert is_by_sevens(func)
    tir.verify_well_formed(func)
    a, b, bias, r = integers(m, k), integers(k, COLUMNS), integers(COLUMNS), integers(m, COLUMNS)
    result = np.full((m, COLUMNS), 77, "float32")
    tir.interpret(func, a, packing(b), bias, r, result, reverse_parallel=True)
    np.testing.assert_array_equal(result, np.maximum(a @ b + bias, 0) + r)


@pytest.mark.parametrize("scale", [1, 1e-18, 1e15])
def test_the_error_is_within_its_bound(scale):
    generator = np.random.default_rng(1)
    compiled, m, k = OnePair(64, 784), 64, 784
    a = (generator.standard_normal((m, k)) * scale).astype("float32")
    b = generator.standard_normal((k, compiled.columns)).astype("float32")
    exact = a.astype("float64") @ b.astype("float64")
    error = np.abs(compiled(a, b) - exact).max()
    assert error <= ERROR * (k + 18) * k * 2**-24 * float(np.abs(a).max()) * float(np.abs(b).max())
    assert error <= 6 * np.abs(OnePair(64, 784, fast=False)(a, b) - exact).max()


@pytest.mark.parametrize("rows", [slice(50, 51), slice(0, 10), slice(10, 60), slice(0, 64, 2)])
@pytest.mark.parametrize("scale", [0, 1e-6, 1e6])
def test_rows_that_are_very_different_keep_their_digits(of_any_rows, rows, scale):
    """What is zero stays zero; a small row beside a large one has the error of a plain sum."""
    generator = np.random.default_rng(1)
    a, b = (generator.standard_normal(shape).astype("float32") for shape in ((64, 258), (258, of_any_rows.columns)))
    a[rows] *= np.float32(scale)
    exact, size = a.astype("float64") @ b.astype("float64"), np.abs(a).astype("float64") @ np.abs(b)
    assert (np.abs(of_any_rows(a, b) - exact) <= 16 * 2**-24 * size).all()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 3e38])
def test_what_is_not_finite_stays_in_its_row(of_any_rows, value):
    """A sum of quarters has it in two rows; the plain product computes all again."""
    a, b = integers(64, 258), integers(258, of_any_rows.columns)
    a[41, 200] = value
    expected = OnePair(64, 258, fast=False)(a, b)
    assert np.isfinite(np.delete(expected, 41, 0)).all()
    np.testing.assert_array_equal(of_any_rows(a, b), expected)


def test_weights_that_are_not_finite(of_any_rows):
    a, b = integers(64, 258), integers(258, of_any_rows.columns)
    b[3, 7], b[250, 1] = np.inf, np.nan
    expected = OnePair(64, 258, fast=False)(a, b)
    assert np.isfinite(np.delete(expected, [1, 7], 1)).all()
    np.testing.assert_array_equal(of_any_rows(a, b), expected)


def test_sums_are_packed_behind_the_weights(target):
    for fast in (True, False):
        func, packing = packed(product(te.var("m", "int64"), COLUMNS, 512), target, fast)
        assert packing(np.zeros((512, COLUMNS), "float32")).size == 512 * COLUMNS * (1 + fast)
        assert is_by_sevens(func) == fast


@pytest.mark.parametrize(("cores", "rows", "parts"), [(1, 64, 2), (2, 64, 2), (2, 40, 1), (2, 128, 4), (3, 128, 3)])
def test_parts_are_for_all_cores_where_each_has_rows_enough(cores, rows, parts):
    func, _ = packed(product(rows, COLUMNS, 512), resolve(f"llvm -mcpu=skylake-avx512 -num-cores={cores}"))
    loop = f"for part in T.parallel(T.int64({parts})):"
    assert loop in func.script() if parts > 1 else is_by_sevens(func)


@pytest.mark.parametrize(
    ("m", "n", "k", "dtype"),
    [
        (23, 128, 512, "float32"),  # few rows
        (33, 128, 512, "float32"),  # 36 rows of tiles for 33
        (64, 130, 512, "float32"),  # columns behind the panels
        (64, 128, 254, "float32"),  # shallow
        (64, 128, 513, "float32"),  # an odd depth
        (64, 128, 8192, "float32"),  # weights that are not few
        (64, 128, 512, "float64"),
    ],
)
def test_products_for_which_it_does_not_pay(target, m, n, k, dtype):
    func, packing = packed(product(m, n, k, dtype=dtype), target)
    assert not is_by_sevens(func)
    assert not isinstance(packing, strassen_pair.PairPacking)
