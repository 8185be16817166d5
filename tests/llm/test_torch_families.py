"""Families of language models with random weights give the logits of `transformers`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
import torch_families
from small_models import small_bert

from relax import llm
from relax.llm.language_model import LanguageModel

TOKENS = np.random.default_rng(0).integers(3, 97, 48).tolist()


def expected(model: Any, tokens: list[int]) -> np.ndarray:
    with torch.no_grad():
        return model(torch.tensor([tokens])).logits[0].numpy()


def close(found: np.ndarray, wanted: np.ndarray) -> None:
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())


def opened(model: Any, folder: Path, **settings: Any) -> LanguageModel:
    model.save_pretrained(folder)
    return llm.load(folder, **{"cache_dtype": "float32", "context": 256, **settings})


@pytest.mark.parametrize("name", torch_families.FAMILIES)
def test_logits_are_those_of_transformers(name: str, tmp_path: Path) -> None:
    model = torch_families.made(name)
    m = opened(model, tmp_path, context=64)
    wanted = expected(model, TOKENS)
    runner = m.runner  # a prompt, then tokens one by one
    sequence = runner.add()
    found = [runner.step([(sequence, TOKENS[:31])], every=True)]
    found += [runner.step([(sequence, [token])]) for token in TOKENS[31:]]
    close(np.concatenate(found), wanted)
    runner.remove(sequence)
    close(m.logits(TOKENS), wanted)


@pytest.mark.parametrize("name", ["llama", "gemma 3", "gpt 2", "deepseek 3", "mamba 2"])
def test_a_batch_of_unequal_lengths_with_forks_and_steps_back(name: str, tmp_path: Path) -> None:
    model = torch_families.made(name)
    runner = opened(model, tmp_path).runner
    a, b, c = (runner.add() for _ in range(3))
    rows = runner.step([(a, TOKENS[:1]), (b, TOKENS[:33]), (c, TOKENS[5:25])])
    for row, tokens in zip(rows, (TOKENS[:1], TOKENS[:33], TOKENS[5:25]), strict=True):
        close(row, expected(model, tokens)[-1])

    d = runner.fork(b, 20)
    runner.shorten(c, 17)
    runner.remove(a)
    rows = runner.step([(d, TOKENS[40:43]), (c, TOKENS[:2]), (b, TOKENS[33:34])])
    after = (TOKENS[:20] + TOKENS[40:43], TOKENS[5:22] + TOKENS[:2], TOKENS[:34])
    for row, tokens in zip(rows, after, strict=True):
        close(row, expected(model, tokens)[-1])


def test_greedy_tokens_are_those_of_transformers(tmp_path: Path) -> None:
    model = torch_families.made("qwen 3")
    m = opened(model, tmp_path)
    with torch.no_grad():
        wanted = model.generate(torch.tensor([TOKENS[:9]]), max_new_tokens=200, do_sample=False, eos_token_id=None)
    sequence = m.runner.add()
    found = TOKENS[:9]
    logits = m.runner.step([(sequence, found)])
    for _ in range(200):
        found = [*found, int(logits[0].argmax())]
        logits = m.runner.step([(sequence, found[-1:])])
    assert found == wanted[0].tolist()


def test_weights_rounded_to_bytes_are_close(tmp_path: Path) -> None:
    torch.manual_seed(0)
    config = {**torch_families.SMALL, "hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4}
    model = torch_families.t.LlamaForCausalLM(torch_families.t.LlamaConfig(**config)).eval()
    exact = expected(model, TOKENS)
    m = opened(model, tmp_path, dtype="q8_0")
    assert any("int32" in str(param.struct_info) for param in m.mod["forward"].params)
    assert np.abs(m.logits(TOKENS) - exact).max() < 0.02 * np.abs(exact).max()


def test_sentences_of_bert(tmp_path: Path) -> None:
    folder = small_bert(tmp_path / "bert")
    model = torch_families.t.BertModel.from_pretrained(folder, attn_implementation="eager", add_pooling_layer=False)
    m = llm.load_embedding(folder)
    for text in ("the cat plays", "the dog sleeps the cat", "dogs"):
        with torch.no_grad():
            states = model.eval()(torch.tensor([list(m.tokenizer.encode(text))])).last_hidden_state[0].numpy()
        mean = states.mean(0)
        np.testing.assert_allclose(m.embed(text), mean / np.linalg.norm(mean), rtol=1e-4, atol=1e-5)
