"""Relay's operators by family; importing this package declares them."""

from __future__ import annotations

from . import (
    blocks,
    derivative,
    dynamic,
    elementwise,
    gradients,
    image,
    indexing,
    nn,
    parameters,
    quantized,
    reductions,
    signal,
    transform,
)
from .declare import MEANING, attr, declare, meaning_of

parameters.register_rules()
derivative.register_derivatives()

__all__ = [
    "MEANING", "attr", "blocks", "declare", "derivative", "dynamic", "elementwise", "gradients", "image", "indexing",
    "meaning_of", "nn", "parameters", "quantized", "reductions", "signal", "transform",
]  # fmt: skip
