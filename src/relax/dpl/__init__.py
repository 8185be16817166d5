"""Dataflow patterns: match parts of a program and rewrite them.

`pattern` defines patterns and their constructor functions, `context` matches several related patterns in a block,
`rewrite` replaces matched expressions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..ir.tvm_names import answer_missing
from ..runtime.rooms import load_when_used
from ._homes import HOMES

if TYPE_CHECKING:
    from .constraints import SameShapeConstraint
    from .context import PatternContext
    from .pattern import (
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
        has_attr,
        has_dtype,
        is_call_dps_packed,
        is_call_packed,
        is_call_tir,
        is_const,
        is_dfv,
        is_expr,
        is_gv,
        is_op,
        is_shape,
        is_tuple,
        is_tuple_get_item,
        is_var,
        make_fused_bias_activation_pattern,
        make_residual_block_pattern,
        wildcard,
    )
    from .rewrite import rewrite_bindings, rewrite_call
    from .rewriter import ExprPatternRewriter, OrRewriter, PatternMatchingRewriter, TupleRewriter

__all__ = [
    "AndPattern", "AttrPattern", "CallPattern", "ConstantPattern", "DFPattern", "DataTypePattern",
    "DataflowVarPattern", "ExprPattern", "ExprPatternRewriter", "ExternFuncPattern", "FunctionPattern",
    "GlobalVarPattern", "NotPattern", "OrPattern", "OrRewriter", "PatternContext", "PatternMatchingRewriter",
    "PatternSeq", "PrimArrPattern", "SameShapeConstraint", "ShapePattern", "StructInfoPattern",
    "TupleGetItemPattern", "TuplePattern", "TupleRewriter", "UnorderedTuplePattern", "VarPattern",
    "WildcardPattern", "has_attr", "has_dtype", "is_call_dps_packed", "is_call_packed", "is_call_tir", "is_const",
    "is_dfv", "is_expr", "is_gv", "is_op", "is_shape", "is_tuple", "is_tuple_get_item", "is_var",
    "make_fused_bias_activation_pattern", "make_residual_block_pattern", "rewrite_bindings", "rewrite_call",
    "wildcard",
]  # fmt: skip

load_when_used(__name__, HOMES)
answer_missing(__name__)
