"""Relay's operators by family; importing this package declares them."""

from __future__ import annotations

from . import elementwise, image, nn, reductions, transform
from .declare import MEANING, attr, declare, meaning_of

__all__ = [
    "MEANING", "attr", "declare", "elementwise", "image", "meaning_of", "nn", "reductions", "transform",
]  # fmt: skip
