"""Converters for the operators of torch, by families; importing this package registers them."""

from __future__ import annotations

from . import (
    bags,
    control,
    creation,
    elementwise,
    encoder,
    indexing,
    linear,
    nn,
    random,
    recurrent,
    reduce,
    resize,
    shape,
)

__all__ = [
    "bags", "control", "creation", "elementwise", "encoder", "indexing", "linear", "nn", "random", "recurrent",
    "reduce", "resize", "shape",
]  # fmt: skip
