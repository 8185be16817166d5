"""Gradients through calls of functions, branches and recursion: differences of the interpreter, and compiled."""

from __future__ import annotations

import numpy as np
import pytest
from gradients import check_gradients

import relax
from relax.ir import DiagnosticError
from relax.script import ir as I
from relax.script import relax as R
from relax.transform import Gradient


def random(*shapes, low=0.1, high=1.0):
    rng = np.random.default_rng(0)
    return [rng.uniform(low, high, shape) for shape in shapes]


@I.ir_module
class Layers:
    @R.function(private=True)
    def layer(
        x: R.Tensor(("n", 3), "float64"), pair: R.Tuple(R.Tensor((3, 3), "float64"), R.Tensor((3,), "float64"))
    ) -> R.Tuple(R.Tensor(("n", 3), "float64"), R.Tensor((), "int64")):
        y = R.tanh(R.add(R.matmul(x, pair[0]), pair[1]))
        return (y, R.const(1, "int64"))

    @R.function
    def main(x: R.Tensor(("n", 3), "float64"), w: R.Tensor((3, 3), "float64"), b: R.Tensor((3,), "float64")):
        cls = Layers
        with R.dataflow():
            first = cls.layer(x, (w, b))
            second = cls.layer(first[0], (w, b))
            gv = R.sum(R.multiply(second[0], first[0]))
            R.output(gv)
        return gv


def test_a_function_called_twice():
    check_gradients(Layers, *random((4, 3), (3, 3), (3,)), compiled=True)
    adjoint = Gradient("main")(Layers)
    assert adjoint.script().count("cls.layer_vjp(") == 2
    assert Gradient("main")(adjoint) is adjoint


@I.ir_module
class Branch:
    @R.function
    def main(x: R.Tensor(("n", 3), "float64"), w: R.Tensor((3,), "float64")):
        s = R.exp(x)
        if R.greater(R.sum(x), R.const(0.0, "float64")):
            a = R.multiply(s, w)
            y = R.sin(a)
        else:
            y = R.add(R.broadcast_to(w, R.shape([n, 3])), x)
        gv = R.sum(R.multiply(y, s))
        return gv


@pytest.mark.parametrize("sign", [1, -1])
def test_the_branch_that_is_taken_has_the_gradient(sign):
    x, w = random((2, 3), (3,))
    check_gradients(Branch, sign * x, w, compiled=sign == 1)


def test_the_function_stays_as_it_is():
    adjoint = Gradient("main")(Branch)
    assert adjoint["main"].script() == Branch["main"].script()
    assert Gradient("main")(adjoint) is adjoint


@I.ir_module
class Power:
    @R.function(private=True)
    def power(n: R.Tensor((), "int64"), x: R.Tensor((2,), "float64"), w: R.Tensor((2,), "float64")) -> R.Tensor(
        (2,), "float64"
    ):
        cls = Power
        if R.greater(n, R.const(0, "int64")):
            y = cls.power(R.subtract(n, R.const(1, "int64")), R.sin(R.multiply(x, w)), w)
        else:
            y = x
        return y

    @R.function
    def main(x: R.Tensor((2,), "float64"), w: R.Tensor((2,), "float64")):
        cls = Power
        y = cls.power(R.const(3, "int64"), x, w)
        gv = R.sum(R.exp(y))
        return gv


def test_a_function_that_calls_itself():
    check_gradients(Power, *random((2,), (2,)), compiled=True)


def test_attributes_of_a_function_are_not_those_of_its_gradient():
    """A group of kernels is one kernel; its gradient has several."""

    @I.ir_module
    class Grouped:
        @R.function(private=True)
        def fused(x: R.Tensor((2,), "float64")) -> R.Tensor((2,), "float64"):
            R.func_attr({"Primitive": 1})
            with R.dataflow():
                y = R.exp(R.sin(x))
                R.output(y)
            return y

        @R.function
        def main(x: R.Tensor((2,), "float64")):
            cls = Grouped
            gv = R.sum(cls.fused(x))
            return gv

    check_gradients(Grouped, *random((2,)))
    assert not Gradient("main")(Grouped)["fused_vjp"].attrs


def test_second_order_through_a_call():
    @I.ir_module
    class Cube:
        @R.function(private=True)
        def cube(x: R.Tensor((), "float64")) -> R.Tensor((), "float64"):
            return R.multiply(R.multiply(x, x), x)

        @R.function
        def main(x: R.Tensor((), "float64")):
            cls = Cube
            y = cls.cube(x)
            return y

    builder = relax.BlockBuilder(Gradient("main")(Cube))
    x = relax.Var("x", R.Tensor((), "float64"))
    with builder.function("slope", [x]):
        both = builder.emit(relax.Call(builder.get().get_global_var("main_adjoint"), [x]))
        builder.emit_func_output(relax.TupleGetItem(relax.TupleGetItem(both, 1), 0))
    twice = Gradient("slope")(builder.get())
    relax.analysis.assert_well_formed(twice)
    value, (curvature,) = relax.interpret(twice, "slope_adjoint", np.array(2.0))
    assert float(value.numpy()) == pytest.approx(12)
    assert float(curvature.numpy()) == pytest.approx(12)


@I.ir_module
class Mixed:
    @R.function(private=True)
    def scaled(
        pair: R.Tuple(R.Tensor((3,), "float64"), R.Tuple(R.Tensor((), "int64"), R.Shape(ndim=1))),
        w: R.Tensor((3,), "float64"),
    ) -> R.Tuple(R.Tensor((3,), "float64"), R.Shape([3])):
        n = R.astype(pair[1][0], "float64")
        return (R.multiply(R.multiply(pair[0], w), n), R.shape_of(w))

    @R.function
    def main(x: R.Tensor((3,), "float64")):
        cls = Mixed
        pair = (R.sin(x), (R.const(3, "int64"), R.shape_of(x)))
        y = cls.scaled(pair, x)
        if R.greater(R.sum(x), R.const(0.0, "float64")):
            z = R.multiply(pair[0], y[0])
        else:
            z = y[0]
        gv = R.sum(R.multiply(cls.scaled(pair, z)[0], z))
        return gv


@pytest.mark.parametrize("sign", [1, -1])
def test_tuples_with_integers_and_shapes(sign):
    (x,) = random((3,))
    check_gradients(Mixed, sign * x, compiled=sign == 1)


@I.ir_module
class Unsettled:
    @R.function(private=True)
    def taking(x: R.Tensor((3,))) -> R.Tensor((3,), "float64"):
        y = R.match_cast(x, R.Tensor((3,), "float64"))
        return R.sin(y)

    @R.function(private=True)
    def returning(x: R.Tensor((3,), "float64")) -> R.Object:
        return R.sin(x)

    @R.function
    def argument(x: R.Tensor((3,), "float64")):
        cls = Unsettled
        gv = R.sum(cls.taking(x))
        return gv

    @R.function
    def result(x: R.Tensor((3,), "float64")):
        cls = Unsettled
        y = R.match_cast(cls.returning(x), R.Tensor((3,), "float64"))
        gv = R.sum(y)
        return gv


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("argument", "a call of taking has no gradient where the dtype of the parameter for x is not known"),
        ("result", "a call of returning has no gradient where the dtype of its result is not known"),
    ],
)
def test_unknown_dtypes_are_refused(name, message):
    with pytest.raises(DiagnosticError, match=message):
        Gradient(name)(Unsettled)


def test_an_impure_function_with_branches_is_refused():
    @I.ir_module
    class Printing:
        @R.function(pure=False)
        def main(x: R.Tensor((), "float64")):
            if R.greater(x, R.const(0.0, "float64")):
                _ = R.print(x, format="{}")
                y = x
            else:
                y = R.sin(x)
            return y

    with pytest.raises(DiagnosticError, match="an impure function has no gradient") as caught:
        Gradient("main")(Printing)
    assert len(caught.value.diagnostics) == 1


def test_an_impure_function_is_refused():
    @I.ir_module
    class Printing:
        @R.function(private=True, pure=False)
        def shown(x: R.Tensor((), "float64")) -> R.Tensor((), "float64"):
            _ = R.print(x, format="{}")
            return x

        @R.function(pure=False)
        def main(x: R.Tensor((), "float64")):
            cls = Printing
            y = cls.shown(x)
            return y

    with pytest.raises(DiagnosticError, match="an impure function has no gradient"):
        Gradient("main")(Printing)
