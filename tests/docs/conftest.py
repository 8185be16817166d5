"""Makes `documents` and `both_modes` importable by the tests of this folder; documents leave no pipelines behind.

Documents show errors as users see them.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from relax.optimize import pipeline

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def registered_pipelines(monkeypatch):
    """The pipelines that a document registers are forgotten after it: messages list all there are."""
    monkeypatch.setattr(pipeline, "_PIPELINES", dict(pipeline._PIPELINES))


@pytest.fixture(autouse=True)
def errors_of_users(monkeypatch):
    """An unexpected exception of a converter is a diagnostic, as for users."""
    monkeypatch.delenv("RELAX_RAISE_UNEXPECTED")
