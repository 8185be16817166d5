"""The target that an option of the command line names."""

from __future__ import annotations

from ..farm.host import resolve
from ..target import Target
from .failures import UNSUITABLE, failure


def target_of(text: str | None) -> Target:
    """Resolved target of ``--target``; this machine without one. Raises DiagnosticError (E7004) for an unknown one."""
    try:
        return resolve(text)
    except (ValueError, TypeError) as error:
        raise failure(UNSUITABLE, f"--target: {error}") from None
