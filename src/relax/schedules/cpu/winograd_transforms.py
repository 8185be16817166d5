"""Transforms of an axis of a convolution: tiles of `m` pixels as sums of products of slots.

    data        the elements of a line that a tile meets    Bᵀ · d: a vector of data for each slot
    kernel      the taps g of a line                        G · g: a weight for each slot
    sums        slot by slot, data · weight over channels   each sum adds up the products of some slots
    pixels      the sums of a tile                          Aᵀ · sums: the m pixels of a line of a tile

Two transforms, one behind the other, are that of a square; the axes may have different ones.

    direct      1 pixel, a slot for each tap, one sum       any number of taps, stride and dilation
    F(2)        2 pixels, 4 slots, 4 sums                   3 taps, where the direct form multiplies 6 times
    F(4)        4 pixels, 6 slots, 6 sums                   3 taps, instead of 12
    S(2)        2 pixels, 5 slots, 3 sums                   3 taps of stride 2, instead of 6

F(m) is Winograd's F(m, 3): polynomials of degree m + 1 by their values at m + 1 points and infinity. F(4) has the
points 0, ±√½, ±√2 and ∞, where results are as exact as those of the direct form; F(2) has 0, ±1 and ∞, where all
factors are 1 and ½. S(2) splits the taps by their phase: those at even elements are F(2, 2) with the points 0, 1 and ∞,
the one at odd elements is multiplied directly and added to the sums at 0 and ∞, so that all factors are 1.

S. Winograd, *Arithmetic Complexity of Computations*, 1980; A. Lavin and S. Gray, *Fast Algorithms for Convolutional
Neural Networks*, 2015.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, TypeVar

import numpy as np

from ...prim import Add, Mul, PrimExpr, Sub, const
from ...tir import Broadcast
from .squares import Values

A: Final = 0.5**0.5
B: Final = 2**0.5
"""The points of F(4) are 0, ±A, ±B and ∞, where A · B = 1."""
_SMALL: Final = 1 / (2 * A * A * (A * A - B * B))
_LARGE: Final = 1 / (2 * B * B * (B * B - A * A))
"""The reciprocals of the divisors of a kernel's values at ±A and ±B."""

Size = TypeVar("Size", int, PrimExpr)
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


def _phases(values: Values, d: Sequence[PrimExpr]) -> list[PrimExpr]:
    del values
    return [Sub(d[0], d[2]), d[1], d[2], Sub(d[4], d[2]), d[3]]


def _of_phases(values: Values, m: Sequence[PrimExpr]) -> list[PrimExpr]:
    del values
    return [Add(m[0], m[1]), Add(m[1], m[2])]


def _same(values: Values, elements: Sequence[PrimExpr]) -> list[PrimExpr]:
    del values
    return list(elements)


@dataclass(frozen=True)
class Transform:
    """The transform of an axis."""

    m: int
    """The pixels of a tile."""
    stride: int
    """The elements of data from one pixel to the next."""
    places: tuple[int, ...]
    """The elements of data that a tile meets, by their distance from the first."""
    sums: tuple[int, ...]
    """The sum to which each slot belongs."""
    data: Line
    pixels: Line
    factors: tuple[tuple[float, ...], ...]
    """G: each row is a slot of a transformed line of a kernel."""

    @property
    def slots(self) -> int:
        return len(self.sums)

    @property
    def count(self) -> int:
        """The number of sums."""
        return max(self.sums) + 1

    @property
    def taps(self) -> int:
        return len(self.factors[0])

    @property
    def step(self) -> int:
        """The elements of data from one tile to the next."""
        return self.m * self.stride

    @property
    def reach(self) -> int:
        """The elements of data from the first that a tile meets to the last, with both."""
        return self.places[-1] + 1

    def met(self, tiles: Size) -> Size:
        """The elements of data that so many neighbouring tiles meet."""
        return tiles * self.step + max(self.reach - self.step, 0)

    @property
    def exact(self) -> bool:
        """True for the direct form, which adds up the products that are written."""
        return self.data is _same

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


F4: Final = Transform(4, 1, tuple(range(6)), tuple(range(6)), _data4, _pixels4, (
    (1, 0, 0),
    (_SMALL, _SMALL * A, _SMALL * A * A), (_SMALL, -_SMALL * A, _SMALL * A * A),
    (_LARGE, _LARGE * B, _LARGE * B * B), (_LARGE, -_LARGE * B, _LARGE * B * B),
    (0, 0, 1),
))  # fmt: skip
F2: Final = Transform(2, 1, tuple(range(4)), tuple(range(4)), _data2, _pixels2, (
    (1, 0, 0), (0.5, 0.5, 0.5), (0.5, -0.5, 0.5), (0, 0, 1),
))  # fmt: skip
S2: Final = Transform(2, 2, tuple(range(5)), (0, 0, 1, 2, 2), _phases, _of_phases, (
    (1, 0, 0), (0, 1, 0), (1, 0, 1), (0, 0, 1), (0, 1, 0),
))  # fmt: skip


@lru_cache
def direct_form(taps: int, stride: int, dilation: int) -> Transform:
    """The direct form: a pixel is the sum of the products of all taps."""
    places = tuple(tap * dilation for tap in range(taps))
    identity = tuple(tuple(float(i == j) for j in range(taps)) for i in range(taps))
    return Transform(1, stride, places, (0,) * taps, _same, _same, identity)


@dataclass(frozen=True)
class KernelTransform:
    """Weights as a convolution reads them: a line for each group of panels and each slot of G · W[co, ci] · Gᵀ.

    A line has the chunks of input channels one after the other; in each the panels, and in these the weights [ci, p] of
    output channels ``co = (group * panels + panel) * width + p``. Channels that are none have zeros.
    """

    rows: Transform
    columns: Transform
    outputs: int
    inputs: int
    groups: int
    panels: int
    """The panels of a group."""
    width: int
    """The output channels of a panel."""
    chunk: int
    """The input channels of a chunk; the last one may have fewer."""

    @property
    def slots(self) -> int:
        """The slots of a square: those of a row of slots one after the other."""
        return self.rows.slots * self.columns.slots

    @property
    def shape(self) -> tuple[int, int, int]:
        """The groups of panels, the slots, and the weights of a slot of a group."""
        return self.groups, self.slots, self.panels * self.inputs * self.width

    def __call__(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        factors = np.kron(np.array(self.rows.factors), np.array(self.columns.factors))
        taps = np.reshape(array, (self.outputs * self.inputs, -1)).astype("float64")
        slots: np.ndarray[Any, Any] = np.matmul(factors, np.transpose(taps))
        padded = np.zeros((self.slots, self.groups * self.panels * self.width, self.inputs), "float32")
        padded[:, : self.outputs] = np.reshape(slots, (self.slots, self.outputs, self.inputs))
        split = np.reshape(padded, (self.slots, self.groups, self.panels, self.width, self.inputs))
        ordered = np.transpose(split, (1, 0, 2, 4, 3))
        chunks = np.split(ordered, range(self.chunk, self.inputs, self.chunk), axis=3)
        lines = [np.reshape(chunk, (self.groups, self.slots, -1)) for chunk in chunks]
        return np.concatenate(lines, axis=2)


__all__ = ["F2", "F4", "S2", "KernelTransform", "Line", "Transform", "direct_form"]
