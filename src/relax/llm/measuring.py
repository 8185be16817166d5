"""Speed of a language model: tokens of a prompt a second, and new tokens a second, of several sequences together."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from ..runtime.records import dataclass
from .runner import Runner


@dataclass(frozen=True)
class Speed:
    """Speed of one engine with some sequences."""

    sequences: int
    prompt: float
    """Tokens of prompts a second."""
    decode: float
    """New tokens a second, of all sequences together."""


def measured(runner: Runner, vocabulary: int, sequences: int, prompt: int, decode: int, seed: int = 0) -> Speed:
    """Return the speed with sequences of `prompt` random tokens, to each of which `decode` tokens are added.

    Raises ValueError if the cache has no pages for all of them.
    """
    rng = np.random.default_rng(seed)
    prompts = [rng.integers(0, vocabulary, prompt).tolist() for _ in range(sequences)]
    numbers = [runner.add() for _ in prompts]
    try:
        start = time.perf_counter()
        following = [_likeliest(runner.step([pair]))[0] for pair in zip(numbers, prompts, strict=True)]
        after_prompts = time.perf_counter()
        for _ in range(decode):
            following = _likeliest(runner.step([(n, [token]) for n, token in zip(numbers, following, strict=True)]))
        end = time.perf_counter()
    finally:
        for number in numbers:
            runner.remove(number)
    return Speed(sequences, sequences * prompt / (after_prompts - start), sequences * decode / (end - after_prompts))


def _likeliest(logits: Any) -> list[int]:
    """Tokens with the greatest logits."""
    return logits.argmax(axis=1).tolist()


__all__ = ["Speed", "measured"]
