"""Log-probabilities of tokens in the objects of chat completions and of completions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..sampling import Choice
from ..tokenizer import Tokenizer

LEAST = -9999.0
"""Log-probability of a token that cannot come: JSON has no infinity."""


def text_of(tokenizer: Tokenizer, token: int) -> str:
    """Return the text of a token; bytes that are no whole characters become U+FFFD."""
    return tokenizer.token(token).decode("utf-8", "replace")


def written(tokenizer: Tokenizer, choices: Sequence[Choice], ignore_end: bool) -> list[Choice]:
    """Return the choices whose tokens are text: those that end a turn are not, unless `ignore_end`."""
    return [choice for choice in choices if ignore_end or choice.token not in tokenizer.eot]


def chat_logprobs(tokenizer: Tokenizer, choices: Sequence[Choice], most: int) -> list[dict[str, Any]]:
    """Return the entry of each token, with its bytes and the `most` likeliest tokens in its place."""

    def entry(token: int, logprob: float) -> dict[str, Any]:
        data = tokenizer.token(token)
        return {"token": data.decode("utf-8", "replace"), "logprob": _finite(logprob), "bytes": list(data)}

    return [
        {**entry(choice.token, choice.logprob), "top_logprobs": [entry(*pair) for pair in choice.top[:most]]}
        for choice in choices
    ]


def text_logprobs(tokenizer: Tokenizer, choices: Sequence[Choice], most: int, offset: int) -> dict[str, Any]:
    """Return the lists of tokens, log-probabilities, likeliest tokens, and places in the text from `offset` on."""
    texts = [text_of(tokenizer, choice.token) for choice in choices]
    offsets: list[int] = []
    for text in texts:
        offsets.append(offset)
        offset += len(text)
    tops = [{text_of(tokenizer, token): _finite(value) for token, value in choice.top[:most]} for choice in choices]
    return {
        "tokens": texts, "token_logprobs": [_finite(choice.logprob) for choice in choices],
        "top_logprobs": tops if most else None, "text_offset": offsets,
    }  # fmt: skip


def prompt_logprobs(tokenizer: Tokenizer, choices: Sequence[Choice], most: int, size: int) -> dict[str, Any]:
    """Return the lists of `text_logprobs` for a prompt whose text has `size` characters.

    The first token has no log-probability (None). A token begins where the text of those before it ends: control
    tokens, and a blank that the vocabulary puts in front, have no text.
    """
    result = text_logprobs(tokenizer, choices, most, 0)
    result["token_logprobs"][0] = None
    if most:
        result["top_logprobs"][0] = None
    # The text of a prompt that came as a text is without the control tokens that were put around it.
    has_controls = len(tokenizer.decode([choice.token for choice in choices])) == size
    stream, at, offsets = tokenizer.decode_stream(skip_special=not has_controls), 0, list[int]()
    for choice in choices:
        offsets.append(min(at, size))
        at += len(stream.step(choice.token))
    return {**result, "text_offset": offsets}


def _finite(value: float) -> float:
    return value if math.isfinite(value) else LEAST


__all__ = ["chat_logprobs", "prompt_logprobs", "text_logprobs", "text_of", "written"]
