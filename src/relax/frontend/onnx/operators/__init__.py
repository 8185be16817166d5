"""Converters of ONNX's operators, a file a family."""

from __future__ import annotations

from . import (
    activation,
    attention,
    contrib,
    control,
    creation,
    image,
    indexing,
    math,
    nn,
    quantize,
    recurrent,
    reduce,
    shape,
    signal,
    tensor,
    training,
)

__all__ = [
    "activation",
    "attention",
    "contrib",
    "control",
    "creation",
    "image",
    "indexing",
    "math",
    "nn",
    "quantize",
    "recurrent",
    "reduce",
    "shape",
    "signal",
    "tensor",
    "training",
]
