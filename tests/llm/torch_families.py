"""Small models of `transformers` with random weights, one of each family."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import torch
import transformers as t

SMALL: Final = {
    "vocab_size": 97, "hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 3, "num_attention_heads": 6,
    "num_key_value_heads": 2, "max_position_embeddings": 256, "attn_implementation": "eager",
    "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0,
}  # fmt: skip
LLAMA3: Final = {
    "rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64, "rope_theta": 10000.0,
}  # fmt: skip
YARN: Final = {
    "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64, "rope_theta": 10000.0,
}  # fmt: skip
LONG: Final = {
    "rope_type": "longrope", "long_factor": [1.0, 1.5, 2.0, 4.0], "short_factor": [1.0] * 4, "rope_theta": 10000.0,
    "original_max_position_embeddings": 64,
}  # fmt: skip
EXPERTS: Final = {"num_experts": 5, "num_experts_per_tok": 2, "moe_intermediate_size": 24}
SHARED: Final = {"shared_expert_intermediate_size": 40}
LATENT: Final = {
    "kv_lora_rank": 24, "qk_nope_head_dim": 10, "qk_rope_head_dim": 8, "v_head_dim": 12, "n_routed_experts": 8,
    "num_experts_per_tok": 3, "moe_intermediate_size": 24, "n_shared_experts": 2,
}  # fmt: skip
MAMBA: Final = {
    "vocab_size": 97, "hidden_size": 48, "num_hidden_layers": 3, "num_heads": 6, "head_dim": 16, "n_groups": 2,
    "state_size": 8, "chunk_size": 16,
}  # fmt: skip
HALF: Final = {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5}
WINDOWS: Final = ["sliding_attention", "full_attention", "sliding_attention"]

FAMILIES: Final[Mapping[str, Callable[[], Any]]] = {
    "llama": lambda: t.LlamaForCausalLM(t.LlamaConfig(**SMALL)),
    "llama with biases and tied embeddings": lambda: t.LlamaForCausalLM(
        t.LlamaConfig(**SMALL, attention_bias=True, mlp_bias=True, tie_word_embeddings=True, head_dim=16)
    ),
    "llama 3": lambda: t.LlamaForCausalLM(t.LlamaConfig(**SMALL, rope_parameters=LLAMA3)),
    "llama with yarn": lambda: t.LlamaForCausalLM(t.LlamaConfig(**SMALL, rope_parameters=YARN)),
    "mistral": lambda: t.MistralForCausalLM(t.MistralConfig(**SMALL, sliding_window=9)),
    "qwen 2": lambda: t.Qwen2ForCausalLM(t.Qwen2Config(**SMALL)),
    "qwen 3": lambda: t.Qwen3ForCausalLM(t.Qwen3Config(**SMALL, head_dim=16)),
    "phi 3": lambda: t.Phi3ForCausalLM(t.Phi3Config(**SMALL)),
    "phi 3 with long rotations": lambda: t.Phi3ForCausalLM(
        t.Phi3Config(**SMALL, original_max_position_embeddings=64, rope_parameters=LONG)
    ),
    "gemma": lambda: t.GemmaForCausalLM(t.GemmaConfig(**SMALL, head_dim=16)),
    "gemma 2": lambda: t.Gemma2ForCausalLM(
        t.Gemma2Config(**SMALL, head_dim=16, sliding_window=9, layer_types=WINDOWS, query_pre_attn_scalar=24)
    ),
    "gemma 3": lambda: t.Gemma3ForCausalLM(
        t.Gemma3TextConfig(**SMALL, head_dim=16, sliding_window=9, layer_types=WINDOWS, query_pre_attn_scalar=24)
    ),
    "mixtral": lambda: t.MixtralForCausalLM(t.MixtralConfig(**SMALL, num_local_experts=4, sliding_window=9)),
    "qwen 2 moe": lambda: t.Qwen2MoeForCausalLM(
        t.Qwen2MoeConfig(**SMALL, **EXPERTS, **SHARED, mlp_only_layers=[1])
    ),
    "qwen 2 moe without biases": lambda: t.Qwen2MoeForCausalLM(
        t.Qwen2MoeConfig(**SMALL, **EXPERTS, **SHARED, decoder_sparse_step=2, qkv_bias=False, norm_topk_prob=True)
    ),
    "qwen 3 moe": lambda: t.Qwen3MoeForCausalLM(
        t.Qwen3MoeConfig(**SMALL, **EXPERTS, head_dim=16, norm_topk_prob=True)
    ),
    "deepseek 2": lambda: t.DeepseekV2ForCausalLM(
        t.DeepseekV2Config(**{**SMALL, "num_key_value_heads": 6}, **LATENT, q_lora_rank=None, first_k_dense_replace=1)
    ),
    "deepseek 2 with groups and yarn": lambda: t.DeepseekV2ForCausalLM(
        t.DeepseekV2Config(
            **{**SMALL, "num_key_value_heads": 6}, **LATENT, q_lora_rank=20, attention_bias=True, n_group=4,
            topk_group=2, topk_method="group_limited_greedy", routed_scaling_factor=3.0,
            rope_parameters={**YARN, "mscale": 0.7, "mscale_all_dim": 0.9},
        )
    ),
    "deepseek 3": lambda: t.DeepseekV3ForCausalLM(
        t.DeepseekV3Config(
            **{**SMALL, "num_key_value_heads": 6}, **LATENT, q_lora_rank=20, n_group=4, topk_group=2,
            first_k_dense_replace=1, rope_parameters={**YARN, "mscale": 1.0, "mscale_all_dim": 1.0},
        )
    ),
    "deepseek 3 without interleaving": lambda: t.DeepseekV3ForCausalLM(
        t.DeepseekV3Config(
            **{**SMALL, "num_key_value_heads": 6}, **LATENT, q_lora_rank=None, n_group=1, topk_group=1,
            rope_interleave=False, norm_topk_prob=False,
        )
    ),
    "mamba 2": lambda: t.Mamba2ForCausalLM(t.Mamba2Config(**MAMBA)),
    "mamba 2 with biases, tied embeddings and limits": lambda: t.Mamba2ForCausalLM(
        t.Mamba2Config(
            **MAMBA, use_bias=True, use_conv_bias=False, tie_word_embeddings=True, time_step_limit=(0.3, 0.8)
        )
    ),
    "olmo 2": lambda: t.Olmo2ForCausalLM(t.Olmo2Config(**SMALL)),
    "gpt neox": lambda: t.GPTNeoXForCausalLM(t.GPTNeoXConfig(**SMALL, rope_parameters=HALF)),
    "gpt neox one behind the other": lambda: t.GPTNeoXForCausalLM(
        t.GPTNeoXConfig(**SMALL, use_parallel_residual=False, attention_bias=False, rope_parameters=HALF)
    ),
    "stablelm": lambda: t.StableLmForCausalLM(t.StableLmConfig(**SMALL, rope_parameters=HALF)),
    "stablelm side by side": lambda: t.StableLmForCausalLM(
        t.StableLmConfig(**SMALL, use_parallel_residual=True, use_qkv_bias=True, rope_parameters=HALF)
    ),
    "starcoder 2": lambda: t.Starcoder2ForCausalLM(t.Starcoder2Config(**SMALL, sliding_window=9)),
    "gpt 2": lambda: t.GPT2LMHeadModel(
        t.GPT2Config(vocab_size=97, n_embd=48, n_layer=3, n_head=6, n_positions=256, attn_implementation="eager")
    ),
}  # fmt: skip
"""Makers of models, by name."""


def made(name: str) -> Any:
    """Return a model whose weights are random, norms and biases too, the same at each call."""
    torch.manual_seed(len(name))
    model = FAMILIES[name]().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.05)
        for path, buffer in model.named_buffers():
            if path.endswith("e_score_correction_bias"):
                buffer.add_(torch.randn_like(buffer) * 0.1)
    return model
