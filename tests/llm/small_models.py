"""A small model of Llama's shape with random weights, as a folder of Hugging Face, and its tokenizer of bytes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

SETTINGS = {
    "model_type": "llama", "vocab_size": 260, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128, "rms_norm_eps": 1e-5,
}  # fmt: skip
TEMPLATE = (
    "{% for message in messages %}<|{{ message.role }}|>{{ message.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
SPECIAL = ("<|end|>", "<|user|>", "<|assistant|>", "<|system|>")


def small_model(folder: Path, *, has_tokenizer: bool = True) -> Path:
    """Write the model into a folder; return the folder."""
    rng = np.random.default_rng(5)
    hidden, inner = 32, 48
    sizes = {"model.embed_tokens": (260, hidden), "lm_head": (260, hidden), "model.norm": (hidden,)}
    for i in range(2):
        layer = f"model.layers.{i}"
        sizes |= {f"{layer}.{norm}_layernorm": (hidden,) for norm in ("input", "post_attention")}
        sizes |= {f"{layer}.self_attn.{name}_proj": (size, hidden) for name, size in zip("qkvo", (32, 16, 16, 32))}
        sizes |= {f"{layer}.mlp.{name}_proj": (inner, hidden) for name in ("gate", "up")}
        sizes[f"{layer}.mlp.down_proj"] = (hidden, inner)
    folder.mkdir(exist_ok=True)
    save_file(
        {f"{name}.weight": rng.normal(0, 0.4, size).astype(np.float32) for name, size in sizes.items()},
        folder / "model.safetensors",
    )
    (folder / "config.json").write_text(json.dumps(SETTINGS))
    if has_tokenizer:
        write_tokenizer(folder)
    return folder


def write_tokenizer(folder: Path) -> None:
    """Write a tokenizer of 256 bytes and four control tokens, and a chat template, into a folder."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({letter: i for i, letter in enumerate(letters)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([*SPECIAL])
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {"eos_token": SPECIAL[0], "chat_template": TEMPLATE, "tokenizer_class": "PreTrainedTokenizerFast"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))


WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "cat", "dog", "plays", "sleeps", "##s")


def small_bert(folder: Path, *, pooling: str = "mean", normalises: bool = True) -> Path:
    """Write a model of sentences with one layer and ten words into a folder; return the folder."""
    rng = np.random.default_rng(6)
    hidden, inner = 16, 24
    sizes = {f"embeddings.{n}_embeddings": (c, hidden) for n, c in (("word", 10), ("position", 12), ("token_type", 2))}
    dense = {f"attention.self.{n}": (hidden, hidden) for n in ("query", "key", "value")}
    dense |= {"attention.output.dense": (hidden, hidden), "intermediate.dense": (inner, hidden)}
    dense["output.dense"] = (hidden, inner)
    sizes |= {f"encoder.layer.0.{name}": size for name, size in dense.items()}
    norms = ("embeddings.LayerNorm", "encoder.layer.0.attention.output.LayerNorm", "encoder.layer.0.output.LayerNorm")
    weights = {f"{name}.weight": rng.normal(0, 0.4, size) for name, size in sizes.items()}
    weights |= {f"encoder.layer.0.{name}.bias": rng.normal(0, 0.1, rows) for name, (rows, _) in dense.items()}
    weights |= {f"{norm}.{kind}": rng.normal(1, 0.1, hidden) for norm in norms for kind in ("weight", "bias")}
    folder.mkdir(exist_ok=True)
    save_file({name: array.astype(np.float32) for name, array in weights.items()}, folder / "model.safetensors")
    settings = {
        "model_type": "bert", "vocab_size": 10, "hidden_size": hidden, "intermediate_size": inner,
        "num_hidden_layers": 1, "num_attention_heads": 2, "max_position_embeddings": 12, "type_vocab_size": 2,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(settings))
    tokenizer = Tokenizer(models.WordPiece({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", None, [("[CLS]", 2), ("[SEP]", 3)])
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "1_Pooling").mkdir(exist_ok=True)
    pooled = {"pooling_mode_cls_token": pooling == "cls", "pooling_mode_mean_tokens": pooling == "mean"}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooled))
    kinds = ["Transformer", "Pooling", *(["Normalize"] if normalises else [])]
    (folder / "modules.json").write_text(json.dumps([{"type": f"sentence_transformers.models.{k}"} for k in kinds]))
    return folder
