"""LoRA adapters: folders of PEFT and GGUF files, against models whose weights are changed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from small_models import small_model

from relax import llm
from relax.frontend import gguf
from relax.llm.adapters import read_adapter
from relax.llm.language_model import LanguageModel

TOKENS = list(b"one, two, three")
CHANGED = {
    "model.layers.0.self_attn.q_proj": 3, "model.layers.0.self_attn.v_proj": 2, "model.layers.1.mlp.down_proj": 4,
    "model.layers.0.self_attn.k_proj": 1,
}  # fmt: skip
"""Matrices of the small model that an adapter changes, with the ranks of their changes."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_model(tmp_path_factory.mktemp("small"))


def factors(folder: Path, seed: int, ranks: Mapping[str, int] = CHANGED) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Random A (rank, in) and B (out, rank) of each matrix."""
    rng = np.random.default_rng(seed)
    shapes = {name: array.shape for name, array in load_file(folder / "model.safetensors").items()}
    found: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    for name, rank in ranks.items():
        out, size = shapes[f"{name}.weight"]
        pair = rng.normal(0, 0.3, (rank, size)), rng.normal(0, 0.3, (out, rank))
        found[name] = tuple(array.astype(np.float32) for array in pair)  # pyright: ignore[reportArgumentType]
    return found


def peft(place: Path, changes: Mapping[str, Any], **settings: Any) -> Path:
    """Write a folder as PEFT does."""
    place.mkdir()
    config = {"peft_type": "LORA", "r": 4, "lora_alpha": 6, "bias": "none", "target_modules": ["q_proj"], **settings}
    (place / "adapter_config.json").write_text(json.dumps(config))
    arrays: dict[str, np.ndarray] = {}
    for name, (a, b) in changes.items():
        arrays |= {f"base_model.model.{name}.lora_A.weight": a, f"base_model.model.{name}.lora_B.weight": b}
    save_file(arrays, place / "adapter_model.safetensors")
    return place


def merged(folder: Path, place: Path, changes: Mapping[str, Any], scales: Mapping[str, float]) -> LanguageModel:
    """The model whose weights have the changes, W + scale · B · A."""
    small_model(place)
    weights = load_file(folder / "model.safetensors")
    for name, (a, b) in changes.items():
        weights[f"{name}.weight"] = weights[f"{name}.weight"] + np.float32(scales[name]) * (b @ a)
    save_file(weights, place / "model.safetensors")
    return llm.load(place, cache_dtype="float32")


def test_logits_are_those_of_merged_weights(folder: Path, tmp_path: Path) -> None:
    changes, others = factors(folder, 1), factors(folder, 2, {"model.layers.1.self_attn.v_proj": 5})
    adapters = {"first": peft(tmp_path / "first", changes), "second": peft(tmp_path / "second", others)}
    model = llm.load(folder, cache_dtype="float32", adapters=adapters)
    plain = llm.load(folder, cache_dtype="float32")
    first = merged(folder, tmp_path / "a", changes, {name: 6 / rank for name, rank in CHANGED.items()})
    second = merged(folder, tmp_path / "b", others, {"model.layers.1.self_attn.v_proj": 6 / 5})
    np.testing.assert_array_equal(model.logits(TOKENS), plain.logits(TOKENS))
    for name, expected in (("first", first), ("second", second)):
        found = model.logits(TOKENS, adapter=name)
        np.testing.assert_allclose(found, expected.logits(TOKENS), rtol=1e-4, atol=1e-4)
        assert np.abs(found - plain.logits(TOKENS)).max() > 0.1


def test_texts_with_an_adapter_and_without_take_turns(folder: Path, tmp_path: Path) -> None:
    changes = factors(folder, 1)
    model = llm.load(folder, cache_dtype="float32", adapters={"a": peft(tmp_path / "first", changes)})
    expected = merged(folder, tmp_path / "m", changes, {name: 6 / rank for name, rank in CHANGED.items()})
    plain = model.generate("Hello", 20)
    assert model.generate("Hello", 20, adapter="a") == expected.generate("Hello", 20) != plain
    assert model.generate("Hello", 20) == plain
    streams = [model.generate("Hello", 20, stream=True, adapter=name) for name in ("a", None)]
    pieces = [*zip(*streams, strict=False)]
    assert expected.generate("Hello", 20).startswith("".join(first for first, _ in pieces))
    assert plain.startswith("".join(second for _, second in pieces))
    drafted = model.generate("Hello", 20, adapter="a", drafter=llm.PromptLookup(shortest=1))
    assert drafted == expected.generate("Hello", 20)


@pytest.mark.parametrize(
    ("settings", "scale"),
    [
        ({}, 6 / 4),
        ({"use_rslora": True}, 6 / 2),
        ({"lora_alpha": 0.5}, 0.5 / 4),
        ({"alpha_pattern": {"q_proj": 9}}, 9 / 4),
        ({"alpha_pattern": {"k_proj": 9}}, 6 / 4),
        ({"r": 8, "rank_pattern": {"q_proj": 4}}, 6 / 4),
    ],
)
def test_scales(folder: Path, tmp_path: Path, settings: dict[str, Any], scale: float) -> None:
    name = "model.layers.0.self_attn.q_proj"
    changes = factors(folder, 3, {name: 4})
    adapter = read_adapter(peft(tmp_path / "a", changes, **settings), "llama")
    np.testing.assert_array_equal(adapter.factors[name].a, changes[name][0])
    np.testing.assert_allclose(adapter.factors[name].b, changes[name][1] * scale, rtol=1e-6)


GGUF_NAMES = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
              "mlp.down_proj": "ffn_down"}  # fmt: skip


def neighbours(rows: np.ndarray, name: str) -> np.ndarray:
    """Rows of queries and keys as llama.cpp's converter orders them: halves of each head become neighbours."""
    heads = {"q_proj": 4, "k_proj": 2}.get(name.rpartition(".")[2])
    if heads is None:
        return rows
    return np.stack(
        [half for head in np.split(rows, heads) for pair in zip(*np.split(head, 2), strict=True) for half in pair]
    )


def gguf_file(place: Path, changes: Mapping[str, Any], alpha: float) -> Path:
    """Write an adapter as llama.cpp's converter does."""
    arrays: dict[str, np.ndarray] = {}
    for name, (a, b) in changes.items():
        _, _, number, matrix = name.split(".", 3)
        base = f"blk.{number}.{GGUF_NAMES[matrix]}"
        arrays |= {f"{base}.weight.lora_a": a, f"{base}.weight.lora_b": neighbours(b, name)}
    keys = {"general.architecture": "llama", "general.type": "adapter", "adapter.type": "lora"}
    gguf.write(place, {**keys, "adapter.lora.alpha": alpha}, arrays)
    return place


@pytest.mark.parametrize("base", ["folder", "file"])
def test_folders_and_files_of_adapters_for_folders_and_files_of_models(folder: Path, tmp_path: Path, base: str) -> None:
    """Rows of queries and keys have another order in GGUF files."""
    changes = factors(folder, 1)
    path = folder
    if base == "file":
        path = tmp_path / "base.gguf"
        llm.quantize(folder, path, "float32")
    adapters = {"peft": peft(tmp_path / "p", changes), "gguf": gguf_file(tmp_path / "a.gguf", changes, 6.0)}
    model = llm.load(path, cache_dtype="float32", adapters=adapters)
    expected = merged(folder, tmp_path / "m", changes, {name: 6 / rank for name, rank in CHANGED.items()})
    for name in adapters:
        np.testing.assert_allclose(model.logits(TOKENS, name), expected.logits(TOKENS), rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_an_adapter_of_packed_weights(folder: Path, tmp_path: Path) -> None:
    """Weights of a block format stay packed; the adapter reads activations that are not rounded."""
    name = "model.layers.0.self_attn.v_proj"
    changes = factors(folder, 1, {name: 3})
    model = llm.load(folder, dtype="q8_0", cache_dtype="float32", adapters={"a": peft(tmp_path / "a", changes)})
    expected = merged(folder, tmp_path / "m", changes, {name: 2.0})
    found, exact = model.logits(TOKENS, "a"), expected.logits(TOKENS)
    assert np.abs(found - exact).mean() < 0.05 * exact.std()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"peft_type": "IA3"}, "has an adapter of the kind IA3, expected LORA"),
        ({"use_dora": True}, "has an adapter with DoRA, which is not supported"),
        ({"bias": "all"}, "has an adapter with biases, which is not supported"),
        ({"modules_to_save": ["lm_head"]}, r"has an adapter with whole layers \(modules_to_save\)"),
        ({"alpha_pattern": [4]}, r"the setting alpha_pattern is \[4\], and must hold settings"),
        ({"alpha_pattern": {"lm_head": "x"}}, "the setting alpha_pattern is 'x', and must be a number"),
        ({"alpha_pattern": {"(": 4}}, r"the setting alpha_pattern has '\(', no regular expression: missing \)"),
    ],
)
def test_kinds_that_are_refused(folder: Path, tmp_path: Path, settings: dict[str, Any], message: str) -> None:
    changes = factors(folder, 1, {"lm_head": 1})
    with pytest.raises(ValueError, match=message):
        llm.load(folder, adapters={"a": peft(tmp_path / "a", changes, **settings)})


def test_adapters_that_do_not_fit(folder: Path, tmp_path: Path) -> None:
    a, b = np.ones((2, 32), np.float32), np.ones((32, 2), np.float32)
    cases: list[tuple[dict[str, Any], str]] = [
        (
            {"model.layers.7.self_attn.q_proj": (a, b)},
            r"the adapter 'x' changes model\.layers\.7\.self_attn\.q_proj, which",
        ),
        ({"model.embed_tokens": (a, b)}, "which is no linear layer of the model"),
        ({"model.layers.0.self_attn.k_proj": (a, b)}, r"of shape \(32, 32\), the model's is \(16, 32\)"),
        ({"model.layers.0.self_attn.q_proj": (a, b[:, :1])}, r"has factors of shapes \(2, 32\) and \(32, 1\)"),
    ]
    for index, (changes, message) in enumerate(cases):
        with pytest.raises(ValueError, match=message):
            llm.load(folder, adapters={"x": peft(tmp_path / str(index), changes)})
    place = peft(tmp_path / "half", {"lm_head": (a, b)})
    save_file({"base_model.model.lm_head.lora_A.weight": a}, place / "adapter_model.safetensors")
    with pytest.raises(ValueError, match="lm_head has a factor A, and not the other one"):
        llm.load(folder, adapters={"x": place})
    save_file({"base_model.model.lm_head.weight": a}, place / "adapter_model.safetensors")
    with pytest.raises(ValueError, match="lm_head.weight is no factor of the matrix of a linear layer"):
        llm.load(folder, adapters={"x": place})
    with pytest.raises(FileNotFoundError):
        llm.load(folder, adapters={"x": tmp_path / "missing"})


def test_names_that_are_not_there(folder: Path) -> None:
    model = llm.load(folder, cache_dtype="float32")
    with pytest.raises(ValueError, match="the model has no adapter 'a'; there are none"):
        model.generate("Hello", 3, adapter="a", stream=True)
    with pytest.raises(ValueError, match="the model has no adapter 'a'"):
        model.logits([1], adapter="a")


def test_sequences_share_pages_of_their_own_adapter_only(folder: Path, tmp_path: Path) -> None:
    place = peft(tmp_path / "a", factors(folder, 1))
    runner = llm.load(folder, cache_dtype="float32", adapters={"a": place, "b": place}).runner
    tokens = list(range(40))
    for name, count in (("a", 32), (None, 16)):
        sequence = runner.add()
        runner.step([(sequence, tokens[:count])], adapter=name)
        runner.register(sequence, tokens[:count], name)
    assert [runner.add_with_prefix(tokens, name)[1] for name in ("a", "b", None)] == [32, 0, 16]


def test_an_engine_answers_by_several_adapters_at_a_time(folder: Path, tmp_path: Path) -> None:
    name = "model.layers.0.self_attn.v_proj"
    places = {title: peft(tmp_path / title, factors(folder, seed, {name: 3})) for seed, title in enumerate("ab")}
    model = llm.load(folder, cache_dtype="float32", adapters=places)
    adapters = ["a", None, "b", "a", "b", None]
    expected = [model.generate("Hello", 12, adapter=adapter) for adapter in adapters]
    assert len({*expected}) == 3
    with llm.Engine(model) as engine:
        answers = [engine.add(llm.Request("Hello", 12, adapter=adapter)) for adapter in adapters]
        assert [answer.result().text for answer in answers] == expected
        with pytest.raises(ValueError, match="the model has no adapter 'c'; there are a, b"):
            engine.add(llm.Request("Hello", 12, adapter="c"))
