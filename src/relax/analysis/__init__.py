"""Analyses of a program: well-formedness, variables, purity, recursion, aliases, effects, memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..ir.tvm_names import answer_missing
from ..runtime.rooms import load_when_used
from ._homes import HOMES

if TYPE_CHECKING:
    from ..rewrite.visitor import post_order_visit
    from .compile_time import computable_at_compile_time
    from .derived import check_derived
    from .layout_transforms import suggest_layout_transforms
    from .memory import MemoryPlan, estimate_memory_usage, memory_plan
    from .nodes import check_nodes
    from .normal_form import check_normal_form, is_normal_form
    from .purity import contains_impure_call, detect_recursion, find_impure_call
    from .reshape import has_reshape_pattern
    from .struct_info import (
        BaseCheckResult,
        derive_call_ret_struct_info,
        derive_func_ret_struct_info,
        erase_to_well_defined,
        get_static_struct_info,
        has_symbolic_shape,
        struct_info_base_check,
        struct_info_lca,
    )
    from .unused import remove_all_unused
    from .variables import (
        all_bindings,
        all_global_vars,
        all_symbolic_vars,
        all_vars,
        bound_symbolic_vars,
        bound_vars,
        called_global_vars,
        definable_tir_vars_in_struct_info,
        defined_symbolic_vars,
        free_symbolic_vars,
        free_vars,
        get_var2val,
        name_to_binding,
        shape_vars,
        tir_vars_in_struct_info,
        udchain,
    )
    from .well_formed import assert_well_formed, check_normalized, check_well_formed, well_formed

__all__ = [
    "BaseCheckResult", "MemoryPlan", "all_bindings", "all_global_vars", "all_symbolic_vars", "all_vars",
    "assert_well_formed", "bound_symbolic_vars", "bound_vars", "called_global_vars", "check_derived", "check_nodes",
    "check_normal_form", "check_normalized", "check_well_formed", "computable_at_compile_time",
    "contains_impure_call", "definable_tir_vars_in_struct_info", "defined_symbolic_vars",
    "derive_call_ret_struct_info", "derive_func_ret_struct_info", "detect_recursion", "erase_to_well_defined",
    "estimate_memory_usage", "find_impure_call", "free_symbolic_vars", "free_vars", "get_static_struct_info",
    "get_var2val", "has_reshape_pattern", "has_symbolic_shape", "is_normal_form", "memory_plan", "name_to_binding",
    "post_order_visit", "remove_all_unused", "shape_vars", "struct_info_base_check", "struct_info_lca",
    "suggest_layout_transforms", "tir_vars_in_struct_info", "udchain", "well_formed",
]  # fmt: skip

load_when_used(__name__, HOMES)
answer_missing(__name__)
