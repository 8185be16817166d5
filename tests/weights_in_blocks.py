"""Rows of weights in block formats, of random blocks."""

from __future__ import annotations

from typing import Any

import numpy as np

from relax.topi.block_formats import FORMATS, BlockFormat, block_format

GROUPED = ("int4_g32", "int4_g64_zero", "int8_g32_float16", "int8_g32_zero")
NAMES = (*FORMATS, *GROUPED)


def format_named(name: str) -> BlockFormat:
    """The format of a name that there is."""
    held = block_format(name)
    assert held is not None
    return held


def rows(name: str, shape: tuple[int, ...], blocks: int, seed: int = 0, scales: tuple[float, ...] = (0.5, 1, 2)) -> Any:
    """Rows (…, bytes) of random integers, with some scales and minima, so that sums of few are exact."""
    held, rng = format_named(name), np.random.default_rng(seed)
    data = rng.integers(0, 256, (*shape, blocks * held.bytes), "uint8")
    split = data.reshape(*shape, blocks, held.bytes)
    for factor in (held.scale, held.minimum):
        if factor is None:
            continue
        if factor.dtype == "half_e8m0":
            split[..., factor.place] = rng.integers(127, 130, (*shape, blocks), "uint8")
            continue
        floats = rng.choice(np.array(scales, factor.dtype), (*shape, blocks, 1))
        split[..., factor.place : factor.place + factor.bytes] = floats.view(np.uint8)
    return data
