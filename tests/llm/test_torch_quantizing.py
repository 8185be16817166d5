"""Families of `transformers`, written as GGUF files, give their logits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
import torch_families

from relax import llm
from relax.llm.checkpoint import open_checkpoint
from relax.llm.decoder import CacheShape
from relax.llm.gguf_names import ARCHITECTURES
from relax.llm.models import model_of
from relax.llm.settings import Settings

TOKENS = np.random.default_rng(0).integers(3, 97, 48).tolist()
COMPUTED = ("llama 3", "qwen 3", "phi 3 with long rotations", "gemma 3", "olmo 2", "gpt 2")
"""Families whose logits are compared; of the others, the settings and weights are."""


def logits(path: Path) -> np.ndarray:
    return llm.load(path, cache_dtype="float32", context=64).logits(TOKENS)


@pytest.mark.parametrize("name", COMPUTED)
def test_logits_are_those_of_transformers(name: str, tmp_path: Path) -> None:
    model = torch_families.made(name)
    model.save_pretrained(tmp_path / "folder")
    with torch.no_grad():
        expected = model(torch.tensor([TOKENS])).logits[0].numpy()
    written = llm.quantize(tmp_path / "folder", tmp_path / "model.gguf", "float32")
    np.testing.assert_allclose(logits(written.path), expected, rtol=0, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("name", torch_families.FAMILIES)
def test_the_file_has_the_attention_and_the_weights_of_the_folder(name: str, tmp_path: Path) -> None:
    model = torch_families.made(name)
    model.save_pretrained(tmp_path / "folder")
    if model.config.model_type not in ARCHITECTURES:
        with pytest.raises(ValueError, match="are not written; there are llama, "):
            llm.quantize(tmp_path / "folder", tmp_path / "model.gguf", "float32")
        return
    written = llm.quantize(tmp_path / "folder", tmp_path / "model.gguf", "float32")
    one, other = open_checkpoint(tmp_path / "folder"), open_checkpoint(written.path)
    assert set(one.names) == {weight for weight in other.names if not weight.startswith("rope_f")}
    for weight in one.names:
        a, b = one.numbers(weight), other.numbers(weight)
        offset = np.float32(name.startswith("gemma") and weight.endswith("norm.weight"))
        assert np.allclose(np.sort(a, axis=None), np.sort(b - offset, axis=None), atol=1e-6)
    models = [model_of(Settings(checkpoint.settings)) for checkpoint in (one, other)]
    assert [n for n, _ in models[0].named_parameters()] == [n for n, _ in models[1].named_parameters()]
    caches: list[CacheShape] = [model.cache() for model in models]
    assert caches[0].windowed == caches[1].windowed
    np.testing.assert_allclose(caches[0].rotation.factors, caches[1].rotation.factors, rtol=1e-6)
    assert caches[0].rotation.scale == pytest.approx(caches[1].rotation.scale)


def test_layers_with_windows_in_no_period(tmp_path: Path) -> None:
    t = torch_families.t
    kinds = ["full_attention", "sliding_attention", "sliding_attention"]
    config = t.Gemma3TextConfig(**torch_families.SMALL, head_dim=16, sliding_window=9, layer_types=kinds)
    t.Gemma3ForCausalLM(config).save_pretrained(tmp_path / "folder")
    written = llm.quantize(tmp_path / "folder", tmp_path / "model.gguf", "float32")
    assert open_checkpoint(written.path).settings["layer_types"] == kinds
