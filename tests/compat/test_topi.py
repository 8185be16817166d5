"""Formulas of topi emitted by name, as builders of networks do."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from relax import topi
from support import PLAIN_LOOPS, numbers, run


def result(function, arrays, **options):
    """The result of a formula emitted on `arrays`."""
    params = [relax.Var(f"x{i}", relax.TensorStructInfo(a.shape, "float32")) for i, a in enumerate(arrays)]
    bb = relax.BlockBuilder()
    with bb.function("main", params):
        bb.emit_func_output(bb.emit_te(function, *params, **options))
    return run(bb.get(), *arrays)


@pytest.mark.parametrize("rows", [0, 1, 5])
def test_dense(rows):
    x, w, b = numbers(rows, 4), numbers(3, 4, seed=1), numbers(3, seed=2)
    np.testing.assert_allclose(result(topi.nn.dense, [x, w]), x @ w.T, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(result(topi.nn.dense, [x, w, b]), x @ w.T + b, rtol=1e-4, atol=1e-5)


def test_matmul_and_flatten():
    x, w = numbers(2, 4), numbers(4, 3, seed=1)
    np.testing.assert_allclose(result(topi.nn.matmul, [x, w]), x @ w, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(result(topi.nn.flatten, [x]), x.reshape(-1))


def test_bias_add_and_leaky_relu():
    x, b = numbers(2, 3, 4), numbers(3, seed=1)
    np.testing.assert_allclose(result(topi.nn.bias_add, [x, b], axis=1), x + b[:, None], rtol=1e-6)
    np.testing.assert_allclose(result(topi.nn.leaky_relu, [x], alpha=0.1), np.where(x > 0, x, x * 0.1), rtol=1e-5)


@pytest.mark.parametrize("size", [0, 1, 4])
def test_pad(size):
    x = numbers(size, 3)
    out = result(topi.nn.pad, [x], pad_before=[1, 0], pad_after=[2, 1], pad_value=-1.0)
    np.testing.assert_array_equal(out, np.pad(x, ((1, 2), (0, 1)), constant_values=-1))
    np.testing.assert_array_equal(result(topi.nn.pad, [x], pad_before=[1, 1]), np.pad(x, 1))


def test_pipelines_by_name():
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo((relax.tir.Var("n", "int64"), 4), "float32"))
    with bb.function("main", [x]):
        bb.emit_func_output(bb.emit(relax.op.nn.relu(x)))
    mod = relax.get_pipeline("zero")(bb.get())
    out = relax.VirtualMachine(relax.build(mod, PLAIN_LOOPS), relax.device("llvm"))["main"](numbers(3, 4))
    np.testing.assert_array_equal(out.numpy(), np.maximum(numbers(3, 4), 0))
    both = relax.transform.Sequential(passes=[relax.get_pipeline("zero")], opt_level=0, name="all", required=[])
    assert relax.analysis.well_formed(both(bb.get()))
