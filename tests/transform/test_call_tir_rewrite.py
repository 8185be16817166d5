"""CallTIRRewrite: destination-passing calls become allocations and calls."""

from __future__ import annotations

import pytest

from relax.ir import DiagnosticError
from relax.script import ir as I
from relax.script import relax as R
from relax.script import tir as T
from relax.transform import CallTIRRewrite, ToNonDataflow


@T.prim_func(private=True)
def copy(a: T.handle, b: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n,), "float32")
    B = T.match_buffer(b, (n,), "float32")
    for i in range(n):
        with T.block("copy"):
            v = T.axis.spatial(n, i)
            B[v] = A[v]


@T.prim_func(private=True)
def split(a: T.handle, b: T.handle, c: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n,), "float32")
    B = T.match_buffer(b, (n,), "float32")
    C = T.match_buffer(c, (n,), "float32")
    for i in range(n):
        with T.block("copy"):
            v = T.axis.spatial(n, i)
            B[v] = A[v]
            C[v] = A[v]


@T.prim_func(private=True)
def arange(n: T.int64, k: T.int64, b: T.handle):
    B = T.match_buffer(b, (n * k,), "float32")
    for i in range(n * k):
        with T.block("copy"):
            v = T.axis.spatial(n * k, i)
            B[v] = T.float32(v)


@T.prim_func(private=True)
def arange_last(b: T.handle, n: T.int64, k: T.int64):
    B = T.match_buffer(b, (n * k,), "float32")
    for i in range(n * k):
        with T.block("copy"):
            v = T.axis.spatial(n * k, i)
            B[v] = T.float32(v)


@T.prim_func(private=True)
def double(a: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n,), "float32")
    for i in range(n):
        with T.block("copy"):
            v = T.axis.spatial(n, i)
            A[v] = A[v] * T.float32(2)


def test_one_output(check):
    @I.ir_module
    class Before:
        f = copy

        @R.function
        def main(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
            n = T.int64()
            y = R.call_tir(Before.f, (x,), R.Tensor((n,), "float32"))
            return y

    @I.ir_module
    class Expected:
        f = copy

        @R.function
        def main(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
            R.func_attr({"relax.force_pure": True})
            n = T.int64()
            alloc = R.builtin.alloc_tensor(R.shape([n]), R.dtype("float32"), R.prim_value(0), R.str("global"))
            _ = Expected.f(x, alloc)
            y = alloc
            return y

    check(CallTIRRewrite(), Before, Expected)


def test_several_outputs_are_a_tuple(check):
    @I.ir_module
    class Before:
        f = split

        @R.function(pure=False)
        def main(x: R.Tensor((4,), "float32")):
            y = R.call_tir(Before.f, (x,), [R.Tensor((4,), "float32"), R.Tensor((4,), "float32")])
            return y

    @I.ir_module
    class Expected:
        f = split

        @R.function(pure=False)
        def main(x: R.Tensor((4,), "float32")):
            alloc = R.builtin.alloc_tensor(R.shape([4]), R.dtype("float32"), R.prim_value(0), R.str("global"))
            alloc1 = R.builtin.alloc_tensor(R.shape([4]), R.dtype("float32"), R.prim_value(0), R.str("global"))
            _ = Expected.f(x, alloc, alloc1)
            y = (alloc, alloc1)
            return y

    check(CallTIRRewrite(), Before, Expected)


def test_integers_stand_where_the_function_takes_them(check):
    @I.ir_module
    class Before:
        f = arange
        g = arange_last

        @R.function(pure=False)
        def main(s: R.Shape(["n", "k"])):
            n = T.int64()
            k = T.int64()
            y = R.call_tir(Before.f, R.tuple(), R.Tensor((n * k,), "float32"), tir_vars=R.shape([n, k]))
            z = R.call_tir(Before.g, R.tuple(), R.Tensor((n * k,), "float32"), tir_vars=s)
            return (y, z)

    @I.ir_module
    class Expected:
        f = arange
        g = arange_last

        @R.function(pure=False)
        def main(s: R.Shape(["n", "k"])):
            n = T.int64()
            k = T.int64()
            alloc = R.builtin.alloc_tensor(R.shape([n * k]), R.dtype("float32"), R.prim_value(0), R.str("global"))
            _ = Expected.f(R.prim_value(n), R.prim_value(k), alloc)
            y = alloc
            alloc1 = R.builtin.alloc_tensor(R.shape([n * k]), R.dtype("float32"), R.prim_value(0), R.str("global"))
            _1 = Expected.g(alloc1, R.prim_value(n), R.prim_value(k))
            z = alloc1
            return (y, z)

    check(CallTIRRewrite(), Before, Expected)


def test_packed_functions_and_tuple_variables(check):
    @I.ir_module
    class Before:
        @R.function(pure=False)
        def main(t: R.Tuple(R.Tensor((4,), "float32"), R.Tensor((2,), "float32"))):
            y = R.call_dps_packed("test.f", t, R.Tensor((4,), "float32"))
            return y

    @I.ir_module
    class Expected:
        @R.function(pure=False)
        def main(t: R.Tuple(R.Tensor((4,), "float32"), R.Tensor((2,), "float32"))):
            arg = t[0]
            arg1 = t[1]
            alloc = R.builtin.alloc_tensor(R.shape([4]), R.dtype("float32"), R.prim_value(0), R.str("global"))
            _ = R.call_packed("test.f", arg, arg1, alloc)
            y = alloc
            return y

    check(CallTIRRewrite(), Before, Expected)


def test_in_place_calls_reuse_arguments_also_out_of_a_tuple(check):
    @I.ir_module
    class Before:
        f = double

        @R.function(pure=False)
        def main(x: R.Tensor((4,), "float32"), t: R.Tuple(R.Tensor((2,), "float32"))):
            y = R.call_tir_inplace(Before.f, (x,), [0], R.Tensor((4,), "float32"))
            z = R.call_tir_inplace(Before.f, t, [0], R.Tensor((2,), "float32"))
            return (y, z)

    @I.ir_module
    class Expected:
        f = double

        @R.function(pure=False)
        def main(x: R.Tensor((4,), "float32"), t: R.Tuple(R.Tensor((2,), "float32"))):
            _ = Expected.f(x)
            y = x
            arg = t[0]
            _1 = Expected.f(arg)
            z = arg
            return (y, z)

    check(CallTIRRewrite(), Before, Expected)


def test_a_reused_argument_of_unknown_size_is_checked(check):
    @I.ir_module
    class Before:
        f = double

        @R.function(pure=False)
        def main(x: R.Tensor(ndim=1, dtype="float32")):
            y = R.call_tir_inplace(Before.f, (x,), [0], R.Tensor((4,), "float32"))
            return y

    @I.ir_module
    class Expected:
        f = double

        @R.function(pure=False)
        def main(x: R.Tensor(ndim=1, dtype="float32")):
            checked = R.match_cast(x, R.Tensor((4,), "float32"))
            _ = Expected.f(checked)
            y = checked
            return y

    check(CallTIRRewrite(), Before, Expected)


def test_branches_and_local_functions(check):
    @I.ir_module
    class Before:
        f = copy

        @R.function(pure=False)
        def main(x: R.Tensor((4,), "float32"), c: R.Tensor((), "bool")):
            @R.function
            def inner(a: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
                b = R.call_tir(Before.f, (a,), R.Tensor((4,), "float32"))
                return b

            if c:
                r = R.call_tir(Before.f, (x,), R.Tensor((4,), "float32"))
            else:
                r = inner(x)
            return r

    after = check(CallTIRRewrite(), Before, CallTIRRewrite()(Before))
    text = after.script()
    assert "call_tir" not in text
    assert text.count("alloc_tensor") == 2
    assert text.count("relax.force_pure") == 1


def test_dataflow_blocks_are_declined_all_at_once():
    @I.ir_module
    class Before:
        f = copy

        @R.function
        def main(x: R.Tensor((4,), "float32")):
            with R.dataflow():
                y = R.call_tir(Before.f, (x,), R.Tensor((4,), "float32"))
                z = R.call_dps_packed("test.f", (y,), R.Tensor((4,), "float32"))
                R.output(z)
            return z

    with pytest.raises(DiagnosticError, match="E4002.*call_tir stands in a dataflow block") as caught:
        CallTIRRewrite()(Before)
    assert len(caught.value.diagnostics) == 2
    assert all(d.span is not None for d in caught.value.diagnostics)
    assert "ToNonDataflow" in str(caught.value)
    assert "alloc_tensor" in CallTIRRewrite()(ToNonDataflow()(Before)).script()


def test_unknown_integers_are_declined():
    @I.ir_module
    class Before:
        f = arange

        @R.function(pure=False)
        def main(s: R.Shape(ndim=2)):
            y = R.call_tir(Before.f, R.tuple(), R.Tensor((6,), "float32"), tir_vars=s)
            return y

    with pytest.raises(DiagnosticError, match="the values of tir_vars are not known"):
        CallTIRRewrite()(Before)
