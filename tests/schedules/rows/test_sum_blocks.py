"""Sums of many floats: one error bound for every axis, operator, optimisation level and kind of loops (docs/numerics.md)."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from relax import te, topi
from relax.codegen import build_module, resolve
from relax.ir import assert_structural_equal
from relax.schedules import schedule
from relax.schedules.cpu import RULES, PlainSums
from relax.tir import BufferLoad, For, PrimFunc
from support import agree, compiled, main, nodes, numbers, prim_func, same, values

U = 2.0**-24
"""Unit roundoff of float32."""
BOUND = 100 * U
"""Error of a float32 sum relative to the sum of magnitudes, as docs/numerics.md states it."""

STATISTICS = """
return (
    R.sum(x, axis={axis}), R.mean(x, axis={axis}), R.variance(x, axis={axis}), R.std(x, axis={axis}),
    R.cumsum(x, axis={axis}), R.nn.softmax(x, axis={axis}), R.nn.layer_norm(x, w, b, axes=[{axis}], epsilon=0.0),
)
"""


def program(shape, axis, dynamic):
    """The statistics of `shape` along `axis`, with names for its dimensions if it is dynamic."""
    dims = tuple("nmk"[: len(shape)]) if dynamic else shape
    size = dims[axis]
    params = (
        f'x: R.Tensor({dims!r}, "float32"), w: R.Tensor(({size!r},), "float32"), b: R.Tensor(({size!r},), "float32")'
    )
    return main(STATISTICS.format(axis=axis), params)


def shape_of(place, elements):
    """(shape, axis): a long axis at a place among short ones."""
    return {
        "only": ((elements,), 0),
        "first": ((elements // 2, 2), 0),
        "middle": ((2, elements // 4, 2), 1),
        "last": ((4, elements // 4), 1),
    }[place]


def within(found, expected, bound):
    """Assert that errors are not above a bound."""
    assert (np.abs(found - expected) <= bound).all(), f"{np.max(np.abs(found - expected) / bound):.3} times the bound"


def check_statistics(place, elements, target="llvm", dynamic=False):
    """Sums, moments, running sums and normalisations keep their bounds at an offset of 10^4 times the spread."""
    shape, axis = shape_of(place, elements)
    x = numbers(*shape) + np.float32(1e4)
    scale, shift = np.ones(shape[axis], "float32"), np.zeros(shape[axis], "float32")
    vm = relax.VirtualMachine(relax.build(program(shape, axis, dynamic), target), relax.cpu())
    total, mean, variance, std, running, softmax, normal = values(vm["main"](x, scale, shift))

    exact = x.astype("float64")
    kept = exact.mean(axis, keepdims=True)
    spread = exact.var(axis)
    within(total, exact.sum(axis), BOUND * np.abs(exact).sum(axis))
    within(mean, exact.mean(axis), BOUND * np.abs(exact).mean(axis))
    squares = BOUND * spread + (BOUND * exact.mean(axis)) ** 2
    within(variance, spread, squares)
    within(std, np.sqrt(spread), squares / np.sqrt(spread))
    within(running, exact.cumsum(axis), BOUND * np.abs(exact).cumsum(axis))
    shifted = exact - exact.max(axis, keepdims=True)
    weights = np.exp(shifted) / np.exp(shifted).sum(axis, keepdims=True)
    within(softmax, weights, (BOUND + (12 + np.abs(shifted)) * U) * weights)
    deviation = np.sqrt(np.expand_dims(spread, axis))
    normals = (exact - kept) / deviation
    relative = np.expand_dims(squares / spread, axis) + 8 * U
    within(normal, normals, BOUND * np.abs(kept) / deviation + relative * np.abs(normals))


@pytest.mark.parametrize(("place", "dynamic"), [("only", True), ("first", False), ("middle", True), ("last", False)])
def test_statistics_of_a_million(place, dynamic):
    check_statistics(place, 10**6, dynamic=dynamic)


@pytest.mark.parametrize("place", ["first", "last"])
def test_statistics_in_plain_loops(place):
    check_statistics(place, 4 * 10**5, "llvm -opt-level=1")


@pytest.mark.slow
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("place", ["only", "first", "middle", "last"])
def test_statistics_of_ten_millions(place, dynamic):
    check_statistics(place, 10**7, dynamic=dynamic)


@pytest.mark.parametrize("rows", [31, 32, 33, 64, 1000])
@pytest.mark.parametrize("axis", [0, 1])
def test_equal_terms(rows, axis):
    # Each partial sum of 0.1 rounds in one direction for a while, so errors of a plain loop add up.
    shape = (rows, 3) if axis == 0 else (3, rows)
    mod = main(f"return (R.sum(x, axis={axis}), R.cumsum(x, axis={axis}))", f'x: R.Tensor({shape}, "float32")')
    x = np.full(shape, 0.1, "float32")
    for target in ("llvm", "llvm -opt-level=1"):
        vm = relax.VirtualMachine(relax.build(mod, target), relax.cpu())
        total, running = values(vm["main"](x))
        within(total, x.astype("float64").sum(axis), 33 * U * rows * 0.1)
        within(running, x.astype("float64").cumsum(axis), 33 * U * rows * 0.1)


def test_training_statistics_of_a_batch():
    mod = main(
        "y = R.nn.batch_norm(x, w, b, m, v, axis=1, training=True, momentum=1.0)\nreturn (y[1], y[2])",
        'x: R.Tensor((50, 3, 64, 64), "float32"), w: R.Tensor((3,), "float32"), b: R.Tensor((3,), "float32"), '
        'm: R.Tensor((3,), "float32"), v: R.Tensor((3,), "float32")',
    )
    x, zeros = numbers(50, 3, 64, 64) + np.float32(1e4), np.zeros(3, "float32")
    vm = relax.VirtualMachine(relax.build(mod, "llvm"), relax.cpu())
    mean, variance = values(vm["main"](x, zeros + 1, zeros, zeros, zeros))
    exact = x.astype("float64")
    within(mean, exact.mean((0, 2, 3)), BOUND * 1e4)
    within(variance, exact.var((0, 2, 3)), 1.1 * (BOUND + (BOUND * 1e4) ** 2))


# ------------------------------------------------------------------------------------------ kinds of loops

COLUMNS = """
    @T.prim_func
    def main(A: T.Buffer((1000, 4), "float32"), S: T.Buffer((4,), "float32")):
        T.func_attr({"tir.noalias": True})
        for i, k in T.grid(4, 1000):
            with T.block("S"):
                v_i, v_k = T.axis.remap("SR", [i, k])
                with T.init():
                    S[v_i] = T.float32(0.5)
                S[v_i] = S[v_i] + A[v_k, v_i]
"""


BLOCKS = """
    @T.prim_func
    def main(A: T.Buffer((1000, 4), "float32"), S: T.Buffer((4,), "float32")):
        T.func_attr({"tir.noalias": True, "tir.is_scheduled": True})
        with T.block("root"):
            T.reads()
            T.writes()
            for i in range(4):
                S_total = T.allocate((1,), "float64", scope="local")
                S_block = T.allocate((1,), scope="local")
                S_total[T.int64(0)] = T.float64(0.5)
                for b in T.serial(32, annotations={"tir.stays_rolled": True}):
                    length: T.int32 = T.min(32, 1000 - b * 32)
                    S_block[T.int64(0)] = T.float32(0.0)
                    for k in range(length):
                        S_block[T.int64(0)] = S_block[T.int64(0)] + A[b * 32 + k, i]
                    S_total[T.int64(0)] = S_total[T.int64(0)] + T.Cast("float64", S_block[T.int64(0)])
                S[i] = T.Cast("float32", S_total[T.int64(0)])
"""


def test_a_block_has_32_terms():
    func = schedule(prim_func(COLUMNS), resolve("llvm"), [PlainSums()])
    assert_structural_equal(func, prim_func(BLOCKS))


@pytest.mark.parametrize("rules", [RULES, [PlainSums()]])
def test_the_initial_value_is_a_term(rules):
    a = numbers(1000, 4) + np.float32(1e4)
    func = schedule(prim_func(COLUMNS), resolve("llvm"), rules)
    expected = 0.5 + a.astype("float64").sum(0)
    within(agree(func, a, np.zeros(4, "float32"))[1], expected, BOUND * np.abs(expected))


STRIDED = """
    @T.prim_func
    def main(a: T.handle, S: T.Buffer((3,), "float32")):
        T.func_attr({"tir.noalias": True})
        A = T.match_buffer(a, (3, 100000), "float32", strides=(1, 3))
        for i, k in T.grid(3, 100000):
            with T.block("S"):
                v_i, v_k = T.axis.remap("SR", [i, k])
                with T.init():
                    S[v_i] = T.float32(0)
                S[v_i] = S[v_i] + A[v_i, v_k]
"""


def test_sums_of_strided_buffers():
    func = schedule(prim_func(STRIDED), resolve("llvm"), RULES)
    a = (numbers(100000, 3) + np.float32(1e4)).T
    found = np.zeros(3, "float32")
    build_module({"main": func})["main"](a, found)
    within(found, a.astype("float64").sum(1), BOUND * a.astype("float64").sum(1))


PAIR = """
    @T.prim_func
    def main(
        A: T.Buffer((100000, 4), "float32"), S: T.Buffer((4,), "float32"), Q: T.Buffer((4,), "float32")
    ):
        T.func_attr({"tir.noalias": True})
        for i, k in T.grid(4, 100000):
            with T.block("S"):
                v_i, v_k = T.axis.remap("SR", [i, k])
                with T.init():
                    S[v_i] = T.float32(0)
                    Q[v_i] = T.float32(0)
                S[v_i] = S[v_i] + A[v_k, v_i]
                Q[v_i] = Q[v_i] + A[v_k, v_i] * A[v_k, v_i]
"""


@pytest.mark.parametrize("rules", [RULES, [PlainSums()]])
def test_two_sums_of_one_nest(rules):
    func = schedule(prim_func(PAIR), resolve("llvm"), rules)
    a = numbers(100000, 4) + np.float32(1e4)
    _, total, squares = compiled(func, a, np.zeros(4, "float32"), np.zeros(4, "float32"))
    exact = a.astype("float64")
    within(total, exact.sum(0), BOUND * exact.sum(0))
    within(squares, (exact * exact).sum(0), BOUND * (exact * exact).sum(0))


def test_functions_whose_arguments_may_overlap_stay():
    func = prim_func(COLUMNS.replace('T.func_attr({"tir.noalias": True})', "pass"))
    assert schedule(func, resolve("llvm"), RULES) is func


def test_short_sums_products_and_integers_stay():
    short = prim_func(COLUMNS.replace("1000", "32"))
    integers = prim_func(COLUMNS.replace("float32", "int32").replace("(0.5)", "(5)"))
    product = prim_func(COLUMNS.replace("A[v_k, v_i]", "A[v_k, v_i] * B[v_k]").replace(
        "S: T", 'B: T.Buffer((1000,), "float32"), S: T'))  # fmt: skip
    for func in (short, integers, product):
        assert isinstance(func, PrimFunc)
        assert schedule(func, resolve("llvm"), [PlainSums()]) is func


def test_statistics_of_few_columns_run_in_parts():
    # Two sums, each of 64 parts and then of these; what is computed of a column is a loop over 4 columns.
    x = te.placeholder((10**6, 4), "float32", "X")
    text = schedule(te.create_prim_func([x, topi.variance(x, axis=0)]), resolve("llvm"), RULES).script()
    assert text.count("for fused in T.parallel(T.int64(64))") == 2


@pytest.mark.parametrize(("columns", "together"), [(512, 1), (1024, 4)])
def test_rows_of_different_pages_are_added_together(target, columns, together):
    x = te.placeholder((4096, columns), "float32", "X")
    func = schedule(te.create_prim_func([x, topi.sum(x, axis=0)]), target, RULES)
    (loop, *_) = [
        node for node in nodes(func.body, For)
        if any(load.buffer.name == "X" for load in nodes(node, BufferLoad)) and not nodes(node.body, For)
    ]  # fmt: skip
    assert len([load for load in nodes(loop, BufferLoad) if load.buffer.name == "X"]) == together


def test_windows_of_many_rows():
    mod = main("return R.nn.avg_pool2d(x, (3000, 2), (1, 2))", 'x: R.Tensor((1, 2, 3001, 40), "float32")')
    vm = relax.VirtualMachine(relax.build(mod, "llvm"), relax.cpu())
    found = values(vm["main"](np.full((1, 2, 3001, 40), 0.1, "float32")))
    within(found, np.full((1, 2, 2, 20), np.float32(0.1), "float64"), BOUND * 0.1)


# ------------------------------------------------------------------------------------------ other dtypes and values


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(("dtype", "unit"), [("float64", 2.0**-53), ("float16", 2.0**-11), ("bfloat16", 2.0**-8)])
def test_other_dtypes(dtype, unit, axis):
    # Narrow floats are summed in float32 and rounded once.
    shape = (40000, 3) if axis == 0 else (3, 40000)
    x = numbers(*shape, dtype=dtype, low=0, high=1)
    mod = main(f"return R.mean(x, axis={axis})", f'x: R.Tensor({shape}, "{dtype}")')
    vm = relax.VirtualMachine(relax.build(mod, "llvm"), relax.cpu())
    exact = x.astype("float64").mean(axis)
    bound = 100 * unit if dtype == "float64" else unit + BOUND
    within(values(vm["main"](x)).astype("float64"), exact, bound * exact)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_infinities_and_nan(axis, value):
    x = numbers(300, 300)
    x[100, 200] = value
    mod = main(f"return (R.sum(x, axis={axis}), R.cumsum(x, axis={axis}))", 'x: R.Tensor((300, 300), "float32")')
    for target in ("llvm", "llvm -opt-level=1"):
        vm = relax.VirtualMachine(relax.build(mod, target), relax.cpu())
        same(vm["main"](x), [x.sum(axis), x.cumsum(axis)], 1e-3, 1e-3)
