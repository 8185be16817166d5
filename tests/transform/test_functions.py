"""Passes over the functions of a module: RemoveUnusedFunctions, Normalize, RemovePurityChecking."""

from __future__ import annotations

import pytest

import relax
from relax.ir import DiagnosticError, GlobalVar, IRModule
from relax.script import ir as I
from relax.script import relax as R
from relax.script import tir as T
from relax.transform import Normalize, RemovePurityChecking, RemoveUnusedFunctions


@I.ir_module
class Functions:
    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        cls = Functions
        y = cls.called(x)
        z = R.call_tir(cls.kernel, (y,), R.Tensor((4,), "float32"))
        return z

    @R.function(private=True)
    def called(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        cls = Functions
        f = cls.passed
        y = R.call_pure_packed("test.apply", f, x, sinfo_args=R.Tensor((4,), "float32"))
        return y

    @R.function(private=True)
    def passed(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        return x

    @R.function(private=True)
    def even(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        cls = Functions
        return cls.odd(x)

    @R.function(private=True)
    def odd(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        cls = Functions
        return cls.even(x)

    @R.function
    def other(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        return x

    @T.prim_func(private=True)
    def kernel(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.block("b"):
                v = T.axis.spatial(4, i)
                B[v] = A[v]

    @T.prim_func(private=True)
    def idle(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.block("b"):
                v = T.axis.spatial(4, i)
                B[v] = A[v]


def names(mod):
    return [g.name_hint for g in mod]


def test_what_entry_points_reach_stays(check):
    step = RemoveUnusedFunctions()
    after = step(Functions)
    assert names(after) == ["main", "called", "passed", "other", "kernel"]
    assert step(after) is after


def test_named_entry_points():
    assert names(RemoveUnusedFunctions(["called"])(Functions)) == ["called", "passed"]
    assert names(RemoveUnusedFunctions(entry_functions=["even"])(Functions)) == ["even", "odd"]
    with pytest.raises(DiagnosticError, match="E4005.*'mane' is not in the module"):
        RemoveUnusedFunctions(["mane"])(Functions)


def test_a_module_of_private_functions_is_left_alone(check):
    private = Functions.without(["main", "other"])
    check(RemoveUnusedFunctions(), private)


def test_a_prim_func_named_as_a_packed_function_stays():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((4,), "float32")):
            y = R.call_dps_packed("kernel", (x,), R.Tensor((4,), "float32"))
            return y

        @T.prim_func
        def kernel(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
            for i in range(4):
                with T.block("b"):
                    v = T.axis.spatial(4, i)
                    B[v] = A[v]

    assert RemoveUnusedFunctions(["main"])(Before) is Before


def test_normalize_binds_nested_expressions_in_order(check):
    x = relax.Var("x", relax.TensorStructInfo((4,), "float32"))
    nested = relax.op.add(relax.op.exp(x), relax.op.negative(x))
    main = relax.Function([x], nested, None, attrs={"global_symbol": "main"})
    before = IRModule({GlobalVar("main"): main})

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((4,), "float32")):
            lv = R.exp(x)
            lv1 = R.negative(x)
            gv = R.add(lv, lv1)
            return gv

    check(Normalize(), before, Expected)


def test_purity_is_no_longer_checked(check):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            @R.function
            def inner(a: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
                b = R.call_pure_packed("test.f", a, sinfo_args=R.Tensor((4,), "float32"))
                return b

            y = R.call_pure_packed("test.f", x, sinfo_args=R.Tensor((4,), "float32"))
            z = inner(y)
            return z

        @R.function(pure=False)
        def impure(x: R.Tensor((4,), "float32")):
            R.print(x)
            return x

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            R.func_attr({"relax.force_pure": True})

            @R.function
            def inner(a: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
                R.func_attr({"relax.force_pure": True})
                b = R.call_packed("test.f", a, sinfo_args=R.Tensor((4,), "float32"))
                return b

            y = R.call_packed("test.f", x, sinfo_args=R.Tensor((4,), "float32"))
            z = inner(y)
            return z

        @R.function(pure=False)
        def impure(x: R.Tensor((4,), "float32")):
            R.print(x)
            return x

    check(RemovePurityChecking(), Before, Expected)


def test_purity_of_dataflow_blocks_stays(check):
    @I.ir_module
    class Before:
        @R.function(pure=False)
        def main(x: R.Tensor((4,), "float32")):
            with R.dataflow():
                y = R.call_pure_packed("test.f", x, sinfo_args=R.Tensor((4,), "float32"))
                R.output(y)
            return y

    check(RemovePurityChecking(), Before)
