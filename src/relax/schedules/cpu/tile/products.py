"""Products of a tile: what is added to a sum for an element of the left operand and a vector of the right one.

`multiply_add` is the product of numbers; `Words.add` is that of packed groups of narrow numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from ....prim import Add, Mul, PrimExpr

Product: TypeAlias = Callable[[PrimExpr, PrimExpr, PrimExpr], PrimExpr]
"""Function (sums, element in all lanes, vector) → sums."""


def multiply_add(total: PrimExpr, element: PrimExpr, vector: PrimExpr) -> PrimExpr:
    """Return ``total + element * vector``, which is one instruction where the target fuses them."""
    return Add(total, Mul(element, vector))
