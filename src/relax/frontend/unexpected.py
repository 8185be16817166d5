"""Guard around converters: an unexpected exception becomes a diagnostic with the node, and stays unchanged in tests.

The environment variable ``RELAX_RAISE_UNEXPECTED=1`` leaves such an exception unchanged. ``tests/conftest.py`` sets it,
so that a mistake in a converter fails a test that expects a diagnostic.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final, Protocol

from ..ir import DiagnosticError, Span

VARIABLE: Final = "RELAX_RAISE_UNEXPECTED"


class Reporter(Protocol):
    """Emitter of an importer: makes diagnostics at the node being converted."""

    def error(self, message: str, *, code: str, hint: str) -> DiagnosticError:
        """Return a diagnostic at the node being converted."""
        ...


def raises_unexpected() -> bool:
    """True if unexpected exceptions of converters are to be raised unchanged."""
    return os.environ.get(VARIABLE, "") not in ("", "0")


@contextmanager
def guarded(g: Reporter, span: Span | None) -> Generator[None]:
    """Convert one node: place diagnostics at `span`, and raise any other exception as E6007 with its cause."""
    try:
        yield
    except DiagnosticError as error:
        raise error.placed(span) from error.__cause__
    except Exception as error:
        if raises_unexpected():
            raise
        raise unexpected(g, error) from error


def unexpected(g: Reporter, error: Exception) -> DiagnosticError:
    """Return the diagnostic of an exception that the converter of the current node raised."""
    return g.error(
        f"its conversion failed: {summary(error)}",
        code="E6007",
        hint="look for unusual attributes of this node; the error's __cause__ is the exception, please report it",
    )


def summary(error: Exception) -> str:
    """Type and first line of an exception: ``ValueError: math domain error``."""
    text = str(error).strip()
    return f"{type(error).__name__}{f': {text.splitlines()[0]}' if text else ''}"
