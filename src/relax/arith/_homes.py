"""The names of this package, by the module that defines them. Written by tools/make_homes.py."""

from __future__ import annotations

HOMES = {
    "..prim": "ConstIntBound IterMapExpr IterMapLevel IterMapResult IterMark IterSplitExpr IterSumExpr ModularSet "
        "detect_iter_map inverse_affine_iter_map iter_map_simplify normalize_iter_map_to_expr "
        "normalize_to_iter_sum subspace_divide",
    ".bound": "deduce_bound",
    ".int_set": "Analyzer IntSet IntervalSet neg_inf pos_inf",
    ".int_solver": "IntConstraints IntConstraintsTransform solve_linear_equations solve_linear_inequalities",
    ".pattern": "detect_clip_bound detect_linear_equation",
    ".region": "domain_touched estimate_region_lower_bound estimate_region_strict_bound estimate_region_upper_bound",
}
