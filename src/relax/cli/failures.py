"""Errors of the command line: diagnostics of its own, and errors of the program that runs."""

from __future__ import annotations

import importlib
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final

from ..ir import Diagnostic, DiagnosticError

SUCCESS: Final = 0
FAILURE: Final = 1
"""Exit status for an error in the input, or for a difference found by a comparison."""

UNREADABLE: Final = "E7001"
"""A model that cannot be read."""
MISFIT_INPUT: Final = "E7002"
"""Inputs that do not fit the model."""
NO_PACKAGE: Final = "E7003"
"""An optional package that is not installed."""
UNSUITABLE: Final = "E7004"
"""A request that does not apply to the model."""
CACHE_FILE: Final = "E7005"
"""A file of cached kernels that cannot be written or imported."""

_OF_PROGRAMS: Final = (
    ValueError,
    TypeError,
    ArithmeticError,
    AssertionError,
    LookupError,
    RecursionError,
    RuntimeError,
)
"""Exceptions of a running program: invalid values, indices out of range, errors of packed functions."""


class ProgramError(Exception):
    """Wrapper of an exception raised by a running program, its `__cause__`."""


@contextmanager
def running_program() -> Generator[None]:
    """Context manager: attribute exceptions to the user's running program, not to this package."""
    try:
        yield
    except DiagnosticError:
        raise
    except _OF_PROGRAMS as error:
        raise ProgramError(str(error)) from error


def failure(code: str, message: str, *notes: str, hint: str = "") -> DiagnosticError:
    """Build a DiagnosticError of the command line."""
    return DiagnosticError(Diagnostic(code, message, notes=notes, hint=hint))


def optional_package(name: str, extra: str, purpose: str) -> Any:
    """Import an optional package. Raises DiagnosticError with install instructions if it is missing."""
    package = installed_package(name)
    if package is None:
        raise failure(NO_PACKAGE, f"{purpose} needs the package {name}", hint=f"install it: pip install {extra}")
    return package


def installed_package(name: str) -> Any:
    """Import an optional package, None if it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None
