"""A trained model's files: settings and weights, of a GGUF file or a folder of Hugging Face, under one set of names."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias, cast, final

import numpy as np
from numpy.typing import NDArray

from ..frontend import gguf, safetensors
from ..frontend.tensor_files import PLAIN, TensorFile, TensorInfo
from ..topi.block_formats import block_format
from .gguf_names import long_rotations, names_of, settings_of
from .settings import read_settings

Array: TypeAlias = "NDArray[Any]"

ROTATIONS: Final = "rope_freqs.weight"
"""Tensor of a GGUF file with divisors of the frequencies of rotations."""
LONG_ROTATIONS: Final = ("rope_factors_long.weight", "rope_factors_short.weight")
"""Tensors with such divisors for contexts that are longer than those of the training, and for others."""
IGNORED: Final = re.compile(
    r".*rotary_emb\.inv_freq|.*\.attn\.(?:bias|masked_bias)|.*\.attention\.(?:bias|masked_bias)|embeddings\.position_ids"
    r"|pooler\..*|cls\..*|(?:model\.)?(?:vision_tower|multi_modal_projector|vision_model)\..*"
)
"""Names of weights that no model of text needs: computed tables, heads of other tasks, image encoders."""
_PREFIXES: Final[Mapping[str, str]] = {
    "transformer.": "", "bert.": "", "language_model.model.": "model.", "language_model.lm_head.": "lm_head.",
    "model.language_model.": "model.", "proj_out.": "lm_head.",
    "backbone.embedding.": "backbone.embeddings.",
}  # fmt: skip


@final
class Checkpoint:
    """Settings and weights of a model, under the names that Hugging Face's `transformers` has for them.

    `settings` is what ``config.json`` holds, or a GGUF file's metadata in these terms. Weights are read when they are
    asked for.
    """

    def __init__(self, file: TensorFile, settings: Mapping[str, Any], names: Mapping[str, str]) -> None:
        self.file = file
        self.settings = settings
        self.names = names
        """Names in the file, by those of the model."""

    def __contains__(self, name: str) -> bool:
        return name in self.names

    @property
    def model_type(self) -> str:
        """Hugging Face's type of the model, such as ``llama``."""
        return str(self.settings.get("model_type"))

    def stored(self, name: str) -> TensorInfo:
        """Shape, dtype and layout of weights. Raises KeyError for a name that the files do not have."""
        return self.file.tensors[self._named(name)]

    def array(self, name: str) -> Array:
        """Weights as the file has them: numbers, or rows of a block format as uint8. Raises KeyError."""
        return self.file[self._named(name)]

    def numbers(self, name: str, index: int | None = None) -> Array:
        """Weights as numbers, or those at an index of the first dimension; block formats are decoded to float32.

        Raises KeyError for a name that the files do not have, ValueError for a layout that is not read.
        """
        layout, array = self.stored(name).layout, self.array(name)
        array = array if index is None else array[index]
        if layout == PLAIN:
            return array
        held = block_format(layout)
        if held is None:
            raise ValueError(f"{name}: weights in the layout {layout} are not read")
        return held.decode(np.asarray(array))

    def _named(self, name: str) -> str:
        if name not in self.names:
            raise KeyError(f"{self.file.paths[0]} has no weights {name}")
        return self.names[name]


def open_checkpoint(path: str | os.PathLike[str]) -> Checkpoint:
    """Open a GGUF file, or a folder with ``config.json`` and safetensors files, without reading weights.

    Raises OSError for files that are missing, DiagnosticError for corrupt ones (E6011 to E6013), and ValueError for
    settings that are not understood.
    """
    place = Path(path)
    if place.is_dir():
        return _of_folder(place)
    file = gguf.read(place)
    settings = settings_of(file.metadata)
    if ROTATIONS in file:
        settings["rope_factors"] = file[ROTATIONS].astype(float).tolist()
    if all(name in file for name in LONG_ROTATIONS):
        long, short = (file[name].astype(float).tolist() for name in LONG_ROTATIONS)
        settings["rope_scaling"] = long_rotations(file.metadata, long, short)
    settings["attention_bias"] = "blk.0.attn_output.bias" in file
    settings["split_kv_b_proj"] = "blk.0.attn_k_b.weight" in file and "blk.0.attn_kv_b.weight" not in file
    settings["mlp_bias"] = "blk.0.ffn_gate.bias" in file
    return _checkpoint(file, settings, names_of(str(settings["model_type"]), file))


def _of_folder(folder: Path) -> Checkpoint:
    found = read_settings(folder / "config.json")
    file = safetensors.read(folder)
    text = found.get("text_config")
    if isinstance(text, dict):  # the part of a model of images and text that reads text
        found = {**cast("dict[str, Any]", text)}
    return _checkpoint(file, found, {without_prefix(name): name for name in file})


def _checkpoint(file: TensorFile, settings: dict[str, Any], names: Mapping[str, str]) -> Checkpoint:
    """Return a checkpoint, whose embeddings are tied to the last product if it has no weights of its own."""
    settings["tie_word_embeddings"] = "lm_head.weight" not in names
    return Checkpoint(file, settings, names)


def without_prefix(name: str) -> str:
    """Return the name of weights without what `transformers` puts before it in some classes of models."""
    for prefix in _PREFIXES:
        if name.startswith(prefix):
            return _PREFIXES[prefix] + name.removeprefix(prefix)
    return name


__all__ = ["IGNORED", "LONG_ROTATIONS", "ROTATIONS", "Checkpoint", "open_checkpoint", "without_prefix"]
