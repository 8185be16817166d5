"""Tests of programs of torch, which need the package."""

from __future__ import annotations

import pytest


@pytest.fixture
def agrees():
    """The check of `torch_programs`: a module's program computes what torch does."""
    from torch_programs import check

    return check
