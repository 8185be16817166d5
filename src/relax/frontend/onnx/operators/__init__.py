"""Converters of ONNX's operators, a file a family."""

from __future__ import annotations

from . import (
    activation,
    control,
    creation,
    image,
    indexing,
    math,
    nn,
    quantize,
    random,
    recurrent,
    reduce,
    sequence,
    shape,
    signal,
    strings,
    tensor,
    training,
)

__all__ = [
    "activation",
    "control",
    "creation",
    "image",
    "indexing",
    "math",
    "nn",
    "quantize",
    "random",
    "recurrent",
    "reduce",
    "sequence",
    "shape",
    "signal",
    "strings",
    "tensor",
    "training",
]
