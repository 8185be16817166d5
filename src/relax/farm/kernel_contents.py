"""Summaries of PrimFuncs: their size, and what besides them determines their code."""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

from ..ir import GlobalVar, Node, walk
from ..prim import Call, StringImm
from ..tir import AssertStmt, PrimFunc
from .kernel_text import MARK

_EXTERN: Final = ("call_extern", "call_pure_extern")
"""Intrinsics that call C functions, whose names must differ from those of the module's functions."""


class Contents(NamedTuple):
    """Summary of a PrimFunc's body."""

    callees: frozenset[str]
    """Names of the functions it calls; the empty name stands for C functions."""
    size: int
    """Number of nodes."""
    is_marked: bool
    """True if a text in it contains a mark of a name."""


@lru_cache(maxsize=128)
def contents_of(func: PrimFunc) -> Contents:
    """Summary of a PrimFunc's body."""
    names: set[str] = set()
    size = 0
    is_marked = False

    def see(node: Node) -> None:
        nonlocal size, is_marked
        size += 1
        if isinstance(node, GlobalVar):
            names.add(node.name_hint)
        elif isinstance(node, StringImm | AssertStmt):
            is_marked = is_marked or MARK in (node.value if isinstance(node, StringImm) else node.message)
        elif isinstance(node, Call) and node.intrinsic in _EXTERN:
            names.add("")

    walk(func.body, see)
    return Contents(frozenset(names), size, is_marked)
