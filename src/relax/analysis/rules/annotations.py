"""Rules 10, 14–17, 19, 20 and 22: what struct info may say."""

from __future__ import annotations

from collections.abc import Iterator

from ...expr import ShapeExpr, Var
from ...info.text import prim_text, struct_info_text
from ...ir import DataType, RelaxExpr
from ...prim import IntImm
from ...struct_info import FuncStructInfo, PrimStructInfo, ShapeStructInfo, TensorStructInfo
from ..program import ProgramFacts
from .shape_vars import is_bound_later
from .violation import Violation

_BITS = {
    "int": (2, 4, 8, 16, 32, 64),
    "uint": (1, 2, 4, 8, 16, 32, 64),
    "float": (16, 32, 64),
    "bfloat": (16,),
    "bool": (1,),
    "handle": (64,),
}


def rule_10(program: ProgramFacts) -> Iterator[Violation]:
    """`ndim` agrees with the number of dimensions wherever both are given."""
    for item in program.annotations:
        match item.info:
            case TensorStructInfo(ShapeExpr(values)) | ShapeStructInfo(values) if values is not None:
                rank = item.info.ndim
                if rank != len(values):
                    yield Violation(
                        10, f"ndim is {rank}, and the shape has {len(values)} dimensions", item.place, "leave ndim out"
                    )
            case TensorStructInfo(ndim=ndim) | ShapeStructInfo(ndim=ndim) if not -1 <= ndim < 2**31:
                yield Violation(10, f"ndim is {ndim}, which is no number of dimensions", item.place, "leave ndim out")
            case _:
                pass


def rule_14(program: ProgramFacts) -> Iterator[Violation]:
    """A tensor annotation's shape is a Var in scope, holding a shape, or a ShapeExpr over variables in scope."""
    yield from _unbound(program, 14, "tensor", "tensor annotation")
    for holder in program.shape_holders:
        problem = _holder_problem(holder.shape, holder.info, holder.visible)
        if problem:
            yield Violation(
                14,
                f"the shape of a tensor annotation is {problem}",
                holder.place,
                "write the dimensions, or a variable in scope that holds a shape of as many",
            )
    for item in program.annotations:
        match item.info:
            case TensorStructInfo(ShapeExpr(values)):
                for d, size in enumerate(values):
                    if isinstance(size, IntImm) and size.value < 0:
                        message = f"dimension {d} of a tensor annotation is {size.value}, and no size is negative"
                        yield Violation(14, message, item.place, "sizes are 0 or more")
            case _:
                pass


def _holder_problem(shape: RelaxExpr, info: TensorStructInfo, visible: bool) -> str:
    if not isinstance(shape, Var):
        return f"a {type(shape).__name__}, expected dimensions or a variable"
    name = shape.name_hint
    if not visible:
        return f"{name}, which is not bound here"
    described = shape.struct_info_
    if described is None:
        return ""
    if not isinstance(described, ShapeStructInfo):
        return f"{name}, which holds {struct_info_text(described)}, expected a shape"
    if -1 not in (described.ndim, info.ndim) and described.ndim != info.ndim:
        return f"{name}, which has {described.ndim} dimensions, and ndim is {info.ndim}"
    return ""


def rule_15(program: ProgramFacts) -> Iterator[Violation]:
    """The values of a shape annotation are over variables in scope."""
    yield from _unbound(program, 15, "shape", "shape annotation")


def rule_16(program: ProgramFacts) -> Iterator[Violation]:
    """The value of a prim annotation is over variables in scope."""
    yield from _unbound(program, 16, "prim", "prim annotation")


def _unbound(program: ProgramFacts, rule: int, position: str, user: str) -> Iterator[Violation]:
    for use in program.shape_uses:
        if use.position == position and not is_bound_later(program, use):
            name = use.var.name
            yield Violation(
                rule,
                f"a {user} uses the shape variable {name}, which is not bound here",
                use.place,
                f"only R.match_cast and parameters bind {name}, where it stands alone in a dimension",
            )


def rule_17(program: ProgramFacts) -> Iterator[Violation]:
    """FuncStructInfo has exactly one of `params` and `derive_func`."""
    for item in program.annotations:
        if isinstance(item.info, FuncStructInfo):
            both = item.info.params is not None and item.info.derive_func is not None
            if both or (item.info.params is None and item.info.derive_func is None):
                present = "both" if both else "neither"
                yield Violation(
                    17,
                    f"a function's struct info has either params or derive_func, found {present}",
                    item.place,
                    "params for a closure, derive_func for a packed function",
                )


def rule_19(program: ProgramFacts) -> Iterator[Violation]:
    """PrimStructInfo's dtype is an int, uint or float type."""
    for item in program.annotations:
        if isinstance(item.info, PrimStructInfo):
            dtype = item.info.dtype
            if dtype.is_void or dtype.is_handle:
                shown = str(dtype) or "void"
                yield Violation(
                    19,
                    f"a prim annotation has dtype {shown}, expected an int, uint or float type",
                    item.place,
                    "R.Object describes a value that is no number",
                )


def rule_20(program: ProgramFacts) -> Iterator[Violation]:
    """dtypes are the supported ones, with one lane."""
    for dtype, place in program.dtypes:
        problem = _dtype_problem(dtype)
        if problem:
            yield Violation(20, f"the dtype {dtype!s} {problem}", place, _dtype_hint(dtype))


def _dtype_problem(dtype: DataType) -> str:
    if dtype.is_void:
        return ""
    if dtype.lanes != 1:
        return f"has {dtype.lanes} lanes; in Relax a dtype has one"
    if dtype.code in _BITS and dtype.bits not in _BITS[dtype.code]:
        widths = ", ".join(map(str, _BITS[dtype.code]))
        return f"is not supported; widths of {dtype.code} are {widths}"
    return ""


def _dtype_hint(dtype: DataType) -> str:
    if dtype.lanes != 1:
        return "vectors belong to loops (TIR); a tensor holds their elements one by one"
    return "take the next wider one"


def rule_22(program: ProgramFacts) -> Iterator[Violation]:
    """PrimStructInfo.value's dtype equals its dtype."""
    for item in program.annotations:
        match item.info:
            case PrimStructInfo(dtype, value) if value is not None and value.dtype != dtype:
                text = prim_text(value)
                yield Violation(
                    22,
                    f"a prim annotation has dtype {dtype!s}, and its value {text} is {value.dtype!s}",
                    item.place,
                    "cast the value",
                )
            case _:
                pass
