"""The names of this package, by the module that defines them. Written by tools/make_homes.py."""

from __future__ import annotations

HOMES = {
    ".analysis:": "analysis",
    ".arith:": "arith",
    ".backend.codegen": "register_codegen",
    ".backend:": "backend",
    ".binding_rewrite": "DataflowBlockRewrite",
    ".binding_rewrite:": "binding_rewrite",
    ".block_builder": "BlockBuilder",
    ".codegen:": "codegen",
    ".dpl:": "dpl",
    ".expr": "Binding BindingBlock Call Constant DataTypeImm DataflowBlock DataflowVar Expr ExprWithOp ExternFunc "
        "Function If MatchCast PrimValue SeqExpr ShapeExpr StringImm Tuple TupleGetItem Var VarBinding const "
        "extern",
    ".expr:": "expr",
    ".expr_functor": "ExprFunctor",
    ".expr_functor:": "expr_functor",
    ".interpreter": "interpret",
    ".interpreter:": "interpreter",
    ".ir": "DataType DiagnosticError GlobalVar IRModule Op StructInfo TVMError=DiagnosticError VDevice "
        "instrument",
    ".ir.codes": "explain",
    ".ir:": "ir",
    ".library:": "library",
    ".op": "call_dps_packed call_pure_packed call_tir call_tir_inplace call_tir_with_grad",
    ".op.shape": "get_shape_of",
    ".op:": "op",
    ".optimize": "pipeline",
    ".optimize.pipeline": "get_pipeline register_pipeline",
    ".optimize:": "optimize",
    ".prim:": "prim",
    ".rewrite.visitor": "ExprMutator ExprVisitor PyExprMutator PyExprVisitor",
    ".schedules:": "schedules",
    ".script:": "script",
    ".struct_info": "FuncStructInfo ObjectStructInfo PrimStructInfo ShapeStructInfo TensorStructInfo TupleStructInfo",
    ".struct_info:": "struct_info",
    ".target:": "target",
    ".te:": "te",
    ".tir:": "tir",
    ".topi:": "topi",
    ".transform.quantize_weights": "quantize_weights",
    ".transform:": "transform",
    ".utils:": "utils",
    ".vm": "build compile eager find_nan",
    ".vm:": "vm",
}
