"""The language's definition, executable: an evaluator of Relax over its syntax tree, with NumPy."""

from __future__ import annotations

from .evaluator import Interpreter
from .interpret import interpret

__all__ = ["Interpreter", "interpret"]
