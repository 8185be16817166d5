"""Optimizers: three steps of each, compared with NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from relax.ir import DiagnosticError
from relax.script import relax as R
from relax.training.optimizer import SGD, Adam, MomentumSGD, Optimizer

SHAPES = ((2, 3), (0,), ())


def steps(optimizer, dtype="float64"):
    """The parameters after three steps along random gradients; these, and the parameters before."""
    rng = np.random.default_rng(0)
    params = [relax.Var(f"p{i}", relax.TensorStructInfo(s, dtype)) for i, s in enumerate(SHAPES)]
    function = optimizer.init(params).get_function()
    mod = relax.IRModule({optimizer.name: function})
    relax.analysis.assert_well_formed(mod)
    values = before = tuple(np.asarray(rng.standard_normal(s), dtype) for s in SHAPES)
    states = optimizer.state
    gradients = [tuple(np.asarray(rng.standard_normal(s), dtype) for s in SHAPES) for _ in range(3)]
    for gradient in gradients:
        values, states = relax.interpret(mod, optimizer.name, values, gradient, states)
    assert states[0].numpy() == 3
    return [value.numpy() for value in values], gradients, before


def compare(optimizer, expected):
    """`expected` is a generator function from a parameter and its gradients, one a step, to the last parameter."""
    results, gradients, before = steps(optimizer)
    for i, (result, first) in enumerate(zip(results, before, strict=True)):
        np.testing.assert_allclose(result, expected(first, [g[i] for g in gradients]), rtol=1e-12)


@pytest.mark.parametrize("decay", [0, 0.1])
def test_sgd(decay):
    def expected(p, gradients):
        for g in gradients:
            p = p - 0.5 * (g + decay * p)
        return p

    compare(SGD(0.5, decay), expected)


@pytest.mark.parametrize("dampening, decay, nesterov", [(0, 0, False), (0.3, 0.1, False), (0, 0.1, True)])
def test_momentum(dampening, decay, nesterov):
    def expected(p, gradients):
        v = np.zeros_like(p)
        for g in gradients:
            g = g + decay * p
            v = 0.9 * v + (1 - dampening) * g
            p = p - 0.5 * (g + 0.9 * v if nesterov else v)
        return p

    compare(MomentumSGD(0.5, 0.9, dampening, decay, nesterov), expected)


@pytest.mark.parametrize("decay", [0, 0.1])
def test_adam(decay):
    def expected(p, gradients):
        m, v = np.zeros_like(p), np.zeros_like(p)
        for t, g in enumerate(gradients, 1):
            g = g + decay * p
            m, v = 0.8 * m + 0.2 * g, 0.99 * v + 0.01 * g * g
            p = p - 0.5 * (m / (1 - 0.8**t)) / (np.sqrt(v / (1 - 0.99**t)) + 1e-6)
        return p

    compare(Adam(0.5, (0.8, 0.99), 1e-6, decay), expected)


def test_the_function():
    param = relax.Var("w", relax.TensorStructInfo((3,), "float32"))

    @R.function
    def SGD_(
        params: R.Tuple(R.Tensor((3,), "float32")),
        gradients: R.Tuple(R.Tensor((3,), "float32")),
        optim_states: R.Tuple(R.Tensor((), "int64")),
    ):
        R.func_attr({"global_symbol": "SGD"})
        with R.dataflow():
            num_steps = optim_states[0]
            num_steps_new = R.add(num_steps, R.const(1, "int64"))
            p = params[0]
            g = gradients[0]
            step = R.multiply(R.const(0.1, "float32"), g)
            new = R.subtract(p, step)
            params_new = (new,)
            optim_states_new = (num_steps_new,)
            R.output(params_new, optim_states_new)
        return (params_new, optim_states_new)

    relax.ir.assert_structural_equal(SGD(0.1).init(param).get_function(), SGD_)


def test_narrow_floats():
    results, _, _ = steps(Adam(0.1), "float16")
    assert {result.dtype.name for result in results} == {"float16"}


def test_wrong_parameters():
    n = relax.tir.SizeVar("n", "int64")
    good = relax.Var("good", relax.TensorStructInfo((3,), "float32"))

    def complaint(*others):
        params = [relax.Var("p", relax.TensorStructInfo(*o)) if isinstance(o, tuple) else o for o in others]
        with pytest.raises(DiagnosticError) as error:
            SGD(0.1).init([good, *params])
        return str(error.value)

    assert 'the parameter p is R.Tensor((n,), "float32"), expected' in complaint(((n,), "float32"))
    assert "expected a tensor of floats whose sizes are numbers" in complaint(((3,), "int32"))
    assert "p is of float64, others of float32" in complaint(((3,), "float64"))
    assert "the parameter good is given twice" in complaint(good)
    with pytest.raises(DiagnosticError, match="SGD: the optimizer has no parameters yet"):
        SGD(0.1).get_function()
    with pytest.raises(NotImplementedError, match="Optimizer does not say how it updates parameters"):
        Optimizer("mine").init(good).get_function()
