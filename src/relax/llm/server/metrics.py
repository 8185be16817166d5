"""Counts of a server in Prometheus's text format: `Metrics`.

Written here since the package prometheus-client has one registry a process, and two kinds of counts are all it takes.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, final

from ..engine.engine import EngineStats
from ..engine.requests import Usage

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

_SECONDS: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
_TOKEN_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)


@final
class Counter:
    """Number that grows, for each combination of labels."""

    def __init__(self, name: str, description: str, labels: Sequence[str] = ()) -> None:
        self._name, self._description, self._labels = name, description, labels
        self._values: dict[tuple[str, ...], float] = {} if labels else {(): 0.0}

    def add(self, amount: float = 1.0, *labels: str) -> None:
        """Add an amount under the values of the labels."""
        self._values[labels] = self._values.get(labels, 0.0) + amount

    def lines(self) -> Iterable[str]:
        """Lines of the text format."""
        yield from _head(self._name, self._description, "counter")
        for values, number in sorted(self._values.items()):
            yield f"{self._name}{_labels(dict(zip(self._labels, values, strict=True)))} {_number(number)}"


@final
class Histogram:
    """Number of observed values up to each of some bounds, and their sum."""

    def __init__(self, name: str, description: str, bounds: Sequence[float]) -> None:
        self._name, self._description, self._bounds = name, description, bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        """Count a value; NaN, for what did not happen, is left out."""
        if not math.isnan(value):
            self._counts[bisect.bisect_left(self._bounds, value)] += 1
            self._sum += value

    def lines(self) -> Iterable[str]:
        """Lines of the text format."""
        yield from _head(self._name, self._description, "histogram")
        total = 0
        for bound, count in zip((*self._bounds, math.inf), self._counts, strict=True):
            total += count
            yield f"{self._name}_bucket{_labels({'le': _number(bound)})} {total}"
        yield f"{self._name}_sum {_number(self._sum)}"
        yield f"{self._name}_count {total}"


@final
class Metrics:
    """Counts of requests, answers and tokens since the start of a server."""

    def __init__(self) -> None:
        self.active = 0
        """Requests that are answered now."""
        self._requests = Counter("relax_http_requests_total", "Requests by path and status.", ("path", "status"))
        self._answers = Counter("relax_answers_total", "Answers by the reason of their end.", ("finish",))
        self._tokens = Counter(
            "relax_tokens_total", "Tokens of prompts, of those in the cache, and new ones.", ("kind",)
        )
        self._first = Histogram("relax_first_token_seconds", "Time from a request to its first token.", _SECONDS)
        self._total = Histogram("relax_answer_seconds", "Time from a request to the end of its answer.", _SECONDS)
        self._each = Histogram("relax_token_seconds", "Time between tokens of an answer, its mean.", _TOKEN_SECONDS)

    def responded(self, path: str, status: int) -> None:
        """Count a response."""
        self._requests.add(1, path, str(status))

    def ended(self, finish: str, usage: Usage) -> None:
        """Count an answer."""
        self._answers.add(1, finish)
        for kind, count in (
            ("prompt", usage.prompt_tokens), ("cached", usage.cached_tokens), ("new", usage.new_tokens)
        ):  # fmt: skip
            self._tokens.add(count, kind)
        self._first.observe(usage.first_token)
        self._total.observe(usage.finished)
        if usage.new_tokens > 1:
            self._each.observe((usage.finished - usage.first_token) / (usage.new_tokens - 1))

    def text(self, stats: EngineStats) -> str:
        """Return all counts, those of the engine included."""
        lines = [
            line
            for each in (self._requests, self._answers, self._tokens, self._first, self._total, self._each)
            for line in each.lines()
        ]
        for name, description, value in (
            ("relax_requests_active", "Requests that are answered now.", self.active),
            ("relax_sequences_running", "Sequences that the model computes.", stats.running),
            ("relax_sequences_waiting", "Sequences that wait for a place.", stats.waiting),
            ("relax_cache_free_tokens", "Tokens for which the cache has pages.", stats.free_tokens),
            ("relax_cache_total_tokens", "Tokens that the cache holds at most.", stats.total_tokens),
        ):
            lines += [*_head(name, description, "gauge"), f"{name} {_number(value)}"]
        for name, description, value in (
            ("relax_engine_steps_total", "Steps of the model.", stats.steps),
            ("relax_engine_step_seconds_total", "Time of the steps of the model.", stats.step_seconds),
            ("relax_preemptions_total", "Sequences that gave their pages to others.", stats.preemptions),
            ("relax_drafted_tokens_total", "Tokens that a drafter proposed.", stats.drafted_tokens),
            ("relax_accepted_tokens_total", "Proposed tokens that were chosen.", stats.accepted_tokens),
        ):
            lines += [*_head(name, description, "counter"), f"{name} {_number(value)}"]
        return "\n".join(lines) + "\n"


def _head(name: str, description: str, kind: str) -> Iterable[str]:
    yield f"# HELP {name} {description}"
    yield f"# TYPE {name} {kind}"


def _labels(values: Mapping[str, str]) -> str:
    """Return labels in braces, with backslashes, quotes and line breaks escaped."""
    escaped = {ord("\\"): r"\\", ord('"'): r"\"", ord("\n"): r"\n"}
    text = ",".join(f'{name}="{value.translate(escaped)}"' for name, value in values.items())
    return f"{{{text}}}" if text else ""


def _number(value: float) -> str:
    if value == math.inf:
        return "+Inf"
    return str(int(value)) if value == int(value) else repr(float(value))


__all__ = ["CONTENT_TYPE", "Metrics"]
