"""What CallTIRRewrite refuses: arguments that are used after they were reused in place."""

from __future__ import annotations

import pytest

import relax
from relax.expr import Function, SeqExpr, Tuple, Var
from relax.ir import DiagnosticError, GlobalVar, IRModule
from relax.op.intrinsics import CallTIRInplace
from relax.script import ir as I
from relax.script import relax as R
from relax.script import tir as T
from relax.struct_info import ObjectStructInfo, TensorStructInfo
from relax.transform import CallTIRRewrite, CheckReuse, Normalize
from relax.vm import build
from support import PLAIN_LOOPS


@T.prim_func(private=True)
def double(a: T.handle):
    A = T.match_buffer(a, (4,), "float32")
    for i in range(4):
        with T.block("copy"):
            v = T.axis.spatial(4, i)
            A[v] = A[v] * T.float32(2)


@T.prim_func(private=True)
def add_to(a: T.handle, b: T.handle):
    A = T.match_buffer(a, (4,), "float32")
    B = T.match_buffer(b, (4,), "float32")
    for i in range(4):
        with T.block("copy"):
            v = T.axis.spatial(4, i)
            A[v] = A[v] + B[v]


def refused(mod):
    with pytest.raises(DiagnosticError) as caught:
        CallTIRRewrite()(mod)
    assert all(d.code == "E4006" for d in caught.value.diagnostics)
    return [d.message for d in caught.value.diagnostics]


def test_a_later_use():
    @I.ir_module
    class Before:
        f = double

        @R.function(pure=False)
        def main(x: R.Tensor((4,), "float32")):
            a = R.exp(x)
            y = R.call_tir_inplace(Before.f, (a,), [0], R.Tensor((4,), "float32"))
            z = R.add(a, y)
            return z

    assert refused(Before) == ["a is used after it was reused in place"]
    with pytest.raises(DiagnosticError, match=r"it was reused at .*test_inplace.py:\d+:17") as caught:
        CallTIRRewrite()(Before)
    span = caught.value.diagnostics[0].span
    assert span.source.line(span.line)[span.column - 1 :] == "R.add(a, y)"  # where it is used, not bound


def test_a_later_use_under_another_name():
    @I.ir_module
    class Before:
        f = double

        @R.function(pure=False)
        def main(x: R.Tensor((4,), "float32"), c: R.Tensor((), "bool")):
            a = R.exp(x)
            other = R.match_cast(a, R.Tensor(ndim=1, dtype="float32"))
            t = (x, (a, x))
            if c:
                branch = a
            else:
                branch = x
            y = R.call_tir_inplace(Before.f, (a,), [0], R.Tensor((4,), "float32"))
            inner = t[1]
            fine = t[0]
            R.print(other, branch)
            return fine

    messages = refused(Before)
    assert "other, which is a, is used after it was reused in place" in messages
    assert "branch, which is a, is used after it was reused in place" in messages
    assert "the field of a tuple, which is a, is used after it was reused in place" in messages
    assert len(messages) == 3


def test_a_use_after_a_branch_that_reused_it():
    @I.ir_module
    class Before:
        f = double

        @R.function(pure=False)
        def main(x: R.Tensor((4,), "float32"), c: R.Tensor((), "bool")):
            a = R.exp(x)
            if c:
                r = R.call_tir_inplace(Before.f, (a,), [0], R.Tensor((4,), "float32"))
            else:
                r = a
            return (r, a)

    # In the other branch it is still there; after the two it may be gone.
    assert refused(Before) == ["a is used after it was reused in place"]


def test_constants_captured_values_and_doubles():
    @I.ir_module
    class Before:
        f = double
        g = add_to

        @R.function(pure=False)
        def main(x: R.Tensor((4,), "float32")):
            a = R.exp(x)

            @R.function(pure=False)
            def inner(y: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
                z = R.call_tir_inplace(Before.f, (a,), [0], R.Tensor((4,), "float32"))
                return z

            c = R.const([1.0, 2.0, 3.0, 4.0], "float32")
            k = R.call_tir_inplace(Before.f, (c,), [0], R.Tensor((4,), "float32"))  # c is a fresh tensor
            d = R.call_tir_inplace(
                Before.f, (R.const([1.0, 2.0, 3.0, 4.0], "float32"),), [0], R.Tensor((4,), "float32")
            )
            e = R.call_tir_inplace(Before.g, (x, x), [0], R.Tensor((4,), "float32"))
            return (inner, k, d, e)

    messages = refused(Before)
    assert messages == [
        "argument 0 of an in-place call comes from outside the local function, which may run again",
        "argument 0 of an in-place call is a constant, which cannot be changed",
        "argument 0 of an in-place call is given to the call a second time",
    ]


def test_in_place_packed_calls_are_held_to_it_too():
    @I.ir_module
    class Before:
        @R.function(pure=False)
        def main(x: R.Tensor((4,), "float32")):
            a = R.exp(x)
            y = R.call_inplace_packed("test.f", x, a, inplace_indices=[1], sinfo_args=R.Tensor((4,), "float32"))
            return (y, a)

    assert refused(Before) == ["a is used after it was reused in place"]


def test_chains_of_in_place_calls_are_fine(check):
    @I.ir_module
    class Before:
        f = double
        g = add_to

        @R.function(pure=False)
        def main(x: R.Tensor((4,), "float32"), t: R.Tuple(R.Tensor((4,), "float32"), R.Tensor((4,), "float32"))):
            a = R.call_dps_packed("test.exp", (x,), R.Tensor((4,), "float32"))
            b = R.call_tir_inplace(Before.f, (a,), [0], R.Tensor((4,), "float32"))
            c = R.call_tir_inplace(Before.g, (b, x), [0], R.Tensor((4,), "float32"))
            d = R.call_tir_inplace(Before.g, t, [0], R.Tensor((4,), "float32"))
            e = t[1]
            return (c, d, e)

    text = CallTIRRewrite()(Before).script()
    assert text.count("alloc_tensor") == 1


def test_a_use_that_would_be_removed_is_refused_as_well():
    """Whether a program is accepted does not depend on what the optimiser leaves of it."""

    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            with R.dataflow():
                y = R.add(x, x)
                z = R.call_tir_inplace(double, (y,), [0], R.Tensor((4,), "float32"))
                unused = R.add(y, z)
                w = R.negative(x)
                R.output(w)
            return w

    with pytest.raises(DiagnosticError, match="y is used after it was reused in place"):
        build(Module, PLAIN_LOOPS)


def test_branches_that_name_the_same():
    @I.ir_module
    class Before:
        f = double

        @R.function(pure=False)
        def main(x: R.Tensor((4,), "float32"), c: R.Tensor((), "bool")):
            a = R.exp(x)
            if c:
                r = a
            else:
                r = a
            y = R.call_tir_inplace(Before.f, (r,), [0], R.Tensor((4,), "float32"))
            return (y, a)

    assert refused(Before) == ["a is used after it was reused in place"]


def test_a_closure_that_reads_what_was_reused():
    @I.ir_module
    class Before:
        f = double

        @R.function(pure=False)
        def main(x: R.Tensor((4,), "float32")):
            a = R.exp(x)

            @R.function
            def plus_a(y: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
                return R.add(y, a)

            b = R.call_tir_inplace(Before.f, (a,), [0], R.Tensor((4,), "float32"))
            return plus_a(b)

    assert refused(Before) == ["plus_a, a function that reads a, is used after it was reused in place"]
    with pytest.raises(DiagnosticError, match="plus_a, a function that reads a, is used after"):
        relax.interpret(Before, "main", [1, 2, 3, 4])


def test_arguments_that_may_be_a_tuple():
    """A value of which it is not known whether it is one is reused as a whole."""
    t, first = Var("t", ObjectStructInfo()), GlobalVar("first")
    out = TensorStructInfo((4,), "float32")
    call = CallTIRInplace((1,)).call(first, t).replace(sinfo_args=(out,))
    main = Function([t], SeqExpr((), Tuple([call, t])), None, True, {"global_symbol": "main"})
    mod = Normalize()(IRModule({GlobalVar("main"): main, first: add_to}))
    with pytest.raises(DiagnosticError) as caught:
        CheckReuse()(mod)
    assert [d.message for d in caught.value.diagnostics] == ["t is used after it was reused in place"]


@pytest.mark.parametrize(
    "alias",
    [
        "R.builtin.stop_lift_params(a)",
        'R.call_packed("vm.builtin.copy", a, sinfo_args=R.Tensor((4,), "float32"))',
        'R.call_packed("vm.builtin.make_tuple", a, sinfo_args=R.Tuple(R.Tensor((4,), "float32")))',
    ],
)
def test_what_is_declared_to_return_its_argument_is_a_name_of_it(alias):
    mod = relax.script.from_source(f"""
from relax.script import ir as I, relax as R, tir as T

@I.ir_module
class Module:
    @T.prim_func(private=True)
    def double(a: T.handle):
        A = T.match_buffer(a, (4,), "float32")
        for i in range(4):
            with T.block("double"):
                v = T.axis.spatial(4, i)
                A[v] = A[v] * T.float32(2)

    @R.function(pure=False)
    def main(x: R.Tensor((4,), "float32")):
        a = R.exp(x)
        b = {alias}
        y = R.call_tir_inplace(Module.double, (a,), [0], R.Tensor((4,), "float32"))
        return (b, y)
""")
    assert refused(mod) == ["b, which is a, is used after it was reused in place"]
