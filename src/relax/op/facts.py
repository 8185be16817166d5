"""The answers that operator classes give to passes: exactness, mixed precision, permuted operands."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from ..ir import DataType, StructInfo
from ..struct_info import PrimStructInfo, TensorStructInfo

if TYPE_CHECKING:
    from .base import Operator


class Exactness(Enum):
    """Dtypes of operands for which an operator's reference gives the bits that every kernel of it gives."""

    NEVER = "no dtypes"
    INTEGERS = "integers and bool"
    IEEE = "integers, bool, and the floats of the machine: one operation of float32 or float64 has one correct result"
    ALWAYS = "all dtypes: elements are moved, or converted, but not computed with"

    def holds_for(self, dtypes: Iterable[DataType]) -> bool:
        """True if the reference is exact for operands of these dtypes."""
        match self:
            case Exactness.NEVER:
                return False
            case Exactness.ALWAYS:
                return True
            case _:
                floats = ("float32", "float64") if self is Exactness.IEEE else ()
                return all(dtype.is_integer or dtype.is_bool or dtype in floats for dtype in dtypes)


class MixedPrecision(Enum):
    """The dtype of an operator's float operands in a program that is converted to a narrow float dtype (float16).

    Kernels of every operator compute in float32 inside, and round the result; the question is what operands and
    results lose.
    """

    ALWAYS = "narrow: most of the work is here, and each result is a sum accumulated in float32"
    FOLLOW = "the dtype they have: the range of the result is that of the operands, or little more"
    NEVER = "float32: results may leave the range of a narrow dtype, or their errors add up"


Axes = tuple[int, ...]
"""A permutation: dimension d of the permuted tensor is dimension axes[d] of the tensor."""


@dataclass(frozen=True)
class Permuted:
    """A call of an operator on permuted operands that gives permuted results.

    For ``y = op(x0, x1)``: ``permute(y, results[0]) = operator(permute(x0, operands[0]), permute(x1, operands[1]))``.
    None stands for an operand or result whose dimensions keep their order.
    """

    operator: Operator
    operands: tuple[Axes | None, ...]
    results: tuple[Axes | None, ...]


def pointwise(operator: Operator, axes: Axes, infos: Sequence[StructInfo]) -> Permuted | None:
    """The permutation of an element-wise operator: tensors of one rank are permuted alike, scalars are left."""
    ranks = [info.ndim if isinstance(info, TensorStructInfo) else 0 for info in infos]
    known = all(isinstance(info, TensorStructInfo | PrimStructInfo) for info in infos)
    if not known or not set(ranks) <= {0, len(axes)}:
        return None
    return Permuted(operator, tuple(axes if rank else None for rank in ranks), (axes,))


def moved_axis(axis: int, axes: Axes) -> int:
    """The place of a dimension among the permuted ones; `axis` may count from the end."""
    return axes.index(axis % len(axes))


def without(axes: Axes, dropped: Iterable[int]) -> Axes:
    """The permutation of the dimensions that are left when some dimensions of the unpermuted tensor are dropped."""
    gone = {axis % len(axes) for axis in dropped}
    kept = [axis for axis in range(len(axes)) if axis not in gone]
    return tuple(kept.index(axis) for axis in axes if axis not in gone)


def has_rank(infos: Sequence[StructInfo], axes: Axes) -> bool:
    """True if the first operand is a tensor of as many dimensions as are permuted."""
    return bool(infos) and isinstance(infos[0], TensorStructInfo) and infos[0].ndim == len(axes)
