"""Parser errors: their codes, and functions that raise them.

E1001  the text is not Python, or a statement or expression the script language does not have
E1002  a name that is not defined
E1003  an attribute, operator or namespace member that does not exist
E1004  a call that its function rejects (wrong arguments)
E1005  operands that do not go together, or a value of the wrong kind
E1006  something text given to `from_source` may not do
E1007  the source of a decorated object cannot be found
E1008  a decorator, signature or module member that is not as it must be
E1009  an annotation that is missing, or is no struct info
E1010  a statement in the wrong place
W1011  Python's print, which runs while the program is read
W1012  a function in an older spelling whose effects its decorator does not state
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Final, NoReturn

from ....ir import Diagnostic, DiagnosticError, Span

SYNTAX = "E1001"
UNDEFINED = "E1002"
ATTRIBUTE = "E1003"
CALL = "E1004"
KIND = "E1005"
FORBIDDEN = "E1006"
NO_SOURCE = "E1007"
DECLARATION = "E1008"
ANNOTATION = "E1009"
PLACE = "E1010"
PRINT = "W1011"
IMPURE = "W1012"

_LONGEST_NAME: Final = 100
"""Maximum length of names that get hints, as comparison time grows with the product of lengths."""


def error(
    code: str, message: str, span: Span | None, *, hint: str = "", label: str = "", notes: Iterable[str] = ()
) -> DiagnosticError:
    """Build a DiagnosticError with one diagnostic."""
    return DiagnosticError(Diagnostic(code, message, span, label, tuple(notes), hint))


def fail(
    code: str, message: str, span: Span | None, *, hint: str = "", label: str = "", notes: Iterable[str] = ()
) -> NoReturn:
    """Raise `error(...)`."""
    raise error(code, message, span, hint=hint, label=label, notes=notes)


def close(name: str, defined: Iterable[str]) -> str:
    """Hint with a defined name similar to `name`; empty if there is none."""
    if len(name) > _LONGEST_NAME:
        return ""
    names = sorted({other for other in defined if len(other) <= _LONGEST_NAME})
    similar = difflib.get_close_matches(name, names, 3)
    similar += [n for n in names if n.lower() == name.lower() and n not in similar]
    similar += [n for n in names if n.rsplit(".", 1)[-1] == name and n not in similar][:3]
    return "did you mean " + " or ".join(f"`{n}`" for n in similar) + "?" if similar else ""


class Poisoned(Exception):
    """Raised for the use of a name whose definition failed: the statement is dropped without another error."""


class _Poison:
    """Placeholder for the value of a definition that failed."""

    def __repr__(self) -> str:
        return "<failed definition>"


POISON = _Poison()
