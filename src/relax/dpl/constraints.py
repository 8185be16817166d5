"""Constraints between patterns, collected by a PatternContext: uses of one pattern's value by another's, and equal
shapes.

`Rules` holds the patterns and constraints created while a context is open. Root patterns match separate bindings; a
pattern that is part of another is matched with that one.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import field
from typing import NamedTuple

from ..runtime.records import dataclass
from .matching import Pattern


class Use(NamedTuple):
    """Constraint: the value of one pattern is an operand of the other's, at a position or anywhere (-1)."""

    used: Pattern
    user: Pattern
    position: int
    only: bool
    """True if the value has no other use."""


class SameShapeConstraint:
    """Constraint: the values of several patterns have one shape."""

    def __init__(self, *args: Pattern) -> None:
        self.patterns = args
        rules = active_rules()
        if rules is not None:
            rules.same_shapes.append(self)


@dataclass
class Rules:
    """Patterns and constraints of a context."""

    wholes: dict[Pattern, None] = field(default_factory=dict[Pattern, None])
    """Root patterns in order: those of calls, fields and tuples, and those in constraints."""
    uses: list[Use] = field(default_factory=list[Use])
    same_shapes: list[SameShapeConstraint] = field(default_factory=list[SameShapeConstraint])

    def built(self, pattern: Pattern, parts: Iterable[Pattern]) -> None:
        """Record a new pattern; its parts cease to be roots unless they have a use constraint."""
        for part in parts:
            if not any(part in use[:2] for use in self.uses):
                self.wholes.pop(part, None)
        if pattern.is_computed:
            self.wholes[pattern] = None

    def add_use(self, use: Use) -> None:
        """Add a use; both patterns become roots."""
        self.uses.append(use)
        self.wholes.setdefault(use.used)
        self.wholes.setdefault(use.user)

    def copy(self) -> Rules:
        """Return an independent copy."""
        return Rules(dict(self.wholes), list(self.uses), list(self.same_shapes))


_OPEN = threading.local()


def active_rules() -> Rules | None:
    """Rules of the innermost open context of this thread; None outside of any."""
    rules: list[Rules] = getattr(_OPEN, "rules", [])
    return rules[-1] if rules else None


def open_rules(rules: Rules) -> None:
    """Make these rules collect new patterns and constraints."""
    _OPEN.rules = [*getattr(_OPEN, "rules", []), rules]


def close_rules() -> None:
    """Restore the previously active rules."""
    _OPEN.rules = _OPEN.rules[:-1]
