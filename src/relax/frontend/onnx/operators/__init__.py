"""Converters of ONNX operators, one file per family, which `registry` imports when a node needs it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....runtime.rooms import load_when_used
from ._homes import HOMES

if TYPE_CHECKING:
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

load_when_used(__name__, HOMES)
