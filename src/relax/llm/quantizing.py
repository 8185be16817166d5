"""Writing language models as GGUF files, with weights of few bits: `quantize`.

    relax.llm.quantize("folder/of/SmolLM2", "model.gguf", "q4_k_m")

Weights are read, rounded and written piece by piece, so that memory holds a few of them at a time.
"""

# NumPy's stubs leave the results of reshape and others partly unknown.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..frontend import gguf
from ..frontend.gguf import Stored
from ..frontend.tensor_files import PLAIN, TensorInfo
from ..runtime.dtypes import NUMPY_DTYPES
from ..runtime.records import dataclass
from ..transform.quantize_rows import quantize_rows
from . import settings_metadata, tokenizer_metadata
from .checkpoint import IGNORED, LONG_ROTATIONS, ROTATIONS, Checkpoint, open_checkpoint
from .gguf_names import ARCHITECTURES, name_of
from .mixtures import FILE_TYPES, Outline, file_type, layouts_of, sizes_by_layout
from .settings import Rotation

Array: TypeAlias = "NDArray[Any]"
Progress: TypeAlias = Callable[[str, float], None]
"""Called with what is being done, and the part of it that is done, from 0 to 1."""

PIECE: Final = 1 << 23
"""Numbers of a tensor that are rounded and written at a time."""
TOKENIZERS: Final = ("tokenizer.json", "tokenizer.model")
"""Files of a folder that hold a tokenizer."""

_FLOATS: Final = frozenset({"float32", "float16", "bfloat16", "float64"})
_TRANSPOSED: Final = re.compile(r".*\.(?:c_attn|c_proj|c_fc)\.weight")
_PARTS: Final = re.compile(r"split\..*|general\.alignment")
"""Keys about the files that held a model, not about the model."""
_QUANTIZATION_VERSION: Final = 2


@dataclass(frozen=True, slots=True)
class QuantizedFile:
    """GGUF file that `quantize` wrote: its path, its type, its size in bytes, and its tensors.

    `layouts` has number and bytes of the tensors by layout ("q4_k", "float32"), the largest first.
    """

    path: Path
    type: str
    nbytes: int
    layouts: Mapping[str, tuple[int, int]]


def quantize(
    source: str | os.PathLike[str],
    path: str | os.PathLike[str],
    type: str = "q4_k_m",
    *,
    progress: Progress | None = None,
) -> QuantizedFile:
    """Write a language model as a GGUF file with weights of a type.

    Parameters
    ----------
    source
        Folder of Hugging Face (config.json, safetensors files, a tokenizer), or GGUF file. Of a GGUF file, tensors of
        numbers get the new type, those of block formats stay as they are, and metadata is kept.
    path
        File to write; it takes the place of one that is there when it is complete.
    type
        "q8_0", "q6_k", "q5_0", "q5_1", "q5_k_s", "q5_k_m", "q4_0", "q4_1", "q4_k_s", "q4_k_m", "q3_k_s", "q3_k_m",
        "q3_k_l", "q2_k", "float16", "bfloat16" or "float32", as llama.cpp names them. Matrices whose rows are no
        multiple of 256 elements take a format with blocks of 32 in the place of one with blocks of 256, and float16 if
        they are no multiple of 32. Vectors stay float32.
    progress
        Called with what is being done, and the part of it that is done.

    Raises OSError for files that cannot be read or written, DiagnosticError for corrupt ones and for tokenizers that
    GGUF files cannot have, ImportError without the package ``tokenizers``, and ValueError for an unknown type, a model
    that is not written, and weights that are not finite.
    """
    kind = file_type(type)
    place, target = Path(source), Path(path)
    if target.exists() and place.exists() and target.samefile(place):
        raise ValueError(f"{target} is the model itself: write to another file")
    if place.is_dir():
        metadata, tensors, types = _of_folder(place, kind)
    else:
        metadata, tensors, types = _of_file(gguf.read(place), kind)

    def say(name: str, done: int, total: int) -> None:
        if progress is not None:
            progress(f"writing {name}", done / total if total else 0.0)

    gguf.write(target, metadata, tensors, value_types=types, progress=say)
    layouts = sizes_by_layout((item.layout, item.nbytes) for item in tensors.values())
    return QuantizedFile(target, kind, target.stat().st_size, layouts)


_Contents: TypeAlias = "tuple[dict[str, Any], dict[str, Stored], Mapping[str, str]]"


def _of_folder(place: Path, kind: str) -> _Contents:
    """Return metadata and tensors of a folder."""
    checkpoint = open_checkpoint(place)
    said = settings_metadata.metadata_of(checkpoint.settings)
    changes = _Changes(checkpoint.model_type, said.cache.heads, said.cache.kv_heads, said.cache.rotation)
    named = _renamed(checkpoint)
    shapes = {name: changes.shape(weight, checkpoint.stored(weight)) for name, weight in named.items()}
    outline = Outline(said.cache.layers, said.cache.heads // said.cache.kv_heads, "output.weight" in named)
    layouts = layouts_of(kind, shapes, outline)
    tensors = {name: Stored("float32", array.shape, array) for name, array in said.tensors.items()}
    for name, weight in named.items():
        tensors[name] = _rounded(name, layouts[name], shapes[name], changes.maker(checkpoint, weight))
    rows = shapes["token_embd.weight"][0]
    has_tokenizer = any((place / name).exists() for name in TOKENIZERS)
    tokenizer = tokenizer_metadata.metadata_of(place, rows) if has_tokenizer else {"tokenizer.ggml.model": "no_vocab"}
    architecture = said.metadata["general.architecture"]
    title = {"general.type": "model", "general.name": place.resolve().name, f"{architecture}.vocab_size": rows}
    return {**said.metadata, **title, **_numbers_of(kind), **tokenizer}, tensors, {}


def _numbers_of(kind: str) -> dict[str, Any]:
    """Return the keys that say how the file is quantised."""
    return {"general.file_type": FILE_TYPES[kind].number, "general.quantization_version": _QUANTIZATION_VERSION}


def _of_file(file: gguf.GGUFFile, kind: str) -> _Contents:
    """Return metadata and tensors of a GGUF file, with another type for its numbers."""
    metadata = {key: value for key, value in file.metadata.items() if not _PARTS.fullmatch(key)}
    types = {key: value for key, value in file.value_types.items() if key in metadata and key not in _numbers_of(kind)}
    layouts = layouts_of(kind, {name: info.shape for name, info in file.tensors.items()}, _outline(file))
    tensors: dict[str, Stored] = {}
    for name, info in file.tensors.items():
        if info.layout == PLAIN and info.dtype in _FLOATS and name not in (ROTATIONS, *LONG_ROTATIONS):
            tensors[name] = _rounded(name, layouts[name], info.shape, info.array)
        else:
            tensors[name] = Stored(info.dtype if info.layout == PLAIN else info.layout, info.shape, info.array)
    return {**metadata, **_numbers_of(kind)}, tensors, types


def _outline(file: gguf.GGUFFile) -> Outline:
    def number(key: str) -> int:
        value = file.metadata.get(f"{file.architecture}.{key}")
        return value if isinstance(value, int) and value > 0 else 1

    shared = number("attention.head_count") // number("attention.head_count_kv")
    return Outline(number("block_count"), shared, "output.weight" in file)


def _renamed(checkpoint: Checkpoint) -> dict[str, str]:
    """Return Hugging Face's names of weights by those in the file to write. Raises ValueError for unknown weights."""
    named: dict[str, str] = {}
    for weight, stored in checkpoint.names.items():
        name = name_of(checkpoint.model_type, weight)
        if name is not None:
            named[name] = weight
        elif not IGNORED.fullmatch(stored) and not IGNORED.fullmatch(weight):
            raise ValueError(f"GGUF files of {checkpoint.model_type} models have no weights {stored}")
    if "token_embd.weight" not in named:
        raise ValueError("the model has no embeddings of tokens")
    return named


@dataclass(frozen=True, slots=True)
class _Changes:
    """Differences between the weights of a folder and those of a GGUF file of the same model."""

    model_type: str
    heads: int
    kv_heads: int
    rotation: Rotation

    def shape(self, weight: str, stored: TensorInfo) -> tuple[int, ...]:
        """Return the shape of weights in the file. Raises ValueError for weights that are no numbers."""
        if stored.layout != PLAIN or stored.dtype not in _FLOATS:
            raise ValueError(f"{weight}: weights of {stored.dtype} are not written, only those of {', '.join(_FLOATS)}")
        return tuple(reversed(stored.shape)) if self._is_turned(weight) else tuple(stored.shape)

    def maker(self, checkpoint: Checkpoint, weight: str) -> Callable[[], Array]:
        """Return a function that reads weights, and changes them for the file."""

        def make() -> Array:
            array = checkpoint.array(weight)
            if self._is_turned(weight):
                return np.transpose(array)
            if self.model_type.startswith("gemma") and weight.endswith("norm.weight"):
                return array.astype(np.float32) + np.float32(1)
            if ARCHITECTURES[self.model_type] == "llama" and re.search(r"\.self_attn\.[qk]_proj\.", weight):
                return array[self._neighbours(self.heads if ".q_proj." in weight else self.kv_heads, len(array))]
            return array

        return make

    def _is_turned(self, weight: str) -> bool:
        return self.model_type == "gpt2" and _TRANSPOSED.fullmatch(weight) is not None

    def _neighbours(self, heads: int, rows: int) -> Array:
        """Return the order of rows in which the elements of a head that are rotated together are neighbours."""
        size, dim = rows // heads, self.rotation.dim
        order = np.arange(size)
        order[:dim] = np.arange(dim).reshape(2, dim // 2).T.reshape(-1)
        return (np.arange(heads)[:, None] * size + order).reshape(-1)


def _rounded(name: str, layout: str, shape: tuple[int, ...], make: Callable[[], Array]) -> Stored:
    """Return a tensor to write: its numbers in a layout, made piece by piece."""

    def pieces() -> Iterator[Array]:
        array = make()
        rows = array.reshape(-1, shape[-1] if shape else 1)
        step = max(PIECE // max(rows.shape[1], 1), 1)
        for first in range(0, len(rows), step):
            yield _in_layout(name, layout, rows[first : first + step])

    return Stored(layout, shape, pieces)


def _in_layout(name: str, layout: str, rows: Array) -> Array:
    """Return rows of numbers in a layout. Raises ValueError for numbers that it cannot hold."""
    if layout not in _FLOATS:
        try:
            return quantize_rows(rows, layout)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    with np.errstate(over="ignore"):
        found = rows.astype(NUMPY_DTYPES[layout])
    if not math.isfinite(float(np.abs(found).max(initial=0))):
        raise ValueError(f"{name}: the weights have numbers that are not finite in {layout}")
    return found


__all__ = ["QuantizedFile", "quantize"]
