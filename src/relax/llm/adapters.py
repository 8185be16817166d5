"""LoRA adapters: small matrices that change a model's answers, chosen for each answer.

    m = relax.llm.load("model.gguf", adapters={"pirate": "folder"})
    m.generate("Hello", adapter="pirate")

An adapter adds x · Aᵀ · Bᵀ · scale to the product of some layers, with A (rank, in) and B (out, rank). The model has a
second function for it, `forward_adapted`, whose further arguments are these matrices; answers without an adapter are
computed by `forward`, as in a model that has none.

Source: Hu et al., LoRA, 2021; Kalajdzievski, rank-stabilised LoRA, 2023 (``use_rslora``). Folders are those of PEFT
(``adapter_config.json``, ``adapter_model.safetensors``), files those of llama.cpp (``adapter.type`` lora).
"""

# NumPy's stubs leave the type of some arrays partly unknown.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..frontend import gguf, nn, safetensors
from ..frontend.nn import Tensor
from ..runtime.records import dataclass
from .checkpoint import without_prefix
from .gguf_names import INTERLEAVED, MODEL_TYPES, names_of
from .layers import Linear
from .settings import Settings, read_settings

Array: TypeAlias = "NDArray[Any]"

CONFIG: Final = "adapter_config.json"
WEIGHTS: Final = "adapter_model.safetensors"
_MATRIX: Final = re.compile(r"(?:base_model\.model\.)?(.+)\.lora_([AB])(?:\.default)?\.weight")
_REFUSED: Final[Mapping[str, str]] = {
    "use_dora": "DoRA", "modules_to_save": "whole layers (modules_to_save)", "lora_bias": "biases (lora_bias)",
    "trainable_token_indices": "new embeddings (trainable_token_indices)", "megatron_config": "Megatron's layers",
}  # fmt: skip
"""Settings of PEFT for changes other than products of two matrices, and their names in messages."""


class Factors(NamedTuple):
    """Change of one matrix: B (out, rank) · A (rank, in), float32; the scale is a part of B."""

    a: Array
    b: Array


@dataclass(frozen=True)
class Adapter:
    """Adapter of a model: the changes of its matrices, by Hugging Face's names of these without ".weight"."""

    factors: Mapping[str, Factors]
    interleaved: bool = False
    """True if rows of queries and keys are ordered for rotation of neighbours, as in GGUF files of Llama's family."""


class Adapted(NamedTuple):
    """Layer of a model that adapters change."""

    layer: Linear
    names: tuple[str, ...]
    """Names of its matrices, beside each other."""
    sizes: tuple[int, ...]


# ------------------------------------------------------------------------------ files


def read_adapter(path: str | os.PathLike[str], model_type: str) -> Adapter:
    """Read an adapter of a model: a folder that PEFT wrote, or a GGUF file.

    Raises OSError for files that are missing, DiagnosticError for corrupt ones, and ValueError for adapters of other
    kinds than LoRA, or with parts that are no products of two matrices.
    """
    place = Path(path)
    return _of_folder(place) if place.is_dir() else _of_gguf(place, model_type)


def _of_folder(place: Path) -> Adapter:
    config = read_settings(place / CONFIG)
    settings = Settings(config)
    kind = settings.text("peft_type", "LORA")
    if kind != "LORA":
        raise ValueError(f"{place} has an adapter of the kind {kind}, expected LORA")
    refused = [text for name, text in _REFUSED.items() if config.get(name)]
    if refused or config.get("bias", "none") != "none":
        raise ValueError(f"{place} has an adapter with {', '.join(refused) or 'biases'}, which is not supported")
    pairs: dict[str, dict[str, Array]] = {}
    file = safetensors.read(place / WEIGHTS)
    for name in file:
        match = _MATRIX.fullmatch(name)
        if match is None:
            raise ValueError(f"{place}: {name} is no factor of the matrix of a linear layer")
        pairs.setdefault(without_prefix(match[1]), {})[match[2].lower()] = np.asarray(file[name])
    stabilised = settings.flag("use_rslora")

    def scale(name: str, rank: int) -> float:
        return _alpha(settings, name) / (math.sqrt(rank) if stabilised else rank)

    return Adapter(_factors(place, pairs, scale))


def _alpha(settings: Settings, name: str) -> float:
    """Return the numerator of the scale of a matrix: patterns match the end of its name."""
    for pattern, value in settings.inner("alpha_pattern").values.items():
        try:
            matches = re.fullmatch(rf"(?:.*\.)?(?:{pattern})", name) is not None
        except re.error as error:
            raise ValueError(f"the setting alpha_pattern has {pattern!r}, no regular expression: {error}") from None
        if matches:
            return Settings({"alpha_pattern": value}).number("alpha_pattern")
    return settings.number("lora_alpha", 8.0)


def _of_gguf(place: Path, model_type: str) -> Adapter:
    file = gguf.read(place)
    kind = file.metadata.get("adapter.type")
    if file.metadata.get("general.type") != "adapter" or kind != "lora":
        raise ValueError(f"{place} has no LoRA adapter (general.type adapter, adapter.type lora)")
    architecture = str(file.metadata.get("general.architecture"))
    alpha = Settings(file.metadata).number("adapter.lora.alpha", 0.0)
    pairs: dict[str, dict[str, Array]] = {}
    bases: dict[str, dict[str, Array]] = {}
    for name in file:
        base, _, factor = name.rpartition(".lora_")
        if factor not in ("a", "b"):
            raise ValueError(f"{place}: {name} is no factor of the matrix of a linear layer")
        bases.setdefault(base, {})[factor] = np.asarray(file[name])
    for weight, base in names_of(MODEL_TYPES.get(architecture, model_type), bases).items():
        pairs[weight.removesuffix(".weight")] = bases[base]
    # A file without alpha has a scale of 1.
    factors = _factors(place, pairs, lambda name, rank: alpha / rank if alpha else 1.0)
    return Adapter(factors, architecture in INTERLEAVED)


def _factors(
    place: Path, pairs: Mapping[str, Mapping[str, Array]], scale: Callable[[str, int], float]
) -> dict[str, Factors]:
    """Return the factors of each matrix, checked, with their scales."""
    result: dict[str, Factors] = {}
    for name, pair in pairs.items():
        if len(pair) < 2:
            raise ValueError(f"{place}: {name} has a factor {'A' if 'a' in pair else 'B'}, and not the other one")
        a, b = (pair[key].astype(np.float32) for key in "ab")
        if a.ndim != 2 or b.ndim != 2 or a.shape[0] != b.shape[1] or not a.shape[0]:
            raise ValueError(f"{place}: {name} has factors of shapes {a.shape} and {b.shape}, expected one rank")
        result[name] = Factors(a, b * np.float32(scale(name, a.shape[0])))
    return result


# ------------------------------------------------------------------------------ layers of a model


def adapted_layers(model: nn.Module, adapters: Mapping[str, Adapter]) -> list[Adapted]:
    """Return the layers that some adapter changes, in the order of the model.

    Raises ValueError for an adapter of matrices that the model does not have, or of other shapes.
    """
    found: list[Adapted] = []
    for path, layer in model.named_modules():
        if isinstance(layer, Linear):
            above = path.rpartition(".")[0]
            names = tuple(f"{above}.{name}" if above else name for name in layer.names) or (path,)
            sizes = layer.sizes if len(names) == len(layer.sizes) else (layer.out_features,)
            found.append(Adapted(layer, names, sizes))
    shapes = {
        name: (size, one.layer.in_features) for one in found for name, size in zip(one.names, one.sizes, strict=True)
    }
    for title, adapter in adapters.items():
        for name, (a, b) in adapter.factors.items():
            shape = (b.shape[0], a.shape[1])
            if name not in shapes:
                raise ValueError(f"the adapter {title!r} changes {name}, which is no linear layer of the model")
            if shape != shapes[name]:
                raise ValueError(
                    f"the adapter {title!r} changes {name} of shape {shape}, the model's is {shapes[name]}"
                )
    changed = {name for adapter in adapters.values() for name in adapter.factors}
    return [one for one in found if changed.intersection(one.names)]


def arguments(adapter: Adapter, layers: Sequence[Adapted], settings: Settings, heads: tuple[int, int]) -> list[Array]:
    """Return the matrices that `forward_adapted` takes: for each layer A (in, rank) and B (rank, out), float32.

    The matrices of a layer that stand side by side become one: its rank is the sum of theirs. `heads` are the numbers
    of heads of queries and of keys.
    """
    result: list[Array] = []
    for layer, names, sizes in layers:
        parts = [adapter.factors.get(name) for name in names]
        rank = sum(len(part.a) for part in parts if part is not None)
        a = np.zeros((layer.in_features, max(rank, 1)), np.float32)
        b = np.zeros((max(rank, 1), layer.out_features), np.float32)
        row = column = 0
        for name, size, part in zip(names, sizes, parts, strict=True):
            if part is not None:
                rows = _ordered(part.b, name, adapter.interleaved, settings.flag("interleaved"), heads)
                a[:, row : row + len(part.a)] = part.a.T
                b[row : row + len(part.a), column : column + size] = rows.T
                row += len(part.a)
            column += size
        result += [a, b]
    return result


def _ordered(rows: Array, name: str, stored: bool, wanted: bool, heads: tuple[int, int]) -> Array:
    """Return the rows of queries or keys ordered as the model's, for rotation of neighbours or of halves."""
    if stored == wanted or not name.endswith((".q_proj", ".k_proj")):
        return rows
    count = heads[name.endswith(".k_proj")]
    shape = (count, 2, -1, rows.shape[1]) if wanted else (count, -1, 2, rows.shape[1])
    return np.reshape(np.swapaxes(np.reshape(rows, shape), 1, 2), rows.shape)


@contextmanager
def adapted(layers: Sequence[Adapted], tensors: Sequence[Tensor]) -> Generator[None]:
    """Context manager: the layers add the products with A and B, two tensors for each, to theirs."""
    for index, (layer, *_) in enumerate(layers):
        layer.adapter = tensors[2 * index], tensors[2 * index + 1]
    try:
        yield
    finally:
        for layer, *_ in layers:
            layer.adapter = None


__all__ = ["Adapted", "Adapter", "Factors", "adapted", "adapted_layers", "arguments", "read_adapter"]
