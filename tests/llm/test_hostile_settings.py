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
]  # fmt: skip
TYPES = (
    "llama", "gemma2", "gemma3_text", "qwen3", "phi3", "olmo2", "gpt2", "gpt_neox", "stablelm", "starcoder2", "bert",
    "qwen3_moe",
)  # fmt: skip
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
