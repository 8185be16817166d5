"""Checks of ranks and single dimensions, for operators with operands of fixed rank."""

from __future__ import annotations

from ..info.text import prim_text
from ..prim import IntImm, PrimExpr, is_const
from ..prim.intrin import any as any_of
from ..struct_info import TensorStructInfo
from .dims import check_later, require_same_dim
from .errors import SHAPES, OperatorError


def require_rank(name: str, info: TensorStructInfo, *ranks: int) -> None:
    """Raise OperatorError unless an operand may have one of these ranks."""
    if info.ndim in (-1, *ranks):
        return
    numbers = " or ".join(map(str, ranks))
    plural = "" if ranks == (1,) else "s"
    raise OperatorError(SHAPES, f"{name} must have {numbers} dimension{plural}, found {info.ndim}", operand=name)


def require_dim(name: str, info: TensorStructInfo, d: int, expected: PrimExpr | int, meaning: str = "") -> None:
    """Raise OperatorError unless dimension `d` of an operand may have the expected size, described by `meaning`."""
    if info.dims is None:
        return
    size, wanted = info.dims[d], IntImm("int64", expected) if isinstance(expected, int) else expected
    tail = f", {meaning}" if meaning else ""
    message = f"dimension {d} of {name} must be {prim_text(wanted)}{tail}"
    remarks = {name: f"dimension {d} is {prim_text(size)}"}
    require_same_dim(size, wanted, OperatorError(SHAPES, message, remarks=remarks))


def require_elements(name: str, d: int, size: PrimExpr, unless: PrimExpr | None = None) -> None:
    """Raise OperatorError if dimension `d` of an operand, from which elements are taken, is empty, unless the result's
    size `unless` is 0."""
    message = f"dimension {d} of {name} has no elements"
    if isinstance(size, IntImm) and size.value > 0:
        return
    if is_const(size, 0) and (unless is None or (isinstance(unless, IntImm) and unless.value > 0)):
        raise OperatorError(SHAPES, message, operand=name)
    check_later(size > 0 if unless is None else any_of(size > 0, unless.equal(0)), message)
