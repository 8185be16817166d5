"""Product and StreamedProduct: products of matrices in register tiles, or as streams where rows are few."""

from __future__ import annotations

import re

import numpy as np
import pytest
from applied import Applied, whole
from batched_products import product, shapes

from relax import codegen, te
from relax.farm.host import executes
from relax.schedules import schedule
from relax.schedules.cpu import RULES, Product, StreamedProduct
from relax.schedules.cpu.products import last_columns


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(("m", "n", "k"), [(13, 70, 11), (6, 64, 22), (25, 64, 7), (31, 17, 20), (30, 100, 3)])
def test_known_sizes(same, m, n, k, transposed):
    same(product(m, n, k, transposed=transposed), Product(), shapes(m, n, k, transposed=transposed))


@pytest.mark.parametrize("transposed", [False, True])
def test_unknown_rows(same, transposed):
    func = product(te.var("m", "int64"), 70, 5, transposed=transposed)
    same(func, Product(), *(shapes(m, 70, 5, transposed=transposed) for m in (*range(15), 18, 19)))


def test_unknown_sizes(same):
    m, n, k = (te.var(name, "int64") for name in "mnk")
    sizes = [(0, 3, 4), (3, 0, 4), (3, 4, 0), (1, 1, 1), (7, 63, 5), (6, 64, 2), (8, 65, 3)]
    same(product(m, n, k), Product(), *(shapes(*size) for size in sizes))


def test_a_contiguous_depth_is_copied_in_squares(same, target):
    """Whole squares of 16, and columns and depths beside them."""
    n, k = (te.var(name, "int64") for name in "nk")
    func = product(5, n, k, transposed=True)
    sizes = [(5, 0, 3), (5, 3, 0), (5, 1, 1), (5, 15, 17), (5, 16, 16), (5, 33, 31), (5, 65, 130)]
    same(func, Product(), *(shapes(*size, transposed=True) for size in sizes))
    assert "T.Shuffle" in schedule(func, target, [Product()]).script()


def test_columns_of_one_panel_are_read_where_they_are(same, target):
    m, k = (te.var(name, "int64") for name in "mk")
    func = product(m, 64, k)
    same(func, Product(), *(shapes(m, 64, k) for m, k in ((0, 3), (3, 0), (1, 1), (7, 5), (13, 129))))
    assert "panel_memory" not in schedule(func, target, [Product()]).script()
    for other in (product(m, 65, k), product(m, 128, k), product(m, 64, k, transposed=True)):
        assert "panel_memory" in schedule(other, target, [Product()]).script()


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


def spread(y, x, n=None):
    """Pixels by a kernel's taps: ``C[n, y, x, o, p] = X[n, k, y, x] · W[k, o, p]``, the batch apart from the pixels."""
    n = te.var("n", "int64") if n is None else n
    image, w = te.placeholder((n, 12, y, x), "float32", "X"), te.placeholder((12, 9, 4), "float32", "W")
    k = te.reduce_axis((0, 12), "k")
    return te.create_prim_func([image, w, te.compute(
        (n, y, x, 9, 4), lambda u, i, j, o, p: te.sum(image[u, k, i, j] * w[k, o, p], axis=k), "C")])  # fmt: skip


def test_columns_of_several_dimensions_are_one(same, target):
    """So are the last rows, where those before them are elsewhere in the operand."""
    sizes = [(2, 3, 4), (1, 1, 1), (0, 2, 2), (3, 0, 2)]
    cases = [[(n, 12, y, x), (12, 9, 4), (n, y, x, 9, 4)] for n, y, x in sizes]
    func = spread(te.var("y", "int64"), te.var("x", "int64"))
    same(func, Product(), *cases)
    text = schedule(func, target, [Product()]).script()
    assert "T.decl_buffer((12, 36), data=W.data)" in text
    assert "T.decl_buffer((n, 12, rows), data=X.data)" in text


def test_packed_columns_of_several_dimensions(target):
    x, w = whole(2, 12, 3, 5), whole(12, 9, 4, seed=1)
    for machine in (target, "llvm"):
        run = Applied(Product(), spread(3, 5, 2), machine, known=[1])
        run.computes(np.einsum("nkyx,kop->nyxop", x, w), x, w)


def test_sums_of_an_unknown_number_of_rows_need_no_checks(target):
    packed = Product().pack(product(te.var("m", "int64"), 128, 70), target, (1,))
    assert packed is not None
    assert "buffer sums: index" not in codegen.build_module({"f": packed.func}, target).get_source()


def test_doubles(same):
    same(product(13, 40, 20, dtype="float64"), Product(), shapes(13, 40, 20), dtype="float64")


@pytest.mark.parametrize(("m", "n", "k"), [(1, 1024, 8), (1, 1100, 13), (3, 35, 100), (8, 64, 17), (2, 4097, 1)])
def test_few_rows_are_streamed(same, m, n, k):
    same(product(m, n, k), StreamedProduct(), shapes(m, n, k))


def test_streams_ask_for_their_next_rows(target):
    script = schedule(product(2, 40, 113), target, [StreamedProduct()]).script()
    assert script.count("T.prefetch(B_tile[ko * 8 + ") == 8  # of whole vectors, not in the rest of a strip
    assert "T.prefetch(B_tile[ko * 8 + 7 + 8, v * 16], 0, 2)" in script


def test_streams_of_unknown_width_and_depth(same):
    func = product(2, te.var("n", "int64"), te.var("k", "int64"))
    same(func, StreamedProduct(), *(shapes(2, n, k) for n, k in ((0, 3), (3, 0), (1, 1), (33, 9), (1030, 8))))


def test_few_of_an_open_number_of_rows_are_streamed(same):
    """By loops for 1, 2, 4, … 24 rows; no rows, or more, have register tiles."""
    m, n, k, b = (te.var(name, "int64") for name in "mnkb")
    same(product(m, 600, 13), Product(), *(shapes(m, 600, 13) for m in (0, 1, 2, 3, 5, 8, 9, 12, 17, 25)))
    same(product(m, 70, k), Product(), *(shapes(m, 70, k) for m, k in ((24, 0), (11, 1), (20, 64), (21, 130))))
    same(product(m, n, k, dtype="float64"), Product(), *(
        shapes(m, n, k) for m, n, k in ((3, 70, 9), (8, 65, 8), (3, 64, 8), (2, 0, 3), (4, 70, 0), (13, 67, 65))),
        dtype="float64")  # fmt: skip
    same(with_bias(m, 70, k, b), Product(), *(
        [(b, m, k), (k, 70), (70,), (b, m, 70), (b, m, 70)]
        for b, m, k in ((2, 5, 9), (1, 1, 8), (0, 3, 8), (2, 10, 9))))  # fmt: skip


def test_a_known_number_of_rows_is_streamed_if_copies_of_the_right_operand_would_be_large(same, target):
    same(product(17, 300, 257), Product(), shapes(17, 300, 257))
    for m, n, k in ((9, 256, 256), (24, 256, 256)):
        assert "panel_memory" not in schedule(product(m, n, k), target, [Product()]).script()
    for m, n, k in ((25, 256, 256), (9, 256, 255), (9, te.var("n", "int64"), 256)):
        assert "panel_memory" in schedule(product(m, n, k), target, [Product()]).script()


def test_the_results_of_a_row_do_not_depend_on_the_number_of_rows():
    """Every loop adds fused products in the order of the depth, also in columns beside whole vectors."""
    scheduled = schedule(product(te.var("m", "int64"), 260, 37), codegen.resolve("llvm"), [Product()])
    compiled = codegen.build_module(scheduled)["main"]
    generator = np.random.default_rng(0)
    a, b = (generator.standard_normal(shape).astype("float32") for shape in ((40, 37), (37, 260)))
    expected = np.empty((40, 260), "float32")
    compiled(a, b, expected)
    for m in range(1, 40):
        result = np.empty((m, 260), "float32")
        compiled(a[:m], b, result)
        np.testing.assert_array_equal(result, expected[:m])


@pytest.mark.parametrize(("cpu", "tallest"), [("haswell", 12), ("skylake-avx512", 24)])
def test_streams_of_many_rows_keep_their_sums_in_registers(cpu, tallest):
    func, target = product(te.var("m", "int64"), 600, 13), codegen.resolve(f"llvm -mcpu={cpu}")
    scheduled = schedule(func, target, [Product()])
    script = scheduled.script()
    few = script.split("else:\n            count")[0]
    heights = [int(height) for height in re.findall(r"acc = T.allocate\(\((\d+), \d+\)", few)]
    assert max(heights) == tallest
    if executes(target):
        compiled = codegen.build_module(scheduled, target)["main"]
        generator = np.random.default_rng(0)
        for m in (9, 13, 24):
            a, b = (generator.integers(-3, 4, shape).astype("float32") for shape in ((m, 13), (13, 600)))
            result = np.empty((m, 600), "float32")
            compiled(a, b, result)
            np.testing.assert_array_equal(result, a @ b)


def test_tiles_read_a_few_columns_where_they_are_for_any_number_of_rows(target):
    m, k = te.var("m", "int64"), te.var("k", "int64")
    few, many = (schedule(product(m, n, k), target, [Product()]).script() for n in (64, 65))
    assert "m <= 24" not in few
    assert "m <= 24" in many


def test_the_first_rule_that_fits_is_taken(target):
    few, many = (schedule(product(m, 512, 512), target, RULES).script() for m in (2, 64))
    assert "panel" not in few
    # All 512 rows, for which a quarter of the second-level cache of 512 KiB has room.
    assert "panel_memory = T.allocate((512, 64))" in many
    assert 'acc = T.allocate((6, 64), scope="local")' in many


@pytest.mark.parametrize(
    "func",
    [
        product(4, 8, 8),  # small
        product(32, 32, 32, dtype="int32"),
        product(32, 32, 32, dtype="float16"),
        product(64, 64, 64).without_attr("tir.noalias"),
        te.create_prim_func([x := te.placeholder((64, 64), name="X"), te.compute((64, 64), lambda i, j: x[i, j] + 1)]),
    ],
)
def test_others_are_left_alone(target, func):
    assert schedule(func, target, [StreamedProduct(), Product()]) is func


def test_a_scheduled_function_stays(target):
    func = product(64, 64, 64).with_attr("tir.is_scheduled", True)
    assert schedule(func, target, RULES) is func


@pytest.mark.parametrize("rows", [1, 5, 511, 515])
def test_chunks_of_rows_and_blocks_of_the_depth(same, rows):
    """Of this target, a block has 192 rows of a panel, one for few rows 64, and a chunk 510 rows of the result."""
    m, k = te.var("m", "int64"), te.var("k", "int64")
    for n, depth in ((70, 127), (70, 193)) if rows < 511 else ((20, 2),):
        same(product(rows, n, depth), Product(), shapes(rows, n, depth))
        same(product(m, n, k), Product(), shapes(rows, n, depth))


def test_tiles_ask_for_the_rows_of_the_next_one_where_panels_are_copied(target):
    def script(func):
        return schedule(func, target, [Product()]).script()

    assert "T.prefetch(A_tile[6 + k % 8, k], 0, 3)" in script(product(64, 128, 70))
    assert "T.prefetch" not in script(product(13, 128, 70))  # few rows, which stay in a cache
    a, b = te.placeholder((70, 64), name="A"), te.placeholder((70, 128), name="B")
    k = te.reduce_axis((0, 70), "k")
    func = te.create_prim_func([a, b, te.compute((64, 128), lambda i, j: te.sum(a[k, i] * b[k, j], axis=k))])
    assert "T.prefetch" not in script(func)  # rows that are next to each other in memory


def test_few_panels_are_shared_by_groups_of_rows(same, target):
    func = product(te.var("m", "int64"), 16, 2)
    same(func, Product(), *(shapes(m, 16, 2) for m in (191, 192, 197, 400)))
    arranged = schedule(func, target, [Product()]).script()
    assert "groups: T.int64 = " in arranged
    assert "for task in T.parallel(groups):" in arranged


def with_bias(m, n, k, batch=None):
    """``max(x @ w + bias, 0) + r``, the product in memory of its own, as fusion makes it."""
    lead = () if batch is None else (batch,)
    x, w = te.placeholder((*lead, m, k), name="X"), te.placeholder((k, n), name="W")
    bias, r = te.placeholder((n,), name="bias"), te.placeholder((*lead, m, n), name="Q")
    axis = te.reduce_axis((0, k), "k")
    y = te.compute((*lead, m, n), lambda *at: te.sum(x[(*at[:-1], axis)] * w[axis, at[-1]], axis=axis), "Y")
    z = te.compute((*lead, m, n), lambda *at: te.max(y[at] + bias[at[-1]], te.const(0, "float32")) + r[at], "Z")
    return te.create_prim_func([x, w, bias, r, z])


@pytest.mark.parametrize("rule", [Product(), StreamedProduct()])
def test_what_follows_is_part_of_the_store(same, target, rule):
    m = 3 if isinstance(rule, StreamedProduct) else 13
    func = with_bias(m, 40, 70)
    same(func, rule, [(m, 70), (70, 40), (40,), (m, 40), (m, 40)])
    assert "alloc_buffer" not in schedule(func, target, [rule]).script()


def test_what_follows_rows_of_several_dimensions(same, target):
    func = with_bias(te.var("m", "int64"), 40, te.var("k", "int64"), te.var("b", "int64"))
    cases = [(2, 3, 5), (1, 7, 65), (0, 3, 4), (2, 3, 0)]
    same(func, Product(), *([(b, m, k), (k, 40), (40,), (b, m, 40), (b, m, 40)] for b, m, k in cases))
    assert "T.decl_buffer((rows, 40), data=Q.data)" in schedule(func, target, [Product()]).script()


def test_a_product_that_is_read_twice_stays_in_memory(same, target):
    a, b = te.placeholder((16, 32), name="A"), te.placeholder((32, 32), name="B")
    k = te.reduce_axis((0, 32), "k")
    c = te.compute((16, 32), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), "C")
    d = te.compute((16, 32), lambda i, j: c[i, j] + c[15 - i, j], "D")
    func = te.create_prim_func([a, b, d])
    same(func, Product(), [(16, 32), (32, 32), (16, 32)])
    assert "alloc_buffer((16, 32))" in schedule(func, target, [Product()]).script()


def test_narrow_floats_are_summed_in_wide_ones(same):
    a, b = te.placeholder((13, 70), "float16", "A"), te.placeholder((70, 40), "float16", "B")
    k = te.reduce_axis((0, 70), "k")
    wide = te.compute((13, 40), lambda i, j: te.sum(a[i, k].astype("float32") * b[k, j].astype("float32"), axis=k), "C")
    func = te.create_prim_func([a, b, te.compute((13, 40), lambda i, j: wide[i, j].astype("float16"), "D")])
    same(func, Product(), [(13, 70), (70, 40), (13, 40)], dtype="float16")


def test_batches_of_which_operands_have_a_part(same):
    a, b = te.placeholder((2, 1, 7, 20), name="A"), te.placeholder((3, 20, 17), name="B")
    k = te.reduce_axis((0, 20), "k")
    func = te.create_prim_func([a, b, te.compute(
        (2, 3, 7, 17), lambda u, v, i, j: te.sum(a[u, 0, i, k] * b[v, k, j], axis=k), "C")])  # fmt: skip
    same(func, Product(), [(2, 1, 7, 20), (3, 20, 17), (2, 3, 7, 17)])


@pytest.fixture
def few_are_enough(monkeypatch):
    """Last columns are summed along the depth of 5 rows and a depth of 20: the interpreter need not take long."""
    monkeypatch.setattr(last_columns, "LEAST_ROWS", 5)
    monkeypatch.setattr(last_columns, "LEAST_DEPTH", 20)
    monkeypatch.setattr(last_columns, "ROWS_OF_A_TASK", 8)


@pytest.mark.usefixtures("few_are_enough")
@pytest.mark.parametrize("transposed", [False, True])
def test_few_last_columns_are_summed_along_the_depth(same, target, transposed):
    """Of up to four columns behind whole vectors, of rows and a depth that are not few; rows in fours."""

    def is_along(*sizes):
        return "columns_memory" in schedule(product(*sizes, None, transposed), target, [Product()]).script()

    for m, n, k in ((5, 36, 48), (26, 17, 21), (16, 33, 47)):
        same(product(m, n, k, None, transposed), Product(), shapes(m, n, k, None, transposed))
        assert is_along(m, n, k)
    others = (4, 17, 128), (26, 17, 19), (8, 37, 64), (8, 32, 64), (24, 3, 128)
    assert not any(is_along(*sizes) for sizes in others)


@pytest.mark.usefixtures("few_are_enough")
def test_few_last_columns_of_unknown_sizes(same):
    m, n, k, b = (te.var(name, "int64") for name in "mnkb")
    sizes = [(5, 17, 20), (11, 20, 33), (4, 17, 20), (8, 21, 20), (8, 17, 19), (8, 16, 20), (0, 17, 20)]
    same(product(m, n, k), Product(), *(shapes(*size) for size in sizes))
    same(product(m, 18, k, b), Product(), *(shapes(m, 18, 21, b) for m, b in ((9, 2), (9, 0), (3, 2))))
    cases = [(1, 9, 21), (2, 17, 32), (0, 9, 21)]
    same(with_bias(m, 17, k, b), Product(), *(
        [(b, m, k), (k, 17), (17,), (b, m, 17), (b, m, 17)] for b, m, k in cases))  # fmt: skip


def test_results_of_several_blocks_are_added_to_where_they_are(same, target):
    """Of this target, a block has 192 rows; sums that something is made of are in memory of their own."""
    m, n, k = (te.var(name, "int64") for name in "mnk")
    func = product(m, n, k)
    same(func, Product(), *(shapes(*size) for size in ((7, 5, 0), (2, 20, 192), (7, 17, 193), (1, 16, 385))))
    assert "sums" not in schedule(product(17, n, k), target, [Product()]).script()
    assert "sums" in schedule(with_bias(m, 40, k), target, [Product()]).script()
