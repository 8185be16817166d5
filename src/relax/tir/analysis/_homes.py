"""The names of this package, by the module that defines them. Written by tools/make_homes.py."""

from __future__ import annotations

HOMES = {
    "..usage": "undefined_vars",
    "..well_formed": "verify_well_formed",
    ".access": "detect_buffer_access_lca get_block_access_region get_block_read_write_region",
    ".blocks": "find_anchor_block has_if_then_else is_output_block",
    ".effects": "CallEffectKind assert_pure_function is_pure_function side_effect",
    ".flops": "estimate_tir_flops",
    ".memory": "calculate_allocated_bytes calculate_workspace_bytes",
    ".operation_counts": "operation_count",
    ".ssa": "verify_ssa",
}
