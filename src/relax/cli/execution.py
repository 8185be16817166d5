"""Execution of a command: its parser, and errors shown as diagnostics instead of tracebacks.

A command is a module with `DESCRIPTION`, `EXAMPLES`, ``add_arguments(parser)`` and ``run(options) -> int``, the exit
status. Exceptions are printed to stderr: a DiagnosticError as rendered; an error of the running program with its
message and program locations; any other as an internal error. RELAX_TRACEBACK=1 shows the traceback.
"""

from __future__ import annotations

import argparse
import os
import sys
import traceback
import warnings
from collections.abc import Sequence
from typing import Any, Protocol, cast

from ..ir import DiagnosticError
from ..ir.diagnostics import RelaxWarning
from ..runtime.executable import ExecutableError
from .failures import FAILURE, SUCCESS, ProgramError


class Command(Protocol):
    """Interface of a module of this package that is a command."""

    @property
    def DESCRIPTION(self) -> str: ...

    @property
    def EXAMPLES(self) -> str: ...

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, options: argparse.Namespace) -> int: ...


def parser_of(name: str, command: Command) -> argparse.ArgumentParser:
    """Argument parser of a command."""
    examples = command.EXAMPLES.strip("\n")
    parser = argparse.ArgumentParser(
        prog=f"relax {name}",
        description=command.DESCRIPTION,
        epilog=f"examples:\n{examples}\n",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_arguments(parser)
    return parser


def execute(name: str, command: Command, words: Sequence[str]) -> int:
    """Run a command with its arguments; returns the exit status."""
    options = parser_of(name, command).parse_args(words)
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        try:
            status = command.run(options)
            sys.stdout.flush()
            return status
        except BrokenPipeError:  # the reader of a pipe has seen enough
            sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 (for the flush at exit)
            return SUCCESS
        except Exception as error:  # noqa: BLE001 (the one place where errors become text)
            if os.environ.get("RELAX_TRACEBACK") == "1":
                traceback.print_exc()
            sys.stdout.flush()
            sys.stderr.write(error_text(error) + "\n")
            return FAILURE


def _show_warning(message: Warning | str, *_: Any) -> None:
    sys.stderr.write(warning_text(message) + "\n\n")


def warning_text(message: Warning | str) -> str:
    """Text for a warning, with the hint for a shell."""
    diagnostic = message.diagnostic if isinstance(message, RelaxWarning) else None
    return str(message).strip() if diagnostic is None else diagnostic.render(shell=True)


def error_text(error: Exception) -> str:
    """Text for an error that ended a command."""
    if isinstance(error, DiagnosticError):
        return error.render(shell=True)
    if isinstance(error, ProgramError) and isinstance(error.__cause__, Exception):
        return _program_text(error.__cause__)
    if isinstance(error, ExecutableError):
        return f"error: {error}"
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return f"error: {where}{(error.strerror or str(error)).lower()}"
    if isinstance(error, MemoryError):
        return f"error: not enough memory{f': {error}' if str(error) else ''}"
    lines = (str(error).strip() or "no message").splitlines()
    return "\n".join(
        [
            f"error: internal error: {type(error).__name__}: {lines[0]}",
            *(f"  = {line}" for line in [*lines[1:], *_notes(error)]),
            "  = help: this is a mistake in relax; RELAX_TRACEBACK=1 shows where, please report it with the model",
        ]
    )


def _program_text(error: Exception) -> str:
    """Text for an error of the running program: its message, then its locations in the program."""
    if isinstance(error, DiagnosticError):
        return error.render(shell=True)
    lines = (str(error).strip() or type(error).__name__).splitlines()
    locations = [line.strip() for note in [*lines[1:], *_notes(error)] for line in note.splitlines()]
    return "\n".join([f"error: {lines[0]}", *(f"  = {location}" for location in locations if location)])


def _notes(error: Exception) -> list[str]:
    return list(cast("list[str]", getattr(error, "__notes__", [])))
