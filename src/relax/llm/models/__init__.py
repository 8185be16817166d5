"""Families of models, by Hugging Face's type of a model."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any, Final

from ..settings import Settings

FAMILIES: Final[Mapping[str, tuple[str, str]]] = {
    **dict.fromkeys(("llama", "mistral", "qwen2", "qwen3", "phi3"), ("llama", "Llama")),
    **dict.fromkeys(("mixtral", "qwen2_moe", "qwen3_moe"), ("mixture", "Mixture")),
    **dict.fromkeys(("gemma", "gemma2", "gemma3_text"), ("gemma", "Gemma")),
    **dict.fromkeys(("deepseek_v2", "deepseek_v3"), ("deepseek", "DeepSeek")),
    "mamba2": ("mamba2", "Mamba2"),
    "gpt2": ("gpt2", "GPT2"),
    "gpt_neox": ("gpt_neox", "GPTNeoX"),
    "olmo2": ("olmo2", "OLMo2"),
    "stablelm": ("stablelm", "StableLM"),
    "starcoder2": ("starcoder2", "StarCoder2"),
    "bert": ("bert", "BERT"),
    "whisper": ("whisper", "Whisper"),
}
"""Module and class of a family, by type of a model."""

_added: dict[str, Callable[[Settings], Any]] = {}


def register(model_type: str) -> Callable[[Callable[[Settings], Any]], Callable[[Settings], Any]]:
    """Decorator: the class, called with `Settings`, makes models of this type."""

    def add(family: Callable[[Settings], Any]) -> Callable[[Settings], Any]:
        _added[model_type] = family
        return family

    return add


def model_of(settings: Settings) -> Any:
    """Return the model that settings describe, an `nn.Module` without weights.

    Raises ValueError for a type that no family has, and for settings that the family does not understand.
    """
    if "model_type" not in settings:
        raise ValueError("the settings of the model lack model_type")
    kind = settings.text("model_type")
    if kind in _added:
        return _added[kind](settings)
    if kind not in FAMILIES:
        names = ", ".join(sorted({*FAMILIES, *_added}))
        raise ValueError(f"no family has models of the type {kind!r}; there are {names}")
    module, name = FAMILIES[kind]
    return getattr(importlib.import_module(f"{__name__}.{module}"), name)(settings)


__all__ = ["FAMILIES", "model_of", "register"]
