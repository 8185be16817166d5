"""Spaces of parameters: the numbers that a schedule rule may choose, for tuning to search.

    rule = Product()
    for parameters in rule.space(target):              every point; the first one is what the rule chooses by itself
        scheduled = rule.at(parameters).apply(func, target, False)

Each point gives the same results; only the time differs.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

P = TypeVar("P")


class Space(Generic[P]):
    """A finite set of parameters: all combinations of the fields' choices that are valid.

    The first choice of each field is the default.
    """

    def __init__(
        self, kind: Callable[..., P], choices: Mapping[str, Sequence[Any]], is_valid: Callable[[P], bool] | None = None
    ) -> None:
        self._kind, self._choices, self._is_valid = kind, choices, is_valid

    @property
    def default(self) -> P:
        """The parameters that the rule chooses by itself."""
        return self._kind(**{name: values[0] for name, values in self._choices.items()})

    def __iter__(self) -> Iterator[P]:
        for values in itertools.product(*self._choices.values()):
            point = self._kind(**dict(zip(self._choices, values, strict=True)))
            if self._is_valid is None or self._is_valid(point):
                yield point

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def sample(self, count: int, generator: random.Random) -> list[P]:
        """Return `count` different points, or all if there are fewer, in an order that the generator draws."""
        points = list(self)
        return generator.sample(points, min(count, len(points)))


def single_point() -> Space[None]:
    """Return the space of a rule without parameters."""
    return Space(lambda: None, {})
