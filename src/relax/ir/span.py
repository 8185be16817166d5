"""Spans: ranges of source text from which nodes were created.

A span refers to its ``Source``, so an error can show the line long after parsing, even if the text came from a string
or a notebook cell.
"""

from __future__ import annotations

from dataclasses import field
from functools import cached_property

from ..runtime.records import dataclass


def split_lines(text: str) -> list[str]:
    """Split text into lines as Python counts them; `str.splitlines` also splits at form feeds and other separators."""
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


@dataclass(frozen=True, eq=False)
class Source:
    """A parsed text: its display name (a path, or ``<string>``) and its lines."""

    name: str
    text: str = field(repr=False)
    first_line: int = 1
    """Number of the text's first line in the file `name`."""

    def line(self, number: int) -> str:
        """Text of a line, numbered as in the file; empty if out of range."""
        index = number - self.first_line
        return self._lines[index] if 0 <= index < len(self._lines) else ""

    @cached_property
    def _lines(self) -> list[str]:
        return split_lines(self.text)


@dataclass(frozen=True, slots=True)
class Span:
    """A range of source text; lines and columns count from 1, `end_column` is exclusive."""

    source: Source
    line: int
    column: int
    end_line: int
    end_column: int

    def __str__(self) -> str:
        return f"{self.source.name}:{self.line}:{self.column}"

    def to(self, other: Span) -> Span:
        """Span from the start of this span to the end of `other`."""
        return Span(self.source, self.line, self.column, other.end_line, other.end_column)
