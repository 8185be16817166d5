"""Result types of operators, derived from their meaning in Relax, and conversion between types and struct info."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from ..expr import Constant as RelaxConstant
from ..expr import Tuple as RelaxTuple
from ..expr import Var as RelaxVar
from ..info.mapping import substitute_struct_info
from ..ir import Diagnostic, DiagnosticError, Op, RelaxExpr, Span, StructInfo
from ..prim import PrimExpr, Var
from ..prim import free_vars as free_sizes
from ..prim.expr import SizeVar
from ..struct_info import TensorStructInfo, TupleStructInfo
from .expr import Constant, Expr, Tuple
from .meaning import result_info
from .ops.parameters import parameter_shapes
from .struct_infos import SizeTable, struct_info_of
from .type_walk import type_text
from .types import Any as AnyDim
from .types import Dim, TensorType, TupleType, Type, TypeVar

UNKNOWN_TYPE = "E9041"
"""Node whose type cannot be determined."""
NOT_CALLABLE = "E9043"
"""Call of a non-function, or with a wrong number of arguments or type arguments."""


def apply_operator(inputs: tuple[Type, ...], attrs: Any, span: Span | None) -> Type:
    """Return the result type of an operator, derived from its meaning in Relax."""
    op, call_attrs, operands = attrs
    sizes = OperandSizes()
    values = _operands(op, inputs, operands, sizes, span)
    call_attrs = sizes.attrs(call_attrs)
    info = result_info(op, call_attrs, values, span)
    if len(sizes.unknown) > 1 and isinstance(info, TensorStructInfo) and info.dims is None:
        info = _with_equal_sizes(info, op, call_attrs, values, sizes.unknown)
    return _type_of_info(info, sizes, op.name, span)


class OperandSizes(SizeTable):
    """Sizes of the operands of a call. Each `Any` is a new size, one of `unknown`."""

    def __init__(self) -> None:
        super().__init__()
        self.unknown: set[Var] = set()

    def extent(self, dim: Dim) -> PrimExpr:
        """Convert a dimension to a size."""
        size = self.size(dim)
        if size is None:
            unknown = size = SizeVar("any", "int64")
            self.unknown.add(unknown)
        return size


def _operands(
    op: Op, inputs: Sequence[Type], operands: Sequence[Expr] | None, sizes: OperandSizes, span: Span | None
) -> list[RelaxExpr]:
    values: list[RelaxExpr] = []
    for i, type_ in enumerate(inputs):
        operand = None if operands is None else operands[i]
        if isinstance(operand, Constant):
            values.append(RelaxConstant(operand.data))
        elif isinstance(operand, Tuple):
            values.append(_operand_tuple(i, type_, sizes))
        else:
            values.append(RelaxVar(f"x{i}", _info_of(type_, sizes, op.name, span)))
    return values


def _with_equal_sizes(
    info: StructInfo, op: Op, attrs: Any, values: Sequence[RelaxExpr], unknown: set[Var]
) -> StructInfo:
    """Derive the result as if all `Any` were the same size; return `info` if that is impossible.

    Relax derives no shape if two unknown sizes broadcast, as they may not match. In Relay, `Any` with `Any` gives
    `Any`, and the other dimensions are kept.
    """
    common_size = next(iter(unknown))
    table: Mapping[Any, Any] = dict.fromkeys(unknown, common_size)
    equal = [
        RelaxVar(value.name_hint, substitute_struct_info(value.struct_info, table))
        if isinstance(value, RelaxVar)
        else value
        for value in values
    ]
    if any(not isinstance(value, (RelaxVar, RelaxConstant)) for value in equal):
        return info
    try:
        return result_info(op, attrs, equal)
    except DiagnosticError:
        return info


def parameter_types(data: Type, attrs: Any) -> list[Type]:
    """Types of an operator's parameters, derived from its data type; empty if they cannot be derived."""
    op, call_attrs, _ = attrs
    if not isinstance(data, TensorType) or isinstance(data.shape, TypeVar):
        return []
    shapes = parameter_shapes(op, call_attrs, data.shape)
    return [] if shapes is None else [TensorType(shape, data.dtype) for shape in shapes]


def _operand_tuple(index: int, type_: Type, sizes: OperandSizes) -> RelaxExpr:
    fields = cast(TupleType, type_).fields
    infos = [_info_of(field, sizes, "a tuple", None) for field in fields]
    return RelaxTuple([RelaxVar(f"x{index}_{i}", info) for i, info in enumerate(infos)])


def _info_of(type_: Type, sizes: OperandSizes, subject: str, span: Span | None) -> StructInfo:
    """Struct info of an operand."""

    def other(other_type: Type) -> StructInfo:
        message = f"{subject} takes tensors, found a value of type {type_text(other_type)}"
        raise DiagnosticError(Diagnostic(NOT_CALLABLE, message, span))

    return struct_info_of(type_, sizes.extent, other)


def _type_of_info(info: StructInfo, sizes: OperandSizes, subject: str, span: Span | None) -> Type:
    """Type of a struct info; sizes that depend on unknown ones become `Any`."""
    match info:
        case TupleStructInfo(fields):
            return TupleType([_type_of_info(field, sizes, subject, span) for field in fields])
        case TensorStructInfo() if not info.dtype.is_void and info.ndim >= 0:
            dims = info.dims if info.dims is not None else [None] * info.ndim
            shape = [AnyDim() if d is None or sizes.unknown.intersection(free_sizes(d)) else sizes.dim(d) for d in dims]
            return TensorType(shape, info.dtype)
        case _:
            message = f"the type of the result of {subject} cannot be told from those of its operands"
            raise DiagnosticError(Diagnostic(UNKNOWN_TYPE, message, span))
