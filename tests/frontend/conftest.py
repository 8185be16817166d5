"""Settings of the tests of importers: programs are compiled with their loops as written, since translation is the subject."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from relax.target import Target
from support import PLAIN_LOOPS


@pytest.fixture(autouse=True, scope="module")
def _plain_loops() -> Generator[None, None, None]:
    """Set the target of builds that name none."""
    with Target(PLAIN_LOOPS):
        yield
