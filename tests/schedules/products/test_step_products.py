"""StepProducts: products with few rows within other loops, against NumPy and the loops they were made from."""

from __future__ import annotations

import numpy as np
import pytest
from applied import X86, Applied, anything

from relax import const, te, topi
from relax.codegen import build_module, resolve
from relax.prim.bounds import Bounds
from relax.schedules import schedule
from relax.schedules.cpu import StepProducts
from relax.script import from_source
from relax.tir import BufferLoad, explain
from support import nodes, numbers, prim_func

STEPS = """
from relax.script import tir as T

@T.prim_func
def main(A: T.Buffer((ROWS, 20), "float32"), b: T.handle, c: T.handle):
    T.func_attr({"tir.noalias": True})
    n = T.int64()
    B = T.match_buffer(b, (20, n), "float32")
    C = T.match_buffer(c, (ROWS, n + 3), "float32")
    for t in range(2):
        for s, row, k in T.grid(ROWS, n, DEPTH):
            C[s, row + 3] = C[s, row + 3] + A[s, k] * B[k, row]
        for s, row in T.grid(ROWS, n):
            C[s, row + 3] = C[s, row + 3] - T.float32(1)
"""


def steps(rows, depth=20, dtype="float32"):
    """Two steps, in each of which a product is added to all columns but three, and then something else is done."""
    text = STEPS.replace("ROWS", str(rows)).replace("DEPTH", str(depth)).replace("float32", dtype)
    return from_source(text)


def integers(*shape, dtype="float32"):
    return np.random.default_rng(0).integers(-3, 4, shape).astype(dtype)


def expected_of(a, b, c, depth=20):
    result = c.copy()
    result[:, 3:] += 2 * (a[:, :depth] @ b[:depth] - 1)
    return result


@pytest.mark.parametrize("rows", [1, 2, 4, 8])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_columns_of_any_number(target, rows, dtype):
    func = steps(rows, dtype=dtype)
    runs = Applied(StepProducts(), func, target), Applied(StepProducts(), func)
    assert "acc" in runs[0].func.script()
    for n in (0, 1, 7, 16, 33, 200):
        a, b, c = (integers(*shape, dtype=dtype) for shape in ((rows, 20), (20, n), (rows, n + 3)))
        for run in runs:
            np.testing.assert_array_equal(run(a, b, c.copy()), expected_of(a, b, c))


@pytest.mark.parametrize("machine", ["llvm -mcpu=haswell", "llvm -mcpu=x86-64", "llvm -mcpu=skylake-avx512"])
def test_sums_fit_the_registers(machine):
    """Of 16 registers, four rows by two vectors of sums leave enough for a line of B and an element of A."""
    text = schedule(steps(4), resolve(machine), [StepProducts()]).script()
    width = {"haswell": 16, "x86-64": 8, "skylake-avx512": 64}[machine.partition("=")[2]]
    assert f'acc = T.allocate((4, {width}), scope="local")' in text


def test_a_sum_over_nothing_leaves_what_is_there(target):
    run = Applied(StepProducts(), steps(4, depth=0), target)
    a, b, c = integers(4, 20), integers(20, 40), integers(4, 43)
    np.testing.assert_array_equal(run(a, b, c.copy()), expected_of(a, b, c, 0))


def test_nan_and_infinity_reach_their_own_sums_only():
    a, b, result = integers(2, 20), integers(20, 40), np.zeros((2, 43), "float32")
    a[0, 3], b[5, 7], b[6, 8] = np.nan, np.inf, -np.inf
    a[1, 5:7] = 1
    Applied(StepProducts(), steps(2))(a, b, result)
    assert np.isnan(result[0, 3:]).all()
    assert (result[:, :3] == 0).all()
    np.testing.assert_array_equal(result[1, 10:12], [np.inf, -np.inf])
    assert np.isfinite(np.delete(result[1], (10, 11))).all()


BYTES = """
@T.prim_func
def main(A: T.Buffer((ROWS, 20), "float32"), q: T.handle, z: T.handle, s: T.handle, c: T.handle):
    T.func_attr({"tir.noalias": True})
    n = T.int64()
    Q = T.match_buffer(q, (20, n), "uint8")
    Z = T.match_buffer(z, (n,), "int32")
    S = T.match_buffer(s, (2, n), "float32")
    C = T.match_buffer(c, (ROWS, n), "float32")
    for t in range(2):
        for p, row, k in T.grid(ROWS, n, 20):
            C[p, row] = C[p, row] + VALUE
"""

DEQUANTISED = "T.float32(T.int32(Q[k, row]) - Z[ZERO]) * S[k // 10, row]"


def scaled(rows, zero, right=DEQUANTISED):
    """Two steps, in each of which a product by dequantised bytes is added."""
    text = BYTES.replace("VALUE", f"A[p, k] * ({right})" if rows % 2 else f"({right}) * A[p, k]")
    return prim_func(text.replace("ROWS", str(rows)).replace("ZERO", zero))


@pytest.mark.parametrize(("rows", "zero"), [(1, "row"), (4, "0"), (8, "row")])
def test_bytes_are_dequantised_in_vectors(target, rows, zero):
    """Once per vector of columns for all rows; a zero point of all columns is one number."""
    runs = Applied(StepProducts(), scaled(rows, zero), target), Applied(StepProducts(), scaled(rows, zero))
    assert "acc" in runs[0].func.script()
    for n in (1, 7, 16, 33, 200):
        a, q = integers(rows, 20), anything(20, n, dtype="uint8")
        z, s = anything(n, dtype="uint8", seed=1).astype("int32"), 2.0 ** integers(2, n)
        weights = (q - (z if zero == "row" else z[0])) * np.repeat(s, 10, axis=0)
        for run in runs:
            result = run(a, q, z, s, np.ones((rows, n), "float32"))
            np.testing.assert_array_equal(result, 1 + 2 * (a @ weights.astype("float32")))


@pytest.mark.parametrize("dtype", ["int4", "bool", "uint64", "float16", "bfloat16", "float8_e4m3fn"])
def test_right_factors_of_any_dtype(dtype):
    text = (
        BYTES.replace("VALUE", "A[p, k] * T.float32(Q[k, row])").replace("ROWS", "3").replace('"uint8"', f'"{dtype}"')
    )
    run = Applied(StepProducts(), prim_func(text))
    for n in (1, 37):
        a, q = integers(3, 20), numbers(20, n, dtype="bool").astype(const(1, dtype).data.numpy().dtype)
        result = run(a, q, np.zeros(n, "int32"), np.zeros((2, n), "float32"), np.zeros((3, n), "float32"))
        np.testing.assert_array_equal(result, 2 * (a @ q.astype("float32")))


def test_a_right_factor_of_the_column_itself():
    func = scaled(3, "0", "T.float32(Q[k, row]) * T.float32(row)")
    run = Applied(StepProducts(), func)
    for n in (1, 37):
        a, q = integers(3, 20), anything(20, n, dtype="uint8")
        result = run(a, q, np.zeros(n, "int32"), np.zeros((2, n), "float32"), np.zeros((3, n), "float32"))
        np.testing.assert_array_equal(result, 2 * (a @ (q.astype("float32") * np.arange(n, dtype="float32"))))


def test_the_loop_over_the_depth_reads_vectors_of_bytes():
    """Eight bytes each, and single ones in the remainder loop only."""
    machine = f"{X86} -mcpu=haswell"
    func = schedule(scaled(1, "row"), resolve(machine), [StepProducts()])
    assert {load.dtype.lanes for load in nodes(func.body, BufferLoad) if load.buffer.name == "Q"} == {1, 8}
    loop = explain(func, machine).loops[0]
    assert (loop.name, loop.is_vectorised) == ("main: t > p > k", True)
    assert "vpmovzxbd" in build_module(func, machine).get_source("asm")


@pytest.mark.parametrize(
    "right",
    [
        "T.float32(Q[k, row]) * S[0, n - 1 - row]",
        "T.float32(Q[k, row]) * S[p % 2, row]",
        "T.float32(Q[k, row]) * C[p, 0]",
    ],
    ids=["columns backwards", "differs between rows", "reads what it writes"],
)
def test_other_right_factors_stay(target, right):
    func = scaled(3, "0", right)
    assert schedule(func, target, [StepProducts()]) is func


OTHER = """
from relax.script import tir as T

@T.prim_func
def main(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32"), C: T.Buffer((8, 8), "float32")):
    T.func_attr({"tir.noalias": NOALIAS})
    for s, row, k in T.grid(8, 8, 8):
        C[PLACE] = VALUE
"""


@pytest.mark.parametrize(
    ("value", "place", "reason"),
    [
        ("C[s, row] + A[s, k] * C[k, row]", "s, row", "reads what it writes"),
        ("C[s, row] + A[s, row] * B[k, row]", "s, row", "the left factor differs between columns"),
        ("C[s, row] + A[s, k] * B[row, k]", "s, row", "the columns are not next to each other"),
        ("C[s, row] + A[s, k] * B[s, row]", "s, row", "the right factor differs between rows"),
        ("C[s, row] + A[s, k] * B[k, row]", "s, k", "another place"),
        ("C[row, s] + A[s, k] * B[k, row]", "row, s", "columns lie in lines of their own"),
        ("C[s, row] - A[s, k] * B[k, row]", "s, row", "no sum"),
        ("C[s, s] + A[s, k] * B[k, row]", "s, s", "all columns are one element"),
    ],
)
def test_other_loops_stay(target, value, place, reason):
    text = OTHER.replace("VALUE", value).replace("PLACE", place).replace("NOALIAS", "True")
    func = from_source(text)
    assert schedule(func, target, [StepProducts()]) is func, reason


def test_arguments_that_may_overlap_stay(target):
    text = OTHER.replace("VALUE", "C[s, row] + A[s, k] * B[k, row]").replace("PLACE", "s, row")
    func = from_source(text.replace("NOALIAS", "False"))
    assert schedule(func, target, [StepProducts()]) is func


def test_two_directions_are_proved_like_one(monkeypatch):
    """The number of groups has a name: proofs about the direction of a task do not look at how it is computed."""
    counts = []
    upper = Bounds._upper

    def counted(self, *args, **options):
        counts[-1] += 1
        return upper(self, *args, **options)

    monkeypatch.setattr(Bounds, "_upper", counted)
    n = te.var("n", "int64")
    for directions, direction in ((1, "forward"), (2, "bidirectional")):
        counts.append(0)
        shapes = ((2, n, 16), (directions, 4 * 17, 16), (directions, 4 * 17, 17))
        operands = [te.placeholder(shape, "float32", name) for shape, name in zip(shapes, "XWR", strict=True)]
        func = te.create_prim_func([*operands, *topi.recurrent.lstm(*operands, direction=direction)])
        build_module(func, "llvm -num-cores=2")
    assert 0 < counts[1] < 2 * counts[0]
