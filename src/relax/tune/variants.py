"""Kernels with several schedules, each for a range of one size: chosen from measurements at several sizes.

    measured    gains over the default at       n=1    n=16    n=512      ranges
                Product(tile=[1, 4])            +40 %  -10 %   -30 %      up to 4
                Product(tile=[8, 2])            -20 %  +15 %   -5 %       up to 90
                the default                       0      0       0        above

The size is the one that takes most values among the measured sizes, and bounds are geometric means of neighbours. A
further range must raise the mean gain by more than a part of the noise. Candidates of one kernel read constants in one
layout.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from ..schedules.variants import MOST, VARIANTS, variants_in
from .candidates import Candidate
from .design_spaces import Choice
from .kernels import Kernel, Sizes
from .measuring import Measurement


class Range(NamedTuple):
    """A range of neighbours among the measured values of a size, and the best candidate there."""

    begin: int
    end: int
    candidate: int


class Joined(NamedTuple):
    """A choice with variants, and the logarithm of the gain that the measurements of its parts promise."""

    choice: Choice
    gain: float


def joined_choice(
    kernel: Kernel, default: Candidate, measured: Sequence[tuple[Candidate, Measurement]], least: float
) -> Joined | None:
    """Return the best choice with variants; None if one candidate, or the default, is as good at all sizes.

    `least` is the logarithm of the gain that each further range must add. Candidates with variants are no parts.
    """
    position = _varying(kernel)
    if position is None:
        return None
    values = sorted({sizes[kernel.size_names[position]] for sizes in kernel.sizes})
    own = [(c, m) for c, m in measured if c.choice is not None and c.choice.rule != VARIANTS]
    best: Joined | None = None
    for several in _by_layout(default, own):
        gains = [_gains_by_value(kernel, position, values, m) for _, m in several]
        ranges, gain = best_ranges(gains, MOST, least)
        if len(ranges) > 1 and (best is None or gain > best.gain):
            best = Joined(_choice(kernel, position, values, [(r, several[r.candidate][0]) for r in ranges]), gain)
    return best


def _varying(kernel: Kernel) -> int | None:
    """Position of the size with most values among the measured ones; None if all have one value."""
    counts = [len({sizes[name] for sizes in kernel.sizes}) for name in kernel.size_names]
    return counts.index(max(counts)) if max(counts, default=0) > 1 else None


def _by_layout(
    default: Candidate, measured: Sequence[tuple[Candidate, Measurement]]
) -> Iterator[list[tuple[Candidate, Measurement | None]]]:
    """Yield candidates that read constants in one layout, the default (without a measurement) before others."""
    groups: dict[object, list[tuple[Candidate, Measurement | None]]] = {_layout(default): [(default, None)]}
    for candidate, measurement in measured:
        groups.setdefault(_layout(candidate), []).append((candidate, measurement))
    yield from groups.values()


def _layout(candidate: Candidate) -> object:
    return frozenset(candidate.variant.packings.items())


def _gains_by_value(
    kernel: Kernel, position: int, values: Sequence[int], measurement: Measurement | None
) -> list[float]:  # fmt: skip
    """Return what the sizes with each value add to the mean gain; 0 for the default."""
    name = kernel.size_names[position]
    parts = dict.fromkeys(values, 0.0)
    if measurement is not None:
        for sizes, gain in zip(kernel.sizes, measurement.gains, strict=True):
            parts[sizes[name]] += gain / len(kernel.sizes)
    return list(parts.values())


def best_ranges(gains: Sequence[Sequence[float]], most: int, least: float) -> tuple[list[Range], float]:
    """Divide values into up to `most` ranges with a candidate each: the largest sum, less `least` for each further one.

    `gains` has a row for each candidate and a column for each value. Returns the ranges and their sum of gains. Of
    equally good candidates the first is taken, and of equally good divisions the one with fewer ranges.
    """
    count = len(gains[0])
    lines: dict[int, tuple[float, list[Range]]] = {0: (0.0, [])}
    """Sum of gains and ranges of the best division of the first n values into `number - 1` ranges, by n."""
    result: tuple[float, list[Range], float] | None = None
    for number in range(1, min(most, count) + 1):
        longer: dict[int, tuple[float, list[Range]]] = {}
        for end in range(number, count + 1):
            for begin, (before, ranges) in lines.items():
                if begin < end:
                    sums = [sum(row[begin:end]) for row in gains]
                    total = before + max(sums)
                    if end not in longer or total > longer[end][0]:
                        longer[end] = total, [*ranges, Range(begin, end, sums.index(max(sums)))]
        total, ranges = longer[count]
        score = total - least * (number - 1)
        if result is None or score > result[0] + 1e-12:
            result = score, ranges, total
        lines = longer
    assert result is not None
    return result[1], result[2]


def bound_between(low: int, high: int) -> int:
    """Return the largest size that belongs to `low`: the geometric mean of neighbouring measured sizes."""
    return max(math.isqrt(low * high), low)


def _choice(kernel: Kernel, position: int, values: Sequence[int], ranges: Sequence[tuple[Range, Candidate]]) -> Choice:
    entries: list[dict[str, Any]] = []
    for part, candidate in ranges:
        entry = {} if candidate.choice is None else dict(candidate.choice.attribute)
        if part.end < len(values):
            entry["at_most"] = bound_between(values[part.end - 1], values[part.end])
        entries.append(entry)
    parameters = {"size": position, "name": kernel.size_names[position], "variants": entries}
    return Choice(VARIANTS, json.dumps(parameters, sort_keys=True))


def sizes_around(kernel: Kernel, choice: Choice | None) -> tuple[Sizes, ...]:
    """Return sizes on both sides of the bounds of a choice with variants, at the first and the last measured sizes."""
    if choice is None or choice.rule != VARIANTS:
        return ()
    position, variants = variants_in(choice.values)
    name = kernel.size_names[position]
    around: list[Sizes] = []
    for bound, _ in variants:
        for value in () if bound is None else (bound, bound + 1):
            around += [{**sizes, name: value} for sizes in (kernel.sizes[0], kernel.sizes[-1])]
    return tuple(sizes for i, sizes in enumerate(around) if sizes not in around[:i] and sizes not in kernel.sizes)


def parts_of(choice: Choice) -> list[Choice]:
    """Return the choices of a choice with variants, without the default; the choice itself for another one."""
    if choice.rule != VARIANTS:
        return [choice]
    try:
        _, variants = variants_in(choice.values)
    except ValueError:  # of a record that somebody else wrote
        return []
    entries = [entry for _, entry in variants if entry]
    parts = [Choice(entry["rule"], json.dumps(entry.get("parameters", {}), sort_keys=True)) for entry in entries]
    return list(dict.fromkeys(parts))
