"""GGUF's names of settings and tensors in terms of Hugging Face's, which models are written in.

`settings_of` makes what a folder has in ``config.json`` of the metadata of a file; `names_of` says which tensor of the
file has which weights. The names of GGUF are those of llama.cpp's converter, which also changes some weights: it orders
the rows of queries and keys of Llama's family for rotation of neighbours (``interleaved``), and adds 1 to the scales of
Gemma's norms (``norm_offset`` 0).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence, Sized
from typing import Any, Final, cast

import numpy as np

from .settings import Settings

MODEL_TYPES: Final[Mapping[str, str]] = {
    "llama": "llama", "qwen2": "qwen2", "qwen3": "qwen3", "gemma": "gemma", "gemma2": "gemma2", "gemma3": "gemma3_text",
    "phi3": "phi3", "gpt2": "gpt2", "olmo2": "olmo2", "qwen2moe": "qwen2_moe", "qwen3moe": "qwen3_moe",
    "deepseek2": "deepseek_v2", "mamba2": "mamba2",
}  # fmt: skip
"""Hugging Face's type of a model by the architecture of a GGUF file."""

_READ_ONLY: Final = frozenset({"qwen2_moe", "qwen3_moe", "deepseek_v2", "mamba2"})
"""Types of models whose GGUF files are read and not written: mixtures of experts, and recurrent models."""
ARCHITECTURES: Final[Mapping[str, str]] = {
    **{kind: architecture for architecture, kind in MODEL_TYPES.items() if kind not in _READ_ONLY},
    "mistral": "llama",
}
"""Architecture of a GGUF file by Hugging Face's type of a model, of those that are written."""

_KEYS: Final[Mapping[str, str]] = {
    "block_count": "num_hidden_layers",
    "context_length": "max_position_embeddings",
    "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim",
    "attention.value_length": "v_head_dim",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
    "attention.layer_norm_epsilon": "layer_norm_eps",
    "attention.sliding_window": "sliding_window",
    "rope.freq_base": "rope_theta",
    "rope.freq_base_swa": "rope_local_base_freq",
    "rope.dimension_count": "rotary_dim",
    "attn_logit_softcapping": "attn_logit_softcapping",
    "final_logit_softcapping": "final_logit_softcapping",
    "expert_count": "num_local_experts",
    "expert_used_count": "num_experts_per_tok",
    "expert_feed_forward_length": "moe_intermediate_size",
    "expert_shared_feed_forward_length": "shared_expert_intermediate_size",
    "expert_weights_norm": "norm_topk_prob",
    "expert_weights_scale": "routed_scaling_factor",
    "expert_shared_count": "n_shared_experts",
    "expert_group_count": "n_group",
    "expert_group_used_count": "topk_group",
    "leading_dense_block_count": "first_k_dense_replace",
    "attention.q_lora_rank": "q_lora_rank",
    "attention.kv_lora_rank": "kv_lora_rank",
    "vocab_size": "vocab_size",
}

_LAYER: Final[Mapping[str, str]] = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_qkv": "self_attn.qkv_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "ffn_gate_inp": "mlp.gate",
    "ffn_gate_exps": "mlp.experts.gate_proj",
    "ffn_up_exps": "mlp.experts.up_proj",
    "ffn_down_exps": "mlp.experts.down_proj",
    "ffn_gate_inp_shexp": "mlp.shared_expert_gate",
    "ffn_gate_shexp": "mlp.shared_expert.gate_proj",
    "ffn_up_shexp": "mlp.shared_expert.up_proj",
    "ffn_down_shexp": "mlp.shared_expert.down_proj",
    "post_attention_norm": "post_attention_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}
_GEMMA: Final = {"ffn_norm": "pre_feedforward_layernorm"}
_PHI3: Final = {"ffn_up": "mlp.gate_up_proj"}
_GPT2: Final = {
    "attn_norm": "ln_1", "attn_qkv": "attn.c_attn", "attn_output": "attn.c_proj", "ffn_norm": "ln_2",
    "ffn_up": "mlp.c_fc", "ffn_down": "mlp.c_proj",
}  # fmt: skip
_MAMBA2: Final = {
    "attn_norm": "norm", "ssm_in": "mixer.in_proj", "ssm_conv1d": "mixer.conv1d", "ssm_norm": "mixer.norm",
    "ssm_out": "mixer.out_proj",
}  # fmt: skip
_MIXTRAL: Final = {
    "ffn_gate_inp": "block_sparse_moe.gate", "ffn_gate_exps": "block_sparse_moe.experts.w1",
    "ffn_up_exps": "block_sparse_moe.experts.w3", "ffn_down_exps": "block_sparse_moe.experts.w2",
}  # fmt: skip
_DEEPSEEK: Final = {
    "attn_q_a": "self_attn.q_a_proj", "attn_q_a_norm": "self_attn.q_a_layernorm", "attn_q_b": "self_attn.q_b_proj",
    "attn_kv_a_mqa": "self_attn.kv_a_proj_with_mqa", "attn_kv_a_norm": "self_attn.kv_a_layernorm",
    "attn_kv_b": "self_attn.kv_b_proj", "attn_k_b": "self_attn.k_b_proj", "attn_v_b": "self_attn.v_b_proj",
    "exp_probs_b": "mlp.gate.e_score_correction", "ffn_gate_shexp": "mlp.shared_experts.gate_proj",
    "ffn_up_shexp": "mlp.shared_experts.up_proj", "ffn_down_shexp": "mlp.shared_experts.down_proj",
}  # fmt: skip
_WHOLE: Final = {
    "mlp.gate.e_score_correction.bias": "mlp.gate.e_score_correction_bias", "ssm_dt.bias": "mixer.dt_bias",
    "ssm_a": "mixer.A", "ssm_d": "mixer.D",
}  # fmt: skip
"""Names of weights in a layer that are no part with a weight and a bias."""
_OWN_LAYER: Final[Mapping[str, Mapping[str, str]]] = {
    "mamba2": _MAMBA2, "deepseek_v2": _DEEPSEEK, "deepseek_v3": _DEEPSEEK,
    "gemma2": _GEMMA, "gemma3_text": _GEMMA, "phi3": _PHI3, "gpt2": _GPT2, "mixtral": _MIXTRAL,
}  # fmt: skip
_OUTSIDE: Final[Mapping[str, str]] = {
    "token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head",
}  # fmt: skip
_OUTSIDE_GPT2: Final = {
    "token_embd": "wte", "position_embd": "wpe", "output_norm": "ln_f", "output": "lm_head",
}  # fmt: skip

_OUTSIDE_MAMBA2: Final = {
    "token_embd": "backbone.embeddings", "output_norm": "backbone.norm_f", "output": "lm_head",
}  # fmt: skip
_OWN_OUTSIDE: Final[Mapping[str, tuple[Mapping[str, str], str]]] = {
    "gpt2": (_OUTSIDE_GPT2, "h"), "mamba2": (_OUTSIDE_MAMBA2, "backbone.layers"),
}  # fmt: skip
"""Names outside of layers, and that of the layers, of models with names of their own."""

_NORMED_BEHIND: Final = frozenset({"olmo2"})
"""Models without a norm before the feed-forward layer."""
_LARGEST_GEMMAS: Final = {"gemma2": 46, "gemma3": 62}
"""Layers of the models of 27 billion parameters, whose scores have another scale, which files do not tell."""

INTERLEAVED: Final = frozenset({"llama"})
"""Architectures whose queries and keys are stored for rotation of neighbours."""


def settings_of(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a model as ``config.json`` has them, from a file's metadata.

    Raises ValueError for an architecture that is not known, and where metadata have values of other types.
    """
    architecture = str(metadata.get("general.architecture"))
    if architecture not in MODEL_TYPES:
        raise ValueError(f"no model of the architecture {architecture!r}; there are {', '.join(MODEL_TYPES)}")
    settings: dict[str, Any] = {"model_type": MODEL_TYPES[architecture]}
    for key, name in _KEYS.items():
        value = metadata.get(f"{architecture}.{key}")
        if value is not None:
            settings[name] = value
    if "vocab_size" not in settings:
        tokens = metadata.get("tokenizer.ggml.tokens", ())
        settings["vocab_size"] = len(tokens) if isinstance(tokens, Sized) else 0
    settings["interleaved"] = architecture in INTERLEAVED
    if architecture.startswith("gemma"):
        settings["norm_offset"] = 0
        settings |= _of_gemma(architecture, metadata)
    if architecture == "gpt2":
        settings["transposed_weights"] = False
    if architecture == "llama" and settings.get("num_local_experts"):
        settings["model_type"] = "mixtral"
    if architecture == "deepseek2":
        settings |= _of_deepseek(metadata, settings)
    if architecture == "mamba2":
        settings |= _of_mamba2(metadata, settings)
    if architecture == "qwen3moe":
        settings.setdefault("norm_topk_prob", True)
    scaling = _scaling(architecture, metadata)
    if scaling:
        settings["rope_scaling"] = scaling
    return settings


def _of_gemma(architecture: str, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of Gemma about the scale of scores, and about the layers with windows."""
    found: dict[str, Any] = {}
    scale = Settings(metadata).number(f"{architecture}.attention.scale", 0.0)
    if scale > 1e-15:
        found["query_pre_attn_scalar"] = (1 / scale) ** 2
    elif metadata.get(f"{architecture}.block_count") == _LARGEST_GEMMAS.get(architecture):
        size, heads = (metadata.get(f"{architecture}.{key}") for key in ("embedding_length", "attention.head_count"))
        if isinstance(size, int) and isinstance(heads, int) and heads:
            found["query_pre_attn_scalar"] = size / heads
    pattern = metadata.get(f"{architecture}.attention.sliding_window_pattern")
    if isinstance(pattern, int):
        found["sliding_window_pattern"] = pattern
    elif pattern is not None and not isinstance(pattern, Sequence | np.ndarray):
        raise ValueError(f"the layers with windows are {pattern!r}, and must be a number or a list")
    elif pattern is not None:
        found["layer_types"] = [
            "sliding_attention" if windowed else "full_attention" for windowed in cast("Sequence[Any]", pattern)
        ]
    return found


def _of_mamba2(metadata: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of Mamba 2, whose number of heads is the key `time_step_rank`."""
    values = Settings(metadata)
    names = {"state_size": "state_size", "conv_kernel": "conv_kernel", "group_count": "n_groups"}
    found: dict[str, Any] = {name: values.integer(f"mamba2.ssm.{key}") for key, name in names.items()}
    heads, inner = values.integer("mamba2.ssm.time_step_rank"), values.integer("mamba2.ssm.inner_size")
    found |= {"num_heads": heads, "head_dim": inner // max(heads, 1)}
    return {**found, "layer_norm_epsilon": Settings(settings).positive("rms_norm_eps"), "is_of_gguf": True}


_SIGMOID: Final = 2
"""Number of the function that makes weights of experts of a router's product: the sigmoid; 1 is the softmax."""


def _of_deepseek(metadata: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of DeepSeek: the type of the model, and the sizes of latent attention."""
    values, known = Settings(metadata), Settings(settings)
    is_third = values.integer("deepseek2.expert_gating_func", 1) == _SIGMOID
    rotated = known.integer("rotary_dim")
    # Files whose keys and values are stored as latent vectors only name the sizes of heads in other places.
    head = values.integer("deepseek2.attention.key_length_mla", known.integer("head_dim"))
    return {
        "model_type": "deepseek_v3" if is_third else "deepseek_v2",
        "topk_method": "group_limited_greedy",
        "qk_rope_head_dim": rotated, "qk_nope_head_dim": max(head - rotated, 0),
        "v_head_dim": values.integer("deepseek2.attention.value_length_mla", known.integer("v_head_dim")),
        "num_key_value_heads": known.integer("num_attention_heads"), "head_dim": head,
        "norm_topk_prob": known.flag("norm_topk_prob"),
    }  # fmt: skip


def _scaling(architecture: str, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the scaling of rotations that a file asks for."""
    values, place = Settings(metadata), f"{architecture}.rope.scaling"
    kind = values.text(f"{place}.type")
    plain = f"{architecture}.rope.scale_linear"
    name = f"{place}.factor" if f"{place}.factor" in values else plain
    if name not in values or kind == "none":
        return {}
    factor = values.positive(name)
    found: dict[str, Any] = {"rope_type": kind or "linear", "factor": factor}
    if f"{place}.original_context_length" in values:
        found["original_max_position_embeddings"] = values.integer(f"{place}.original_context_length")
    for beta in ("beta_fast", "beta_slow"):
        if f"{place}.yarn_{beta}" in values:
            found[beta] = values.positive(f"{place}.yarn_{beta}")
    if kind == "yarn" and f"{place}.yarn_log_multiplier" in values:  # the scores have the factor of cosines and sines
        found["mscale"] = found["mscale_all_dim"] = 10 * values.number(f"{place}.yarn_log_multiplier")
    elif kind == "yarn" and architecture == "deepseek2":
        found["attention_factor"] = 1.0
    if kind == "yarn" and f"{place}.attn_factor" in values:  # a factor of what YaRN computes
        found["attention_factor"] = values.positive(f"{place}.attn_factor") * yarn_scale(factor)
    return found


def yarn_scale(factor: float) -> float:
    """Return the factor of cosines and sines that YaRN computes for a scaling."""
    return 0.1 * math.log(factor) + 1.0 if factor > 1 else 1.0


def long_rotations(metadata: Mapping[str, Any], long: Sequence[float], short: Sequence[float]) -> dict[str, Any]:
    """Return the scaling of rotations of a file that lists divisors for long and for short contexts."""
    architecture = str(metadata.get("general.architecture"))
    found: dict[str, Any] = {"rope_type": "longrope", "long_factor": list(long), "short_factor": list(short)}
    for key, name in (
        ("original_context_length", "original_max_position_embeddings"),
        ("attn_factor", "attention_factor"),
    ):
        value = metadata.get(f"{architecture}.rope.scaling.{key}")
        if value is not None:
            found[name] = value
    return found


def names_of(model_type: str, tensors: Iterable[str]) -> dict[str, str]:
    """Return the names of tensors of a file by Hugging Face's names of the weights."""
    layer = {**_LAYER, **_OWN_LAYER.get(model_type, {})}
    outside, block = _OWN_OUTSIDE.get(model_type, (_OUTSIDE, "model.layers"))
    found: dict[str, str] = {}
    for name in tensors:
        match = re.fullmatch(r"blk\.(\d+)\.(\w+)\.(weight|bias)", name)
        whole = re.fullmatch(r"blk\.(\d+)\.(ssm_[ad])", name)
        expert = re.fullmatch(r"blk\.(\d+)\.(ffn_(?:gate|up|down))\.(\d+)\.weight", name)
        if match is not None:
            number, part, kind = match.groups()
            weight = f"{layer.get(part, part)}.{kind}"
            found[f"{block}.{number}.{_WHOLE.get(weight, weight)}"] = name
        elif whole is not None:
            found[f"{block}.{whole[1]}.{_WHOLE[whole[2]]}"] = name
        elif expert is not None:  # files of 2023 have a tensor for each expert
            number, part, index = expert.groups()
            experts, _, matrix = layer[f"{part}_exps"].rpartition(".")
            found[f"{block}.{number}.{experts}.{index}.{matrix}.weight"] = name
        else:
            part, _, kind = name.rpartition(".")
            found[f"{outside.get(part, part)}.{kind}"] = name
    return found


def name_of(model_type: str, weight: str) -> str | None:
    """Return the name in a GGUF file of weights that Hugging Face names; None for other names."""
    layer = {**_LAYER, **_OWN_LAYER.get(model_type, {})}
    if model_type in _NORMED_BEHIND:
        del layer["ffn_norm"]
    outside, block = (_OUTSIDE_GPT2, "h") if model_type == "gpt2" else (_OUTSIDE, r"model\.layers")
    match = re.fullmatch(rf"{block}\.(\d+)\.(.+)\.(weight|bias)", weight)
    if match is not None:
        number, part, kind = match.groups()
        names = [name for name, other in layer.items() if other == part]
        return f"blk.{number}.{names[0]}.{kind}" if names else None
    part, _, kind = weight.rpartition(".")
    names = [name for name, other in outside.items() if other == part]
    return f"{names[0]}.{kind}" if names and kind in ("weight", "bias") else None


__all__ = [
    "ARCHITECTURES",
    "INTERLEAVED",
    "MODEL_TYPES",
    "long_rotations",
    "name_of",
    "names_of",
    "settings_of",
    "yarn_scale",
]
