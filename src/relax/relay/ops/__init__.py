"""Relay's operators by family; importing this package declares them."""

from __future__ import annotations

from . import (  # they build on the operators declared above
    derivative,
    elementwise,
    image,
    nn,
    parameters,
    reductions,
    transform,
)
from .declare import MEANING, attr, declare, meaning_of

__all__ = [
    "MEANING", "attr", "declare", "derivative", "elementwise", "image", "meaning_of", "nn", "parameters",
    "reductions", "transform",
]  # fmt: skip
