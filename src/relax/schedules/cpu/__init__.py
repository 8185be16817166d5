"""Schedule rules for CPUs, one module per kind of loop nest."""

from __future__ import annotations

from typing import Final

from ...target import Target
from ..rule import ScheduleRule
from .attention.attention import StreamedAttention
from .attention.paged import PagedAttention
from .convolutions.blocked import Blocked
from .convolutions.byte_pixels import BytePixels
from .convolutions.chains.by_rows import ByRows
from .convolutions.depthwise import Depthwise
from .convolutions.direct import Convolution
from .convolutions.dot_blocked import WordBlocked
from .convolutions.dot_columns import WordColumns
from .convolutions.dot_convolution import DotConvolution
from .convolutions.few_channels import FewChannels
from .convolutions.pointwise.dot_pointwise import WordPixels
from .convolutions.pointwise.pointwise import Pointwise
from .convolutions.pooling import Pooling
from .convolutions.winograd.winograd import Winograd
from .nests import Nests
from .products.block_product import BlockProduct
from .products.computed_product import ComputedProduct
from .products.dot_product import DotProduct
from .products.few_rows import StreamedProduct
from .products.product import Product
from .products.step_products import StepProducts
from .products.widened_product import WidenedProduct
from .rows.plain_sums import PlainSums
from .rows.scans import Scans

RULES: Final[tuple[ScheduleRule, ...]] = (
    StreamedAttention(),
    PagedAttention(),
    BlockProduct(),
    DotProduct(),
    StreamedProduct(),
    WidenedProduct(),
    Product(),
    ByRows(),
    BytePixels(),
    Depthwise(),
    WordPixels(),
    WordColumns(),
    Winograd(),
    FewChannels(),
    WordBlocked(),
    DotConvolution(),
    Pointwise(),
    Blocked(),
    Convolution(),
    ComputedProduct(),
    Pooling(),
    Nests(),
    Scans(),
    StepProducts(),
    PlainSums(),
)
"""Rules that `relax.build` tries on every PrimFunc, in this order."""

PLAIN_RULES: Final[tuple[ScheduleRule, ...]] = (PlainSums(),)
"""Rules for targets below ``-opt-level=2``, which keep other loops as written."""

SCHEDULED: Final = 2
"""Optimisation level of the target from which all rules are tried; below, those for long sums of floats."""


def rules_for(target: Target) -> tuple[ScheduleRule, ...]:
    """Rules that `relax.build` tries for a target."""
    return RULES if target.opt_level >= SCHEDULED else PLAIN_RULES


__all__ = [
    "PLAIN_RULES", "RULES", "BlockProduct", "Blocked", "ByRows", "BytePixels", "Convolution", "Depthwise",
    "DotConvolution", "DotProduct", "FewChannels", "Nests", "PagedAttention", "PlainSums", "Pointwise", "Pooling",
    "Product", "Scans", "StepProducts", "StreamedAttention", "StreamedProduct", "WidenedProduct", "Winograd",
    "WordBlocked", "WordColumns", "WordPixels", "rules_for",
]  # fmt: skip
