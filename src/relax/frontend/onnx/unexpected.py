"""Exceptions that no converter should raise: a diagnostic with the node for users, unchanged in tests.

The environment variable ``RELAX_RAISE_UNEXPECTED=1`` leaves such an exception unchanged. ``tests/conftest.py`` sets it,
so that a mistake in a converter fails a test that expects a diagnostic.
"""

from __future__ import annotations

import os
from typing import Final

from ...ir import DiagnosticError
from .emitter import Emitter

VARIABLE: Final = "RELAX_RAISE_UNEXPECTED"


def raises_unexpected() -> bool:
    """True if unexpected exceptions of converters are to be raised unchanged."""
    return os.environ.get(VARIABLE, "") not in ("", "0")


def unexpected(g: Emitter, error: Exception) -> DiagnosticError:
    """Return the diagnostic of an exception that the converter of the current node raised."""
    text = str(error).strip()
    return g.error(
        f"its conversion failed: {type(error).__name__}{f': {text.splitlines()[0]}' if text else ''}",
        code="E6007",
        hint="look for unusual attributes of this node; the error's __cause__ is the exception, please report it",
    )
