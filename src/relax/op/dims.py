"""Shapes and dtypes of operands: broadcasting, promotion, axes; every question about sizes goes to
`relax.prim`.

What cannot be decided stays open: a shape becomes unknown (its rank is kept), and only what is proved wrong
is an error, raised as OperatorError.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal

from .. import dims as prover
from ..dims import Verdict
from ..expr import ShapeExpr
from ..ir import DataType, VDevice
from ..prim import IntImm, PrimExpr, is_const
from ..prim.intrin import any as any_of
from ..sinfo_text import prim_text
from ..struct_info import TensorStructInfo
from .errors import AXES, DTYPES, SHAPES, OperatorError

Answer = Literal["equal", "different", "unknown"]

_ANSWERS: dict[Verdict, Answer] = {
    Verdict.YES: "equal",
    Verdict.NO: "different",
    Verdict.POSSIBLY: "unknown",
}


def compare_dims(a: PrimExpr, b: PrimExpr) -> Answer:
    """Whether two sizes are equal, different, or it is not known."""
    return _ANSWERS[prover.compare_dims(a, b)]


def compare_shapes(a: Sequence[PrimExpr], b: Sequence[PrimExpr]) -> Answer:
    """Whether two shapes are equal, different, or it is not known."""
    if len(a) != len(b):
        return "different"
    answers = [compare_dims(x, y) for x, y in zip(a, b, strict=True)]
    if "different" in answers:
        return "different"
    return "unknown" if "unknown" in answers else "equal"


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


# ------------------------------------------------------------------------------------- run-time checks


@dataclass(frozen=True)
class Check:
    """A condition on sizes that could not be decided: the kernel asserts it."""

    condition: PrimExpr
    message: str


_PENDING: ContextVar[list[Check] | None] = ContextVar("pending checks", default=None)


@contextmanager
def collect_checks() -> Generator[list[Check]]:
    """The conditions that inference leaves to the run time, while it runs inside."""
    checks: list[Check] = []
    token = _PENDING.set(checks)
    try:
        yield checks
    finally:
        _PENDING.reset(token)


def check_later(condition: PrimExpr, message: str) -> None:
    """Leave a condition to the run time (only lowering listens)."""
    pending = _PENDING.get()
    if pending is not None:
        pending.append(Check(condition, message))


def require_same_dim(a: PrimExpr, b: PrimExpr, error: OperatorError) -> PrimExpr:
    """One of two sizes that must be equal: raises the error if they differ, leaves what is not known to the
    run time, and gives the one known better.
    """
    answer = compare_dims(a, b)
    if answer == "different":
        raise error
    if answer == "unknown":
        check_later(a.equal(b), f"{error.message}: {prim_text(a)} and {prim_text(b)}")
    return b if isinstance(b, IntImm) else a


# ----------------------------------------------------------------------------------------- broadcasting


def broadcast_dims(
    a: Sequence[PrimExpr], b: Sequence[PrimExpr], names: tuple[str, str]
) -> tuple[PrimExpr, ...] | None:
    """The shape two shapes broadcast to; None if it cannot be known. A proved mismatch raises."""
    common = min(len(a), len(b))
    result: list[PrimExpr | None] = [*a[: len(a) - common], *b[: len(b) - common]]
    for from_end in range(common, 0, -1):
        result.append(_broadcast_one(a[-from_end], b[-from_end], from_end, names))
    known = [size for size in result if size is not None]
    return tuple(known) if len(known) == len(result) else None


_ONE = IntImm("int64", 1)


def _broadcast_one(a: PrimExpr, b: PrimExpr, from_end: int, names: tuple[str, str]) -> PrimExpr | None:
    if is_const(a, 1):
        return b
    if is_const(b, 1):
        return a
    answer = compare_dims(a, b)
    if answer == "equal":
        return a if isinstance(a, IntImm) else b
    a_is_one, b_is_one = compare_dims(a, _ONE), compare_dims(b, _ONE)
    if a_is_one == "equal" or b_is_one == "equal":
        return b if a_is_one == "equal" else a
    if answer == a_is_one == b_is_one == "different":
        place = "last dimension" if from_end == 1 else f"dimension {from_end} from the end"
        raise OperatorError(
            SHAPES,
            "the shapes cannot be broadcast",
            remarks={names[0]: f"{place} {prim_text(a)}", names[1]: f"{place} {prim_text(b)}"},
            hint="sizes must be equal, or one of them 1; expand_dims or reshape an operand, "
            "or match_cast it if its shape is only known at run time",
        )
    allowed = [
        condition
        for condition, verdict in ((a.equal(b), answer), (a.equal(1), a_is_one), (b.equal(1), b_is_one))
        if verdict == "unknown"
    ]
    check_later(any_of(*allowed), f"the shapes cannot be broadcast: {prim_text(a)} and {prim_text(b)}")
    # What cannot be 1 is what the other one is, or is stretched to.
    if a_is_one == "different":
        return a
    return b if b_is_one == "different" else None


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
