"""Struct info and dimensions as short text, for messages: ``R.Tensor((n, 784), "float32")``.

Messages are written while programs are broken, so nothing here needs more than the node it is given. They stay short:
of a node that takes many places to write, the inner parts are left out (`…`), however few objects there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ..expr import ShapeExpr, Var
from ..ir import Node, RelaxExpr, StructInfo
from ..ir.printing import plain
from ..ir.sharing import written_depth
from ..prim.expr import BinaryExpr, Call, Cast, FloatImm, IntImm, Let, Not, PrimExpr, Select, StringImm
from ..prim.expr import Var as PrimVar
from ..struct_info import (
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
_PLACES = 400
"""The most places of a node that a message shows."""
_ALL = 1 << 30
_OMITTED = "…"
_FUNCTIONS = {"Min": "T.min", "Max": "T.max", "Mod": "T.truncmod", "And": "T.And", "Or": "T.Or"}


def prim_text(expr: PrimExpr) -> str:
    """A scalar expression as one reads it: ``n * 4 + 1``."""
    return _prim(expr, _depth(expr))[0]


def dims_text(values: Iterable[PrimExpr]) -> str:
    """Dimensions as a Python tuple: ``(n, 4)``, ``(n,)``, ``()``."""
    return _tuple_text([prim_text(value) for value in values])


def _tuple_text(fields: list[str]) -> str:
    return f"({fields[0]},)" if len(fields) == 1 else f"({', '.join(fields)})"


def _depth(node: Node) -> int:
    """The number of levels of a node that are shown."""
    depth = written_depth(node, _PLACES)
    return _ALL if depth is None else depth


def _prim(expr: PrimExpr, depth: int) -> tuple[str, int]:
    """The text, and how tightly its outermost operator binds."""
    if depth <= 0:
        return _OMITTED, _ATOM

    def text(operand: PrimExpr) -> str:
        return _prim(operand, depth - 1)[0]

    match expr:
        case PrimVar(name):
            return name, _ATOM
        case IntImm(dtype, value):
            shown = str(bool(value)) if dtype.is_bool else str(value)
            return shown, _ATOM if value >= 0 else 2
        case FloatImm(_, value):
            return repr(value), _ATOM
        case StringImm(value):
            return repr(value), _ATOM
        case BinaryExpr():
            return _binary(expr, depth)
        case Not(a):
            return f"T.Not({text(a)})", _ATOM
        case Cast(dtype, value):
            return f'T.Cast("{dtype!s}", {text(value)})', _ATOM
        case Select(condition, yes, no):
            return f"T.Select({text(condition)}, {text(yes)}, {text(no)})", _ATOM
        case Let(var, value, body):
            return f"T.Let({text(body)}, where={{{var.name}: {text(value)}}})", _ATOM
        case Call(_, op, args):
            name = f"T.{expr.intrinsic}" if expr.intrinsic else getattr(op, "name_hint", "?")
            return f"{name}({', '.join(map(text, args))})", _ATOM
        case _:
            return plain(expr), _ATOM


def _binary(expr: BinaryExpr, depth: int) -> tuple[str, int]:
    (left, left_level), (right, right_level) = _prim(expr.a, depth - 1), _prim(expr.b, depth - 1)
    level = _PRECEDENCE.get(expr.symbol)
    if level is None:
        return f"{_FUNCTIONS.get(type(expr).__name__, type(expr).__name__)}({left}, {right})", _ATOM
    if left_level < level:
        left = f"({left})"
    if right_level <= level and not (expr.symbol in "+*" and right_level == level and _same_symbol(expr)):
        right = f"({right})"
    return f"{left} {expr.symbol} {right}", level


def _same_symbol(expr: BinaryExpr) -> bool:
    return isinstance(expr.b, BinaryExpr) and expr.b.symbol == expr.symbol


def struct_info_text(info: StructInfo | None) -> str:
    """Struct info as it is written in TVMScript; `?` when it is not known."""
    return "?" if info is None else _info(info, _depth(info))


def _info(info: StructInfo, depth: int) -> str:
    if depth <= 0:
        return _OMITTED
    writer = _WRITERS.get(type(info))
    return plain(info) if writer is None else writer(info, depth - 1)


def _object(_: ObjectStructInfo, depth: int) -> str:
    return "R.Object"


def _tensor(info: TensorStructInfo, depth: int) -> str:
    arguments: list[str] = []
    if info.shape is not None:
        arguments.append(_shape(info.shape, depth - 1))
    if not info.dtype.is_void:
        arguments.append(f'"{info.dtype!s}"' if arguments else f'dtype="{info.dtype!s}"')
    if info.ndim != -1 and not isinstance(info.shape, ShapeExpr):
        arguments.append(f"ndim={info.ndim}")
    if info.vdevice is not None:
        arguments.append(f'vdevice="{info.vdevice.target}:{info.vdevice.vdevice_id}"')
    return f"R.Tensor({', '.join(arguments)})"


def _shape(shape: RelaxExpr, depth: int) -> str:
    match shape:
        case ShapeExpr(values):
            return _tuple_text([_prim(value, depth)[0] for value in values])
        case Var(name):
            return name
        case _:
            return plain(shape)


def _shape_info(info: ShapeStructInfo, depth: int) -> str:
    if info.values is not None:
        return f"R.Shape([{', '.join(_prim(value, depth)[0] for value in info.values)}])"
    return "R.Shape" if info.ndim == -1 else f"R.Shape(ndim={info.ndim})"


def _prim_info(info: PrimStructInfo, depth: int) -> str:
    if info.value is not None:
        return f'R.Prim("{info.dtype!s}", value={_prim(info.value, depth)[0]})'
    return f'R.Prim("{info.dtype!s}")'


def _tuple(info: TupleStructInfo, depth: int) -> str:
    return f"R.Tuple({', '.join(_info(field, depth) for field in info.fields)})"


def _func(info: FuncStructInfo, depth: int) -> str:
    purity = "" if info.purity else ", purity=False"
    if info.params is None:
        return f'R.PackedFunc(derive="{info.derive_func}"{purity})'
    params = ", ".join(_info(param, depth) for param in info.params)
    comma = "," if len(info.params) == 1 else ""
    return f"R.Callable(({params}{comma}), {_info(info.ret, depth)}{purity})"


_WRITERS: dict[type, Callable[..., str]] = {
    ObjectStructInfo: _object,
    PrimStructInfo: _prim_info,
    ShapeStructInfo: _shape_info,
    TensorStructInfo: _tensor,
    TupleStructInfo: _tuple,
    FuncStructInfo: _func,
}
