"""Diagnostic codes: their description and declaration.

Each code is declared in exactly one module of this folder; docs/diagnostics shows each with a program that causes it.
Codes are stable: an unused one is not assigned to another error.
"""

from __future__ import annotations

import difflib
import sys
import textwrap

from ...runtime.records import dataclass


@dataclass(frozen=True, slots=True)
class Code:
    """Description of a code: a title without a full stop, and two paragraphs."""

    code: str
    title: str
    meaning: str
    way_out: str


CODES: dict[str, Code] = {}
"""All declared codes."""


def declare(code: str, title: str, meaning: str, way_out: str) -> None:
    """Declare a code. Raises ValueError if it is already declared."""
    if code in CODES:
        raise ValueError(f"the diagnostic code {code} is declared twice")
    CODES[code] = Code(code, title, meaning, way_out)


def explain(code: str) -> None:
    """Print what a diagnostic code means, and the way out: ``relax.explain("E3102")``.

    Parameters
    ----------
    code
        The code, in upper or lower case.

    Raises
    ------
    ValueError
        For what is no code, naming those that look like it.
    """
    sys.stdout.write(explanation(code))


def explanation(code: str) -> str:
    """Text printed by `explain`. Raises ValueError if `code` is not a diagnostic code."""
    entry = CODES.get(code.strip().upper())
    if entry is None:
        close = difflib.get_close_matches(code.upper(), CODES, 3)
        hint = f"; there are {', '.join(sorted(close))}" if close else ""
        raise ValueError(f"{code!r} is no diagnostic code{hint}")
    meaning, way_out = (textwrap.fill(text, 88) for text in (entry.meaning, entry.way_out))
    return f"{entry.code}: {entry.title}\n\n{meaning}\n\n{way_out}\n"
