"""The namespace `R` of scripts: struct info, values, statements, and every operator of `relax.op`."""

from __future__ import annotations

import builtins
import sys
from typing import Any

from ....expr import ExternFunc
from ..core import MacroDecorator, register_namespace
from .annotations import Callable_ as Callable
from .annotations import Object, Prim, Shape, Tensor, Tuple
from .decorator import func, function
from .emit import emit_te
from .operators import operator_member, operator_names
from .rewriter import rewriter
from .statements import dataflow, func_attr, func_ret_struct_info, match_cast, match_shape, output
from .values import (
    call_builtin_with_ctx,
    call_dps_packed,
    call_inplace_packed,
    call_packed,
    call_pure_packed,
    call_tir,
    call_tir_inplace,
    call_tir_with_grad,
    const,
    invoke_closure,
    invoke_pure_closure,
    make_closure,
    prim_value,
)
from .values import dtype_value as dtype
from .values import get_op as Op
from .values import make_call as Call
from .values import shape_value as shape
from .values import string as str
from .values import tuple_get_item as TupleGetItem
from .values import tuple_value as tuple

macro = MacroDecorator("R")
ShapeExpr = shape
outputs = output
"""Older name of `output`."""

__script_name__ = "R"

__all__ = [
    "Call",
    "Callable",
    "ExternFunc",
    "Object",
    "Op",
    "Prim",
    "Shape",
    "ShapeExpr",
    "Tensor",
    "Tuple",
    "TupleGetItem",
    "call_builtin_with_ctx",
    "call_dps_packed",
    "call_inplace_packed",
    "call_packed",
    "call_pure_packed",
    "call_tir",
    "call_tir_inplace",
    "call_tir_with_grad",
    "const",
    "dataflow",
    "dtype",
    "emit_te",
    "func",
    "func_attr",
    "func_ret_struct_info",
    "function",
    "invoke_closure",
    "invoke_pure_closure",
    "macro",
    "make_closure",
    "match_cast",
    "match_shape",
    "output",
    "outputs",
    "prim_value",
    "rewriter",
    "shape",
    "str",
    "tuple",
]  # fmt: skip


def __getattr__(name: builtins.str) -> Any:
    return operator_member(name)


def __dir__() -> list[builtins.str]:
    return sorted({*__all__, *operator_names()})


register_namespace(sys.modules[__name__])
