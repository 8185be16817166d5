"""``R.memory.view``: part of a tensor's elements in another shape, as programs for TVM write it.

TVM's view aliases its operand's memory; this one is a distinct tensor, whose memory the compiler may still share.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..expr import Call, PrimValue, ShapeExpr
from ..ir import DataType, Diagnostic, DiagnosticError, RelaxExpr, structural_equal
from ..ir.python_source import user_span
from ..prim import IntImm
from ..struct_info import TensorStructInfo
from .arguments import DTypeLike, TensorLike
from .errors import ATTRIBUTES
from .known import known_struct_info
from .operator import composite, public_function
from .shapes import product

_FILE = "op/memory_view.py"


@composite("relax.memory.view")
def view(
    data: TensorLike,
    shape: RelaxExpr | Sequence[Any] | None = None,
    dtype: DTypeLike = None,
    relative_byte_offset: int | RelaxExpr | None = None,
) -> Call:
    """The elements of data from a byte offset on, reshaped: ``reshape`` of a ``strided_slice``. The dtype is kept."""
    info = known_struct_info(data) if isinstance(data, RelaxExpr) else None
    if not isinstance(info, TensorStructInfo) or info.dtype.is_void or info.dims is None:
        raise _refused("data must be a tensor whose dtype and shape are known", "match_cast it to what it is")
    if dtype is not None and _dtype(dtype) != info.dtype:
        raise _refused(f"reads {info.dtype!s} as {dtype!s}", "convert with R.astype, which keeps the numbers")
    offset = _number(relative_byte_offset)
    width = info.dtype.bits // 8
    if offset is None or width == 0 or offset < 0 or offset % width:
        raise _refused("relative_byte_offset must be a number of whole elements", "slice with R.strided_slice")
    if shape is None and not offset:
        shape = info.dims
    wanted = ShapeExpr(shape) if isinstance(shape, (list, tuple)) else shape
    if not isinstance(wanted, ShapeExpr):
        raise _refused("shape must be given by its sizes", "write R.shape([…])")
    count, first = product(wanted.values), offset // width
    if first or not structural_equal(count, product(info.dims)):
        # The slice is shorter if data is, and then does not fit the shape.
        flat = _call("reshape", data, ShapeExpr([product(info.dims)]))
        data = _call("strided_slice", flat, [0], [first], [count + first])
    return _call("reshape", data, wanted)


def _dtype(dtype: DTypeLike) -> DataType:
    try:
        return DataType(str(dtype))
    except ValueError as error:
        raise _refused(str(error), 'a dtype is written as in "float32"') from None


def _number(offset: int | RelaxExpr | None) -> int | None:
    """Byte offset as an integer; None if unknown."""
    match offset:
        case None:
            return 0
        case int():
            return offset
        case PrimValue(IntImm(_, value)):
            return value
        case _:
            return None


def _call(name: str, *args: Any) -> Call:
    function = public_function(f"relax.{name}")
    assert function is not None
    return function(*args)


def _refused(message: str, hint: str) -> DiagnosticError:
    return DiagnosticError(Diagnostic(ATTRIBUTES, f"memory.view: {message}", user_span(_FILE), hint=hint))
