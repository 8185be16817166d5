"""Spans: the stretch of source text that a node came from.

Spans hold a ``Source`` by reference, so an error can show the guilty line long after parsing, even when
the text came from a string or a notebook cell.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property


def split_lines(text: str) -> list[str]:
    """The lines as Python counts them; `str.splitlines` also ends one at form feeds and other separators."""
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


@dataclass(frozen=True, eq=False)
class Source:
    """A text that was parsed: its display name (a path, or ``<string>``) and its lines."""

    name: str
    text: str = field(repr=False)
    first_line: int = 1
    """Line number, in the file called `name`, of the text's first line."""

    def line(self, number: int) -> str:
        """The text of a line, numbered as in the file; empty when out of range."""
        index = number - self.first_line
        return self._lines[index] if 0 <= index < len(self._lines) else ""

    @cached_property
    def _lines(self) -> list[str]:
        return split_lines(self.text)


@dataclass(frozen=True, slots=True)
class Span:
    """Lines and columns of a stretch of source; both count from 1, `end_column` is exclusive."""

    source: Source
    line: int
    column: int
    end_line: int
    end_column: int

    def __str__(self) -> str:
        return f"{self.source.name}:{self.line}:{self.column}"

    def to(self, other: Span) -> Span:
        """From the start of this span to the end of the other."""
        return Span(self.source, self.line, self.column, other.end_line, other.end_column)
