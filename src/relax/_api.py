"""Every public name of the compiler; `relax/__init__.py` loads this module when one of them is first asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._homes import HOMES
from .runtime.rooms import load_when_used

if TYPE_CHECKING:
    from . import (
        analysis,
        arith,
        backend,
        binding_rewrite,
        codegen,
        dpl,
        expr,
        expr_functor,
        interpreter,
        ir,
        library,
        op,
        optimize,
        prim,
        schedules,
        script,
        struct_info,
        target,
        te,
        tir,
        topi,
        transform,
        tune,
        utils,
        vm,
    )
    from .backend.codegen import register_codegen
    from .binding_rewrite import DataflowBlockRewrite
    from .block_builder import BlockBuilder
    from .expr import (
        Binding,
        BindingBlock,
        Call,
        Constant,
        DataflowBlock,
        DataflowVar,
        DataTypeImm,
        Expr,
        ExprWithOp,
        ExternFunc,
        Function,
        If,
        MatchCast,
        PrimValue,
        SeqExpr,
        ShapeExpr,
        StringImm,
        Tuple,
        TupleGetItem,
        Var,
        VarBinding,
        const,
        extern,
    )
    from .expr_functor import ExprFunctor
    from .interpreter import interpret
    from .ir import DataType, DiagnosticError, GlobalVar, IRModule, Op, StructInfo, VDevice, instrument
    from .ir import DiagnosticError as TVMError
    from .ir.codes import explain
    from .op import call_dps_packed, call_pure_packed, call_tir, call_tir_inplace, call_tir_with_grad
    from .op.shape import get_shape_of
    from .optimize import pipeline
    from .optimize.pipeline import get_pipeline, register_pipeline
    from .rewrite.visitor import ExprMutator, ExprVisitor, PyExprMutator, PyExprVisitor
    from .struct_info import (
        FuncStructInfo,
        ObjectStructInfo,
        PrimStructInfo,
        ShapeStructInfo,
        TensorStructInfo,
        TupleStructInfo,
    )
    from .transform.quantize_weights import quantize_weights
    from .vm import build, compile, eager, find_nan

__all__ = [
    "Binding", "BindingBlock", "BlockBuilder", "Call", "Constant", "DataType", "DataTypeImm", "DataflowBlock",
    "DataflowBlockRewrite", "DataflowVar", "DiagnosticError", "Expr", "ExprFunctor", "ExprMutator", "ExprVisitor",
    "ExprWithOp", "ExternFunc", "FuncStructInfo", "Function", "GlobalVar", "IRModule", "If", "MatchCast",
    "ObjectStructInfo", "Op", "PrimStructInfo", "PrimValue", "PyExprMutator", "PyExprVisitor", "SeqExpr",
    "ShapeExpr", "ShapeStructInfo", "StringImm", "StructInfo", "TVMError", "TensorStructInfo", "Tuple",
    "TupleGetItem", "TupleStructInfo", "VDevice", "Var", "VarBinding", "analysis", "arith", "backend",
    "binding_rewrite", "build", "call_dps_packed", "call_pure_packed", "call_tir", "call_tir_inplace",
    "call_tir_with_grad", "codegen", "compile", "const", "dpl", "eager", "explain", "expr", "expr_functor",
    "extern", "find_nan", "get_pipeline", "get_shape_of", "instrument", "interpret", "interpreter", "ir", "library",
    "op", "optimize", "pipeline", "prim", "quantize_weights", "register_codegen", "register_pipeline", "schedules",
    "script", "struct_info", "target", "te", "tir", "topi", "transform", "tune", "utils", "vm",
]  # fmt: skip

load_when_used(__name__, HOMES)
