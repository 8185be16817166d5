"""A small Whisper gives the features, logits and tokens of `transformers`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
import transformers
from small_whisper import (
    BINS,
    END,
    ENGLISH,
    FRAMES,
    GENERATION,
    GERMAN,
    NO_TIMES,
    START,
    TRANSCRIBE,
    TRANSLATE,
    VOCABULARY,
    sound,
)  # fmt: skip

from relax import llm
from relax.llm.settings import Settings
from relax.llm.speech.features import Features

TOKENS = np.random.default_rng(1).integers(0, VOCABULARY, 30).tolist()


@pytest.fixture(scope="module")
def torch_model(folder: Path) -> Any:
    found = transformers.WhisperForConditionalGeneration.from_pretrained(folder, attn_implementation="eager").eval()
    found.generation_config = transformers.GenerationConfig(
        **GENERATION, eos_token_id=END, pad_token_id=END, bos_token_id=END, decoder_start_token_id=START,
        no_timestamps_token_id=NO_TIMES, lang_to_id={"<|en|>": ENGLISH, "<|de|>": GERMAN},
        task_to_id={"transcribe": TRANSCRIBE, "translate": TRANSLATE}, max_length=40,
    )  # fmt: skip
    return found


def features_of(seed: int) -> np.ndarray:
    return Features(Settings({}), BINS)(sound(0.6, seed), 2 * FRAMES)


@pytest.mark.parametrize(("bins", "seconds"), [(80, 7), (128, 30)])
def test_features(bins: int, seconds: int) -> None:
    extractor = transformers.WhisperFeatureExtractor(feature_size=bins)
    samples = sound(seconds)
    wanted = extractor(samples, sampling_rate=16000, return_tensors="np").input_features[0]
    frames = 3000 - 2 * (seconds == 30)  # where sound ends with the window, transformers mirrors it
    np.testing.assert_allclose(Features(Settings({}), bins)(samples, 3000)[:, :frames], wanted[:, :frames], atol=1e-4)


def test_logits_at_once_and_token_by_token(model: llm.SpeechModel, torch_model: Any) -> None:
    features = features_of(2)
    with torch.no_grad():
        wanted = torch_model(
            input_features=torch.tensor(features[None]), decoder_input_ids=torch.tensor([TOKENS])
        ).logits[0].numpy()  # fmt: skip
    runner = model.runner
    runner.inputs = (runner.machine["encode"](features[None], *runner.weights),)
    sequence = runner.add()
    found = [runner.step([(sequence, TOKENS[:17])], every=True)]
    found += [runner.step([(sequence, [token])]) for token in TOKENS[17:]]
    runner.remove(sequence)
    np.testing.assert_allclose(np.concatenate(found), wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())


@pytest.mark.parametrize("seed", range(4))
def test_greedy_tokens(seed: int, model: llm.SpeechModel, torch_model: Any) -> None:
    language = ("en", "de")[seed % 2]
    with torch.no_grad():
        wanted = torch_model.generate(
            torch.tensor(features_of(seed)[None]), language=language, task="transcribe", do_sample=False
        )[0].tolist()
    segments = model.transcribe(sound(0.6, seed), language=language, temperatures=(0.0,)).segments
    tokens = [token for segment in segments for token in segment.tokens]
    assert len(tokens) > 8
    assert tokens == [token for token in wanted if token not in (START, ENGLISH, GERMAN, TRANSCRIBE, NO_TIMES, END)]


@pytest.mark.parametrize("seed", range(4))
def test_segments(seed: int, model: llm.SpeechModel, torch_model: Any) -> None:
    """Those of the first window: behind the end of a sound, `transformers` has features of 0, and Relax of silence."""
    with torch.no_grad():
        wanted = torch_model.generate(
            torch.tensor(features_of(seed)[None]), return_timestamps=True, language="en", task="transcribe",
            do_sample=False, return_segments=True,
        )["segments"][0]  # fmt: skip
    found = list(model.segments(sound(0.6, seed), language="en", temperatures=(0.0,)))
    found = [segment for segment in found if segment.logprob == found[0].logprob]
    assert found
    assert wanted
    for segment, other in zip(found, wanted, strict=False):
        assert (segment.start, segment.end) == pytest.approx((other["start"].item(), other["end"].item()), abs=1e-3)
        assert segment.tokens == tuple(other["tokens"].tolist()[: len(segment.tokens)])


def test_the_language_is_the_likeliest(model: llm.SpeechModel, torch_model: Any) -> None:
    for seed in range(5):
        wanted = torch_model.detect_language(torch.tensor(features_of(seed)[None])).item()
        assert model.transcribe(sound(0.6, seed), temperatures=(0.0,)).language == {ENGLISH: "en", GERMAN: "de"}[wanted]
