"""Properties of operators that passes query: exactness, mixed precision, permuted operands."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Protocol

from ..expr import Call, PrimValue, Tuple
from ..ir import DataType, RelaxExpr, Span, StructInfo
from ..prim import PrimExpr, const
from ..runtime.records import dataclass
from ..struct_info import PrimStructInfo, TensorStructInfo, TupleStructInfo
from ..tir.layout import is_divisible


class Exactness(Enum):
    """Operand dtypes for which an operator's reference is bit-identical to every kernel."""

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
    """Treatment of an operator's float operands in a program that is converted to a narrow float dtype (float16).

    Every kernel computes in float32 and rounds its result; narrowing affects only the precision of operands and
    results.
    """

    ALWAYS = "narrow: most of the work is here, and each result is a sum accumulated in float32"
    FOLLOW = "the dtype they have: the range of the result is that of the operands, or little more"
    NEVER = "float32: results may leave the range of a narrow dtype, or their errors add up"


Axes = tuple[int, ...]
"""A permutation: dimension d of the permuted tensor is dimension axes[d] of the tensor."""


@dataclass(frozen=True)
class Part:
    """Inner part of a dimension that is split: the index along dimension `axis`, modulo `size`."""

    axis: int
    size: int


Order = tuple[int | Part, ...]
"""A permutation that may split dimensions, as a packed layout (NCHW4c: ``(0, 1, 2, 3, Part(1, 4))``) does.

The number of a dimension with parts is its index divided by their sizes; of several parts, the last is the innermost.
"""


class Caller(Protocol):
    """Part of the Operator interface that a permuted call uses."""

    def raw_call(
        self, args: Sequence[RelaxExpr], sinfo_args: Sequence[StructInfo] = (), span: Span | None = None
    ) -> Call:
        """Build a call of the operator on expressions, without conversion or checks."""
        ...


@dataclass(frozen=True)
class Permuted:
    """A call of an operator with permuted operands and permuted results.

    For ``y = op(x0, x1)``: ``permute(y, results[0]) = operator(permute(x0, operands[0]), permute(x1, operands[1]))``.
    None keeps the dimension order of an operand or result; an expression replaces the operand (axes, sizes). A tensor
    of fewer dimensions than its axes gets leading dimensions of size 1 before it is permuted. Axes of an operand that
    is a tuple are those of each tensor in it. Orders that split dimensions are for sizes that they divide (`fits`).
    """

    operator: Caller
    operands: tuple[Order | RelaxExpr | None, ...]
    results: tuple[Order | None, ...]


def is_packed(order: Order) -> bool:
    """True if an order splits a dimension."""
    return any(isinstance(entry, Part) for entry in order)


def rank_of(order: Order) -> int:
    """Number of dimensions of the tensor to which an order applies."""
    return sum(not isinstance(entry, Part) for entry in order)


def part_of(order: Order, axis: int) -> int:
    """Product of the sizes of a dimension's parts."""
    return math.prod(entry.size for entry in order if isinstance(entry, Part) and entry.axis == axis)


def fits(info: StructInfo, order: Order) -> bool:
    """True if the sizes of a tensor are proved to be multiples of the parts; leading dimensions that it lacks are 1."""
    if not is_packed(order):
        return True
    if not isinstance(info, TensorStructInfo) or info.dims is None:
        return False
    missing = rank_of(order) - info.ndim
    sizes = [*[const(1, "int64")] * missing, *info.dims]
    return all(is_divisible(size, part_of(order, axis)) for axis, size in enumerate(sizes))


def pointwise(operator: Caller, axes: Axes, infos: Sequence[StructInfo]) -> Permuted | None:
    """Permute an element-wise operator; None unless the highest operand rank is the number of `axes`."""
    ranks = [info.ndim if isinstance(info, TensorStructInfo) else 0 for info in infos]
    supported = all(isinstance(info, TensorStructInfo | PrimStructInfo) for info in infos)
    if not supported or -1 in ranks or max(ranks, default=0) != len(axes):
        return None
    return Permuted(operator, tuple(trailing(axes, rank) for rank in ranks), (axes,))


def pointwise_blocked(operator: Caller, order: Order, infos: Sequence[StructInfo]) -> Permuted | None:
    """Permute an element-wise operator by an order that splits dimensions; None unless every tensor that is no scalar
    has sizes which the parts divide.
    """
    tensors = [info for info in infos if isinstance(info, TensorStructInfo)]
    supported = all(isinstance(info, TensorStructInfo | PrimStructInfo) for info in infos)
    ranks = [info.ndim for info in tensors]
    if not supported or -1 in ranks or max(ranks, default=0) != rank_of(order):
        return None
    if not all(info.ndim == 0 or fits(info, order) for info in tensors):
        return None
    scalar = [not isinstance(info, TensorStructInfo) or info.ndim == 0 for info in infos]
    return Permuted(operator, tuple(None if alone else order for alone in scalar), (order,))


def trailing(axes: Axes, rank: int) -> Axes | None:
    """Permutation of a tensor of `rank` that broadcasts to the dimensions permuted by `axes`; None for a scalar.

    If the missing leading dimensions stay in front, only the tensor's own dimensions are permuted.
    """
    missing = len(axes) - rank
    if rank == 0 or any(axis >= missing for axis in axes[:missing]):
        return axes if rank else None
    return tuple(axis - missing for axis in axes[missing:])


def scalars_of(info: StructInfo) -> list[PrimExpr] | None:
    """Values of a tuple of scalars, from its struct info; None if one of them is unknown."""
    fields = info.fields if isinstance(info, TupleStructInfo) else ()
    values = [field.value for field in fields if isinstance(field, PrimStructInfo) and field.value is not None]
    return values if isinstance(info, TupleStructInfo) and len(values) == len(fields) else None


def tuple_of(values: Iterable[PrimExpr | int]) -> Tuple:
    """Build a tuple of scalars."""
    return Tuple([PrimValue(value) for value in values])


def with_new(axes: Axes, inserted: Sequence[int]) -> Axes:
    """Permutation of a tensor with new dimensions at indices `inserted`, which keep their indices."""
    ndim = len(axes) + len(inserted)
    old = [index for index in range(ndim) if index not in inserted]
    moved = iter(axes)
    return tuple(index if index in inserted else old[next(moved)] for index in range(ndim))


def moved_axis(axis: int, axes: Order) -> int:
    """Index of `axis` (the outer part, if it is split) among the permuted dimensions; `axis` may be negative."""
    return axes.index(axis % rank_of(axes))


def without(axes: Axes, dropped: Iterable[int]) -> Axes:
    """Permutation of the remaining dimensions after the unpermuted dimensions `dropped` are removed."""
    gone = {axis % len(axes) for axis in dropped}
    kept = [axis for axis in range(len(axes)) if axis not in gone]
    return tuple(kept.index(axis) for axis in axes if axis not in gone)


def has_rank(infos: Sequence[StructInfo], axes: Order) -> bool:
    """True if the first operand is a tensor of the rank to which `axes` apply."""
    return bool(infos) and isinstance(infos[0], TensorStructInfo) and infos[0].ndim == rank_of(axes)


def have_rank(infos: Sequence[StructInfo], axes: Order) -> bool:
    """True if the first operand is a tuple of tensors of the rank to which `axes` apply."""
    fields = infos[0].fields if infos and isinstance(infos[0], TupleStructInfo) else ()
    return bool(fields) and all(has_rank([field], axes) for field in fields)
