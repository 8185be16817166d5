"""``R.memory.view``: the bytes of a tensor, or a part of them, in another shape and dtype.

TVM's view aliases its operand's memory; this one is a distinct tensor, whose memory the compiler may still share.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..expr import Call, DataTypeImm, PrimValue, ShapeExpr
from ..ir import DataType, Diagnostic, DiagnosticError, RelaxExpr, structural_equal
from ..ir.python_source import user_span
from ..prim import IntImm, PrimExpr
from ..struct_info import ShapeStructInfo, TensorStructInfo
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
    dtype: DTypeLike | RelaxExpr = None,
    relative_byte_offset: int | RelaxExpr | None = None,
) -> Call:
    """The bytes of data from an offset on, in another shape and dtype: ``reshape`` and ``reinterpret`` of a
    ``strided_slice``. Without a shape, ``reinterpret`` alone.
    """
    info = known_struct_info(data) if isinstance(data, RelaxExpr) else None
    if not isinstance(info, TensorStructInfo):
        raise _refused("data must be a tensor", "match_cast it to what it is")
    target = info.dtype if dtype is None else _dtype(dtype)
    offset = _number(relative_byte_offset)
    if shape is None and not offset:
        return _whole(data, info, target)
    values = _sizes(shape)
    if values is None:
        if not isinstance(shape, RelaxExpr) or offset != 0:
            raise _refused("shape must be given by its sizes", "write R.shape([…])")
        return _call("reshape", _as(data, info.dtype, target), shape)
    return _call("reshape", _part(data, info, target, offset, product(values)), ShapeExpr(values))


def _whole(data: TensorLike, info: TensorStructInfo, target: DataType) -> Call:
    """View all of a tensor in its own shape."""
    if target != info.dtype:
        return _call("reinterpret", data, dtype=target)
    return _call("reshape", data, _call("shape_of", data) if info.dims is None else ShapeExpr(info.dims))


def _part(
    data: TensorLike, info: TensorStructInfo, target: DataType, offset: int | None, count: PrimExpr
) -> TensorLike:
    """Return `count` elements of dtype `target` from a byte offset on, of any shape."""
    total = None if info.dims is None else product(info.dims)
    same = target == info.dtype
    if offset == 0 and same and total is not None and structural_equal(count, total):
        return data
    source, wanted = _bytes(info.dtype), _bytes(target)
    if offset and not source:
        raise _refused("an offset needs the dtype of data, which is not known", "match_cast data to what it is")
    is_whole = offset is not None and offset >= 0 and (offset == 0 or (source and offset % source == 0))
    if offset is None or not is_whole:
        raise _refused("relative_byte_offset must be a number of whole elements", "slice with R.strided_slice")
    flat = _call("flatten", data) if total is None else _call("reshape", data, ShapeExpr([total]))
    if source and wanted and wanted > source:  # the remaining elements need not be a whole number of wider ones
        return _as(_slice(flat, offset // source, count * (wanted // source)), info.dtype, target)
    if not offset:
        return _slice(_as(flat, info.dtype, target), 0, count)
    assert source
    ratio = source // wanted if wanted else 1
    return _slice(_as(flat, info.dtype, target), offset // source * ratio, count)


def _as(data: TensorLike, source: DataType, target: DataType) -> TensorLike:
    return data if source == target else _call("reinterpret", data, dtype=target)


def _slice(flat: TensorLike, first: int, count: PrimExpr) -> TensorLike:
    """Return elements of a tensor with one axis: fewer of them if it is shorter, which then do not fit the shape."""
    return _call("strided_slice", flat, [0], [first], [count + first])


def _bytes(dtype: DataType) -> int:
    """Return the bytes of an element; 0 if the dtype is unknown or has no whole bytes."""
    return 1 if dtype.is_bool else 0 if dtype.is_void or dtype.bits % 8 else dtype.bits // 8


def _sizes(shape: RelaxExpr | Sequence[Any] | None) -> Sequence[Any] | None:
    """Return the sizes of a shape, None if they are unknown."""
    if isinstance(shape, (list, tuple)):
        return ShapeExpr(tuple(shape)).values
    info = known_struct_info(shape) if isinstance(shape, RelaxExpr) else None
    return info.values if isinstance(info, ShapeStructInfo) else None


def _dtype(dtype: DTypeLike | RelaxExpr) -> DataType:
    try:
        return dtype.value if isinstance(dtype, DataTypeImm) else DataType(str(dtype))
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


def _call(name: str, *args: Any, **attributes: Any) -> Call:
    function = public_function(f"relax.{name}")
    assert function is not None
    return function(*args, **attributes)


def _refused(message: str, hint: str) -> DiagnosticError:
    return DiagnosticError(Diagnostic(ATTRIBUTES, f"memory.view: {message}", user_span(_FILE), hint=hint))
