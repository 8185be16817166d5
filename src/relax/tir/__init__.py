"""Tensor programs (TIR): loops, buffers and blocks, in functions (PrimFunc).

The scalar expressions of `relax.prim` are exported here too, under their TVM names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..ir.tvm_names import answer_missing
from ..runtime.rooms import load_when_used
from ._homes import HOMES

if TYPE_CHECKING:
    from ..prim import (
        EQ,
        GE,
        GT,
        LE,
        LT,
        NE,
        Add,
        And,
        Call,
        Cast,
        Div,
        FloatImm,
        FloorDiv,
        FloorMod,
        IntImm,
        Let,
        Max,
        Min,
        Mod,
        Mul,
        Not,
        Or,
        PrimExpr,
        Select,
        SizeVar,
        StringImm,
        Sub,
        Var,
        const,
        convert,
    )
    from ..prim.instructions import (
        dot_bf16,
        dot_s8s8,
        dot_s16s16,
        dot_u7s8,
        dot_u8s8,
        fma,
        prefetch,
        vector_reduce_add,
        vector_reduce_and,
        vector_reduce_max,
        vector_reduce_min,
        vector_reduce_mul,
        vector_reduce_or,
    )
    from ..prim.intrin import (
        abs,
        acos,
        acosh,
        address_of,
        all,
        any,
        asin,
        asinh,
        assume,
        atan,
        atan2,
        atanh,
        bitwise_and,
        bitwise_not,
        bitwise_or,
        bitwise_xor,
        call_extern,
        call_intrin,
        call_packed,
        call_pure_extern,
        cast,
        ceil,
        ceildiv,
        clz,
        copysign,
        cos,
        cosh,
        div,
        erf,
        erfc,
        exp,
        exp2,
        exp10,
        fabs,
        floor,
        floordiv,
        floormod,
        fmod,
        hypot,
        if_then_else,
        indexdiv,
        indexmod,
        infinity,
        is_pure,
        isfinite,
        isinf,
        isnan,
        likely,
        log,
        log1p,
        log2,
        log10,
        logical_not,
        max_value,
        min_value,
        nan,
        nearbyint,
        parallel_for,
        popcount,
        pow,
        power,
        reinterpret,
        ret,
        round,
        rsqrt,
        select,
        shift_left,
        shift_right,
        sigmoid,
        sin,
        sinh,
        sqrt,
        tan,
        tanh,
        trunc,
        truncdiv,
        truncmod,
        tvm_access_ptr,
        type_annotation,
        undef,
    )
    from . import analysis, schedule, stmt_functor, transform
    from .buffer import (
        Broadcast,
        Buffer,
        BufferLoad,
        BufferRegion,
        CommReducer,
        IterVar,
        Ramp,
        Range,
        Reduce,
        Shuffle,
        decl_buffer,
    )
    from .functor import StmtExprMutator, StmtExprVisitor, ir_transform, post_order_visit, pre_order_visit, substitute
    from .index_map import IndexMap
    from .interpret import interpret
    from .layout import BijectiveLayout, Layout, bijective_layout, layout
    from .py_functor import PyStmtExprMutator, PyStmtExprVisitor
    from .reduction import Reducer, comm_reducer, max, min, prod, sum
    from .regions import block_access_region
    from .renew import renew_bound_vars, renew_doubtful_sizes
    from .schedule import BlockRV, ExprRV, LoopRV, Schedule, ScheduleError
    from .specialize import specialize
    from .stmt import (
        AllocBuffer,
        AssertStmt,
        AttrStmt,
        Block,
        BlockRealize,
        BufferStore,
        DeclBuffer,
        Evaluate,
        For,
        ForKind,
        IfThenElse,
        LetStmt,
        MatchBufferRegion,
        Precondition,
        PrimFunc,
        SeqStmt,
        Stmt,
        While,
    )
    from .tensor_intrin import TensorIntrin
    from .transform.lower import lower
    from .usage import undefined_buffers, undefined_vars
    from .well_formed import verify_well_formed
    from .written import overlap_message, promised_apart, written_params

    explain: Callable[..., Any]

__all__ = [
    "EQ", "GE", "GT", "LE", "LT", "NE", "Add", "AllocBuffer", "And", "AssertStmt", "AttrStmt", "BijectiveLayout",
    "Block", "BlockRV", "BlockRealize", "Broadcast", "Buffer", "BufferLoad", "BufferRegion", "BufferStore", "Call",
    "Cast", "CommReducer", "DeclBuffer", "Div", "Evaluate", "ExprRV", "FloatImm", "FloorDiv", "FloorMod", "For",
    "ForKind", "IfThenElse", "IndexMap", "IntImm", "IterVar", "Layout", "Let", "LetStmt", "LoopRV",
    "MatchBufferRegion", "Max", "Min", "Mod", "Mul", "Not", "Or", "Precondition", "PrimExpr", "PrimFunc",
    "PyStmtExprMutator", "PyStmtExprVisitor", "Ramp", "Range", "Reduce", "Reducer", "Schedule", "ScheduleError",
    "Select", "SeqStmt", "Shuffle", "SizeVar", "Stmt", "StmtExprMutator", "StmtExprVisitor", "StringImm", "Sub",
    "TensorIntrin", "Var", "While", "abs", "acos", "acosh", "address_of", "all", "analysis", "any", "asin", "asinh",
    "assume", "atan", "atan2", "atanh", "bijective_layout", "bitwise_and", "bitwise_not", "bitwise_or",
    "bitwise_xor", "block_access_region", "call_extern", "call_intrin", "call_packed", "call_pure_extern", "cast",
    "ceil", "ceildiv", "clz", "comm_reducer", "const", "convert", "copysign", "cos", "cosh", "decl_buffer", "div",
    "dot_bf16", "dot_s8s8", "dot_s16s16", "dot_u7s8", "dot_u8s8", "erf", "erfc", "exp", "exp2", "exp10", "fabs",
    "floor", "floordiv", "floormod", "fma", "fmod", "hypot", "if_then_else", "indexdiv", "indexmod", "infinity",
    "interpret", "ir_transform", "is_pure", "isfinite", "isinf", "isnan", "layout", "likely", "log", "log1p",
    "log2", "log10", "logical_not", "lower", "max", "max_value", "min", "min_value", "nan", "nearbyint",
    "overlap_message", "parallel_for", "popcount", "post_order_visit", "pow", "power", "pre_order_visit",
    "prefetch", "prod", "promised_apart", "reinterpret", "renew_bound_vars", "renew_doubtful_sizes", "ret", "round",
    "rsqrt", "schedule", "select", "shift_left", "shift_right", "sigmoid", "sin", "sinh", "specialize", "sqrt",
    "stmt_functor", "substitute", "sum", "tan", "tanh", "transform", "trunc", "truncdiv", "truncmod",
    "tvm_access_ptr", "type_annotation", "undef", "undefined_buffers", "undefined_vars", "vector_reduce_add",
    "vector_reduce_and", "vector_reduce_max", "vector_reduce_min", "vector_reduce_mul", "vector_reduce_or",
    "verify_well_formed", "written_params",
]  # fmt: skip

load_when_used(__name__, {**HOMES, "..ir.provided": "explain"})
answer_missing(__name__)
