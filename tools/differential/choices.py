"""Where the generator's choices come from: hypothesis, which shrinks what it chose, or a seed, which is faster."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from hypothesis import strategies as st

T = TypeVar("T")


class Choices(Protocol):
    """A source of choices. The first of several, the lowest number and False are the simplest."""

    def pick(self, items: Sequence[T]) -> T: ...

    def integer(self, low: int, high: int) -> int: ...

    def chance(self, percent: int) -> bool: ...


class Drawn:
    """Choices that hypothesis makes."""

    def __init__(self, draw: Callable[[Any], Any]) -> None:
        self.draw = draw

    def pick(self, items: Sequence[T]) -> T:
        return items[self.integer(0, len(items) - 1)]

    def integer(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def chance(self, percent: int) -> bool:
        return self.integer(0, 99) >= 100 - percent


class Seeded:
    """Choices that follow from a number."""

    def __init__(self, seed: int | str) -> None:
        self.random = random.Random(seed)

    def pick(self, items: Sequence[T]) -> T:
        return items[self.random.randrange(len(items))]

    def integer(self, low: int, high: int) -> int:
        return self.random.randint(low, high)

    def chance(self, percent: int) -> bool:
        return self.random.randrange(100) < percent
