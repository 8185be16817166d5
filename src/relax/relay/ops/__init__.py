"""Relay's operators by family; importing this package declares them."""

from __future__ import annotations

from . import derivative, dynamic, elementwise, gradients, image, nn, parameters, reductions, transform
from .declare import MEANING, attr, declare, meaning_of

parameters.register_rules()
derivative.register_derivatives()

__all__ = [
    "MEANING", "attr", "declare", "derivative", "dynamic", "elementwise", "gradients", "image", "meaning_of", "nn",
    "parameters", "reductions", "transform",
]  # fmt: skip
