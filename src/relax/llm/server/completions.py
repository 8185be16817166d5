"""Completions: the request that a body describes, as tokens, and the objects of its answers."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast, final

from ...runtime.records import dataclass
from ..engine.requests import Completion, Event, Request
from ..sampling import Choice
from .body import Body, kind_of, shown
from .errors import invalid
from .parameters import IGNORED, LARGEST, MOST_ANSWERS, Parameters, parameters_of
from .service import Service
from .token_texts import prompt_logprobs, text_logprobs, text_of, written

DEFAULT_LIMIT: Final = 16
"""New tokens, where the request does not say, as OpenAI has it."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """Prompt of a completion."""

    tokens: list[int]
    room: int
    text: str
    """Text that is echoed before the answer, "" for none."""


@dataclass(frozen=True, slots=True)
class CompletionRequest:
    """Request for completions, read and checked."""

    model: str
    adapter: str | None
    parameters: Parameters
    prompts: tuple[Prompt, ...]
    logprobs: int | None
    is_scored: bool
    """True if log-probabilities of the prompts are asked for, too."""

    def requests(self, timeout: float | None) -> list[Request]:
        """Return the requests to the engine: all answers of the first prompt, then those of the next."""
        scored = self.logprobs if self.is_scored else None
        return [
            self.parameters.request(prompt.tokens, index, prompt.room, self.adapter, timeout, prompt_logprobs=scored)
            for prompt in self.prompts
            for index in range(self.parameters.count)
        ]

    @property
    def prompt_tokens(self) -> int:
        """Tokens of all prompts."""
        return sum(len(prompt.tokens) for prompt in self.prompts)


def completion_request(service: Service, body: Body) -> CompletionRequest:
    """Read the body of a request for completions. Raises RequestError."""
    model, adapter = service.named(body)
    echo, logprobs = body.flag("echo"), body.integer("logprobs", 0, 20)
    limit = body.integer("max_tokens", 0 if echo else 1, LARGEST)
    parameters = parameters_of(
        body, service.tokenizer.vocabulary_size, DEFAULT_LIMIT if limit is None else limit, logprobs
    )
    if body.integer("best_of", 1, 20) not in (None, parameters.count):
        raise invalid("best_of", "not supported: ask for n answers", "unsupported_parameter")
    body.refuse({"suffix": "the model continues texts only"})
    prompts = _prompts(service, body, echo)
    body.finish(IGNORED)
    if len(prompts) * parameters.count > MOST_ANSWERS:
        message = f"{len(prompts)} prompts with n={parameters.count}, expected at most {MOST_ANSWERS} answers"
        raise invalid("prompt", message, "array_above_max_length")
    return CompletionRequest(model, adapter, parameters, tuple(prompts), logprobs, echo and logprobs is not None)


def _prompts(service: Service, body: Body, echo: bool) -> list[Prompt]:
    """Read `prompt`: a text, tokens, or an array of them."""
    value = body.needed("prompt")
    if isinstance(value, str):
        return [_prompt(service, value, echo)]
    items = body.items("prompt") or []
    if not items:
        raise invalid("prompt", "an empty array", "empty_array")
    if all(type(item) is int for item in items):
        return [_prompt(service, items, echo)]
    if len(items) > MOST_ANSWERS:
        raise invalid("prompt", f"{len(items)} prompts, expected at most {MOST_ANSWERS}", "array_above_max_length")
    return [_prompt(service, item, echo) for item in items]


def _prompt(service: Service, value: Any, echo: bool) -> Prompt:
    tokenizer = service.tokenizer
    if isinstance(value, str):
        tokens, text = tokenizer.encode(value), value
    elif isinstance(value, list):
        tokens = _tokens(cast("list[Any]", value), tokenizer.vocabulary_size)
        text = tokenizer.decode(tokens) if echo else ""
    else:
        raise invalid("prompt", f"{kind_of(value)}, expected a string or an array of tokens", "invalid_type")
    if not tokens:
        raise invalid("prompt", "the prompt is empty", "invalid_value")
    return Prompt(tokens, service.room(tokens, "prompt"), text if echo else "")


def _tokens(values: list[Any], vocabulary: int) -> list[int]:
    for value in values:
        if type(value) is not int or not 0 <= value < vocabulary:
            raise invalid("prompt", f"{shown(value)} is no token: the vocabulary has {vocabulary}", "invalid_value")
    return values


@final
class CompletionAnswer:
    """Objects of the response to a request: `chunks` of a stream, or the `whole`."""

    def __init__(self, service: Service, request: CompletionRequest) -> None:
        self._service, self._request = service, request
        self._head = {
            "id": f"cmpl-{secrets.token_hex(12)}", "object": "text_completion", "created": int(time.time()),
            "model": request.model,
        }  # fmt: skip
        count = request.parameters.count
        self._echoes = [prompt.text for prompt in request.prompts for _ in range(count)]
        self._offsets = [len(text) for text in self._echoes]
        self._held: list[list[Choice]] = [[] for _ in self._echoes]
        """Tokens without text of their own yet: their log-probabilities come with the next chunk."""

    def first_chunks(self) -> list[dict[str, Any]]:
        """Return the chunks that begin the answers: the texts of the prompts, if they are asked for.

        With log-probabilities they come once these are computed.
        """
        if self._request.is_scored:
            return []
        return [self._object([self._choice(i, text, (), None)]) for i, text in enumerate(self._echoes) if text]

    def chunks(self, index: int, event: Event) -> list[dict[str, Any]]:
        """Return the chunks for an event of the answer with this index."""
        tokens = [*self._held[index], *event.tokens]
        first = (
            [self._object([self._choice(index, self._echoes[index], (), None, event.prompt)])] if event.prompt else []
        )
        if not event.text and event.finish is None:
            self._held[index] = tokens
            return first
        self._held[index] = []
        return [*first, self._object([self._choice(index, event.text, tokens, event.finish)])]

    def usage_chunk(self, usage: Mapping[str, Any]) -> dict[str, Any]:
        """Return the chunk with the number of tokens that ends a stream."""
        return {**self._head, "choices": [], "usage": usage}

    def whole(self, answers: Sequence[Completion], usage: Mapping[str, Any]) -> dict[str, Any]:
        """Return the object of complete answers."""
        choices = [
            self._choice(index, self._echoes[index] + answer.text, answer.tokens, answer.finish, answer.prompt)
            for index, answer in enumerate(answers)
        ]
        return {**self._head, "choices": choices, "usage": usage}

    def _object(self, choices: list[dict[str, Any]]) -> dict[str, Any]:
        if self._request.parameters.include_usage:
            return {**self._head, "choices": choices, "usage": None}
        return {**self._head, "choices": choices}

    def _choice(
        self, index: int, text: str, tokens: Sequence[Choice], finish: str | None, prompt: Sequence[Choice] = ()
    ) -> dict[str, Any]:
        logprobs, most = None, self._request.logprobs
        if most is not None and (tokens or prompt):
            tokenizer = self._service.tokenizer
            chosen = written(tokenizer, tokens, self._request.parameters.ignore_end)
            logprobs = text_logprobs(tokenizer, chosen, most, self._offsets[index])
            self._offsets[index] += sum(len(text_of(tokenizer, choice.token)) for choice in chosen)
            if prompt:
                before = prompt_logprobs(tokenizer, prompt, most, len(self._echoes[index]))
                logprobs = {name: before[name] + logprobs[name] for name in logprobs if logprobs[name] is not None}
                logprobs.setdefault("top_logprobs", None)
        return {"index": index, "text": text, "logprobs": logprobs, "finish_reason": finish}


__all__ = ["CompletionAnswer", "CompletionRequest", "completion_request"]
