"""Passes that rewrite operators into others that compute the same: matrix products, moves of elements, decompositions.

None of them is in the default pipeline unless `relax.optimize.pipeline` names it: those that change the order in
which floats are added or multiplied are for a program's author to choose (language.md §7.2.1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...runtime.rooms import load_when_used
from ._homes import HOMES

if TYPE_CHECKING:
    from .adjust_matmul_order import AdjustMatmulOrder
    from .combine_parallel_matmul import CombineParallelMatmul
    from .decompose_ops import DecomposeOpsForInference, DecomposeOpsForTraining
    from .expand_matmul_of_sum import ExpandMatmulOfSum
    from .optimize_layout_transform import OptimizeLayoutTransform
    from .remove_redundant_reshape import RemoveRedundantReshape
    from .reorder_permute_dims_after_concat import ReorderPermuteDimsAfterConcat
    from .reorder_take_after_matmul import ReorderTakeAfterMatmul
    from .topological_sort import TopologicalSort

__all__ = [
    "AdjustMatmulOrder", "CombineParallelMatmul", "DecomposeOpsForInference", "DecomposeOpsForTraining",
    "ExpandMatmulOfSum", "OptimizeLayoutTransform", "RemoveRedundantReshape", "ReorderPermuteDimsAfterConcat",
    "ReorderTakeAfterMatmul", "TopologicalSort",
]  # fmt: skip

load_when_used(__name__, HOMES)
