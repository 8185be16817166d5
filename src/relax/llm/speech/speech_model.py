"""Speech model: sound to text, in its language or in English.

    m = relax.llm.load_speech("whisper-base")
    m.transcribe("talk.wav").text
    for segment in m.segments("talk.wav", language="de"): ...

Sound is read in windows of 30 seconds. A window begins where the last whole segment of the one before ended.
"""

from __future__ import annotations

import math
import os
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from ...ir import IRModule
from ...runtime.forks import ForkLock
from ...runtime.records import dataclass
from ..interrupts import interrupted_later
from ..runner import Runner
from ..sampling import Sampler
from ..tokenizer import Tokenizer
from .audio import samples_of
from .features import Features
from .rules import TASKS, Rules, SpeechTokens

Array: TypeAlias = "NDArray[Any]"
Sound: TypeAlias = "str | os.PathLike[str] | Array | Sequence[float]"

TEMPERATURES: Final = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
"""Temperatures that are tried in turn, until a transcript is plausible."""
_REPETITIVE: Final = 2.4
"""Ratio of the bytes of a text to those of it compressed, above which it repeats itself."""
_UNLIKELY: Final = -1.0
"""Mean log-probability of tokens below which a transcript is not believed."""
_SILENT: Final = 0.6
"""Probability of the token for silence above which an unlikely transcript is dropped."""


@dataclass(frozen=True)
class Segment:
    """Part of a transcript."""

    start: float
    """Seconds from the beginning of the sound, as `end`."""
    end: float
    text: str
    tokens: tuple[int, ...]
    language: str
    logprob: float
    """Mean log-probability of the tokens of the window that the segment is from."""
    no_speech: float
    """Probability that this window has no speech."""
    temperature: float
    """Temperature at which the tokens were chosen."""


@dataclass(frozen=True)
class Transcript:
    """Text of a sound, the code of its language, and its segments. The language of a sound without speech is ""."""

    text: str
    language: str
    segments: tuple[Segment, ...]


@dataclass(frozen=True)
class Decoded:
    """Tokens of a window, behind the prompt and without the one that ends them; see `Segment` for the rest."""

    tokens: tuple[int, ...]
    logprob: float
    no_speech: float
    temperature: float


@dataclass(frozen=True)
class _Options:
    """Arguments of `segments`, checked: tokens of the prompt before the transcript, and how tokens are chosen."""

    task: str
    timestamps: bool
    before: tuple[int, ...]
    temperatures: tuple[float, ...]
    seed: int


@final
class SpeechModel:
    """Model that transcribes speech, one sound at a time; several threads wait for one another."""

    def __init__(
        self, mod: IRModule, runner: Runner, tokenizer: Tokenizer, features: Features, tokens: SpeechTokens,
        rules: Rules, *, frames: int, positions: int,
    ) -> None:  # fmt: skip
        self.mod, self.runner, self.tokenizer, self.features = mod, runner, tokenizer, features
        self._tokens, self._rules = tokens, rules
        self._frames, self._positions = 2 * frames, positions
        self._precision = 2 * features.hop / features.rate
        """Seconds between two timestamps."""
        self._encode: Any = runner.machine["encode"]
        self._lock = ForkLock()

    @property
    def languages(self) -> Sequence[str]:
        """Codes of the languages that the model tells apart; "en" for a model of English only."""
        return sorted(self._tokens.languages) or ["en"]

    def transcribe(
        self, sound: Sound, *, rate: int | None = None, language: str | None = None, task: str = "transcribe",
        timestamps: bool = False, prompt: str = "", temperatures: Sequence[float] = TEMPERATURES, seed: int = 0,
    ) -> Transcript:  # fmt: skip
        """Return the text of a sound, with its segments. Parameters and exceptions are those of `segments`."""
        found = tuple(
            self.segments(
                sound, rate=rate, language=language, task=task, timestamps=timestamps, prompt=prompt,
                temperatures=temperatures, seed=seed,
            )
        )  # fmt: skip
        text = "".join(segment.text for segment in found).strip()
        return Transcript(text, found[0].language if found else "", found)

    def segments(
        self, sound: Sound, *, rate: int | None = None, language: str | None = None, task: str = "transcribe",
        timestamps: bool = True, prompt: str = "", temperatures: Sequence[float] = TEMPERATURES, seed: int = 0,
    ) -> Iterator[Segment]:  # fmt: skip
        """Return an iterator of the segments of a sound, each as soon as its window is computed.

        Parameters
        ----------
        sound
            Path of a WAV file, or samples from -1 to 1, (n,) or (n, channels), at `rate` per second (None: the model's
            own rate, 16000).
        language
            Code of the language that is spoken, such as "en"; None: the likeliest one of the first window.
        task
            "transcribe" writes the text in the language that is spoken, "translate" in English.
        timestamps
            False: a sound that fits one window is one segment, for which the model computes no times.
        prompt
            Text that could stand before the transcript, with names and words as they are to be written.
        temperatures
            Tried in turn until the transcript of a window neither repeats itself nor is unlikely; 0 takes the likeliest
            tokens.
        seed
            Determines random numbers at other temperatures.

        Raises OSError for a file that cannot be opened, and ValueError for other sound than WAV files, samples that are
        no finite numbers, unknown languages and tasks, a prompt that is too long, and negative temperatures.
        """
        if task not in TASKS or (task != "transcribe" and not self._tokens.languages):
            raise ValueError(f"the task {task!r} is not known to the model; there is {' and '.join(self._tasks())}")
        if language is not None and language not in self.languages:
            raise ValueError(f"the language {language!r} is not known; there are {', '.join(self.languages)}")
        if not temperatures or not all(0 <= each < math.inf for each in temperatures):
            raise ValueError(f"temperatures are {list(temperatures)}, expected numbers from 0 on")
        samples = samples_of(sound, self.features.rate, self.features.rate if rate is None else rate)
        fits = len(samples) <= self._frames * self.features.hop
        before = self._before(prompt)
        options = _Options(task, timestamps or not fits, before, tuple(map(float, temperatures)), seed)
        return self._segments(samples, language, options)

    def _tasks(self) -> Sequence[str]:
        return TASKS if self._tokens.languages else TASKS[:1]

    def _before(self, prompt: str) -> tuple[int, ...]:
        """Return the tokens of a text before the transcript."""
        if not prompt.strip():
            return ()
        if self._tokens.previous is None:
            raise ValueError("the tokenizer lacks the token <|startofprev|>: the model takes no prompt")
        tokens = self.tokenizer.encode(f" {prompt.strip()}", add_special=False)
        most = self._positions // 2 - 1
        if len(tokens) > most:
            raise ValueError(f"the prompt has {len(tokens)} tokens, and the model takes up to {most}")
        return (self._tokens.previous, *tokens)

    # ------------------------------------------------------------------------------------ windows

    def _segments(self, samples: Array, language: str | None, options: _Options) -> Iterator[Segment]:
        hop, count = self.features.hop, len(samples)
        frames = -(-count // hop)
        features = self.features(samples, frames + self._frames)  # silence behind the end, for the last window
        at = 0
        while at < frames:
            size = min(self._frames, frames - at)
            with self._lock:
                self._hear(features[:, at : at + self._frames])
                language = language or self._language()
                decoded = self._plausible(self._tokens.prompt(language, options.task, options.timestamps), options)
            if decoded is None:
                at += size
                continue
            parts, step = self._split(decoded.tokens, size, options.timestamps)
            for start, end, tokens in parts:
                text = self.tokenizer.decode([token for token in tokens if self._is_text(token)])
                if text.strip() and end > start:
                    offset = at * hop / self.features.rate
                    yield Segment(
                        round(offset + start, 3), round(offset + end, 3), text, tokens, language, decoded.logprob,
                        decoded.no_speech, decoded.temperature,
                    )  # fmt: skip
            at += max(step, 1)

    def _is_text(self, token: int) -> bool:
        return token < self._tokens.timestamps and token not in self.tokenizer.special

    def _split(
        self, tokens: Sequence[int], size: int, timestamps: bool
    ) -> tuple[list[tuple[float, float, tuple[int, ...]]], int]:
        """Cut the tokens of a window of `size` frames at its pairs of times.

        Returns (start, end, tokens) of the parts, in seconds from the window's beginning, and the number of frames to
        the next window. A part whose end the model has not heard is left to the next window.
        """
        first, whole = self._tokens.timestamps, size * self._precision / 2
        is_time = [timestamps and token >= first for token in tokens]
        cuts = [i for i in range(1, len(tokens)) if is_time[i - 1] and is_time[i]]
        if not cuts:
            latest = next((token for token in reversed(tokens) if timestamps and token >= first), first)
            end = (latest - first) * self._precision if latest > first else whole
            return [(0.0, min(end, whole), tuple(tokens))], size
        is_whole = len(tokens) > 1 and not is_time[-2] and is_time[-1]
        ends = [*cuts, len(tokens)] if is_whole else cuts
        parts = [
            ((tokens[a] - first) * self._precision, (tokens[b - 1] - first) * self._precision, tuple(tokens[a:b]))
            for a, b in zip([0, *ends[:-1]], ends, strict=True)
        ]  # fmt: skip
        return parts, size if is_whole else min(2 * (tokens[ends[-1] - 1] - first), size)

    # ------------------------------------------------------------------------------------ tokens

    @interrupted_later()
    def _hear(self, features: Array) -> None:
        """Encode the features (bins, frames) of a window, which the next steps of the decoder attend to."""
        self.runner.inputs = (self._encode(np.ascontiguousarray(features[None]), *self.runner.weights),)

    def _language(self) -> str:
        """Return the likeliest language of the window."""
        codes = list(self._tokens.languages)
        if not codes:
            return "en"
        sequence = self.runner.add()
        try:
            logits = self.runner.step([(sequence, [self._tokens.start])])[0]
        finally:
            self.runner.remove(sequence)
        return codes[int(np.argmax(logits[list(self._tokens.languages.values())]))]

    def _plausible(self, prompt: Sequence[int], options: _Options) -> Decoded | None:
        """Return the tokens of the window at the first temperature that gives plausible ones; None for silence."""
        decoded: Decoded | None = None
        for index, temperature in enumerate(options.temperatures):
            decoded = self._decoded([*options.before, *prompt], options.timestamps, temperature, options.seed + index)
            if decoded.logprob < _UNLIKELY and decoded.no_speech > _SILENT:
                return None
            text = self.tokenizer.decode([token for token in decoded.tokens if self._is_text(token)]).encode()
            repeats = len(text) > _REPETITIVE * len(zlib.compress(text))
            if not repeats and decoded.logprob >= _UNLIKELY:
                break
        return decoded

    def _decoded(self, prompt: Sequence[int], timestamps: bool, temperature: float, seed: int) -> Decoded:
        """Return the tokens that follow a prompt at a temperature."""
        sampler, runner, end = Sampler(temperature, seed=seed), self.runner, self._tokens.end
        tokens: list[int] = []
        total = 0.0
        sequence = runner.add()
        try:
            rows = runner.step([(sequence, prompt)], every=True)
            silence = self._tokens.no_speech
            at_start = rows[list(prompt).index(self._tokens.start)]
            no_speech = 0.0 if silence is None else math.exp(_logprob(at_start, silence))
            logits = rows[-1]
            for _ in range(self._positions - len(prompt)):
                allowed = self._rules.apply(logits, tokens, timestamps)
                token = sampler.sample(allowed, tokens)
                total += _logprob(allowed, token)
                if token == end:
                    break
                tokens.append(token)
                logits = runner.step([(sequence, [token])])[0]
        finally:
            runner.remove(sequence)
        return Decoded(tuple(tokens), total / (len(tokens) + 1), no_speech, temperature)


def _logprob(logits: Array, token: int) -> float:
    """Return the log-probability of a token."""
    greatest = float(logits.max())
    return float(logits[token]) - greatest - math.log(float(np.exp(logits - greatest, dtype=np.float64).sum()))


__all__ = ["Decoded", "Segment", "SpeechModel", "Transcript"]
