"""Errors of training: incompatible parts of a training setup."""

from __future__ import annotations

from typing import Final

from ..ir import Diagnostic, DiagnosticError, Span

CODE: Final = "E4013"


def misfit(message: str, span: Span | None = None, hint: str = "") -> DiagnosticError:
    """Error for a model, loss, optimizer or argument that is incompatible with the others."""
    return DiagnosticError(Diagnostic(CODE, message, span, hint=hint))
