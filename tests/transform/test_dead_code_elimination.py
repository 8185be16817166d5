"""DeadCodeElimination: what nobody uses goes, what anybody might notice stays."""

from __future__ import annotations

import pytest

import relax
from relax.ir import DiagnosticError
from relax.script import ir as I
from relax.script import relax as R
from relax.script import tir as T
from relax.transform import DeadCodeElimination


def test_unused_bindings_of_a_dataflow_block_go(check):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor(("n",), "float32")):
            with R.dataflow():
                lv0 = R.exp(x)
                lv1 = R.add(lv0, x)
                gv0 = R.negative(x)
                gv1 = R.exp(x)
                R.output(gv0, gv1)
            return gv0

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor(("n",), "float32")):
            with R.dataflow():
                gv0 = R.negative(x)
                R.output(gv0)
            return gv0

    check(DeadCodeElimination(), Before, Expected)


def test_a_block_of_nothing_used_disappears_and_its_neighbours_meet(check):
    @I.ir_module
    class Before:
        @R.function(pure=False)
        def main(x: R.Tensor((2,), "float32")):
            R.print(x)
            with R.dataflow():
                gv = R.exp(x)
                R.output(gv)
            R.print(x)
            return x

    @I.ir_module
    class Expected:
        @R.function(pure=False)
        def main(x: R.Tensor((2,), "float32")):
            R.print(x)
            R.print(x)
            return x

    after = check(DeadCodeElimination(), Before, Expected)
    assert len(after["main"].body.blocks) == 1


def test_what_an_impure_call_reads_is_produced(check):
    @I.ir_module
    class Before:
        @R.function(pure=False)
        def main(x: R.Tensor((2,), "float32")):
            with R.dataflow():
                lv = R.exp(x)
                gv = R.negative(lv)
                R.output(gv)
            t = (gv, x)
            R.call_packed("test.consume", t)
            return x

    check(DeadCodeElimination(), Before)


def test_outside_dataflow_what_may_fail_or_act_stays(check):
    @I.ir_module
    class Before:
        @R.function(pure=False)
        def main(
            x: R.Tensor((4,), "float32"),
            i: R.Tensor((2,), "int64"),
            c: R.Tensor((), "bool"),
            y: R.Tensor(dtype="float32"),
        ):
            quotient = R.divide(i, i)
            may_not_fit = R.add(x, y)
            taken = R.take(x, i, axis=0)
            cast = R.match_cast(x, R.Tensor((4,), "float32"))
            R.call_packed("test.effect", x)
            if c:
                a = R.take(x, i, axis=0)
                r = a
            else:
                r = R.zeros((2,), "float32")
            return x

    check(DeadCodeElimination(), Before)


def test_outside_dataflow_what_cannot_fail_goes(check):
    @I.ir_module
    class Before:
        @R.function(pure=False)
        def main(x: R.Tensor(("n", 4), "float32"), c: R.Tensor((), "bool")):
            n = T.int64()
            alias = x
            pair = (x, alias)
            first = pair[0]
            shape = R.shape([n, n * 2, n // 2])
            scalar = R.prim_value(3)
            number = R.const(1.0)
            computed = R.nn.relu(R.add(x, R.exp(x)))

            @R.function
            def unused(y: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
                return R.exp(y)

            if c:
                r = x
            else:
                with R.dataflow():
                    gv = R.exp(x)
                    R.output(gv)
                r = gv
            return x

    @I.ir_module
    class Expected:
        @R.function(pure=False)
        def main(x: R.Tensor(("n", 4), "float32"), c: R.Tensor((), "bool")):
            return x

    check(DeadCodeElimination(), Before, Expected)


def test_a_shape_that_may_be_negative_or_leave_64_bits_stays(check):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor(("n", "m"), "float32"), p: R.Prim("int64", value="k")):
            n = T.int64()
            m = T.int64()
            k = T.int64()
            negative = R.shape([n - 5])
            scalar = R.shape([k])
            great = R.shape([n * m])
            value = R.prim_value(k + 1)
            constant = R.shape([-1])
            unused = R.shape([T.max(n - 5, 0), n + m * 4, (n + 3) % 8 * 2])
            return x

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor(("n", "m"), "float32"), p: R.Prim("int64", value="k")):
            n = T.int64()
            m = T.int64()
            k = T.int64()
            negative = R.shape([n - 5])
            scalar = R.shape([k])
            great = R.shape([n * m])
            value = R.prim_value(k + 1)
            constant = R.shape([-1])
            return x

    check(DeadCodeElimination(), Before, Expected)


def test_a_shape_that_may_divide_by_zero_stays(check):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor(("n", "m"), "float32")):
            n = T.int64()
            m = T.int64()
            shape = R.shape([n // m])
            return x

    check(DeadCodeElimination(), Before)


def test_a_match_cast_is_used_when_a_dimension_it_binds_is(check):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor(ndim=1, dtype="float32"), y: R.Tensor(ndim=1, dtype="float32")):
            m = T.int64()
            k = T.int64()
            with R.dataflow():
                lv0 = R.match_cast(x, R.Tensor((m,), "float32"))
                lv1 = R.match_cast(y, R.Tensor((k,), "float32"))
                gv = R.zeros((m, 2), "float32")
                R.output(gv)
            return gv

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor(ndim=1, dtype="float32"), y: R.Tensor(ndim=1, dtype="float32")):
            m = T.int64()
            with R.dataflow():
                lv0 = R.match_cast(x, R.Tensor((m,), "float32"))
                gv = R.zeros((m, 2), "float32")
                R.output(gv)
            return gv

    check(DeadCodeElimination(), Before, Expected)


def test_branches_and_local_functions_are_swept(check):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((2,), "float32"), c: R.Tensor((), "bool")) -> R.Tensor((2,), "float32"):
            @R.function
            def inner(y: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
                with R.dataflow():
                    dead = R.exp(y)
                    gv = R.negative(y)
                    R.output(gv)
                return gv

            if c:
                with R.dataflow():
                    dead = R.exp(x)
                    gv1 = R.negative(x)
                    R.output(gv1)
                r = gv1
            else:
                r = inner(x)
            return r

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((2,), "float32"), c: R.Tensor((), "bool")) -> R.Tensor((2,), "float32"):
            @R.function
            def inner(y: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
                with R.dataflow():
                    gv = R.negative(y)
                    R.output(gv)
                return gv

            if c:
                with R.dataflow():
                    gv1 = R.negative(x)
                    R.output(gv1)
                r = gv1
            else:
                r = inner(x)
            return r

    check(DeadCodeElimination(), Before, Expected)


def test_unreachable_functions_go(check):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            cls = Before
            y = cls.used(x)
            with R.dataflow():
                gv = cls.unused(x)
                R.output(gv)
            return y

        @R.function(private=True)
        def used(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            return x

        @R.function(private=True)
        def unused(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            return x

    after = DeadCodeElimination()(Before)
    assert [g.name_hint for g in after] == ["main", "used"]
    assert DeadCodeElimination()(after) is after


def test_entry_functions_may_be_named():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((2,), "float32")):
            return x

        @R.function(private=True)
        def a(x: R.Tensor((2,), "float32")):
            return x

        @R.function(private=True)
        def b(x: R.Tensor((2,), "float32")):
            return x

    # A function with a global_symbol can be called from outside, named or not.
    assert [g.name_hint for g in DeadCodeElimination(["b"])(Before)] == ["main", "b"]
    assert [g.name_hint for g in DeadCodeElimination(["main"])(Before)] == ["main"]
    with pytest.raises(DiagnosticError, match="E4005.*entry function 'bb' is not in the module") as caught:
        DeadCodeElimination(["bb", "c"])(Before)
    assert len(caught.value.diagnostics) == 2
    assert "did you mean 'b'" in str(caught.value)


def test_a_long_chain_takes_time_linear_in_its_length():
    x = relax.Var("x", relax.TensorStructInfo((4,), "float32"))
    bb = relax.BlockBuilder()
    with bb.function("main", [x]):
        with bb.dataflow():
            y = x
            for _ in range(500):
                y = bb.emit(relax.op.exp(y))
            gv = bb.emit_output(relax.op.exp(x))
        bb.emit_func_output(gv)
    after = DeadCodeElimination()(bb.get())
    assert len(after["main"].body.blocks[0].bindings) == 1
