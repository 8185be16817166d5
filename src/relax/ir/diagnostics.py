"""Diagnostics: every complaint about a user's program, rendered with the source it is about.

    error[E3102]: matmul: the reduced dimensions differ
      --> mlp.py:14:15
       |
    14 |         h = R.matmul(x, w)
       |             ^^^^^^^^^^^^^^ in main, inside a dataflow block
       = x: R.Tensor((n, 784), "float32")      last dimension 784
       = help: transpose w

Codes are stable, and each is declared in `codes/`, with what it means: E1xxx parsing, E2xxx well-formedness (E20RR is
rule RR of the language), E3xxx struct info and operators, E4xxx passes and building, E5xxx loops, E6xxx importing and
exporting, E7xxx the command line, E8xxx schedules, E9xxx Relay; W is a warning.
"""

from __future__ import annotations

import threading
import traceback
import unicodedata
import warnings
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import field, replace
from typing import Final, Literal

from ..runtime.forks import hold_at_fork
from ..runtime.records import dataclass
from . import tracebacks
from .span import Span

Level = Literal["error", "warning", "note"]

_LONGEST_LINE: Final = 200
_LONGEST_MESSAGE: Final = 2000
_UNSEEN: Final = dict.fromkeys(
    [*range(9), *range(10, 32), *range(127, 160), *range(0x202A, 0x202F), *range(0x2066, 0x206A)], "�"
)
"""Control characters of terminals and bidirectional controls, which are not printed in source lines."""


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """A diagnostic. `notes` are facts (operands, expected and found), `hint` says what to do.

    A hint that is Python code has a counterpart for the command line, `shell_hint`, which commands show instead.
    """

    code: str
    message: str
    span: Span | None = None
    label: str = ""
    notes: tuple[str, ...] = ()
    hint: str = ""
    level: Level = "error"
    shell_hint: str = ""

    def render(self, *, shell: bool = False) -> str:
        """Text shown to the user, in Python or in a shell, with lines of bounded length. Never raises."""
        out = [_bounded(f"{self.level}[{self.code}]: {self.message}")]
        gutter = 1
        if self.span is not None:
            gutter = len(str(self.span.line))
            out += _excerpt(self.span, self.label, gutter)
        elif self.label:
            out.append(f"  --> {self.label}")
        pad = " " * gutter
        out += [_bounded(f"{pad} = {note}") for note in self.notes]
        hint = (shell and self.shell_hint) or self.hint
        if hint:
            out.append(_bounded(f"{pad} = help: {hint}"))
        return "\n".join(out)

    def __str__(self) -> str:
        return self.render()


def _excerpt(span: Span, label: str, gutter: int) -> list[str]:
    pad = " " * gutter
    out = [f"{pad} --> {span.source.name}:{span.line}:{span.column}"]
    text = span.source.line(span.line)
    if not text:
        return [*out, f"{pad} = {label}"] if label else out
    end = span.end_column if span.end_line == span.line else len(text) + 1
    text, start, end = _window(text, span.column - 1, end - 1)
    lead = "".join(map(_blank, text[:start]))
    carets = "^" * max(1, sum(len(_blank(char)) for char in text[start:end]))
    return [*out, f"{pad} |", f"{span.line} | {text.translate(_UNSEEN)}", f"{pad} | {lead}{carets} {label}".rstrip()]


def _bounded(text: str) -> str:
    """Abbreviate very long lines in the middle: names, strings and annotations can have any length."""
    if len(text) <= _LONGEST_MESSAGE:
        return text
    half = _LONGEST_MESSAGE // 2
    lines = text.split("\n")
    return "\n".join(line if len(line) <= _LONGEST_MESSAGE else f"{line[:half]} … {line[-half:]}" for line in lines)


def _window(text: str, start: int, end: int) -> tuple[str, int, int]:
    """Return (visible part of a line, start, end of the marked characters in it).

    A line of up to `_LONGEST_LINE` characters is shown whole, a longer one as a window around the start of the mark,
    with … at cut ends.
    """
    if len(text) <= _LONGEST_LINE:
        return text, start, end
    first = max(0, min(start - _LONGEST_LINE // 4, len(text) - _LONGEST_LINE))
    last = min(len(text), first + _LONGEST_LINE)
    before, after = "…" * (first > 0), "…" * (last < len(text))
    shift = len(before) - first
    return f"{before}{text[first:last]}{after}", start + shift, min(end, last) + shift


def _blank(char: str) -> str:
    """White space as wide as a character, so that carets are aligned; a tab stays a tab."""
    if char == "\t":
        return "\t"
    if unicodedata.combining(char):
        return ""
    return "  " if unicodedata.east_asian_width(char) in "WF" else " "


class DiagnosticError(ValueError, TypeError):
    """One or more errors in a user's program, held in `diagnostics`.

    Errors may concern values or types: both ``except ValueError`` and ``except TypeError`` catch it. ``str(error)`` is
    the rendered text of all errors.
    """

    def __init__(self, diagnostics: Diagnostic | Iterable[Diagnostic]) -> None:
        if isinstance(diagnostics, Diagnostic):
            diagnostics = (diagnostics,)
        self.diagnostics: tuple[Diagnostic, ...] = tuple(diagnostics)
        super().__init__(self.render())

    def placed(self, span: Span | None) -> DiagnosticError:
        """The same errors, with `span` for those without one."""
        return DiagnosticError(d if d.span is not None else replace(d, span=span) for d in self.diagnostics)

    def __str__(self) -> str:
        # A traceback prints "module.Name: " before the text; start on a line of its own.
        return f"\n{self.render()}"

    def render(self, *, shell: bool = False) -> str:
        """Text of all errors, with the hints for Python or for a shell."""
        return "\n\n".join(d.render(shell=shell) for d in self.diagnostics)

    def _render_traceback_(self) -> list[str]:
        """Lines that IPython and notebooks print for an uncaught error."""
        if tracebacks.shows_all_frames():
            return traceback.format_exception(self)
        return "".join(tracebacks.shortened(self)).splitlines()


tracebacks.install(DiagnosticError)


class RelaxWarning(UserWarning):
    """A warning delivered through Python's `warnings`, made of a diagnostic."""

    def __init__(self, message: str, diagnostic: Diagnostic | None = None) -> None:
        super().__init__(message)
        self.diagnostic = diagnostic


@dataclass
class DiagnosticContext:
    """Collector of one stage's diagnostics, which are reported together."""

    diagnostics: list[Diagnostic] = field(default_factory=list[Diagnostic])

    def emit(self, diagnostic: Diagnostic) -> None:
        self.diagnostics.append(diagnostic)

    @property
    def errors(self) -> list[Diagnostic]:
        return [d for d in self.diagnostics if d.level == "error"]

    def finish(self) -> None:
        """Deliver warnings; raise DiagnosticError if there were errors."""
        pending, self.diagnostics = self.diagnostics, []
        for diagnostic in pending:
            if diagnostic.level != "error":
                emit_warning(diagnostic)
        errors = [d for d in pending if d.level == "error"]
        if errors:
            raise DiagnosticError(errors)

    @contextmanager
    def collect(self) -> Generator[None]:
        """Context manager: collect the diagnostics of a DiagnosticError raised inside, and continue after the block."""
        try:
            yield
        except DiagnosticError as error:
            self.diagnostics.extend(error.diagnostics)


_lock = threading.Lock()
hold_at_fork(_lock)
_delivered = 0


def warning_count() -> int:
    """Number of warnings delivered in this process so far."""
    return _delivered


def emit_warning(diagnostic: Diagnostic) -> None:
    """Deliver a warning through Python's `warnings` (category RelaxWarning)."""
    global _delivered
    with _lock:
        _delivered += 1
    warnings.warn(RelaxWarning("\n" + diagnostic.render(), diagnostic), stacklevel=3)
