"""Tests of programs of torch, which need the package."""

from __future__ import annotations

import pytest

from relax.frontend.torch import registry


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
