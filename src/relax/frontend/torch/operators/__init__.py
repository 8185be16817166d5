"""Converters for the operators of torch, by families; importing this package registers them."""

from __future__ import annotations

from . import (
    adaptive,
    backward,
    bags,
    complex,
    complex_functions,
    control,
    creation,
    elementwise,
    encoder,
    few_bits,
    fft,
    flash_attention,
    indexing,
    integers,
    iterated,
    linear,
    linear_algebra,
    nn,
    order,
    quantized,
    random,
    recurrent,
    reduce,
    resize,
    shape,
    special,
)

__all__ = [
    "adaptive", "backward", "bags", "complex", "complex_functions", "control", "creation", "elementwise", "encoder",
    "few_bits", "fft", "flash_attention", "indexing", "integers", "iterated", "linear", "linear_algebra", "nn", "order",
    "quantized", "random", "recurrent", "reduce", "resize", "shape", "special",
]  # fmt: skip
