"""Functions of the namespace `T` by name, for the printer, which writes calls of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import tir
from .core.safety import member
from .core.scope import MISSING


def builder_of(name: str) -> Callable[..., Any] | None:
    """Return the function ``T.name``; None if scripts have none of that name."""
    builder = member(tir, name)
    return None if builder is MISSING else builder
