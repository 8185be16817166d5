"""The violation that a rule reports."""

from __future__ import annotations

from dataclasses import dataclass

from ...ir import Diagnostic, Span
from ..program import Place


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule is broken at a place; `hint` says what to do."""

    rule: int
    message: str
    place: Place | None
    hint: str = ""
    notes: tuple[str, ...] = ()

    @property
    def span(self) -> Span | None:
        return None if self.place is None else self.place.span

    def diagnostic(self) -> Diagnostic:
        """As it is shown: code E20RR, the rule's number in the message."""
        label = "" if self.place is None else self.place.label
        message = f"rule {self.rule}: {self.message}"
        return Diagnostic(f"E20{self.rule:02d}", message, self.span, label, self.notes, self.hint)
