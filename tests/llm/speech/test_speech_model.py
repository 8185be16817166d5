"""Sound to text: windows, segments and their times, fallbacks, and what callers may ask for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_models import small_model
from small_whisper import (
    END,
    ENGLISH,
    GERMAN,
    NO_TIMES,
    PREVIOUS,
    SILENCE,
    START,
    TIMES,
    TOKENS,
    TRANSCRIBE,
    TRANSLATE,
    VOCABULARY,
    small_whisper,
    sound,
)  # fmt: skip

from relax import llm
from relax.llm.settings import Settings
from relax.llm.speech.features import Features
from relax.llm.speech.rules import Rules


def at(seconds: float) -> int:
    """Token of a time."""
    return TIMES + round(seconds * 50)


class Script:
    """A runner whose decoder says what is written down for each window, in place of a network."""

    def __init__(self, windows: Sequence[Sequence[int]], *, unsure: bool = False, silent: bool = False) -> None:
        self.windows, self.unsure, self.silent = [list(window) for window in windows], unsure, silent
        self.prompts: list[list[int]] = []
        self.heard = 0
        self.weights, self.inputs = (), ()
        self.machine = {"encode": self._encode}
        self._place = 0

    def _encode(self, features: np.ndarray) -> None:
        assert features.shape == (1, 8, 60)
        self.heard += 1

    def add(self) -> int:
        return 0

    def remove(self, sequence: int) -> None:
        pass

    def step(self, batch: Sequence[tuple[int, Sequence[int]]], every: bool = False) -> np.ndarray:
        tokens = list(batch[0][1])
        logits = np.zeros((len(tokens) if every else 1, VOCABULARY), np.float32)
        if tokens == [START]:  # language
            logits[0, GERMAN] = 1
            return logits
        if every:
            self.prompts.append(tokens)
            self._place = 0
        if self.silent:
            logits[:, SILENCE] = 20
        said = [*self.windows[self.heard - 1], END]
        logits[-1, said[min(self._place, len(said) - 1)]] = 5 if self.unsure else 20
        self._place += 1
        return logits


def scripted(script: Script, model: llm.SpeechModel) -> llm.SpeechModel:
    rules, runner = Rules(TOKENS, Settings({}), VOCABULARY), script
    return llm.SpeechModel(
        model.mod, runner, model.tokenizer, Features(Settings({}), 8), TOKENS, rules, frames=30, positions=40  # type: ignore[arg-type]
    )  # fmt: skip


def spelt(m: llm.SpeechModel, text: str) -> list[int]:
    return m.tokenizer.encode(text, add_special=False)


def test_a_sound_of_one_window_without_times(model: llm.SpeechModel) -> None:
    script = Script([spelt(model, " hello there")])
    found = scripted(script, model).transcribe(sound(0.5), language="en")
    assert (found.text, found.language) == ("hello there", "en")
    assert [(s.start, s.end, s.text, s.temperature) for s in found.segments] == [(0.0, 0.5, " hello there", 0.0)]
    assert script.prompts == [[START, ENGLISH, TRANSCRIBE, NO_TIMES]]


def test_times_cut_a_window_into_segments(model: llm.SpeechModel) -> None:
    window = [at(0), *spelt(model, " one"), at(0.2), at(0.24), *spelt(model, " two"), at(0.44)]
    found = scripted(Script([window]), model).transcribe(sound(0.5), timestamps=True, language="en")
    assert [(s.start, s.end, s.text) for s in found.segments] == [(0.0, 0.2, " one"), (0.24, 0.44, " two")]


def test_a_window_begins_where_the_last_whole_segment_ended(model: llm.SpeechModel) -> None:
    script = Script(
        [
            [at(0), *spelt(model, " a"), at(0.3), at(0.3), *spelt(model, " unfinish")],
            [at(0), *spelt(model, " b"), at(0.6)],
            [at(0), *spelt(model, " c"), at(0.1)],
        ]
    )
    found = scripted(script, model).transcribe(sound(1.0))
    assert [(s.start, s.end, s.text) for s in found.segments] == [(0.0, 0.3, " a"), (0.3, 0.9, " b"), (0.9, 1.0, " c")]
    assert found.text == "a b c"
    assert found.language == "de"  # the likeliest one
    assert script.prompts == [[START, GERMAN, TRANSCRIBE]] * 3


def test_prompt_and_translation(model: llm.SpeechModel) -> None:
    script = Script([spelt(model, " x")])
    scripted(script, model).transcribe(sound(0.3), language="de", task="translate", prompt="Names")
    assert script.prompts == [[PREVIOUS, *spelt(model, " Names"), START, GERMAN, TRANSLATE, NO_TIMES]]


def test_an_unlikely_transcript_is_tried_at_higher_temperatures(model: llm.SpeechModel) -> None:
    script = Script([spelt(model, " x")], unsure=True)
    found = scripted(script, model).transcribe(sound(0.3), language="en", temperatures=(0, 0.1, 0.2))
    assert len(script.prompts) == 3
    assert found.segments[0].temperature == 0.2
    assert found.segments[0].logprob < -1


def test_a_transcript_that_repeats_itself_is_tried_again(model: llm.SpeechModel) -> None:
    script = Script([spelt(model, " abababababababababababababababab")])
    assert (
        scripted(script, model).transcribe(sound(0.3), language="en", temperatures=(0, 0.1)).segments[0].temperature
        == 0.1
    )


def test_silence_has_no_text(model: llm.SpeechModel) -> None:
    script = Script([spelt(model, " x")] * 3, unsure=True, silent=True)
    found = scripted(script, model).transcribe(sound(1.5), language="en")
    assert (found.text, found.segments, script.heard) == ("", (), 3)
    assert model.transcribe(np.zeros(0, np.float32)) == llm.Transcript("", "", ())


def test_a_small_model_gives_the_same_text_again(model: llm.SpeechModel) -> None:
    samples = sound(1.4)
    first = model.transcribe(samples, timestamps=True, temperatures=(0.7,), seed=3)
    assert first.segments
    assert first == model.transcribe(samples, timestamps=True, temperatures=(0.7,), seed=3)
    assert first != model.transcribe(samples, timestamps=True, temperatures=(0.7,), seed=4)
    assert all(0 <= s.start < s.end and s.language in model.languages for s in first.segments)
    assert model.runner.free_tokens == 48


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"task": "sing"}, "the task 'sing' is not known to the model; there is transcribe and translate"),
        ({"language": "xx"}, "the language 'xx' is not known; there are de, en"),
        ({"temperatures": (-1.0,)}, "temperatures are \\[-1.0\\], expected numbers from 0 on"),
        ({"temperatures": ()}, "temperatures are \\[\\], expected numbers from 0 on"),
        ({"prompt": "x" * 30}, "the prompt has 31 tokens, and the model takes up to 19"),
        ({"rate": -5}, "a rate of -5 samples a second is not read"),
    ],
)
def test_what_is_refused(model: llm.SpeechModel, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        model.transcribe(sound(0.3), **arguments)


def test_files_that_are_missing(model: llm.SpeechModel, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        model.transcribe(tmp_path / "x.wav")


def changed(name: str, content: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_text(content)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (changed("generation_config.json", "[]"), "generation_config.json holds no settings, but a list"),
        (changed("preprocessor_config.json", "{"), "preprocessor_config.json is no JSON"),
        (changed("preprocessor_config.json", '{"feature_size": 80}'), "makes 80 features of a frame"),
    ],
)
def test_broken_folders(change: Callable[[Path], object], message: str, tmp_path: Path) -> None:
    folder = small_whisper(tmp_path / "model")
    change(folder)
    with pytest.raises(ValueError, match=message):
        llm.load_speech(folder)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"d_model": 31}, "31 elements cannot be shared by 4 heads"),
        ({"scale_embedding": True}, "Whisper with scaled embeddings"),
        ({"max_source_positions": 0}, "the encoder has no positions"),
        ({"vocab_size": 270}, "expected weights of shape \\(270, 32\\)"),
        ({"vocab_size": 200}, "the tokenizer has control tokens outside of the model's vocabulary of 200"),
    ],
)
def test_settings_that_do_not_fit(settings: dict[str, Any], message: str, tmp_path: Path) -> None:
    folder = small_whisper(tmp_path / "model", **settings)
    with pytest.raises(ValueError, match=message):
        llm.load_speech(folder)


def test_models_of_other_kinds(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="whisper models transcribe speech: use relax.llm.load_speech"):
        llm.load(folder)
    with pytest.raises(ValueError, match="llama models do not transcribe speech: use relax.llm.load"):
        llm.load_speech(small_model(tmp_path / "llama"))


def test_weights_of_the_last_product_may_be_stored(model: llm.SpeechModel, tmp_path: Path) -> None:
    """Some checkpoints have the embeddings a second time, as the weights of the last product."""
    from safetensors.numpy import load_file, save_file

    other = small_whisper(tmp_path / "model")
    weights = load_file(other / "model.safetensors")
    weights["proj_out.weight"] = weights["model.decoder.embed_tokens.weight"]
    save_file(weights, other / "model.safetensors")
    assert llm.load_speech(other).transcribe(sound(0.4)).text == model.transcribe(sound(0.4)).text
