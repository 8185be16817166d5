"""Reasoning about integers under TVM's names (``tvm.arith``), on the one prover of `relax.prim`.

`Analyzer` simplifies, proves and bounds. Affine iteration maps are in `relax.prim.iter_map` and `iter_divide`; this
package has integer sets, buffer regions, and solvers of linear systems.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..ir.tvm_names import answer_missing
from ..runtime.rooms import load_when_used
from ._homes import HOMES

if TYPE_CHECKING:
    from ..prim import (
        ConstIntBound,
        IterMapExpr,
        IterMapLevel,
        IterMapResult,
        IterMark,
        IterSplitExpr,
        IterSumExpr,
        ModularSet,
        detect_iter_map,
        inverse_affine_iter_map,
        iter_map_simplify,
        normalize_iter_map_to_expr,
        normalize_to_iter_sum,
        subspace_divide,
    )
    from .bound import deduce_bound
    from .int_set import Analyzer, IntervalSet, IntSet, neg_inf, pos_inf
    from .int_solver import IntConstraints, IntConstraintsTransform, solve_linear_equations, solve_linear_inequalities
    from .pattern import detect_clip_bound, detect_linear_equation
    from .region import (
        domain_touched,
        estimate_region_lower_bound,
        estimate_region_strict_bound,
        estimate_region_upper_bound,
    )

__all__ = [
    "Analyzer", "ConstIntBound", "IntConstraints", "IntConstraintsTransform", "IntSet", "IntervalSet",
    "IterMapExpr", "IterMapLevel", "IterMapResult", "IterMark", "IterSplitExpr", "IterSumExpr", "ModularSet",
    "deduce_bound", "detect_clip_bound", "detect_iter_map", "detect_linear_equation", "domain_touched",
    "estimate_region_lower_bound", "estimate_region_strict_bound", "estimate_region_upper_bound",
    "inverse_affine_iter_map", "iter_map_simplify", "neg_inf", "normalize_iter_map_to_expr",
    "normalize_to_iter_sum", "pos_inf", "solve_linear_equations", "solve_linear_inequalities", "subspace_divide",
]  # fmt: skip

load_when_used(__name__, HOMES)
answer_missing(__name__)
