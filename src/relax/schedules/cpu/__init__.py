"""Rules for processors: a file for each kind of loop nest."""

from __future__ import annotations

from typing import Final

from ..rule import ScheduleRule
from .product import Product

RULES: Final[tuple[ScheduleRule, ...]] = (Product(),)
"""The rules that `relax.build` tries on every PrimFunc, in this order."""

__all__ = ["RULES", "Product"]
