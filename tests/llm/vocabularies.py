"""Small vocabularies as GGUF files."""

from __future__ import annotations

from pathlib import Path

import gguf_files as gg

from relax.llm import Tokenizer, tokenizer_of
from relax.llm.pieces import BYTE_OF

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
KINDS = {bool: 7, int: 4, str: gg.STRING}
BYTES = list(BYTE_OF)
"""The 256 tokens of one byte in a byte-level vocabulary."""


def write(folder: Path, model: str, tokens, merges=None, name="model.gguf", **settings) -> Path:
    """Write a vocabulary. A token is a text, or (text, type), or (text, type, score)."""
    rows = [(token, NORMAL, 0.0) if isinstance(token, str) else (*token, 0.0)[:3] for token in tokens]
    keys = [
        gg.key("tokenizer.ggml.model", gg.STRING, model),
        gg.key("tokenizer.ggml.tokens", gg.ARRAY, (gg.STRING, [row[0] for row in rows])),
        gg.key("tokenizer.ggml.token_type", gg.ARRAY, (5, [row[1] for row in rows])),
        gg.key("tokenizer.ggml.scores", gg.ARRAY, (6, [row[2] for row in rows])),
    ]
    if merges is not None:
        keys.append(gg.key("tokenizer.ggml.merges", gg.ARRAY, (gg.STRING, merges)))
    for key, value in settings.items():
        full = f"tokenizer.{key}" if key == "chat_template" else f"tokenizer.ggml.{key}"
        keys.append(gg.key(full, KINDS[type(value)], value))
    path = folder / name
    path.write_bytes(gg.file(keys))
    return path


def byte_level(folder: Path, extra=(), merges=(), **settings) -> Tokenizer:
    """A tokenizer with a token for each byte, its merges, and `extra` tokens."""
    merged = [merge.replace(" ", "", 1) for merge in merges]
    return tokenizer_of(write(folder, "gpt2", [*BYTES, *merged, *extra], list(merges), **{"pre": "gpt-2", **settings}))


def scored(folder: Path, pieces, **settings) -> Tokenizer:
    """A vocabulary of SentencePiece's BPE: <unk>, <s>, </s>, the bytes, and pieces, the first of the highest score."""
    tokens = [
        ("<unk>", UNKNOWN), ("<s>", CONTROL), ("</s>", CONTROL), *((f"<0x{byte:02X}>", BYTE) for byte in range(256)),
        *(piece if isinstance(piece, tuple) else (piece, NORMAL, -float(rank)) for rank, piece in enumerate(pieces)),
    ]  # fmt: skip
    roles = {"unknown_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    return tokenizer_of(write(folder, "llama", tokens, **{**roles, **settings}))
