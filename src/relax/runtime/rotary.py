"""Angles of rotary position embeddings, computed in float64 and rounded to float32.

The angle of pair i at position p is p * scale / (theta ** (2i / dim) * factors[i]).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import numpy as np

from .dtypes import Array


@final
class Rotary:
    """The frequencies of one rotary embedding."""

    __slots__ = ("_frequencies", "scaling")

    def __init__(
        self,
        dim: int,
        theta: float,
        scale: float = 1.0,
        factors: Sequence[float] | Array | None = None,
        scaling: float = 1.0,
    ) -> None:
        """Compute frequencies.

        Parameters
        ----------
        dim
            Rotated elements of a head, an even number; 0 rotates nothing.
        theta, scale, factors
            See the module's formula; `factors` has dim / 2 positive numbers, all 1 if it is None.
        scaling
            A factor of all cosines and sines.

        Raises
        ------
        ValueError
            If `dim` is odd or negative, `theta` not positive, or `factors` of another length or not positive.
        """
        if dim < 0 or dim % 2:
            raise ValueError(f"the rotary dimension is {dim}, expected an even number")
        if dim and not theta > 0:
            raise ValueError(f"the base of rotary frequencies is {theta}, expected a positive number")
        frequencies: Array = scale / theta ** (np.arange(0, dim, 2, dtype=np.float64) / max(dim, 1))
        if factors is not None:
            divisors: Array = np.array(factors, np.float64, ndmin=1)
            divisors = divisors.reshape(-1)
            if len(divisors) != dim // 2:
                raise ValueError(f"there are {len(divisors)} factors of rotary frequencies, expected {dim // 2}")
            if not (divisors > 0).all():
                raise ValueError("factors of rotary frequencies must be positive")
            frequencies = frequencies / divisors
        self._frequencies = frequencies
        self.scaling = scaling

    @property
    def pairs(self) -> int:
        """The number of rotated pairs of a head."""
        return len(self._frequencies)

    def write(self, positions: Array, angles: Array) -> None:
        """Write the cosines and sines for positions (n,) to float32 `angles` (n, 2, pairs)."""
        if not self.pairs:
            return
        radians: Array = positions[:, None] * self._frequencies
        if self.scaling == 1.0:
            np.cos(radians, out=angles[:, 0], casting="same_kind")
            np.sin(radians, out=angles[:, 1], casting="same_kind")
        else:
            angles[:, 0] = np.cos(radians) * self.scaling
            angles[:, 1] = np.sin(radians) * self.scaling
