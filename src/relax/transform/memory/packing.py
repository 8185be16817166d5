"""Packing: which of two tensors that are alive at once lies below the other, chosen so that the arena stays small.

The choice is an order of all tensors: each lies on top of those before it that it meets. Any order is right, for any
sizes. Orders are tried by packing the tensors, by sizes at a sample of shapes, into the lowest gaps that take them; the
order that is best at all samples wins.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import numpy as np

from ...runtime.records import dataclass

Sizes = Sequence[float]
"""The size of each tensor, at one sample."""

GOOD: Final = 1.02
"""Ratio of arena size to lower bound below which the search stops."""
ROUNDS: Final = 200
WORK: Final = 40_000
"""Limits on the random search: number of orders, and of tensors placed in total."""


@dataclass(frozen=True)
class Lives:
    """Lifetimes of tensors, numbered in order of allocation, and which overlap."""

    meets: Sequence[Sequence[int]]
    """The tensors that are alive at some time when another one is."""
    at_birth: Sequence[Sequence[int]]
    """The tensors alive when one is born, itself included."""
    lengths: Sequence[int]
    """The life of each, in bindings."""

    def lower_bound(self, sizes: Any) -> Any:
        """The bytes of the largest set of tensors that are alive at once, at each sample."""
        return np.max([sizes[list(live)].sum(axis=0) for live in self.at_birth], axis=0)


def best_order(lives: Lives, sizes: Any, rounds: int = ROUNDS) -> list[int]:
    """An order of the tensors, from the bottom up, whose arena is small at all samples.

    `sizes` has a row for each tensor, and a column for each sample. At most `rounds` orders are drawn at random; if
    none, orders by rules of thumb are tried at a single sample only.
    """
    samples: list[Sizes] = sizes.T.tolist()
    search = _Search(lives, sizes)
    for sample in samples if rounds else samples[:1]:
        for key in _keys(lives, sample):
            if search.ratio > GOOD:
                search.consider(packed_order(lives, sample, sorted(range(len(sample)), key=key)))
    chance = random.Random(0)
    rounds = min(rounds, WORK // (len(lives.meets) + 1))
    for _ in range(rounds):
        if search.ratio > GOOD:
            sample, share = samples[search.worst], chance.uniform(0, 1)
            pairs = zip(sample, lives.lengths, strict=True)
            weights = [size * length**share * chance.uniform(0.5, 1.5) for size, length in pairs]
            search.consider(packed_order(lives, sample, sorted(range(len(sample)), key=lambda i: -weights[i])))
    for _ in range(4 * rounds):
        if search.ratio > GOOD:
            search.consider(_moved(search.order, chance.choice(search.chain), chance))
    return search.order


def _moved(order: Sequence[int], item: int, chance: random.Random) -> list[int]:
    """An order with one tensor elsewhere."""
    rest = [i for i in order if i != item]
    rest.insert(chance.randrange(len(order)), item)
    return rest


class _Search:
    """The best order so far; `ratio` is its arena divided by what is needed, at the `worst` sample."""

    def __init__(self, lives: Lives, sizes: Any) -> None:
        self.sizes = sizes
        self.meets = [np.array(met, "int64") for met in lives.meets]
        self.bounds = np.maximum(lives.lower_bound(sizes), 1)
        self.order: list[int] = []
        self.ratio = math.inf
        self.worst = 0
        self.chain: list[int] = []
        """The tensors that lie on top of each other up to the top, at the worst sample."""
        self.consider(list(range(len(lives.meets))))

    def consider(self, order: list[int]) -> None:
        """Adopt an order if it is not worse."""
        tops = np.zeros_like(self.sizes)
        for i in order:
            met = self.meets[i]
            tops[i] = (tops[met].max(axis=0) if len(met) else 0) + self.sizes[i]
        ratios = tops.max(axis=0) / self.bounds
        worst = int(ratios.argmax())
        if ratios[worst] <= self.ratio:
            self.order, self.ratio, self.worst = order, float(ratios[worst]), worst
            self.chain = self._chain(order, tops[:, worst], self.sizes[:, worst])

    def _chain(self, order: Sequence[int], tops: Any, sizes: Any) -> list[int]:
        """The tensors from the top down. Each comes before the last in the order: some may have no bytes.

        Heights are sums of floats, which are rounded from 2^53 on: the highest one below is found, not the exact sum.
        """
        rank = {item: position for position, item in enumerate(order)}
        chain = [int(tops.argmax())]
        while tops[top := chain[-1]] > sizes[top]:
            before = [j for j in self.meets[top].tolist() if rank[j] < rank[top]]
            chain.append(max(before, key=lambda j: float(tops[j])))
        return chain


def below(lives: Lives, order: Sequence[int]) -> list[list[int]]:
    """For each tensor, those it lies directly on: it meets them, and they come before it in `order`.

    Left out are those on which another one of them lies, which therefore begins no lower than they end.
    """
    rank = {item: position for position, item in enumerate(order)}
    lower: dict[int, set[int]] = {}
    """Ranks of the tensors below each tensor, by rank."""
    direct: list[list[int]] = [[] for _ in order]
    for position, i in enumerate(order):
        ranks = [rank[j] for j in lives.meets[i]]
        lower[position] = uncovered = {at for at in ranks if at < position}
        while uncovered:
            highest = max(uncovered)
            direct[i].append(order[highest])
            uncovered = uncovered - lower[highest]
            uncovered.discard(highest)
    return direct


def packed_order(lives: Lives, sizes: Sizes, priority: Iterable[int]) -> list[int]:
    """The order by offset, after each tensor, by priority, has been put into the lowest gap that takes it."""
    offsets: dict[int, float] = {}
    for i in priority:
        taken = sorted([(offsets[j], sizes[j]) for j in lives.meets[i] if j in offsets])
        offset = 0.0
        for start, size in taken:
            if start - offset >= sizes[i] and sizes[i]:
                break
            offset = max(offset, start + size)
        offsets[i] = offset
    return sorted(offsets, key=lambda i: (offsets[i], i))


def _keys(lives: Lives, sizes: Sizes) -> list[Callable[[int], tuple[float, float]]]:
    """Priorities: the largest first, those of most space times time, those that live longest, in order of birth."""
    return [
        lambda i: (-sizes[i], -lives.lengths[i]),
        lambda i: (-sizes[i] * lives.lengths[i], i),
        lambda i: (-lives.lengths[i], -sizes[i]),
        lambda i: (i, 0),
    ]
