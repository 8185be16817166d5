"""The names of this package, by the module that defines them. Written by tools/make_homes.py."""

from __future__ import annotations

HOMES = {
    ".constraints": "SameShapeConstraint",
    ".context": "PatternContext",
    ".pattern": "AndPattern AttrPattern CallPattern ConstantPattern DFPattern DataTypePattern DataflowVarPattern "
        "ExprPattern ExternFuncPattern FunctionPattern GlobalVarPattern NotPattern OrPattern PatternSeq "
        "PrimArrPattern ShapePattern StructInfoPattern TupleGetItemPattern TuplePattern UnorderedTuplePattern "
        "VarPattern WildcardPattern has_attr has_dtype is_call_dps_packed is_call_packed is_call_tir is_const "
        "is_dfv is_expr is_gv is_op is_shape is_tuple is_tuple_get_item is_var "
        "make_fused_bias_activation_pattern make_residual_block_pattern wildcard",
    ".rewrite": "rewrite_bindings rewrite_call",
    ".rewriter": "ExprPatternRewriter OrRewriter PatternMatchingRewriter TupleRewriter",
}
