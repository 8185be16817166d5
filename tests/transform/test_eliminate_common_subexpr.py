"""EliminateCommonSubexpr: computed once, where nobody can tell."""

from __future__ import annotations

from relax.script import ir as I
from relax.script import relax as R
from relax.script import tir as T
from relax.transform import EliminateCommonSubexpr


def test_equal_calls_are_one(check):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor(("n", 4), "float32")):
            with R.dataflow():
                a = R.exp(x)
                b = R.exp(x)
                c = R.add(a, R.const(1.0, "float32"))
                d = R.add(b, R.const(1.0, "float32"))
                e = R.sum(c, axis=1)
                f = R.sum(d, axis=0)
                g = R.sum(d, axis=1)
                gv = (e, f, g)
                R.output(gv)
            return gv

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor(("n", 4), "float32")):
            with R.dataflow():
                a = R.exp(x)
                c = R.add(a, R.const(1.0, "float32"))
                e = R.sum(c, axis=1)
                f = R.sum(c, axis=0)
                g = R.sum(c, axis=1)
                gv = (e, f, g)
                R.output(gv)
            return gv

    check(EliminateCommonSubexpr(), Before, Expected)


def test_of_two_results_seen_outside_both_stay(check):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((4,), "float32")):
            with R.dataflow():
                gv = R.exp(x)
                gv1 = R.exp(x)
                R.output(gv, gv1)
            return (gv, gv1)

    check(EliminateCommonSubexpr(), Before)


def test_outside_of_dataflow_blocks(check):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor(("n", 4), "float32"), c: R.Tensor((), "bool")):
            a = R.exp(x)
            b = R.exp(x)
            if c:
                d = R.exp(x)
                r = R.add(d, b)
            else:
                e = R.negative(x)
                f = R.negative(x)
                r = R.add(e, f)
            with R.dataflow():
                g = R.exp(x)
                h = R.negative(x)
                gv = R.add(g, h)
                R.output(gv)
            return (R.add(gv, R.negative(x)), r)

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor(("n", 4), "float32"), c: R.Tensor((), "bool")):
            a = R.exp(x)
            if c:
                r = R.add(a, a)
            else:
                e = R.negative(x)
                r = R.add(e, e)
            with R.dataflow():
                h = R.negative(x)
                gv = R.add(a, h)
                R.output(gv)
            return (R.add(gv, R.negative(x)), r)

    check(EliminateCommonSubexpr(), Before, Expected)


def test_blocks_that_become_empty_are_dropped(check):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((4,), "float32"), c: R.Tensor((), "bool")):
            with R.dataflow():
                a = R.exp(x)
                gv = R.add(a, a)
                R.output(gv, a)
            b = R.exp(x)
            with R.dataflow():
                gv1 = R.add(b, gv)
                R.output(gv1)
            return gv1

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((4,), "float32"), c: R.Tensor((), "bool")):
            with R.dataflow():
                a = R.exp(x)
                gv = R.add(a, a)
                gv1 = R.add(a, gv)
                R.output(gv, a, gv1)
            return gv1

    check(EliminateCommonSubexpr(), Before, Expected)


def test_local_functions_are_walked_by_themselves(check):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((4,), "float32")):
            outer = R.exp(x)

            @R.function
            def inner(y: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
                a = R.exp(x)
                b = R.exp(x)
                c = R.add(y, y)
                d = R.add(y, y)
                return R.add(R.add(a, b), R.add(c, d))

            e = R.add(x, x)
            f = R.add(x, x)
            g = R.add(e, f)
            h = inner(g)
            i = R.add(x, x)
            return R.add(R.add(h, outer), i)

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((4,), "float32")):
            outer = R.exp(x)

            @R.function
            def inner(y: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
                a = R.exp(x)
                c = R.add(y, y)
                return R.add(R.add(a, a), R.add(c, c))

            e = R.add(x, x)
            g = R.add(e, e)
            h = inner(g)
            i = R.add(x, x)
            return R.add(R.add(h, outer), i)

    check(EliminateCommonSubexpr(), Before, Expected)


def test_nothing_is_kept_over_what_may_change_it(check):
    @I.ir_module
    class Before:
        @R.function(pure=False)
        def main(x: R.Tensor((4,), "float32"), c: R.Tensor((), "bool")):
            a = R.exp(x)
            R.call_packed("test.change", x)
            b = R.exp(x)
            if c:
                d = R.add(a, x)
                _ = R.call_packed("test.change", x)
                r = R.sum(d)
            else:
                e = R.add(b, x)
                r = R.sum(e)
            f = R.exp(x)
            g = R.add(b, x)
            return R.add(R.add(f, g), r)

    check(EliminateCommonSubexpr(), Before)


def test_what_may_be_changed_later_is_not_merged(check):
    @I.ir_module
    class Before:
        @R.function(pure=False)
        def main(x: R.Tensor((4,), "float32")):
            a = R.exp(x)
            b = R.exp(x)
            R.call_packed("test.change", a)
            return R.add(b, x)

    check(EliminateCommonSubexpr(), Before)


def test_of_two_results_that_leave_a_function_both_stay(check):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((4,), "float32"), c: R.Tensor((), "bool")) -> R.Object:
            a = R.exp(x)
            b = R.exp(x)
            d = R.negative(x)
            e = R.negative(x)
            if c:
                r = R.exp(x)
            else:
                r = a
            t = (b, d)

            @R.function
            def inner() -> R.Tensor((4,), "float32"):
                return e

            return (t, inner, r)

    check(EliminateCommonSubexpr(), Before)


def test_kernels_outside_of_dataflow_blocks_are_merged_and_allocations_are_not():
    @I.ir_module
    class Before:
        @T.prim_func(private=True)
        def f(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
            for i in range(4):
                with T.block("b"):
                    v = T.axis.spatial(4, i)
                    B[v] = A[v]

        @R.function
        def main(x: R.Tensor((4,), "float32")):
            cls = Before
            a = R.call_tir(cls.f, (x,), R.Tensor((4,), "float32"))
            b = R.call_tir(cls.f, (x,), R.Tensor((4,), "float32"))
            c = R.builtin.alloc_tensor(R.shape([4]), R.dtype("float32"), R.prim_value(0), R.str("global"))
            d = R.builtin.alloc_tensor(R.shape([4]), R.dtype("float32"), R.prim_value(0), R.str("global"))
            return R.add(R.add(a, b), R.add(c, d))

    text = EliminateCommonSubexpr()(Before).script()
    assert text.count("R.call_tir(") == 1
    assert text.count("alloc_tensor(") == 2


def test_one_result_seen_outside_may_be_read_inside(check):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((4,), "float32")):
            with R.dataflow():
                a = R.exp(x)
                gv = R.exp(x)
                gv1 = R.exp(x)
                gv2 = R.add(a, gv1)
                R.output(gv, gv1, gv2)
            return (gv, gv1, gv2)

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((4,), "float32")):
            with R.dataflow():
                a = R.exp(x)
                gv = a
                gv1 = R.exp(x)
                gv2 = R.add(a, gv1)
                R.output(gv, gv1, gv2)
            return (gv, gv1, gv2)

    check(EliminateCommonSubexpr(), Before, Expected)


def test_kernels_and_fields(check):
    @I.ir_module
    class Before:
        @T.prim_func(private=True)
        def f(A: T.Buffer((4,), "float32"), B: T.Buffer((2,), "float32"), C: T.Buffer((2,), "float32")):
            for i in range(2):
                with T.block("b"):
                    v = T.axis.spatial(2, i)
                    B[v] = A[v]
                    C[v] = A[v + 2]

        @R.function
        def main(x: R.Tensor((4,), "float32")):
            cls = Before
            with R.dataflow():
                a = R.call_tir(cls.f, (x,), [R.Tensor((2,), "float32"), R.Tensor((2,), "float32")])
                b = R.call_tir(cls.f, (x,), [R.Tensor((2,), "float32"), R.Tensor((2,), "float32")])
                a0 = a[0]
                b0 = b[0]
                gv = R.add(a0, b0)
                R.output(gv)
            return gv

    @I.ir_module
    class Expected:
        @T.prim_func(private=True)
        def f(A: T.Buffer((4,), "float32"), B: T.Buffer((2,), "float32"), C: T.Buffer((2,), "float32")):
            for i in range(2):
                with T.block("b"):
                    v = T.axis.spatial(2, i)
                    B[v] = A[v]
                    C[v] = A[v + 2]

        @R.function
        def main(x: R.Tensor((4,), "float32")):
            cls = Expected
            with R.dataflow():
                a = R.call_tir(cls.f, (x,), [R.Tensor((2,), "float32"), R.Tensor((2,), "float32")])
                a0 = a[0]
                gv = R.add(a0, a0)
                R.output(gv)
            return gv

    check(EliminateCommonSubexpr(), Before, Expected)
    text = EliminateCommonSubexpr(call_only=True)(Before).script()
    assert text.count("R.call_tir(") == 1
    assert text.count("a[0]") == 2


def test_what_is_left_alone(check):
    @I.ir_module
    class Before:
        @T.prim_func(private=True)
        def double(A: T.Buffer((4,), "float32")):
            for i in range(4):
                with T.block("b"):
                    v = T.axis.spatial(4, i)
                    A[v] = A[v] * T.float32(2)

        @R.function
        def main(x: R.Tensor((4,), "float32")):
            outside = R.exp(x)
            again = R.exp(x)
            with R.dataflow():
                a = R.builtin.alloc_tensor(R.shape([4]), R.dtype("float32"), R.prim_value(0), R.str("global"))
                b = R.builtin.alloc_tensor(R.shape([4]), R.dtype("float32"), R.prim_value(0), R.str("global"))
                c = R.call_pure_packed("test.f", x, sinfo_args=R.Tensor((4,), "float32"))
                d = R.call_pure_packed("test.f", x, sinfo_args=R.Tensor((4,), "float32"))
                e = R.add(R.add(a, b), R.add(c, d))
                gv = R.add(e, R.add(outside, again))
                R.output(gv)
            with R.dataflow():
                f = R.exp(x)
                g = R.exp(x)
                h = R.call_tir_inplace(Before.double, (f,), [0], R.Tensor((4,), "float32"))
                gv1 = R.add(g, h)
                R.output(gv1)
            return (gv, gv1, outside, again)

    check(EliminateCommonSubexpr(), Before)
