"""InlinePrivateFunctions: bodies in the place of calls."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from relax.script import ir as I
from relax.script import relax as R
from relax.script import tir as T
from relax.transform import InlinePrivateFunctions


def test_a_function_of_its_own_sizes(check):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor(("n", 4), "float32"), y: R.Tensor((3,), "float32")):
            a = Before.twice(x)
            b = Before.twice(a)
            c = Before.other(y)
            return (b, c)

        @R.function(private=True)
        def twice(v: R.Tensor(("m", 4), "float32")) -> R.Tensor(("m", 4), "float32"):
            w = R.add(v, v)
            return w

        @R.function(private=True)
        def other(v: R.Tensor(("m",), "float32")) -> R.Tensor(("m + m",), "float32"):
            m = T.int64()
            w: R.Tensor((m + m,), "float32") = R.concat((v, v))
            return w

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor(("n", 4), "float32"), y: R.Tensor((3,), "float32")):
            w = R.add(x, x)
            a = w
            w_1 = R.add(a, a)
            b = w_1
            w_2 = R.concat((y, y))
            c = w_2
            return (b, c)

    check(InlinePrivateFunctions(), Before, Expected)


def test_a_local_function_whose_parameter_names_one_behind_it(check):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor(("n",), "float32")):
            a = Before.positive(x)
            return a

        @R.function(private=True)
        def positive(v: R.Tensor(("m",), "float32")):
            s = R.shape_of(v)

            @R.function
            def inner(w: R.Tensor(t, "float32", ndim=1), t: R.Shape(ndim=1)):
                r = R.abs(w)
                return r

            a = inner(v, s)
            return a

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor(("n",), "float32")):
            s = R.shape_of(x)

            @R.function
            def inner(w: R.Tensor(t, "float32", ndim=1), t: R.Shape(ndim=1)):
                r = R.abs(w)
                return r

            a_1 = inner(x, s)
            a = a_1
            return a

    check(InlinePrivateFunctions(), Before, Expected)


def test_callees_of_callees_in_dataflow_blocks_and_branches(check):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor(("n",), "float32"), b: R.Tensor((), "bool")):
            with R.dataflow():
                y = Before.outer(x)
                R.output(y)
            if b:
                z = Before.inner(y)
            else:
                z = y
            return z

        @R.function(private=True)
        def outer(v: R.Tensor(("m",), "float32")) -> R.Tensor(("m",), "float32"):
            w = Before.inner(v)
            u = R.exp(w)
            return u

        @R.function(private=True)
        def inner(v: R.Tensor(("k",), "float32")) -> R.Tensor(("k",), "float32"):
            with R.dataflow():
                w = R.negative(v)
                R.output(w)
            return w

    after = InlinePrivateFunctions()(Before)
    assert [g.name_hint for g in after.functions] == ["main"]
    assert "outer" not in after.script()
    assert "inner" not in after.script()
    assert InlinePrivateFunctions()(after) is after
    assert relax.analysis.well_formed(after)
    for n in (0, 1, 3):
        for b in (True, False):
            arguments = np.arange(n, dtype="float32"), np.array(b)
            results = [relax.interpret(mod, "main", *arguments).numpy() for mod in (Before, after)]
            np.testing.assert_array_equal(*results)


def test_kept(check):
    @I.ir_module
    class Recursive:
        @R.function
        def main(x: R.Tensor((), "bool")) -> R.Tensor((), "bool"):
            y = Recursive.f(x)
            return y

        @R.function(private=True)
        def f(x: R.Tensor((), "bool")) -> R.Tensor((), "bool"):
            if x:
                z = Recursive.f(x)
            else:
                z = x
            return z

    check(InlinePrivateFunctions(), Recursive)

    @I.ir_module
    class EntryPoint:
        @R.function
        def main(x: R.Tensor((4,), "float32")):
            return EntryPoint.f(x)

        @R.function
        def f(x: R.Tensor((4,), "float32")):
            return R.exp(x)

    check(InlinePrivateFunctions(), EntryPoint)

    @I.ir_module
    class Attributes:
        @R.function
        def main(x: R.Tensor((4,), "float32")):
            return Attributes.f(x)

        @R.function(private=True)
        def f(x: R.Tensor((4,), "float32")):
            R.func_attr({"Primitive": True})
            return R.exp(x)

    check(InlinePrivateFunctions(), Attributes)

    @I.ir_module
    class Branches:
        @R.function
        def main(x: R.Tensor((), "bool")):
            with R.dataflow():
                y = Branches.f(x)
                R.output(y)
            return y

        @R.function(private=True)
        def f(x: R.Tensor((), "bool")):
            if x:
                z = R.logical_not(x)
            else:
                z = x
            return z

    check(InlinePrivateFunctions(), Branches)


@pytest.mark.filterwarnings("ignore::relax.ir.RelaxWarning")
def test_calls_that_check_something_stay(check):
    @I.ir_module
    class Argument:
        @R.function
        def main(x: R.Tensor(ndim=1, dtype="float32")):
            return Argument.f(x)

        @R.function(private=True)
        def f(x: R.Tensor(("n",), "float32")):
            return R.exp(x)

    check(InlinePrivateFunctions(), relax.transform.Normalize()(Argument))

    @I.ir_module
    class Result:
        @R.function
        def main(x: R.Tensor(("n",), "float32")):
            return Result.f(x)

        @R.function(private=True)
        def f(x: R.Tensor(("n",), "float32")) -> R.Tensor((4,), "float32"):
            return R.exp(x)

    check(InlinePrivateFunctions(), relax.transform.Normalize()(Result))


def test_arguments_that_may_fail_are_computed(check):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor(("n",), "float32")):
            n = T.int64()
            y = Before.f(R.shape([n - 2]), R.prim_value(n))
            return x

        @R.function(private=True)
        def f(s: R.Shape(["m"]), k: R.Prim("int64")):
            m = T.int64()
            return R.prim_value(T.min(m, 0))

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor(("n",), "float32")):
            n = T.int64()
            s: R.Shape([n - 2]) = R.shape([n - 2])
            y = R.prim_value(T.min(n - 2, 0))
            return x

    after = check(InlinePrivateFunctions(), Before, Expected)
    with pytest.raises(ValueError, match=r"a shape cannot have a negative dimension, as in \(-1,\)"):
        relax.interpret(Expected if after is None else after, "main", np.zeros(1, "float32"))
