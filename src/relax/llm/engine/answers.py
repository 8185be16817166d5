"""Answer under way: the tokens of a request, how many of them the cache has, and the work so far."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any, TypeAlias, final

from numpy.typing import NDArray

from ..sampling import Choice
from ..writing import Writer
from .generation import Mailbox
from .requests import Event, Request, Usage

Array: TypeAlias = "NDArray[Any]"


@final
class Answer:
    """Request and its answer, as the engine's thread has them."""

    def __init__(self, request: Request, writer: Writer, mailbox: Mailbox) -> None:
        self.number = 0
        self.request, self.mailbox, self.writer = request, mailbox, writer
        self.prompt = len(writer.tokens)
        """Tokens of the prompt."""
        self.sequence: int | None = None
        """Number of the runner's sequence; None while the request waits."""
        self.computed = 0
        """Tokens that the runner's sequence has."""
        self.drafts: list[int] = []
        """Tokens proposed to follow, which the next step verifies."""
        self.scored: list[Choice] = []
        """The first tokens of the prompt with log-probabilities, if the request has them."""
        if request.prompt_logprobs is not None:
            self.scored.append(Choice(writer.tokens[0], math.nan, ()))
        self.added = time.monotonic()
        self.is_over = False
        self._cached = self._drafted = self._accepted = 0
        self._started = self._first = self._finished = math.nan

    @property
    def tokens(self) -> list[int]:
        """The prompt, and the tokens chosen."""
        return self.writer.tokens

    @property
    def remaining(self) -> int:
        """Tokens that are not in the cache; the logits behind the last of them choose the next token."""
        return len(self.tokens) - self.computed

    @property
    def is_scored(self) -> bool:
        """True while tokens of the prompt lack their log-probabilities."""
        return 0 < len(self.scored) < self.prompt

    @property
    def was_started(self) -> bool:
        """True once the request has had a sequence."""
        return not math.isnan(self._started)

    def start(self, sequence: int, shared: int) -> None:
        """Take a sequence of the runner, which has some of the tokens already."""
        self.sequence, self.computed = sequence, shared
        if not self.was_started:
            self._cached, self._started = shared, time.monotonic() - self.added

    def score(self, first: int, logits: Array) -> None:
        """Note log-probabilities of the prompt from logits (tokens, vocabulary) behind tokens `first` and following."""
        for at, row in enumerate(logits, first + 1):
            if len(self.scored) == at < self.prompt:
                assert self.request.prompt_logprobs is not None
                self.scored.append(self.writer.scored(row, self.tokens[at], self.request.prompt_logprobs))

    def take(self, logits: Array) -> Event:
        """Choose the next tokens from logits (1 + drafts, vocabulary). Raises as `Writer.take` does."""
        if not self.writer.room:  # nothing but the prompt's log-probabilities is asked for
            return Event("", (), "length", prompt=tuple(self.scored))
        drafts, self.drafts = self.drafts, []
        written = self.writer.take(logits, drafts)
        self.computed += written.accepted
        self._drafted += len(drafts)
        self._accepted += written.accepted
        prompt: tuple[Choice, ...] = ()
        if math.isnan(self._first):
            self._first, prompt = time.monotonic() - self.added, tuple(self.scored)
        return Event(written.text, written.choices, written.finish, prompt=prompt)

    def end(self, event: Event) -> None:
        """Send the last event, unless one was sent."""
        if not self.is_over:
            self.is_over = True
            self._finished = time.monotonic() - self.added
            self.send(event)

    def send(self, event: Event) -> None:
        """Send an event to the reader of the answer."""
        self.mailbox.put(event, self.usage())

    def usage(self) -> Usage:
        """Return the work so far."""
        return Usage(
            self.prompt, self._cached, self.writer.new, self._drafted, self._accepted, self._started, self._first,
            self._finished,
        )  # fmt: skip


def shared_length(one: Sequence[int], other: Sequence[int]) -> int:
    """Return the number of tokens with which both begin."""
    least = min(len(one), len(other))
    at = 0
    while at < least and one[at : at + 64] == other[at : at + 64]:  # comparing slices of lists is quick
        at += 64
    while at < least and one[at] == other[at]:
        at += 1
    return min(at, least)


__all__ = ["Answer", "shared_length"]
