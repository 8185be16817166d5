"""A small model of Whisper's shape with random weights, as a folder of Hugging Face. Its windows have 0.6 seconds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from relax.llm.settings import Settings
from relax.llm.speech.rules import SpeechTokens

FRAMES, POSITIONS, BINS = 30, 40, 8
CONTROL = (
    "<|endoftext|>", "<|startoftranscript|>", "<|en|>", "<|de|>", "<|translate|>", "<|transcribe|>", "<|startofprev|>",
    "<|nospeech|>", "<|notimestamps|>",
)  # fmt: skip
END, START, ENGLISH, GERMAN, TRANSLATE, TRANSCRIBE, PREVIOUS, SILENCE, NO_TIMES = range(256, 256 + len(CONTROL))
TIMES = NO_TIMES + 1
"""The token of the time 0; 30 follow, each 0.02 s later."""
VOCABULARY = TIMES + FRAMES + 1
SETTINGS: dict[str, Any] = {
    "model_type": "whisper", "vocab_size": VOCABULARY, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2,
    "encoder_attention_heads": 4, "decoder_attention_heads": 2, "encoder_ffn_dim": 48, "decoder_ffn_dim": 40,
    "num_mel_bins": BINS, "max_source_positions": FRAMES, "max_target_positions": POSITIONS,
    "pad_token_id": END, "bos_token_id": END, "eos_token_id": END, "decoder_start_token_id": START,
}  # fmt: skip
GENERATION: dict[str, Any] = {
    "is_multilingual": True, "suppress_tokens": [7, START, TRANSLATE, TRANSCRIBE, PREVIOUS, SILENCE, NO_TIMES],
    "begin_suppress_tokens": [32, END], "max_initial_timestamp_index": 10,
}  # fmt: skip


SPECIAL = {END + i: text for i, text in enumerate(CONTROL)}
TOKENS = SpeechTokens.of(SPECIAL, VOCABULARY, Settings(GENERATION))


def small_whisper(folder: Path, **settings: Any) -> Path:
    """Write the model into a folder; return the folder."""
    rng = np.random.default_rng(3)
    hidden = 32
    sizes: dict[str, tuple[int, ...]] = {
        "encoder.conv1": (hidden, BINS, 3), "encoder.conv2": (hidden, hidden, 3),
        "encoder.embed_positions": (FRAMES, hidden), "decoder.embed_positions": (POSITIONS, hidden),
        "decoder.embed_tokens": (VOCABULARY, hidden),
    }  # fmt: skip
    for part, inner, kinds in (("encoder", 48, ("self_attn",)), ("decoder", 40, ("self_attn", "encoder_attn"))):
        sizes[f"{part}.layer_norm"] = (hidden,)
        for layer in (f"{part}.layers.{i}" for i in range(2)):
            sizes |= {f"{layer}.{name}_layer_norm": (hidden,) for name in (*kinds, "final")}
            sizes |= {f"{layer}.{kind}.{n}_proj": (hidden, hidden) for kind in kinds for n in ("q", "k", "v", "out")}
            sizes |= {f"{layer}.fc1": (inner, hidden), f"{layer}.fc2": (hidden, inner)}
    weights = {f"model.{name}.weight": rng.normal(0, 0.4, size).astype(np.float32) for name, size in sizes.items()}
    for name, size in sizes.items():
        if "embed" not in name and not name.endswith("k_proj"):
            weights[f"model.{name}.bias"] = rng.normal(0, 0.2, size[0]).astype(np.float32)
    for name in weights:
        if "encoder_attn" in name:  # what is heard matters
            weights[name] *= 3
    folder.mkdir(exist_ok=True)
    save_file(weights, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps({**SETTINGS, **settings}))
    (folder / "generation_config.json").write_text(json.dumps(GENERATION))
    (folder / "preprocessor_config.json").write_text(json.dumps({"feature_size": BINS}))
    small_tokenizer().save(str(folder / "tokenizer.json"))
    return folder


def small_tokenizer() -> Tokenizer:
    """A tokenizer of bytes with the control tokens of speech."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({letter: i for i, letter in enumerate(letters)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([*CONTROL])
    tokenizer.add_tokens([AddedToken(f"<|{i * 0.02:.2f}|>", special=False) for i in range(FRAMES + 1)])
    return tokenizer


def sound(seconds: float, seed: int = 0) -> np.ndarray:
    """Noise whose loudness changes, at 16000 samples a second."""
    rng = np.random.default_rng(seed)
    count = int(seconds * 16000)
    return (rng.normal(0, 0.1, count) * np.sin(np.arange(count) / 900) ** 2).astype(np.float32)
