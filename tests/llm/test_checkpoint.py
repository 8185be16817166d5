"""Checkpoints: GGUF files and folders of Hugging Face under one set of names."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import gguf as writer
import numpy as np
import pytest
from safetensors.numpy import save_file

from relax.farm.host import resolve
from relax.llm.checkpoint import Checkpoint, open_checkpoint
from relax.llm.gguf_names import names_of, settings_of
from relax.llm.models import model_of
from relax.llm.settings import Settings
from relax.llm.weights import WeightPacker
from relax.topi.block_formats import block_format

RNG = np.random.default_rng(0)


def written(path: Path, architecture: str = "llama", **tensors: np.ndarray | tuple[np.ndarray, str]) -> Path:
    """A GGUF file with one layer of 64 elements and these tensors, some of them rounded to a type."""
    file = writer.GGUFWriter(path, architecture)
    file.add_block_count(1)
    file.add_embedding_length(64)
    file.add_feed_forward_length(96)
    file.add_head_count(4)
    file.add_head_count_kv(2)
    file.add_layer_norm_rms_eps(1e-5)
    file.add_rope_dimension_count(16)
    file.add_token_list([f"t{i}" for i in range(40)])
    for name, value in tensors.items():
        if isinstance(value, tuple):
            kind = writer.GGMLQuantizationType[value[1]]
            file.add_tensor(name, writer.quants.quantize(value[0], kind), raw_dtype=kind)
        else:
            file.add_tensor(name, value)
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()
    return path


def matrix(rows: int, depth: int = 64) -> np.ndarray:
    return RNG.normal(size=(rows, depth)).astype(np.float32)


TENSORS = {
    "token_embd.weight": (matrix(40), "Q8_0"),
    "output_norm.weight": np.ones(64, np.float32),
    "blk.0.attn_norm.weight": np.ones(64, np.float32),
    "blk.0.ffn_norm.weight": np.ones(64, np.float32),
    "blk.0.attn_q.weight": (matrix(64), "Q4_1"),
    "blk.0.attn_k.weight": (matrix(32), "Q4_1"),
    "blk.0.attn_v.weight": (matrix(32), "Q5_0"),
    "blk.0.attn_output.weight": matrix(64),
    "blk.0.ffn_gate.weight": matrix(96),
    "blk.0.ffn_up.weight": (matrix(96), "Q8_0"),
    "blk.0.ffn_down.weight": (matrix(64, 96), "Q8_0"),
}


def test_settings_and_names_of_a_gguf_file(tmp_path: Path) -> None:
    c = open_checkpoint(written(tmp_path / "m.gguf", **TENSORS))
    assert c.model_type == "llama"
    assert c.settings["hidden_size"] == 64
    assert c.settings["interleaved"]
    assert c.settings["tie_word_embeddings"]
    assert c.settings["vocab_size"] == 40
    assert "model.layers.0.self_attn.q_proj.weight" in c
    assert "model.layers.0.mlp.down_proj.weight" in c
    np.testing.assert_array_equal(
        c.array("model.layers.0.self_attn.o_proj.weight"), TENSORS["blk.0.attn_output.weight"]
    )
    stored = c.stored("model.embed_tokens.weight")
    assert (stored.layout, stored.shape) == ("q8_0", (40, 64))
    with pytest.raises(KeyError, match="m.gguf has no weights lm_head.weight"):
        c.array("lm_head.weight")


def test_matrices_of_one_layer_take_the_forms_in_which_they_are_stored(tmp_path: Path) -> None:
    c = open_checkpoint(written(tmp_path / "m.gguf", **TENSORS))
    model = model_of(Settings(c.settings))
    parts = {part.name: part for part in WeightPacker(c, resolve("llvm")).parts(model)}
    attention = model.model.layers[0].self_attn
    assert [m.packed and m.packed.name for m in attention.qkv_proj.matrices] == ["q4_1", "q5_0"]
    assert [m.out_features for m in attention.qkv_proj.matrices] == [96, 32]
    mlp = model.model.layers[0].mlp
    assert [m.packed and m.packed.name for m in mlp.gate_up_proj.matrices] == [None, "q8_0"]

    packed = attention.qkv_proj.matrices[0].packed
    panels = parts["model.layers.0.self_attn.qkv_proj.matrices.0.weight"].make()
    held = block_format("q4_1")
    rows = [c.numbers(f"model.layers.0.self_attn.{name}_proj.weight") for name in "qk"]
    np.testing.assert_array_equal(held.decoded(packed.parts(panels, 96)), np.concatenate(rows))
    gate = parts["model.layers.0.mlp.gate_up_proj.matrices.0.weight"].make()
    np.testing.assert_array_equal(gate, TENSORS["blk.0.ffn_gate.weight"].T)


def test_float32_makes_numbers_of_all_weights(tmp_path: Path) -> None:
    c = open_checkpoint(written(tmp_path / "m.gguf", **TENSORS))
    for arrangement in (WeightPacker(c, resolve("llvm"), "float32"), WeightPacker(c, resolve("llvm"), None, "float32")):
        model = model_of(Settings(c.settings))
        assert {part.dtype for part in arrangement.parts(model)} == {"float32"}


@pytest.mark.parametrize(
    ("architecture", "message"),
    [("mamba", "no model of the architecture 'mamba'; there are llama"), ("dbrx", "no model of the architecture")],
)
def test_an_unknown_architecture(tmp_path: Path, architecture: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        open_checkpoint(written(tmp_path / "m.gguf", architecture))


def test_settings_of_mixtures_of_experts() -> None:
    mixtral = settings_of({"general.architecture": "llama", "llama.expert_count": 8, "llama.expert_used_count": 2})
    assert (mixtral["model_type"], mixtral["num_local_experts"], mixtral["num_experts_per_tok"]) == ("mixtral", 8, 2)
    assert settings_of({"general.architecture": "llama", "llama.expert_count": 0})["model_type"] == "llama"
    qwen = settings_of({"general.architecture": "qwen3moe", "qwen3moe.expert_feed_forward_length": 768})
    assert (qwen["model_type"], qwen["moe_intermediate_size"], qwen["norm_topk_prob"]) == ("qwen3_moe", 768, True)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("rope.scaling.factor", [2.0], "the setting gemma3.rope.scaling.factor is [2.0], and must be a number"),
        ("rope.scaling.factor", math.nan, "the setting gemma3.rope.scaling.factor is nan, and must be a number"),
        ("rope.scaling.factor", 0.0, "the setting gemma3.rope.scaling.factor is 0.0, and must be above 0"),
        ("rope.scaling.type", 5, "the setting gemma3.rope.scaling.type is 5, and must be a text"),
        ("rope.scaling.original_context_length", "x", "context_length is 'x', and must be a whole number"),
        ("attention.scale", "x", "the setting gemma3.attention.scale is 'x', and must be a number"),
        ("attention.sliding_window_pattern", 1.5, "the layers with windows are 1.5, and must be a number or a list"),
    ],
)
def test_metadata_of_wrong_types(key: str, value: Any, message: str) -> None:
    scaling = {"gemma3.rope.scaling.factor": 2.0}
    with pytest.raises(ValueError, match=re.escape(message)):
        settings_of({"general.architecture": "gemma3", **scaling, f"gemma3.{key}": value})


def test_weights_of_another_shape_are_refused(tmp_path: Path) -> None:
    tensors = {**TENSORS, "blk.0.attn_k.weight": matrix(16)}
    c = open_checkpoint(written(tmp_path / "m.gguf", **tensors))
    expected = r"self_attn.k_proj.weight: expected weights of shape \(32, 64\), found \(16, 64\)"
    with pytest.raises(ValueError, match=expected):
        WeightPacker(c, resolve("llvm")).parts(model_of(Settings(c.settings)))


def test_weights_that_no_layer_takes_are_refused(tmp_path: Path) -> None:
    c = open_checkpoint(written(tmp_path / "m.gguf", **TENSORS, **{"blk.0.attn_q.extra.bias": np.ones(64, np.float32)}))
    names = {**c.names, "model.layers.0.self_attn.q_proj.bias": "blk.0.attn_q.extra.bias"}
    expected = "llama models have no place for weights of the checkpoint: .*q_proj.bias"
    with pytest.raises(ValueError, match=expected):
        WeightPacker(Checkpoint(c.file, c.settings, names), resolve("llvm")).parts(model_of(Settings(c.settings)))


def test_biases_of_some_products_only_are_refused(tmp_path: Path) -> None:
    biases = {f"blk.0.attn_{name}.bias": np.ones(size, np.float32) for name, size in (("q", 64), ("k", 32), ("v", 32))}
    c = open_checkpoint(written(tmp_path / "m.gguf", **TENSORS, **biases))
    with pytest.raises((ValueError, KeyError), match="bias"):
        WeightPacker(c, resolve("llvm")).parts(model_of(Settings(c.settings)))


def test_computed_tables_in_a_checkpoint_are_ignored(tmp_path: Path) -> None:
    c = open_checkpoint(written(tmp_path / "m.gguf", **TENSORS, **{"rope_freqs.weight": np.ones(8, np.float32)}))
    names = {**c.names, "model.layers.0.self_attn.rotary_emb.inv_freq": "rope_freqs.weight"}
    WeightPacker(Checkpoint(c.file, c.settings, names), resolve("llvm")).parts(model_of(Settings(c.settings)))


def test_dtypes_that_weights_cannot_have(tmp_path: Path) -> None:
    c = open_checkpoint(written(tmp_path / "m.gguf", **TENSORS))
    with pytest.raises(ValueError, match="weights of dtype 'int7' are not made; there are float32, q8_0"):
        WeightPacker(c, resolve("llvm"), "int7")


def test_names_of_families() -> None:
    assert names_of("gemma3_text", ["blk.3.ffn_norm.weight", "blk.3.post_ffw_norm.weight"]) == {
        "model.layers.3.pre_feedforward_layernorm.weight": "blk.3.ffn_norm.weight",
        "model.layers.3.post_feedforward_layernorm.weight": "blk.3.post_ffw_norm.weight",
    }
    assert names_of("mixtral", ["blk.1.ffn_gate_exps.weight", "blk.1.ffn_gate_inp.weight"]) == {
        "model.layers.1.block_sparse_moe.experts.w1.weight": "blk.1.ffn_gate_exps.weight",
        "model.layers.1.block_sparse_moe.gate.weight": "blk.1.ffn_gate_inp.weight",
    }
    assert names_of("mixtral", ["blk.1.ffn_down.7.weight"]) == {
        "model.layers.1.block_sparse_moe.experts.7.w2.weight": "blk.1.ffn_down.7.weight"
    }
    assert names_of("gpt2", ["blk.0.attn_qkv.bias", "position_embd.weight"]) == {
        "h.0.attn.c_attn.bias": "blk.0.attn_qkv.bias",
        "wpe.weight": "position_embd.weight",
    }


def folder(path: Path, settings: object, names: tuple[str, ...]) -> Path:
    path.mkdir(exist_ok=True)
    (path / "config.json").write_text(settings if isinstance(settings, str) else json.dumps(settings))
    save_file({name: np.zeros((2, 2), np.float32) for name in names}, path / "model.safetensors")
    return path


def test_prefixes_of_transformers_are_left_out(tmp_path: Path) -> None:
    names = ("transformer.h.0.ln_1.weight", "language_model.model.norm.weight", "lm_head.weight")
    c = open_checkpoint(folder(tmp_path / "f", {"model_type": "gpt2"}, names))
    assert set(c.names) == {"h.0.ln_1.weight", "model.norm.weight", "lm_head.weight"}
    assert not c.settings["tie_word_embeddings"]


def test_the_part_of_a_model_that_reads_text(tmp_path: Path) -> None:
    settings = {"model_type": "gemma3", "text_config": {"model_type": "gemma3_text", "hidden_size": 8}}
    assert open_checkpoint(folder(tmp_path / "f", settings, ("a",))).model_type == "gemma3_text"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "config.json is no JSON"),
        ("[" * 100_000, "config.json is no JSON: maximum recursion depth exceeded"),
        ("[1]", "holds no settings, but a list"),
    ],
)
def test_broken_settings(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        open_checkpoint(folder(tmp_path / "f", text, ("a",)))


def test_an_unknown_type_of_model() -> None:
    with pytest.raises(ValueError, match=r"no family has models of the type 'dream'; there are bert, deepseek_v2"):
        model_of(Settings({"model_type": "dream"}))
