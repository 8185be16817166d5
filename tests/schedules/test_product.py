"""Product and StreamedProduct: products of matrices in register tiles, or as streams where rows are few."""

from __future__ import annotations

import pytest

from relax import te
from relax.schedules import schedule
from relax.schedules.cpu import RULES, Product, StreamedProduct


def product(m, n, k, batch=None, transposed=False, dtype="float32"):
    """``C = A @ B``, of matrices or batches of them, B transposed or not."""
    lead = () if batch is None else (batch,)
    a = te.placeholder((*lead, m, k), dtype, "A")
    b = te.placeholder((*lead, n, k) if transposed else (*lead, k, n), dtype, "B")
    axis = te.reduce_axis((0, k), "k")

    def element(*at):
        *outer, i, j = at
        right = (*outer, j, axis) if transposed else (*outer, axis, j)
        return te.sum(a[(*outer, i, axis)] * b[right], axis=axis)

    return te.create_prim_func([a, b, te.compute((*lead, m, n), element, "C")])


def shapes(m, n, k, batch=None, transposed=False):
    lead = () if batch is None else (batch,)
    right = (n, k) if transposed else (k, n)
    return [(*lead, m, k), (*lead, *right), (*lead, m, n)]


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(
    ("m", "n", "k"), [(13, 70, 11), (6, 64, 22), (25, 64, 7), (31, 17, 20), (30, 100, 3)]
)
def test_known_sizes(same, m, n, k, transposed):
    same(product(m, n, k, transposed=transposed), Product(), shapes(m, n, k, transposed=transposed))


@pytest.mark.parametrize("transposed", [False, True])
def test_unknown_rows(same, transposed):
    func = product(te.var("m", "int64"), 70, 5, transposed=transposed)
    same(func, Product(), *(shapes(m, 70, 5, transposed=transposed) for m in (0, 1, 3, 5, 6, 7, 13)))


def test_unknown_sizes(same):
    m, n, k = (te.var(name, "int64") for name in "mnk")
    sizes = [(0, 3, 4), (3, 0, 4), (3, 4, 0), (1, 1, 1), (7, 63, 5), (6, 64, 2), (8, 65, 3)]
    same(product(m, n, k), Product(), *(shapes(*size) for size in sizes))


@pytest.mark.parametrize("transposed", [False, True])
def test_batches(same, transposed):
    func = product(te.var("m", "int64"), 40, 9, te.var("b", "int64"), transposed)
    cases = [(7, 40, 9, 2, transposed), (1, 40, 9, 1, transposed), (4, 40, 9, 0, transposed)]
    same(func, Product(), *(shapes(*case) for case in cases))


def test_rows_of_several_dimensions_are_one(same, target):
    b, m = te.var("b", "int64"), te.var("m", "int64")
    x, w = te.placeholder((b, m, 20), "float32", "X"), te.placeholder((20, 40), "float32", "W")
    k = te.reduce_axis((0, 20), "k")
    func = te.create_prim_func(
        [x, w, te.compute((b, m, 40), lambda u, i, j: te.sum(x[u, i, k] * w[k, j], axis=k), "C")]
    )
    same(func, Product(), *([(b, m, 20), (20, 40), (b, m, 40)] for b, m in ((2, 3), (3, 7), (0, 2), (1, 0))))
    assert "T.decl_buffer((rows, 20), data=X.data)" in schedule(func, target, [Product()]).script()


def test_doubles(same):
    same(product(13, 40, 20, dtype="float64"), Product(), shapes(13, 40, 20), dtype="float64")


@pytest.mark.parametrize(
    ("m", "n", "k"), [(1, 1024, 8), (1, 1100, 13), (3, 35, 100), (8, 64, 17), (2, 4097, 1)]
)
def test_few_rows_are_streamed(same, m, n, k):
    same(product(m, n, k), StreamedProduct(), shapes(m, n, k))


def test_streams_of_unknown_width_and_depth(same):
    func = product(2, te.var("n", "int64"), te.var("k", "int64"))
    same(func, StreamedProduct(), *(shapes(2, n, k) for n, k in ((0, 3), (3, 0), (1, 1), (33, 9), (1030, 8))))


def test_the_first_rule_that_fits_is_taken(target):
    few, many = (schedule(product(m, 512, 512), target, RULES).script() for m in (2, 64))
    assert "panel" not in few
    assert "panel = T.allocate((512, 64))" in many
    assert 'acc = T.allocate((4, 64), scope="local")' in many


@pytest.mark.parametrize(
    "func",
    [
        product(4, 8, 8),  # small
        product(32, 32, 32, dtype="int32"),
        product(32, 32, 32, dtype="float16"),
        product(64, 64, 64).without_attr("tir.noalias"),
        te.create_prim_func(
            [x := te.placeholder((64, 64), name="X"), te.compute((64, 64), lambda i, j: x[i, j] + 1)]
        ),
    ],
)
def test_others_are_left_alone(target, func):
    assert schedule(func, target, [StreamedProduct(), Product()]) is func


def test_a_scheduled_function_stays(target):
    func = product(64, 64, 64).with_attr("tir.is_scheduled", True)
    assert schedule(func, target, RULES) is func
