"""Counts of a server for Prometheus: `Metrics`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Final, final

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from ..engine.engine import EngineStats
from ..engine.requests import Usage

_SECONDS: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
_TOKEN_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)


@final
class Metrics:
    """Counts of requests, answers and tokens since the start of a server, in a registry of its own."""

    def __init__(self, stats: Callable[[], EngineStats]) -> None:
        """Make the counts of a server; `stats` returns those of its engine."""
        self.active = 0
        """Requests that are answered now."""
        self._stats = stats
        self._registry = registry = CollectorRegistry()
        self._requests = Counter(
            "relax_http_requests", "Requests by path and status.", ("path", "status"), registry=registry
        )
        self._answers = Counter("relax_answers", "Answers by the reason of their end.", ("finish",), registry=registry)
        self._tokens = Counter(
            "relax_tokens", "Tokens of prompts, of those in the cache, and new ones.", ("kind",), registry=registry
        )
        self._first = Histogram(
            "relax_first_token_seconds", "Time from a request to its first token.", buckets=_SECONDS, registry=registry
        )
        self._total = Histogram(
            "relax_answer_seconds", "Time from a request to the end of its answer.", buckets=_SECONDS, registry=registry
        )
        self._each = Histogram(
            "relax_token_seconds", "Mean time between tokens of an answer.", buckets=_TOKEN_SECONDS, registry=registry
        )
        registry.register(self)

    def responded(self, path: str, status: int) -> None:
        """Count a response."""
        self._requests.labels(path, str(status)).inc()

    def ended(self, finish: str, usage: Usage) -> None:
        """Count an answer."""
        self._answers.labels(finish).inc()
        self._tokens.labels("prompt").inc(usage.prompt_tokens)
        self._tokens.labels("cached").inc(usage.cached_tokens)
        self._tokens.labels("new").inc(usage.new_tokens)
        if not math.isnan(usage.first_token):
            self._first.observe(usage.first_token)
        if not math.isnan(usage.finished):
            self._total.observe(usage.finished)
            if usage.new_tokens > 1:
                self._each.observe((usage.finished - usage.first_token) / (usage.new_tokens - 1))

    def collect(self) -> Iterator[Metric]:
        """Yield the state of the server and its engine, which the registry asks for."""
        stats = self._stats()
        for name, description, value in (
            ("relax_requests_active", "Requests that are answered now.", self.active),
            ("relax_sequences_running", "Sequences that the model computes.", stats.running),
            ("relax_sequences_waiting", "Sequences that wait for a place.", stats.waiting),
            ("relax_cache_free_tokens", "Tokens for which the cache has pages.", stats.free_tokens),
            ("relax_cache_total_tokens", "Tokens that the cache holds at most.", stats.total_tokens),
        ):
            yield GaugeMetricFamily(name, description, value)
        for name, description, value in (
            ("relax_engine_steps", "Steps of the model.", stats.steps),
            ("relax_engine_step_seconds", "Time of the steps of the model.", stats.step_seconds),
            ("relax_preemptions", "Sequences that gave their pages to others.", stats.preemptions),
            ("relax_drafted_tokens", "Tokens that a drafter proposed.", stats.drafted_tokens),
            ("relax_accepted_tokens", "Proposed tokens that were chosen.", stats.accepted_tokens),
        ):
            yield CounterMetricFamily(name, description, value)

    def text(self) -> bytes:
        """Return all counts in Prometheus's text format."""
        return generate_latest(self._registry)


__all__ = ["CONTENT_TYPE_LATEST", "Metrics"]
