"""The namespace `T` of scripts: types, buffers, loops, blocks, and every scalar function."""

from __future__ import annotations

import sys
from typing import Any

from ....prim.expr import SizeVar, Var
from ....tir.buffer import Range
from ....tir.index_map import IndexMap
from ..core import MacroDecorator, register_namespace
from .buffers import Buffer_ as Buffer
from .buffers import alloc_buffer, alloc_var, allocate, match_buffer
from .buffers import decl_buffer_ as decl_buffer
from .decorator import prim_func
from .dtypes import DTYPE_NAMES, dtype_member, handle, ptr, size_var, var
from .dtypes import cast_ as cast
from .dtypes import cast_node as Cast
from .expressions import expression_members
from .loops import axis, grid, iter_var, parallel, serial, thread_binding, unroll, vectorized
from .statements import (
    Assert,
    allocate_const,
    attr,
    block,
    block_attr,
    buffer_store,
    env_thread,
    evaluate,
    func_attr,
    func_name,
    func_ret,
    init,
    launch_thread,
    let,
    meta_var,
    noalias,
    precondition,
    reads,
    target,
    where,
    writes,
)
from .statements import BufferLoad_ as BufferLoad
from .statements import Let_ as Let
from .statements import LetStmt_ as LetStmt
from .structs import struct

Ptr = ptr
index_map = IndexMap.from_func
macro = MacroDecorator("T")
sblock = block
sblock_attr = block_attr
sblock_alloc_buffer = alloc_buffer
unrolled = unroll

__script_name__ = "T"

__all__ = [
    "Assert", "Buffer", "BufferLoad", "Cast", "Let", "LetStmt", "Ptr", "Range", "SizeVar", "Var", "alloc_buffer",
    "alloc_var", "allocate", "allocate_const", "attr", "axis", "block", "block_attr", "buffer_store", "cast",
    "decl_buffer", "env_thread", "evaluate", "func_attr", "func_name", "func_ret", "grid", "handle", "index_map",
    "init", "iter_var", "launch_thread", "let", "macro", "match_buffer", "meta_var", "noalias", "parallel",
    "precondition", "prim_func", "ptr", "reads", "sblock", "sblock_alloc_buffer", "sblock_attr", "serial", "size_var",
    "struct", "target", "thread_binding", "unroll", "unrolled", "var", "vectorized", "where", "writes",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    attribute = expression_members().get(name)
    if attribute is None:
        attribute = dtype_member(name)
    if attribute is None:
        raise AttributeError(name)
    return attribute


def __dir__() -> list[str]:
    return sorted({*__all__, *DTYPE_NAMES, *expression_members()})


register_namespace(sys.modules[__name__])
