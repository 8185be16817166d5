"""Weights of recurrent layers that stay narrow integers in memory: the products that read them dequantise them.

    W[d, row, k] = float32(int32(numbers[k, d * rows + row]) - zeros[k // group, d * rows + row])
                   * scales[k // group, d * rows + row]

`dequantised` makes the tensor of these weights, and `narrow_weights` finds its parts, which the formulas of `recurrent`
read instead. The product of the inputs is a matrix product over all directions, for the rule `ComputedProduct`; those
of the steps are for `StepProducts`.
"""

# The parameters of a formula are index variables; te.compute says so, but not in a way a type checker can follow.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from .. import te
from ..prim import IntImm, PrimExpr, cast, const, simplify
from ..runtime.records import dataclass

_WEIGHTS: Final = "dequantised weights"
"""Attribute of the computation of a tensor of dequantised weights: its `NarrowWeights`."""


@dataclass(frozen=True)
class NarrowWeights:
    """Weights as integers and their parameters; each part is a tensor of a formula, or the buffer of a statement."""

    numbers: Any
    """Integers, (depth, directions * rows)."""
    scales: Any
    """float32, (groups of the depth, columns): columns like those of `numbers`, or one per direction."""
    zeros: Any
    """int32, like `scales` with sizes of its own; None if all are 0."""
    directions: int

    @property
    def parts(self) -> list[te.Tensor]:
        return [part for part in (self.numbers, self.scales, self.zeros) if part is not None]

    @property
    def depth(self) -> int:
        return _size(self.numbers.shape[0])

    @property
    def rows(self) -> int:
        """Rows of a direction."""
        return _size(self.numbers.shape[1]) // self.directions

    def of(self, parts: Sequence[Any]) -> NarrowWeights:
        """Return these weights with other tensors or buffers as their parts, in the order of `parts`."""
        numbers, scales, *zeros = parts
        return replace(self, numbers=numbers, scales=scales, zeros=zeros[0] if zeros else None)

    def element(self, d: PrimExpr, row: PrimExpr, k: PrimExpr) -> PrimExpr:
        """Return the weight of a row of a direction."""
        return self.in_column(d, simplify(d * self.rows) + row, k)

    def in_column(self, d: PrimExpr, column: PrimExpr, k: PrimExpr) -> PrimExpr:
        """Return the weight of a row of direction `d`, given by its column in `numbers`."""
        number = self.numbers[k, column]
        if self.zeros is not None:
            number = cast("int32", number) - self._parameter(self.zeros, d, column, k)
        return cast("float32", number) * self._parameter(self.scales, d, column, k)

    def _parameter(self, held: Any, d: PrimExpr, column: PrimExpr, k: PrimExpr) -> PrimExpr:
        groups, columns = map(_size, held.shape)
        group = k // (self.depth // groups) if groups > 1 else const(0, "int64")
        return held[group, column if columns != self.directions else d]


def _size(size: PrimExpr) -> int:
    assert isinstance(size, IntImm)
    return size.value


def dequantised(weights: NarrowWeights) -> te.Tensor:
    """Return the tensor of the weights, (directions, rows, depth), as float32."""
    shape = (weights.directions, weights.rows, weights.depth)
    return te.compute(shape, weights.element, "dequantised", attrs={_WEIGHTS: weights})


def narrow_weights(tensor: te.Tensor) -> NarrowWeights | None:
    """Return the parts of a tensor that `dequantised` made, or None for any other tensor."""
    return tensor.op.attrs.get(_WEIGHTS)


def input_product(data: te.Tensor, weights: NarrowWeights, name: str) -> te.Tensor:
    """Return the products of the data's last dimension and the weights, (…, directions * rows)."""
    columns = weights.rows * weights.directions
    k = te.reduce_axis((0, weights.depth), "k")

    def element(*i: Any) -> PrimExpr:
        return te.sum(data(*i[:-1], k.var) * weights.in_column(i[-1] // weights.rows, i[-1], k.var), axis=k)

    return te.compute((*data.shape[:-1], columns), element, name, tag="matmul")
