"""Tests of programs of torch, which need the package."""

from __future__ import annotations

import pytest

from relax.frontend.torch import registry
from relax.frontend.torch.compile import options

try:
    import torch
except ImportError:
    torch = None


def pytest_collectstart(collector):
    """The random constants of a test module are the same in each run, whatever was loaded before."""
    if torch is not None and isinstance(collector, pytest.Module):
        torch.manual_seed(0)


@pytest.fixture(autouse=True)
def _same_numbers():
    """The random numbers of a test are the same in each run, whatever ran before."""
    if torch is not None:
        torch.manual_seed(0)


@pytest.fixture(autouse=True)
def _tier(monkeypatch):
    """Torch's modules are compiled without background processes, whose work would go on behind a test."""
    monkeypatch.setitem(options.MODES, "default", "full")


@pytest.fixture
def agrees():
    """The check of `torch_programs`: a module's program computes what torch does."""
    from torch_programs import check

    return check


@pytest.fixture
def without(monkeypatch):
    """A registry that can be changed for one test."""
    monkeypatch.setattr(registry, "_CONVERTERS", dict(registry._CONVERTERS))
    return registry._CONVERTERS
