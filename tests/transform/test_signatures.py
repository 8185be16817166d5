"""Passes that change signatures: unused parameters, tuples of arguments, struct info of parameters, global symbols."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from relax.script import ir as I
from relax.script import relax as R
from relax.script import tir as T
from relax.transform import (
    AttachGlobalSymbol,
    ExpandTupleArguments,
    RemoveUnusedOutputs,
    RemoveUnusedParameters,
    UpdateParamStructInfo,
)


def test_unused_parameters_of_private_functions(check):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor(("n",), "float32"), y: R.Tensor((3,), "float32")):
            with R.dataflow():
                a = Before.f(x, y)
                R.output(a)
            return a

        @R.function(private=True)
        def f(p: R.Tensor(("m",), "float32"), q: R.Tensor((3,), "float32")) -> R.Tensor(("m",), "float32"):
            r = R.exp(p)
            return r

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor(("n",), "float32"), y: R.Tensor((3,), "float32")):
            with R.dataflow():
                a = Expected.f(x)
                R.output(a)
            return a

        @R.function(private=True)
        def f(p: R.Tensor(("m",), "float32")) -> R.Tensor(("m",), "float32"):
            r = R.exp(p)
            return r

    check(RemoveUnusedParameters(), Before, Expected)


def test_sizes_that_an_unused_parameter_tells(check):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor(("n", 4), "float32")):
            a = Before.f(x)
            return a

        @R.function(private=True)
        def f(p: R.Tensor(("m", 4), "float32")) -> R.Tensor(("m",), "float32"):
            m = T.int64()
            r = R.zeros((m,), "float32")
            return r

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor(("n", 4), "float32")):
            n = T.int64()
            a = Expected.f(R.prim_value(n))
            return a

        @R.function(private=True)
        def f(size: R.Prim(value="m")) -> R.Tensor(("m",), "float32"):
            m = T.int64()
            r = R.zeros((m,), "float32")
            return r

    after = check(RemoveUnusedParameters(), Before, Expected)
    for n in (0, 3):
        assert relax.interpret(after, "main", np.ones((n, 4), "float32")).numpy().shape == (n,)


@pytest.mark.filterwarnings("ignore::relax.ir.RelaxWarning")
def test_parameters_that_stay(check):
    """Checked at run time; of a public function; of a function that is a value."""

    @I.ir_module
    class Mod:
        @R.function
        def main(x: R.Tensor("float32", ndim=1), unused: R.Tensor((2,), "float32")):
            a = Mod.f(x)
            g = Mod.value
            b = g(a)
            return b

        @R.function(private=True)
        def f(p: R.Tensor((3,), "float32")) -> R.Tensor((), "float32"):
            r = R.zeros((), "float32")
            return r

        @R.function(private=True)
        def value(p: R.Tensor((), "float32")) -> R.Tensor((), "float32"):
            r = R.ones((), "float32")
            return r

    check(RemoveUnusedParameters(), Mod)


def test_a_parameter_in_another_annotation_is_used(check):
    @I.ir_module
    class Mod:
        @R.function
        def main(x: R.Tensor(("n", "m"), "float32")):
            s = R.shape_of(x)
            y = Mod.f(s, x)
            return y

        @R.function(private=True)
        def f(s: R.Shape, x: R.Tensor(s, "float32", ndim=2)) -> R.Tensor("float32", ndim=2):
            return R.abs(x)

    check(RemoveUnusedParameters(), Mod)


def test_what_is_passed_on_to_nobody_any_more(check):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor(("n",), "float32"), y: R.Tensor(("n",), "float32")):
            return Before.outer(x, y)

        @R.function(private=True)
        def outer(x: R.Tensor(("n",), "float32"), y: R.Tensor(("n",), "float32")):
            return Before.inner(x, y)

        @R.function(private=True)
        def inner(x: R.Tensor(("n",), "float32"), y: R.Tensor(("n",), "float32")):
            return R.abs(x)

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor(("n",), "float32"), y: R.Tensor(("n",), "float32")):
            return Expected.outer(x)

        @R.function(private=True)
        def outer(x: R.Tensor(("n",), "float32")):
            return Expected.inner(x)

        @R.function(private=True)
        def inner(x: R.Tensor(("n",), "float32")):
            return R.abs(x)

    check(RemoveUnusedParameters(), Before, Expected)


def test_fields_that_nobody_reads(check):
    """Of three fields two are left, in a dataflow block of the callee; of two fields one."""

    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor(("n",), "float32")):
            t = Before.f(x)
            a = t[2]
            u = Before.g(x)
            b = u[1]
            c = t[0]
            return (a, b, c)

        @R.function(private=True)
        def f(p: R.Tensor(("m",), "float32")):
            with R.dataflow():
                a = R.exp(p)
                b = R.sin(p)
                gv = (a, b, p)
                R.output(gv)
            return gv

        @R.function(private=True)
        def g(p: R.Tensor(("m",), "float32")) -> R.Tuple(R.Tensor(("m",), "float32"), R.Tensor(("m",), "float32")):
            a = R.cos(p)
            return (p, a)

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor(("n",), "float32")):
            t = Expected.f(x)
            a = t[1]
            u = Expected.g(x)
            b = u
            c = t[0]
            return (a, b, c)

        @R.function(private=True)
        def f(p: R.Tensor(("m",), "float32")):
            with R.dataflow():
                a = R.exp(p)
                b = R.sin(p)
                gv = (a, p)
                R.output(gv)
            return gv

        @R.function(private=True)
        def g(p: R.Tensor(("m",), "float32")) -> R.Tensor(("m",), "float32"):
            a = R.cos(p)
            return a

    check(RemoveUnusedOutputs(), Before, Expected)


def test_results_that_stay(check):
    """Used as a whole, and public."""

    @I.ir_module
    class Mod:
        @R.function
        def main(x: R.Tensor((3,), "float32")):
            t = Mod.f(x)
            a = t[0]
            b = Mod.main2(x)
            c = b[0]
            return (a, t, c)

        @R.function(private=True)
        def f(p: R.Tensor((3,), "float32")):
            return (p, p)

        @R.function
        def main2(p: R.Tensor((3,), "float32")):
            return (p, p)

    check(RemoveUnusedOutputs(), Mod)


def test_tuples_of_arguments(check):
    @I.ir_module
    class Before:
        @R.function
        def main(
            x: R.Tensor(("n",), "float32"), t: R.Tuple(R.Tensor((3,), "float32"), R.Tuple(R.Tensor((), "float32")))
        ):
            a = Before.f((x, x), t)
            return a

        @R.function(private=True)
        def f(
            p: R.Tuple(R.Tensor(("m",), "float32"), R.Tensor(("m",), "float32")),
            q: R.Tuple(R.Tensor((3,), "float32"), R.Tuple(R.Tensor((), "float32"))),
        ) -> R.Tensor(("m",), "float32"):
            a = p[1]
            b = q[1]
            c = b[0]
            r = R.add(a, c)
            return r

    @I.ir_module
    class Expected:
        @R.function
        def main(
            x: R.Tensor(("n",), "float32"), t: R.Tuple(R.Tensor((3,), "float32"), R.Tuple(R.Tensor((), "float32")))
        ):
            t0 = t[0]
            t1 = t[1]
            t10 = t1[0]
            a = Expected.f(x, x, t0, t10)
            return a

        @R.function(private=True)
        def f(
            p_0: R.Tensor(("m",), "float32"),
            p_1: R.Tensor(("m",), "float32"),
            q_0: R.Tensor((3,), "float32"),
            q_1_0: R.Tensor((), "float32"),
        ) -> R.Tensor(("m",), "float32"):
            p = (p_0, p_1)
            q = (q_0, (q_1_0,))
            a = p[1]
            b = q[1]
            c = b[0]
            r = R.add(a, c)
            return r

    check(ExpandTupleArguments(), Before, Expected)


def test_struct_info_of_parameters(check):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor(("n", 4), "float32"), y: R.Tensor((4,), "float32")) -> R.Tensor(("n", 4), "float32"):
            z = R.add(x, R.multiply(x, x))
            return z

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((8, 4), "float16"), y: R.Tensor((4,), "float32")) -> R.Tensor((8, 4), "float16"):
            z = R.add(x, R.multiply(x, x))
            return z

    narrow = relax.TensorStructInfo((8, 4), "float16")
    check(UpdateParamStructInfo(lambda var: narrow if var.name_hint == "x" else None), Before, Expected)


def test_global_symbols(check):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((3,), "float32")):
            return x

        @R.function(private=True)
        def f(x: R.Tensor((3,), "float32")):
            return x

        @T.prim_func(private=True)
        def kernel(a: T.Buffer((3,), "float32")):
            a[0] = T.float32(0)

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((3,), "float32")):
            return x

        @R.function
        def f(x: R.Tensor((3,), "float32")):
            return x

        @T.prim_func
        def kernel(a: T.Buffer((3,), "float32")):
            a[0] = T.float32(0)

    check(AttachGlobalSymbol(), Before, Expected)
