"""Converters for the operators of torch, by families; importing this package registers them."""

from __future__ import annotations

from . import control, creation, elementwise, indexing, linear, nn, recurrent, reduce, resize, shape

__all__ = [
    "control",
    "creation",
    "elementwise",
    "indexing",
    "linear",
    "nn",
    "recurrent",
    "reduce",
    "resize",
    "shape",
]
