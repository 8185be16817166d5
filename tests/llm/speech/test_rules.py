"""Rules for the tokens of speech."""

from __future__ import annotations

import numpy as np
import pytest
from small_whisper import (
    END,
    ENGLISH,
    GENERATION,
    GERMAN,
    NO_TIMES,
    SPECIAL,
    START,
    TIMES,
    TOKENS,
    TRANSCRIBE,
    TRANSLATE,
    VOCABULARY,
)  # fmt: skip

from relax.llm.settings import Settings
from relax.llm.speech.rules import Rules, SpeechTokens

FLAT = np.zeros(VOCABULARY, np.float32)
TEXT = FLAT.copy()
TEXT[65] = 9.0
"""Logits of a model that is sure of a letter."""


def allowed(tokens: list[int], logits: np.ndarray = TEXT, timestamps: bool = True) -> set[int]:
    """Tokens that may follow."""
    rules = Rules(TOKENS, Settings(GENERATION), VOCABULARY)
    return set(np.flatnonzero(np.isfinite(rules.apply(logits, tokens, timestamps))).tolist())


def times(first: int, last: int) -> set[int]:
    return set(range(TIMES + first, TIMES + last + 1))


def test_prompts() -> None:
    assert TOKENS.prompt("en", "transcribe", timestamps=True) == [START, ENGLISH, TRANSCRIBE]
    assert TOKENS.prompt("de", "translate", timestamps=False) == [START, GERMAN, TRANSLATE, NO_TIMES]
    english = SpeechTokens.of(SPECIAL, VOCABULARY, Settings({}))  # a small vocabulary has one language
    assert english.prompt("en", "transcribe", timestamps=False) == [START, NO_TIMES]


def test_a_tokenizer_without_control_tokens() -> None:
    with pytest.raises(ValueError, match=r"the tokenizer lacks the token <\|startoftranscript\|> of models of speech"):
        SpeechTokens.of({}, VOCABULARY, Settings({}))


@pytest.mark.parametrize("text", ["<|startofprev|>", "<|nospeech|>", "<|notimestamps|>", "<|de|>"])
def test_control_tokens_outside_of_the_vocabulary(text: str) -> None:
    special = {VOCABULARY if name == text else token: name for token, name in SPECIAL.items()}
    with pytest.raises(ValueError, match="control tokens outside of the model's vocabulary of 296"):
        SpeechTokens.of(special, VOCABULARY, Settings(GENERATION))


def test_tokens_that_never_follow_and_those_that_do_not_begin() -> None:
    first, second = (allowed(tokens, timestamps=False) for tokens in ([], [65]))
    assert not {7, START, NO_TIMES} & (first | second)
    assert second - first == {32, END}


def test_a_transcript_with_times_begins_with_an_early_one() -> None:
    assert allowed([]) == times(0, 10)


def test_behind_the_first_time_comes_text() -> None:
    assert allowed([TIMES + 3]) & times(0, 30) == set()
    assert {32, 65} <= allowed([TIMES + 3])


def test_times_ascend() -> None:
    assert allowed([TIMES + 3, 65]) & times(0, 30) == times(4, 30)


def test_an_end_is_followed_by_a_beginning_or_nothing() -> None:
    assert allowed([TIMES + 3, 65, TIMES + 8]) == times(8, 30)
    logits = TEXT.copy()
    logits[END] = 9.0
    assert allowed([TIMES + 3, 65, TIMES + 8], logits) == times(8, 30) | {END, ENGLISH, GERMAN}
    assert allowed([TIMES + 3, 65, TIMES + 8, TIMES + 8]) & times(0, 30) == set()


def test_a_time_follows_where_times_are_likelier_than_any_text() -> None:
    assert allowed([TIMES, 65], FLAT) == times(1, 30)
    logits = FLAT.copy()
    logits[65] = np.log(31)
    assert 65 in allowed([TIMES, 65], logits)
