"""Shapes and dtypes of operands: broadcasting, promotion, axes. Equality of dimensions is proved by `relax.prim`.

If a condition cannot be decided, the result's shape becomes unknown (its rank is kept). Only conditions proved false
raise OperatorError.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import combinations

from ..expr import ShapeExpr
from ..info.text import prim_text
from ..ir import DataType, VDevice
from ..prim import IntImm, PrimExpr, Verdict, is_const, prove_equal
from ..prim.intrin import any as any_of
from ..runtime.records import dataclass
from ..struct_info import TensorStructInfo
from ..topi.broadcast import full_sizes
from .errors import AXES, DTYPES, SHAPES, OperatorError


def tensor(
    dims: Sequence[PrimExpr | int] | None, dtype: str, ndim: int = -1, vdevice: VDevice | None = None
) -> TensorStructInfo:
    """Struct info of a tensor; `dims` None leaves the shape unknown, with rank `ndim` (-1: unknown)."""
    shape = None if dims is None else ShapeExpr(tuple(dims))
    return TensorStructInfo(shape, dtype, vdevice, -1 if shape is not None else ndim)


def like(info: TensorStructInfo, dtype: str | None = None) -> TensorStructInfo:
    """Struct info of a tensor with another dtype; the shape, even a shape variable, is kept."""
    if dtype is None or dtype == info.dtype:
        return info
    return TensorStructInfo(info.shape, dtype, info.vdevice, info.ndim)


# ------------------------------------------------------------------------------------- run-time checks


_ONE = IntImm("int64", 1)


@dataclass(frozen=True)
class Check:
    """A condition on dimensions that inference could not decide; the kernel asserts it."""

    condition: PrimExpr
    message: str


_PENDING: ContextVar[list[Check] | None] = ContextVar("pending checks", default=None)


@contextmanager
def collect_checks() -> Generator[list[Check]]:
    """Context manager: collect the conditions that inference leaves to run time."""
    checks: list[Check] = []
    token = _PENDING.set(checks)
    try:
        yield checks
    finally:
        _PENDING.reset(token)


def check_later(condition: PrimExpr, message: str) -> None:
    """Leave a condition to run time. Ignored outside of `collect_checks`, which only lowering uses."""
    pending = _PENDING.get()
    if pending is not None:
        pending.append(Check(condition, message))


def require_same_dim(a: PrimExpr, b: PrimExpr, failure: OperatorError | Callable[[], OperatorError]) -> PrimExpr:
    """Require two equal dimensions and return the static one.

    Raises `failure`, or the error that it returns, if they differ; checks at run time if undecided.
    """
    answer = prove_equal(a, b)
    if answer is not Verdict.YES:
        error = failure if isinstance(failure, OperatorError) else failure()
        if answer is Verdict.NO:
            raise error
        sizes = f": {prim_text(a)} and {prim_text(b)}" if error.remarks else ""
        check_later(a.equal(b), error.message + sizes)
    return b if isinstance(b, IntImm) else a


def require_stretch(size: PrimExpr, full: PrimExpr, error: OperatorError) -> None:
    """Require that `size` is 1 or equals `full`. Raises `error` if it is neither; checks at run time if undecided."""
    same, is_one = prove_equal(size, full), prove_equal(size, _ONE)
    if Verdict.YES in (same, is_one):
        return
    if same is is_one is Verdict.NO:
        raise error
    check_later(any_of(size.equal(full), size.equal(1)), error.message)


# ----------------------------------------------------------------------------------------- broadcasting


def broadcast_dims(a: Sequence[PrimExpr], b: Sequence[PrimExpr], names: tuple[str, str]) -> tuple[PrimExpr, ...] | None:
    """Broadcast two shapes; None if the result cannot be determined. Raises OperatorError for a proved mismatch."""
    return _broadcast_shapes((a, b), names)


def _broadcast_shapes(shapes: Sequence[Sequence[PrimExpr]], names: Sequence[str]) -> tuple[PrimExpr, ...] | None:
    """Broadcast any number of shapes, which must be pairwise compatible."""
    columns: list[list[PrimExpr]] = []
    for from_end in range(max(map(len, shapes), default=0), 0, -1):
        there = [(shape[-from_end], name) for shape, name in zip(shapes, names, strict=True) if from_end <= len(shape)]
        for left, right in combinations(there, 2):
            require_broadcast(left[0], right[0], lambda l=left, r=right, d=from_end: _mismatch(l, r, d))
        columns.append([size for size, _ in there])
    result = full_sizes(columns)
    decided = [size for size in result if size is not None]
    return tuple(decided) if len(decided) == len(result) else None


def require_broadcast(a: PrimExpr, b: PrimExpr, error: Callable[[], OperatorError]) -> None:
    """Require that two dimensions are equal or one of them is 1. Raises `error()` if not; checks at run time if
    undecided.
    """
    if a is b or is_const(a, 1) or is_const(b, 1):
        return
    conditions = (a.equal(b), a.equal(1), b.equal(1))
    answers: list[Verdict] = []
    for left, right in ((a, b), (a, _ONE), (b, _ONE)):
        answers.append(prove_equal(left, right))
        if answers[-1] is Verdict.YES:
            return
    if Verdict.POSSIBLY not in answers:
        raise error()
    if _PENDING.get() is not None:
        problem = error()
        sizes = f": {prim_text(a)} and {prim_text(b)}" if problem.remarks else ""
        undecided = [c for c, answer in zip(conditions, answers, strict=True) if answer is Verdict.POSSIBLY]
        check_later(any_of(*undecided), problem.message + sizes)


def _mismatch(left: tuple[PrimExpr, str], right: tuple[PrimExpr, str], from_end: int) -> OperatorError:
    """Return the error of two dimensions, each with the name of its operand, that are neither equal nor 1."""
    dimension = "last dimension" if from_end == 1 else f"dimension {from_end} from the end"
    return OperatorError(
        SHAPES,
        "the shapes cannot be broadcast",
        remarks={name: f"{dimension} {prim_text(size)}" for size, name in (left, right)},
        hint="sizes must be equal, or one of them 1; expand_dims or reshape an operand, "
        "or match_cast it if its shape is only known at run time",
    )


def broadcast(
    a: TensorStructInfo, b: TensorStructInfo, dtype: str, names: tuple[str, str] = ("x1", "x2")
) -> TensorStructInfo:
    """Struct info of an element-wise operation on two tensors that broadcast."""
    return broadcast_all((a, b), dtype, names)


def broadcast_all(infos: Sequence[TensorStructInfo], dtype: str, names: Sequence[str]) -> TensorStructInfo:
    """Struct info of an element-wise operation on several tensors that broadcast."""
    shapes = [info.dims for info in infos]
    shapes_and_names = [(shape, name) for shape, name in zip(shapes, names, strict=True) if shape is not None]
    dims = _broadcast_shapes([shape for shape, _ in shapes_and_names], [name for _, name in shapes_and_names])
    if len(shapes_and_names) == len(infos):
        if dims is not None:
            same = next((info for info in infos if info.dims is not None and _identical(info.dims, dims)), None)
            return TensorStructInfo(ShapeExpr(dims) if same is None else same.shape, dtype)
    else:
        # Tensors without dimensions change no shape; nor does another one of the very same shape.
        shaped = [info for info in infos if info.ndim != 0]
        if not shaped:
            return tensor((), dtype)
        if all(info.shape is not None and info.shape is shaped[0].shape for info in shaped) or len(shaped) == 1:
            return TensorStructInfo(shaped[0].shape, dtype, None, shaped[0].ndim)
    ranks = [info.ndim for info in infos]
    return TensorStructInfo(None, dtype, None, -1 if -1 in ranks else max(ranks))


def _identical(a: Sequence[PrimExpr], b: Sequence[PrimExpr]) -> bool:
    return len(a) == len(b) and all(x is y for x, y in zip(a, b, strict=True))


def same_dtype(a: DataType, b: DataType, names: tuple[str, str] = ("x1", "x2")) -> DataType:
    """Return the dtype that two operands must share; an unknown one is assumed to match."""
    if a.is_void or b.is_void:
        return b if a.is_void else a
    if a != b:
        raise OperatorError(
            DTYPES,
            f"{names[0]} and {names[1]} must have one dtype, found {a!s} and {b!s}",
            operand=names[1],
            hint=f'cast one of them: R.astype({{{names[1]}}}, "{a!s}")',
        )
    return a


def normalize_axis(axis: int, ndim: int, name: str = "axis", operand: str | None = None) -> int:
    """Return the axis as a non-negative index; `ndim` must be known. Raises OperatorError if out of range."""
    if not -ndim <= axis < ndim:
        allowed = "a scalar has no axes" if ndim == 0 else f"expected from {-ndim} to {ndim - 1}"
        raise OperatorError(AXES, f"{name} {axis} is out of range: {allowed}", operand=operand)
    return axis + ndim if axis < 0 else axis


def normalize_axes(axes: Sequence[int], ndim: int, name: str = "axis", operand: str | None = None) -> tuple[int, ...]:
    """Return axes as non-negative indices. Raises OperatorError if one is out of range or repeated."""
    result = tuple(normalize_axis(axis, ndim, name, operand) for axis in axes)
    for i, axis in enumerate(result):
        if axis in result[:i]:
            raise OperatorError(AXES, f"{name} names dimension {axis} twice", operand=operand)
    return result
