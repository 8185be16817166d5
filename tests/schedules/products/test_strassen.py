"""Products of packed weights by seven products of halves: exact on integers, within their bound, and safe with infinities."""

from __future__ import annotations

import numpy as np
import pytest
from matrix_products import Compiled, integers, is_by_sevens, packed, product

from relax import te, tir
from relax.codegen import build_module, resolve
from relax.codegen.module import kernel_texts
from relax.farm import worker
from relax.ir import IRModule
from relax.runtime import num_threads, set_num_threads
from relax.schedules.cpu.products import strassen
from relax.schedules.cpu.products.strassen import ERROR
from relax.tir.functor import StmtExprMutator


@pytest.fixture(scope="module")
def of_any_rows():
    """Weights of 257 × 270: halves of unequal depth, a panel behind the pairs, columns behind the vectors."""
    return Compiled(te.var("m", "int64"), 270, 257)


ROWS = [
    0,
    1,
    2,
    7,
    23,
    24,
    25,
    28,
    31,
    33,
    34,
    38,
    40,
    47,
    48,
    49,
    56,
    62,
    64,
    95,
    96,
    97,
    101,
    102,
    107,
    108,
    120,
    128,
    255,
    256,
    257,
    512,
    516,
    517,
    1033,
]


@pytest.mark.parametrize("m", ROWS)
def test_one_function_for_any_number_of_rows(of_any_rows, m):
    a, b = integers(m, 257), integers(257, 270)
    np.testing.assert_array_equal(of_any_rows(a, b), a @ b)


@pytest.mark.parametrize("n", [369, 377, 384, 385])
def test_the_last_panel_of_a_pair_is_whole(n):
    """Of 369 and 377 columns there are six panels, of which the last one is filled up."""
    compiled = Compiled(te.var("m", "int64"), n, 256)
    assert compiled.is_by_sevens
    a, b = integers(128, 256), integers(256, n)
    np.testing.assert_array_equal(compiled(a, b), a @ b)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("m", [56, 96, 128, 383, 600])
def test_known_rows_and_what_follows_the_product(m, threads):
    before = num_threads()
    set_num_threads(threads)
    try:
        compiled = Compiled(m, 320, 300, residual=True)
        a, b, bias, r = integers(m, 300), integers(300, 320), integers(320), integers(m, 320)
        np.testing.assert_array_equal(compiled(a, b, bias, r), np.maximum(a @ b + bias, 0) + r)
    finally:
        set_num_threads(before)


@pytest.mark.parametrize("k", [256, 258, 271, 1400, 1536, 2058, 3072, 3101])
def test_depths_of_one_and_of_several_blocks(k):
    compiled = Compiled(te.var("m", "int64"), 256, k)
    for m in (28, 40, 56, 84, 120, 130):  # halves of 14, 20, 28, 42, 60, 65 rows: with 2, 2, 1, 0, 0 and 0 low tiles
        a, b = integers(m, k), integers(k, 256)
        np.testing.assert_array_equal(compiled(a, b), a @ b)


@pytest.mark.parametrize(("m", "k", "share", "slab"), [
    (24, 32, 5, 2), (20, 64, 5, 2), (13, 33, 5, 2), (50, 21, 5, 2), (24, 96, 10**6, 2), (50, 75, 10**6, 2),
    (28, 32, 5, 3), (26, 21, 5, 3), (39, 36, 10**6, 4)])  # fmt: skip
def test_the_interpreter_computes_the_same(target, monkeypatch, m, k, share, slab):
    """With smaller limits, so that the interpreter need not take long: slabs of 24 rows, of which 50 rows are three.

    The last three have two low tiles behind one or two whole ones, and of 26 and 39 rows one row too many in them.
    Of the smallest share of the second cache, a block of the depth is one vector long.
    """
    limits = {
        "SHARE": share,
        "LEAST_ROWS": 12,
        "LEAST_UNEVEN_ROWS": 12,
        "LEAST_DEPTH": 20,
        "LEAST_PAIRS": 1,
        "SLAB": slab,
        "LEAST_TILES": 1,
        "WASTE": 2,
    }
    for name, value in limits.items():
        monkeypatch.setattr(strassen, name, value)
    func, packing = packed(product(te.var("m", "int64"), 180, k, residual=True), target)
    assert is_by_sevens(func)
    assert ("lefts = T.decl_buffer((1, " in func.script()) == (share == 5)
    tir.verify_well_formed(func)
    a, b, bias, r = integers(m, k), integers(k, 180), integers(180), integers(m, 180)
    result = np.full((m, 180), 77, "float32")
    tir.interpret(func, a, packing(b), bias, r, result, reverse_parallel=True)
    np.testing.assert_array_equal(result, np.maximum(a @ b + bias, 0) + r)


@pytest.mark.parametrize("scale", [1, 1e-18, 1e15])
@pytest.mark.parametrize(("m", "n", "k"), [(128, 256, 768), (385, 512, 512)])
def test_the_error_is_within_its_bound(m, n, k, scale):
    generator = np.random.default_rng(1)
    a = (generator.standard_normal((m, k)) * scale).astype("float32")
    b = generator.standard_normal((k, n)).astype("float32")
    error = np.abs(Compiled(m, n, k)(a, b) - a.astype("float64") @ b.astype("float64")).max()
    largest = float(np.abs(a).max()) * float(np.abs(b).max())
    assert error <= ERROR * (k + 18) * k * 2**-24 * largest
    # In practice far less: a few times that of a plain sum.
    plain = np.abs(Compiled(m, n, k, fast=False)(a, b) - a.astype("float64") @ b.astype("float64")).max()
    assert error <= 6 * plain


@pytest.mark.parametrize("rows", [slice(150, 151), slice(0, 10), slice(100, 200), slice(0, 200, 2)])
@pytest.mark.parametrize("scale", [0, 1e-6, 1e6])
def test_rows_that_are_very_different_keep_their_digits(of_any_rows, rows, scale):
    """What is zero stays zero; a small row beside a large one has the error of a plain sum."""
    generator = np.random.default_rng(1)
    a, b = (generator.standard_normal(shape).astype("float32") for shape in ((200, 257), (257, 270)))
    a[rows] *= np.float32(scale)
    exact, size = (a.astype("float64") @ b.astype("float64"), np.abs(a).astype("float64") @ np.abs(b).astype("float64"))
    assert (np.abs(of_any_rows(a, b) - exact) <= 16 * 2**-24 * size).all()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 3e38])
def test_what_is_not_finite_stays_in_its_row(of_any_rows, value):
    """A sum of quarters has it in two rows; the plain product computes all again."""
    a, b = integers(200, 257), integers(257, 270)
    a[150, 200] = value
    expected = Compiled(200, 270, 257, fast=False)(a, b)
    assert np.isfinite(np.delete(expected, 150, 0)).all()
    np.testing.assert_array_equal(of_any_rows(a, b), expected)


def test_weights_that_are_not_finite(of_any_rows):
    a, b = integers(128, 257), integers(257, 270)
    b[3, 70], b[250, 1] = np.inf, np.nan
    expected = Compiled(128, 270, 257, fast=False)(a, b)
    assert np.isfinite(np.delete(expected, [1, 70], 1)).all()
    np.testing.assert_array_equal(of_any_rows(a, b), expected)


def test_few_passes_of_llvm_do_for_it(target):
    """Its text says that all that loops over elements is written in vectors, the look at the flags too."""
    func, _ = packed(product(te.var("m", "int64"), 768, 768), target)
    assert is_by_sevens(func)
    (kernel,) = kernel_texts({g.name_hint: f for g, f in tir.lower(IRModule({"main": func}), target).items()}, target)
    assert kernel.text.startswith(f"{worker.IN_ORDER}\n{worker.IN_VECTORS}\n")


@pytest.mark.parametrize(("cores", "tasks"), [(1, 6), (2, 6), (3, 6), (4, 12)])
def test_tasks_are_pairs_of_panels_and_parts_of_the_rows_only_for_more_cores(cores, tasks):
    """Six pairs are enough for up to three cores: each part of the rows makes sums of B again."""
    func, _ = packed(product(240, 768, 768), resolve(f"llvm -mcpu=skylake-avx512 -num-cores={cores}"))
    assert f"for task in T.parallel(T.int64({tasks})):" in func.script()


@pytest.mark.parametrize(("least", "cores", "tasks"), [(10, 1, 6), (10, 2, 12), (10, 3, 12), (11, 2, 6)])
def test_each_core_has_a_part_of_many_rows(monkeypatch, least, cores, tasks):
    """Six pairs are as many for each core: parts of the rows, here 20 tiles, are for it to read its own sums."""
    monkeypatch.setattr(strassen, "LEAST_OWN_TILES", least)
    func, _ = packed(product(240, 768, 768), resolve(f"llvm -mcpu=skylake-avx512 -num-cores={cores}"))
    assert f"for task in T.parallel(T.int64({tasks})):" in func.script()


def test_weights_take_no_more_memory(target):
    for fast in (True, False):
        func, packing = packed(product(te.var("m", "int64"), 768, 768), target, fast)
        assert packing(np.zeros((768, 768), "float32")).size == 768 * 768
        assert is_by_sevens(func) == fast


def test_packed_weights_that_are_stored_transposed(target):
    func, packing = packed(product(te.var("m", "int64"), 256, 256, transposed=True), resolve("llvm"))
    a, b, result = integers(120, 256), integers(256, 256), np.full((120, 256), 77, "float32")
    build_module(func)["main"](a, packing(b), result)
    np.testing.assert_array_equal(result, a @ b.T)


@pytest.mark.parametrize(
    ("m", "n", "k", "dtype"),
    [
        (23, 512, 512, "float32"),  # few rows
        (37, 512, 512, "float32"),  # 40 rows of tiles for 37
        (128, 512, 128, "float32"),  # shallow
        (128, 512, 512, "float64"),
    ],
)
def test_products_for_which_it_does_not_pay(target, m, n, k, dtype):
    assert not is_by_sevens(packed(product(m, n, k, dtype=dtype), target)[0])


@pytest.mark.parametrize("m", [24, 28, 30, 34, 38, 40, 62, 64])
def test_low_tiles_fill_rows_up_less(target, m):
    assert is_by_sevens(packed(product(m, 512, 512), target)[0])


@pytest.mark.parametrize(("rows", "columns", "cores", "fast"), [
    (90, 384, 1, True), (90, 384, 2, False), (90, 512, 2, True), (96, 384, 2, True),
])  # fmt: skip
def test_fewer_rows_suffice_where_all_cores_get_as_many_pairs(rows, columns, cores, fast):
    """384 columns are three pairs of panels: one of two cores would have two of them."""
    target = resolve(f"llvm -mcpu=skylake-avx512 -num-cores={cores}")
    assert is_by_sevens(packed(product(rows, columns, 512), target)[0]) == fast


def test_results_in_the_place_of_an_operand():
    """The residual and the result are one buffer: it still has the residual when the product is computed again."""
    func = product(128, 256, 257, residual=True)
    operand, result = (func.buffer_map[func.params[i]] for i in (3, 4))
    one = func.replace(
        params=(*func.params[:3], func.params[4]),
        buffer_map={p: b for p, b in func.buffer_map.items() if b is not operand},
        body=_with_buffer(func.body, operand, result),
    )
    arranged, packing = packed(one, resolve("llvm"))
    a, b, bias, r = integers(128, 257), integers(257, 256), integers(256), integers(128, 256)
    a[5, 3] = np.inf
    expected = Compiled(128, 256, 257, fast=False, residual=True)(a, b, bias, r)
    build_module(arranged)["main"](a, packing(b), bias, r)
    np.testing.assert_array_equal(r, expected)


def _with_buffer(body, old, new):
    class Replace(StmtExprMutator):
        def visit_BufferLoad(self, node):
            node = self.visit_children(node)
            return node.replace(buffer=new) if node.buffer is old else node

    return Replace().visit(body)
