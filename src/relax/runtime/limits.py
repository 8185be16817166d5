"""Limits of what a program may ask for."""

from __future__ import annotations

from typing import Final

DIMENSION_LIMIT: Final = 2**48
"""Dimensions are less than this, so that sums and small multiples of them stay far inside 64 bits."""

SIZE_RANGE: Final = f"at least 0 and less than 2**{DIMENSION_LIMIT.bit_length() - 1}"
"""Range of sizes, as worded in messages."""
