"""Names of relax's own pipelines, apart from the passes: `build` needs none of these for a program in the cache."""

from __future__ import annotations

from typing import Final

BUILT_IN: Final = frozenset({"default", "default_build", "graph", "lower", "unfused", "zero"})
"""The names that `pipeline` defines; no other pipeline can be registered under one of them."""
