"""DeepSeek from GGUF files, with the keys and values of heads in one tensor or in two, and from a folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gguf as writer
import numpy as np
import pytest
from safetensors.numpy import save_file

from relax import llm

HEADS, HIDDEN, RANK, PLAIN, ROTATED, VALUES, EXPERTS, INNER, VOCABULARY = 4, 32, 32, 10, 6, 8, 4, 32, 60
SETTINGS: dict[str, Any] = {
    "vocab_size": VOCABULARY, "hidden_size": HIDDEN, "intermediate_size": 48, "num_hidden_layers": 2,
    "num_attention_heads": HEADS, "max_position_embeddings": 64, "kv_lora_rank": RANK, "qk_nope_head_dim": PLAIN,
    "qk_rope_head_dim": ROTATED, "v_head_dim": VALUES, "n_routed_experts": EXPERTS, "num_experts_per_tok": 2,
    "moe_intermediate_size": INNER, "n_shared_experts": 1, "first_k_dense_replace": 1, "routed_scaling_factor": 1.5,
    "n_group": 2, "topk_group": 1, "rope_theta": 500.0,
    "rope_scaling": {
        "type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16, "mscale": 0.7, "mscale_all_dim": 0.7,
    },
}  # fmt: skip
OWN: dict[str, dict[str, Any]] = {
    "deepseek_v2": {"topk_method": "group_limited_greedy", "q_lora_rank": None, "norm_topk_prob": False},
    "deepseek_v3": {"q_lora_rank": 16, "norm_topk_prob": True},
}
NAMES = {
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q",
    "self_attn.q_a_proj": "attn_q_a", "self_attn.q_a_layernorm": "attn_q_a_norm", "self_attn.q_b_proj": "attn_q_b",
    "self_attn.kv_a_proj_with_mqa": "attn_kv_a_mqa", "self_attn.kv_a_layernorm": "attn_kv_a_norm",
    "self_attn.kv_b_proj": "attn_kv_b", "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "mlp.gate": "ffn_gate_inp",
    "mlp.experts.gate_proj": "ffn_gate_exps", "mlp.experts.up_proj": "ffn_up_exps",
    "mlp.experts.down_proj": "ffn_down_exps", "mlp.shared_experts.gate_proj": "ffn_gate_shexp",
    "mlp.shared_experts.up_proj": "ffn_up_shexp", "mlp.shared_experts.down_proj": "ffn_down_shexp",
}  # fmt: skip


def weights_of(kind: str) -> dict[str, np.ndarray]:
    """Random weights, by the names of a folder; those of all experts are one tensor."""
    rng = np.random.default_rng(4)
    head, low = PLAIN + ROTATED, OWN[kind]["q_lora_rank"]
    attention = {
        "kv_a_proj_with_mqa": (RANK + ROTATED, HIDDEN), "kv_a_layernorm": (RANK,),
        "kv_b_proj": (HEADS * (PLAIN + VALUES), RANK), "o_proj": (HIDDEN, HEADS * VALUES),
    }  # fmt: skip
    if low:
        attention |= {"q_a_proj": (low, HIDDEN), "q_a_layernorm": (low,), "q_b_proj": (HEADS * head, low)}
    else:
        attention["q_proj"] = (HEADS * head, HIDDEN)
    dense = {"gate_proj": (48, HIDDEN), "up_proj": (48, HIDDEN), "down_proj": (HIDDEN, 48)}
    expert = {"gate_proj": (INNER, HIDDEN), "up_proj": (INNER, HIDDEN), "down_proj": (HIDDEN, INNER)}
    sparse: dict[str, tuple[int, ...]] = {"gate": (EXPERTS, HIDDEN)}
    sparse |= {f"experts.{name}": (EXPERTS, *size) for name, size in expert.items()}
    sparse |= {f"shared_experts.{name}": size for name, size in expert.items()}
    sizes: dict[str, tuple[int, ...]] = {
        "model.embed_tokens": (VOCABULARY, HIDDEN), "model.norm": (HIDDEN,), "lm_head": (VOCABULARY, HIDDEN),
    }  # fmt: skip
    for i, mlp in enumerate((dense, sparse)):
        layer = f"model.layers.{i}"
        sizes |= {f"{layer}.{norm}_layernorm": (HIDDEN,) for norm in ("input", "post_attention")}
        sizes |= {f"{layer}.self_attn.{name}": size for name, size in attention.items()}
        sizes |= {f"{layer}.mlp.{name}": size for name, size in mlp.items()}
    found = {f"{name}.weight": rng.normal(0, 0.4, size).astype(np.float32) for name, size in sizes.items()}
    if kind == "deepseek_v3":
        bias = rng.normal(0, 0.3, EXPERTS).astype(np.float32)
        found["model.layers.1.mlp.gate.e_score_correction_bias"] = bias
    return found


def folder_of(path: Path, kind: str) -> Path:
    """Write the model as a folder of Hugging Face, with a tensor for each expert's matrix."""
    found: dict[str, np.ndarray] = {}
    for name, array in weights_of(kind).items():
        if ".experts." in name:
            before, _, behind = name.partition(".experts.")
            found |= {f"{before}.experts.{i}.{behind}": np.ascontiguousarray(array[i]) for i in range(EXPERTS)}
        else:
            found[name] = array
    path.mkdir()
    save_file(found, path / "model.safetensors")
    (path / "config.json").write_text(json.dumps({"model_type": kind, **SETTINGS, **OWN[kind]}))
    return path


def gguf_of(path: Path, kind: str, *, split: bool) -> Path:
    """Write the model as a GGUF file; `split`: keys and values of heads as converters since 2025 write them."""
    file = writer.GGUFWriter(path, "deepseek2")
    file.add_block_count(2)
    file.add_context_length(64)
    file.add_embedding_length(HIDDEN)
    file.add_feed_forward_length(48)
    file.add_head_count(HEADS)
    file.add_head_count_kv(1 if split else HEADS)
    file.add_layer_norm_rms_eps(1e-6)
    file.add_vocab_size(VOCABULARY)
    file.add_kv_lora_rank(RANK)
    if OWN[kind]["q_lora_rank"]:
        file.add_q_lora_rank(OWN[kind]["q_lora_rank"])
    file.add_key_length(RANK + ROTATED if split else PLAIN + ROTATED)
    file.add_value_length(RANK if split else VALUES)
    if split:
        file.add_key_length_mla(PLAIN + ROTATED)
        file.add_value_length_mla(VALUES)
    file.add_rope_dimension_count(ROTATED)
    file.add_rope_freq_base(500.0)
    file.add_rope_scaling_type(writer.RopeScalingType.YARN)
    file.add_rope_scaling_factor(4.0)
    file.add_rope_scaling_orig_ctx_len(16)
    file.add_rope_scaling_yarn_log_mul(0.1 * 0.7)
    file.add_leading_dense_block_count(1)
    file.add_expert_count(EXPERTS)
    file.add_expert_used_count(2)
    file.add_expert_feed_forward_length(INNER)
    file.add_expert_shared_count(1)
    file.add_expert_group_count(2)
    file.add_expert_group_used_count(1)
    file.add_expert_weights_scale(1.5)
    file.add_expert_weights_norm(OWN[kind]["norm_topk_prob"])
    file.add_expert_gating_func(
        writer.ExpertGatingFuncType.SIGMOID if kind == "deepseek_v3" else writer.ExpertGatingFuncType.SOFTMAX
    )
    outside = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
    for name, array in weights_of(kind).items():
        part, _, suffix = name.rpartition(".")
        if part in outside:
            file.add_tensor(f"{outside[part]}.{suffix}", array)
            continue
        number, _, part = part.removeprefix("model.layers.").partition(".")
        if suffix == "e_score_correction_bias":
            file.add_tensor(f"blk.{number}.exp_probs_b.bias", array)
        elif split and part == "self_attn.kv_b_proj":
            keys, values = np.split(array.reshape(HEADS, PLAIN + VALUES, RANK), [PLAIN], axis=1)
            file.add_tensor(f"blk.{number}.attn_k_b.weight", np.ascontiguousarray(keys.swapaxes(1, 2)))
            file.add_tensor(f"blk.{number}.attn_v_b.weight", np.ascontiguousarray(values))
        else:
            file.add_tensor(f"blk.{number}.{NAMES[part]}.weight", array)
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()
    return path


@pytest.mark.parametrize(("kind", "split"), [("deepseek_v2", False), ("deepseek_v3", True)])
def test_a_gguf_file_gives_the_logits_of_the_folder(kind: str, split: bool, tmp_path: Path) -> None:
    tokens = np.random.default_rng(0).integers(0, VOCABULARY, 24).tolist()
    wanted = llm.load(folder_of(tmp_path / "folder", kind), cache_dtype="float32").logits(tokens)
    found = llm.load(gguf_of(tmp_path / "model.gguf", kind, split=split), cache_dtype="float32").logits(tokens)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kv_lora_rank": 0}, "latent attention of the sizes 0, 10, 6, 8 computes nothing"),
        ({"n_group": 3}, "4 experts cannot be chosen from 1 of 3 groups"),
        ({"num_experts_per_tok": 3}, "1 groups of 2 experts have no 3 experts"),
        ({"kv_lora_rank": None}, "the settings of the model lack kv_lora_rank"),
    ],
)
def test_settings_that_do_not_fit(settings: dict[str, Any], message: str, tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "folder", "deepseek_v2")
    (folder / "config.json").write_text(
        json.dumps({"model_type": "deepseek_v2", **SETTINGS, **OWN["deepseek_v2"], **settings})
    )
    with pytest.raises(ValueError, match=message):
        llm.load(folder)
