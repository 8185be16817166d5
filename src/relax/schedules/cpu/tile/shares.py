"""Division of work among cores into shares that are as equal as possible.

    10 units in 4 shares    2, 3, 2, 3          a share begins at unit k * 10 // 4
    7 tasks for 2 cores     14 half tasks       one core would have 4 tasks, the other 3

The thread pool assigns consecutive task numbers to each thread. So a division by pixels or rows uses these as the
leading digits of the task number: a thread then computes the same part of the image in each kernel of a program and
finds its own results in its cache; memory recently written by another core is slow to read. If a small image makes
dividing channels necessary too, channel groups come first: a thread then reads only its part of the weights, and shares
no cache line of the results with another thread, as it would in rows of 196 pixels (14 × 14).
"""

from __future__ import annotations

from typing import Final

from ....prim import EQ, PrimExpr, Select, simplify
from ....prim.intrin import ceildiv, floordiv, floormod
from ....prim.intrin import max as maximum
from ....prim.intrin import min as minimum
from ...build import int64

FEW_PIXELS: Final = 96
"""Fewest pixels of a share; below, dividing channels is better, as each share of pixels reads all weights."""
UNEVEN: Final = 4
"""Tasks per core from which an uneven division matters little."""


def share_of(number: PrimExpr, units: PrimExpr, shares: PrimExpr) -> PrimExpr:
    """First unit of a share; `share_of(number + 1, …)` is its end."""
    return floordiv(number * units, maximum(shares, int64(1)))


def parts_of_tasks(tasks: PrimExpr, cores: int) -> PrimExpr:
    """Number of parts into which to split each task to balance the load of the cores."""
    tasks = maximum(tasks, int64(1))
    several = minimum(int64(cores), ceildiv(int64(UNEVEN * cores), tasks))
    return simplify(Select(EQ(floormod(tasks, cores), int64(0)), int64(1), several))
