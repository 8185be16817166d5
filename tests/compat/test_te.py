"""Tensor expressions as programs for TVM write them."""

from __future__ import annotations

import numpy as np
import pytest

from relax import te, tir
from support import agree

A = te.placeholder((4,), "float32", "A")
X = np.array([1, 2, 4, -8], "float32")


def check(result, expected):
    """The formula `result` of A computes `expected` of X, interpreted and compiled."""
    out = np.zeros(X.shape, str(result.dtype))
    agree(te.create_prim_func([A, result]), X, out, expected=np.asarray(expected, out.dtype), levels=(1,), rtol=1e-6)


@pytest.mark.parametrize(
    "formula, expected",
    [
        (lambda: tir.const(2.0, "float32") + A, 2 + X),
        (lambda: tir.const(2.0, "float32") * A, 2 * X),
        (lambda: tir.const(2.0, "float32") - A, 2 - X),
        (lambda: tir.const(2.0, "float32") / A, 2 / X),
        (lambda: 2.0 - A, 2 - X),
        (lambda: A / tir.const(2.0, "float32"), X / 2),
        (lambda: -A, -X),
        (lambda: A.astype("int32"), X.astype("int32")),
    ],
)
def test_a_scalar_and_a_whole_tensor(formula, expected):
    made = formula()
    assert isinstance(made, te.Tensor)
    check(made, expected)


def test_a_variable_and_a_whole_tensor():
    x = te.var("x", "float32")
    func = te.create_prim_func([A, x, x + A])
    out = np.empty(4, "float32")
    tir.interpret(func, X, 0.5, out)
    np.testing.assert_array_equal(out, X + 0.5)


def test_a_tensor_without_dimensions_is_a_scalar_beside_elements():
    s = te.placeholder((), "float32", "s")
    made = te.compute((4,), lambda i: A[i] + s, "B")
    func = te.create_prim_func([A, s, made])
    out = np.empty(4, "float32")
    tir.interpret(func, X, np.array(3, "float32"), out)
    np.testing.assert_array_equal(out, X + 3)


def test_max_and_min_of_values_and_of_axes():
    B = te.compute((4,), lambda i: te.max(A[i], te.min(A[3 - i], 2.0)), "B")
    check(B, np.maximum(X, np.minimum(X[::-1], 2)))
    C = te.compute((4,), lambda i: tir.max(A[i], A[0], 3.0, A[3]), "C")
    check(C, [3, 3, 4, 3])
    assert tir.max(1, 5, 3).value == 5
    assert tir.sum(tir.Var("i", "int32"), 1).dtype == "int32"


@pytest.mark.parametrize("reduce, expected", [(tir.max, 4), (tir.min, -8), (tir.sum, -1), (te.max, 4)])
def test_reductions_have_the_same_names(reduce, expected):
    k = te.reduce_axis((0, 4), "k")
    for made in (
        te.compute((1,), lambda i: reduce(A[k], axis=k), "B"),
        te.compute((1,), lambda i: reduce(A[k], k), "B"),
        te.compute((1,), lambda i: reduce(A[k], [k], k.var >= 0), "B"),
        te.compute((1,), lambda i: reduce(A[k], k, where=k.var >= 0), "B"),
    ):
        out = np.empty(1, "float32")
        tir.interpret(te.create_prim_func([A, made]), X, out)
        assert out[0] == expected


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda k: te.max(k.var, 3, axis=k), "expected an expression and its axes, or values only"),
        (lambda k: te.max(A[k], k, None, None, 4), "expected an expression, axis, where and init"),
        (lambda k: te.max(A, A), "is no scalar"),
        (lambda k: te.sum(A[k], axis=te.var("i")), "axis must be made by te.reduce_axis"),
    ],
)
def test_clear_errors(make, message):
    with pytest.raises(TypeError, match=message):
        make(te.reduce_axis((0, 4), "k"))
