"""Operators, by their NumPy references.

What inference asks of an operator's operands is asked again of the values: at run time every dimension is known, so
what inference had to leave open is decided. The reference then computes the result, and must agree with what was
inferred for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
import tvm_ffi

from ..expr import Call, Var
from ..ir import RelaxExpr, StructInfo
from ..op.base import Operator, infer_operands, operator_of
from ..op.errors import OperatorError
from ..op.known import known_struct_info
from ..op.operands import Operand, is_absent
from ..op.padded import wrapped_result
from ..prim import Var as ShapeVar
from ..prim import const, evaluate
from ..runtime.builtin_table import BUILTINS
from ..runtime.closure import Closure
from ..runtime.dtypes import canonical_dtype
from ..runtime.sizes import shape_value
from ..runtime.tensor import check_shape, numpy_view, tensor_of_numpy
from ..runtime.values import is_tuple, kind_of
from ..struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from .scope import Environment

_PROGRAM_ERRORS = (ArithmeticError, AssertionError, IndexError, MemoryError, OSError, TypeError, ValueError)
"""Exceptions by which a NumPy reference rejects its operands."""


def evaluate_operator(call: Call, args: Sequence[Any], scope: Environment) -> Any:
    """The value of an operator's call on the values of its arguments.

    A tensor in the result is always a fresh one. Raises ValueError where there can be no tensor of the result's
    shape, AssertionError for sizes that do not fit, and what the reference raises (IndexError,
    ZeroDivisionError, …); messages begin with the function and the operator. TypeError for an operator without a
    definition.
    """
    operator = operator_of(call)
    if operator is None:
        raise TypeError(f"{scope.function}: the operator {getattr(call.op, 'name', '?')} has no definition")
    context = f"{scope.function}: {operator.short_name}"
    _check_results(call.struct_info_, scope)
    pairs = operator.arguments(call)
    absent = [operand.optional and is_absent(arg) for operand, arg in pairs]
    infos = [
        None if left_out else _checked_info(operand, arg, value, context)
        for left_out, (operand, arg), value in zip(absent, pairs, args, strict=True)
    ]
    try:
        expected = infer_operands(operator, call, None, infos)
    except OperatorError as error:
        remarks = ", ".join(f"{name}: {remark}" for name, remark in error.remarks.items())
        raise AssertionError(f"{context}: {error.message}" + f" ({remarks})" * bool(remarks)) from None
    scalars = all(isinstance(info, PrimStructInfo) for info in (expected, *infos))
    scalar = scalars and operator.compute is not None
    operands = [None if left_out else _operand(value) for left_out, value in zip(absent, args, strict=True)]
    try:
        with np.errstate(all="ignore"):
            if scalar:
                result = _of_scalars(operator, infos, operands)
            else:
                result = _definition(operator)(*_typed(operands, infos))
    except _PROGRAM_ERRORS as error:
        kind = next(kind for kind in type(error).__mro__ if kind.__module__ == "builtins")  # NumPy has its own
        raise kind(f"{context}: {error}") from error
    return _result(result, expected, context)


def _check_results(info: StructInfo | None, scope: Environment) -> None:
    """Reject negative result dimensions before computing."""
    if isinstance(info, TensorStructInfo) and isinstance(info.shape, Var):
        check_shape(tuple(scope[info.shape]), str(info.dtype) or "uint8")
    elif isinstance(info, TensorStructInfo) and info.dims is not None and not info.dtype.is_void:
        check_shape([cast(int, scope.evaluate(dim)) for dim in info.dims], str(info.dtype))
    elif isinstance(info, TupleStructInfo):
        for field in info.fields:
            _check_results(field, scope)


def _definition(operator: Operator) -> Callable[..., Any]:
    """The reference; for an operator that only a function of the run time implements, that function."""
    if operator.reference is not None or operator.packed is None:
        return operator.evaluate
    attributes = [getattr(operator, name) for name in operator.attribute_names]
    implementation = BUILTINS[operator.packed].function
    return lambda *operands: implementation(*operands, *attributes)


def _of_scalars(operator: Operator, infos: Sequence[StructInfo | None], values: Sequence[Any]) -> Any:
    """An operator's result for scalars: the value of its formula, as a scalar expression."""
    variables = [ShapeVar(f"x{i}", cast(PrimStructInfo, info).dtype) for i, info in enumerate(infos, 1)]
    return evaluate(operator.formula(*variables), dict(zip(variables, values, strict=True)), checked=True)


# ------------------------------------------------------------------------------------------- operands


def info_of(value: Any, expr: RelaxExpr | None = None) -> StructInfo:
    """Return the most specific struct info of a run-time value."""
    match value:
        case tvm_ffi.Tensor():
            return TensorStructInfo(value.shape, canonical_dtype(value.dtype))
        case tvm_ffi.Shape():
            return ShapeStructInfo(tuple(cast("tuple[int, ...]", value)))
        case bool() | int() | float():
            static_info = None if expr is None else known_struct_info(expr)
            natural = "bool" if isinstance(value, bool) else "int64" if isinstance(value, int) else "float64"
            dtype = static_info.dtype if isinstance(static_info, PrimStructInfo) else natural
            return PrimStructInfo(value=const(value, dtype))
        case Closure() | tvm_ffi.Function():
            return FuncStructInfo.opaque_func()
        case _ if is_tuple(value):
            return TupleStructInfo(tuple(info_of(field) for field in value))
        case _:
            return ObjectStructInfo()


def _checked_info(operand: Operand, expr: RelaxExpr, value: Any, context: str) -> StructInfo:
    info = info_of(value, expr)
    if not operand.accepts(info):
        raise TypeError(f"{context}: {operand.name} must be {operand.wanted}, found {kind_of(value)}")
    return info


def _operand(value: Any) -> Any:
    """A value as references take it: arrays, tuples of ints, numbers, lists."""
    if isinstance(value, tvm_ffi.Tensor):
        return numpy_view(value)
    if isinstance(value, tvm_ffi.Shape):
        return tuple(cast("tuple[int, ...]", value))
    return [_operand(field) for field in value] if is_tuple(value) else value


def _typed(values: Sequence[Any], infos: Sequence[StructInfo | None]) -> list[Any]:
    """Operands, with numbers beside tensors as NumPy scalars where Python numbers have another dtype."""

    def typed(value: Any, info: StructInfo | None) -> Any:
        if not isinstance(info, PrimStructInfo) or info.dtype in ("bool", "int64", "float64"):
            return value
        return info.dtype.numpy().type(value)

    if all(info is None or isinstance(info, PrimStructInfo) for info in infos):
        return list(values)
    return list(map(typed, values, infos))


# -------------------------------------------------------------------------------------------- results


def _result(result: Any, expected: StructInfo, context: str) -> Any:
    """A reference's result as a value: tensors with memory of their own, of the inferred dtype and shape."""
    match expected:
        case TensorStructInfo():
            tensor = _fresh(wrapped_result(result, expected))
            inferred = expected.dims if expected.dims is not None else tensor.shape
            dims = [getattr(dim, "value", size) for dim, size in zip(inferred, tensor.shape, strict=False)]
            agrees = expected.ndim in (-1, tensor.ndim) and dims == list(tensor.shape)
            if not agrees or expected.dtype not in ("", canonical_dtype(tensor.dtype)):
                actual = info_of(tensor)
                raise RuntimeError(f"{context}: the reference disagrees with inference: {actual}, not {expected}")
            return tensor
        case TupleStructInfo(fields):
            return tuple(_result(item, field, context) for item, field in zip(result, fields, strict=True))
        case ShapeStructInfo():
            return shape_value(int(extent) for extent in result)
        case PrimStructInfo():
            return cast(Any, result).item() if isinstance(result, np.generic) else result
        case _:
            return result


def _fresh(result: Any) -> tvm_ffi.Tensor:
    array = numpy_view(result) if isinstance(result, tvm_ffi.Tensor) else result
    return tensor_of_numpy(np.array(array, order="C"))
