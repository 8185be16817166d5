"""Types of operators' results, as their meaning in Relax tells them, and the way between types and struct info."""

from __future__ import annotations

from typing import Any, cast

from ..expr import Constant as RelaxConstant
from ..expr import Tuple as RelaxTuple
from ..expr import Var as RelaxVar
from ..ir import Diagnostic, DiagnosticError, RelaxExpr, Span, StructInfo
from ..prim import Var as SizeVar
from ..prim import free_vars as free_sizes
from ..struct_info import TensorStructInfo, TupleStructInfo
from .expr import Constant, Tuple
from .meaning import result_info
from .type_walk import type_text
from .types import Any as AnyDim
from .types import TensorType, TupleType, Type, TypeVar

UNKNOWN_TYPE = "E9041"
"""A node whose type nothing determines."""
NOT_CALLABLE = "E9043"
"""A call of what is no function, or with another number of arguments or type arguments."""


def apply_operator(inputs: tuple[Type, ...], attrs: Any, span: Span | None) -> Type:
    """The type of the result of an operator, as its meaning in Relax tells it."""
    op, call_attrs, operands = attrs
    unknown: set[SizeVar] = set()
    values: list[RelaxExpr] = []
    for i, type_ in enumerate(inputs):
        operand = None if operands is None else operands[i]
        if isinstance(operand, Constant):
            values.append(RelaxConstant(operand.data))
        elif isinstance(operand, Tuple):
            values.append(_operand_tuple(i, type_, unknown))
        else:
            values.append(RelaxVar(f"x{i}", struct_info_of(type_, unknown, op.name, span)))
    return type_of_info(result_info(op, call_attrs, values, span), unknown, op.name, span)


def _operand_tuple(index: int, type_: Type, unknown: set[SizeVar]) -> RelaxExpr:
    fields = cast(TupleType, type_).fields
    infos = [struct_info_of(field, unknown, "a tuple", None) for field in fields]
    return RelaxTuple([RelaxVar(f"x{index}_{i}", info) for i, info in enumerate(infos)])


def struct_info_of(type_: Type, unknown: set[SizeVar], what: str, span: Span | None) -> StructInfo:
    """The struct info that a type means; each `Any` becomes a size of its own, which is added to `unknown`."""
    match type_:
        case TupleType(fields):
            return TupleStructInfo([struct_info_of(field, unknown, what, span) for field in fields])
        case TensorType(shape, dtype) if not isinstance(shape, TypeVar) and not isinstance(dtype, TypeVar):
            dims: list[Any] = []
            for dim in shape:
                if isinstance(dim, AnyDim):
                    dims.append(SizeVar("any", "int64"))
                    unknown.add(dims[-1])
                else:
                    dims.append(dim.astype("int64"))
            return TensorStructInfo(dims, str(dtype))
        case _:
            message = f"{what} takes tensors, found a value of type {type_text(type_)}"
            raise DiagnosticError(Diagnostic(NOT_CALLABLE, message, span))


def type_of_info(info: StructInfo, unknown: set[SizeVar], what: str, span: Span | None) -> Type:
    """The type that a struct info means; sizes that depend on those of `unknown` become `Any`."""
    match info:
        case TupleStructInfo(fields):
            return TupleType([type_of_info(field, unknown, what, span) for field in fields])
        case TensorStructInfo() if not info.dtype.is_void and info.ndim >= 0:
            dims = info.dims if info.dims is not None else [None] * info.ndim
            shape = [AnyDim() if d is None or unknown.intersection(free_sizes(d)) else d for d in dims]
            return TensorType(shape, info.dtype)
        case _:
            message = f"the type of the result of {what} cannot be told from those of its operands"
            raise DiagnosticError(Diagnostic(UNKNOWN_TYPE, message, span))


__all__ = ["NOT_CALLABLE", "UNKNOWN_TYPE", "apply_operator", "struct_info_of", "type_of_info"]
