"""What all tests share: how hypothesis runs."""

from __future__ import annotations

import os

from hypothesis import settings

# Compiling within an example makes its time uneven: no deadline. In CI the examples are the same each time.
settings.register_profile("dev", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, database=None, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "dev")
