"""Drafting: tokens proposed ahead, which a model checks in one step instead of computing them one by one.

The model computes logits behind each proposed token, and the answer's own sampler chooses from them as always. A
proposal is taken while it is what the sampler chose: texts, and their distribution, are those of the model alone.
`relax.llm.engine.drafters` has the drafters.

Source: Leviathan et al., Fast Inference from Transformers via Speculative Decoding, 2023.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Final, Protocol, final

from .writing import Writer

FIRST: Final = 3
"""Tokens of the first proposal: steps of up to four rows take hardly longer than those of one."""
LONGEST_PAUSE: Final = 64
"""Steps without proposals, at most, behind proposals of which none was taken."""


class Drafter(Protocol):
    """Proposer of tokens for several requests, each known by its number."""

    def check(self, model: Any) -> None:
        """Raise ValueError if the drafter cannot propose tokens to a model, a `LanguageModel`."""
        ...

    def start(self, request: int, prompt: Sequence[int]) -> None:
        """Begin a request. Raises ValueError for a number in use."""
        ...

    def propose(self, batch: Sequence[tuple[int, Sequence[int]]]) -> list[list[int]]:
        """Return tokens that may follow the histories of requests, prompts included; none where there is no guess.

        A history begins as it did at the last call. Raises ValueError for a request that was not started.
        """
        ...

    def accepted(self, request: int, proposed: int, accepted: int) -> None:
        """Tell how many of the tokens that were proposed last became part of the answer."""
        ...

    def stop(self, request: int) -> None:
        """Forget a request. One that was not started is ignored."""
        ...


@final
class Pace:
    """Number of tokens to propose: more while they are taken, none for a while after they were not.

    `most` is the largest number. From the second proposal in a row without an accepted token on, a pause follows, each
    twice as long as the last one, up to `LONGEST_PAUSE` steps.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._count, self._pause, self._misses = min(most, FIRST), 0, 0

    def next(self) -> int:
        """Return the number of tokens to propose in this step."""
        if self._pause:
            self._pause -= 1
            return 0
        return self._count

    def rest(self) -> None:
        """Propose nothing for as long as a pause may last."""
        self._pause = LONGEST_PAUSE

    def accepted(self, proposed: int, accepted: int) -> None:
        """Adapt to a proposal of which the model took the first tokens."""
        if not proposed:
            return
        self._misses = 0 if accepted else self._misses + 1
        if self._misses > 1:
            self._pause = min(1 << self._misses, LONGEST_PAUSE)
        self._count = min(2 * self._count, self.most) if accepted == proposed else max(accepted + 1, 1)


_numbers: Final = itertools.count(1)


@final
class Drafting:
    """Request of a single answer to a drafter, with a number that no engine has."""

    def __init__(self, drafter: Drafter, prompt: Sequence[int]) -> None:
        self._drafter, self._number = drafter, -next(_numbers)
        drafter.start(self._number, prompt)

    def proposed(self, writer: Writer) -> list[int]:
        """Return tokens that may follow, as many as the answer has room for."""
        most = writer.room - 1
        return self._drafter.propose([(self._number, writer.tokens)])[0][:most] if most > 0 else []

    def accepted(self, proposed: int, accepted: int) -> None:
        """Tell how many of the tokens that were proposed last became part of the answer."""
        if proposed:
            self._drafter.accepted(self._number, proposed, accepted)

    def close(self) -> None:
        """End the request."""
        self._drafter.stop(self._number)


__all__ = ["FIRST", "LONGEST_PAUSE", "Drafter", "Drafting", "Pace"]
