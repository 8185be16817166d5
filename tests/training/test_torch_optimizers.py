"""Optimizers: ten compiled steps of each, compared with torch.optim's."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from relax.training.optimizer import SGD, Adam, AdamW, Lion, MomentumSGD, Muon

torch = pytest.importorskip("torch")

SHAPES = {"weight": (3, 4), "tall": (5, 2), "bias": (4,)}


def tensors(seed, dtype, shapes):
    rng = np.random.default_rng(seed)
    return [torch.tensor(rng.standard_normal(shape), dtype=dtype) for shape in shapes.values()]


def compiled_steps(optimizer, dtype="float64", rates=None, shapes=SHAPES):
    """The parameters after ten steps along random gradients; `rates` are the learning rates of the steps."""
    kind = getattr(torch, dtype)
    values = tensors(0, kind, shapes)
    params = [relax.Var(name, relax.TensorStructInfo(shape, dtype)) for name, shape in shapes.items()]
    mod = relax.IRModule({optimizer.name: optimizer.init(params).get_function()})
    relax.analysis.assert_well_formed(mod)
    run = relax.VirtualMachine(relax.build(mod, "llvm -opt-level=1"), relax.cpu())[optimizer.name]
    params, states = tuple(relax.runtime.nd.array(value) for value in values), optimizer.state_of(values)
    for step in range(10):
        if rates is not None:
            states = (*tuple(states)[:-1], relax.runtime.nd.array(np.asarray(rates[step], dtype)))
        gradients = tuple(relax.runtime.nd.array(value) for value in tensors(step + 1, kind, shapes))
        params, states = run(tuple(params), gradients, tuple(states))
    return [torch.from_dlpack(param) for param in params]


def torch_steps(make, dtype="float64", before=lambda params: None, rates=None, shapes=SHAPES):
    kind = getattr(torch, dtype)
    params = [torch.nn.Parameter(value) for value in tensors(0, kind, shapes)]
    optimizer = make(params)
    for step in range(10):
        for group in optimizer.param_groups if rates is not None else ():
            group["lr"] = rates[step]
        for param, gradient in zip(params, tensors(step + 1, kind, shapes), strict=True):
            param.grad = gradient
        before(params)
        optimizer.step()
    return [param.detach() for param in params]


def compare(found, expected, tolerance=1e-9):
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    "ours, theirs",
    [
        (SGD(0.1, 0.01), lambda p: torch.optim.SGD(p, 0.1, weight_decay=0.01)),
        (MomentumSGD(0.1, 0.9, 0, 0.01, True), lambda p: torch.optim.SGD(p, 0.1, 0.9, 0, 0.01, True)),
        (Adam(0.1, weight_decay=0.01), lambda p: torch.optim.Adam(p, 0.1, weight_decay=0.01)),
        (AdamW(0.1, (0.8, 0.9)), lambda p: torch.optim.AdamW(p, 0.1, (0.8, 0.9))),
    ],
    ids=["SGD", "nesterov", "Adam", "AdamW"],
)
def test_ten_steps_are_those_of_torch(ours, theirs):
    compare(compiled_steps(ours), torch_steps(theirs))


def test_momentum_without_nesterov():
    compare(compiled_steps(MomentumSGD(0.1, 0.9)), torch_steps(lambda p: torch.optim.SGD(p, 0.1, 0.9)))


def test_muon():
    matrices = {"weight": (3, 4), "tall": (6, 2)}
    found = compiled_steps(Muon(0.1), shapes=matrices)
    expected = torch_steps(lambda p: torch.optim.Muon(p, 0.1), shapes=matrices)
    compare(found, expected, 2e-2)  # both compute the direction in bfloat16, in another order of sums
    exact = compiled_steps(Muon(0.1, dtype="float64"), shapes=matrices)
    compare(exact, expected, 5e-2)


def test_muon_takes_matrices():
    with pytest.raises(relax.ir.DiagnosticError, match="expected a matrix"):
        compiled_steps(Muon(0.1))


def test_lion():
    def expected(p, gradients):
        m = np.zeros_like(p)
        for g in gradients:
            p = p * (1 - 0.1 * 0.01) - 0.1 * np.sign(0.9 * m + 0.1 * g)
            m = 0.99 * m + 0.01 * g
        return p

    found = compiled_steps(Lion(0.1, weight_decay=0.01), "float64")
    for i, value in enumerate(found):
        gradients = [tensors(step + 1, torch.float64, SHAPES)[i].numpy() for step in range(10)]
        np.testing.assert_allclose(value.numpy(), expected(tensors(0, torch.float64, SHAPES)[i].numpy(), gradients))


def test_gradients_are_clipped_by_norm():
    found = compiled_steps(SGD(0.1, clip_norm=0.5))
    clip = torch.nn.utils.clip_grad_norm_
    compare(found, torch_steps(lambda p: torch.optim.SGD(p, 0.1), before=lambda params: clip(params, 0.5)))


def test_gradients_are_clipped_by_value():
    found = compiled_steps(SGD(0.1, clip_value=0.5))
    clip = torch.nn.utils.clip_grad_value_
    compare(found, torch_steps(lambda p: torch.optim.SGD(p, 0.1), before=lambda params: clip(params, 0.5)))


def test_weight_decay_by_name():
    def groups(params):
        return torch.optim.AdamW([{"params": params[:2]}, {"params": params[2:], "weight_decay": 0.0}], 0.1)

    decay = AdamW(0.1, weight_decay=lambda name: 0.0 if name == "bias" else 0.01)
    compare(compiled_steps(decay), torch_steps(groups))


def test_the_learning_rate_changes_without_a_build():
    rates = [0.1 / (1 + step) for step in range(10)]
    found = compiled_steps(AdamW(0.0, scheduled=True), rates=rates)
    compare(found, torch_steps(lambda p: torch.optim.AdamW(p, 0.0), rates=rates))


def test_master_weights_of_bfloat16():
    found = compiled_steps(SGD(1e-3, master_weights=True), "bfloat16")
    masters = [value.float() for value in tensors(0, torch.bfloat16, SHAPES)]
    for step in range(10):
        gradients = tensors(step + 1, torch.bfloat16, SHAPES)
        masters = [p - 1e-3 * g.float() for p, g in zip(masters, gradients, strict=True)]
    compare(found, [master.bfloat16() for master in masters], 0)


def test_options_are_checked():
    with pytest.raises(TypeError, match="SGD: unexpected options clip"):
        SGD(0.1, clip=1)
    with pytest.raises(ValueError, match="clip_norm must be greater than 0, found 0"):
        SGD(0.1, clip_norm=0)
