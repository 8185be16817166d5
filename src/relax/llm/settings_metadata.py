"""Metadata of a GGUF file from a model's settings: `metadata_of`, the inverse of `gguf_names.settings_of`.

What GGUF has no key for is found by reading the metadata again: a model of these settings must have the same cache of
attention and the same activation.
"""

# NumPy's stubs leave the results of allclose and others partly unknown.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from .checkpoint import LONG_ROTATIONS, ROTATIONS
from .decoder import CacheShape, Shape
from .gguf_names import ARCHITECTURES, long_rotations, settings_of, yarn_scale
from .models import model_of
from .settings import CONTEXT, ORIGINAL, Rotation, Settings

Array: TypeAlias = "NDArray[Any]"

_ACTIVATIONS: Final[Mapping[str, tuple[tuple[str, ...], str]]] = {
    "gelu_tanh": (("hidden_activation", "hidden_act", "activation_function"), "gelu_new"),
    "silu": (("hidden_act",), "silu"),
}
"""Settings that name the activation of a model, and the default, by the activation that GGUF files imply."""


class Written(NamedTuple):
    """Metadata of a model, and tensors that hold settings."""

    metadata: dict[str, Any]
    tensors: dict[str, Array]
    cache: CacheShape
    """Contents of the cache of the model's attention."""


def metadata_of(settings: Mapping[str, Any]) -> Written:
    """Return what a GGUF file says about a model, given the settings of a folder of Hugging Face.

    Raises ValueError for a type of model that GGUF files are not written of, for settings that are not understood, and
    for those that GGUF has no key for.
    """
    s = Settings(settings)
    kind = s.text("model_type")
    if kind not in ARCHITECTURES:
        raise ValueError(f"models of the type {kind!r} are not written; there are {', '.join(ARCHITECTURES)}")
    cache = cast(CacheShape, model_of(s).cache())
    architecture = ARCHITECTURES[kind]
    values, tensors = _rotation(s, cache.rotation) if cache.rotation.dim else ({}, {})
    values = {**_sizes(s, kind, cache), **values, **_windows(kind, cache), **_scores(s, kind, cache)}
    metadata = {"general.architecture": architecture, **{f"{architecture}.{key}": v for key, v in values.items()}}
    _check(s, kind, cache, metadata, tensors)
    return Written(metadata, tensors, cache)


def _sizes(s: Settings, kind: str, cache: CacheShape) -> dict[str, Any]:
    """Return the sizes of a model, and the numbers added where activations are normalised."""
    found: dict[str, Any] = {"block_count": cache.layers}
    if kind == "gpt2":
        hidden = cache.heads * cache.head_dim
        found |= {
            "context_length": s.integer("n_positions", s.integer("max_position_embeddings", 1024)),
            "embedding_length": hidden,
            "feed_forward_length": s.integer("n_inner", s.integer("intermediate_size", 4 * hidden)),
            "attention.layer_norm_epsilon": s.positive("layer_norm_epsilon", s.positive("layer_norm_eps", 1e-5)),
        }
    else:
        shape = Shape.of(s)
        found |= {
            "context_length": s.integer("max_position_embeddings", 8192),
            "embedding_length": shape.hidden,
            "feed_forward_length": shape.inner,
            "attention.key_length": cache.head_dim,
            "attention.value_length": cache.head_dim,
            "attention.layer_norm_rms_epsilon": shape.epsilon,
        }
    return {**found, "attention.head_count": cache.heads, "attention.head_count_kv": cache.kv_heads}


def _windows(kind: str, cache: CacheShape) -> dict[str, Any]:
    """Return the size of windows, and the layers that have one where a family does not have them in all layers."""
    if not any(cache.windowed):
        return {}
    found: dict[str, Any] = {"attention.sliding_window": cache.window}
    if cache.local_rotation is not None:
        found["rope.freq_base_swa"] = cache.local_rotation.theta
    if kind in ("gemma2", "gemma3_text"):
        periods = range(1, cache.layers + 2)
        fitting = [n for n in periods if all(w == bool((i + 1) % n) for i, w in enumerate(cache.windowed))]
        found["attention.sliding_window_pattern"] = fitting[0] if fitting else np.array(cache.windowed, np.bool_)
    return found


def _scores(s: Settings, kind: str, cache: CacheShape) -> dict[str, Any]:
    """Return the scale of Gemma's scores, if it is another one than usual, and bounds of scores and logits."""
    found: dict[str, Any] = {}
    if kind.startswith("gemma"):
        wanted = s.positive("query_pre_attn_scalar", float(cache.head_dim))
        if wanted != cache.head_dim:
            found["attention.scale"] = wanted**-0.5
        cap = s.number("final_logit_softcapping", 0.0)
        found |= {"final_logit_softcapping": cap} if cap else {}
    return {**found, "attn_logit_softcapping": cache.softcap} if cache.softcap else found


def _rotation(s: Settings, rotation: Rotation) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return base and scaling of rotations, and the tensors with divisors of frequencies."""
    found: dict[str, Any] = {"rope.dimension_count": rotation.dim, "rope.freq_base": rotation.theta}
    scaling = _scaling_of(s)
    kind = scaling.text("rope_type", scaling.text("type", "default"))
    if not rotation.factors:
        return found, {}
    original = scaling.integer(ORIGINAL, s.integer(ORIGINAL, s.integer("max_position_embeddings", 0)))
    if kind in ("longrope", "su"):
        lists = [np.array(scaling.values.get(name), np.float32) for name in ("long_factor", "short_factor")]
        found |= {"rope.scaling.attn_factor": rotation.scale, "rope.scaling.original_context_length": original}
        return found, dict(zip(LONG_ROTATIONS, lists, strict=True))
    if kind == "yarn":
        factor = scaling.positive("factor")
        found |= {
            "rope.scaling.type": "yarn",
            "rope.scaling.factor": factor,
            "rope.scaling.original_context_length": original,
            "rope.scaling.yarn_beta_fast": scaling.positive("beta_fast", 32.0),
            "rope.scaling.yarn_beta_slow": scaling.positive("beta_slow", 1.0),
        }
        ratio = rotation.scale / yarn_scale(factor)
        return (found if ratio == 1 else {**found, "rope.scaling.attn_factor": ratio}), {}
    if len(set(rotation.factors)) == 1:
        return {**found, "rope.scaling.type": "linear", "rope.scaling.factor": rotation.factors[0]}, {}
    return found, {ROTATIONS: np.array(rotation.factors, np.float32)}


def _scaling_of(s: Settings) -> Settings:
    """Return the settings that say how rotations are scaled, of all layers or of those without a window."""
    if "rope_scaling" in s:
        return s.inner("rope_scaling")
    parameters = s.inner("rope_parameters")
    return parameters.inner("full_attention") if "full_attention" in parameters else parameters


def _check(
    s: Settings, kind: str, cache: CacheShape, metadata: Mapping[str, Any], tensors: Mapping[str, Array]
) -> None:
    """Raise ValueError unless the metadata says what the settings do."""
    implied = "gelu_tanh" if kind.startswith("gemma") or kind == "gpt2" else "silu"
    names, default = _ACTIVATIONS[implied]
    activation = s.activation(*names, default=default)
    if activation != implied and not (kind.startswith("gemma") and activation == "gelu"):
        raise ValueError(f"GGUF files of {kind} models have the activation {implied}, not {activation}")
    again = {**settings_of(metadata), "vocab_size": s.integer("vocab_size")}
    if CONTEXT in s:
        again[CONTEXT] = s.integer(CONTEXT)
    if ROTATIONS in tensors:
        again["rope_factors"] = tensors[ROTATIONS].astype(float).tolist()
    if all(name in tensors for name in LONG_ROTATIONS):
        long, short = (tensors[name].astype(float).tolist() for name in LONG_ROTATIONS)
        again["rope_scaling"] = long_rotations(metadata, long, short)
    found = cast(CacheShape, model_of(Settings(again)).cache())
    for name in ("layers", "heads", "kv_heads", "head_dim", "rotation", "local_rotation", "windows", "softcap"):
        one, other = (_fact(shape, name) for shape in (cache, found))
        same = _same(one, other) if isinstance(one, Rotation) and isinstance(other, Rotation) else one == other
        if not same:
            raise ValueError(f"GGUF has no keys for the {name} of the model's attention: {one}")


def _fact(shape: CacheShape, name: str) -> Any:
    """Return a fact about a cache by name: a field, or the "windows" of all layers, 0 for those without one."""
    if name == "windows":
        return tuple(shape.window if windowed else 0 for windowed in shape.windowed or (False,) * shape.layers)
    return getattr(shape, name)


def _same(one: Rotation, other: Rotation) -> bool:
    """True for rotations whose numbers differ by what float32 cannot tell apart."""
    numbers, others = ((r.theta, r.scale, *r.factors) for r in (one, other))
    return one.dim == other.dim and len(numbers) == len(others) and np.allclose(numbers, others, rtol=1e-6)


__all__ = ["Written", "metadata_of"]
