"""The names of this package, by the module that defines them. Written by tools/make_homes.py."""

from __future__ import annotations

HOMES = {
    "..rewrite.visitor": "post_order_visit",
    ".compile_time": "computable_at_compile_time",
    ".derived": "check_derived",
    ".layout_transforms": "suggest_layout_transforms",
    ".memory": "MemoryPlan estimate_memory_usage memory_plan",
    ".nodes": "check_nodes",
    ".normal_form": "check_normal_form is_normal_form",
    ".purity": "contains_impure_call detect_recursion find_impure_call",
    ".reshape": "has_reshape_pattern",
    ".struct_info": "BaseCheckResult derive_call_ret_struct_info derive_func_ret_struct_info erase_to_well_defined "
        "get_static_struct_info has_symbolic_shape struct_info_base_check struct_info_lca",
    ".unused": "remove_all_unused",
    ".variables": "all_bindings all_global_vars all_symbolic_vars all_vars bound_symbolic_vars bound_vars "
        "called_global_vars definable_tir_vars_in_struct_info defined_symbolic_vars free_symbolic_vars "
        "free_vars get_var2val name_to_binding shape_vars tir_vars_in_struct_info udchain",
    ".well_formed": "assert_well_formed check_normalized check_well_formed well_formed",
}
