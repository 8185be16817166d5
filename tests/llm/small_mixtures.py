"""Small mixtures of experts with random weights, the same as a GGUF file and as a folder of Hugging Face."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gguf as writer
import numpy as np
from safetensors.numpy import save_file

from relax.llm.pieces import BYTE_OF

HIDDEN, INNER, EXPERTS, HEADS, KV_HEADS, VOCABULARY = 64, 32, 5, 4, 2, 257
SETTINGS = {
    "vocab_size": VOCABULARY, "hidden_size": HIDDEN, "intermediate_size": 96, "num_hidden_layers": 1,
    "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "max_position_embeddings": 128,
    "rms_norm_eps": 1e-5, "num_experts": EXPERTS, "num_experts_per_tok": 2,
}  # fmt: skip
OWN: dict[str, dict[str, Any]] = {
    "mixtral": {"intermediate_size": INNER},
    "qwen2_moe": {"moe_intermediate_size": INNER, "shared_expert_intermediate_size": 96, "norm_topk_prob": False},
    "qwen3_moe": {"moe_intermediate_size": INNER, "norm_topk_prob": True},
}
ARCHITECTURES = {"mixtral": "llama", "qwen2_moe": "qwen2moe", "qwen3_moe": "qwen3moe"}
TYPES = {
    "token_embd": "Q8_0", "attn_q": "Q4_1", "attn_k": "Q8_0", "attn_v": "Q8_0", "ffn_gate_exps": "Q8_0",
    "ffn_up_exps": "Q4_1", "ffn_down_exps": "Q8_0", "ffn_up_shexp": "Q8_0",
}  # fmt: skip
"""Types in which the GGUF file stores weights; others are float32."""


def weights_of(kind: str) -> dict[str, np.ndarray]:
    """Random weights, by GGUF's names."""
    rng = np.random.default_rng(7)
    head = HIDDEN // HEADS
    sizes: dict[str, tuple[int, ...]] = {
        "token_embd": (VOCABULARY, HIDDEN), "output_norm": (HIDDEN,), "output": (VOCABULARY, HIDDEN),
    }  # fmt: skip
    layer: dict[str, tuple[int, ...]] = {
        "attn_norm": (HIDDEN,), "ffn_norm": (HIDDEN,), "attn_q": (HIDDEN, HIDDEN), "attn_k": (KV_HEADS * head, HIDDEN),
        "attn_v": (KV_HEADS * head, HIDDEN), "attn_output": (HIDDEN, HIDDEN), "ffn_gate_inp": (EXPERTS, HIDDEN),
        "ffn_gate_exps": (EXPERTS, INNER, HIDDEN), "ffn_up_exps": (EXPERTS, INNER, HIDDEN),
        "ffn_down_exps": (EXPERTS, HIDDEN, INNER),
    }  # fmt: skip
    if kind == "qwen2_moe":
        layer |= {"ffn_gate_shexp": (96, HIDDEN), "ffn_up_shexp": (96, HIDDEN), "ffn_down_shexp": (HIDDEN, 96)}
        layer |= {"ffn_gate_inp_shexp": (1, HIDDEN)}
    if kind == "qwen3_moe":
        layer |= {"attn_q_norm": (head,), "attn_k_norm": (head,)}
    sizes |= {f"blk.0.{name}": size for name, size in layer.items()}
    found = {f"{name}.weight": rng.normal(0, 0.3, size).astype(np.float32) for name, size in sizes.items()}
    if kind == "qwen2_moe":
        rows = {"q": HIDDEN, "k": KV_HEADS * head, "v": KV_HEADS * head}
        found |= {f"blk.0.attn_{n}.bias": rng.normal(0, 0.3, size).astype(np.float32) for n, size in rows.items()}
    return found


def gguf_file(
    path: Path, kind: str, types: dict[str, str] = TYPES, split: dict[str, np.ndarray] | None = None
) -> dict[str, np.ndarray]:
    """Write the model as a GGUF file; return its weights as the file has them, by GGUF's names.

    With `split`, these tensors stand in the place of the experts'.
    """
    architecture, own = ARCHITECTURES[kind], {**SETTINGS, **OWN[kind]}
    file = writer.GGUFWriter(path, architecture)
    file.add_block_count(1)
    file.add_context_length(128)
    file.add_embedding_length(HIDDEN)
    file.add_feed_forward_length(own["intermediate_size"])
    file.add_head_count(HEADS)
    file.add_head_count_kv(KV_HEADS)
    file.add_layer_norm_rms_eps(1e-5)
    file.add_expert_count(EXPERTS)
    file.add_expert_used_count(2)
    if kind != "mixtral":
        file.add_expert_feed_forward_length(INNER)
    if kind == "qwen2_moe":
        file.add_expert_shared_feed_forward_length(96)
    file.add_tokenizer_model("gpt2")
    file.add_tokenizer_pre("gpt-2")
    file.add_token_list([*BYTE_OF, "ab"])
    file.add_token_merges(["a b"])
    stored: dict[str, np.ndarray] = {}
    weights = weights_of(kind)
    if split is not None:
        weights = {name: array for name, array in weights.items() if "_exps" not in name} | split
    for name, array in weights.items():
        part = name.removeprefix("blk.0.").partition(".")[0]
        kept = array
        if kind == "mixtral" and part in ("attn_q", "attn_k"):  # rotation of neighbours, as the converter writes it
            heads = HEADS if part == "attn_q" else KV_HEADS
            kept = array.reshape(heads, 2, -1, HIDDEN).swapaxes(1, 2).reshape(array.shape)
        type_name = types.get(name.removesuffix(".weight"), types.get(part))
        if type_name is not None and name.endswith("weight"):
            type_ = writer.GGMLQuantizationType[type_name]
            data = writer.quants.quantize(kept, type_)
            file.add_tensor(name, data, raw_dtype=type_)
            kept = writer.quants.dequantize(data, type_)
        else:
            file.add_tensor(name, kept)
        if kind == "mixtral" and part in ("attn_q", "attn_k"):
            kept = kept.reshape(heads, -1, 2, HIDDEN).swapaxes(1, 2).reshape(array.shape)
        stored[name] = kept
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()
    return stored


NAMES = {
    "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm", "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm", "ffn_gate_inp_shexp": "mlp.shared_expert_gate",
    "ffn_gate_shexp": "mlp.shared_expert.gate_proj", "ffn_up_shexp": "mlp.shared_expert.up_proj",
    "ffn_down_shexp": "mlp.shared_expert.down_proj",
}  # fmt: skip
OUTSIDE = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}


def folder_of(path: Path, kind: str, weights: dict[str, np.ndarray], *, fused: bool = False) -> Path:
    """Write the model as a folder of Hugging Face: a tensor for each matrix of an expert, or with `fused` for all."""
    block = "block_sparse_moe" if kind == "mixtral" else "mlp"
    matrices = ("w1", "w3", "w2") if kind == "mixtral" else ("gate_proj", "up_proj", "down_proj")
    found: dict[str, np.ndarray] = {}
    for name, array in weights.items():
        part, _, suffix = name.removeprefix("blk.0.").partition(".")
        if part in OUTSIDE:
            found[f"{OUTSIDE[part]}.{suffix}"] = array
        elif part in NAMES:
            found[f"model.layers.0.{NAMES[part]}.{suffix}"] = array
        elif part == "ffn_gate_inp":
            found[f"model.layers.0.{block}.gate.weight"] = array
    experts = f"model.layers.0.{block}.experts"
    gate, up, down = (weights[f"blk.0.ffn_{part}_exps.weight"] for part in ("gate", "up", "down"))
    if fused:
        found |= {f"{experts}.gate_up_proj": np.concatenate([gate, up], axis=1), f"{experts}.down_proj": down}
    else:
        for name, array in zip(matrices, (gate, up, down), strict=True):
            found |= {f"{experts}.{i}.{name}.weight": np.ascontiguousarray(array[i]) for i in range(EXPERTS)}
    path.mkdir(exist_ok=True)
    save_file({name: np.ascontiguousarray(array) for name, array in found.items()}, path / "model.safetensors")
    (path / "config.json").write_text(json.dumps({"model_type": kind, **SETTINGS, **OWN[kind]}))
    return path
