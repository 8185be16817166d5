"""The names of this package, by the module that defines them. Written by tools/make_homes.py."""

from __future__ import annotations

HOMES = {
    ".analyzer": "Analyzer ConstIntBound ModularSet Verdict const_int_bound facts_in_scope implies prove prove_equal "
        "prove_shape_equal simplify",
    ".evaluate": "evaluate",
    ".expr": "ARITHMETIC Add And BinaryExpr COMPARISONS Call Cast CompareExpr Div EQ ExprLike FloatImm FloorDiv "
        "FloorMod GE GT IntImm LE LT Let LogicExpr Max Min Mod Mul NE Not Or PrimExpr Select SizeVar "
        "StringImm Sub Var cast const convert dimension dimensions is_const mark_nonnegative match_dtypes "
        "promote same",
    ".functor": "free_vars map_expressions post_order rewrite sub_expressions substitute uses",
    ".iter_divide": "subspace_divide",
    ".iter_expr": "IterMapExpr IterMapLevel IterMapResult IterMark IterSplitExpr IterSumExpr normalize_iter_map_to_expr",
    ".iter_map": "detect_iter_map inverse_affine_iter_map iter_map_simplify normalize_to_iter_sum",
}
