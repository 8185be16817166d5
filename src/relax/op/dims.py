"""Shapes and dtypes of operands: broadcasting, promotion, axes; every question about sizes goes to
`relax.prim`.

What cannot be decided stays open: a shape becomes unknown (its rank is kept), and only what is proved wrong
is an error, raised as OperatorError.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from ..expr import ShapeExpr
from ..ir import DataType, VDevice
from ..prim import IntImm, PrimExpr, is_const
from ..sinfo_text import prim_text
from ..struct_info import TensorStructInfo
from .errors import AXES, DTYPES, SHAPES, OperatorError

Verdict = Literal["equal", "different", "unknown"]


def compare_dims(a: PrimExpr, b: PrimExpr) -> Verdict:
    """Whether two sizes are equal, different, or it is not known."""
    if a is b:
        return "equal"
    if isinstance(a, IntImm) and isinstance(b, IntImm):
        return "equal" if a.value == b.value else "different"
    return "unknown"


def tensor(
    dims: Sequence[PrimExpr | int] | None, dtype: str, ndim: int = -1, vdevice: VDevice | None = None
) -> TensorStructInfo:
    """A tensor's struct info; dims None leaves the shape unknown, of `ndim` dimensions (-1: not known
    either).
    """
    shape = None if dims is None else ShapeExpr(tuple(dims))
    return TensorStructInfo(shape, dtype, vdevice, -1 if shape is not None else ndim)


def like(info: TensorStructInfo, dtype: str | None = None) -> TensorStructInfo:
    """The same tensor with another dtype (its shape, even a shape variable, is kept)."""
    if dtype is None or dtype == info.dtype:
        return info
    return TensorStructInfo(info.shape, dtype, info.vdevice, info.ndim)


def broadcast_dims(
    a: Sequence[PrimExpr], b: Sequence[PrimExpr], names: tuple[str, str]
) -> tuple[PrimExpr, ...] | None:
    """The shape two shapes broadcast to; None if it cannot be known. A proved mismatch raises."""
    result: list[PrimExpr] = []
    known = True
    for i in range(1, max(len(a), len(b)) + 1):
        left = a[-i] if i <= len(a) else None
        right = b[-i] if i <= len(b) else None
        size = _broadcast_one(left, right, i, names)
        if size is None:
            known = False
        else:
            result.append(size)
    return tuple(reversed(result)) if known else None


def _broadcast_one(
    a: PrimExpr | None, b: PrimExpr | None, from_end: int, names: tuple[str, str]
) -> PrimExpr | None:
    if a is None or b is None:
        return b if a is None else a
    if is_const(a, 1):
        return b
    if is_const(b, 1):
        return a
    verdict = compare_dims(a, b)
    if verdict == "equal":
        return a if isinstance(a, IntImm) else b
    if (
        verdict == "different"
        and compare_dims(a, _ONE) == "different"
        and compare_dims(b, _ONE) == "different"
    ):
        place = "last dimension" if from_end == 1 else f"dimension {from_end} from the end"
        raise OperatorError(
            SHAPES,
            "the shapes cannot be broadcast",
            remarks={names[0]: f"{place} {prim_text(a)}", names[1]: f"{place} {prim_text(b)}"},
            hint="sizes must be equal, or one of them 1; expand_dims or reshape an operand, "
            "or match_cast it if its shape is only known at run time",
        )
    return None


_ONE = IntImm("int64", 1)


def broadcast(
    a: TensorStructInfo, b: TensorStructInfo, dtype: str, names: tuple[str, str] = ("x1", "x2")
) -> TensorStructInfo:
    """The struct info of an element-wise operation on two tensors, which broadcast."""
    if a.dims is not None and b.dims is not None:
        dims = broadcast_dims(a.dims, b.dims, names)
        if dims is not None:
            same = next((x for x in (a, b) if x.dims is not None and _identical(x.dims, dims)), None)
            return TensorStructInfo(ShapeExpr(dims) if same is None else same.shape, dtype)
    elif a.shape is not None and a.shape is b.shape:
        return TensorStructInfo(a.shape, dtype, None, a.ndim)
    else:
        for one, other in ((a, b), (b, a)):
            if one.ndim == 0:
                return TensorStructInfo(other.shape, dtype, None, other.ndim)
    return TensorStructInfo(None, dtype, None, -1 if -1 in (a.ndim, b.ndim) else max(a.ndim, b.ndim))


def _identical(a: Sequence[PrimExpr], b: Sequence[PrimExpr]) -> bool:
    return len(a) == len(b) and all(x is y for x, y in zip(a, b, strict=True))


def same_dtype(a: DataType, b: DataType, names: tuple[str, str] = ("x1", "x2")) -> DataType:
    """The one dtype two operands must share; an unknown one takes the other's."""
    if a.is_void or b.is_void:
        return b if a.is_void else a
    if a != b:
        raise OperatorError(
            DTYPES,
            f"{names[0]} and {names[1]} must have one dtype, found {a!s} and {b!s}",
            operand=names[1],
            hint=f'cast one of them: R.astype({names[1]}, "{a!s}")',
        )
    return a


def normalize_axis(axis: int, ndim: int, name: str = "axis", operand: str | None = None) -> int:
    """The axis counted from the front. Raises OperatorError if there is none such; ndim must be known."""
    if not -ndim <= axis < ndim:
        allowed = "a scalar has no axes" if ndim == 0 else f"expected from {-ndim} to {ndim - 1}"
        raise OperatorError(AXES, f"{name} {axis} is out of range: {allowed}", operand=operand)
    return axis + ndim if axis < 0 else axis


def normalize_axes(
    axes: Sequence[int], ndim: int, name: str = "axis", operand: str | None = None
) -> tuple[int, ...]:
    """Each axis counted from the front. Raises OperatorError for one out of range or named twice."""
    result = tuple(normalize_axis(axis, ndim, name, operand) for axis in axes)
    for i, axis in enumerate(result):
        if axis in result[:i]:
            raise OperatorError(AXES, f"{name} names dimension {axis} twice", operand=operand)
    return result
