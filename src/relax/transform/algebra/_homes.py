"""The module of each name of this package. Written by tools/make_homes.py."""

from __future__ import annotations

HOMES = {
    "AdjustMatmulOrder": ".adjust_matmul_order",
    "CombineParallelMatmul": ".combine_parallel_matmul",
    "DecomposeOpsForInference": ".decompose_ops",
    "DecomposeOpsForTraining": ".decompose_ops",
    "ExpandMatmulOfSum": ".expand_matmul_of_sum",
    "OptimizeLayoutTransform": ".optimize_layout_transform",
    "RemoveRedundantReshape": ".remove_redundant_reshape",
    "ReorderPermuteDimsAfterConcat": ".reorder_permute_dims_after_concat",
    "ReorderTakeAfterMatmul": ".reorder_take_after_matmul",
    "TopologicalSort": ".topological_sort",
}
