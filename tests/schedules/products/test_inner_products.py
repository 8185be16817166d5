"""InnerProducts: products of few rows by a right operand that lies transposed, which is read where it is."""

from __future__ import annotations

import numpy as np
import pytest
from applied import Applied, whole
from batched_products import product, shapes

from relax import te
from relax.schedules import schedule
from relax.schedules.cpu import Product
from relax.schedules.cpu.products.inner_products import MOST_ROWS


def script(target, *sizes, **options):
    return schedule(product(*sizes, **options), target, [Product()]).script()


@pytest.mark.parametrize("m", [1, 3, 7])
def test_few_rows(same, target, m):
    same(product(m, 64, 144, transposed=True), Product(), shapes(m, 64, 144, transposed=True))
    assert "panel_memory" not in script(target, m, 64, 144, transposed=True)


@pytest.mark.parametrize(("n", "k"), [(17, 130), (37, 143)])
def test_columns_and_depths_beside_whole_vectors(same, n, k):
    same(product(5, n, k, transposed=True), Product(), shapes(5, n, k, transposed=True))


def test_an_open_number_of_rows_decides_in_the_kernel(same, target):
    m = te.var("m", "int64")
    func = product(m, 20, 128, transposed=True)
    same(func, Product(), *(shapes(m, 20, 128, transposed=True) for m in (0, 1, 6, MOST_ROWS, MOST_ROWS + 1)))
    text = schedule(func, target, [Product()]).script()
    assert f"if m <= T.int64({MOST_ROWS})" in text or f"if m <= {MOST_ROWS}" in text
    assert "panel_memory" in text


def test_batches(same):
    func = product(te.var("m", "int64"), 33, 128, te.var("b", "int64"), transposed=True)
    same(func, Product(), *(shapes(m, 33, 128, b, transposed=True) for m, b in ((3, 2), (1, 1), (4, 0), (0, 2))))


def test_doubles(same):
    func = product(5, 34, 70, transposed=True, dtype="float64")
    same(func, Product(), shapes(5, 34, 70, transposed=True), dtype="float64")


def test_each_line_asks_for_that_of_the_next_columns(target):
    assert "T.prefetch(B_tile[t * 4 + (4 + c), v * 16], 0, 2)" in script(target, 4, 48, 128, transposed=True)


@pytest.mark.parametrize(
    ("sizes", "options"),
    [((4, 64, 127), {"transposed": True}), ((MOST_ROWS + 1, 64, 128), {"transposed": True}), ((4, 64, 128), {})],
    ids=["shallow", "many rows", "not transposed"],
)
def test_others_copy_panels(target, sizes, options):
    assert "T.prefetch(B_tile[t" not in script(target, *sizes, **options)


def test_nan_and_infinity_reach_their_own_rows_and_columns_only():
    a, b, result = whole(3, 144), whole(34, 144, seed=1), np.zeros((3, 34), "float32")
    a[0, 143], b[5, 7], b[33, 128] = np.nan, np.inf, -np.inf
    a[1:, [7, 128]] = 1
    Applied(Product(), product(3, 34, 144, transposed=True))(a, b, result)
    assert np.isnan(result[0]).all()
    np.testing.assert_array_equal(result[1:, [5, 33]], [[np.inf, -np.inf]] * 2)
    np.testing.assert_array_equal(np.delete(result[1:], [5, 33], 1), np.delete(a[1:] @ b.T, [5, 33], 1))
