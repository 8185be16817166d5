"""The names of this package, by the module that defines them. Written by tools/make_homes.py."""

from __future__ import annotations

HOMES = {
    ".adjust_matmul_order": "AdjustMatmulOrder",
    ".combine_parallel_matmul": "CombineParallelMatmul",
    ".decompose_ops": "DecomposeOpsForInference DecomposeOpsForTraining",
    ".expand_matmul_of_sum": "ExpandMatmulOfSum",
    ".optimize_layout_transform": "OptimizeLayoutTransform",
    ".remove_redundant_reshape": "RemoveRedundantReshape",
    ".reorder_permute_dims_after_concat": "ReorderPermuteDimsAfterConcat",
    ".reorder_take_after_matmul": "ReorderTakeAfterMatmul",
    ".topological_sort": "TopologicalSort",
}
