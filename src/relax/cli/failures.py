"""Errors of the command line: diagnostics of its own, and errors of the program that runs."""

from __future__ import annotations

import importlib
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final

from ..ir import Diagnostic, DiagnosticError

SUCCESS: Final = 0
FAILURE: Final = 1
"""The exit status for an error in what was given, or a difference that was looked for."""

UNREADABLE: Final = "E7001"
"""A model that cannot be read."""
MISFIT_INPUT: Final = "E7002"
"""Inputs that do not fit the model."""
NO_PACKAGE: Final = "E7003"
"""An optional package that is not installed."""
UNSUITABLE: Final = "E7004"
"""A request that does not suit the model."""

_OF_PROGRAMS: Final = (
    ValueError,
    TypeError,
    ArithmeticError,
    AssertionError,
    LookupError,
    RecursionError,
    RuntimeError,
)
"""Errors that a running program raises: values that do not fit, indices out of range, those of packed functions."""


class ProgramError(Exception):
    """An error that came out of a running program; `__cause__` is the error itself."""


@contextmanager
def running_program() -> Generator[None]:
    """Within the ``with``, errors are those of the user's program that runs, not of this package."""
    try:
        yield
    except DiagnosticError:
        raise
    except _OF_PROGRAMS as error:
        raise ProgramError(str(error)) from error


def failure(code: str, message: str, *notes: str, hint: str = "") -> DiagnosticError:
    """An error of the command line, as a diagnostic."""
    return DiagnosticError(Diagnostic(code, message, notes=notes, hint=hint))


def optional_package(name: str, extra: str, purpose: str) -> Any:
    """An optional package. Raises DiagnosticError, saying how to install it, if it is not there."""
    package = installed_package(name)
    if package is None:
        raise failure(
            NO_PACKAGE, f"{purpose} needs the package {name}", hint=f"install it: pip install {extra}"
        )
    return package


def installed_package(name: str) -> Any:
    """An optional package, None if it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None
