"""Transforms of one axis of a convolution: tiles of `m` pixels as sums of products of slots.

    data        the elements of a row read by a tile        Bᵀ · d: a vector of data for each slot
    kernel      the taps g of a line                        G · g: a weight for each slot
    sums        slot by slot, data · weight over channels   each sum adds up the products of some slots
    pixels      the sums of a tile                          Aᵀ · sums: the m pixels of a line of a tile

The transform of a square is the composition of two transforms; the axes may use different ones.

    direct      1 pixel, a slot for each tap, one sum       any number of taps, stride and dilation
    F(m, r)     m pixels, m + r - 1 slots and sums          r taps, where the direct form multiplies m · r times
    S(2)        2 pixels, 5 slots, 3 sums                   3 taps of stride 2, instead of 6

F(m, r) multiplies polynomials of degree m + r - 2 by their values at m + r - 2 points and infinity (Toom and Cook):

    F(2, 3)     0, ±1, ∞                4 products for 6    all factors are 1 and ½
    F(4, 3)     0, ±√½, ±√2, ∞          6 for 12            as exact as the direct form
    F(2, 5)     the same                6 for 10            the same
    F(4, 5)     0, ±½, ±1, ±2, ∞        8 for 20            twice the error of the direct form, on an average
    F(2, 7)     the same                8 for 14            the same

The product of the squares of the points is 1, so weights and data have values of similar magnitude at all points. S(2)
splits the taps by phase: those at even elements are F(2, 2) with the points 0, 1 and ∞; the tap at odd elements is
multiplied directly and added to the sums at 0 and ∞, so that all factors are 1.

S. Winograd, *Arithmetic Complexity of Computations*, 1980; A. Lavin and S. Gray, *Fast Algorithms for Convolutional
Neural Networks*, 2015.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final, TypeVar

import numpy as np
from numpy.polynomial import polynomial

from .....prim import Add, Mul, PrimExpr, Sub, const
from .....runtime.records import dataclass
from .....runtime.tensor import new_array
from .....tir import Broadcast, Stmt
from ....build import block
from ...tile.transposes import Values

Size = TypeVar("Size", int, PrimExpr)
Line = Callable[[Values, Sequence[PrimExpr]], list[PrimExpr]]
"""Transform of one row of elements, each a vector."""


def of_line(
    line: Line,
    elements: Sequence[PrimExpr],
    body: Callable[[int, PrimExpr], Stmt],
    behind: Callable[[Sequence[PrimExpr]], Stmt] | None = None,
) -> Stmt:
    """Return `body(index, element)` for each element of a transformed row, and `behind(elements)` after them."""
    values = Values("t")
    results: Sequence[PrimExpr] = line(values, [values.of(element) for element in elements])
    if behind is not None:
        results = [values.of(result) for result in results]
    stmts = [body(i, result) for i, result in enumerate(results)]
    return values.around(block(stmts if behind is None else [*stmts, behind(results)]))


def _times(factor: float, value: PrimExpr) -> PrimExpr:
    """Multiply a vector by a constant."""
    if factor == 1:
        return value
    return Mul(Broadcast(const(factor, str(value.dtype.element_of)), value.dtype.lanes), value)


def _combined(factors: Sequence[float], elements: Sequence[PrimExpr]) -> PrimExpr:
    """Linear combination of vectors, starting from the last one with factor 1, or the last one."""
    terms = [(f, element) for f, element in zip(factors, elements, strict=True) if f][::-1]
    first = next((i for i, (factor, _) in enumerate(terms) if factor == 1), 0)
    factor, element = terms.pop(first)
    total = _times(factor, element)
    for factor, element in terms:
        term = _times(abs(factor), element)
        total = Add(total, term) if factor > 0 else Sub(total, term)
    return total


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
    """Transform of one axis."""

    m: int
    """Pixels of a tile."""
    stride: int
    """Data elements from one pixel to the next."""
    places: tuple[int, ...]
    """Data elements read by a tile, by their distance from the first one."""
    sums: tuple[int, ...]
    """Index of the sum to which each slot belongs."""
    data: Line
    pixels: Line
    factors: tuple[tuple[float, ...], ...]
    """Matrix G: one row per slot of a transformed kernel row."""

    @property
    def slots(self) -> int:
        return len(self.sums)

    @property
    def count(self) -> int:
        """Number of sums."""
        return max(self.sums) + 1

    @property
    def taps(self) -> int:
        return len(self.factors[0])

    @property
    def step(self) -> int:
        """Data elements from one tile to the next."""
        return self.m * self.stride

    @property
    def reach(self) -> int:
        """Extent of the data read by a tile."""
        return self.places[-1] + 1

    @property
    def apart(self) -> int:
        """Distance between consecutive slots in the data if this is the direct form, else 1."""
        return self.places[1] if self.exact and len(self.places) > 1 else 1

    def met(self, tiles: Size) -> Size:
        """Number of data elements read by `tiles` adjacent tiles."""
        return tiles * self.step + max(self.reach - self.step, 0)

    @property
    def exact(self) -> bool:
        """True for the direct form, which adds the products unmodified."""
        return self.data is _same

    def kernel(self, values: Values, g: Sequence[PrimExpr]) -> list[PrimExpr]:
        """Return G · g."""
        del values
        results: list[PrimExpr] = []
        for row in self.factors:
            terms = [_times(factor, tap) for factor, tap in zip(row, g, strict=True) if factor]
            total = terms[0]
            for term in terms[1:]:
                total = Add(total, term)
            results.append(total)
        return results


def of_points(m: int, taps: int, squares: Sequence[float]) -> Transform:
    """Return F(m, taps) with the points 0, ∞ and ±√s for each s in `tile.transposes`.

    The polynomial of a slot is that of the other points: even, except for a factor x or x ± p. So the slots of a pair
    share two partial sums of the data, over even and odd elements.
    """

    def power(square: float, i: int) -> float:
        return square ** (i // 2) * (square**0.5 if i % 2 else 1)

    even, one = _with_roots(squares), (-1.0) ** len(squares)
    parts = [_with_roots([other for other in squares if other != square]) for square in squares]

    def data(values: Values, d: Sequence[PrimExpr]) -> list[PrimExpr]:
        slots = [_combined([one * factor for factor in even], d[::2])]
        for square, part in zip(squares, parts, strict=True):
            u, v = values.of(_combined(part, d[2:-1:2])), values.of(_combined(part, d[1:-2:2]))
            slots += [Add(u, _times(square**0.5, v)), Sub(u, _times(square**0.5, v))]
        return [*slots, _combined(even, d[1::2])]

    def pixels(values: Values, s: Sequence[PrimExpr]) -> list[PrimExpr]:
        pairs = [(s[2 * i + 1], s[2 * i + 2]) for i in range(len(squares))]
        both = [(values.of(Add(a, b)), values.of(Sub(a, b))) for a, b in pairs]
        results = [_combined([power(square, i) for square in squares][::-1], [pair[i % 2] for pair in both][::-1])
                   for i in range(m)]  # fmt: skip
        return [Add(s[0], results[0]), *results[1:-1], Add(s[-1], results[-1])]

    factors: list[tuple[float, ...]] = [(1.0, *(0.0,) * (taps - 1))]
    for part, square in zip(parts, squares, strict=True):
        divisor = 2 * square * float(polynomial.polyval(square, part))
        factors += [tuple(sign**i * power(square, i) / divisor for i in range(taps)) for sign in (1, -1)]
    factors.append((*(0.0,) * (taps - 1), 1.0))
    slots = tuple(range(m + taps - 1))
    return Transform(m, 1, slots, slots, data, pixels, tuple(factors))


def _with_roots(roots: Sequence[float]) -> list[float]:
    """Coefficients of the polynomial with the given roots, from the constant term on."""
    return [float(factor) for factor in polynomial.polyfromroots(list(roots))]


F23: Final = of_points(2, 3, (1,))
F43: Final = of_points(4, 3, (0.5, 2))
F25: Final = of_points(2, 5, (0.5, 2))
F45: Final = of_points(4, 5, (0.25, 1, 4))
F27: Final = of_points(2, 7, (0.25, 1, 4))
S2: Final = Transform(2, 2, tuple(range(5)), (0, 0, 1, 2, 2), _phases, _of_phases, (
    (1, 0, 0), (0, 1, 0), (1, 0, 1), (0, 0, 1), (0, 1, 0),
))  # fmt: skip


@lru_cache
def direct_form(taps: int, stride: int, dilation: int) -> Transform:
    """Return the direct form: a pixel is the sum of the products of all taps."""
    places = tuple(tap * dilation for tap in range(taps))
    identity = tuple(tuple(float(i == j) for j in range(taps)) for i in range(taps))
    return Transform(1, stride, places, (0,) * taps, _same, _same, identity)


@dataclass(frozen=True)
class KernelTransform:
    """Packing of transformed weights: one row per panel group and slot of G · W[co, ci] · Gᵀ, and one per tap.

    Rows of taps hold the weights themselves, for direct sums; a slot that is a tap is stored once.
    A row holds the chunks of input channels in order; each chunk holds its panels, and a panel the weights [ci, p] of
    output channel ``co = (group * panels + panel) * width + p``. Padding channels are zero.
    """

    rows: Transform
    columns: Transform
    outputs: int
    inputs: int
    groups: int
    panels: int
    """Panels of a group."""
    width: int
    """Output channels of a panel."""
    chunk: int
    """Input channels of a chunk; the last chunk may have fewer."""

    @property
    def slots(self) -> int:
        """Number of slots of both axes, in row-major order."""
        return self.rows.slots * self.columns.slots

    @property
    def rows_of_taps(self) -> tuple[int, ...]:
        """Row of each tap in a group, in row-major order: a slot if one is the tap itself, else behind the slots."""
        at: list[int] = []
        behind = itertools.count(self.slots)
        for i, j in itertools.product(_slots_of_taps(self.rows), _slots_of_taps(self.columns)):
            at.append(next(behind) if i is None or j is None else i * self.columns.slots + j)
        return tuple(at)

    @property
    def shape(self) -> tuple[int, int, int]:
        """(Panel groups, slots and further taps, weights per row and group)."""
        count = max(self.slots, *(row + 1 for row in self.rows_of_taps))
        return self.groups, count, self.panels * self.inputs * self.width

    def __call__(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        factors = np.kron(np.array(self.rows.factors), np.array(self.columns.factors))
        kernels = np.transpose(np.reshape(array, (self.outputs, self.inputs, -1)), (2, 1, 0))
        result, at = new_array(self.shape, np.dtype("float32")), list(self.rows_of_taps)
        for group, panel in itertools.product(range(self.groups), range(self.panels)):
            first = (group * self.panels + panel) * self.width
            for begin in range(0, self.inputs, self.chunk):  # chunks that stay in cache
                part = kernels[:, begin : begin + self.chunk, first : first + self.width]
                taps, inputs, count = part.shape
                flat = np.reshape(np.ascontiguousarray(part, "float64"), (taps, -1))
                with np.errstate(over="ignore", invalid="ignore"):  # results that these make are computed from taps
                    slots = np.matmul(factors, flat).astype("float32")
                place = (begin * self.panels + panel * inputs) * self.width
                # Views: splitting an axis never copies.
                line = result[group, :, place : place + inputs * self.width]
                weights = np.reshape(line, (-1, inputs, self.width))
                weights[: self.slots, :, :count] = np.reshape(slots, (self.slots, inputs, count))
                weights[at, :, :count] = part
                weights[:, :, count:] = 0
        return result


def _slots_of_taps(axis: Transform) -> list[int | None]:
    """Slot of each tap of an axis whose weight is the tap itself; None if there is none."""
    units = [tuple(float(i == tap) for i in range(axis.taps)) for tap in range(axis.taps)]
    return [axis.factors.index(unit) if unit in axis.factors else None for unit in units]
