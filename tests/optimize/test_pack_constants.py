"""PackConstants: constant operands of kernels in the order in which rules read them."""

from __future__ import annotations

import logging

import numpy as np
import pytest
from applied import Applied

import relax
from relax import te, tir
from relax.codegen import build_module, resolve
from relax.ir import IRModule
from relax.optimize import PACKED_CONSTANTS, PACKED_KERNELS, PackConstants
from relax.optimize.permuted_constants import with_permuted_constants
from relax.rewrite import bindings_in
from relax.runtime.tensor import tensor_under
from relax.schedules import schedule
from relax.schedules.cpu import RULES, Product
from relax.script import from_source
from relax.script import ir as I
from relax.script import relax as R
from relax.tir import BufferLoad
from support import nodes


def integers(*shape, dtype="float32"):
    return np.random.default_rng(0).integers(-3, 4, shape).astype(dtype)


def lowered(mod):
    return relax.get_pipeline("default")(IRModule.from_expr(mod) if not isinstance(mod, IRModule) else mod)


def with_weights(weights):
    @R.function
    def main(x: R.Tensor(("m", 96), "float32")):
        return R.matmul(x, R.const(weights))

    return main


def test_weights_are_packed_when_a_program_is_built(target):
    mod = PackConstants(*RULES, target=target)(lowered(with_weights(integers(96, 80))))
    assert [g.name_hint for g in mod.functions] == ["main", "matmul_packed"]
    assert mod.attrs[PACKED_CONSTANTS] == {"kernels": 1, "constants": 1, "bytes": 4 * 96 * 80}
    assert mod.attrs[PACKED_KERNELS] == {"matmul_packed": "matmul"}
    assert 'T.Buffer((7680,), "float32")' in mod["matmul_packed"].script()
    assert PackConstants(*RULES, target=target)(mod) is mod


def test_a_kernel_that_is_made_is_told_at_once(target):
    told = {}
    before = lowered(with_weights(integers(96, 80)))
    after = PackConstants(*RULES, target=target, scheduled=told.__setitem__)(before)
    assert list(told) == ["matmul_packed"]
    assert told["matmul_packed"] is after["matmul_packed"]


def test_the_log_says_how_many_bytes(target, caplog):
    with caplog.at_level(logging.INFO, "relax.optimize.pack_constants"):
        PackConstants(*RULES, target=target)(lowered(with_weights(integers(96, 70))))
    assert caplog.messages == [f"packed 1 constants, {4 * 96 * 80} bytes, for 1 kernels"]


def test_a_profile_counts_the_operations_of_packed_kernels():
    vm = relax.VirtualMachine(relax.build(with_weights(integers(96, 80))), relax.cpu(), profile=True)
    rows = vm.profile("main", relax.nd.array(integers(5, 96))).rows
    assert [row.flops for row in rows if row.name == "matmul_packed"] == [2 * 5 * 96 * 80]


def test_operands_that_are_no_constants_stay(target):
    @R.function
    def main(x: R.Tensor(("m", 96), "float32"), w: R.Tensor((96, 80), "float32")):
        return R.matmul(x, w)

    before = lowered(main)
    assert PackConstants(*RULES, target=target)(before) is before


def test_equal_orders_of_one_constant_are_one_constant(target):
    weights = relax.const(integers(96, 96))

    @R.function
    def main(x: R.Tensor((64, 96), "float32"), v: R.Tensor((96, 96), "float32")):
        y = R.matmul(R.matmul(x, weights), weights)
        return R.matmul(y, v)

    mod = PackConstants(*RULES, target=target)(lowered(main))
    assert mod.attrs[PACKED_CONSTANTS]["constants"] == 1
    assert {g.name_hint for g in mod.functions} == {"main", "matmul", "matmul_packed"}


@pytest.mark.parametrize("n", [7, 64, 129])
def test_constants_are_packed_in_the_memory_in_which_they_stay(target, n):
    weights = integers(96, n)

    @R.function
    def main(x: R.Tensor((64, 96), "float32")):
        return R.matmul(x, R.const(weights))

    mod = PackConstants(*RULES, target=target)(lowered(main))
    calls = [b.value for b in bindings_in(mod["main"]) if isinstance(b.value, relax.Call)]
    (constant,) = (arg for call in calls for arg in call.args if isinstance(arg, relax.Constant))
    assert not constant.data.flags.writeable
    assert constant.tensor is tensor_under(constant.data)
    # What fills the last panel up is 0.
    np.testing.assert_array_equal(np.sort(constant.data[constant.data != 0]), np.sort(weights[weights != 0]))


@pytest.mark.parametrize("n", [1, 16, 70, 129])
@pytest.mark.parametrize("transposed", [False, True])
def test_a_product_of_packed_panels(target, n, transposed):
    m, k = te.var("m", "int64"), 130
    a = te.placeholder((m, k), name="A")
    b = te.placeholder((n, k) if transposed else (k, n), name="B")
    axis = te.reduce_axis((0, k), "k")
    func = te.create_prim_func([a, b, te.compute(
        (m, n), lambda i, j: te.sum(a[i, axis] * (b[j, axis] if transposed else b[axis, j]), axis=axis), "C")])  # fmt: skip
    weights = integers(k, n)
    for machine in (target, "llvm"):
        run = Applied(Product(), func, machine, known=[1])
        for rows in (0, 1, 7):
            x = integers(rows, k)
            run.computes(x @ weights, x, weights.T if transposed else weights)


def packed_product(rows, k, n, machine="llvm"):
    """A product with packed weights."""
    a, b = te.placeholder((rows, k), name="A"), te.placeholder((k, n), name="B")
    axis = te.reduce_axis((0, k), "k")
    func = te.create_prim_func(
        [a, b, te.compute((rows, n), lambda i, j: te.sum(a[i, axis] * b[axis, j], axis=axis), "C")]
    )
    return Applied(Product(), func, machine, known=[1])


def check(run, rows, k, n):
    x, weights = integers(rows, k), integers(k, n)
    run.computes(x @ weights, x, weights)


@pytest.mark.parametrize(("k", "n"), [(192, 70), (64, 16)])
def test_few_rows_ask_for_nothing_that_the_processor_foresees(target, k, n):
    interpreted, compiled = (packed_product(te.var("m", "int64"), k, n, to) for to in (target, "llvm"))
    assert "T.prefetch(panel[k + " not in interpreted.func.script()
    for rows in range(27):
        check(compiled, rows, k, n)
        if rows in (3, 8, 13) and n == 16:
            check(interpreted, rows, k, n)


def test_blocks_that_no_size_divides_are_nearly_equal(target):
    """A quarter of the second-level cache of 512 KiB has room for 512 rows of a panel."""
    run = packed_product(3, 1031, 64, target)
    assert "for ko in range(T.int64(3)):" in run.func.script()
    assert "T.min(344, 1031 - ko * 344)" in run.func.script()
    check(run, 3, 1031, 64)


@pytest.mark.parametrize("rows", [1, 3, 5, 7, 9, 14])
def test_a_known_number_of_few_rows(target, rows):
    text = packed_product(rows, 192, 70, target).func.script()
    asked = [line for line in text.splitlines() if "prefetch" in line]
    assert [sum("k + " in line for line in asked), sum("io" in line for line in asked)] == {
        1: [0, 0], 3: [0, 0], 5: [0, 0], 7: [0, 8], 9: [0, 8], 14: [0, 8]}[rows]  # fmt: skip
    check(packed_product(rows, 192, 70), rows, 192, 70)


def test_rows_that_do_not_fit_the_second_level_cache_are_groups():
    run = packed_product(61, 10, 16, "llvm -l2-cache=1024")
    assert "for task in T.parallel(T.int64(3))" in run.func.script()
    check(run, 61, 10, 16)


def test_batches_of_weights(target):
    a, b = te.placeholder((5, 30), name="A"), te.placeholder((3, 30, 40), name="B")
    k = te.reduce_axis((0, 30), "k")
    func = te.create_prim_func(
        [a, b, te.compute((3, 5, 40), lambda u, i, j: te.sum(a[i, k] * b[u, k, j], axis=k), "C")]
    )
    packed = Product().pack(func, target, (0, 1))
    assert list(packed.packings) == [1]
    x, w, result = integers(5, 30), integers(3, 30, 40), np.zeros((3, 5, 40), "float32")
    tir.interpret(packed.func, x, packed.packings[1](w), result)
    np.testing.assert_array_equal(result, x @ w)


def test_a_program_computes_what_it_did():
    w, bias = integers(96, 80), integers(80)

    @R.function
    def main(x: R.Tensor(("b", "m", 96), "float32")):
        with R.dataflow():
            y = R.nn.relu(R.add(R.matmul(x, R.const(w)), R.const(bias)))
            z = R.matmul(y, R.permute_dims(R.const(w)))
            R.output(z)
        return z

    for pipeline in ("default", "unfused"):
        vm = relax.VirtualMachine(relax.build(main, pipeline=pipeline), relax.cpu())
        for b, m in ((1, 1), (2, 3), (0, 2), (1, 50)):
            x = integers(b, m, 96)
            expected = np.maximum(x @ w + bias, 0) @ w.T
            np.testing.assert_array_equal(vm["main"](relax.nd.array(x)).numpy(), expected)


def test_a_function_that_is_scheduled_stays(target):
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((64, 96), "float32")):
            return R.matmul(x, R.const(integers(96, 80)))

    mod = lowered(Module)
    mod["matmul"] = mod["matmul"].with_attr("tir.is_scheduled", True)
    assert PackConstants(*RULES, target=target)(mod) is mod


def test_constants_that_are_only_transposed_are_transposed_when_a_program_is_built(target):
    """A recurrent layer reads its weights transposed: (directions, hidden, gates · hidden)."""
    weights, recurrence = integers(1, 4, 2), integers(1, 4, 4)

    @R.function
    def main(x: R.Tensor((3, "n", 2), "float32")):
        return R.nn.rnn(x, R.const(weights), R.const(recurrence))[1]

    before = lowered(main)
    mod = PackConstants(*RULES, target=target)(before)
    assert "rnn_recurrence" in before["rnn"].script()
    assert "[v_d, v_row, v_j]" not in mod["rnn_packed"].script()
    vm = relax.VirtualMachine(relax.build(main), relax.cpu())
    for n in (0, 1, 6):
        x = integers(3, n, 2)
        h = np.zeros((1, n, 4))
        for t in range(3):
            h = np.tanh(x[t] @ weights[0].T + h @ recurrence[0].T)
        np.testing.assert_allclose(vm["main"](x).numpy(), h, 1e-5, 1e-5)


def test_bytes_that_are_only_transposed_are_transposed_too():
    """The products of the steps then read vectors of bytes."""
    func = from_source("""
from relax.script import tir as T

@T.prim_func
def main(X: T.Buffer((3, 20), "float32"), W: T.Buffer((50, 20), "int8"), C: T.Buffer((3, 50), "float32")):
    T.func_attr({"tir.noalias": True})
    with T.block("root"):
        V = T.alloc_buffer((20, 50), "int8")
        for k, row in T.grid(20, 50):
            with T.block("V"):
                k, row = T.axis.remap("SS", [k, row])
                V[k, row] = W[row, k]
        for t in range(2):
            for s, row, k in T.grid(3, 50, 20):
                C[s, row] = C[s, row] + X[s, k] * T.float32(V[k, row])
""")
    permuted = with_permuted_constants(func, (1,))
    x, w = integers(3, 20), integers(50, 20, dtype="int8")
    assert permuted is not None
    scheduled = schedule(permuted.func, resolve("llvm -mcpu=haswell"), RULES)
    lanes = {load.dtype.lanes for load in nodes(scheduled.body, BufferLoad) if load.buffer.dtype == "int8"}
    assert lanes == {1, 8}
    result = np.zeros((3, 50), "float32")
    build_module(scheduled)["main"](x, permuted.packings[1](w), result)
    np.testing.assert_array_equal(result, 2 * (x @ w.T))


@pytest.mark.parametrize("value", ["W[j, i] + T.float32(1)", "W[i, i]", "T.if_then_else(i < 3, W[j, i], T.float32(0))"])
def test_constants_of_which_more_is_done_stay(target, value):
    func = from_source(f"""
from relax.script import tir as T

@T.prim_func
def main(W: T.Buffer((8, 8), "float32"), Y: T.Buffer((8, 8), "float32")):
    T.func_attr({{"tir.noalias": True}})
    with T.block("root"):
        V = T.alloc_buffer((8, 8))
        for i, j in T.grid(8, 8):
            with T.block("V"):
                i, j = T.axis.remap("SS", [i, j])
                V[i, j] = {value}
        for i, j in T.grid(8, 8):
            with T.block("Y"):
                i, j = T.axis.remap("SS", [i, j])
                Y[i, j] = V[i, j] * T.float32(2)
""")
    assert with_permuted_constants(func, (0,)) is None
