"""The module of each name of this package. Written by tools/make_homes.py."""

from __future__ import annotations

HOMES = {
    "CallEffectKind": ".effects",
    "assert_pure_function": ".effects",
    "calculate_allocated_bytes": ".memory",
    "calculate_workspace_bytes": ".memory",
    "detect_buffer_access_lca": ".access",
    "estimate_tir_flops": ".flops",
    "find_anchor_block": ".blocks",
    "get_block_access_region": ".access",
    "get_block_read_write_region": ".access",
    "has_if_then_else": ".blocks",
    "is_output_block": ".blocks",
    "is_pure_function": ".effects",
    "operation_count": ".operation_counts",
    "side_effect": ".effects",
    "undefined_vars": "..usage",
    "verify_ssa": ".ssa",
    "verify_well_formed": "..well_formed",
}
