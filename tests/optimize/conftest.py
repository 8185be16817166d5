"""A machine for the tests of passes that ask schedule rules."""

from __future__ import annotations

import pytest

from relax.codegen import resolve
from relax.target import Target


@pytest.fixture(scope="session")
def target() -> Target:
    """A machine with 32 registers of 512 bits, wherever the tests run."""
    return resolve("llvm -mcpu=skylake-avx512")
