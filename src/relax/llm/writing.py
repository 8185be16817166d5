"""Writing of an answer: tokens chosen from logits, and the text that they complete.

writer = Writer(tokenizer, prompt, sampler)
written = writer.take(logits)             of shape (1, vocabulary), behind the prompt
written = writer.take(logits, drafts)     of shape (1 + drafts, vocabulary), behind the last token and each draft
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, TypeAlias, final

from numpy.typing import NDArray

from .constraints import Constraint
from .sampling import Choice, Sampler, scored
from .stops import StopStream
from .tokenizer import Tokenizer

Array: TypeAlias = "NDArray[Any]"


class Written(NamedTuple):
    """Next part of an answer."""

    text: str
    """Text that belongs to the answer for certain."""
    choices: tuple[Choice, ...]
    """Tokens that were chosen; one that ends a turn is left out."""
    accepted: int
    """Drafts that were chosen."""
    finish: Literal["stop", "length"] | None
    """Reason for the end: a token that ends a turn, a stop text or a complete constraint; or the limit of tokens."""


@final
class Writer:
    """Answer as it is written: up to a token that ends a turn, a stop text, or `most` tokens.

    The caller stops at `room` 0, or after a part with `finish`.
    """

    def __init__(
        self, tokenizer: Tokenizer, prompt: Sequence[int], sampler: Sampler, *, most: float = math.inf,
        constraint: Constraint | None = None, stop: Sequence[str] = (), ignore_end: bool = False,
    ) -> None:  # fmt: skip
        self.tokens = [*prompt]
        """The prompt, and the tokens chosen."""
        self.new = 0
        """Number of tokens chosen, one that ends a turn included."""
        self._sampler, self._constraint = sampler, constraint
        self._most = 0 if constraint is not None and constraint.is_finished else most
        self._ends = frozenset[int]() if ignore_end else tokenizer.eot
        self._size = tokenizer.vocabulary_size
        self._text = tokenizer.decode_stream(prompt, keeps_blank=constraint is not None)
        self._stops = StopStream(stop)

    @property
    def room(self) -> int:
        """Tokens that may follow, at most."""
        return int(min(self._most - self.new, 1 << 30))

    def take(self, logits: Array, drafts: Sequence[int] = ()) -> Written:
        """Choose the next tokens from logits (1 + drafts, vocabulary): behind the last token, and each of the drafts.

        A draft counts if it is the token that is chosen there, so that the text is the same as without drafts. Raises
        ValueError as samplers and constraints do.
        """
        choices: list[Choice] = []
        text, finish, accepted = "", None, 0
        for index in range(len(drafts) + 1):
            try:
                choice = self._choice(logits[index])
            except Exception:
                if not index:
                    raise
                accepted -= 1  # what was chosen is returned; behind the same token, the next call raises again
                break
            finish, piece = self._extend(choice, choices)
            text += piece
            if finish or index == len(drafts) or choice.token != drafts[index]:
                break
            accepted += 1
        return Written(text + self.rest() if finish else text, tuple(choices), accepted, finish)

    def scored(self, logits: Array, token: int, most: int) -> Choice:
        """Return a token with its log-probability under logits (vocabulary,), and the `most` likeliest tokens."""
        return scored(logits[: self._size], token, most)

    def _choice(self, logits: Array) -> Choice:
        """Choose a token; rows beyond those of the tokenizer fill up the matrix, and stand for no text."""
        allowed = None if self._constraint is None else self._constraint.mask()
        return self._sampler.choose(logits[: self._size], self.tokens, allowed)

    def _extend(self, choice: Choice, choices: list[Choice]) -> tuple[Literal["stop", "length"] | None, str]:
        """Append a token; return the reason to end behind it, and the text that it completes."""
        self.new += 1
        self.tokens.append(choice.token)
        if choice.token in self._ends:
            return "stop", ""
        choices.append(choice)
        text = self._stops.step(self._text.step(choice.token))
        if self._stops.stopped:
            return "stop", text
        if self._constraint is not None:
            self._constraint.accept(choice.token)
            if self._constraint.is_finished:
                return "stop", text
        return ("length" if self.new >= self._most else None), text

    def rest(self) -> str:
        """Return the text that is withheld, at the end of the answer."""
        if self._stops.stopped or not self.new:
            return ""
        return self._stops.step(self._text.finish()) + self._stops.finish()


__all__ = ["Writer", "Written"]
