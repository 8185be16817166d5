"""Settings of a model, as ``config.json`` names them, read with their types checked."""

# NumPy's stubs leave the results of clip and others partly unknown.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias, cast, final

import numpy as np
from numpy.typing import NDArray

from ..runtime.records import dataclass

Array: TypeAlias = "NDArray[Any]"

_ACTIVATIONS: Final[Mapping[str, str]] = {
    "silu": "silu", "swish": "silu", "gelu": "gelu", "gelu_new": "gelu_tanh", "gelu_fast": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh", "relu": "relu",
}  # fmt: skip

LARGEST: Final = 2**31 - 1
MOST_LAYERS: Final = 4096
"""Most layers of a model; a corrupt file must not make its reader build billions of them."""
ORIGINAL: Final = "original_max_position_embeddings"
"""Setting: tokens of the contexts in which a model was trained, before its rotations were scaled."""
CONTEXT: Final = "context"
"""Setting that the loader adds: tokens of the longest context that is asked for."""


@final
class Settings:
    """Settings by name; a missing one, or one that is null, has the default that the caller gives.

    Raises ValueError where a value has another type, or is missing and has no default.
    """

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values = values

    def __contains__(self, name: str) -> bool:
        return self.values.get(name) is not None

    def integer(self, name: str, default: int | None = None, *, most: int = LARGEST) -> int:
        """Whole number from 0 to `most`."""
        value = self._value(name, default)
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or not 0 <= value <= most:
            raise ValueError(f"the setting {name} is {value!r}, and must be a whole number up to {most}")
        return int(value)

    def number(self, name: str, default: float | None = None) -> float:
        """Number of a magnitude up to 1e30."""
        value = self._value(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not abs(value) <= 1e30:
            raise ValueError(f"the setting {name} is {value!r}, and must be a number")
        return float(value)

    def positive(self, name: str, default: float | None = None) -> float:
        """Number above 0."""
        value = self.number(name, default)
        if value <= 0:
            raise ValueError(f"the setting {name} is {value!r}, and must be above 0")
        return value

    def flag(self, name: str, default: bool = False) -> bool:
        """True or False."""
        value = self._value(name, default)
        if not isinstance(value, bool | np.bool_):
            raise ValueError(f"the setting {name} is {value!r}, and must be true or false")
        return bool(value)

    def texts(self, name: str) -> Sequence[str]:
        """List of texts, empty if missing."""
        value = self._value(name, [])
        if not isinstance(value, list) or not all(isinstance(v, str) for v in cast("list[Any]", value)):
            raise ValueError(f"the setting {name} is {value!r}, and must be a list of texts")
        return tuple(cast("list[str]", value))

    def integers(self, name: str) -> Sequence[int]:
        """List of whole numbers, empty if missing."""
        values = self._value(name, [])
        if not isinstance(values, list):
            raise ValueError(f"the setting {name} is {values!r}, and must be a list of whole numbers")
        return tuple(Settings({name: value}).integer(name) for value in cast("list[Any]", values))

    def inner(self, name: str) -> Settings:
        """Settings that stand below another one; none if it is missing."""
        value = self._value(name, {})
        if not isinstance(value, Mapping):
            raise ValueError(f"the setting {name} is {value!r}, and must hold settings")
        return Settings(cast("Mapping[str, Any]", value))

    def text(self, name: str, default: str = "") -> str:
        """Text."""
        value = self._value(name, default)
        if not isinstance(value, str):
            raise ValueError(f"the setting {name} is {value!r}, and must be a text")
        return value

    def activation(self, *names: str, default: str = "silu") -> str:
        """Function between the products of a feed-forward layer: silu, gelu, gelu_tanh or relu."""
        value = next((self.text(name) for name in names if name in self), default)
        if value not in _ACTIVATIONS:
            raise ValueError(f"the activation {value!r} is not known; there are {', '.join(_ACTIVATIONS)}")
        return _ACTIVATIONS[value]

    def _value(self, name: str, default: Any) -> Any:
        value = self.values.get(name)
        if value is None:
            if default is None:
                raise ValueError(f"the settings of the model lack {name}")
            return default
        return value


def read_settings(path: Path) -> dict[str, Any]:
    """Return the settings that a JSON file holds. Raises OSError for a missing file, ValueError for other content."""
    try:
        content: Any = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is no JSON: {error}") from None
    if not isinstance(content, dict):
        raise ValueError(f"{path} holds no settings, but a {type(content).__name__}")
    return cast("dict[str, Any]", content)


@dataclass(frozen=True)
class Rotation:
    """Rotary position embedding of queries and keys.

    The angle of pair i at position p is p · theta^(−i / pairs) / factor i.

    Source: Su et al., RoFormer, 2021. Factors are those of linear scaling, of Llama 3 (Meta, 2024), and of YaRN
    (Peng et al., 2023), which also scales cosines and sines by `scale`.
    """

    theta: float
    dim: int
    """Elements of a head that are rotated, an even number; 0 for none."""
    factors: tuple[float, ...] = ()
    """Divisors of the frequencies, one for each pair; none if empty."""
    scale: float = 1.0
    interleaved: bool = False
    """True if neighbours are a pair, False if elements i and i + dim / 2 are."""

    @classmethod
    def of(
        cls, settings: Settings, head_dim: int, layers: str = "", theta: float = 10000.0, scaled: bool = True
    ) -> Rotation:
        """Return the rotation that settings ask for, of some `layers` if these have an own one.

        `theta` is the base where settings have none; without `scaled`, frequencies stay as they are. Raises ValueError
        for a scaling that is not known.
        """
        parameters = settings.inner("rope_parameters") if "rope_parameters" in settings else settings
        if layers in parameters:
            parameters = parameters.inner(layers)
        base = parameters.positive("rope_theta", settings.positive("rope_theta", theta))
        partial = parameters.number("partial_rotary_factor", settings.number("partial_rotary_factor", 1.0))
        dim = settings.integer("rotary_dim", int(head_dim * min(max(partial, 0.0), 1.0)))
        if dim > head_dim or dim % 2:
            raise ValueError(f"{dim} elements of a head of {head_dim} cannot be rotated in pairs")
        scaling = settings.inner("rope_scaling") if "rope_scaling" in settings else parameters
        kind = scaling.text("rope_type", scaling.text("type", "default")) if scaled else "default"
        factors, scale = _scaled(kind, scaling, settings, base, dim)
        if scaled and "rope_factors" in settings:
            factors = _listed(settings, "rope_factors", dim // 2)
        return cls(base, dim, factors, scale, settings.flag("interleaved"))


def _scaled(kind: str, scaling: Settings, settings: Settings, base: float, dim: int) -> tuple[tuple[float, ...], float]:
    """Return divisors of the frequencies, and the factor of cosines and sines."""
    pairs = dim // 2
    if kind in ("default", "mrope"):
        return (), 1.0
    if kind == "linear":
        return (scaling.positive("factor"),) * pairs, 1.0
    if kind == "llama3":
        return _llama3(scaling, base, dim), 1.0
    if kind == "yarn":
        return _yarn(scaling, settings, base, dim)
    if kind in ("longrope", "su"):
        return _long(scaling, settings, pairs)
    raise ValueError(f"the scaling of rotations {kind!r} is not known")


def _llama3(scaling: Settings, base: float, dim: int) -> tuple[float, ...]:
    """Divide low frequencies by the factor, keep high ones, and mix those between."""
    factor, original = scaling.positive("factor"), scaling.positive(ORIGINAL)
    low, high = scaling.positive("low_freq_factor"), scaling.positive("high_freq_factor")
    if low >= high:
        raise ValueError(f"the setting low_freq_factor is {low}, and must be below high_freq_factor, {high}")
    turns = original * _frequencies(base, dim) / (2 * math.pi)
    smooth = np.clip((turns - low) / (high - low), 0, 1)
    return tuple((1 / ((1 - smooth) / factor + smooth)).tolist())


def _yarn(scaling: Settings, settings: Settings, base: float, dim: int) -> tuple[tuple[float, ...], float]:
    """Divide frequencies that turn less than `beta_slow` times by the factor; mix up to `beta_fast` turns."""
    factor = scaling.positive("factor")
    original = scaling.positive(ORIGINAL, settings.positive("max_position_embeddings", 4096.0))

    if base == 1:
        raise ValueError("the setting rope_theta is 1, with which YaRN scales nothing")

    def pair_of(turns: float) -> float:
        return dim * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(base))

    low, high = pair_of(scaling.positive("beta_fast", 32.0)), pair_of(scaling.positive("beta_slow", 1.0))
    if scaling.flag("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dim - 1)
    ramp = np.clip((np.arange(dim // 2) - low) / max(high - low, 0.001), 0, 1)
    scale = scaling.number("attention_factor", _yarn_scale(scaling, factor))
    return tuple((1 / (ramp / factor + (1 - ramp))).tolist()), scale


def _yarn_scale(scaling: Settings, factor: float) -> float:
    """Return the factor of cosines and sines, of which DeepSeek's models move a part to the scores."""

    def of(weight: float) -> float:
        return 0.1 * weight * math.log(factor) + 1.0 if factor > 1 else 1.0

    part, moved = scaling.number("mscale", 0.0), scaling.number("mscale_all_dim", 0.0)
    return of(part) / of(moved) if part and moved else of(1.0)


def _long(scaling: Settings, settings: Settings, pairs: int) -> tuple[tuple[float, ...], float]:
    """Take the model's own divisors: for contexts up to those of its training, or for longer ones."""
    longest = settings.integer("max_position_embeddings")
    original = scaling.integer(ORIGINAL, settings.integer(ORIGINAL, longest))
    context = settings.integer(CONTEXT, longest)
    factors = _listed(scaling, "long_factor" if context > original else "short_factor", pairs)
    ratio = scaling.positive("factor", longest / original if original and longest else 1.0)
    default = math.sqrt(1 + math.log(ratio) / math.log(original)) if ratio > 1 and original > 1 else 1.0
    return factors, scaling.number("attention_factor", default)


def _listed(settings: Settings, name: str, pairs: int) -> tuple[float, ...]:
    """Return divisors that settings list, one for each pair."""
    values: Any = settings.values.get(name)
    if not isinstance(values, list) or len(cast("list[Any]", values)) != pairs:
        raise ValueError(f"the setting {name} must be a list of {pairs} numbers")
    return tuple(Settings({name: value}).positive(name) for value in cast("list[Any]", values))


def _frequencies(base: float, dim: int) -> Array:
    return base ** (-np.arange(0, dim, 2) / dim)


__all__ = ["Rotation", "Settings"]
