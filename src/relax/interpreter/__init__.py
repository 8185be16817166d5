"""The language's definition, executable: an evaluator of Relax over its syntax tree, with NumPy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..runtime.rooms import load_when_used
from ._homes import HOMES

if TYPE_CHECKING:
    from .evaluator import Interpreter
    from .interpret import interpret

__all__ = ["Interpreter", "interpret"]

load_when_used(__name__, HOMES)
