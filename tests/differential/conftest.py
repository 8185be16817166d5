"""Programs of these tests are built with loops as they are written, which is quick; `make fuzz` arranges them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from differential import properties


@pytest.fixture(autouse=True, scope="session")
def plain_loops() -> Iterator[None]:
    """The level of programs, for the session."""
    before = properties.TARGET
    properties.TARGET = "llvm -opt-level=1"
    yield
    properties.TARGET = before
