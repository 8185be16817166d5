"""Transforms of Winograd's F(m×m, 3×3): polynomials of degree m + 1 by their values at m + 1 points and infinity.

    data        d of m + 2 elements     Bᵀ · d: the values of the polynomial with these coefficients, each without the
                                        other points
    kernel      g of 3 elements         G · g: the values of a kernel's polynomial, over what the data was multiplied by
    pixels      m + 2 products          Aᵀ · …: the m pixels of a line of a tile

Two transforms of lines, one behind the other, are the transform of a square. F(4×4) has the points 0, ±√½, ±√2 and ∞,
where results are as exact as those of the direct form; F(2×2) has 0, ±1 and ∞, where all factors are 1 and ½.

S. Winograd, *Arithmetic Complexity of Computations*, 1980; A. Lavin and S. Gray, *Fast Algorithms for Convolutional
Neural Networks*, 2015.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from ...prim import Add, Mul, PrimExpr, Sub, const
from ...tir import Broadcast
from .squares import Values

TAPS: Final = 3
A: Final = 0.5**0.5
B: Final = 2**0.5
"""The points of F(4×4) are 0, ±A, ±B and ∞, where A · B = 1."""
_SMALL: Final = 1 / (2 * A * A * (A * A - B * B))
_LARGE: Final = 1 / (2 * B * B * (B * B - A * A))
"""The reciprocals of the divisors of a kernel's values at ±A and ±B."""

Line = Callable[[Values, Sequence[PrimExpr]], list[PrimExpr]]
"""The transform of one line of elements, which are vectors."""


def _times(factor: float, value: PrimExpr) -> PrimExpr:
    """A multiple of a vector."""
    return Mul(Broadcast(const(factor, str(value.dtype.element_of)), value.dtype.lanes), value)


def _data4(values: Values, d: Sequence[PrimExpr]) -> list[PrimExpr]:
    of, both = values.of, A * A + B * B
    u, v = of(Sub(d[4], _times(B * B, d[2]))), of(Sub(d[3], _times(B * B, d[1])))
    s, t = of(Sub(d[4], _times(A * A, d[2]))), of(Sub(d[3], _times(A * A, d[1])))
    return [
        Add(d[0], Sub(d[4], _times(both, d[2]))), Add(u, _times(A, v)), Sub(u, _times(A, v)),
        Add(s, _times(B, t)), Sub(s, _times(B, t)), Add(d[1], Sub(d[5], _times(both, d[3]))),
    ]  # fmt: skip


def _pixels4(values: Values, m: Sequence[PrimExpr]) -> list[PrimExpr]:
    of = values.of
    s, d = of(Add(m[1], m[2])), of(Sub(m[1], m[2]))
    t, e = of(Add(m[3], m[4])), of(Sub(m[3], m[4]))
    return [
        Add(m[0], Add(s, t)), Add(_times(A, d), _times(B, e)), Add(_times(A * A, s), _times(B * B, t)),
        Add(m[5], Add(_times(A**3, d), _times(B**3, e))),
    ]  # fmt: skip


def _data2(values: Values, d: Sequence[PrimExpr]) -> list[PrimExpr]:
    del values
    return [Sub(d[0], d[2]), Add(d[1], d[2]), Sub(d[2], d[1]), Sub(d[3], d[1])]


def _pixels2(values: Values, m: Sequence[PrimExpr]) -> list[PrimExpr]:
    s, d = values.of(Add(m[1], m[2])), values.of(Sub(m[1], m[2]))
    return [Add(m[0], s), Add(m[3], d)]


@dataclass(frozen=True)
class Transforms:
    """The transforms of tiles of `m` × `m` pixels."""

    m: int
    data: Line
    pixels: Line
    factors: tuple[tuple[float, float, float], ...]
    """G: each row is an element of a transformed line of a kernel."""

    @property
    def n(self) -> int:
        """The elements of a line of data that a tile meets."""
        return self.m + TAPS - 1

    def kernel(self, values: Values, g: Sequence[PrimExpr]) -> list[PrimExpr]:
        """G · g."""
        del values
        results: list[PrimExpr] = []
        for row in self.factors:
            terms = [
                tap if factor == 1 else _times(factor, tap)
                for factor, tap in zip(row, g, strict=True)
                if factor
            ]
            total = terms[0]
            for term in terms[1:]:
                total = Add(total, term)
            results.append(total)
        return results


F4: Final = Transforms(4, _data4, _pixels4, (
    (1, 0, 0),
    (_SMALL, _SMALL * A, _SMALL * A * A), (_SMALL, -_SMALL * A, _SMALL * A * A),
    (_LARGE, _LARGE * B, _LARGE * B * B), (_LARGE, -_LARGE * B, _LARGE * B * B),
    (0, 0, 1),
))  # fmt: skip
F2: Final = Transforms(2, _data2, _pixels2, ((1, 0, 0), (0.5, 0.5, 0.5), (0.5, -0.5, 0.5), (0, 0, 1)))


@dataclass(frozen=True)
class KernelTransform:
    """Weights as a convolution reads them: U[group, e, panel, ci * width + p] is element e of G · W[co, ci] · Gᵀ.

    Output channel ``co = (group * panels + panel) * width + p``; those that are none have zeros.
    """

    transforms: Transforms
    outputs: int
    inputs: int
    groups: int
    panels: int
    """The panels of a group."""
    width: int
    """The output channels of a panel."""

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """The groups of panels, the elements of a transform, the panels of a group, and the elements of a panel."""
        return self.groups, self.transforms.n**2, self.panels, self.inputs * self.width

    def __call__(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        g, count = np.array(self.transforms.factors), self.transforms.n**2
        squares = np.einsum("ik,ockl,jl->ocij", g, array.astype("float64"), g, optimize=True)
        padded = np.zeros((self.groups * self.panels * self.width, self.inputs, count), "float32")
        padded[: self.outputs] = np.reshape(squares, (self.outputs, self.inputs, count))
        split = np.reshape(padded, (self.groups, self.panels, self.width, self.inputs, count))
        return np.reshape(np.transpose(split, (0, 4, 1, 3, 2)), self.shape)


__all__ = ["F2", "F4", "TAPS", "KernelTransform", "Line", "Transforms"]
