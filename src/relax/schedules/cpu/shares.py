"""The division of work among cores: shares that are as equal as they can be.

    10 units in 4 shares    2, 3, 2, 3          a share begins at unit k * 10 // 4
    7 tasks for 2 cores     14 halves of them   one core would have 4 tasks, the other 3

The pool gives each thread neighbouring tasks, in the order of their numbers. So what is divided by pixels, or by lines,
has these as the first digits of a task's number: then a thread has the same part of the image in each kernel of a
program, and finds in its own cache what it wrote there. Memory that another core wrote lately comes slowly. Where
channels are divided too, because an image is small, their groups come first: a thread then reads its part of the
weights alone, and shares no line of the results with another one, as it would in rows of 196 pixels (14 × 14).
"""

from __future__ import annotations

from typing import Final

from ...prim import EQ, PrimExpr, Select, simplify
from ...prim.intrin import ceildiv, floordiv, floormod
from ...prim.intrin import max as maximum
from ...prim.intrin import min as minimum
from ..build import int64

FEW_PIXELS: Final = 96
"""The pixels of a share at least: of fewer, each with weights of its own to read, a share of channels is better."""
UNEVEN: Final = 4
"""The tasks for each core from which on one more for some of the cores matters little."""


def share_of(number: PrimExpr, units: PrimExpr, shares: PrimExpr) -> PrimExpr:
    """The first of some units in a share of them; the number of shares is that of the unit behind the last."""
    return floordiv(number * units, maximum(shares, int64(1)))


def parts_of_tasks(tasks: PrimExpr, cores: int) -> PrimExpr:
    """The parts that each of some tasks is to have at least, so that cores have as much to do as each other."""
    tasks = maximum(tasks, int64(1))
    several = minimum(int64(cores), ceildiv(int64(UNEVEN * cores), tasks))
    return simplify(Select(EQ(floormod(tasks, cores), int64(0)), int64(1), several))


__all__ = ["FEW_PIXELS", "UNEVEN", "parts_of_tasks", "share_of"]
