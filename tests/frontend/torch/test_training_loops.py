"""Loops of training steps: accumulated gradients, schedules, autocast, and several processes, as in eager torch."""

from __future__ import annotations

import copy
import re

import pytest
import torch
from torch.nn import functional

from relax.frontend.torch import trainable
from relax.training.optimizer import SGD, AdamW
from relax.training.schedules import cosine

BATCH = torch.export.Dim.DYNAMIC
DYNAMIC = (({0: BATCH},), ({0: BATCH},))
QUICK = "llvm -opt-level=1"


def perceptron():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3))


def batch(n, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, 4, generator=generator), torch.randint(0, 3, (n,), generator=generator)


def started(module, optimizer, **options):
    x, y = batch(4, 0)
    return trainable(
        module, functional.cross_entropy, optimizer, (x,), (y,), dynamic_shapes=DYNAMIC, target=QUICK, **options
    )


@pytest.fixture(scope="module")
def scheduled():
    """A training with a schedule and its module; each test starts from the values of the one before."""
    module = perceptron()
    return module, started(module, SGD(cosine(0.2, 10, warmup=2)))


def test_accumulated_gradients_are_averaged_and_the_schedule_sets_the_rate(scheduled):
    module, training = scheduled
    eager, rate = copy.deepcopy(module), cosine(0.2, 10, warmup=2)
    optimizer = torch.optim.SGD(eager.parameters(), 1.0)
    for update in range(4):
        for group in optimizer.param_groups:
            group["lr"] = rate(update)
        optimizer.zero_grad()
        for part in range(3):
            x, y = batch(5, 10 * update + part)
            loss = functional.cross_entropy(eager(x), y)
            (loss / 3).backward()
            assert training.backward((x,), (y,)) == pytest.approx(loss.item(), rel=1e-5)
        optimizer.step()
        training.update()
        assert training.lr == pytest.approx(rate(update))
    for name, value in eager.state_dict().items():
        torch.testing.assert_close(training.state_dict()[name], value)


def test_an_update_without_gradients_is_refused(scheduled):
    with pytest.raises(RuntimeError, match="no gradients were collected since the last update: call backward first"):
        scheduled[1].update()
    with pytest.raises(RuntimeError, match=re.escape("call torch.distributed.init_process_group first")):
        scheduled[1].distribute()


def test_autocast_computes_in_bfloat16_with_parameters_of_float32():
    module = perceptron()
    eager = copy.deepcopy(module)
    training = started(module, AdamW(0.01), autocast=torch.bfloat16)
    assert "bfloat16" in training.mod["main_adjoint"].script()
    optimizer = torch.optim.AdamW(eager.parameters(), 0.01)
    for seed in range(3):
        x, y = batch(6, seed)
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss = functional.cross_entropy(eager(x), y)
        loss.backward()
        optimizer.step()
        assert training.step((x,), (y,)) == pytest.approx(loss.item(), rel=2e-2)
    for name, value in eager.state_dict().items():
        assert training.state_dict()[name].dtype == torch.float32
        torch.testing.assert_close(training.state_dict()[name], value, rtol=0.05, atol=0.02)


def test_autocast_of_a_dtype_that_torch_does_not_take_is_refused():
    with pytest.raises(ValueError, match="autocast is torch.float64, expected torch.bfloat16 or torch.float16"):
        started(perceptron(), SGD(0.1), autocast=torch.float64)
