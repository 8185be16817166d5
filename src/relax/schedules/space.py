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
from typing import Any, Generic, TypeVar, cast

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

    @property
    def fields(self) -> Mapping[str, Sequence[Any]]:
        """The values that each field of the parameters may take, the default first."""
        return self._choices

    def point(self, values: Mapping[str, Any]) -> P:
        """Return the parameters with `values`, as `values_of` returns them; fields that it lacks have their default.

        Raises ValueError for a field, a value or a combination that is not of this space.
        """
        unknown = sorted(values.keys() - self._choices.keys())
        if unknown:
            raise ValueError(f"there is no parameter {unknown[0]!r} (there is: {', '.join(self._choices) or 'none'})")
        chosen: dict[str, Any] = {}
        for name, choices in self._choices.items():
            if name not in values:
                chosen[name] = choices[0]
                continue
            try:
                matching = [choice for choice in choices if _same(choice, values[name])]
            except RecursionError:
                raise ValueError(f"{name} is nested too deeply") from None
            if not matching:
                raise ValueError(f"{name} cannot be {values[name]!r}")
            chosen[name] = matching[0]
        point = self._kind(**chosen)
        if self._is_valid is not None and not self._is_valid(point):
            raise ValueError(f"the parameters {chosen!r} exclude each other")
        return point

    def values_of(self, point: P) -> dict[str, Any]:
        """Return the fields of a point that differ from the default, as JSON holds them: tuples are lists."""
        pairs = {name: getattr(point, name) for name in self._choices}
        return {name: _plain(value) for name, value in pairs.items() if not _same(value, self._choices[name][0])}

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


def _plain(value: Any) -> Any:
    """Return a value as JSON holds it."""
    return [_plain(item) for item in cast("Sequence[Any]", value)] if isinstance(value, tuple | list) else value


def _same(choice: Any, value: Any) -> bool:
    """True for equal values; True is not 1, but a tuple is equal to a list."""
    first, second = _plain(choice), _plain(value)
    if isinstance(first, list) and isinstance(second, list):
        ours, theirs = cast("list[Any]", first), cast("list[Any]", second)
        return len(ours) == len(theirs) and all(_same(a, b) for a, b in zip(ours, theirs, strict=True))
    return type(cast(Any, first)) is type(second) and first == second


def single_point() -> Space[None]:
    """Return the space of a rule without parameters."""
    return Space(lambda: None, {})
