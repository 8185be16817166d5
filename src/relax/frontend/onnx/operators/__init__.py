"""Converters of ONNX's operators, a file a family."""

from __future__ import annotations

from . import (
    activation,
    control,
    creation,
    features,
    image,
    indexing,
    labels,
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
    trees,
)

__all__ = [
    "activation",
    "control",
    "creation",
    "features",
    "image",
    "indexing",
    "labels",
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
    "trees",
]
