"""Arguments for random PrimFuncs: arrays and scalars, with extremes among small numbers."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass
from typing import Any

import ml_dtypes as ml_dtypes  # gives NumPy the narrow floats by name
import numpy as np

from .rounding import FORMATS, nearest
from .tir_numbers import INTEGERS, limits

NUMBERS = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 3.0, -7.0, 100.0, 1e9, 3e18, 2.0**63, 2.0**31, -(2.0**31), 0.1, 1e-3, 1e-40]


@dataclass
class Buffer:
    name: str
    dtype: str
    shape: tuple[str, ...]


def arguments(buffers: list[Buffer], scalars: list[tuple[str, str]], n: int, m: int, data: random.Random) -> list[Any]:
    """Arrays and scalars, with extremes among small numbers."""
    found: list[Any] = []
    for buffer in buffers:
        shape = [_evaluated(dim, n, m) for dim in buffer.shape]
        calm = data.random() < 0.5
        count = int(np.prod(shape))
        values = [element(buffer.dtype, data, calm) for _ in itertools.repeat(None, count)]
        found.append(np.array(values, buffer.dtype).reshape(shape))
    for _, dtype in scalars:
        value = element(dtype, data, False)
        found.append(min(value, 2**63 - 1) if dtype in INTEGERS else value)
    return found


def _evaluated(dim: str, n: int, m: int) -> int:
    return eval(dim, {"n": n, "m": m})


def element(dtype: str, data: random.Random, calm: bool) -> Any:
    """A number of a dtype; calm ones are small."""
    if dtype == "bool":
        return data.random() < 0.5
    if dtype in FORMATS:
        if calm or data.random() < 0.5:
            return nearest(float(data.randint(-4, 5)), dtype)
        if data.random() < 0.2:
            return nearest(data.choice([np.nan, np.inf, -np.inf, FORMATS[dtype].greatest, 2.0**-149]), dtype)
        return nearest(data.choice([*NUMBERS, data.uniform(-9, 9)]), dtype)
    low, high = limits(dtype)
    if calm or data.random() < 0.5:
        return data.randint(max(low, -2), min(high, 6))
    ends = [low, high, low + 1, high - 1, high // 2, *(2**p + d for p in (31, 32, 62, 63) for d in (-1, 0, 1))]
    ends += [data.randint(low, high), -(2**31), -(2**62)]
    return data.choice([value for value in ends if low <= value <= high])
