"""Tracebacks of errors in user programs, without this package's own frames.

A DiagnosticError points at the erroneous line of the program; frames of this package do not help the user. The
environment variable ``RELAX_FULL_TRACEBACK=1`` shows all frames.
"""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path
from types import TracebackType
from typing import Final

_PACKAGE: Final = str(Path(__file__).parents[1]) + os.sep
_NOTEBOOK: Final = os.sep + os.path.join("IPython", "core", "")
"""Path component of the notebook files that run cells."""


def shows_all_frames() -> bool:
    """True if the user requested full tracebacks."""
    return os.environ.get("RELAX_FULL_TRACEBACK", "") not in ("", "0")


def shortened(error: BaseException) -> list[str]:
    """Lines of an error's traceback, without frames of this package and of the notebook."""
    described = traceback.TracebackException.from_exception(error)
    pending: list[traceback.TracebackException | None] = [described]
    while pending:
        exception = pending.pop()
        if exception is not None:
            exception.stack[:] = [frame for frame in exception.stack if not _is_hidden(frame.filename)]
            pending += [exception.__cause__, exception.__context__]
    return list(described.format())


def _is_hidden(filename: str) -> bool:
    return filename.startswith(_PACKAGE) or _NOTEBOOK in filename


def install(kind: type[BaseException]) -> None:
    """Install an excepthook that shortens tracebacks of uncaught errors of this class, and passes on all others."""
    previous = sys.excepthook

    def hook(error_type: type[BaseException], error: BaseException, frames: TracebackType | None, /) -> None:
        if isinstance(error, kind) and not shows_all_frames() and sys.stderr is not None:
            sys.stderr.write("".join(shortened(error)))
        else:
            previous(error_type, error, frames)

    sys.excepthook = hook
