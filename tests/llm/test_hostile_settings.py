"""Settings of any kind make a model or are refused with a message; nothing hangs, and nothing is built of nonsense."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import pytest
from small_models import small_model

from relax.farm.host import resolve
from relax.llm.checkpoint import open_checkpoint
from relax.llm.models import model_of
from relax.llm.settings import Settings
from relax.llm.weights import WeightPacker

VALUES: list[Any] = [
    0, 1, -1, 2, 3, 7, 10**9, 2**40, 2**70, 1.5, math.nan, math.inf, -1e300, "x", "", None, True, False, [], [1], {},
    {"a": 1}, "silu", "gelu", "yarn",
]  # fmt: skip
NAMES = [
    "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim",
    "vocab_size", "rms_norm_eps", "rope_theta", "rotary_dim", "sliding_window", "hidden_act", "attention_bias",
    "rope_scaling", "rope_parameters", "rope_factors", "partial_rotary_factor", "max_position_embeddings",
    "tie_word_embeddings", "model_type", "layer_types", "use_sliding_window", "final_logit_softcapping",
    "attn_logit_softcapping", "query_pre_attn_scalar", "interleaved", "norm_offset", "num_experts",
    "num_experts_per_tok", "moe_intermediate_size", "norm_topk_prob", "decoder_sparse_step", "mlp_only_layers",
    "kv_lora_rank", "q_lora_rank", "qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim", "n_group", "topk_group",
    "topk_method", "scoring_func", "routed_scaling_factor", "n_shared_experts", "first_k_dense_replace",
    "moe_layer_freq", "num_heads", "state_size", "n_groups", "conv_kernel", "expand", "time_step_limit", "d_model",
    "encoder_layers", "decoder_attention_heads", "max_source_positions", "num_mel_bins",
]  # fmt: skip
TYPES = (
    "llama", "gemma2", "gemma3_text", "qwen3", "phi3", "olmo2", "gpt2", "gpt_neox", "stablelm", "starcoder2", "bert",
    "qwen3_moe", "deepseek_v2", "deepseek_v3", "mamba2", "whisper",
)  # fmt: skip
LATENT = {
    "kv_lora_rank": 8, "qk_nope_head_dim": 4, "qk_rope_head_dim": 4, "v_head_dim": 4, "n_routed_experts": 4,
    "num_experts_per_tok": 2, "moe_intermediate_size": 8,
}  # fmt: skip
OF_FAMILIES: dict[str, dict[str, Any]] = {
    "deepseek_v2": LATENT, "deepseek_v3": LATENT,
    "mamba2": {"num_heads": 4, "head_dim": 16, "state_size": 4},
    "whisper": {
        "d_model": 32, "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 8,
        "decoder_ffn_dim": 8, "encoder_layers": 1, "decoder_layers": 1, "num_mel_bins": 8, "max_source_positions": 4,
        "max_target_positions": 4,
    },
}  # fmt: skip
"""Sizes that only some families have, with which their models can be made."""
SCALINGS = ("llama3", "yarn", "longrope", "linear", "x")
OF_SCALINGS = (
    "factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings", "beta_fast", "beta_slow",
    "long_factor", "attention_factor",
)  # fmt: skip


@pytest.mark.parametrize("seed", range(4))
def test_random_settings(seed: int, tmp_path: Path) -> None:
    checkpoint = open_checkpoint(small_model(tmp_path / "small", has_tokenizer=False))
    rng = random.Random(seed)
    made = 0
    for _ in range(60):
        settings = dict(checkpoint.settings)
        if rng.random() < 0.4:
            settings["model_type"] = rng.choice(TYPES)
        for _ in range(rng.choice([0, 1, 1, 2])):
            settings[rng.choice(NAMES)] = rng.choice(VALUES)
        settings |= OF_FAMILIES.get(str(settings["model_type"]), {}) if rng.random() < 0.7 else {}
        for _ in range(rng.choice([0, 1, 2])):
            settings[rng.choice(NAMES)] = rng.choice(VALUES)
        if rng.random() < 0.3:
            chosen = {name: rng.choice(VALUES) for name in rng.sample(OF_SCALINGS, 3)}
            settings["rope_scaling"] = {"rope_type": rng.choice(SCALINGS), **chosen}
        try:
            model = model_of(Settings({**settings, "context": 64}))
            parts = WeightPacker(checkpoint, resolve("llvm")).parts(model)
        except (ValueError, KeyError) as error:
            assert str(error)  # noqa: PT017
        else:
            made += 1
            assert all(part.make().shape == part.shape for part in parts)
    assert made > 3
