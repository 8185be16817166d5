"""The names of this package, by the module that defines them. Written by tools/make_homes.py."""

from __future__ import annotations

HOMES = {
    "..prim": "Add And Call Cast Div EQ FloatImm FloorDiv FloorMod GE GT IntImm LE LT Let Max Min Mod Mul NE Not Or "
        "PrimExpr Select SizeVar StringImm Sub Var const convert",
    "..prim.instructions": "dot_bf16 dot_s16s16 dot_s8s8 dot_u7s8 dot_u8s8 fma prefetch vector_reduce_add vector_reduce_and "
        "vector_reduce_max vector_reduce_min vector_reduce_mul vector_reduce_or",
    "..prim.intrin": "abs acos acosh address_of all any asin asinh assume atan atan2 atanh bitwise_and bitwise_not "
        "bitwise_or bitwise_xor call_extern call_intrin call_packed call_pure_extern cast ceil ceildiv clz "
        "copysign cos cosh div erf erfc exp exp10 exp2 fabs floor floordiv floormod fmod hypot if_then_else "
        "indexdiv indexmod infinity is_pure isfinite isinf isnan likely log log10 log1p log2 logical_not "
        "max_value min_value nan nearbyint parallel_for popcount pow power reinterpret ret round rsqrt select "
        "shift_left shift_right sigmoid sin sinh sqrt tan tanh trunc truncdiv truncmod tvm_access_ptr "
        "type_annotation undef",
    ".analysis:": "analysis",
    ".buffer": "Broadcast Buffer BufferLoad BufferRegion CommReducer IterVar Ramp Range Reduce Shuffle decl_buffer",
    ".functor": "StmtExprMutator StmtExprVisitor ir_transform post_order_visit pre_order_visit substitute",
    ".index_map": "IndexMap",
    ".interpret": "interpret",
    ".layout": "BijectiveLayout Layout bijective_layout layout",
    ".py_functor": "PyStmtExprMutator PyStmtExprVisitor",
    ".reduction": "Reducer comm_reducer max min prod sum",
    ".regions": "block_access_region",
    ".renew": "renew_bound_vars renew_doubtful_sizes",
    ".schedule": "BlockRV ExprRV LoopRV Schedule ScheduleError",
    ".schedule:": "schedule",
    ".specialize": "specialize",
    ".stmt": "AllocBuffer AssertStmt AttrStmt Block BlockRealize BufferStore DeclBuffer Evaluate For ForKind "
        "IfThenElse LetStmt MatchBufferRegion Precondition PrimFunc SeqStmt Stmt While",
    ".stmt_functor:": "stmt_functor",
    ".tensor_intrin": "TensorIntrin",
    ".transform.lower": "lower",
    ".transform:": "transform",
    ".usage": "undefined_buffers undefined_vars",
    ".well_formed": "verify_well_formed",
    ".written": "overlap_message promised_apart written_params",
}
