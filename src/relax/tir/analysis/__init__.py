"""Analyses of scalar expressions, statements and PrimFuncs, under TVM's names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...ir import structural_equal
from ...ir.tvm_names import answer_missing
from ...prim import PrimExpr
from ...runtime.rooms import load_when_used
from ._homes import HOMES

if TYPE_CHECKING:
    from ..usage import undefined_vars
    from ..well_formed import verify_well_formed
    from .access import detect_buffer_access_lca, get_block_access_region, get_block_read_write_region
    from .blocks import find_anchor_block, has_if_then_else, is_output_block
    from .effects import CallEffectKind, assert_pure_function, is_pure_function, side_effect
    from .flops import estimate_tir_flops
    from .memory import calculate_allocated_bytes, calculate_workspace_bytes
    from .operation_counts import operation_count
    from .ssa import verify_ssa


def expr_deep_equal(lhs: PrimExpr, rhs: PrimExpr) -> bool:
    """True if two expressions have the same structure and the same variables."""
    return structural_equal(lhs, rhs)


__all__ = [
    "CallEffectKind", "assert_pure_function", "calculate_allocated_bytes", "calculate_workspace_bytes",
    "detect_buffer_access_lca", "estimate_tir_flops", "expr_deep_equal", "find_anchor_block",
    "get_block_access_region", "get_block_read_write_region", "has_if_then_else", "is_output_block",
    "is_pure_function", "operation_count", "side_effect", "undefined_vars", "verify_ssa", "verify_well_formed",
]  # fmt: skip

load_when_used(__name__, HOMES)
answer_missing(__name__)
