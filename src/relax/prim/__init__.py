"""Scalar expressions (PrimExpr) and the reasoning on them: substitute, evaluate, simplify, prove, bound.

The intrinsics' builders, whose names are those of Python's builtins or of `math`, are in `relax.prim.intrin`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..runtime.rooms import load_when_used
from . import cells, instructions, intrin
from ._homes import HOMES

if TYPE_CHECKING:
    from .analyzer import (
        Analyzer,
        ConstIntBound,
        ModularSet,
        Verdict,
        const_int_bound,
        facts_in_scope,
        implies,
        prove,
        prove_equal,
        prove_shape_equal,
        simplify,
    )
    from .evaluate import evaluate
    from .expr import (
        ARITHMETIC,
        COMPARISONS,
        EQ,
        GE,
        GT,
        LE,
        LT,
        NE,
        Add,
        And,
        BinaryExpr,
        Call,
        Cast,
        CompareExpr,
        Div,
        ExprLike,
        FloatImm,
        FloorDiv,
        FloorMod,
        IntImm,
        Let,
        LogicExpr,
        Max,
        Min,
        Mod,
        Mul,
        Not,
        Or,
        PrimExpr,
        Select,
        SizeVar,
        StringImm,
        Sub,
        Var,
        cast,
        const,
        convert,
        dimension,
        dimensions,
        is_const,
        mark_nonnegative,
        match_dtypes,
        promote,
        same,
    )
    from .functor import free_vars, map_expressions, post_order, rewrite, sub_expressions, substitute, uses
    from .iter_divide import subspace_divide
    from .iter_expr import (
        IterMapExpr,
        IterMapLevel,
        IterMapResult,
        IterMark,
        IterSplitExpr,
        IterSumExpr,
        normalize_iter_map_to_expr,
    )
    from .iter_map import detect_iter_map, inverse_affine_iter_map, iter_map_simplify, normalize_to_iter_sum

__all__ = [
    "ARITHMETIC", "COMPARISONS", "EQ", "GE", "GT", "LE", "LT", "NE", "Add", "Analyzer", "And", "BinaryExpr", "Call",
    "Cast", "CompareExpr", "ConstIntBound", "Div", "ExprLike", "FloatImm", "FloorDiv", "FloorMod", "IntImm",
    "IterMapExpr", "IterMapLevel", "IterMapResult", "IterMark", "IterSplitExpr", "IterSumExpr", "Let", "LogicExpr",
    "Max", "Min", "Mod", "ModularSet", "Mul", "Not", "Or", "PrimExpr", "Select", "SizeVar", "StringImm", "Sub",
    "Var", "Verdict", "cast", "cells", "const", "const_int_bound", "convert", "detect_iter_map", "dimension",
    "dimensions", "evaluate", "facts_in_scope", "free_vars", "implies", "instructions", "intrin",
    "inverse_affine_iter_map", "is_const", "iter_map_simplify", "map_expressions", "mark_nonnegative",
    "match_dtypes", "normalize_iter_map_to_expr", "normalize_to_iter_sum", "post_order", "promote", "prove",
    "prove_equal", "prove_shape_equal", "rewrite", "same", "simplify", "sub_expressions", "subspace_divide",
    "substitute", "uses",
]  # fmt: skip

load_when_used(__name__, HOMES)
