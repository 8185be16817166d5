"""Constructor functions of patterns: ``is_op("relax.nn.relu")(wildcard())``.

The pattern classes are in `relax.dpl.classes`, and are exported here for TVM's import path.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..ir import Op, RelaxExpr
from .classes import (
    AndPattern,
    AttrPattern,
    CallPattern,
    ConstantPattern,
    DataflowVarPattern,
    DataTypePattern,
    DFPattern,
    ExprPattern,
    ExternFuncPattern,
    FunctionPattern,
    GlobalVarPattern,
    NotPattern,
    OrPattern,
    PatternSeq,
    PrimArrPattern,
    ShapePattern,
    StructInfoPattern,
    TupleGetItemPattern,
    TuplePattern,
    UnorderedTuplePattern,
    VarPattern,
    WildcardPattern,
)
from .constraints import SameShapeConstraint

__all__ = [
    "AndPattern",
    "AttrPattern",
    "CallPattern",
    "ConstantPattern",
    "DFPattern",
    "DataTypePattern",
    "DataflowVarPattern",
    "ExprPattern",
    "ExternFuncPattern",
    "FunctionPattern",
    "GlobalVarPattern",
    "NotPattern",
    "OrPattern",
    "PatternSeq",
    "PrimArrPattern",
    "SameShapeConstraint",
    "ShapePattern",
    "StructInfoPattern",
    "TupleGetItemPattern",
    "TuplePattern",
    "UnorderedTuplePattern",
    "VarPattern",
    "WildcardPattern",
    "has_attr",
    "has_dtype",
    "is_call_dps_packed",
    "is_call_packed",
    "is_call_tir",
    "is_const",
    "is_dfv",
    "is_expr",
    "is_gv",
    "is_op",
    "is_shape",
    "is_tuple",
    "is_tuple_get_item",
    "is_var",
    "make_fused_bias_activation_pattern",
    "make_residual_block_pattern",
    "wildcard",
]


def wildcard() -> WildcardPattern:
    """Any expression."""
    return WildcardPattern()


def is_var(name: str = "") -> VarPattern:
    """A variable, of this name if it is not empty."""
    return VarPattern(name)


def is_gv(name: str = "") -> GlobalVarPattern:
    """A function of the module, of this name if it is not empty."""
    return GlobalVarPattern(name)


def is_dfv(name: str = "") -> DataflowVarPattern:
    """A dataflow variable, of this name if it is not empty."""
    return DataflowVarPattern(name)


def is_const() -> ConstantPattern:
    """A tensor constant."""
    return ConstantPattern()


def is_expr(expr: RelaxExpr) -> ExprPattern:
    """An expression structurally equal to this one."""
    return ExprPattern(expr)


def is_op(op_name: str) -> ExprPattern:
    """An operator, by its full name: ``is_op("relax.nn.relu")(wildcard())``. Raises KeyError for an unknown one."""
    return ExprPattern(Op.get(op_name))


def is_tuple(fields: Sequence[DFPattern], unordered: bool = False) -> TuplePattern | UnorderedTuplePattern:
    """A tuple whose fields match in this order, or in any."""
    return UnorderedTuplePattern(fields) if unordered else TuplePattern(fields)


def is_tuple_get_item(tuple_value: DFPattern, index: int | None = None) -> TupleGetItemPattern:
    """A field of a tuple: that of this index, or any."""
    return TupleGetItemPattern(tuple_value, index)


def is_shape(shape: Sequence[Any]) -> PrimArrPattern:
    """A shape of these dimensions."""
    return PrimArrPattern(shape)


def has_attr(attrs: Mapping[str, Any], pattern: DFPattern | None = None) -> AttrPattern:
    """A call, operator or function with these attributes."""
    return AttrPattern(wildcard() if pattern is None else pattern, attrs)


def has_dtype(dtype: str, pattern: DFPattern | None = None) -> DataTypePattern:
    """A tensor or scalar of a dtype."""
    return DataTypePattern(wildcard() if pattern is None else pattern, dtype)


def is_call_tir(
    func_name: str, args: DFPattern | Sequence[DFPattern] | None = None, tir_vars: DFPattern | None = None
) -> CallPattern:
    """A call_tir of a PrimFunc of the module; without `args`, with any arguments."""
    rest = () if tir_vars is None else (tir_vars,)
    return is_op("relax.call_tir")(is_gv(func_name), _arguments(args), *rest)


def is_call_dps_packed(func_name: str, args: DFPattern | Sequence[DFPattern] | None = None) -> CallPattern:
    """A call_dps_packed of a packed function; without `args`, with any arguments."""
    return is_op("relax.call_dps_packed")(ExternFuncPattern(func_name), _arguments(args))


def is_call_packed(func_name: str, args: Sequence[DFPattern] | None = None) -> CallPattern:
    """A call of a packed function; without `args`, with any arguments."""
    callee = ExternFuncPattern(func_name)
    return callee(varg_default_wildcard=True) if args is None else callee(*args)


def _arguments(args: DFPattern | Sequence[DFPattern] | None) -> DFPattern:
    if isinstance(args, DFPattern):
        return args
    return wildcard() if args is None else TuplePattern(args)


def make_fused_bias_activation_pattern(
    op_name: str, with_bias: bool = False, activation: str | None = None, allow_reshape: bool = False
) -> DFPattern:
    """An operator of two operands, followed by an optional addition of a bias and an activation.

    With `allow_reshape` the result of the operator may be reshaped before the bias is added.
    """
    out: DFPattern = is_op(op_name)(wildcard(), wildcard())
    if with_bias:
        if allow_reshape:
            out = out | is_op("relax.reshape")(out, wildcard())
        out = is_op("relax.add")(out, wildcard())
    return out if activation is None else is_op(activation)(out)


def make_residual_block_pattern(
    node_output: DFPattern | tuple[DFPattern, Mapping[str, DFPattern]],
    residual_input: DFPattern | None = None,
    binary_op: str = "relax.add",
    activation: str | None = None,
) -> tuple[DFPattern, Mapping[str, DFPattern]]:
    """A residual block: a node's output and another value, combined by an operator, optionally with an activation."""
    names: Mapping[str, DFPattern] = {}
    if isinstance(node_output, tuple):
        output, names = node_output
    else:
        output = node_output
    residual = wildcard() if residual_input is None else residual_input
    joined: DFPattern = is_op(binary_op)(output, residual) | is_op(binary_op)(residual, output)
    if activation is not None:
        joined = is_op(activation)(joined)
    return joined, {**names, "residual": residual}
