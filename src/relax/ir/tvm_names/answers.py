"""Errors for names of TVM that are missing here."""

from __future__ import annotations

import dis
import os
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from ...runtime.rooms import ModuleWhenUsed
from ..diagnostics import Diagnostic, DiagnosticError
from ..python_source import caller_span
from ..span import Span

if TYPE_CHECKING:
    from . import names
    from .table import Row
else:  # the table is long, and few programs ask for a name that is not there
    names = ModuleWhenUsed("relax.ir.tvm_names.names")

_CODE: Final = "E4301"
_LOOKUPS: Final = (str(Path(__file__).parents[2]) + os.sep, "<frozen importlib")
"""File name prefixes of frames between the user's line and the error."""
_IMPORT_FROM: Final = dis.opmap["IMPORT_FROM"]


class MissingNameError(DiagnosticError, AttributeError):
    """A missing name of TVM, with its replacement."""


class MissingImportError(DiagnosticError, ModuleNotFoundError):
    """A missing name of TVM in an import, with its replacement."""


def missing(module: str, name: str) -> Exception:
    """Error for an attribute that a module lacks.

    An ImportError for ``from module import name``, which would drop an AttributeError's text; otherwise an
    AttributeError.
    """
    row = _absent(module, name)
    if row is None:
        return AttributeError(f"module {module!r} has no attribute {name!r}")
    frame = _user_frame()
    kind = MissingImportError if frame is not None and _is_importing(frame) else MissingNameError
    return kind(_diagnostic(module, row, None if frame is None else caller_span(frame)))


def missing_module(module: str, name: str) -> MissingImportError | None:
    """Error for importing a missing module; None if TVM has no such module either."""
    row = _absent(module, name)
    if row is None:
        return None
    frame = _user_frame()
    return MissingImportError(_diagnostic(module, row, None if frame is None else caller_span(frame)))


def reason(module: str, name: str) -> str:
    """Reason for which a module lacks a name of TVM, and its replacement; "" for other names."""
    row = _absent(module, name)
    if row is None:
        return ""
    return f"use `{row.here}`" if row.renamed else f"not built yet: {row.note}"


def answer_missing(name: str, owner: types.ModuleType | type | None = None) -> None:
    """Make a module (or class) raise `missing` for missing names, after its own ``__getattr__``."""
    module = sys.modules[name] if owner is None else owner
    before = cast("Callable[..., Any] | None", module.__dict__.get("__getattr__"))

    def lookup(*arguments: Any) -> Any:
        if before is not None:
            try:
                return before(*arguments)
            except AttributeError:
                if _absent(name, arguments[-1]) is None:
                    raise
        raise missing(name, arguments[-1])

    setattr(module, "__getattr__", lookup)  # noqa: B010 (hidden from type checkers, which report what is misspelt)


def _absent(module: str, name: str) -> Row | None:
    """Row of a name that is not implemented, or has another name here."""
    if name.startswith("_"):  # what Python and tools look for is no name of TVM, and does not load the table
        return None
    row = names.row_of(module, name)
    return row if row is not None and (row.status == "not yet" or row.renamed) else None


def _diagnostic(module: str, row: Row, span: Span | None) -> Diagnostic:
    if row.renamed:
        message = f"{row.module}.{row.name} is called {row.here} here"
        return Diagnostic(_CODE, message, span, hint=f"use `{row.here}`")
    return Diagnostic(_CODE, f"{row.module}.{row.name} is not built yet", span, hint=row.note)


def _user_frame() -> types.FrameType | None:
    """Frame that looked up the name."""
    frame: types.FrameType | None = cast("Any", sys)._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_LOOKUPS):
        frame = frame.f_back
    return frame


def _is_importing(frame: types.FrameType) -> bool:
    """True if a frame executes the import of a name in ``from module import name``."""
    code = frame.f_code.co_code
    return 0 <= frame.f_lasti < len(code) and code[frame.f_lasti] == _IMPORT_FROM
