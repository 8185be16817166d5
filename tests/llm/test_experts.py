"""Mixtures of experts: layers, and models in GGUF files and folders of Hugging Face."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from small_mixtures import EXPERTS, HIDDEN, INNER, OWN, SETTINGS, folder_of, gguf_file, weights_of

from relax import llm
from relax.farm.host import resolve
from relax.frontend.nn import spec
from relax.llm.checkpoint import open_checkpoint
from relax.llm.experts import Experts
from relax.llm.models import model_of
from relax.llm.models.llama import Layer
from relax.llm.models.mixture import SparseLayer
from relax.llm.quantizing import quantize
from relax.llm.settings import Settings
from relax.llm.weights import WeightPacker

TOKENS = np.random.default_rng(1).integers(0, 256, 40).tolist()


class TestLayer:
    def test_a_layer_sums_the_likeliest_experts(self) -> None:
        rng = np.random.default_rng(2)
        experts = Experts(4, 6, count=3, used=2, activation="silu")
        arrays = {}
        for name, parameter in experts.named_parameters():
            arrays[name] = rng.normal(size=[int(dim) for dim in parameter.shape]).astype(np.float32)
            parameter.data = arrays[name]
        x = rng.normal(size=(7, 4)).astype(np.float32)
        layer = experts.jit({"forward": {"x": spec.Tensor(["n", 4], "float32")}}, out_format="numpy")
        found = layer["forward"](x)

        router, gate_up, down = arrays.values()
        scores = np.exp(x @ router)
        expected = np.zeros_like(x)
        for row, score in enumerate(scores):
            best = np.argsort(-score)[:2]
            for expert in best:
                gate, up = np.split(x[row] @ gate_up[expert], 2)
                expected[row] += score[expert] / score[best].sum() * ((gate / (1 + np.exp(-gate)) * up) @ down[expert])
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)

    @pytest.mark.parametrize(("count", "used"), [(3, 4), (3, 0), (5000, 1)])
    def test_experts_that_cannot_be_taken(self, count: int, used: int) -> None:
        with pytest.raises(ValueError, match=f"{used} of {count} experts cannot be taken; there are up to 4096"):
            Experts(4, 6, count, used, "silu")


@pytest.mark.parametrize("kind", OWN)
class TestFiles:
    def test_a_gguf_file_and_a_folder_with_its_numbers_give_the_same_logits(self, kind: str, tmp_path: Path) -> None:
        weights = gguf_file(tmp_path / "m.gguf", kind)
        folder = folder_of(tmp_path / "folder", kind, weights)
        exact = llm.load(folder, cache_dtype="float32").logits(TOKENS)
        decoded = llm.load(tmp_path / "m.gguf", activations="float32", cache_dtype="float32").logits(TOKENS)
        np.testing.assert_allclose(decoded, exact, rtol=0, atol=1e-5 * np.abs(exact).max())

        packed = llm.load(tmp_path / "m.gguf", cache_dtype="float32")
        assert "R.nn.quantized_expert_matmul(" in packed.mod.script()
        found = packed.logits(TOKENS)
        rows = np.abs(found - exact).max(axis=1) / np.abs(exact).max()
        assert np.median(rows) < 0.02  # a few tokens may take other experts, of nearly the same weight

    def test_experts_in_one_tensor(self, kind: str, tmp_path: Path) -> None:
        weights = weights_of(kind)
        parts = []
        for fused in (False, True):
            c = open_checkpoint(folder_of(tmp_path / f"{fused}", kind, weights, fused=fused))
            parts.append(WeightPacker(c, resolve("llvm"), "q8_0").parts(model_of(Settings(c.settings))))
        for one, other in zip(*parts, strict=True):
            np.testing.assert_array_equal(one.make(), other.make())


def test_matrices_of_experts_take_the_forms_in_which_they_are_stored(tmp_path: Path) -> None:
    gguf_file(tmp_path / "m.gguf", "qwen3_moe")
    c = open_checkpoint(tmp_path / "m.gguf")
    model = model_of(Settings(c.settings))
    parts = {part.name: part for part in WeightPacker(c, resolve("llvm")).parts(model)}
    experts = model.model.layers[0].mlp.experts
    assert [m.packed and m.packed.name for m in experts.gate_up_proj.matrices] == ["q8_0", "q4_1"]
    packed = experts.gate_up_proj.matrices[1].packed
    panels = parts["model.layers.0.mlp.experts.gate_up_proj.matrices.1.weight"].make()
    numbers = c.numbers("model.layers.0.mlp.experts.up_proj.weight")
    assert numbers.shape == (EXPERTS, INNER, HIDDEN)
    for expert in range(EXPERTS):
        decoded = packed.format.decoded(packed.parts(panels[expert], INNER))
        np.testing.assert_array_equal(decoded, numbers[expert])


def test_experts_in_different_forms_become_numbers(tmp_path: Path) -> None:
    """Old files have a tensor for each expert, which may have a type of its own."""
    weights = weights_of("mixtral")
    split = {
        f"blk.0.ffn_{part}.{i}.weight": np.ascontiguousarray(weights[f"blk.0.ffn_{part}_exps.weight"][i])
        for part in ("gate", "up", "down") for i in range(EXPERTS)
    }  # fmt: skip
    gguf_file(tmp_path / "m.gguf", "mixtral", {"blk.0.ffn_gate.3": "Q8_0"}, split=split)
    c = open_checkpoint(tmp_path / "m.gguf")
    model = model_of(Settings(c.settings))
    parts = {part.name: part for part in WeightPacker(c, resolve("llvm")).parts(model)}
    made = parts["model.layers.0.block_sparse_moe.experts.gate_up_proj.matrices.0.weight"].make()
    assert made.shape == (EXPERTS, HIDDEN, 2 * INNER)
    gate, up = np.split(made, 2, axis=2)
    rounded = c.numbers("model.layers.0.block_sparse_moe.experts.3.w1.weight")
    np.testing.assert_array_equal(gate[3], rounded.T)
    np.testing.assert_array_equal(gate[2], weights["blk.0.ffn_gate_exps.weight"][2].T)
    np.testing.assert_array_equal(up, weights["blk.0.ffn_up_exps.weight"].transpose(0, 2, 1))


def test_a_router_is_not_rounded(tmp_path: Path) -> None:
    c = open_checkpoint(folder_of(tmp_path / "f", "qwen2_moe", weights_of("qwen2_moe")))
    model = model_of(Settings(c.settings))
    dtypes = {part.name: part.dtype for part in WeightPacker(c, resolve("llvm"), "q8_0").parts(model)}
    assert dtypes["model.layers.0.mlp.gate.matrices.0.weight"] == "float32"
    assert dtypes["model.layers.0.mlp.shared_expert_gate.matrices.0.weight"] == "float32"
    assert dtypes["model.layers.0.mlp.experts.gate_up_proj.matrices.0.weight"] == "int32"


def test_weights_of_other_sizes_are_refused(tmp_path: Path) -> None:
    c = open_checkpoint(folder_of(tmp_path / "f", "qwen3_moe", weights_of("qwen3_moe")))
    for settings, message in (
        (
            {"moe_intermediate_size": 64},
            r"experts.0.gate_proj.weight: expected weights of shape \(64, 64\), found \(32",
        ),
        ({"num_experts": 6}, r"gate.weight: expected weights of shape \(6, 64\), found \(5, 64\)"),
    ):
        with pytest.raises(ValueError, match=message):
            WeightPacker(c, resolve("llvm")).parts(model_of(Settings({**c.settings, **settings})))
    with pytest.raises(KeyError, match="has no weights model.layers.0.block_sparse_moe.gate.weight"):
        WeightPacker(c, resolve("llvm")).parts(model_of(Settings({**c.settings, "model_type": "mixtral"})))


@pytest.mark.parametrize("kind", OWN)
def test_a_folder_with_experts_is_not_written_as_a_gguf_file(kind: str, tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "f", kind, weights_of(kind))
    with pytest.raises(ValueError, match=f"models of the type '{kind}' are not written; there are llama"):
        quantize(folder, tmp_path / "m.gguf", "q8_0")


def test_layers_without_experts() -> None:
    settings = {**SETTINGS, **OWN["qwen3_moe"], "model_type": "qwen3_moe", "num_hidden_layers": 5}
    own = {"decoder_sparse_step": 2, "mlp_only_layers": [3]}
    layers = model_of(Settings({**settings, **own})).model.layers
    assert [type(layer) for layer in layers] == [Layer, SparseLayer, Layer, Layer, Layer]
    with pytest.raises(ValueError, match="the setting mlp_only_layers is 'x', and must be a list of whole numbers"):
        model_of(Settings({**settings, "mlp_only_layers": "x"}))
