"""Patterns by name, under TVM's names: ``"npu.add"`` belongs to the library `npu`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ..transform.fusion.fuse_ops_by_pattern import FusionPattern, PatternLike

_patterns: Final[dict[str, FusionPattern]] = {}
"""Patterns in the order in which they were registered."""


def register_patterns(entries: Sequence[PatternLike]) -> None:
    """Register patterns. A pattern of a name that is known takes the place of the one before.

    Parameters
    ----------
    entries
        FusionPatterns, or the arguments of one each: (name, pattern), (name, pattern, annotation_patterns, check), …
    """
    for entry in entries:
        pattern = entry if isinstance(entry, FusionPattern) else FusionPattern(*entry)
        _patterns[pattern.name] = pattern


def get_patterns_with_prefix(prefix: str) -> list[FusionPattern]:
    """Return the patterns whose names begin with `prefix`, those registered last first, as in TVM."""
    return [pattern for name, pattern in reversed(_patterns.items()) if name.startswith(prefix)]


def get_pattern(name: str) -> FusionPattern | None:
    """Return the pattern of a name; None if there is none."""
    return _patterns.get(name)
