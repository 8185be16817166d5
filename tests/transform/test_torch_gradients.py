"""Gradients of imported functions, compared with torch's autograd: at ties and kinks, where differences say nothing."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from relax.frontend.torch import from_exported_program

torch = pytest.importorskip("torch")
F = torch.nn.functional

TIES = torch.tensor([[1.0, 3.0, 3.0, 0.0, -1.0, 0.0], [2.0, 2.0, 2.0, 2.0, 0.0, 5.0]])

FIRST_SEES_NOTHING = torch.tensor([[False] * 4, [True, False, False, False], [True] * 4, [False, True, True, False]])


class Scalar(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        y = self.function(x)
        return (y * torch.arange(1, y.numel() + 1).reshape(y.shape)).sum()


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.amax(1),
        lambda x: x.amin(0),
        lambda x: x.prod(1),
        lambda x: x.cumprod(1),
        torch.relu,
        torch.abs,
        lambda x: F.max_pool1d(x, 3, 1),
        lambda x: F.max_pool2d(x.reshape(1, 1, 2, 6), 2, 1),
        lambda x: x.clamp(0, 2),
        lambda x: F.gelu(x, approximate="tanh"),
        lambda x: F.pad(x[None], (2, 1), "reflect"),
        lambda x: F.pad(x[None], (2, 1), "replicate"),
        lambda x: x.flip(1)[:, ::2],
        lambda x: (x * torch.linspace(1, 1.5, 6)).topk(2, 1).values,
        lambda x: F.interpolate(x[None], scale_factor=2.0, mode="linear"),
        lambda x: F.scaled_dot_product_attention(*[x.reshape(1, 1, 4, 3)] * 3, is_causal=True),
        lambda x: F.scaled_dot_product_attention(*[x.reshape(1, 1, 4, 3)] * 3, FIRST_SEES_NOTHING),
    ],
)
def test_gradients_are_those_of_autograd(function):
    module = Scalar(function)
    x = TIES.clone().requires_grad_()
    module(x).backward()
    program = torch.export.export(module, (TIES,), strict=False)
    mod = from_exported_program(program, unwrap_unit_return_tuple=True)
    adjoint = relax.transform.Gradient("main")(mod)
    _, (gradient,) = relax.interpret(adjoint, "main_adjoint", TIES.numpy())
    np.testing.assert_allclose(gradient.numpy(), x.grad.numpy(), rtol=2e-5, atol=1e-5)
