"""Training of torch modules: the steps are those of eager torch, with sizes that change between steps."""

from __future__ import annotations

import copy

import pytest
import torch
from torch.nn import functional

from relax.frontend.torch import trainable
from relax.ir import DiagnosticError
from relax.training.optimizer import SGD, AdamW

BATCH = torch.export.Dim.DYNAMIC
QUICK = "llvm -opt-level=1"


def images(n, generator):
    return torch.randn(n, 2, 6, 6, generator=generator), torch.randint(0, 3, (n,), generator=generator)


class Network(torch.nn.Module):
    def __init__(self, p=0.0):
        super().__init__()
        self.conv = torch.nn.Conv2d(2, 3, 3, bias=False)
        self.norm = torch.nn.BatchNorm2d(3)
        self.dropout = torch.nn.Dropout(p)
        self.dense = torch.nn.Linear(3, 3)

    def forward(self, x):
        x = torch.relu(self.norm(self.conv(x)))
        return self.dense(self.dropout(functional.adaptive_avg_pool2d(x, 1).flatten(1)))


def started(module, optimizer):
    x, y = images(4, torch.Generator().manual_seed(0))
    shapes = (({0: BATCH},), ({0: BATCH},))
    return trainable(module, functional.cross_entropy, optimizer, (x,), (y,), dynamic_shapes=shapes, target=QUICK)


def test_steps_are_those_of_torch():
    torch.manual_seed(0)
    module = Network().train()
    eager = copy.deepcopy(module)
    training, optimizer = started(module, AdamW(0.01)), torch.optim.AdamW(eager.parameters(), 0.01)
    generator = torch.Generator().manual_seed(1)
    for n in (4, 7, 2, 5):
        x, y = images(n, generator)
        loss = functional.cross_entropy(eager(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        assert training.step((x,), (y,)) == pytest.approx(loss.item(), rel=1e-4)
    untouched = copy.deepcopy(module.state_dict())
    trained = Network()
    training.load_into(trained)
    for name, value in eager.state_dict().items():
        torch.testing.assert_close(trained.state_dict()[name], value, rtol=2e-3, atol=1e-4)
        torch.testing.assert_close(module.state_dict()[name], untouched[name])
    assert trained.norm.num_batches_tracked == 4
    with pytest.raises(TypeError, match="step: 1 inputs and targets are given, expected 2"):
        training.step((x,))
    with pytest.raises(AttributeError, match="make the optimizer with scheduled=True"):
        training.lr = 0.1
    with pytest.raises(TypeError, match="load_into: the module has no conv.weight"):
        training.load_into(torch.nn.ReLU())


class Shifted(torch.nn.Module):
    """A layer with a buffer that its state dict does not have."""

    def __init__(self):
        super().__init__()
        self.dense = torch.nn.Linear(3, 2)
        self.register_buffer("shift", torch.ones(2), persistent=False)

    def forward(self, x):
        self.shift.add_(1)
        return self.dense(x) + self.shift


def test_buffers_that_a_module_does_not_save_are_loaded():
    module, x = Shifted(), torch.ones(4, 3)
    training = trainable(module, lambda y: y.square().mean(), AdamW(0.01), (x,), target=QUICK)
    first, second = training.step((x,)), training.step((x,))
    training.load_into(module)
    assert second > first
    assert module.shift.tolist() == [3, 3]


class Tied(torch.nn.Module):
    """A table of words that is the last layer, too, as in language models."""

    def __init__(self):
        super().__init__()
        self.words, self.dense = torch.nn.Embedding(5, 4), torch.nn.Linear(4, 4)
        self.head = torch.nn.Linear(4, 5, bias=False)
        self.head.weight = self.words.weight

    def forward(self, ids):
        return self.head(self.dense(self.words(ids)).tanh())


def test_a_tied_parameter_is_trained_once_by_both_of_its_gradients():
    module, ids = Tied(), torch.tensor([0, 1, 3, 1])
    training = trainable(module, functional.cross_entropy, SGD(0.1), (ids,), (ids,), target=QUICK)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        loss = functional.cross_entropy(module(ids), ids)
        loss.backward()
        optimizer.step()
        assert training.step((ids,), (ids,)) == pytest.approx(loss.item(), rel=1e-5)
    trained = Tied()
    training.load_into(trained)
    assert trained.head.weight is trained.words.weight
    torch.testing.assert_close(trained.head.weight, module.head.weight)


class Dropped(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(1000))

    def forward(self, x):
        return functional.dropout(self.weight * x, 0.25, self.training)


def test_dropouts_draw_new_masks_and_scale():
    x = torch.ones(1000)
    training = trainable(Dropped().train(), lambda y: y.sum(), SGD(1.0, scheduled=True), (x,))
    training.seed(3)
    training.lr = 0.0
    losses = [training.step((x,)) for _ in range(3)]
    assert len(set(losses)) == 3
    assert all(abs(loss - 1000) < 60 for loss in losses)
    training.seed(3)
    assert training.step((x,)) == losses[0]
    training.lr = 0.5
    training.step((x,))
    kept = training.state_dict()["weight"]
    dropped = kept == 1
    torch.testing.assert_close(kept[~dropped], torch.full_like(kept[~dropped], 1 - 0.5 / 0.75))
    assert 150 < int(dropped.sum()) < 350


def test_frozen_parameters_stay():
    module = torch.nn.Linear(2, 1)
    module.bias.requires_grad_(False)
    x = torch.ones(3, 2)
    training = trainable(module, lambda y: y.mean(), SGD(0.1), (x,))
    before = module.weight.detach().clone()
    training.step((x,))
    torch.testing.assert_close(training.state_dict()["weight"], before - 0.1)
    torch.testing.assert_close(training.state_dict()["bias"], module.bias.detach())


def test_a_module_without_parameters_is_refused():
    with pytest.raises(DiagnosticError, match="no parameter requires a gradient"):
        trainable(torch.nn.ReLU(), torch.sum, SGD(0.1), (torch.ones(2),))
