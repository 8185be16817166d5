"""BindParams and BindSymbolicVars: values for parameters, sizes for dimensions."""

from __future__ import annotations

import re

import numpy as np
import pytest

import relax
from relax.ir import DiagnosticError
from relax.script import from_source
from relax.script import ir as I
from relax.script import relax as R
from relax.script import tir as T
from relax.transform import BindParams, BindSymbolicVars
from support import PLAIN_LOOPS


@I.ir_module
class Linear:
    @R.function
    def main(
        x: R.Tensor(("b", "n"), "float32"), w: R.Tensor(("n", "m"), "float32"), y: R.Tensor(ndim=1, dtype="float32")
    ) -> R.Tensor(("b", "m"), "float32"):
        b = T.int64()
        n = T.int64()
        m = T.int64()
        with R.dataflow():
            z = R.match_cast(y, R.Tensor((m,), "float32"))
            h = R.matmul(x, w)
            s = R.reshape(h, R.shape([b, m]))
            gv = R.add(s, z)
            R.output(gv)
        return gv


def problems(step, mod):
    with pytest.raises(DiagnosticError) as caught:
        step(mod)
    return [f"{d.code} {d.message}" for d in caught.value.diagnostics]


def test_a_parameter_becomes_a_constant_and_its_sizes_are_known_everywhere(check):
    w = np.arange(12, dtype="float32").reshape(4, 3)

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor(("b", 4), "float32"), y: R.Tensor(ndim=1, dtype="float32")) -> R.Tensor(
            ("b", 3), "float32"
        ):
            b = T.int64()
            with R.dataflow():
                z = R.match_cast(y, R.Tensor((3,), "float32"))
                h = R.matmul(x, R.const(w))
                s = R.reshape(h, R.shape([b, 3]))
                gv = R.add(s, z)
                R.output(gv)
            return gv

    for key in ("w", Linear["main"].params[1]):
        after = BindParams("main", {key: w})(Linear)
        relax.ir.assert_structural_equal(after, Expected)
        relax.analysis.assert_well_formed(after)


def test_values_of_every_kind():
    @I.ir_module
    class Before:
        @R.function
        def main(
            a: R.Tensor((), "float16"), s: R.Shape(["n"]), p: R.Prim("int64"), o: R.Object,
            t: R.Tuple(R.Tensor((2,), "float32"), R.Prim("int64")),
        ):  # fmt: skip
            n = T.int64()
            return (a, s, p, o, t, R.zeros((n,), "float32"))

    after = BindParams(
        "main",
        {
            "a": np.float16(1.5),
            "s": relax.ShapeExpr([5]),
            "p": 3,
            "o": "text",
            "t": (relax.nd.array(np.ones(2, "float32")), 4),
        },
    )(Before)
    assert after["main"].params == ()
    assert "R.zeros((5,)" in after.script() or "R.zeros(R.shape([5])" in after.script()


def test_what_only_run_time_knows_is_checked_there(check):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor(("n",), "float32"), w: R.Tensor(("n * 2",), "float32")):
            return (x, w)

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor(("n",), "float32")):
            n = T.int64()
            w = R.match_cast(R.const(np.ones(6, "float32")), R.Tensor((n * 2,), "float32"))
            return (x, w)

    after = BindParams("main", {"w": np.ones(6, "float32")})(Before)
    relax.ir.assert_structural_equal(after, Expected)


def test_everything_wrong_is_reported_at_once():
    step = BindParams(
        "main", {"ww": np.ones(1, "float32"), "x": np.ones((2, 3), "float64"), "w": np.ones((4, 5, 6), "float32")}
    )
    found = problems(step, Linear)
    assert found == [
        "E4003 BindParams: no parameter is called 'ww'",
        "E4003 BindParams: the value of x does not fit: dtype: expected float32, found float64",
        "E4003 BindParams: the value of w does not fit: rank: expected 2, found 3",
    ]
    with pytest.raises(DiagnosticError, match="did you mean 'w'"):
        step(Linear)
    assert problems(BindParams("mane", {}), Linear) == ["E4003 BindParams: 'mane' is not in the module"]


def test_two_values_that_disagree():
    found = problems(BindParams("main", {"x": np.ones((2, 3), "float32"), "w": np.ones((4, 5), "float32")}), Linear)
    assert found == ["E4003 BindParams: the value of w does not fit: dimension 0: expected 3, found 4"]


def test_a_function_others_call_keeps_its_signature():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            cls = Before
            return cls.inner(x)

        @R.function(private=True)
        def inner(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            return x

    found = problems(BindParams("inner", {"x": np.ones(4, "float32")}), Before)
    assert found == ["E4003 BindParams: inner is called by main, which pass all its parameters"]


def test_nothing_to_bind(check):
    check(BindParams("main", {}), Linear)


def test_a_size_is_replaced_everywhere(check):
    @I.ir_module
    class Expected:
        @R.function
        def main(
            x: R.Tensor(("b", 4), "float32"), w: R.Tensor((4, 8), "float32"), y: R.Tensor(ndim=1, dtype="float32")
        ) -> R.Tensor(("b", 8), "float32"):
            b = T.int64()
            with R.dataflow():
                z = R.match_cast(y, R.Tensor((8,), "float32"))
                h = R.matmul(x, w)
                s = R.reshape(h, R.shape([b, 8]))
                gv = R.add(s, z)
                R.output(gv)
            return gv

    n, m = (v for v in relax.analysis.defined_symbolic_vars(Linear["main"]) if v.name in ("n", "m"))
    for binding in ({"n": 4, "m": 8}, {n: 4, "m": np.int64(8)}, {n: 4, m: relax.tir.IntImm("int64", 8)}):
        after = BindSymbolicVars(binding)(Linear)
        relax.ir.assert_structural_equal(after, Expected)
        relax.analysis.assert_well_formed(after)


def test_one_variable_by_another():
    b, n, m = relax.analysis.defined_symbolic_vars(Linear["main"])
    after = BindSymbolicVars({"m": n * 2})(Linear)
    assert 'w: R.Tensor(("n", "n * 2")' in after.script()


def test_one_function_or_all_that_have_it():
    @I.ir_module
    class Before:
        @R.function
        def a(x: R.Tensor(("n",), "float32")):
            return x

        @R.function
        def b(x: R.Tensor(("n",), "float32")):
            return x

        @R.function
        def c(x: R.Tensor((1,), "float32")):
            return x

    one = BindSymbolicVars({"n": 3}, "a")(Before)
    assert one["b"] is Before["b"]
    assert one["a"] is not Before["a"]
    both = BindSymbolicVars({"n": 3})(Before)
    assert both["b"] is not Before["b"]
    assert both["c"] is Before["c"]


def test_wrong_bindings_are_reported_at_once():
    found = problems(BindSymbolicVars({"n": -1, "k": 3, "b": "four"}), Linear)
    assert found == [
        "E4004 BindSymbolicVars: 'n' cannot be -1",
        "E4004 BindSymbolicVars: 'b' cannot be 'four'",
        "E4004 BindSymbolicVars: the signatures of the module have no shape variable 'k'",
    ]
    assert problems(BindSymbolicVars({"k": 3}, func_name="main"), Linear) == [
        "E4004 BindSymbolicVars: main has no shape variable 'k'"
    ]


@pytest.mark.parametrize("in_a_branch", [True, False])
def test_a_value_that_makes_a_size_negative(in_a_branch):
    """Also in a branch: an annotation says what a tensor is, whether or not it is ever made."""
    branch = """
        if c:
            y = R.zeros((n - 1,), "float32")
        else:
            y = R.zeros((n - 2,), "float32")
"""
    mod = from_source(f"""
from relax.script import ir as I, relax as R, tir as T

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n",), "float32"), c: R.Tensor((), "bool")) -> R.Tensor(ndim=1, dtype="float32"):
        n = T.int64()
        {branch if in_a_branch else 'y = R.zeros((n - 2,), "float32")'}
        return y
""")
    assert BindSymbolicVars({"n": 2})(mod)["main"].params[0].struct_info.shape[0].value == 2
    (message,) = problems(BindSymbolicVars({"n": 1}), mod)
    assert re.fullmatch(r"E4004 BindSymbolicVars: with n = 1, dimension 0 of y\w* in main is -1", message)
    with pytest.raises(
        DiagnosticError, match=r"<string>:\d+:\d+(.|\n)*y = R.zeros(.|\n)*leave the variable to run time"
    ):
        BindSymbolicVars({"n": 1})(mod)


def test_one_variable_named_twice_and_values_in_undefined_variables():
    b, n, m = relax.analysis.defined_symbolic_vars(Linear["main"])
    assert problems(BindSymbolicVars({"n": 3, n: 3}), Linear) == [
        "E4004 BindSymbolicVars: 'n' of main is bound twice, by its name and by itself"
    ]
    q = relax.tir.Var("q", "int64")
    assert problems(BindSymbolicVars({"n": q, "m": n * b}), Linear) == [
        "E4004 BindSymbolicVars: the value q of 'n' uses q",
        "E4004 BindSymbolicVars: the value n * b of 'm' uses n",
    ]
    with pytest.raises(DiagnosticError, match="the value q \\+ 1 of 'n' uses q"):
        Linear["main"].bind_symbolic_vars({n: q + 1})
    assert m in relax.analysis.defined_symbolic_vars(BindSymbolicVars({"n": m}, "main")(Linear)["main"])


def test_struct_info_is_derived_from_the_bound_value():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((2,), "float32"), w: R.Tensor((2,))) -> R.Tensor((2,)):
            @R.function
            def scaled(a: R.Tensor((2,), "float32")) -> R.Tensor((2,)):
                b: R.Tensor((2,)) = R.multiply(a, w)
                return b

            t = (x, w)
            field = t[1]
            if R.const(True, "bool"):
                y: R.Tensor((2,)) = R.exp(field)
            else:
                y: R.Tensor((2,)) = w
            z: R.Tensor((2,)) = scaled(x)
            return R.add(y, z)

    w = np.array([1, 2], "float32")

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            @R.function
            def scaled(a: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
                b = R.multiply(a, R.const(w))
                return b

            t = (x, R.const(w))
            field = t[1]
            if R.const(True, "bool"):
                y = R.exp(field)
            else:
                y = R.const(w)
            z = scaled(x)
            return R.add(y, z)

    relax.ir.assert_structural_equal(BindParams("main", {"w": w})(Before), Expected)
    x = np.array([3, 4], "float32")
    vm = relax.VirtualMachine(relax.build(Before, PLAIN_LOOPS, params={"w": w}), relax.cpu())
    np.testing.assert_allclose(vm["main"](x).numpy(), np.exp(w) + x * w, rtol=1e-6)
