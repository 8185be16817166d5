"""Models written as GGUF files compute what their folders do; their tokenizers split texts equally."""

from __future__ import annotations

import json
from pathlib import Path

import gguf as package
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from small_models import small_bert, small_model
from tokenizer_texts import texts

from relax import DiagnosticError, llm
from relax.frontend import gguf
from relax.llm.checkpoint import open_checkpoint
from relax.topi.block_formats import block_format

IDS = np.random.default_rng(1).integers(0, 256, 20).tolist()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_model(tmp_path_factory.mktemp("small"))


@pytest.fixture(scope="module")
def exact(folder: Path) -> np.ndarray:
    return logits(folder)


def logits(path: Path) -> np.ndarray:
    return llm.load(path, cache_dtype="float32", activations="float32").logits(IDS)


def changed(folder: Path, place: Path, **settings: object) -> Path:
    """A copy of a folder with other settings."""
    place.mkdir()
    for path in folder.iterdir():
        (place / path.name).write_bytes(path.read_bytes())
    config = {**json.loads((folder / "config.json").read_text()), **settings}
    (place / "config.json").write_text(json.dumps(config))
    return place


def test_float32_gives_the_logits_and_the_tokens_of_the_folder(folder: Path, exact: np.ndarray, tmp_path: Path) -> None:
    said: list[tuple[str, float]] = []
    written = llm.quantize(
        folder, tmp_path / "model.gguf", "float32", progress=lambda doing, part: said.append((doing, part))
    )
    assert written.type == "float32"
    assert written.nbytes == (tmp_path / "model.gguf").stat().st_size
    assert written.layouts == {"float32": (21, 4 * 32160)}
    assert {doing for doing, _ in said} == {f"writing {name}" for name in gguf.read(written.path)}
    assert [part for _, part in said] == sorted(part for _, part in said)
    np.testing.assert_allclose(logits(written.path), exact, rtol=0, atol=1e-4)

    model, other = llm.load(folder), llm.load(written.path)
    for text in texts(3, 200):
        assert other.tokenizer.encode(text) == model.tokenizer.encode(text)
    assert other.tokenizer.eot == model.tokenizer.eot
    message = [{"role": "user", "content": "Hi"}]
    assert other.chat(message, max_new_tokens=4) == model.chat(message, max_new_tokens=4)


def test_bytes_are_close(folder: Path, exact: np.ndarray, tmp_path: Path) -> None:
    found = logits(llm.quantize(folder, tmp_path / "model.gguf", "q8_0").path)
    assert 0 < np.abs(found - exact).max() < 0.03 * np.abs(exact).max()


def test_the_package_gguf_decodes_the_same_weights(folder: Path, tmp_path: Path) -> None:
    written = llm.quantize(folder, tmp_path / "model.gguf", "q4_k_m")
    assert list(written.layouts) == ["q5_0", "q8_0", "float16", "float32"]
    other = package.GGUFReader(written.path)
    assert other.get_field("general.file_type").contents() == package.LlamaFileType.MOSTLY_Q4_K_M
    assert other.get_field("llama.attention.head_count_kv").contents() == 2
    assert other.get_field("tokenizer.ggml.tokens").contents()[-4:] == [
        "<|end|>",
        "<|user|>",
        "<|assistant|>",
        "<|system|>",
    ]
    file = gguf.read(written.path)
    for tensor in other.tensors:
        found = file[tensor.name]
        held = block_format(file.tensors[tensor.name].layout)
        decoded = package.dequantize(tensor.data, tensor.tensor_type) if held else tensor.data
        np.testing.assert_array_equal(held.decode(np.asarray(found)) if held else found, decoded)


def test_numbers_of_a_gguf_file_get_another_type(folder: Path, exact: np.ndarray, tmp_path: Path) -> None:
    first = llm.quantize(folder, tmp_path / "float32.gguf", "float32")
    direct = llm.quantize(folder, tmp_path / "direct.gguf", "q5_1")
    written = llm.quantize(first.path, tmp_path / "model.gguf", "q5_1")
    assert written.layouts == direct.layouts
    file, other = gguf.read(written.path), gguf.read(direct.path)
    assert {k: str(v) for k, v in file.metadata.items() if "token" not in k} == {
        k: str(v) for k, v in other.metadata.items() if "token" not in k
    }
    assert dict(file.value_types) == dict(other.value_types)
    for name in other:
        np.testing.assert_array_equal(file[name], other[name])


def test_blocks_of_a_gguf_file_stay_as_they_are(folder: Path, tmp_path: Path) -> None:
    first = llm.quantize(folder, tmp_path / "first.gguf", "q4_0")
    second = llm.quantize(first.path, tmp_path / "second.gguf", "q8_0")
    assert second.layouts["q4_0"] == first.layouts["q4_0"]
    assert "q8_0" in second.layouts


def test_a_folder_without_a_tokenizer(tmp_path: Path) -> None:
    folder = small_model(tmp_path / "small", has_tokenizer=False)
    written = llm.quantize(folder, tmp_path / "model.gguf", "float32")
    np.testing.assert_allclose(logits(written.path), logits(folder), rtol=0, atol=1e-4)
    with pytest.raises(ValueError, match="no tokenizer: pass tokens, not text"):
        llm.load(written.path).generate("Hello", 1)


def test_queries_and_keys_are_ordered_for_rotation_of_neighbours(folder: Path, tmp_path: Path) -> None:
    file = gguf.read(llm.quantize(folder, tmp_path / "model.gguf", "float32").path)
    weights = open_checkpoint(folder)
    queries = weights.array("model.layers.1.self_attn.q_proj.weight")
    order = [8 * head + i for head in range(4) for i in (0, 4, 1, 5, 2, 6, 3, 7)]
    np.testing.assert_array_equal(file["blk.1.attn_q.weight"], queries[order])
    np.testing.assert_array_equal(file["blk.1.attn_v.weight"], weights.array("model.layers.1.self_attn.v_proj.weight"))


def test_tables_that_are_computed_are_left_out(folder: Path, tmp_path: Path) -> None:
    place = changed(folder, tmp_path / "other")
    tensors = load_file(place / "model.safetensors")
    tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = np.ones(4, np.float32)
    save_file(tensors, place / "model.safetensors")
    assert llm.quantize(place, tmp_path / "model.gguf", "q8_0").layouts["float32"][0] == 5
    tensors["model.layers.0.self_attn.gate.weight"] = np.ones(4, np.float32)
    save_file(tensors, place / "model.safetensors")
    message = "GGUF files of llama models have no weights model.layers.0.self_attn.gate.weight"
    with pytest.raises(ValueError, match=message):
        llm.quantize(place, tmp_path / "model.gguf", "q8_0")


@pytest.mark.parametrize("kind", ["q8_0", "float32"])
def test_weights_that_are_not_finite(folder: Path, tmp_path: Path, kind: str) -> None:
    place = changed(folder, tmp_path / "other")
    tensors = load_file(place / "model.safetensors")
    tensors["model.embed_tokens.weight"][3, 3] = np.inf
    save_file(tensors, place / "model.safetensors")
    with pytest.raises(ValueError, match=r"token_embd.weight: the weights have numbers that are not finite"):
        llm.quantize(place, tmp_path / "model.gguf", kind)
    assert not (tmp_path / "model.gguf").exists()


def test_numbers_that_float16_does_not_have(folder: Path, tmp_path: Path) -> None:
    place = changed(folder, tmp_path / "other")
    tensors = load_file(place / "model.safetensors")
    tensors["model.layers.0.mlp.down_proj.weight"][0, 0] = 1e6
    save_file(tensors, place / "model.safetensors")
    with pytest.raises(ValueError, match=r"ffn_down.weight: the weights have numbers that are not finite in float16"):
        llm.quantize(place, tmp_path / "model.gguf", "float16")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"hidden_act": "relu"}, "GGUF files of llama models have the activation silu, not relu"),
        ({"model_type": "mamba"}, "models of the type 'mamba' are not written; there are llama, qwen2"),
        ({"model_type": "qwen2_moe"}, "models of the type 'qwen2_moe' are not written"),
        ({"num_attention_heads": 3}, "3 heads of queries cannot share 2 heads of keys"),
        (
            {"rope_scaling": {"rope_type": "yarn", "factor": 2.0, "truncate": False}},
            "GGUF has no keys for the rotation of the model's attention",
        ),
    ],
)
def test_settings_that_gguf_does_not_have(folder: Path, tmp_path: Path, settings: dict, message: str) -> None:
    place = changed(folder, tmp_path / "other", head_dim=8, **settings)
    with pytest.raises(ValueError, match=message):
        llm.quantize(place, tmp_path / "model.gguf")


def test_a_model_of_sentences_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="models of the type 'bert' are not written"):
        llm.quantize(small_bert(tmp_path / "bert"), tmp_path / "model.gguf")


def test_a_model_is_not_written_over_itself(folder: Path, tmp_path: Path) -> None:
    path = llm.quantize(folder, tmp_path / "model.gguf", "q8_0").path
    with pytest.raises(ValueError, match="is the model itself: write to another file"):
        llm.quantize(path, path, "q4_0")


def test_a_tokenizer_with_more_tokens_than_embeddings(folder: Path, tmp_path: Path) -> None:
    place = changed(folder, tmp_path / "other", vocab_size=250)
    tensors = load_file(place / "model.safetensors")
    for name in ("model.embed_tokens.weight", "lm_head.weight"):
        tensors[name] = tensors[name][:250]
    save_file(tensors, place / "model.safetensors")
    with pytest.raises(DiagnosticError, match="the tokenizer has more tokens than the model"):
        llm.quantize(place, tmp_path / "model.gguf")
