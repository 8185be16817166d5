"""sample_categorical, sample_perfect_tile, sample_partitioned_tile: sample integers with the schedule's generator.

    v = sch.sample_categorical([16, 64, 512], [0.3, 0.3, 0.4])
    a, b = sch.sample_perfect_tile(loop, n=2)             # a * b is the loop's extent
    sch.split(loop, [a, b])

Samples depend on the schedule's seed. The program does not change; the trace records the decision: the index of a
candidate, or the list of tiles. A given `decision` replaces sampling.

All valid tilings are equally likely. A decision recorded for another extent is adapted: from the innermost on, a tile
that does not divide the remaining extent becomes the remaining extent.

Rejected: no candidates, or probabilities that do not fit them; a loop with an extent that is dynamic or 0; an invalid
decision.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

from ....prim import IntImm
from ..base import ScheduleBase, query
from ..error import ARGUMENT, ScheduleError
from ..rv import ExprRV, LoopRV


@query
def sample_categorical(
    sch: ScheduleBase, candidates: Sequence[int], probs: Sequence[float], decision: int | None = None
) -> ExprRV:
    """Sample one of several integers with their probabilities; `decision` is the index to choose instead.

    Raises ScheduleError for probabilities that do not fit the candidates.
    """
    numbers = [sch.integer(value) for value in candidates]
    weights = [float(value) for value in probs]
    if not numbers or len(numbers) != len(weights):
        raise ScheduleError(
            ARGUMENT, f"there are {len(numbers)} candidates and {len(weights)} probabilities", hint="give one for each"
        )
    if any(not weight >= 0 for weight in weights) or not 0 < sum(weights) < math.inf:
        raise ScheduleError(ARGUMENT, f"probs must be 0 or more, one of them more than 0, found {weights}")
    index = sch.random.choices(range(len(numbers)), weights)[0] if decision is None else sch.integer(decision)
    if not 0 <= index < len(numbers):
        raise ScheduleError(ARGUMENT, f"the decision {index} is no index of {len(numbers)} candidates")
    sch.decision = index
    return sch.new_integer(numbers[index])


@query
def sample_perfect_tile(
    sch: ScheduleBase, loop: LoopRV, n: int, max_innermost_factor: int = 16, decision: Sequence[int] | None = None
) -> list[ExprRV]:
    """Sample `n` tile sizes whose product is the loop's extent, the innermost at most `max_innermost_factor`.

    Raises ScheduleError in the cases listed in the module's docstring.
    """
    extent = _extent(sch, loop)
    _require_count(n, max_innermost_factor)
    if decision is not None:
        tiles = _adapted(sch, extent, n, decision)
    else:
        primes = _prime_factors(extent)
        # The innermost tile in proportion to the number of ways to tile the rest, then the rest.
        inner = [d for d in _divisors(primes) if d <= max_innermost_factor] if n > 1 else [extent]
        weights = [_ways(_prime_factors(extent // d), n - 1) for d in inner]
        last = sch.random.choices(inner, weights)[0]
        tiles = [*_uniform_tiles(sch, _prime_factors(extent // last), n - 1), last]
    sch.decision = tiles
    return [sch.new_integer(tile) for tile in tiles]


@query
def sample_partitioned_tile(
    sch: ScheduleBase,
    loop: LoopRV,
    n: int,
    partition_pos: int = 0,
    innerpart_factor: int = 1,
    decision: Sequence[int] | None = None,
) -> list[ExprRV]:
    """Sample `n` tile sizes; the product of those from `partition_pos` on is a multiple of `innerpart_factor`.

    Raises ScheduleError in the cases listed in the module's docstring.
    """
    extent = _extent(sch, loop)
    _require_count(n, innerpart_factor)
    if not 0 <= partition_pos < n:
        raise ScheduleError(ARGUMENT, f"partition_pos must be from 0 to {n - 1}, found {partition_pos}")
    if extent % innerpart_factor:
        raise ScheduleError(
            ARGUMENT, f"innerpart_factor {innerpart_factor} does not divide the extent {extent}", sch.state.loop(loop)
        )
    if decision is not None:
        tiles = _adapted(sch, extent, n, decision)
        if math.prod(tiles[partition_pos:]) % innerpart_factor:
            raise ScheduleError(ARGUMENT, f"the inner tiles of {tiles} are no multiple of {innerpart_factor}")
    else:
        outer, inner = 1, innerpart_factor
        for prime, count in _prime_factors(extent // innerpart_factor).items():
            counts = range(count + 1)
            needed = _prime_factors(innerpart_factor).get(prime, 0)
            weights = [_spread(count - k, partition_pos) * _spread(k + needed, n - partition_pos) for k in counts]
            here = sch.random.choices(counts, weights)[0]
            outer, inner = outer * prime ** (count - here), inner * prime**here
        tiles = _uniform_tiles(sch, _prime_factors(outer), partition_pos)
        tiles += _uniform_tiles(sch, _prime_factors(inner), n - partition_pos)
    sch.decision = tiles
    return [sch.new_integer(tile) for tile in tiles]


# ------------------------------------------------------------------------------------------ arguments


def _extent(sch: ScheduleBase, loop: LoopRV) -> int:
    node = sch.state.loop(loop)
    if not isinstance(node.extent, IntImm) or node.extent.value < 1:
        raise ScheduleError(
            ARGUMENT,
            f"loop {node.loop_var.name} has {node.extent} iterations, which cannot be tiled without remainder",
            node,
            hint="split it by factors of your own, one of them None",
        )
    return node.extent.value


def _require_count(n: int, limit: int) -> None:
    if n < 1 or limit < 1:
        raise ScheduleError(ARGUMENT, f"the number of tiles and their limit must be 1 or more, found {n} and {limit}")


def _adapted(sch: ScheduleBase, extent: int, n: int, decision: Any) -> list[int]:
    """Return the tiles of a decision, adapted to an extent."""
    values = cast("list[Any]", decision) if isinstance(decision, (list, tuple)) else []
    if len(values) != n:
        raise ScheduleError(ARGUMENT, f"the decision must be a list of {n} tiles, found {decision!r}")
    tiles: list[int] = []
    for value in reversed(values[1:]):
        tile = sch.integer(value)
        tile = tile if tile >= 1 and extent % tile == 0 else extent
        tiles.insert(0, tile)
        extent //= tile
    return [extent, *tiles]


# ------------------------------------------------------------------------------------------ arithmetic


def _prime_factors(number: int) -> dict[int, int]:
    """Return the prime factors of a number, with multiplicities."""
    factors: dict[int, int] = {}
    prime = 2
    while prime * prime <= number:
        while number % prime == 0:
            factors[prime] = factors.get(prime, 0) + 1
            number //= prime
        prime += 1
    if number > 1:
        factors[number] = factors.get(number, 0) + 1
    return factors


def _divisors(primes: dict[int, int]) -> list[int]:
    """Return all divisors of the number with the given prime factors, ascending."""
    result = [1]
    for prime, count in primes.items():
        result = [divisor * prime**k for divisor in result for k in range(count + 1)]
    return sorted(result)


def _spread(count: int, bins: int) -> int:
    """Count the ways to distribute `count` equal items to `bins` positions."""
    return math.comb(count + bins - 1, bins - 1) if bins else int(count == 0)


def _ways(primes: dict[int, int], n: int) -> int:
    """Count the ways to write the number with the given prime factors as an ordered product of `n` factors."""
    return math.prod(_spread(count, n) for count in primes.values()) if n else int(not primes)


def _uniform_tiles(sch: ScheduleBase, primes: dict[int, int], n: int) -> list[int]:
    """Sample an ordered product of `n` factors uniformly."""
    tiles = [1] * n
    for prime, count in primes.items():
        bars = sorted(sch.random.sample(range(count + n - 1), n - 1))
        for position, (low, high) in enumerate(zip([-1, *bars], [*bars, count + n - 1], strict=True)):
            tiles[position] *= prime ** (high - low - 1)
    return tiles
