"""The relations of struct info under the names TVM gives them."""

from __future__ import annotations

import enum

from ..block_builder import BlockBuilder
from ..derive.context import Scopes
from ..derive.rules import derive_call_ret_struct_info as _derive_call
from ..expr import Call, Expr
from ..info.mapping import shape_expressions, used_in
from ..info.relations import Level, check_compatible, erase_to_well_defined, struct_info_lca
from ..ir import StructInfo
from ..struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    TensorStructInfo,
    TupleStructInfo,
)


class BaseCheckResult(enum.IntEnum):
    """Degrees to which a base covers a value's struct info.

    FAIL_L0: no value is in both. FAIL_L1: its kind, rank or dtype is not known. FAIL_L2: only dimensions are open, and
    a run-time check decides. PASS: it is covered.
    """

    FAIL_L0 = 0
    FAIL_L1 = 1
    FAIL_L2 = 2
    PASS = 3


_RESULTS = {
    Level.DIFFERENT: BaseCheckResult.FAIL_L0,
    Level.MISSING: BaseCheckResult.FAIL_L1,
    Level.MISSING_SHAPE: BaseCheckResult.FAIL_L2,
    Level.UNPROVED: BaseCheckResult.FAIL_L2,
    Level.UNPLACED: BaseCheckResult.FAIL_L2,
    Level.SAME: BaseCheckResult.PASS,
}


def struct_info_base_check(base: StructInfo, derived: StructInfo) -> BaseCheckResult:
    """The degree to which `base` covers a value of struct info `derived`."""
    return _RESULTS[check_compatible(derived, base).level]


def derive_call_ret_struct_info(
    func_sinfo: FuncStructInfo, call: Call, ctx: BlockBuilder | Scopes | None = None
) -> StructInfo:
    """The struct info of a call of such a function. Raises DiagnosticError for arguments that do not fit."""
    return _derive_call(func_sinfo, call, ctx if ctx is not None else Scopes())


derive_func_ret_struct_info = derive_call_ret_struct_info


def get_static_struct_info(sinfo: StructInfo) -> StructInfo:
    """Struct info without shapes and values: what TVM calls the static type."""
    return _Static()(sinfo)


class _Static:
    """Static types, of each object once."""

    def __init__(self) -> None:
        self.done: dict[int, StructInfo] = {}

    def __call__(self, sinfo: StructInfo) -> StructInfo:
        cached = self.done.get(id(sinfo))
        if cached is None:
            cached = self.done[id(sinfo)] = _static(sinfo, self)
        return cached


def _static(sinfo: StructInfo, inside: _Static) -> StructInfo:
    match sinfo:
        case TensorStructInfo():
            return TensorStructInfo(None, sinfo.dtype, None, sinfo.ndim)
        case ShapeStructInfo():
            return ShapeStructInfo(ndim=sinfo.ndim)
        case PrimStructInfo(dtype):
            return PrimStructInfo(dtype)
        case TupleStructInfo(fields):
            return TupleStructInfo([inside(item) for item in fields])
        case FuncStructInfo(params, ret) if params is not None:
            inner = [inside(item) for item in params]
            return FuncStructInfo(inner, inside(ret), sinfo.purity)
        case FuncStructInfo():
            return sinfo
        case _:
            return ObjectStructInfo()


def has_symbolic_shape(expr: Expr) -> bool:
    """True if the struct info of an expression mentions a shape variable, or a shape that is a variable."""
    info = expr.struct_info
    return bool(used_in(info)) or next(shape_expressions(info), None) is not None


__all__ = [
    "BaseCheckResult",
    "derive_call_ret_struct_info",
    "derive_func_ret_struct_info",
    "erase_to_well_defined",
    "get_static_struct_info",
    "has_symbolic_shape",
    "struct_info_base_check",
    "struct_info_lca",
]
