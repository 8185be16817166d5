"""The names of this package, by the module that defines them. Written by tools/make_homes.py."""

from __future__ import annotations

HOMES = {
    ".embedding_model": "EmbeddingModel",
    ".language_model": "LanguageModel Stats",
    ".loading": "load load_embedding",
    ".quantizing": "QuantizedFile quantize",
    ".sampling": "Choice Sampler",
    ".stops": "StopStream",
    ".tokenizer": "DecodeStream Tokenizer tokenizer_of",
}
