"""Calls of the support code of compiled Relax functions (`relax.codegen.support.cells`), and numbers both know."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from ..runtime.native import CELLS
from .builder import ModuleBuilder

TABLE_MARK: Final = 0x52454C58
"""Upper half of a table's second word; it distinguishes tables from objects of tvm-ffi."""
INNER_CALL: Final = 0x52454C44
"""Reserved type index in the result cell by which a compiled function marks a call of another."""


class Passed(IntEnum):
    """Non-constant arguments of `call_with`: codes that stand in its table in place of a type index."""

    REGISTER = -1
    CELL = -2
    POINTER = -3


class Refused(IntEnum):
    """Results of `run` for calls that are rejected by the function itself, which sets the error."""

    MISCOUNTED = 1
    LONELY = 2


#: functions that compiled functions call, by name: the result's type and those of the parameters
FUNCTIONS: Final[dict[str, tuple[str, str]]] = {
    "reset": ("void", "ptr"),
    "set": ("void", "ptr, ptr"),
    "call": ("i32", "ptr, ptr, i32, ptr"),
    "call_with": ("i32", "ptr, ptr, ptr, ptr, ptr, ptr"),
    "run": ("i32", "ptr, ptr, i32, ptr, ptr, ptr"),
    "plain": ("i1", "ptr"),
    **{f"fits_{check}": ("i1", "ptr, ptr, ptr, ptr") for check in ("tensor", "shape", "scalar", "tuple", "same_sizes")},
    "keep_apart": ("void", "ptr, i64, i64"),
    "dim": ("i64", "ptr, i64"),
    "field": ("i1", "ptr, ptr, i64"),
    "truth": ("i32", "ptr"),
    "make_tensor": ("i32", "ptr, ptr, ptr, i32, i32, ptr"),
    "make_storage": ("i32", "ptr, ptr, ptr, ptr, i64"),
    "make_view": ("i32", "ptr, ptr, ptr, i64, i32, i32, ptr"),
    "make_reshaped": ("i32", "ptr, ptr, ptr, i32, ptr"),
    "make_copy": ("i32", "ptr, ptr, ptr"),
    "make_shape": ("i32", "ptr, ptr, i32, ptr"),
    "locate": ("void", "ptr, ptr, i32"),
}


def cell_function(module: ModuleBuilder, name: str) -> tuple[str, str]:
    """Result type and symbol of a function of the support code."""
    result, parameters = FUNCTIONS[name]
    return result, module.declare(f"{CELLS}{name}", result, parameters)
