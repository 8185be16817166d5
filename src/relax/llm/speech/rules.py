"""Rules for the tokens of speech: which ones may follow, and what control tokens mean."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from ...runtime.records import dataclass
from ..settings import Settings

Array: TypeAlias = "NDArray[Any]"

_MULTILINGUAL: Final = 51865
"""Tokens of the smallest vocabulary with more languages than English."""
TASKS: Final = ("transcribe", "translate")


@dataclass(frozen=True)
class SpeechTokens:
    """Ids of control tokens. Those from `timestamps` on are times, 0.02 s apart."""

    start: int
    end: int
    no_timestamps: int
    previous: int | None
    no_speech: int | None
    tasks: Mapping[str, int]
    languages: Mapping[str, int]
    """Tokens of languages by their codes; empty for models of English only."""

    @property
    def timestamps(self) -> int:
        """The token of the time 0."""
        return self.no_timestamps + 1

    @classmethod
    def of(cls, special: Mapping[int, str], vocabulary: int, settings: Settings) -> SpeechTokens:
        """Return the tokens of a vocabulary, given the texts of its control tokens and the settings of generation.

        Raises ValueError if one is missing, or outside of the vocabulary.
        """
        ids = {text: index for index, text in special.items()}
        named = {text: ids[f"<|{text}|>"] for text in _NEEDED if f"<|{text}|>" in ids}
        missing = [text for text in _NEEDED if text not in named]
        if missing:
            raise ValueError(f"the tokenizer lacks the token <|{missing[0]}|> of models of speech")
        is_multilingual = settings.flag("is_multilingual", vocabulary >= _MULTILINGUAL)
        languages = {match[1]: ids[text] for text in ids if (match := re.fullmatch(r"<\|([a-z]{2,3})\|>", text))}
        languages = languages if is_multilingual else {}
        previous, no_speech = ids.get("<|startofprev|>"), ids.get("<|nospeech|>", ids.get("<|nocaptions|>"))
        if max(*named.values(), *languages.values(), previous or 0, no_speech or 0) >= vocabulary:
            raise ValueError(f"the tokenizer has control tokens outside of the model's vocabulary of {vocabulary}")
        return cls(
            named["startoftranscript"], named["endoftext"], named["notimestamps"], previous, no_speech,
            {task: named[task] for task in TASKS}, languages,
        )  # fmt: skip

    def prompt(self, language: str, task: str, timestamps: bool) -> list[int]:
        """Return the tokens with which a transcript begins."""
        found = [self.start]
        if self.languages:
            found += [self.languages[language], self.tasks[task]]
        return found if timestamps else [*found, self.no_timestamps]


_NEEDED: Final = ("startoftranscript", "endoftext", "notimestamps", *TASKS)


@final
class Rules:
    """Tokens that may follow: never those of a list, some not at the beginning, and times in pairs that ascend.

    Source: Radford et al., Robust Speech Recognition via Large-Scale Weak Supervision, 2022, and the decoder that was
    published with it.
    """

    def __init__(self, tokens: SpeechTokens, settings: Settings, vocabulary: int) -> None:
        self._tokens = tokens
        self._never = [token for token in _listed(settings, "suppress_tokens") if token < vocabulary]
        self._not_first = [token for token in _listed(settings, "begin_suppress_tokens") if token < vocabulary]
        self._latest_first = settings.integer("max_initial_timestamp_index", 50)

    def apply(self, logits: Array, tokens: Sequence[int], timestamps: bool) -> Array:
        """Return logits (vocabulary,) with -inf for tokens that may not follow `tokens`, those behind the prompt."""
        allowed = np.array(logits, np.float32)
        if not tokens:
            allowed[self._not_first] = -np.inf
        allowed[self._never] = -np.inf
        if timestamps:
            self._time(allowed, tokens)
        return allowed

    def _time(self, allowed: Array, tokens: Sequence[int]) -> None:
        """Forbid times that do not ascend, and what breaks their pairs; demand one where times are likeliest."""
        first = self._tokens.timestamps
        allowed[self._tokens.no_timestamps] = -np.inf
        is_time = [token >= first for token in tokens[-2:]]
        if is_time[-1:] == [True]:
            if len(tokens) < 2 or is_time[0]:
                allowed[first:] = -np.inf
            else:
                allowed[: self._tokens.end] = -np.inf
        latest = next((token for token in reversed(tokens) if token >= first), None)
        if latest is not None:
            ends_pair = len(is_time) == 2 and is_time == [False, True]
            allowed[first : latest + (not ends_pair)] = -np.inf
        if not tokens:
            allowed[:first] = -np.inf
            allowed[first + self._latest_first + 1 :] = -np.inf
        greatest = allowed[first:].max(initial=-np.inf)
        if np.isfinite(greatest):
            together = greatest + np.log(np.exp(allowed[first:] - greatest).sum())
            if together > allowed[:first].max(initial=-np.inf):
                allowed[:first] = -np.inf


def _listed(settings: Settings, name: str) -> Sequence[int]:
    """Return the tokens of a setting; those below 0 stand for lists that the tokenizer has, and are left out."""
    value: Any = settings.values.get(name)
    if isinstance(value, list):
        value = [token for token in value if not (isinstance(token, int) and token < 0)]  # pyright: ignore[reportUnknownVariableType]
    return Settings({name: value}).integers(name)


__all__ = ["TASKS", "Rules", "SpeechTokens"]
