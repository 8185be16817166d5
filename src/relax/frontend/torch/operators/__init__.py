"""Converters for the operators of torch, by families; importing this package registers them."""

from __future__ import annotations

from . import creation, elementwise, indexing, linear, nn, recurrent, reduce, resize, shape

__all__ = ["creation", "elementwise", "indexing", "linear", "nn", "recurrent", "reduce", "resize", "shape"]
