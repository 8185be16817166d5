"""te.adjoints: adjoint loops of formulas, compared with NumPy and central differences."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from relax import te


def adjoint(formula, *values):
    """The gradients of the sum of a formula's elements by its operands."""

    def function(*tensors):
        output = formula(*tensors)
        ones = te.compute(output.shape, lambda *_: te.const(1.0, output.dtype), "ones")
        return te.adjoints([output], list(tensors), [ones])

    builder = relax.BlockBuilder()
    params = [relax.Var(f"p{i}", relax.TensorStructInfo(v.shape, str(v.dtype))) for i, v in enumerate(values)]
    with builder.function("main", params):
        result = builder.emit_te(function, *params)
        builder.emit_func_output(result)
    return [g.numpy() for g in relax.interpret(builder.get(), "main", *values)]


X = np.random.default_rng(0).uniform(0.5, 2, 5)


@pytest.mark.parametrize(
    "function, slope",
    [
        (te.exp, np.exp),
        (te.log, lambda v: 1 / v),
        (te.sqrt, lambda v: 0.5 / np.sqrt(v)),
        (te.rsqrt, lambda v: -0.5 * v**-1.5),
        (te.tanh, lambda v: 1 - np.tanh(v) ** 2),
        (te.sigmoid, lambda v: np.exp(-v) / (1 + np.exp(-v)) ** 2),
        (te.sin, np.cos),
        (te.cos, lambda v: -np.sin(v)),
        (te.tan, lambda v: 1 / np.cos(v) ** 2),
        (te.atan, lambda v: 1 / (1 + v * v)),
        (te.sinh, np.cosh),
        (te.asinh, lambda v: 1 / np.sqrt(v * v + 1)),
        (te.log1p, lambda v: 1 / (1 + v)),
        (te.log2, lambda v: 1 / v / np.log(2)),
        (te.exp2, lambda v: 2**v * np.log(2)),
        (te.erf, lambda v: 2 / np.sqrt(np.pi) * np.exp(-v * v)),
        (te.abs, np.sign),
        (te.floor, np.zeros_like),
        (lambda v: te.power(v, v), lambda v: v**v * (np.log(v) + 1)),
        (lambda v: te.atan2(v, te.const(2.0, "float64")), lambda v: 2 / (4 + v * v)),
        (lambda v: te.hypot(v, te.const(2.0, "float64")), lambda v: v / np.hypot(v, 2)),
        (lambda v: 1.0 / v, lambda v: -1 / v**2),
        (lambda v: te.cast("float64", te.cast("float32", v)), np.ones_like),
    ],
)
def test_derivatives_of_functions(function, slope):
    (got,) = adjoint(lambda x: te.compute(x.shape, lambda i: function(x[i]), "y"), X)
    np.testing.assert_allclose(got, slope(X), rtol=1e-6)


def test_reads_at_any_index_are_added():
    (got,) = adjoint(lambda x: te.compute((8,), lambda i: x[(i * 3) % 5] * x[4], "y"), X)
    expected = np.bincount([3 * i % 5 for i in range(8)], minlength=5) * X[4]
    expected[4] += X[[3 * i % 5 for i in range(8)]].sum()
    np.testing.assert_allclose(got, expected)


def test_conditions_guard_reads_out_of_bounds():
    (got,) = adjoint(lambda x: te.compute((9,), lambda i: te.if_then_else(i < 5, x[i] * 2.0, 0.0), "y"), X)
    np.testing.assert_allclose(got, np.full(5, 2.0))


def test_a_tensor_between_is_read_by_two():
    def formula(x):
        square = te.compute(x.shape, lambda i: x[i] * x[i], "square")
        return te.compute(x.shape, lambda i: square[i] + square[4 - i] * x[i], "y")

    (got,) = adjoint(formula, X)
    np.testing.assert_allclose(got, 2 * X + X[::-1] ** 2 + 2 * X * X[::-1])


def test_of_equal_maxima_the_first_takes_the_gradient():
    def formula(x):
        k = te.reduce_axis((0, 5), "k")
        return te.compute((), lambda: te.max(x[k], axis=k), "y")

    (got,) = adjoint(formula, np.array([1.0, 3.0, 2.0, 3.0, 0.0]))
    np.testing.assert_array_equal(got, [0, 1, 0, 0, 0])


def test_narrow_gradients_are_added_in_float32():
    def formula(x):
        return te.compute((5000,), lambda i: x[0] * te.const(1.0, "float16"), "y")

    (got,) = adjoint(formula, np.ones(1, "float16"))
    assert got.dtype == "float16"
    assert got[0] == 5000  # sums of float16 would stay at 2048


def test_what_has_no_derivative_is_refused():
    x = te.placeholder((5,), "float64", "x")
    k = te.reduce_axis((0, 5), "k")
    product = te.compute((), lambda: te.prod(x[k], axis=k), "product")
    head = te.placeholder((), "float64", "head")
    with pytest.raises(te.NoGradientError, match="product is a reduction other than a sum, maximum or minimum"):
        te.adjoints([product], [x], [head])
    copy = te.extern((5,), [x], lambda ins, outs: relax.tir.Evaluate(0), "copy", "float64")
    with pytest.raises(te.NoGradientError, match="copy is a statement"):
        te.adjoints([copy], [x], [te.placeholder((5,), "float64", "head")])
