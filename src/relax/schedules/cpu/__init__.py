"""Schedule rules for CPUs, one module per kind of loop nest."""

from __future__ import annotations

from typing import Final

from ..rule import ScheduleRule
from .attention import StreamedAttention
from .blocked import Blocked
from .by_rows import ByRows
from .byte_pixels import BytePixels
from .convolution import Convolution
from .depthwise import Depthwise
from .dot_convolutions import DotConvolution
from .dot_products import DotProduct
from .few_channels import FewChannels
from .nests import Nests
from .pointwise import Pointwise
from .pooling import Pooling
from .products import Product
from .scaled_product import ScaledProduct
from .scans import Scans
from .step_products import StepProducts
from .streamed_product import StreamedProduct
from .widened import WidenedProduct
from .winograd import Winograd
from .word_blocks import WordBlocked
from .word_columns import WordColumns
from .word_pixels import WordPixels

RULES: Final[tuple[ScheduleRule, ...]] = (
    StreamedAttention(),
    DotProduct(),
    StreamedProduct(),
    WidenedProduct(),
    ScaledProduct(),
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
    Pooling(),
    Nests(),
    Scans(),
    StepProducts(),
)
"""Rules that `relax.build` tries on every PrimFunc, in this order."""

__all__ = [
    "RULES", "Blocked", "ByRows", "BytePixels", "Convolution", "Depthwise", "DotConvolution", "DotProduct",
    "FewChannels", "Nests", "Pointwise", "Pooling", "Product", "ScaledProduct", "Scans", "StepProducts",
    "StreamedAttention", "StreamedProduct", "WidenedProduct", "Winograd", "WordBlocked", "WordColumns",
    "WordPixels",
]  # fmt: skip
