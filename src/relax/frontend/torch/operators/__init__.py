"""Converters for the operators of torch, by families; importing this package registers them."""

from __future__ import annotations

from . import (
    bags,
    complex,
    complex_functions,
    control,
    creation,
    elementwise,
    encoder,
    fft,
    flash_attention,
    indexing,
    linear,
    linear_algebra,
    nn,
    order,
    random,
    recurrent,
    reduce,
    resize,
    shape,
    special,
)

__all__ = [
    "bags", "complex", "complex_functions", "control", "creation", "elementwise", "encoder", "fft", "flash_attention",
    "indexing", "linear", "linear_algebra", "nn", "order", "random", "recurrent", "reduce", "resize", "shape",
    "special",
]  # fmt: skip
