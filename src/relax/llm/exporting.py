"""Export of a language model to a folder that C++ programs load: `export_model`.

    model.so               the program (`relax.runtime.export`): create_cache and forward
    weights.safetensors    the arrays that forward takes, in their order, each at a multiple of 64 bytes; as metadata
                           the vocabulary, the context, the tokens of a step and of a page, and those that end an answer

The header ``relax/language_model.h`` (`relax.runtime.include_path`) reads both.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import tvm_ffi

from ..frontend.safetensors import DTYPES
from ..ir import IRModule
from ..runtime.dtypes import canonical_dtype
from ..runtime.files import in_place_of
from ..runtime.tensor import numpy_view
from .runner import PAGE, Runner

LIBRARY: Final = "model.so"
WEIGHTS: Final = "weights.safetensors"
FIRST_WEIGHT: Final = 3
"""Position of the first weight among the parameters of ``forward``, behind tokens, last and cache."""
_ALIGNMENT: Final = 64
_DTYPES: Final = {dtype: name for name, dtype in DTYPES.items()}


def export_model(
    folder: str | os.PathLike[str], mod: IRModule, runner: Runner, settings: Mapping[str, object],
    linker: str | Sequence[str] | None = None,
) -> None:  # fmt: skip
    """Write a program and the weights of its runner to a folder; `settings` become metadata of the weights.

    Raises ValueError for a model with an encoder, and ExecutableError for a program that needs Python, such as one with
    recurrent states.
    """
    if runner.inputs:
        raise ValueError("a model with an encoder is not exported: its decoder takes more than tokens")
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    runner.machine.executable.export_library(place / LIBRARY, linker)
    forward: Any = mod["forward"]
    names = [parameter.name_hint for parameter in forward.params[FIRST_WEIGHT:]]
    limits = {"context": runner.limits.tokens, "chunk": runner.limits.chunk, "page": PAGE}
    metadata = {name: str(value) for name, value in {**settings, **limits}.items()}
    write_tensors(place / WEIGHTS, dict(zip(names, runner.weights, strict=True)), metadata)


def write_tensors(path: str | os.PathLike[str], tensors: dict[str, tvm_ffi.Tensor], metadata: dict[str, str]) -> None:
    """Write tensors in the format safetensors, in this order, each at a multiple of 64 bytes.

    The package ``safetensors`` sorts tensors and leaves no space between them, so that C++ programs would have to copy
    them to addresses that kernels accept. Here, tensors of the names ``padding.0`` and so on fill the space, since the
    format has no gaps.
    """
    header: dict[str, Any] = {"__metadata__": metadata}
    arrays: list[Any] = []
    at = 0
    for name, tensor in tensors.items():
        dtype = canonical_dtype(tensor.dtype)
        array = numpy_view(tensor)
        offsets = [at, at + array.nbytes]
        header[name] = {"dtype": _DTYPES[dtype], "shape": list(array.shape), "data_offsets": offsets}
        arrays.append(array)
        at += array.nbytes
        gap = -at % _ALIGNMENT
        if gap:
            header[f"padding.{len(arrays)}"] = {"dtype": "U8", "shape": [gap], "data_offsets": [at, at + gap]}
            arrays.append(bytes(gap))
            at += gap
    text = json.dumps(header).encode()
    text += b" " * (-(len(text) + 8) % _ALIGNMENT)
    with in_place_of(path) as temporary, temporary.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for array in arrays:
            file.write(array if isinstance(array, bytes) else array.reshape(-1).view(np.uint8).data)


__all__ = ["export_model", "write_tensors"]
