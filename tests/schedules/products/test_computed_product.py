"""ComputedProduct: products of operands that are computed, such as int8 or int4 with scales."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from applied import X86, Applied, whole

from relax import te, tir
from relax.codegen import resolve
from relax.ir import DataType
from relax.schedules import schedule
from relax.schedules.cpu import ComputedProduct

WIDE = f"{X86} -mcpu=skylake-avx512"
ROWS = [0, 1, 2, 3, 5, 7, 11, 12, 13]
FORMS = [("int8", 37, 70, 37), ("int8", 96, 64, 32), ("int4", 96, 70, 32), ("int4", 20, 41, 1), ("int4", 130, 16, 65)]
"""The dtype of numbers, the depth, the columns, and the rows of numbers to a row of scales."""


def product(m, k, n, dtype, group, behind=None):
    a, q = te.placeholder((m, k), "float32", "A"), te.placeholder((k, n), dtype, "Q")
    s = te.placeholder((k // group, n), "float32", "S")
    axis = te.reduce_axis((0, k), "k")

    def element(i, j):
        scale = s[axis // group if group < k else 0, j]
        return te.sum(a[i, axis] * (q[axis, j].astype("float32") * scale), axis=axis)

    c = te.compute((m, n), element, "C")
    result = c if behind is None else te.compute(c.shape, lambda *i: behind(c(*i)), "D")
    return te.create_prim_func([a, q, s, result])


def operands(rows, k, n, dtype, group):
    """Numbers whose sums are exact: whole ones, with powers of two as scales."""
    generator = np.random.default_rng(rows)
    limit = 8 if dtype == "int4" else 128
    a = generator.integers(-3, 4, (rows, k)).astype("float32")
    q = generator.integers(-limit, limit, (k, n)).astype(dtype)
    return a, q, (2.0 ** generator.integers(-2, 3, (k // group, n))).astype("float32")


def weights(q, s):
    return q.astype("float32") * np.repeat(s, len(q) // len(s), axis=0)


def packed(func, target="llvm"):
    return Applied(ComputedProduct(), func, target, known=[1, 2])


@pytest.mark.parametrize(("dtype", "k", "n", "group"), FORMS)
def test_unknown_rows(target, dtype, k, n, group):
    func = product(te.var("m", "int64"), k, n, dtype, group)
    compiled, interpreted = packed(func), packed(func, target)
    for rows in ROWS:
        a, q, s = operands(rows, k, n, dtype, group)
        for run in (compiled, interpreted) if rows in (0, 1, 13) else (compiled,):
            run.computes(a @ weights(q, s), a, q, s)


@pytest.mark.parametrize("rows", [1, 3, 6, 30])
def test_known_rows_and_what_is_behind(rows):
    func = product(rows, 256, 41, "int4", 16, lambda total: tir.max(total, tir.const(0, "float32")))
    a, q, s = operands(rows, 256, 41, "int4", 16)
    packed(func).computes(np.maximum(a @ weights(q, s), 0), a, q, s)


def test_each_weight_is_rounded_before_it_is_multiplied():
    func = product(te.var("m", "int64"), 128, 80, "int8", 128)
    run = packed(func)
    generator = np.random.default_rng(0)
    q, s = (generator.integers(-128, 128, (128, 80)).astype("int8"), generator.random((1, 80)).astype("float32"))
    for rows in (1, 16):
        a = np.zeros((rows, 128), "float32")
        a[np.arange(rows), np.arange(rows) * 3] = 1
        run.computes(weights(q, s)[: rows * 3 : 3], a, q, s)


@pytest.mark.parametrize("rows", [2, 14])
def test_what_is_no_number_stays_in_its_row_and_column(rows):
    func = product(te.var("m", "int64"), 64, 40, "int4", 32)
    a, q, s = operands(rows, 64, 40, "int4", 32)
    a[0, 3], a[1, 20], s[1, 39] = np.inf, np.nan, -np.inf
    with np.errstate(invalid="ignore"):
        packed(func).computes(a @ weights(q, s), a, q, s)


def matmul(m, k, n, weight, *placeholders, row="float32", behind=None):
    """``C[i, j] = Σ A[i, k] · weight(k, j)``, of the function's parameters A and `placeholders`."""
    a, axis = te.placeholder((m, k), row, "A"), te.reduce_axis((0, k), "k")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, axis].astype("float32") * weight(axis, j), axis=axis), "C")
    return te.create_prim_func([a, *placeholders, c])


def agrees(func, *args, known=(), rule=None):
    """The function for the host, and for a machine with wide vectors, computes what the function did before."""
    expected = np.full(args[-1].shape, 77, args[-1].dtype)
    tir.interpret(func, *args[:-1], expected)
    for target in ("llvm", WIDE):
        run = Applied(rule or ComputedProduct(), func, target, known)
        run.computes(expected, *args[:-1])
    return run


def test_weights_of_each_call_are_evaluated_as_they_are_read():
    """Numbers that no constants are: a block is evaluated once for all rows of a task."""
    m = te.var("m", "int64")
    func = product(m, 96, 70, "int8", 32)
    for rows in (0, 1, 4, 13):
        a, q, s = operands(rows, 96, 70, "int8", 32)
        agrees(func, a, q, s, np.empty((rows, 70), "float32"))


@pytest.mark.parametrize("known", [(), (1, 2, 3)])
@pytest.mark.parametrize("dtype", ["uint4", "int2", "uint2", "uint8"])
def test_numbers_of_a_transposed_matrix_with_zero_points(known, dtype):
    """Weights as layers hold them: a row for each result; those that are not constants are read across rows."""
    q, z = te.placeholder((70, 64), dtype, "Q"), te.placeholder((70, 2), dtype, "Z")
    s = te.placeholder((70, 2), "float32", "S")

    def weight(k, j):
        return (q[j, k].astype("float32") - z[j, k // 32].astype("float32")) * s[j, k // 32]

    func = matmul(24, 64, 70, weight, q, z, s)
    info = ml_dtypes.iinfo(dtype) if dtype != "uint8" else np.iinfo(dtype)
    generator = np.random.default_rng(1)
    numbers, zeros = (generator.integers(info.min, info.max + 1, shape).astype(dtype) for shape in ((70, 64), (70, 2)))
    run = agrees(func, whole(24, 64), numbers, zeros, whole(70, 2), np.empty((24, 70), "float32"), known=known)
    if known:  # panels of 3 and 2 vectors of 16 columns
        vectors = {4: 2 + 1, 2: 1 + 1, 8: 3 + 2}[DataType(dtype).bits]
        assert run.packings[1](numbers).nbytes == 64 * vectors * 16


def test_a_constant_in_two_parts_of_an_operand():
    """Bytes that hold two numbers each, with the high bits first or last."""
    q = te.placeholder((32, 48), "uint8", "Q")

    def weight(k, j):
        byte = q[k // 2, j].astype("int32")
        return (tir.Select(k % 2 == 0, byte & 15, byte >> 4) - 8).astype("float32")

    func = matmul(te.var("m", "int64"), 64, 48, weight, q)
    numbers = np.random.default_rng(2).integers(0, 256, (32, 48)).astype("uint8")
    for rows in (1, 7):
        agrees(func, whole(rows, 64), numbers, np.empty((rows, 48), "float32"), known=[1])


@pytest.mark.parametrize("known", [(), (1,), (1, 2)])
def test_numbers_that_are_looked_up(known):
    q, table = te.placeholder((64, 48), "uint4", "Q"), te.placeholder((16,), "float32", "T")
    func = matmul(te.var("m", "int64"), 64, 48, lambda k, j: table[q[k, j].astype("int64")], q, table)
    codes = np.random.default_rng(3).integers(0, 16, (64, 48)).astype("uint4")
    for rows in (0, 2, 9):
        agrees(func, whole(rows, 64), codes, whole(16), np.empty((rows, 48), "float32"), known=known)


def test_numbers_that_are_not_in_a_table_are_refused_if_there_are_rows():
    q, table = te.placeholder((64, 48), "uint8", "Q"), te.placeholder((16,), "float32", "T")
    func = matmul(te.var("m", "int64"), 64, 48, lambda k, j: table[q[k, j].astype("int64")], q, table)
    codes = np.zeros((64, 48), "uint8")
    codes[63, 47] = 16
    run = Applied(ComputedProduct(), func)
    assert run(np.ones((0, 64), "float32"), codes, whole(16), np.empty((0, 48), "float32")).size == 0
    with pytest.raises(IndexError, match="buffer T: index 16 is out of bounds"):
        run(np.ones((1, 64), "float32"), codes, whole(16), np.empty((1, 48), "float32"))


@pytest.mark.parametrize("known", [(), (1, 2)])
@pytest.mark.parametrize("size", [(5, 7), (1, 1), (0, 3), (16, 16)])
def test_a_convolution_of_single_elements(size, known):
    """Scaled weights of a 1 x 1 convolution are the left operand: rows are output channels, columns are pixels."""
    h, w = te.var("h", "int64"), te.var("w", "int64")
    x, q = te.placeholder((2, 24, h, w), "float32", "X"), te.placeholder((40, 24, 1, 1), "int4", "Q")
    s = te.placeholder((40,), "float32", "S")
    ci, dy, dx = (te.reduce_axis((0, extent)) for extent in (24, 1, 1))
    y = te.compute(
        (2, 40, h, w),
        lambda n, o, i, j: te.sum(
            x[n, ci, i + dy, j + dx] * (q[o, ci, dy, dx].astype("float32") * s[o]), axis=[ci, dy, dx]
        ),
        "Y",
    )
    func = te.create_prim_func([x, q, s, y])
    numbers = np.random.default_rng(4).integers(-8, 8, (40, 24, 1, 1)).astype("int4")
    agrees(func, whole(2, 24, *size), numbers, whole(40), np.empty((2, 40, *size), "float32"), known=known)


def test_both_operands_computed_in_a_batch():
    """Products of float64 of what is computed of four arrays, one for each of the batch."""
    n, m = te.var("n", "int64"), te.var("m", "int64")
    a, b = te.placeholder((n, m, 20), "float64", "A"), te.placeholder((n, 20, 40), "int8", "B")
    c, axis = te.placeholder((n, 40), "float64", "C"), te.reduce_axis((0, 20), "k")
    func = te.create_prim_func([a, b, c, te.compute((n, m, 40), lambda p, i, j: te.sum(
        te.max(a[p, i, axis], 0.0) * (b[p, axis, j].astype("float64") + c[p, j]), axis=axis), "D")])  # fmt: skip
    numbers = np.random.default_rng(5).integers(-5, 6, (3, 20, 40)).astype("int8")
    for batch, rows in ((1, 12), (3, 5), (0, 4), (2, 0)):
        args = whole(batch, rows, 20, dtype="float64"), numbers[:batch], whole(batch, 40, dtype="float64")
        agrees(func, *args, np.empty((batch, rows, 40)))


def test_machines_without_vectors_read_constants_as_they_are():
    """The left operand is evaluated element by element; products by a right one are left to other rules."""
    alone = resolve("llvm -vector-width=32")
    q, x, axis = te.placeholder((40, 24), "int4", "Q"), te.placeholder((24, 64), name="X"), te.reduce_axis((0, 24), "k")
    left = te.compute((40, 64), lambda i, j: te.sum(q[i, axis].astype("float32") * x[axis, j], axis=axis))
    func = te.create_prim_func([q, x, left])
    assert str(ComputedProduct().pack(func, alone, [0])) == "the operands that are computed read no constants"
    arranged = schedule(func, alone, [ComputedProduct()])
    numbers, result = np.random.default_rng(6).integers(-8, 8, (40, 24)).astype("int4"), np.empty((40, 64), "float32")
    tir.interpret(arranged, numbers, whole(24, 64), result)
    np.testing.assert_array_equal(result, numbers.astype("float32") @ whole(24, 64))
    right = product(64, 64, 64, "int8", 64)
    assert str(ComputedProduct().accepts(right, alone, [1])) == "the target has no vectors"


def test_operands_that_may_fail_are_evaluated_only_for_results():
    """Divisors of 0 raise where there are columns, and the left operand would be evaluated before them."""
    n, axis = te.var("n", "int64"), te.reduce_axis((0, 64), "k")
    q, z = te.placeholder((24, 64), "int32", "Q"), te.placeholder((64,), "int32", "Z")
    x = te.placeholder((64, n), "float32", "X")
    func = te.create_prim_func([q, z, x, te.compute((24, n), lambda i, j: te.sum(
        tir.floordiv(q[i, axis], z[axis]).astype("float32") * x[axis, j], axis=axis))])  # fmt: skip
    run = Applied(ComputedProduct(), func)
    numbers, zeros = np.ones((24, 64), "int32"), np.zeros(64, "int32")
    assert run(numbers, zeros, np.empty((64, 0), "float32"), np.empty((24, 0), "float32")).size == 0
    with pytest.raises(ZeroDivisionError):
        run(numbers, zeros, np.ones((64, 1), "float32"), np.empty((24, 1), "float32"))


@pytest.mark.parametrize("rows", [0, 1, 13])
@pytest.mark.parametrize("depth", [0, 1, 7, 300])
def test_a_depth_that_is_not_known(depth, rows):
    m, k = te.var("m", "int64"), te.var("k", "int64")
    q = te.placeholder((k, 48), "int8", "Q")
    func = matmul(m, k, 48, lambda at, j: q[at, j].astype("float32") * 0.5, q)
    numbers = np.random.default_rng(7).integers(-9, 9, (depth, 48)).astype("int8")
    agrees(func, whole(rows, depth), numbers, np.empty((rows, 48), "float32"))


def test_conditions_keep_reads_inside():
    """Elements of the row and the column before, which the first ones do not have."""
    b = te.placeholder((64, 48), "float32", "B")

    def before(k, j):
        return tir.if_then_else(tir.all(k > 0, j > 0), b[k - 1, j - 1], tir.const(0, "float32"))

    func = matmul(te.var("m", "int64"), 64, 48, before, b)
    for rows in (1, 7):
        data = whole(64, 48)
        data[3, 5], data[9, 9] = np.nan, np.inf
        agrees(func, whole(rows, 64), data, np.empty((rows, 48), "float32"))


def test_an_operand_of_rows_and_columns():
    """The rows are then a batch, of one row each."""
    a, b, axis = te.placeholder((9, 64), name="A"), te.placeholder((64, 48), name="B"), te.reduce_axis((0, 64), "k")
    product = te.compute((9, 48), lambda i, j: te.sum((a[i, axis] - b[axis, j]) * a[i, axis], axis=axis))
    agrees(te.create_prim_func([a, b, product]), whole(9, 64), whole(64, 48), np.empty((9, 48), "float32"))


def test_others_are_left_alone(target):
    def unchanged(func):
        return schedule(func, target, [ComputedProduct()]) is func

    q, s = te.placeholder((64, 64), "int8", "Q"), te.placeholder((64, 64), "float32", "S")
    n = te.var("m", "int64")
    assert unchanged(matmul(n, 64, 64, lambda k, j: s[k, j], s))  # a plain product
    assert unchanged(matmul(n, 64, 64, lambda k, j: q[j, k].astype("float32"), q))  # one gather for each vector
    assert not unchanged(matmul(64, 64, 64, lambda k, j: q[j, k].astype("float32"), q))  # shared by many rows
    assert unchanged(product(2, 8, 16, "int8", 8))  # small


def test_constants_that_others_read_stay_as_they_are(target):
    q, b = te.placeholder((64, 64), "int8", "Q"), te.placeholder((64,), "float32", "B")
    func = matmul(64, 64, 64, lambda k, j: q[k, j].astype("float32") * b[j] + q[k, 0].astype("float32"), q, b)
    packed = ComputedProduct().pack(func, target, [1, 2])
    assert packed is not None
    assert list(packed.packings) == [2]
