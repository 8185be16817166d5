"""Fields that chat completions and completions share: sampling, limits, stop strings and constraints.

| field | meaning |
|---|---|
| temperature, top_p, seed, stop, logit_bias, presence_penalty, frequency_penalty, n | as OpenAI defines them |
| top_k, min_p, typical_p, repetition_penalty (repeat_penalty) | parameters of `Sampler` |
| ignore_eos | go on behind tokens that end a turn |
| json_schema, regex, grammar | the answer keeps to a JSON schema, a regular expression, a grammar in Lark's notation |
| guided_json, guided_regex, guided_grammar, guided_choice, structured_outputs | likewise, under vLLM's names |
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from ...runtime.records import dataclass
from ..engine.requests import Request
from .body import Body, shown
from .errors import invalid

MOST_ANSWERS: Final = 128
"""Largest `n`, as OpenAI has it."""
MOST_STOPS: Final = 64
LARGEST: Final = 1 << 31

IGNORED: Final = frozenset(
    {"user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key", "prompt_cache_retention",
     "prompt_cache_options", "prediction", "cache_prompt", "timings_per_token", "return_progress", "priority"}
)  # fmt: skip
"""Fields that change no answer."""


@dataclass(frozen=True, slots=True)
class Parameters:
    """Choice of the tokens of an answer, and the form of the response."""

    sampling: Mapping[str, Any]
    stop: tuple[str, ...]
    limit: int | None
    """Largest number of new tokens."""
    count: int
    """Number of answers."""
    seed: int | None
    ignore_end: bool
    stream: bool
    include_usage: bool
    """True if a stream ends with the number of tokens."""
    constraint: Mapping[str, Any]
    """One of `json_schema`, `regex` and `grammar`, or nothing."""

    def request(
        self, prompt: list[int], index: int, room: int, adapter: str | None, timeout: float | None,
        constraint: Mapping[str, Any] | None = None, prompt_logprobs: int | None = None,
    ) -> Request:  # fmt: skip
        """Return the engine's request for answer `index`, of at most `room` tokens, with a seed of its own."""
        sampling = dict(self.sampling)
        if self.seed is not None:
            sampling["seed"] = (self.seed + index) % (1 << 64)
        limit = room if self.limit is None else min(self.limit, room)
        return Request(
            prompt, limit, sampling, self.stop, adapter=adapter, ignore_end=self.ignore_end, timeout=timeout,
            prompt_logprobs=prompt_logprobs, **(self.constraint if constraint is None else constraint),
        )  # fmt: skip


def parameters_of(body: Body, vocabulary: int, limit: int | None, logprobs: int | None) -> Parameters:
    """Read the shared fields of a body, for a model of `vocabulary` tokens.

    `limit` is the largest number of new tokens, `logprobs` how many likely tokens are listed for each token (None: no
    log-probabilities). Raises RequestError.
    """
    options = body.mapping("stream_options")
    stream = body.flag("stream")
    if options is not None and not stream:
        raise invalid("stream_options", "only for stream: true", "invalid_value")
    usage = options is not None and options.flag("include_usage")
    if options is not None:
        options.finish(ignored=("include_obfuscation", "continuous_usage_stats"))
    sampling: dict[str, Any] = {"temperature": _default(body.number("temperature", 0, math.inf), 1.0)}
    if logprobs is not None:
        sampling["logprobs"] = max(1, logprobs)  # a sampler of 0 computes no log-probability of the chosen token either
    for name, value in _sampling(body):
        if value is not None:
            sampling[name] = value
    bias = _bias(body, vocabulary)
    if bias:
        sampling["logit_bias"] = bias
    stop = tuple(body.texts("stop", MOST_STOPS))
    if not all(stop):
        raise invalid("stop", "an empty string ends every text", "invalid_value")
    return Parameters(
        sampling, stop, limit, _default(body.integer("n", 1, MOST_ANSWERS), 1),
        body.integer("seed", -(1 << 63), (1 << 64) - 1), body.flag("ignore_eos"), stream, usage, constraint_of(body),
    )  # fmt: skip


def _sampling(body: Body) -> list[tuple[str, float | None]]:
    """Return parameters of `Sampler` by name; values are None where a field is absent."""
    found = [
        ("top_p", body.number("top_p", 0, 1)), ("min_p", body.number("min_p", 0, 1)),
        ("typical_p", body.number("typical_p", 0, 1)),
        ("presence_penalty", body.number("presence_penalty", -2, 2)),
        ("frequency_penalty", body.number("frequency_penalty", -2, 2)),
    ]  # fmt: skip
    top_k = body.integer("top_k", -1, LARGEST)
    found.append(("top_k", max(top_k, 0) if top_k is not None else None))  # vLLM's -1 and llama.cpp's 0: all
    for name in ("repetition_penalty", "repeat_penalty"):  # vLLM's name, llama.cpp's name
        value = body.number(name, 0, 100)
        if value == 0:
            raise invalid(body.named(name), "0.0, expected a number above 0", "invalid_value")
        if value is not None:
            found.append(("repetition_penalty", value))
    return found


def _bias(body: Body, vocabulary: int) -> dict[int, float]:
    """Return the numbers that are added to the logits of some tokens."""
    table = body.mapping("logit_bias")
    if table is None:
        return {}
    bias: dict[int, float] = {}
    for name in table.raw():
        if not re.fullmatch(r"[0-9]{1,10}", name) or int(name) >= vocabulary:
            message = f"{shown(name)} is no token: the vocabulary has {vocabulary}"
            raise invalid("logit_bias", message, "invalid_value")
        value = table.number(name, -100, 100)
        if value is not None:
            bias[int(name)] = value
    return bias


def constraint_of(body: Body) -> dict[str, Any]:
    """Return the constraint of an answer, by the name of the field of `Request`. Raises RequestError for several."""
    found = [(body.named(name), *kind(body, name)) for name, kind in _CONSTRAINTS.items() if body.has(name)]
    outputs = body.mapping("structured_outputs")
    if outputs is not None:
        found += [(outputs.named(name), *kind(outputs, name)) for name, kind in _OUTPUTS.items() if outputs.has(name)]
        outputs.finish()
    form = body.mapping("response_format")
    if form is not None:
        found += _format(form)
    if len(found) > 1:
        raise invalid(found[1][0], f"only one constraint at a time, and {found[0][0]} is there", "invalid_value")
    return {field: value for _, field, value in found}


def _format(form: Body) -> list[tuple[str, str, Any]]:
    """Read `response_format`: text, json_object, or json_schema."""
    kind = form.choice("type", ("text", "json_object", "json_schema"))
    if kind is None:
        form.needed("type")
    if kind == "json_schema":
        described = form.inner("json_schema")
        schema = described.mapping("schema")
        described.finish(ignored=("name", "description", "strict"))
        form.finish()
        return [("response_format", "json_schema", True if schema is None else schema.raw())]
    legacy = form.mapping("schema")  # llama.cpp's form: {"type": "json_object", "schema": {…}}
    form.finish()
    if kind == "json_object":
        return [("response_format", "json_schema", True if legacy is None else legacy.raw())]
    return []


def _schema(body: Body, name: str) -> tuple[str, Any]:
    """Read a JSON schema: an object, or its text."""
    value = body.value(name)
    if isinstance(value, str):
        return "json_schema", Body.parse(value.encode("utf-8", "replace")).raw()
    schema = body.mapping(name)
    return "json_schema", {} if schema is None else schema.raw()


def _regex(body: Body, name: str) -> tuple[str, Any]:
    return "regex", body.text(name)


def _grammar(body: Body, name: str) -> tuple[str, Any]:
    return "grammar", body.text(name)


def _one_of(body: Body, name: str) -> tuple[str, Any]:
    """Read texts, of which the answer is one, as a regular expression."""
    texts = body.texts(name)
    if not texts:
        raise invalid(body.named(name), "no texts to choose from", "invalid_value")
    return "regex", "|".join(re.sub(r"([\\.+*?()|\[\]{}^$#&~-])", r"\\\1", text) for text in texts)


_CONSTRAINTS: Final[Mapping[str, Callable[[Body, str], tuple[str, Any]]]] = {
    "json_schema": _schema, "regex": _regex, "grammar": _grammar,
    "guided_json": _schema, "guided_regex": _regex, "guided_grammar": _grammar, "guided_choice": _one_of,
}  # fmt: skip
_OUTPUTS: Final[Mapping[str, Callable[[Body, str], tuple[str, Any]]]] = {
    "json": _schema, "regex": _regex, "grammar": _grammar, "choice": _one_of,
}  # fmt: skip


def _default(value: Any, other: Any) -> Any:
    return other if value is None else value


__all__ = ["IGNORED", "LARGEST", "Parameters", "constraint_of", "parameters_of"]
