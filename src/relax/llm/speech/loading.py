"""Loading a model of speech: `load_speech`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ...frontend.nn import spec
from ...frontend.nn.llm import PagedKVCache
from ...ir import IRModule
from ...runtime import set_num_threads
from ..checkpoint import open_checkpoint
from ..loading import Progress, new_cache, prepared
from ..models import model_of
from ..models.whisper import Whisper
from ..runner import Limits, Runner
from ..settings import Settings, read_settings
from ..tokenizer import tokenizer_of
from .features import Features
from .rules import Rules, SpeechTokens
from .speech_model import SpeechModel


def load_speech(
    path: str | os.PathLike[str],
    *,
    dtype: str | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> SpeechModel:
    """Load a model of speech, Whisper, from a folder of Hugging Face.

    The folder has config.json, safetensors files and tokenizer.json; preprocessor_config.json and
    generation_config.json where they differ from Whisper's usual ones. `dtype` None keeps weights as float32; a block
    format ("q8_0") rounds matrices to it, which halves the time of short sounds. `threads` and `progress` are those of
    `load`.

    Raises OSError for files that are missing, DiagnosticError for corrupt ones, and ValueError for a model that is not
    of speech, or whose weights and settings do not fit together.
    """
    if threads is not None:
        set_num_threads(threads)
    checkpoint = open_checkpoint(path)
    settings = Settings(checkpoint.settings)
    model = model_of(settings)
    if not isinstance(model, Whisper):
        raise ValueError(f"{checkpoint.model_type} models do not transcribe speech: use relax.llm.load")
    folder = Path(path)
    generation = Settings({**checkpoint.settings, **_optional(folder / "generation_config.json")})
    tokenizer, vocabulary = tokenizer_of(folder), settings.integer("vocab_size")
    tokens = SpeechTokens.of(tokenizer.special, vocabulary, generation)
    rules = Rules(tokens, generation, vocabulary)
    features = Features(Settings(_optional(folder / "preprocessor_config.json")), model.bins)
    ready = prepared(model, checkpoint, lambda: program_of(model), dtype, "int8", progress)
    positions = model.sizes.positions
    runner = Runner(ready.executable, ready.weights, Limits(1, positions, positions))
    return SpeechModel(
        ready.mod, runner, tokenizer, features, tokens, rules, frames=model.frames, positions=positions
    )  # fmt: skip


def program_of(model: Whisper) -> IRModule:
    """Return the program of a model of speech: `encode`, `create_cache`, and `forward` from tokens to logits."""
    shape, sizes = model.cache(), ["max_sequences", "total_tokens", "chunk"]

    def create_cache(max_sequences: Any, total_tokens: Any, chunk: Any) -> PagedKVCache:
        """Make the cache of attention."""
        return new_cache(shape, max_sequences, total_tokens, chunk, "float32")

    states = spec.Tensor([1, model.frames, shape.heads, shape.head_dim], "float32")
    forward: dict[str, Any] = {
        "tokens": spec.Tensor(["n"], "int32"), "last": spec.Tensor(["m"], "int32"), "cache": spec.Object(PagedKVCache),
        "speech": [states] * (2 * shape.layers),
    }  # fmt: skip
    features = {"features": spec.Tensor([1, model.bins, 2 * model.frames], "float32")}
    methods = [
        spec.MethodSpec.from_raw(features, model.encode),
        spec.MethodSpec(create_cache, sizes, [spec.Int() for _ in sizes], "none", "none"),
        spec.MethodSpec.from_raw(forward, model.forward),
    ]
    mod, _ = model.export_tvm(spec.ModuleSpec(model, ["encode", "create_cache", "forward"], methods))
    return mod


def _optional(path: Path) -> dict[str, Any]:
    """Return the settings that a file holds; none if there is no file. Raises ValueError for other content."""
    try:
        return read_settings(path)
    except FileNotFoundError:
        return {}


__all__ = ["load_speech", "program_of"]
