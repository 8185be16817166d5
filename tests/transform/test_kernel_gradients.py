"""Gradients through call_tir of kernels that are loop nests of elements, sums, maxima and minima."""

from __future__ import annotations

import numpy as np
import pytest
from gradients import check_gradients

import relax
from relax.ir import DiagnosticError
from relax.script import ir as I
from relax.script import relax as R
from relax.script import tir as T
from relax.transform import Gradient, LegalizeOps


def random(*shapes):
    rng = np.random.default_rng(0)
    return [rng.uniform(-1, 1, shape) for shape in shapes]


@I.ir_module
class Dense:
    @T.prim_func(private=True)
    def dense(a: T.handle, w: T.Buffer((3, 4), "float64"), i: T.int64, c: T.handle):
        n = T.int64()
        A = T.match_buffer(a, (n, 3), "float64")
        C = T.match_buffer(c, (n, 4), "float64")
        S = T.alloc_buffer((n, 4), "float64")
        for x, y, z in T.grid(n, 4, 3):
            with T.block("sum"):
                vx, vy, vz = T.axis.remap("SSR", [x, y, z])
                with T.init():
                    S[vx, vy] = T.float64(0)
                S[vx, vy] = S[vx, vy] + A[vx, vz] * w[vz, vy]
        for x, y in T.grid(n, 4):
            with T.block("act"):
                vx, vy = T.axis.remap("SS", [x, y])
                C[vx, vy] = T.tanh(S[vx, vy]) * T.Cast("float64", i) + w[2, 3 - vy]

    @R.function
    def main(x: R.Tensor(("n", 3), "float64"), w: R.Tensor((3, 4), "float64")):
        cls = Dense
        n = T.int64()
        with R.dataflow():
            y = R.call_tir(cls.dense, (x, w), R.Tensor((n, 4), "float64"), tir_vars=R.shape([n]))
            gv = R.sum(R.exp(y))
            R.output(gv)
        return gv


def test_sums_and_elements_with_integers():
    check_gradients(Dense, *random((2, 3), (3, 4)), compiled=True)
    check_gradients(Dense, *random((0, 3), (3, 4)))


OPERATORS = {
    "matmul": ("R.matmul(x, R.permute_dims(x))", (3, 4)),
    "softmax": ("R.nn.softmax(x)", (3, 4)),
    "conv": ("R.nn.conv1d(R.expand_dims(x, 0), R.const([[[1.0, 2.0]] * 1] * 1, 'float64'), groups=1)", (1, 5)),
    "max": ("R.max(x, axis=1)", (3, 4)),
    "min": ("R.min(x, axis=0)", (3, 4)),
    "slice": ("R.strided_slice(x, [1], [3], [-5], [-2])", (3, 4)),
    "norm": ("R.nn.rms_norm(x, R.const([1.0, 2.0, 3.0, 4.0], 'float64'), axes=[1])", (3, 4)),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_kernels_of_operators(name):
    """The gradient after LegalizeOps is that before it."""
    call, shape = OPERATORS[name]
    call = call.replace("[[[1.0, 2.0]] * 1] * 1", "[[[1.0, 2.0]]]")
    mod = relax.script.from_source(f"""
from relax.script import ir as I, relax as R
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor({shape}, "float64")):
        with R.dataflow():
            y = {call}
            gv = R.sum(R.multiply(y, R.sin(y)))
            R.output(gv)
        return gv
""")
    kernels = LegalizeOps()(mod)
    assert "R.call_tir(" in kernels.script()
    (x,) = random(shape)
    (through_kernels,) = check_gradients(kernels, x)
    (by_rules,) = check_gradients(mod, x)
    np.testing.assert_allclose(through_kernels, by_rules, rtol=1e-12)


@I.ir_module
class Scalars:
    @T.prim_func(private=True)
    def square(a: T.Buffer((), "float64"), b: T.Buffer((), "float64")):
        with T.block("b"):
            b[()] = a[()] * a[()]

    @R.function
    def main(x: R.Tensor((), "float64")):
        cls = Scalars
        gv = R.call_tir(cls.square, (x,), R.Tensor((), "float64"))
        return gv


def test_a_kernel_of_scalars():
    check_gradients(Scalars, np.array(0.7), compiled=True)


@I.ir_module
class Pairs:
    @T.prim_func(private=True)
    def both(
        a: T.Buffer((3,), "float64"),
        b: T.Buffer((3,), "float64"),
        s: T.Buffer((3,), "float64"),
        n: T.Buffer((3,), "int64"),
    ):
        for i in range(3):
            with T.block("s"):
                v = T.axis.spatial(3, i)
                s[v] = T.sin(a[v]) * b[2 - v]
        for i in range(3):
            with T.block("n"):
                v = T.axis.spatial(3, i)
                n[v] = T.Cast("int64", s[v])

    @R.function
    def main(x: R.Tensor((3,), "float64")):
        cls = Pairs
        y = R.call_tir(cls.both, (x, x), [R.Tensor((3,), "float64"), R.Tensor((3,), "int64")])
        gv = R.sum(R.multiply(y[0], y[0]))
        return gv


def test_a_tensor_passed_twice_and_two_outputs():
    check_gradients(Pairs, *random((3,)), compiled=True)


REFUSED = {
    "b is read before it is written": """
        for i in range(4):
            with T.block("b"):
                v = T.axis.spatial(4, i)
                b[v] = b[v] + a[v]
    """,
    "a is written again after it has a value": """
        for i in range(4):
            with T.block("a"):
                v = T.axis.spatial(4, i)
                a[v] = a[v] * T.float64(2)
        for i in range(4):
            with T.block("b"):
                v = T.axis.spatial(4, i)
                b[v] = a[v]
    """,
    "an axis of b is neither spatial nor of a reduction": """
        for i in range(4):
            with T.block("b"):
                v = T.axis.scan(4, i)
                b[v] = T.if_then_else(v > 0, b[v - 1], T.float64(0)) + a[v]
    """,
    "the reduction b starts at another value than its identity": """
        for i, j in T.grid(4, 4):
            with T.block("b"):
                v, w = T.axis.remap("SR", [i, j])
                with T.init():
                    b[v] = T.float64(0)
                b[v] = T.max(b[v], a[w])
    """,
    "b is not accumulated in place": """
        for i, j in T.grid(4, 4):
            with T.block("b"):
                v, w = T.axis.remap("SR", [i, j])
                with T.init():
                    b[3 - v] = T.float64(0)
                b[v] = b[v] + a[w]
    """,
    "not all elements of b are written": """
        for i in range(3):
            with T.block("b"):
                v = T.axis.spatial(3, i)
                b[v] = a[v]
    """,
    "whole is not a single store of each element": """
        with T.block("whole"):
            T.where(T.bool(False))
            for i in range(4):
                with T.block("b"):
                    v = T.axis.spatial(4, i)
                    b[v] = a[v]
    """,
    "view is not a single store of each element": """
        for i in range(4):
            with T.block("b"):
                v = T.axis.spatial(4, i)
                b[v] = a[v] * a[v]
        with T.block("view"):
            T.writes(b[0:4])
            c = T.match_buffer(b[0:4], (4,), "float64")
            for i in range(4):
                with T.block("c"):
                    v = T.axis.spatial(4, i)
                    c[v] = a[v]
    """,
}


@pytest.mark.parametrize("reason", REFUSED)
def test_kernels_of_another_form_are_refused(reason):
    mod = relax.script.from_source(f"""
from relax.script import ir as I, relax as R, tir as T
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def kernel(a: T.Buffer((4,), "float64"), b: T.Buffer((4,), "float64")):
{REFUSED[reason]}
    @R.function
    def main(x: R.Tensor((4,), "float64")):
        cls = Module
        y = R.call_tir(cls.kernel, (x,), R.Tensor((4,), "float64"))
        gv = R.sum(y)
        return gv
""")
    with pytest.raises(DiagnosticError, match=f"call_tir of kernel has no gradient: {reason}"):
        Gradient("main")(mod)


def test_a_size_that_only_the_result_has_is_refused():
    @I.ir_module
    class Rows:
        @T.prim_func(private=True)
        def rows(a: T.Buffer((4,), "float64"), b: T.handle):
            m = T.int64()
            B = T.match_buffer(b, (m, 4), "float64")
            for i, j in T.grid(m, 4):
                with T.block("b"):
                    v, w = T.axis.remap("SS", [i, j])
                    B[v, w] = a[w]

        @R.function
        def main(x: R.Tensor((4,), "float64")):
            cls = Rows
            y = R.call_tir(cls.rows, (x,), R.Tensor((3, 4), "float64"))
            gv = R.sum(y)
            return gv

    with pytest.raises(DiagnosticError, match="call_tir of rows has no gradient: no argument gives m"):
        Gradient("main")(Rows)
