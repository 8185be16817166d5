"""Requests to an engine, the events of their answers, and the answers as a whole.

    request = Request("The capital of France is", max_new_tokens=20, sampling={"temperature": 0.7, "seed": 1})
    for event in engine.add(request): print(event.text, end="")

A request is a value: it can be sent to another process.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Literal, TypeAlias, cast

from ...runtime.records import dataclass
from ..sampling import Choice

Finish: TypeAlias = Literal["stop", "length", "abort", "timeout", "error"]
"""Reason for the end of an answer: a token that ends a turn, or a stop string; the limit of new tokens, or a full
context; a call of `abort`; the end of the request's time; a fault, which `Event.error` describes."""


@dataclass(frozen=True)
class Request:
    """Prompt, and how its answer is chosen."""

    prompt: str | Sequence[int]
    """A text, or tokens."""
    max_new_tokens: int | None = None
    """Largest number of new tokens; None: up to the end of the context."""
    sampling: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Parameters of `Sampler` by name; `temperature` is 0 unless it is given. With a `seed` the answer does not
    depend on other requests, for weights of few bits (docs/numerics.md)."""
    stop: Sequence[str] = ()
    """Texts that end the answer, and are left out of it."""
    json_schema: Mapping[str, Any] | bool | None = None
    """Schema of JSON that the answer keeps to; True: any JSON object."""
    regex: str | None = None
    """Regular expression that the whole answer matches."""
    grammar: str | None = None
    """Grammar, in Lark's notation, that the answer is written in."""
    adapter: str | None = None
    """Name of a LoRA adapter of the engine; None: the model alone."""
    ignore_end: bool = False
    """Go on behind tokens that end a turn, as benchmarks do."""
    prompt_logprobs: int | None = None
    """Number of likely tokens that are listed for each token of the prompt, with log-probabilities; None: none, and no
    log-probabilities. The whole prompt is computed then, whatever the cache has of it."""
    timeout: float | None = None
    """Seconds from `add` after which the answer ends with "timeout"; None: none."""

    def __post_init__(self) -> None:
        """Raise TypeError and ValueError for fields that are none of these."""
        limit = self.max_new_tokens
        if limit is not None and operator.index(limit) < 0:
            raise ValueError(f"max_new_tokens is {limit}, expected 0 or more")
        if self.prompt_logprobs is not None and operator.index(self.prompt_logprobs) < 0:
            raise ValueError(f"prompt_logprobs is {self.prompt_logprobs}, expected 0 or more")
        stops = cast("Sequence[object]", self.stop)
        if isinstance(stops, str) or not all(isinstance(stop, str) for stop in stops):
            raise TypeError(f"stop is a sequence of texts, found {stops!r}")
        named = {"json_schema": self.json_schema, "regex": self.regex, "grammar": self.grammar}
        forms = [name for name, form in named.items() if form is not None]
        if len(forms) > 1:
            raise ValueError(f"an answer has one constraint, found {' and '.join(forms)}")
        if self.timeout is not None and not 0 < self.timeout < math.inf:
            raise ValueError(f"timeout is {self.timeout}, expected seconds above 0")


@dataclass(frozen=True, slots=True)
class Event:
    """Next part of an answer. The last event has `finish`, and may be without text."""

    text: str
    """Text that belongs to the answer for certain: of whole characters, and no part of a stop string."""
    tokens: tuple[Choice, ...] = ()
    """The tokens chosen since the event before, with log-probabilities if `sampling` has `logprobs`. The token that
    ends a turn is left out."""
    finish: Finish | None = None
    error: str = ""
    """Description of the fault, if `finish` is "error"."""
    prompt: tuple[Choice, ...] = ()
    """The prompt's tokens with log-probabilities, if the request has `prompt_logprobs`, in the first event. That of
    the first token is NaN: nothing comes before it."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Work that a request took. Times are seconds from `add`; NaN for what did not happen."""

    prompt_tokens: int = 0
    cached_tokens: int = 0
    """Tokens of the prompt whose keys and values were in the cache already."""
    new_tokens: int = 0
    """Tokens chosen, that which ends the turn included."""
    drafted_tokens: int = 0
    """Tokens that a drafter proposed."""
    accepted_tokens: int = 0
    """Proposed tokens that were chosen."""
    started: float = math.nan
    """Time at which the first of the prompt's tokens was computed."""
    first_token: float = math.nan
    finished: float = math.nan


@dataclass(frozen=True, slots=True)
class Completion:
    """Answer to a request, as a whole."""

    text: str
    tokens: tuple[Choice, ...]
    finish: Finish
    error: str
    usage: Usage
    prompt: tuple[Choice, ...] = ()
    """The prompt's tokens with log-probabilities, if the request has `prompt_logprobs`."""


class EngineBusy(RuntimeError):
    """As many requests wait as the engine takes; `retry_after` is an estimate of the seconds until one more fits."""

    def __init__(self, message: str, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after


__all__ = ["Completion", "EngineBusy", "Event", "Finish", "Request", "Usage"]
