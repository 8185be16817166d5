"""Random tensors of torch: their distributions, and that they differ from call to call."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from relax.frontend.torch import from_exported_program

torch = pytest.importorskip("torch")

from torch_programs import exported  # noqa: E402


def drawn(function, *inputs, dynamic=None):
    """A function that draws, for calls at any size."""
    mod = from_exported_program(exported(function, inputs, dynamic), unwrap_unit_return_tuple=True)
    main = relax.VirtualMachine(relax.build(mod), relax.cpu())["main"]
    return lambda *values: main(*values).numpy()


def test_uniform_numbers():
    draw = drawn(torch.rand_like, torch.ones(4, 5), dynamic=[[0]])
    x = draw(torch.ones(4000, 5))
    assert x.shape == (4000, 5)
    assert x.dtype == "float32"
    assert 0 <= x.min() < 0.01
    assert 0.99 < x.max() < 1
    assert abs(x.mean() - 0.5) < 0.02
    assert (x != draw(torch.ones(4000, 5))).mean() > 0.9
    assert draw(torch.ones(0, 5)).shape == (0, 5)


def test_normal_numbers():
    x = drawn(lambda x: torch.randn(x.shape[0], 8, dtype=torch.float64) + x, torch.zeros(4, 8), dynamic=[[0]])(
        torch.zeros(3000, 8)
    )
    assert x.dtype == "float64"
    assert abs(x.mean()) < 0.03
    assert abs(x.std() - 1) < 0.03


@pytest.mark.parametrize(
    ("function", "values"),
    [
        (lambda x: torch.randint(-2, 3, (1000,)), {-2, -1, 0, 1, 2}),
        (lambda x: torch.randint(4, (10, 100), dtype=torch.int32), {0, 1, 2, 3}),
        (lambda x: torch.randint_like(x, 3), {0.0, 1.0, 2.0}),
        (lambda x: torch.randint_like(x, 1, 3), {1.0, 2.0}),
    ],
)
def test_integers(function, values):
    assert set(drawn(function, torch.ones(500))(torch.ones(500)).flat) == values


def test_permutation():
    draw = drawn(lambda x: torch.randperm(x.shape[0]), torch.ones(5), dynamic=[[0]])
    order = draw(torch.ones(100))
    np.testing.assert_array_equal(np.sort(order), np.arange(100))
    assert (order != np.arange(100)).any()
    assert draw(torch.ones(0)).shape == (0,)


def test_main_is_not_pure():
    program = exported(lambda x: x + torch.rand_like(x), [torch.ones(3)])
    assert not from_exported_program(program)["main"].is_pure
    assert from_exported_program(exported(lambda x: x + 1, [torch.ones(3)]))["main"].is_pure
