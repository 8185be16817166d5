"""Converters of ONNX operators, one file per family."""

from __future__ import annotations

from . import (
    activation,
    attention,
    contrib,
    control,
    creation,
    features,
    image,
    indexing,
    labels,
    legacy,
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
    vectors,
)

__all__ = [
    "activation", "attention", "contrib", "control", "creation", "features", "image", "indexing", "labels",
    "legacy", "math", "nn", "quantize", "random", "recurrent", "reduce", "sequence", "shape", "signal", "strings",
    "tensor", "training", "trees", "vectors",
]  # fmt: skip
