"""relax.eager: operators on arrays."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

import relax
from relax.ir import DiagnosticError
from relax.runtime import nd
from relax.vm.eager import eager
from support import same

module = importlib.import_module("relax.vm.eager")
"""The file, whose name in its package is the function."""
X = np.arange(6, dtype="float32").reshape(2, 3)


@pytest.fixture
def builds(monkeypatch):
    """A list that grows with each build."""
    made = []
    build = module.build

    def counted(mod, **options):
        made.append(mod)
        return build(mod, **options)

    monkeypatch.setattr(module, "build", counted)
    monkeypatch.setattr(module, "_programs", {})
    monkeypatch.setattr(module, "_general", {})
    return made


@pytest.mark.parametrize("make", [np.asarray, nd.array, np.asfortranarray, lambda a: nd.array(a).tensor])
def test_arrays(make):
    same(eager(relax.op.add)(make(X), make(X)), X + X)


def test_lists_attributes_and_tuples_of_results():
    same(eager(relax.op.concat)([X, X], axis=1), np.concatenate([X, X], 1))
    same(eager(relax.op.split)(X, 3, axis=1), [X[:, :1], X[:, 1:2], X[:, 2:]])
    same(eager(relax.op.sum)(X, axis=1), X.sum(1))
    same(eager(relax.op.sum)(X, axis=[1], keepdims=True), X.sum(1, keepdims=True))
    same(eager(relax.op.strided_slice)(X, [1], [-2], [3]), X[:, -2:])


def test_a_function_of_several_operators():
    same(eager(lambda x: relax.op.multiply(relax.op.add(x, x), x))(X), 2 * X * X)


def test_a_view_is_a_copy():
    x = X.copy()
    y = eager(relax.op.reshape)(x, (3, 2))
    x[:] = 0
    same(y, X.reshape(3, 2))


def test_new_shapes_need_no_build(builds):
    relu = eager(relax.op.nn.relu)
    for shape in ((2, 3), (7, 5), (2, 3), (1000, 2)):
        same(relu(np.full(shape, -1.0, "float32")), np.zeros(shape, "float32"))
    assert len(builds) == 1
    same(relu(X.astype("float64")), X.astype("float64"))
    assert len(builds) == 2


def test_large_constants_of_equal_text_are_not_taken_for_each_other():
    zeros = np.zeros(5000, "float32")
    other = zeros.copy()
    other[2500] = 7
    add = eager(relax.op.add)
    same(add(zeros, relax.const(zeros)), zeros)
    same(add(zeros, relax.const(other)), other)


def test_negative_zero_is_another_attribute():
    full = eager(lambda x, value: relax.op.add(relax.op.multiply(x, relax.const(0.0)), relax.const(value)))
    minus = np.array([-1.0], "float32")
    assert not np.signbit(full(minus, 0.0).numpy())[0]
    assert np.signbit(full(minus, -0.0).numpy())[0]


def test_operands_that_do_not_fit():
    with pytest.raises(DiagnosticError, match="add: the shapes cannot be broadcast"):
        eager(relax.op.add)(X, np.ones(5, "float32"))
    with pytest.raises(TypeError, match="missing a required argument"):
        eager(relax.op.add)()
