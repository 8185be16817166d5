"""All diagnostic codes, with their titles, meanings and remedies."""

from __future__ import annotations

from . import commands, compiling, importing, programs, relay, scheduling
from .code import CODES, Code, explain, explanation

__all__ = [
    "CODES", "Code", "commands", "compiling", "explain", "explanation", "importing", "programs", "relay",
    "scheduling",
]  # fmt: skip
