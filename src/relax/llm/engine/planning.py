"""Plan of a step: which answers get how many tokens.

Answers that decode come first, with one token each and those that a drafter proposed. Parts of prompts share the rest,
in the order in which requests came.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..runner import PAGE
from .answers import Answer, shared_length

SCORED = 128
"""Tokens of a prompt with log-probabilities in a step, at most: each has logits of the whole vocabulary."""
AHEAD = 4 * PAGE
"""Tokens of a prompt that another request computes, from which it pays to wait for them."""


class Part(NamedTuple):
    """Tokens of an answer in a step, and how many of the last of them need logits."""

    answer: Answer
    tokens: list[int]
    rows: int


def plan(running: Sequence[Answer], most: int, beside: int) -> list[Part]:
    """Return the parts of a step of at most `most` tokens; of prompts at most `beside`, if answers decode."""
    decoding = [answer for answer in running if answer.remaining == 1][:most]
    room = most - len(decoding)
    parts: list[Part] = []
    for answer in decoding:
        answer.drafts = answer.drafts[: min(room, max(answer.writer.room - 1, 0))]
        room -= len(answer.drafts)
        tokens = [answer.tokens[-1], *answer.drafts]
        parts.append(Part(answer, tokens, len(tokens)))
    if decoding:
        room = min(room, beside)
    for answer in running:
        if answer.remaining > 1 and room > 0:
            count = min(room, SCORED) if answer.is_scored else room
            tokens = answer.tokens[answer.computed : answer.computed + count]
            room -= len(tokens)
            rows = len(tokens) if answer.is_scored else int(len(tokens) == answer.remaining)
            parts.append(Part(answer, tokens, rows))
    return parts


def waits_for(answer: Answer, running: Sequence[Answer], cached: int) -> bool:
    """Return True if a running request is about to compute much of a prompt, of which `cached` tokens are there."""
    prompt = answer.tokens
    for other in running:
        if other.remaining > 1 and other.request.adapter == answer.request.adapter:
            shared = min(shared_length(prompt, other.tokens[: other.prompt]), len(prompt) - 1) // PAGE * PAGE
            if shared - max(cached, other.computed // PAGE * PAGE) >= AHEAD:
                return True
    return False


__all__ = ["Part", "plan", "waits_for"]
