"""The violation that a rule reports."""

from __future__ import annotations

from ...ir import Diagnostic, Span
from ...runtime.records import dataclass
from ..program import Place


@dataclass(frozen=True, slots=True)
class Violation:
    """Violation of a rule at a position, with a hint."""

    rule: int
    message: str
    place: Place | None
    hint: str = ""
    notes: tuple[str, ...] = ()

    @property
    def span(self) -> Span | None:
        return None if self.place is None else self.place.span

    def diagnostic(self) -> Diagnostic:
        """Return the diagnostic: code E20RR for rule RR."""
        label = "" if self.place is None else self.place.label
        message = f"rule {self.rule}: {self.message}"
        return Diagnostic(f"E20{self.rule:02d}", message, self.span, label, self.notes, self.hint)
