"""ProductResults: tiles of products that store their results, and those whose sums are in memory before."""

from __future__ import annotations

import numpy as np
import pytest
from applied import whole
from tests.schedules.matrix_products import product

from relax import te, tir
from relax.codegen import build_module, resolve
from relax.schedules import schedule
from relax.schedules.cpu import RULES, Product
from relax.script import from_source


def script(func, target):
    return schedule(func, target, [Product()]).script()


def with_exponentials(m, n, k):
    """``exp(A @ B)``."""
    a, b = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    axis = te.reduce_axis((0, k), "k")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, axis] * b[axis, j], axis=axis), "C")
    return te.create_prim_func([a, b, te.compute((m, n), lambda i, j: te.exp(c[i, j]), "D")])


def residual_shapes(m, n, k):
    return [(m, k), (k, n), (n,), (m, n), (m, n)]


@pytest.mark.parametrize(
    ("columns", "rows_in_memory"),
    [(128, 0), (150, 6)],  # panels of whole vectors; one of two vectors, of whose 32 columns 22 are in the matrix
)
def test_results_of_one_block_are_stored_by_their_tiles(same, target, columns, rows_in_memory):
    func = product(54, columns, 40, residual=True)
    same(func, Product(), residual_shapes(54, columns, 40))
    assert ("sums_memory = T.allocate((6, " in script(func, target)) == bool(rows_in_memory)


def test_sums_of_several_blocks_or_with_functions_are_in_memory(target):
    """A quarter of a cache of 512 KiB holds 512 rows of a panel: a block."""
    for func in (product(54, 128, 513, residual=True), with_exponentials(54, 128, 40)):
        assert "sums_memory = T.allocate((" in script(func, target)
        assert "sums_memory = T.allocate((6, " not in script(func, target)


@pytest.mark.parametrize("columns", [1, 16, 17, 64, 150])
def test_any_number_of_rows_and_columns(same, columns):
    m = te.var("m", "int64")
    for depth in (1, 29):
        func = product(m, columns, depth, residual=True)
        same(func, Product(), *(residual_shapes(rows, columns, depth) for rows in (0, 1, 6, 7, 13, 53)))


def test_functions_of_sums(target):
    func = with_exponentials(te.var("m", "int64"), 70, 29)
    kernel = build_module(schedule(func, resolve("llvm"), [Product()]))["main"]
    rng = np.random.default_rng(0)
    for rows in (0, 1, 13, 53):
        a, b = (rng.standard_normal((rows, 29)).astype("float32"), rng.standard_normal((29, 70)).astype("float32"))
        result = np.full((rows, 70), 77, "float32")
        kernel(a, b * 0.1, result)
        np.testing.assert_allclose(result, np.exp(a @ (b * 0.1)), 1e-5)


def test_tiles_ask_for_lines_of_results_that_no_cache_holds(target):
    """A line in each second of 70 steps, 24 of them for 6 x 64 results; of 11 steps, three lines in each."""
    m = te.var("m", "int64")
    assert "T.prefetch(C_tile[T.min(k // 2 // 4, 5), k // 2 % 4 * 16], 1, 3)" in script(product(m, 128, 70), target)
    shallow = script(product(m, 128, 11), target)
    assert all(f"C_tile[T.min((k * 3 + {u}) // 4, 5)" in shallow for u in (1, 2))
    residual = script(product(m, 128, 70, residual=True), target)
    assert "T.prefetch(D_tile[" in residual
    assert "T.prefetch(R_tile[" in residual
    assert "T.prefetch(D_tile[" not in script(product(54, 128, 70, residual=True), target)  # 27 KB
    assert "T.prefetch(D_tile[" in script(product(540, 128, 70, residual=True), target)  # 270 KB


@pytest.mark.parametrize("replaced", ["A", "B"])
@pytest.mark.parametrize("value", ["B[vk, vj]", "(B[vk, vj] * T.float32(2))"])
def test_an_operand_that_results_replace_is_read_first(target, replaced, value):
    """All sums are computed before the nest behind them writes into an operand."""
    func = from_source(f"""
from relax.script import tir as T
@T.prim_func
def main(A: T.Buffer((96, 96), "float32"), B: T.Buffer((96, 96), "float32")):
    T.func_attr({{"tir.noalias": True}})
    C = T.alloc_buffer((96, 96), "float32")
    for i, j, k in T.grid(96, 96, 96):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * {value}
    for i, j in T.grid(96, 96):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            {replaced}[vi, vj] = C[vi, vj] + T.float32(1)
""")
    arranged = schedule(func, target, RULES)
    assert "acc" in arranged.script()
    a, b = whole(96, 96), whole(96, 96, seed=1)
    expected = a @ (b * (1 if value.startswith("B") else 2)) + 1
    operands = {"A": a, "B": b}
    tir.interpret(arranged, a, b)
    np.testing.assert_array_equal(operands[replaced], expected)
