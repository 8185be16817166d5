"""Parser of TVMScript: from Python source to IR."""

from __future__ import annotations

from .ir import ir_module
from .text import from_source

__all__ = ["from_source", "ir_module"]
