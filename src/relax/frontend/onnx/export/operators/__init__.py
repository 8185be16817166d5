"""Writers of Relax operators, one file per family."""

from __future__ import annotations

from . import (
    blocks,
    calls,
    creation,
    elementwise,
    image,
    indexing,
    linear,
    nn,
    quantize,
    recurrent,
    reduce,
    resizing,
    running,
    shape,
    windows,
)

__all__ = [
    "blocks", "calls", "creation", "elementwise", "image", "indexing", "linear", "nn", "quantize", "recurrent",
    "reduce", "resizing", "running", "shape", "windows",
]  # fmt: skip
