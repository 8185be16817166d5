"""Packages of the extras ``relax[llm]`` and ``relax[ray]``, imported when they are first needed."""

from __future__ import annotations

import importlib
from typing import Any


def needed(name: str, purpose: str, extra: str = "llm") -> Any:
    """Import a package. Raises ImportError with the command that installs it if it is missing."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name.partition(".")[0]:
            raise
        message = f"{purpose} needs the package {name.partition('.')[0]}: pip install relax[{extra}]"
        raise ImportError(message, name=error.name) from None
