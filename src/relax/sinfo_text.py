"""Struct info and dimensions as short text, for messages: ``R.Tensor((n, 784), "float32")``.

Messages are written while programs are broken, so nothing here needs more than the node it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from .expr import ShapeExpr, Var
from .ir import RelaxExpr, StructInfo
from .ir.printing import plain
from .prim.expr import (
    BinaryExpr,
    Call,
    Cast,
    FloatImm,
    IntImm,
    Let,
    Not,
    PrimExpr,
    Select,
    StringImm,
)
from .prim.expr import Var as PrimVar
from .struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    TensorStructInfo,
    TupleStructInfo,
)

_PRECEDENCE = {
    "==": 1, "!=": 1, "<": 1, "<=": 1, ">": 1, ">=": 1,
    "+": 2, "-": 2, "*": 3, "/": 3, "//": 3, "%": 3,
}  # fmt: skip
_ATOM = 9
_FUNCTIONS = {
    "Min": "T.min",
    "Max": "T.max",
    "Mod": "T.truncmod",
    "And": "T.And",
    "Or": "T.Or",
}


def prim_text(expr: PrimExpr) -> str:
    """A scalar expression as one reads it: ``n * 4 + 1``."""
    return _prim(expr)[0]


def dims_text(values: Iterable[PrimExpr]) -> str:
    """Dimensions as a Python tuple: ``(n, 4)``, ``(n,)``, ``()``."""
    parts = [prim_text(value) for value in values]
    return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"


def _prim(expr: PrimExpr) -> tuple[str, int]:
    """The text, and how tightly its outermost operator binds."""
    match expr:
        case PrimVar(name):
            return name, _ATOM
        case IntImm(dtype, value):
            text = str(bool(value)) if dtype.is_bool else str(value)
            return text, _ATOM if value >= 0 else 2
        case FloatImm(_, value):
            return repr(value), _ATOM
        case StringImm(value):
            return repr(value), _ATOM
        case BinaryExpr():
            return _binary(expr)
        case Not(a):
            return f"T.Not({prim_text(a)})", _ATOM
        case Cast(dtype, value):
            return f'T.Cast("{dtype!s}", {prim_text(value)})', _ATOM
        case Select(condition, yes, no):
            return f"T.Select({prim_text(condition)}, {prim_text(yes)}, {prim_text(no)})", _ATOM
        case Let(var, value, body):
            return f"T.Let({prim_text(body)}, where={{{var.name}: {prim_text(value)}}})", _ATOM
        case Call(_, op, args):
            name = f"T.{expr.intrinsic}" if expr.intrinsic else getattr(op, "name_hint", "?")
            return f"{name}({', '.join(map(prim_text, args))})", _ATOM
        case _:
            return plain(expr), _ATOM


def _binary(expr: BinaryExpr) -> tuple[str, int]:
    level = _PRECEDENCE.get(expr.symbol)
    if level is None:
        name = _FUNCTIONS.get(type(expr).__name__, type(expr).__name__)
        return f"{name}({prim_text(expr.a)}, {prim_text(expr.b)})", _ATOM
    (left, left_level), (right, right_level) = _prim(expr.a), _prim(expr.b)
    if left_level < level:
        left = f"({left})"
    if right_level <= level and not (expr.symbol in "+*" and right_level == level and _same_symbol(expr)):
        right = f"({right})"
    return f"{left} {expr.symbol} {right}", level


def _same_symbol(expr: BinaryExpr) -> bool:
    return isinstance(expr.b, BinaryExpr) and expr.b.symbol == expr.symbol


def struct_info_text(info: StructInfo | None) -> str:
    """Struct info as it is written in TVMScript; `?` when it is not known."""
    writer = _WRITERS.get(type(info)) if info is not None else None
    if writer is None:
        return "?" if info is None else plain(info)
    return writer(info)


def _object(_: ObjectStructInfo) -> str:
    return "R.Object"


def _tensor(info: TensorStructInfo) -> str:
    parts: list[str] = []
    if info.shape is not None:
        parts.append(_shape(info.shape))
    if not info.dtype.is_void:
        parts.append(f'"{info.dtype!s}"' if parts else f'dtype="{info.dtype!s}"')
    if info.ndim != -1 and not isinstance(info.shape, ShapeExpr):
        parts.append(f"ndim={info.ndim}")
    if info.vdevice is not None:
        parts.append(f'vdevice="{info.vdevice.target}:{info.vdevice.vdevice_id}"')
    return f"R.Tensor({', '.join(parts)})"


def _shape(shape: RelaxExpr) -> str:
    match shape:
        case ShapeExpr(values):
            return dims_text(values)
        case Var(name):
            return name
        case _:
            return plain(shape)


def _shape_info(info: ShapeStructInfo) -> str:
    if info.values is not None:
        return f"R.Shape([{', '.join(map(prim_text, info.values))}])"
    return "R.Shape" if info.ndim == -1 else f"R.Shape(ndim={info.ndim})"


def _prim_info(info: PrimStructInfo) -> str:
    if info.value is not None:
        return f'R.Prim("{info.dtype!s}", value={prim_text(info.value)})'
    return f'R.Prim("{info.dtype!s}")'


def _tuple(info: TupleStructInfo) -> str:
    return f"R.Tuple({', '.join(map(struct_info_text, info.fields))})"


def _func(info: FuncStructInfo) -> str:
    purity = "" if info.purity else ", purity=False"
    if info.params is None:
        return f'R.PackedFunc(derive="{info.derive_func}"{purity})'
    params = ", ".join(map(struct_info_text, info.params))
    comma = "," if len(info.params) == 1 else ""
    return f"R.Callable(({params}{comma}), {struct_info_text(info.ret)}{purity})"


_WRITERS: dict[type, Callable[..., str]] = {
    ObjectStructInfo: _object,
    PrimStructInfo: _prim_info,
    ShapeStructInfo: _shape_info,
    TensorStructInfo: _tensor,
    TupleStructInfo: _tuple,
    FuncStructInfo: _func,
}

__all__ = ["dims_text", "prim_text", "struct_info_text"]
