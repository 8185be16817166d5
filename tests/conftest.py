"""What all tests share: how hypothesis runs, and a kernel cache of their own."""

from __future__ import annotations

import os
import shutil
import tempfile

import pytest
from hypothesis import settings

# Compiling within an example makes its time uneven: no deadline. In CI the examples are the same each time.
settings.register_profile("dev", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, database=None, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "dev")


def pytest_configure(config: pytest.Config) -> None:
    """Keep the user's kernel cache out of the tests: they share one of the session's, which xdist's workers inherit."""
    if not hasattr(config, "workerinput"):
        os.environ["RELAX_CACHE_DIR"] = tempfile.mkdtemp(prefix="relax-test-cache-")


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        shutil.rmtree(os.environ["RELAX_CACHE_DIR"], ignore_errors=True)
