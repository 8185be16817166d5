"""Packed groups (`tile.words`) for the products of a convolution."""

from __future__ import annotations

from ....target import Target
from ...rule import Refusal
from ..tile.words import Words, words_for
from .windows import Windows


def words_of(windows: Windows, target: Target, in_tiles: bool = False, corrected: bool = True) -> Words | Refusal:
    """Return the packed groups for a convolution; `in_tiles` selects tile instructions."""
    dtypes = windows.data.dtype, windows.weight.buffer.dtype, windows.out.buffer.dtype
    words = words_for(target, *dtypes, in_tiles=in_tiles) if target.machine.vector_bits >= 128 else None
    if words is None:
        factors = " and ".join(dict.fromkeys(map(str, dtypes[:2])))
        return Refusal(f"the target has no dot products of {factors}, summed in {dtypes[2]}")
    if words.correction and not corrected:
        return Refusal("sign bits must be flipped, and results corrected")
    return words


def byte_words_of(windows: Windows, target: Target) -> Words | Refusal:
    """Return the packed groups for a convolution of bytes whose results need no correction."""
    words = words_of(windows, target, corrected=False)
    return words if not words or words.of_bytes else Refusal("the products are not of bytes")
