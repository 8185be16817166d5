"""Language models: text, tokens and logits, with the cache of the last conversation."""

from __future__ import annotations

import gc
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from small_models import SETTINGS, small_model

from relax import build, llm
from relax.llm import loading
from relax.llm.language_model import LanguageModel
from relax.llm.runner import Runner
from relax.target import Target
from support import PLAIN_LOOPS


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_model(tmp_path_factory.mktemp("small"))


@pytest.fixture
def model(folder: Path) -> LanguageModel:
    return llm.load(folder, cache_dtype="float32", max_sequences=3)


def greedy(model: LanguageModel, prompt: list[int], count: int) -> list[int]:
    tokens = [*prompt]
    for _ in range(count):
        tokens.append(int(model.logits(tokens)[-1].argmax()))
    return tokens[len(prompt) :]


def test_models_are_compiled_for_the_current_target(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    targets: list[Target] = []

    def built(mod: Any, target: Target) -> Any:
        targets.append(target)
        return build(mod, PLAIN_LOOPS)

    monkeypatch.setattr(loading, "build", built)
    llm.load(folder)
    with Target("llvm -opt-level=1 -num-cores=3"):
        llm.load(folder)
    assert [target.opt_level for target in targets] == [3, 1]
    assert targets[1].machine.cores == 3


def test_logits_of_a_prompt_at_once_and_in_steps(model: LanguageModel) -> None:
    tokens = list(b"one, two, three")
    logits = model.logits(tokens)
    assert logits.shape == (15, 260)
    assert logits.dtype == np.float32
    sequence = model.runner.add()
    rows = [model.runner.step([(sequence, tokens[:6])], every=True)]
    rows += [model.runner.step([(sequence, [token])]) for token in tokens[6:]]
    np.testing.assert_allclose(np.concatenate(rows), logits, rtol=1e-4, atol=1e-4)


def test_a_prompt_longer_than_a_chunk(folder: Path, model: LanguageModel, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = list(b"a text of thirty letters, count")
    monkeypatch.setattr("relax.llm.loading.CHUNK", 7)
    chunked = llm.load(folder, cache_dtype="float32")
    assert chunked.runner.limits.chunk == 7
    np.testing.assert_allclose(chunked.logits(tokens), model.logits(tokens), rtol=1e-4, atol=1e-4)
    a, b = chunked.runner.add(), chunked.runner.add()
    rows = chunked.runner.step([(a, tokens[:10]), (b, tokens[:4])])
    np.testing.assert_allclose(rows, model.logits(tokens)[[9, 3]], rtol=1e-4, atol=1e-4)


def test_text_is_that_of_the_likeliest_tokens(model: LanguageModel) -> None:
    prompt = list(model.tokenizer.encode("Hello"))
    expected = model.tokenizer.decode(greedy(model, prompt, 12))
    assert model.generate("Hello", 12) == expected
    assert model.generate(prompt, 12) == expected
    assert "".join(model.generate("Hello", 12, stream=True)) == expected


def test_generation_ends_before_a_stop_text(model: LanguageModel) -> None:
    text = model.generate("Hello", 12)
    end = text[5:7]
    assert model.generate("Hello", 12, stop=end) == text[: text.index(end)]
    assert model.generate("Hello", 12, stop=["never", end]) == text[: text.index(end)]


def test_the_same_seed_gives_the_same_text(model: LanguageModel) -> None:
    drawn = {"max_new_tokens": 20, "temperature": 1.0, "seed": 3}
    first = model.generate("Hello", **drawn)
    model.generate("another prompt", 5)
    assert model.generate("Hello", **drawn) == first
    assert model.generate("Hello", **{**drawn, "seed": 4}) != first


def test_a_prompt_that_begins_as_the_last_one_reuses_the_cache(model: LanguageModel) -> None:
    first = model.generate("Tell me a story", 4)
    before = model.stats().prompt_tokens
    assert model.generate("Tell me a story", 4) == first
    assert model.stats().prompt_tokens == before + 1
    assert model.stats().reused_tokens == 14
    expected = greedy(model, list(model.tokenizer.encode("Tell me another")), 4)
    assert model.generate("Tell me another", 4) == model.tokenizer.decode(expected)


def test_a_stream_goes_on_behind_another_answer(model: LanguageModel) -> None:
    first, second = model.generate("Hello", 12), model.generate("Good morning", 12)
    stream = model.generate("Hello", 12, stream=True)
    pieces = [next(stream)]
    assert model.generate("Good morning", 12) == second
    pieces += [next(stream)]
    model.logits([1, 2])
    assert "".join([*pieces, *stream]) == first
    both = zip(model.generate("Hello", 4, stream=True), model.generate("Good morning", 4, stream=True), strict=False)
    beginnings = ["".join(pieces) for pieces in zip(*both, strict=True)]
    assert first.startswith(beginnings[0])
    assert second.startswith(beginnings[1])


def test_streams_that_are_left_and_models_that_are_deleted(folder: Path, model: LanguageModel) -> None:
    expected = model.generate("Hello", 8)
    for _ in range(3):
        next(model.generate("Hello", 8, stream=True))
    assert model.generate("Hello", 8) == expected
    stream = llm.load(folder, cache_dtype="float32").generate("Hello", 8, stream=True)
    gc.collect()
    assert "".join(stream) == expected


@pytest.mark.parametrize("streams", [False, True])
def test_threads_are_answered_one_after_another(model: LanguageModel, streams: bool) -> None:
    prompts = ["Hello", "Good morning", "one, two"]
    expected = [model.generate(prompt, 12) for prompt in prompts]

    def answer(prompt: str) -> str:
        return "".join(model.generate(prompt, 12, stream=True)) if streams else model.generate(prompt, 12)

    with ThreadPoolExecutor(3) as pool:
        assert [*pool.map(answer, prompts * 3)] == expected * 3


def test_a_prompt_that_goes_back_behind_a_window(tmp_path: Path) -> None:
    folder = small_model(tmp_path / "small")
    (folder / "config.json").write_text(json.dumps({**SETTINGS, "model_type": "mistral", "sliding_window": 9}))
    model, other = (llm.load(folder, cache_dtype="float32") for _ in range(2))
    model.generate([5] * 30 + [6, 7], 10)
    assert model.generate([5] * 30 + [8], 10) == other.generate([5] * 30 + [8], 10)
    assert model.generate([5] * 3, 10) == other.generate([5] * 3, 10)


def test_tokens_without_a_text_are_not_drawn(tmp_path: Path) -> None:
    folder = small_model(tmp_path / "small")
    weights = load_file(folder / "model.safetensors")
    for name in ("model.embed_tokens.weight", "lm_head.weight"):
        weights[name] = np.concatenate([weights[name], 100 * weights[name]])
    save_file(weights, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps({**SETTINGS, "vocab_size": 520}))
    model = llm.load(folder)
    assert model.logits([1])[-1].argmax() >= 260 == model.tokenizer.vocabulary_size
    assert model.generate("Hello", 8)


def test_a_chat_is_written_as_the_template_says(model: LanguageModel) -> None:
    messages = [{"role": "user", "content": "Hi"}]
    prompt = model.tokenizer.encode("<|user|>Hi<|end|><|assistant|>", add_special=False, parse_special=True)
    assert len(prompt) == 5
    assert model.chat(messages, max_new_tokens=6) == model.generate(prompt, 6)


def test_generation_ends_when_the_context_is_full(folder: Path) -> None:
    model = llm.load(folder, context=20)
    assert model.context == 20
    model.generate(list(range(65, 80)))
    assert model.stats().new_tokens <= 5


def test_a_folder_without_a_tokenizer(tmp_path: Path, model: LanguageModel) -> None:
    plain = llm.load(small_model(tmp_path / "plain", has_tokenizer=False), cache_dtype="float32")
    np.testing.assert_array_equal(plain.logits([1, 2]), model.logits([1, 2]))
    with pytest.raises(ValueError, match="the model's folder has no tokenizer: pass tokens, not text"):
        plain.generate("Hello")


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        ([], "the prompt is empty"),
        ([260], "260 is no token: the vocabulary has 260"),
        ([-1], "-1 is no token"),
        ([1] * 129, "the prompt has 129 tokens, and the context 128; load the model with a larger context"),
    ],
)
def test_prompts_that_are_refused(model: LanguageModel, prompt: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        model.generate(prompt, 1)
    with pytest.raises(ValueError, match=message):
        model.logits(prompt)


@pytest.mark.parametrize("prompt", [b"Hello", [1.5], ["1"], None])
def test_prompts_that_are_no_tokens(model: LanguageModel, prompt: Any) -> None:
    with pytest.raises(TypeError):
        model.generate(prompt, 1)
    with pytest.raises(TypeError):
        model.logits(prompt)


def test_arguments_of_generation_that_are_refused(model: LanguageModel) -> None:
    with pytest.raises(ValueError, match="max_new_tokens is -1, expected 0 or more"):
        model.generate("Hello", -1)
    with pytest.raises(ValueError, match="a stop string is empty"):
        model.generate("Hello", stop=["end", ""])
    wrong: Any = [b"end", 5]
    with pytest.raises(TypeError, match="stop is a text or several texts, found b'end'"):
        model.generate("Hello", stop=wrong)
    text: Any = "Hello"
    with pytest.raises(TypeError, match='a message is a mapping with "role" and "content", not str'):
        model.chat(text)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"context": 0}, "a context has from 1 to 2147483647 tokens, found 0"),
        ({"context": 2**70}, "a context has from 1 to 2147483647 tokens"),
        ({"max_sequences": 0}, "max_sequences is 0, expected from 1 to 2147483647"),
        ({"activations": "int4"}, "activations are int8 or float32, not 'int4'"),
        ({"dtype": "q9"}, "weights of dtype 'q9' are not made"),
        ({"cache_dtype": "int4"}, "the page_dtype is int4, expected one of float32, float16, bfloat16"),
    ],
)
def test_settings_of_loading_that_are_refused(folder: Path, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        llm.load(folder, **settings)


class TestRunner:
    @pytest.fixture
    def runner(self, model: LanguageModel) -> Runner:
        return model.runner

    def test_forks_share_and_part(self, model: LanguageModel, runner: Runner) -> None:
        tokens = list(range(40, 75))
        first = runner.add()
        runner.step([(first, tokens)])
        second, third = runner.fork(first), runner.fork(first, 20)
        rows = runner.step([(second, [1]), (third, [2]), (first, [3])])
        assert [runner.length(number) for number in (first, second, third)] == [36, 36, 21]
        for number in (first, second, third):
            runner.remove(number)
        for row, sequence in zip(rows, ([*tokens, 1], [*tokens[:20], 2], [*tokens, 3]), strict=True):
            np.testing.assert_allclose(row, model.logits(sequence)[-1], rtol=1e-4, atol=1e-4)

    def test_a_shortened_sequence_goes_on_as_another(self, model: LanguageModel, runner: Runner) -> None:
        sequence = runner.add()
        runner.step([(sequence, [5, 6, 7, 8])])
        runner.shorten(sequence, 2)
        row = runner.step([(sequence, [9])])[0]
        runner.remove(sequence)
        np.testing.assert_allclose(row, model.logits([5, 6, 9])[-1], rtol=1e-4, atol=1e-4)

    def test_steps_that_are_refused(self, runner: Runner) -> None:
        sequence = runner.add()
        for batch in ([(sequence, [1]), (sequence, [2])], [(sequence, [])]):
            with pytest.raises(ValueError, match="each sequence of a step is named once, and gets one token or more"):
                runner.step(batch)
        with pytest.raises(ValueError, match="the sequence has 0 tokens, and cannot be shortened to 1"):
            runner.shorten(sequence, 1)
        with pytest.raises(ValueError, match="the sequence has 0 tokens, and 1 of them are to be shared"):
            runner.fork(sequence, 1)
        for call in (runner.length, runner.remove, runner.fork, lambda number: runner.step([(number, [1])])):
            with pytest.raises(ValueError, match="there is no sequence 77"):
                call(77)
        with pytest.raises(ValueError, match="each sequence of a step is named once"):
            runner.step([])

    def test_tokens_that_are_refused_change_nothing(self, model: LanguageModel, runner: Runner) -> None:
        sequence, other = runner.add(), runner.add()
        runner.step([(sequence, [1, 2])])
        wrong: list[tuple[Any, type[Exception], str]] = [
            (-1, ValueError, "-1 is no token: tokens are numbers from 0 on"),
            (2**40, ValueError, "tokens are numbers from 0 to the size of the vocabulary"),
            (1.5, TypeError, "float"),
            (260, IndexError, "index 260 is out of bounds"),
        ]
        for token, kind, message in wrong:
            with pytest.raises(kind, match=message):
                runner.step([(sequence, [3]), (other, [4, token])])
        assert (runner.length(sequence), runner.length(other)) == (2, 0)
        row = runner.step([(sequence, [3])])[0]
        runner.remove(sequence)
        runner.remove(other)
        np.testing.assert_allclose(row, model.logits([1, 2, 3])[-1], rtol=1e-4, atol=1e-4)

    def test_a_full_cache_is_an_error_and_stays_as_it_was(self, model: LanguageModel, runner: Runner) -> None:
        sequence = runner.add()
        runner.step([(sequence, [1, 2, 3])])
        with pytest.raises(ValueError, match="page"):
            runner.step([(sequence, [4] * 126)])
        assert runner.length(sequence) == 3
        row = runner.step([(sequence, [4])])[0]
        runner.remove(sequence)
        np.testing.assert_allclose(row, model.logits([1, 2, 3, 4])[-1], rtol=1e-4, atol=1e-4)
