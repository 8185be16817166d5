"""The target for which passes ask schedule rules."""

from __future__ import annotations

from ..target import Target


def current_target() -> Target | None:
    """Return the current target (``with target:``); None if there is none, or it is not resolved."""
    target = Target.current()
    return target if target is not None and target.is_resolved else None
