"""Modules of torch beside their compiled twins."""

from __future__ import annotations

import copy

import pytest

from support import PLAIN_LOOPS

FAST = {"tier": "now", "target": PLAIN_LOOPS}


@pytest.fixture(autouse=True)
def _fresh():
    """Each test compiles for itself."""
    torch = pytest.importorskip("torch")
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


@pytest.fixture
def twins():
    """A module, and a copy of it compiled for open sizes, in the lowest tier, loops as written: graphs are the subject."""
    torch = pytest.importorskip("torch")

    def make(module, *, dynamic=True, **options):
        other = copy.deepcopy(module)
        compiled = torch.compile(other, backend="relax", dynamic=dynamic, options=FAST | options)
        return module, compiled, other

    return make


@pytest.fixture
def builds(monkeypatch):
    """The programs that were built, as a list that grows."""
    from relax.frontend.torch.compile import piece

    built, build = [], piece.build

    def counted(program, *args, **kwargs):
        built.append(program)
        return build(program, *args, **kwargs)

    monkeypatch.setattr(piece, "build", counted)
    return built


@pytest.fixture
def trains():
    """The check that a step of training gives the gradients and buffers of eager torch."""
    torch = pytest.importorskip("torch")

    def check(pair, *inputs, tolerance=1e-4):
        module, compiled, other = pair
        module.zero_grad(), other.zero_grad()
        expected, found = module(*inputs), compiled(*inputs)
        torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)
        expected.square().mean().backward()
        found.square().mean().backward()
        for (name, p), q in zip(module.named_parameters(), other.parameters(), strict=True):
            torch.testing.assert_close(q.grad, p.grad, rtol=tolerance, atol=tolerance, msg=f"gradient of {name}")
        for (name, p), q in zip(module.named_buffers(), other.buffers(), strict=True):
            torch.testing.assert_close(q, p, rtol=tolerance, atol=tolerance, msg=f"buffer {name}")

    return check
