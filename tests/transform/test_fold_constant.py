"""FoldConstant: what depends on constants only is computed, exactly or not at all."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from relax.ir import IRModule
from relax.script import ir as I
from relax.script import relax as R
from relax.script import tir as T
from relax.transform import FoldConstant
from relax.transform.fold_constant import set_kernel_evaluator


def function_of(*make):
    """A function that returns what each of some builders of an expression makes."""
    bb = relax.BlockBuilder()
    with bb.function("main", []):
        with bb.dataflow():
            outs = [bb.emit_output(one()) for one in make]
        bb.emit_func_output(outs[0] if len(outs) == 1 else relax.Tuple(outs))
    return bb.get()


def folded(*make):
    """What the outputs of such a function are after folding: arrays, or None where a call is left."""
    after = FoldConstant()(function_of(*make))
    assert FoldConstant()(after) is after
    relax.analysis.assert_well_formed(after)
    values = {b.var: b.value for b in after["main"].body.blocks[-1].bindings}
    body = after["main"].body.body
    outs = body.fields if isinstance(body, relax.Tuple) else [body]
    found = [values[out] for out in outs]
    return [v.data if isinstance(v, relax.Constant) else None for v in found]


def const(value, dtype="float32"):
    return relax.const(np.asarray(value).astype(dtype))


@pytest.mark.parametrize("dtype", ["int8", "uint64", "float16", "bfloat16", "float32", "float64", "bool"])
def test_moves_of_every_dtype(dtype):
    data = np.arange(6).reshape(2, 3)
    (moved,) = folded(lambda: relax.op.permute_dims(relax.const(data, dtype)))
    assert moved.dtype.name == dtype
    assert np.array_equal(moved, relax.const(data.T, dtype).data)


def test_chains_and_tuples():
    x = const([1.0, -2.0, 3.0, 4.0])

    def chain():
        parts = relax.op.split(relax.op.multiply(x, x), 2)
        return relax.op.concat([relax.TupleGetItem(parts, 1), relax.TupleGetItem(parts, 0)])

    (result,) = folded(chain)
    assert result.tolist() == [9.0, 16.0, 1.0, 4.0]


def test_sizes_zero_and_one():
    assert folded(lambda: relax.op.add(const(np.zeros((0, 3))), const([1.0, 2.0, 3.0])))[0].shape == (0, 3)
    assert folded(lambda: relax.op.add(const(1.0), const(2.0)))[0].shape == ()


def test_special_values():
    nan_inf = const([np.inf, -np.inf, np.nan, -0.0])
    (product, negative) = folded(
        lambda: relax.op.multiply(nan_inf, const(0.0)), lambda: relax.op.negative(nan_inf)
    )
    assert np.isnan(product[:3]).all()
    assert np.signbit(product[3])
    assert negative[3] == 0
    assert not np.signbit(negative[3])


def test_integers_wrap_around():
    assert folded(lambda: relax.op.add(const([127], "int8"), const([1], "int8")))[0].tolist() == [-128]
    assert folded(lambda: relax.op.sum(const([100, 100], "int32")))[0] == 200


def test_inexact_operations_are_left():
    assert (
        folded(
            lambda: relax.op.exp(const([1.0])),
            lambda: relax.op.sum(const([1.0, 2.0])),
            lambda: relax.op.matmul(const([[1.0]]), const([[1.0]])),
            lambda: relax.op.add(const([1.0], "float16"), const([1.0], "float16")),
        )
        == [None] * 4
    )


def test_errors_are_left_to_run_time():
    assert (
        folded(
            lambda: relax.op.divide(const([1, 2], "int32"), const([1, 0], "int32")),
            lambda: relax.op.floor_mod(const([1, 2], "int32"), const([1, 0], "int32")),
            lambda: relax.op.take(const([1.0]), const([3], "int64"), axis=0),
        )
        == [None] * 3
    )


def test_large_results_are_left():
    assert folded(lambda: relax.op.zeros((1 << 20,), "float32")) == [None]
    assert folded(lambda: relax.op.zeros((1 << 18,), "float32"))[0].nbytes == 1 << 20
    big = const(np.ones((1 << 10, 1 << 9)), "float32")
    assert folded(lambda: relax.op.permute_dims(big))[0].shape == (1 << 9, 1 << 10)


def test_shapes_that_are_known(check):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor(("n", 4), "float32"), y: R.Tensor(ndim=2, dtype="float32")):
            s = R.shape_of(x)
            t = R.shape_of(y)
            u = R.tensor_to_shape(R.const([2, 3], "int64"))
            return (s, t, u)

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor(("n", 4), "float32"), y: R.Tensor(ndim=2, dtype="float32")) -> R.Tuple(
            R.Shape(["n", 4]), R.Shape(ndim=2), R.Shape(ndim=2)
        ):
            n = T.int64()
            s = R.shape([n, 4])
            t = R.shape_of(y)
            u: R.Shape(ndim=2) = R.shape([2, 3])
            return (s, t, u)

    check(FoldConstant(), Before, Expected)


def test_a_constant_somebody_may_change_is_not_taken_for_itself(check):
    @I.ir_module
    class Before:
        @R.function(pure=False)
        def main():
            c = R.const([1.0, 2.0], "float32")
            R.call_packed("test.change", c)
            d = R.add(c, c)
            with R.dataflow():
                e = R.add(c, c)
                R.output(e)
            return (d, e)

    check(FoldConstant(), Before)


def test_a_constant_a_closure_may_change_is_not_taken_for_itself(check):
    @I.ir_module
    class Before:
        @R.function
        def main() -> R.Object:
            c = R.const([1.0, 2.0], "float32")

            @R.function(pure=False)
            def change() -> R.Tensor((2,), "float32"):
                R.call_packed("test.change", c)
                return R.add(c, c)

            return change

    check(FoldConstant(), Before)


def test_inside_one_dataflow_block_nobody_changes_anything():
    @I.ir_module
    class Before:
        @R.function(pure=False)
        def main(x: R.Tensor((2,), "float32")):
            with R.dataflow():
                c = R.const([1.0, 2.0], "float32")
                d = R.add(c, c)
                e = R.add(d, x)
                R.output(e)
            R.call_packed("test.change", e)
            return e

    after = FoldConstant()(Before)
    (c, d, e) = after["main"].body.blocks[0].bindings
    assert d.value.data.tolist() == [2.0, 4.0]
    assert isinstance(e.value, relax.Call)


def test_branches_and_local_functions():
    @I.ir_module
    class Before:
        @R.function
        def main(c: R.Tensor((), "bool")) -> R.Tensor((2,), "float32"):
            @R.function
            def inner() -> R.Tensor((2,), "float32"):
                return R.add(R.const([1.0, 2.0], "float32"), R.const([1.0, 2.0], "float32"))

            if c:
                r = R.negative(R.const([1.0, 2.0], "float32"))
            else:
                r = inner()
            return r

    after = FoldConstant()(Before)
    relax.analysis.assert_well_formed(after)
    assert "R.add" not in after.script()
    assert "R.negative" not in after.script()


def test_nothing_to_fold(check):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((2,), "float32")):
            return R.add(x, R.const([1.0, 2.0], "float32"))

    check(FoldConstant(), Before)


class TestKernelEvaluator:
    """With something that runs kernels, the rest is folded by them."""

    @pytest.fixture(autouse=True)
    def evaluator(self):
        seen = []

        def run(func, inputs, outputs):
            seen.append(func)
            return [np.full([int(d) for d in o.dims], 7, o.dtype.numpy()) for o in outputs]

        set_kernel_evaluator(run)
        yield seen
        set_kernel_evaluator(None)

    def test_operators(self, evaluator):
        assert folded(lambda: relax.op.exp(const([1.0, 2.0])))[0].tolist() == [7.0, 7.0]
        assert len(evaluator) >= 1

    def test_call_tir(self, evaluator):
        @I.ir_module
        class Before:
            @R.function
            def main() -> R.Tensor((2,), "float32"):
                c = R.call_tir(Before.f, (R.const([1.0, 2.0], "float32"),), R.Tensor((2,), "float32"))
                return c

            @T.prim_func(private=True)
            def f(A: T.Buffer((2,), "float32"), B: T.Buffer((2,), "float32")):
                for i in range(2):
                    with T.block("b"):
                        v = T.axis.spatial(2, i)
                        B[v] = A[v]

        after = FoldConstant()(Before)
        assert isinstance(after, IRModule)
        assert after["main"].body.blocks[0].bindings[0].value.data.tolist() == [7.0, 7.0]


@pytest.mark.parametrize("operand", ['R.dtype("int8")', 'R.str("a")'])
@pytest.mark.parametrize("operator", ["argmin", "abs", "sum"])
def test_what_is_no_tensor_is_not_folded(operator, operand):
    """It may be one for all that is known of it; what it is not is told by who runs it."""
    mod = relax.script.from_source(
        f"@R.function\ndef main(x: R.Object) -> R.Object:\n    y = R.{operator}({operand})\n    return y\n"
    )
    mod = relax.IRModule({"main": mod})
    assert FoldConstant()(mod) is mod
