"""Errors of training: parts of a training setup that do not fit each other."""

from __future__ import annotations

from typing import Final

from ..ir import Diagnostic, DiagnosticError, Span

CODE: Final = "E4013"


def misfit(message: str, span: Span | None = None, hint: str = "") -> DiagnosticError:
    """The error for a model, loss, optimizer or argument that does not fit the others."""
    return DiagnosticError(Diagnostic(CODE, message, span, hint=hint))


__all__ = ["CODE", "misfit"]
