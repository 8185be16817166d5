"""Weights rounded to a block format: scales and integers near the least squared error, group by group.

A group of weights w becomes scale · q, or scale · q + minimum, with integers q of few bits. Some scales are tried:
those that take the group's greatest magnitude (or its span) to the end of the integers, and up to a third beyond. For
each, q is rounded, and the scale (and minimum) of the least squared error for these q computed. Formats with steps then
store each scale as a multiple of the block's, rounded, and the integers are rounded once more.

The errors of the formats are those that docs/quantise-a-model.md lists.
"""

# NumPy's stubs leave the results of reshape, view and clip partly unknown.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..runtime.files import in_threads
from ..topi.block_formats import BlockFormat, Factor, Integers, Parts, block_format

Array: TypeAlias = "NDArray[Any]"

TRIED: Final = tuple(1 + 0.04 * i for i in range(-2, 9))
"""Factors by which integers at the ends of a group exceed those of the format in the scales that are tried."""
PIECE: Final = 1 << 20
"""Weights that are rounded at a time, so that temporary arrays stay small."""
TINY: Final = np.float32(1e-30)


def quantize_rows(weights: Array, name: str) -> Array:
    """Return float weights (..., depth) as rows of blocks (..., bytes), uint8, of the format `name`.

    Raises ValueError for an unknown format, weights that are not finite, and a depth of no whole blocks.
    """
    held = block_format(name)
    if held is None:
        raise ValueError(f"{name} is no block format")
    depth = weights.shape[-1]
    if depth % held.elements:
        raise ValueError(f"rows of {depth} numbers have no whole blocks of {held.elements}, as {name} has")
    rows = weights.reshape(-1, depth)
    result = np.empty((len(rows), depth // held.elements * held.bytes), np.uint8)
    step = max(PIECE // max(depth, 1), 1)

    def rounded(first: int) -> None:
        piece = rows[first : first + step].astype(np.float32)
        if not np.isfinite(piece).all():
            raise ValueError("the weights have numbers that are not finite")
        with np.errstate(over="ignore"):  # errors of large weights are infinite: another scale is taken, or the last
            result[first : first + step] = held.encoded(_parts(piece, held))

    in_threads(rounded, range(0, len(rows), step))
    return result.reshape(*weights.shape[:-1], result.shape[-1])


def _parts(rows: Array, held: BlockFormat) -> Parts:
    """Round float32 rows."""
    blocks = rows.reshape(len(rows), -1, held.elements)
    groups = blocks.reshape(*blocks.shape[:2], -1, held.group)
    least = None
    if held.scale.dtype == "half_e8m0":
        scales = _powers_of_two(groups, held)
    elif held.minimum is None:
        scales = _symmetric(groups, held.integers)
    else:
        scales, least = _with_minimum(groups, held)
    if held.minimum is not None and held.has_zero_point and least is not None:
        return _with_zero_points(groups, held, scales[..., 0], least[..., 0])
    scale, steps, of_groups = _in_steps(scales, held.scale)
    minimum = minimum_steps = None
    shifted = groups
    if held.minimum is not None and least is not None:
        given = -least if held.subtracts_minimum else least
        minimum, minimum_steps, of_minima = _in_steps(given, held.minimum)
        shifted = groups + of_minima[..., None] if held.subtracts_minimum else groups - of_minima[..., None]
    numbers = held.integers.nearest(_ratio(shifted, of_groups[..., None]))
    return Parts(held, numbers.reshape(blocks.shape), scale, steps, minimum, minimum_steps)


def _ratio(a: Array, b: Array) -> Array:
    """Quotients, 0 for a denominator that is almost 0."""
    small = np.abs(b) < TINY
    return np.where(small, 0, a / np.where(small, 1, b)).astype(np.float32)


def _symmetric(groups: Array, integers: Integers) -> Array:
    """Return the scale of each group, (rows, blocks, groups), for integers of both signs."""
    low, high = integers.limits
    ends = groups.max(-1), groups.min(-1)
    magnitude = np.maximum(ends[0], -ends[1])
    best = np.full(magnitude.shape, np.inf, np.float32)
    chosen = np.zeros_like(magnitude)
    # One end of the integers is farther from 0, and serves the end of the group that is.
    sign = np.where(ends[0] >= -ends[1], 1, -1).astype(np.float32)
    far = high if high >= -low else low
    for factor in TRIED:
        scale = sign * magnitude / np.float32(far * factor)
        numbers = integers.nearest(_ratio(groups, scale[..., None])).astype(np.float32)
        fitted = _ratio((groups * numbers).sum(-1), (numbers * numbers).sum(-1))
        error = np.square(groups - fitted[..., None] * numbers).sum(-1)
        better = error < best
        best, chosen = np.where(better, error, best), np.where(better, fitted, chosen)
    return chosen


def _powers_of_two(groups: Array, held: BlockFormat) -> Array:
    """Return the power of two of each group, (rows, blocks, groups), with the lesser error of two."""
    above = held.scale.rounded(np.abs(groups).max(-1) / np.float32(held.integers.limits[1]))
    candidates = [above, held.scale.rounded(above / 2)]
    errors: list[Array] = []
    for scale in candidates:
        numbers = held.integers.nearest(groups / scale[..., None])
        errors.append(np.square(groups - scale[..., None] * numbers).sum(-1))
    return np.where(errors[1] < errors[0], candidates[1], candidates[0])


def _with_minimum(groups: Array, held: BlockFormat) -> tuple[Array, Array]:
    """Return scale and minimum of each group, (rows, blocks, groups); minima that are subtracted are at most 0."""
    low, high = held.integers.limits
    least, most = groups.min(-1), groups.max(-1)
    if held.subtracts_minimum:
        least, most = np.minimum(least, 0), np.maximum(most, 0)
    if held.has_zero_point:
        return (most - least) / np.float32(high - low), least
    best = np.full(least.shape, np.inf, np.float32)
    scales, minima = np.zeros_like(least), least.copy()
    for factor in TRIED:
        scale = (most - least) / np.float32((high - low) * factor)
        numbers = held.integers.nearest(_ratio(groups - least[..., None], scale[..., None])).astype(np.float32)
        fitted, minimum = _line(groups, numbers)
        if held.subtracts_minimum:
            minimum = np.minimum(minimum, 0)
        fitted = np.where(fitted > 0, fitted, scale)
        error = np.square(groups - fitted[..., None] * numbers - minimum[..., None]).sum(-1)
        better = error < best
        best = np.where(better, error, best)
        scales, minima = np.where(better, fitted, scales), np.where(better, minimum, minima)
    return scales, minima


def _line(groups: Array, numbers: Array) -> tuple[Array, Array]:
    """Return scale and minimum of the least squared error for given integers."""
    count = np.float32(groups.shape[-1])
    sums, products = numbers.sum(-1), (numbers * groups).sum(-1)
    total = groups.sum(-1)
    scale = _ratio(count * products - sums * total, count * (numbers * numbers).sum(-1) - sums * sums)
    return scale, (total - scale * sums) / count


def _in_steps(floats: Array, factor: Factor) -> tuple[Array, Array | None, Array]:
    """Return (floats of blocks, steps of groups, the floats of groups that these make)."""
    if factor.steps is None:
        held = factor.rounded(floats[..., 0])
        return held, None, np.broadcast_to(held[..., None], floats.shape)
    low, high = factor.steps.limits
    largest = np.take_along_axis(floats, np.abs(floats).argmax(-1)[..., None], -1)[..., 0]
    # The far end of steps of both signs is the negative one.
    block = factor.rounded(largest / np.float32(low if -low > high else high))
    steps = factor.steps.nearest(_ratio(floats, block[..., None]))
    return block, steps, block[..., None] * steps.astype(np.float32)


def _with_zero_points(groups: Array, held: BlockFormat, scales: Array, least: Array) -> Parts:
    """Round groups to a scale and a zero point, which is an integer of the numbers."""
    assert held.minimum is not None
    assert held.minimum.steps is not None
    low, high = held.integers.limits
    scale = held.scale.rounded(scales)
    zeros = np.clip(np.rint(low - _ratio(least, scale)), low, high).astype(np.int32)
    numbers = held.integers.nearest(_ratio(groups[..., 0, :], scale[..., None]) + zeros[..., None])
    return Parts(held, numbers, scale, None, scale, zeros[..., None])


__all__ = ["quantize_rows"]
