"""Rules for processors: a file for each kind of loop nest."""

from __future__ import annotations

from typing import Final

from ..rule import ScheduleRule
from .convolution import Convolution
from .nests import Nests
from .product import Product
from .streamed_product import StreamedProduct

RULES: Final[tuple[ScheduleRule, ...]] = (StreamedProduct(), Product(), Convolution(), Nests())
"""The rules that `relax.build` tries on every PrimFunc, in this order."""

__all__ = ["RULES", "Convolution", "Nests", "Product", "StreamedProduct"]
