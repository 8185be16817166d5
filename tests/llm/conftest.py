"""Settings of the tests of language models: programs are compiled with their loops as written, but for a few files."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from relax.target import Target
from support import PLAIN_LOOPS

SCHEDULED = {"test_language_model.py", "test_mamba2.py", "test_runner.py", "test_server.py"}
"""Files that compile models as users do: results have the same bits however tokens are fed, memory is flat."""


@pytest.fixture(autouse=True, scope="module")
def _plain_loops(request: pytest.FixtureRequest) -> Generator[None, None, None]:
    """Set the target of models that are loaded."""
    if request.path.name in SCHEDULED:
        yield
        return
    with Target(PLAIN_LOOPS):
        yield
