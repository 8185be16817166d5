"""Application of operators to Relax expressions, types and values, all through the operator's meaning
(`ops.declare`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from ..block_builder import BlockBuilder
from ..expr import Call as RelaxCall
from ..expr import Constant as RelaxConstant
from ..expr import Var as RelaxVar
from ..interpreter import Interpreter
from ..ir import Diagnostic, DiagnosticError, Op, RelaxExpr, Span, StructInfo
from ..runtime import NDArray
from ..struct_info import TensorStructInfo, TupleStructInfo
from .attrs import Attrs
from .operators import make_attrs, operator_spec, unknown_operator
from .ops.declare import meaning_of, needs_constants

OPERANDS = "E9013"
"""Operands or attributes that an operator does not accept."""

Value = Any
"""NumPy array, or a tuple of values."""


def meaning(op: Op, attrs: Attrs | None, operands: Sequence[RelaxExpr], span: Span | None = None) -> RelaxExpr:
    """Return the Relax expression that an operator call means. Operands must have struct info.

    Raises DiagnosticError (E9010, E9012, E9013).
    """
    spec = operator_spec(op)
    means = meaning_of(op)
    if spec is None or means is None:
        raise DiagnosticError(unknown_operator(op.name, span))
    if spec.num_inputs is not None and len(operands) != spec.num_inputs:
        message = f"{op.name} takes {spec.num_inputs} operands, found {len(operands)}"
        raise DiagnosticError(Diagnostic("E9012", message, span))
    if attrs is None:
        attrs = make_attrs(op, {}, span)
    try:
        return means(attrs, *operands)
    except DiagnosticError as error:
        raise error.placed(span) from None
    except (ValueError, KeyError, IndexError) as error:
        text = str(error).removeprefix(f"{op.name}: ")
        raise DiagnosticError(Diagnostic(OPERANDS, f"{op.name}: {text}", span)) from None


def result_info(op: Op, attrs: Attrs | None, operands: Sequence[RelaxExpr], span: Span | None = None) -> StructInfo:
    """Struct info of the result of an operator call."""
    builder = BlockBuilder(warn=False)
    with builder.testing_scope():
        try:
            return builder.normalize(meaning(op, attrs, operands, span)).struct_info
        except DiagnosticError as error:
            raise error.placed(span) from None


def evaluate(op: Op, attrs: Attrs | None, operands: Sequence[Value], span: Span | None = None) -> Value:
    """Evaluate an operator call with Relax's interpreter.

    Operands and result are NumPy arrays or tuples of arrays. Scalar operands are passed as constants, which some
    operators need (the bounds of `arange`, the value of `nn.pad`).
    """
    scalars = [i for i, value in enumerate(operands) if needs_constants(op) and np.ndim(value) == 0]
    constants = tuple((i, str(operands[i].dtype.str), operands[i].item()) for i in scalars)
    infos = tuple(_info_of(value) for value in operands)
    try:
        function = _function(op, _key(attrs), infos, constants)
    except DiagnosticError as error:
        raise error.placed(span) from None
    return _plain(function(*(v for i, v in enumerate(operands) if i not in scalars)))


def _info_of(value: Value) -> StructInfo:
    if isinstance(value, tuple):
        return TupleStructInfo([_info_of(field) for field in cast("tuple[Any, ...]", value)])
    return TensorStructInfo(value.shape, value.dtype.name)


def _key(attrs: Attrs | None) -> tuple[tuple[str, Any], ...]:
    return () if attrs is None else tuple(attrs.items())


@functools.lru_cache(maxsize=2048)
def _function(
    op: Op,
    attrs: tuple[tuple[str, Any], ...],
    infos: tuple[StructInfo, ...],
    constants: tuple[tuple[int, str, Any], ...],
) -> Callable[..., Any]:
    """Return the function that evaluates the operator for operands of these struct infos, in Relax's interpreter."""
    values: Mapping[int, Any] = {i: np.array(value, dtype) for i, dtype, value in constants}
    operands = [RelaxConstant(values[i]) if i in values else RelaxVar(f"x{i}", info) for i, info in enumerate(infos)]
    params = [operand for operand in operands if isinstance(operand, RelaxVar)]
    builder = BlockBuilder(warn=False)
    with builder.function("main", params):
        for operand in operands:
            builder.normalize(operand)
        result = meaning(op, Attrs(dict(attrs)) if attrs else None, operands)
        builder.emit_func_output(builder.emit(result) if isinstance(result, RelaxCall) else result)
    return Interpreter(builder.finalize())["main"]


def _plain(value: Any) -> Value:
    if isinstance(value, NDArray):
        return value.numpy()
    if isinstance(value, (tuple, list)):
        return tuple(_plain(item) for item in cast("tuple[Any, ...]", value))
    return np.asarray(value)
