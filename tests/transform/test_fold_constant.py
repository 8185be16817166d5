"""FoldConstant: what depends on constants only is computed, exactly or not at all."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from relax.codegen import CompiledKernels, executes, resolve
from relax.script import ir as I
from relax.script import relax as R
from relax.script import tir as T
from relax.transform import FoldConstant, PassContext
from relax.transform.fold_constant import EVALUATE


def function_of(*make):
    """A function that returns what each of some builders of an expression makes."""
    bb = relax.BlockBuilder()
    with bb.function("main", []):
        with bb.dataflow():
            outs = [bb.emit_output(one()) for one in make]
        bb.emit_func_output(outs[0] if len(outs) == 1 else relax.Tuple(outs))
    return bb.get()


def folded(*make, evaluate=None):
    """What the outputs of such a function are after folding: arrays, or None where a call is left."""
    after = FoldConstant(evaluate)(function_of(*make))
    assert FoldConstant(evaluate)(after) is after
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
    (product, negative) = folded(lambda: relax.op.multiply(nan_inf, const(0.0)), lambda: relax.op.negative(nan_inf))
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
        )
        == [None] * 3
    )


def test_exact_kernels_are_interpreted():
    narrow = lambda *values: const(values, "float16")  # noqa: E731
    whole = const([[1, 2], [3, 4]], "int32")
    assert [
        result.tolist()
        for result in folded(
            lambda: relax.op.add(narrow(1.0), narrow(2.0**-11)),
            lambda: relax.op.matmul(whole, whole),
            lambda: relax.op.sqrt(narrow(4.0)),
            lambda: relax.op.round(const([0.5, 1.5])),
        )
    ] == [[1.0], [[7, 10], [15, 22]], [2.0], [0.0, 2.0]]


def test_much_work_is_not_interpreted():
    wide = const(np.ones((64, 64)), "int32")
    assert folded(lambda: relax.op.matmul(wide, wide)) == [None]
    assert folded(lambda: relax.op.matmul(wide, wide), evaluate=CompiledKernels())[0][0, 0] == 64


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


def test_small_results_of_large_ones():
    """Sums of integers that are converted to wider ones first; sums of floats have no exact reference."""
    numbers = np.random.default_rng(0).integers(-128, 128, (1 << 10, 1 << 9))

    def summed(dtype):
        builder = relax.BlockBuilder()
        with builder.function("main", []):
            with builder.dataflow():
                wide = builder.emit(relax.op.astype(const(numbers, "int8"), dtype))
                result = builder.emit_output(relax.op.sum(wide, axis=0))
            builder.emit_func_output(result)
        bindings = FoldConstant()(builder.get())["main"].body.blocks[-1].bindings
        return bindings[-1].value

    assert np.array_equal(summed("int32").data, numbers.sum(0))
    assert not isinstance(summed("float32"), relax.Constant)


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
    (e,) = after["main"].body.blocks[0].bindings
    assert e.value.args[0].data.tolist() == [2.0, 4.0]


def test_a_constant_that_is_only_read_becomes_an_operand(check):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor(("n", 2), "float32")):
            with R.dataflow():
                w = R.const([[1.0, 2.0], [3.0, 4.0]], "float32")
                t = R.permute_dims(w)
                kept = R.const([1.0, 2.0], "float32")
                y = R.matmul(x, t)
                R.output(y, kept)
            return (y, kept)

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor(("n", 2), "float32")):
            with R.dataflow():
                kept = R.const([1.0, 2.0], "float32")
                y = R.matmul(x, R.const([[1.0, 3.0], [2.0, 4.0]], "float32"))
                R.output(y, kept)
            return (y, kept)

    check(FoldConstant(), Before, Expected)


def test_a_constant_that_is_only_read_outside_of_dataflow_blocks(check):
    """It becomes an operand, unless it is a result, or another name of it is."""

    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor(("n", 2), "float32")):
            t = R.permute_dims(R.const([[1.0, 2.0], [3.0, 4.0]], "float32"))
            kept = R.const([1.0, 2.0], "float32")
            view = R.const([3.0, 4.0], "float32")
            y = R.add(R.matmul(x, t), kept)
            z = R.add(y, view)
            other = view
            return (z, kept, other)

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor(("n", 2), "float32")):
            kept = R.const([1.0, 2.0], "float32")
            view = R.const([3.0, 4.0], "float32")
            gv = R.matmul(x, R.const([[1.0, 3.0], [2.0, 4.0]], "float32"))
            y = R.add(gv, kept)
            z = R.add(y, view)
            other = view
            return (z, kept, other)

    check(FoldConstant(), Before, Expected)


def test_a_constant_that_a_packed_function_may_change_stays(check):
    @I.ir_module
    class Before:
        @R.function(pure=False)
        def main(x: R.Tensor(("n", 2), "float32")):
            t = R.const([1.0, 2.0], "float32")
            _ = R.call_packed("change", t, sinfo_args=())
            y = R.add(x, t)
            return y

    check(FoldConstant(), Before, Before)


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


def test_compiled_kernels_fold_every_pure_operator():
    x = np.array([[0.5, -2.0], [3.25, 88.0]], "float32")
    makes = (
        lambda: relax.op.exp(relax.const(x)),
        lambda: relax.op.matmul(relax.const(x), relax.const(x)),
        lambda: relax.op.nn.softmax(relax.const(x)),
        lambda: relax.op.sum(relax.const(x, "bfloat16")),
    )
    mod = function_of(*makes)
    ran = relax.build(mod, "llvm", pipeline=relax.get_pipeline("lower"))
    assert len(ran.kernels) == 4
    expected = relax.VirtualMachine(ran, relax.cpu())["main"]()
    results = folded(*makes, evaluate=CompiledKernels())
    for result, value in zip(results, expected, strict=True):
        assert result.tobytes() == value.numpy().tobytes()


def test_build_folds_by_compiled_kernels():
    mod = function_of(lambda: relax.op.exp(relax.op.add(const([1.0, 2.0]), const([1.0, 1.0]))))
    executable = relax.build(mod, "llvm")
    assert not executable.kernels
    result = relax.VirtualMachine(executable, relax.cpu())["main"]()
    np.testing.assert_allclose(result.numpy(), np.exp([2.0, 3.0]), rtol=1e-6)
    with PassContext(config={EVALUATE: None}) as context:
        assert relax.build(mod, "llvm").kernels
    assert context.config == {EVALUATE: None}


def test_build_leaves_the_context_as_it_was():
    with PassContext() as context:
        assert not relax.build(function_of(lambda: relax.op.exp(const([1.0]))), "llvm").kernels
    assert context.config == {}


def test_code_for_another_machine_is_not_run():
    other = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76"
    assert not executes(resolve(other))
    assert executes(resolve("llvm"))
    mod = function_of(lambda: relax.op.exp(const([1.0])))
    assert relax.build(mod, other).kernels


class TestCallTIR:
    """A call_tir of constants."""

    def test_is_folded(self):
        @I.ir_module
        class Before:
            @R.function
            def main() -> R.Tensor((2, 3), "float32"):
                c = R.call_tir(
                    Before.addone, (R.const([[1, 2, 3], [4, 5, 6]], "float32"),), R.Tensor((2, 3), "float32")
                )
                return c

            @T.prim_func(private=True)
            def addone(a: T.handle, b: T.handle):
                n, m = T.int32(), T.int32()
                A = T.match_buffer(a, (n, m))
                B = T.match_buffer(b, (n, m))
                for i, j in T.grid(n, m):
                    with T.block("addone"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        B[vi, vj] = A[vi, vj] + T.float32(1)

        after = FoldConstant()(Before)
        assert after["main"].body.blocks[0].bindings[0].value.data.tolist() == [[2, 3, 4], [5, 6, 7]]
        relax.analysis.assert_well_formed(after)

    def test_of_several_results_and_a_size(self):
        @I.ir_module
        class Before:
            @R.function
            def main() -> R.Tuple(R.Tensor((2,), "int64"), R.Tensor((2,), "int64")):
                c = R.call_tir(
                    Before.f,
                    (R.const([1, 2], "int64"),),
                    [R.Tensor((2,), "int64"), R.Tensor((2,), "int64")],
                    tir_vars=R.shape([7]),
                )
                return c

            @T.prim_func(private=True)
            def f(A: T.Buffer((2,), "int64"), n: T.int64, B: T.Buffer((2,), "int64"), C: T.Buffer((2,), "int64")):
                for i in range(2):
                    with T.block("b"):
                        v = T.axis.spatial(2, i)
                        B[v] = A[v] + n
                        C[v] = A[v] * n

        for evaluate in (None, CompiledKernels()):
            after = FoldConstant(evaluate)(Before)
            result = after["main"].body.blocks[0].bindings[0].value
            assert [field.data.tolist() for field in result.fields] == [[8, 9], [7, 14]]

    @pytest.mark.parametrize(
        "body",
        [
            "B[0] = T.exp(A[0])",
            "B[0] = A[0]\n        B[0] = B[0] + A[1]",
            'T.evaluate(T.call_packed("test.f", A[0]))',
            "for i in range(T.Cast('int64', A[0])):\n            B[0] = A[0]",
            "for i in range(1 << 40):\n            B[0] = A[0]",
            'C = T.alloc_buffer((1 << 40,), "float32")\n        B[0] = A[0]',
            "while A[0] > T.float32(0):\n            B[0] = A[0]",
            "B[0] = A[2 + T.Cast('int32', A[1])]",
        ],
    )
    def test_is_left_if_it_is_inexact_or_long_or_fails_or_does_more(self, body):
        text = f"""
@I.ir_module
class M:
    @T.prim_func(private=True)
    def f(A: T.Buffer((2,), "float32"), B: T.Buffer((1,), "float32")):
        {body}

    @R.function
    def main() -> R.Tensor((1,), "float32"):
        return R.call_tir(M.f, (R.const([1.0, 2.0], "float32"),), R.Tensor((1,), "float32"))
"""
        mod = relax.script.from_source(text)
        assert FoldConstant()(mod) is mod
        if "exp" not in body and "B[0] + " not in body:
            assert FoldConstant(CompiledKernels())(mod) is mod


@pytest.mark.parametrize("operand", ['R.dtype("int8")', 'R.str("a")'])
@pytest.mark.parametrize("operator", ["argmin", "abs", "sum"])
def test_what_is_no_tensor_is_not_folded(operator, operand):
    """It may be one for all that is known of it; what it is not is told by who runs it."""
    mod = relax.script.from_source(
        f"@R.function\ndef main(x: R.Object) -> R.Object:\n    y = R.{operator}({operand})\n    return y\n"
    )
    mod = relax.IRModule({"main": mod})
    assert FoldConstant()(mod) is mod


def test_tuples_that_share_their_fields_are_taken_apart_once():
    bb = relax.BlockBuilder()
    with bb.function("main", []):
        value = bb.emit(relax.const(1.0))
        for _ in range(64):
            value = bb.emit(relax.Tuple([value, value]))
        bb.emit_func_output(value)
    mod = bb.get()
    assert FoldConstant()(mod) is mod
