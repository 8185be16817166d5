"""Loading a language model: `load`.

Two things take long, and are kept on disk for the next start: the program is compiled once for its sizes (the cache of
programs), and the weights are packed once for this processor (the cache of weights).
"""

from __future__ import annotations

import json
import operator
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias, cast

import numpy as np
import tvm_ffi

from ..farm import packed_weights
from ..farm.host import resolve
from ..farm.versions import compiler_files
from ..frontend import nn
from ..frontend.gguf import GGUFFile
from ..frontend.nn import spec
from ..frontend.nn.llm import PagedKVCache, RNNState, RopeMode
from ..ir import IRModule
from ..runtime import set_num_threads
from ..runtime.executable import Executable
from ..runtime.tensor import tensor_of_numpy
from ..vm import build
from .adapters import Adapted, adapted, adapted_layers, arguments, read_adapter
from .checkpoint import Checkpoint, open_checkpoint
from .decoder import CacheShape, StateShape
from .embedding_model import EmbeddingModel
from .language_model import LanguageModel, Stats
from .models import model_of
from .models.bert import BERT
from .models.whisper import Whisper
from .runner import PAGE, Limits, Runner
from .settings import CONTEXT, LARGEST, Settings
from .tokenizer import Tokenizer, tokenizer_of
from .weights import Activations, WeightPacker

Progress: TypeAlias = Callable[[str, float], None]
"""Called with what is being done, and the part of it that is done, from 0 to 1."""

DEFAULT_CONTEXT: Final = 8192
"""Tokens of a context, at most, where the caller does not say."""
CHUNK: Final = 256
"""Tokens that are computed together, at most."""


PACKERS: Final = ("topi", "transform/quantize_rows.py", "llm")
"""Files of the package that determine packed weights: weights that other code has packed are packed again."""


class Ready(NamedTuple):
    """A model that is compiled, with its weights."""

    mod: IRModule
    executable: Executable
    weights: list[tvm_ffi.Tensor]
    nbytes: int
    """Size of the weights."""


def load(
    path: str | os.PathLike[str],
    *,
    dtype: str | None = None,
    activations: Activations = "int8",
    threads: int | None = None,
    context: int | None = None,
    cache_tokens: int | None = None,
    max_sequences: int = 16,
    cache_dtype: str = "float16",
    adapters: Mapping[str, str | os.PathLike[str]] | None = None,
    progress: Progress | None = None,
) -> LanguageModel:
    """Load a language model from a GGUF file, or from a folder of Hugging Face: config.json and safetensors files.

    It is compiled for the current target (``with Target("llvm -mcpu=…")``), by default for this machine.

    Parameters
    ----------
    path
        The file or folder. A folder without a tokenizer makes a model that takes tokens only.
    dtype
        None keeps weights as they are stored: those of block formats packed, others as float32. A block format
        ("q8_0", "q4_k") rounds other matrices to it; "float32" makes numbers of all weights.
    activations
        "int8" rounds activations to bytes, in blocks, before products with packed weights; "float32" makes numbers of
        these weights instead.
    threads
        Number of threads of this process; None leaves it (`relax.runtime.set_num_threads`).
    context
        Tokens of a sequence, at most; None: those of the model's context, up to 8192.
    cache_tokens
        Tokens of all sequences in the cache together, at most; None: as many as `context`. Memory is taken as they
        come.
    max_sequences
        Sequences in the cache at the same time.
    cache_dtype
        Dtype of keys and values in the cache: "float16", "bfloat16" or "float32".
    adapters
        LoRA adapters by the names that answers choose them by: folders of PEFT, or GGUF files.
    progress
        Called with what is being done, and the part of it that is done.

    Raises OSError for files that are missing, DiagnosticError for corrupt ones, and ValueError for a model that no
    family has, whose weights and settings do not fit together, that embeds texts (`load_embedding`) or transcribes
    speech (`load_speech`), and ImportError without the packages of the extra ``relax[llm]`` that its tokenizer needs.
    """
    start = time.perf_counter()
    if threads is not None:
        set_num_threads(threads)
    checkpoint = open_checkpoint(path)
    named = Settings(checkpoint.settings)
    longest = named.integer("max_position_embeddings", named.integer("n_positions", DEFAULT_CONTEXT))
    tokens = min(longest, DEFAULT_CONTEXT) if context is None else operator.index(context)
    if not 1 <= tokens <= LARGEST:
        raise ValueError(f"a context has from 1 to {LARGEST} tokens, found {tokens}")
    room = tokens if cache_tokens is None else operator.index(cache_tokens)
    if not tokens <= room <= LARGEST:
        raise ValueError(f"cache_tokens is {room}, expected from {tokens}, one context, to {LARGEST}")
    if not 1 <= operator.index(max_sequences) <= LARGEST:
        raise ValueError(f"max_sequences is {max_sequences}, expected from 1 to {LARGEST}")
    model = model_of(Settings({**checkpoint.settings, CONTEXT: tokens}))
    if isinstance(model, BERT):
        raise ValueError(
            f"{checkpoint.model_type} models embed texts: use relax.llm.load_embedding, or relax serve --embedding"
        )
    if isinstance(model, Whisper):
        raise ValueError(
            f"{checkpoint.model_type} models transcribe speech: use relax.llm.load_speech, or relax transcribe"
        )
    tokenizer = _tokenizer(checkpoint, path)
    read = {name: read_adapter(place, checkpoint.model_type) for name, place in (adapters or {}).items()}
    if read and isinstance(model.cache(), StateShape):
        raise ValueError(f"adapters of {checkpoint.model_type} models are not supported")
    layers = adapted_layers(model, read) if read else []
    ready = prepared(model, checkpoint, lambda: program_of(model, cache_dtype, layers), dtype, activations, progress)
    matrices = {
        name: [*map(tensor_of_numpy, arguments(adapter, layers, named, (model.shape.heads, model.shape.kv_heads)))]
        for name, adapter in read.items()
    }
    runner = Runner(ready.executable, ready.weights, Limits(max_sequences, room, min(CHUNK, room)), matrices)
    stats = Stats(weights=ready.nbytes, load_seconds=time.perf_counter() - start)
    return LanguageModel(ready.mod, runner, tokenizer, named.integer("vocab_size"), stats, tokens)


def load_embedding(
    path: str | os.PathLike[str], *, threads: int | None = None, progress: Progress | None = None
) -> EmbeddingModel:
    """Load a model of sentences, such as all-MiniLM-L6-v2, from a folder of Hugging Face.

    How activations become a vector is read from the files that `sentence-transformers` writes: 1_Pooling/config.json
    and modules.json; without them, it is their mean. Raises as `load` does.
    """
    if threads is not None:
        set_num_threads(threads)
    checkpoint = open_checkpoint(path)
    model = model_of(Settings(checkpoint.settings))
    tokenizer = _tokenizer(checkpoint, path)
    if not isinstance(model, BERT) or tokenizer is None:
        raise ValueError(f"{path} has no model of sentences with a tokenizer")

    def program() -> IRModule:
        arguments = {"tokens": spec.Tensor(["b", "n"], "int32"), "lengths": spec.Tensor(["b"], "int32")}
        return model.export_tvm({"encode": arguments})[0]

    ready = prepared(model, checkpoint, program, None, "int8", progress)
    pooling = Settings({"pooling": _json(Path(path) / "1_Pooling" / "config.json")}).inner("pooling")
    modules = _json(Path(path) / "modules.json")
    listed = cast("list[Any]", modules) if isinstance(modules, list) else []
    kinds = [Settings(cast("dict[str, Any]", module)).text("type") for module in listed if isinstance(module, dict)]
    return EmbeddingModel(
        ready.mod, ready.executable, ready.weights, tokenizer,
        pooling="cls" if pooling.flag("pooling_mode_cls_token") else "mean",
        normalises=any(kind.endswith("Normalize") for kind in kinds),
        longest=Settings(checkpoint.settings).integer("max_position_embeddings", 512),
    )  # fmt: skip


def prepared(
    model: nn.Module, checkpoint: Checkpoint, program: Callable[[], IRModule], dtype: str | None,
    activations: Activations, progress: Progress | None,
) -> Ready:  # fmt: skip
    """Return a model compiled for the current target, with its weights, whose forms its layers take first."""
    say: Progress = progress or _say_nothing
    target = resolve()
    try:
        parts = WeightPacker(checkpoint, target, dtype, activations).parts(model)
    except KeyError as error:
        raise ValueError(str(error.args[0])) from None
    mod = program()
    say("compiling", 0.0)
    executable = build(mod, target)
    code = compiler_files(PACKERS)
    identity = "" if code is None else f"{code}\n{packed_weights.identity_of(checkpoint.file.paths)}"
    weights = packed_weights.load(parts, identity, lambda _, done, size: say("packing weights", done / size))
    return Ready(mod, executable, weights, sum(part.nbytes for part in parts))


def _say_nothing(doing: str, part: float) -> None:
    """Show no progress."""


def program_of(model: Any, cache_dtype: str = "float16", layers: Sequence[Adapted] = ()) -> IRModule:
    """Return the program of a decoder: `create_cache`, and `forward` from tokens to logits; see `Runner`.

    If adapters change some `layers`, there is `forward_adapted`, which takes their matrices behind the cache.
    """
    shape = cast("CacheShape | StateShape", model.cache())

    def create_cache(max_sequences: Any, total_tokens: Any, chunk: Any) -> PagedKVCache | RNNState:
        """Make the cache of attention, or the states of a recurrent model."""
        if isinstance(shape, StateShape):
            return RNNState.create(max_sequences, shape.layers, 1, [np.zeros(s, np.float32) for s in shape.states])
        return new_cache(shape, max_sequences, total_tokens, chunk, cache_dtype)

    sizes = ["max_sequences", "total_tokens", "chunk"]
    forward: dict[str, Any] = {"tokens": spec.Tensor(["n"], "int32"), "last": spec.Tensor(["m"], "int32")}
    if isinstance(shape, StateShape):
        forward |= {"cache": spec.Object(RNNState), "ends": spec.Tensor(["b"], "int32")}
    else:
        forward["cache"] = spec.Object(PagedKVCache)
    methods = [
        spec.MethodSpec(create_cache, sizes, [spec.Int() for _ in sizes], "none", "none"),
        spec.MethodSpec.from_raw(forward, model.forward),
    ]
    names = ["create_cache", "forward"]
    if layers:
        names.append("forward_adapted")
        methods.append(_adapted_method(model, forward, layers))
    mod, _ = model.export_tvm(spec.ModuleSpec(model, names, methods))
    return mod


def _adapted_method(model: Any, forward: Mapping[str, Any], layers: Sequence[Adapted]) -> spec.MethodSpec:
    """Return `forward` with the matrices of an adapter, whose ranks are dynamic."""
    names, specs = [*forward], [*forward.values()]
    for index, (layer, *_) in enumerate(layers):
        names += [f"a{index}", f"b{index}"]
        specs += [
            spec.Tensor([layer.in_features, f"r{index}"], "float32"),
            spec.Tensor([f"r{index}", layer.out_features], "float32"),
        ]

    def forward_adapted(tokens: Any, last: Any, cache: Any, *matrices: Any) -> Any:
        """Compute logits as `forward` does, by layers that an adapter changes."""
        with adapted(layers, matrices):
            return model.forward(tokens, last, cache)

    return spec.MethodSpec(forward_adapted, names, specs)


def new_cache(shape: CacheShape, max_sequences: Any, total_tokens: Any, chunk: Any, dtype: str) -> PagedKVCache:
    """Emit the creation of a model's cache."""
    rotation = shape.rotation
    options: dict[str, Any] = {
        "page_dtype": dtype, "rotary_dim": rotation.dim, "interleaved": rotation.interleaved,
    }  # fmt: skip
    if rotation.factors:
        options["factors"] = rotation.factors
    if rotation.scale != 1.0:
        options["scaling"] = rotation.scale
    if shape.local_rotation is not None:
        options["local_theta"] = shape.local_rotation.theta
    if shape.softcap:
        options["softcap"] = shape.softcap
    kinds = ["mha_sliding" if windowed else "mha" for windowed in shape.windowed] or "mha"
    return PagedKVCache.create_generic(
        kinds, max_sequences, total_tokens, chunk, PAGE, shape.window, shape.layers, shape.heads, shape.kv_heads,
        shape.head_dim, shape.value_dim or shape.head_dim, RopeMode.NORMAL if rotation.dim else RopeMode.NONE, 1.0,
        rotation.theta, "float32", options=options,
    )  # fmt: skip


def _tokenizer(checkpoint: Checkpoint, path: str | os.PathLike[str]) -> Tokenizer | None:
    """Return the tokenizer of a model; None for a folder or file without one."""
    place = Path(path)
    if isinstance(checkpoint.file, GGUFFile):
        return None if checkpoint.file.tokenizer.tokens is None else tokenizer_of(checkpoint.file)
    return tokenizer_of(place) if any((place / name).exists() for name in _TOKENIZERS) else None


_TOKENIZERS: Final = ("tokenizer.json", "tokenizer.model", "vocab.txt")


def _json(path: Path) -> Any:
    """Return what a file holds; nothing if there is none."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}


__all__ = ["load", "load_embedding", "program_of"]
