"""Relations between patterns: uses of one's value by another's, and shapes that agree. A PatternContext collects them.

`Rules` is what a context collects while it is open. Patterns made meanwhile are looked for together, each in a binding
of its own; a pattern that became part of another is found with that one.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from .matching import Pattern


class Use(NamedTuple):
    """The value of one pattern is an operand of the other's: at a position, or anywhere (-1)."""

    used: Pattern
    user: Pattern
    position: int
    only: bool
    """True if nothing else uses the value."""


class SameShapeConstraint:
    """All values that some patterns match have one shape."""

    def __init__(self, *args: Pattern) -> None:
        self.patterns = args
        rules = active_rules()
        if rules is not None:
            rules.same_shapes.append(self)


@dataclass
class Rules:
    """The patterns and relations of a context."""

    wholes: dict[Pattern, None] = field(default_factory=dict[Pattern, None])
    """The patterns that are no part of others, in order: of calls, fields and tuples, and those in relations."""
    uses: list[Use] = field(default_factory=list[Use])
    same_shapes: list[SameShapeConstraint] = field(default_factory=list[SameShapeConstraint])

    def built(self, pattern: Pattern, parts: Iterable[Pattern]) -> None:
        """Note a new pattern, of which others are parts."""
        for part in parts:
            if not any(part in use[:2] for use in self.uses):
                self.wholes.pop(part, None)
        if pattern.is_computed:
            self.wholes[pattern] = None

    def add_use(self, use: Use) -> None:
        """Note a use; both patterns are looked for."""
        self.uses.append(use)
        self.wholes.setdefault(use.used)
        self.wholes.setdefault(use.user)

    def copy(self) -> Rules:
        """A copy that goes on by itself."""
        return Rules(dict(self.wholes), list(self.uses), list(self.same_shapes))


_OPEN = threading.local()


def active_rules() -> Rules | None:
    """The rules of the innermost open context of this thread; None outside of any."""
    rules: list[Rules] = getattr(_OPEN, "rules", [])
    return rules[-1] if rules else None


def open_rules(rules: Rules) -> None:
    """Let new patterns and relations go to these rules."""
    _OPEN.rules = [*getattr(_OPEN, "rules", []), rules]


def close_rules() -> None:
    """Go back to the rules that were active before."""
    _OPEN.rules = _OPEN.rules[:-1]
