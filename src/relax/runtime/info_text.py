"""Parser of the text form of Info, in which compiled programs store the infos of closures.

    R.Callable((R.Tensor((n, slot(2)), dtype="float32"),), R.Tensor((2 * n,), dtype="float32"), True)

The text is what ``str`` of an Info gives; it is read by Python's own parser and never run.
"""

from __future__ import annotations

import ast
import functools
from typing import Any, Final

from .info import OPERATORS, Dim, FuncInfo, Info, ObjectInfo, PrimInfo, ShapeInfo, TensorInfo, TupleInfo

_BINARY: Final[dict[type[ast.operator], str]] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.FloorDiv: "//",
    ast.Mod: "%",
}


@functools.lru_cache(maxsize=1024)
def parse_info(text: str) -> Info:
    """The Info a text stands for. Raises ValueError if it stands for none."""
    try:
        return _info(ast.parse(text, mode="eval").body)
    except (SyntaxError, RecursionError):
        raise _malformed(text) from None


def _malformed(text: str) -> ValueError:
    return ValueError(f"not structural information: {text[:200]}")


def _info(node: ast.expr) -> Info:
    call = node if isinstance(node, ast.Call) else None
    name = _name(call.func if call is not None else node)
    args = call.args if call is not None else []
    options = {str(k.arg): k.value for k in call.keywords} if call is not None else {}
    match name:
        case "Object":
            return ObjectInfo()
        case "Prim":
            value = options.get("value")
            return PrimInfo(_text(args[0]), None if value is None else _dim(value))
        case "Shape":
            return ShapeInfo(_dims(args[0]), len(_items(args[0]))) if args else ShapeInfo(None, _rank(options))
        case "Tensor":
            dims = _dims(args[0]) if args else None
            dtype = _text(options["dtype"]) if "dtype" in options else ""
            device = _text(options["device"]) if "device" in options else ""
            return TensorInfo(dims, dtype, _rank(options) if dims is None else len(dims), device)
        case "Tuple":
            return TupleInfo(tuple(_info(arg) for arg in args))
        case "Callable":
            if not args:
                return FuncInfo(None, ObjectInfo(), False)
            params = tuple(_info(item) for item in _items(args[0]))
            return FuncInfo(params, _info(args[1]), bool(_literal(args[2])))
        case _:
            raise _malformed(ast.unparse(node))


def _name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else ""


def _literal(node: ast.expr) -> Any:
    return ast.literal_eval(node)


def _text(node: ast.expr) -> str:
    return str(_literal(node))


def _rank(options: dict[str, ast.expr]) -> int:
    return int(_literal(options["ndim"])) if "ndim" in options else -1


def _items(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.Tuple | ast.List):
        return node.elts
    raise _malformed(ast.unparse(node))


def _dims(node: ast.expr) -> tuple[Dim, ...]:
    return tuple(_dim(item) for item in _items(node))


def _dim(node: ast.expr) -> Dim:
    match node:
        case ast.Constant(int(value) | float(value)):
            return value
        case ast.UnaryOp(ast.USub(), ast.Constant(int(value) | float(value))):
            return -value
        case ast.Name(name):
            return name
        case ast.BinOp(left, op, right) if type(op) in _BINARY:
            return (_BINARY[type(op)], _dim(left), _dim(right))
        case ast.Call(ast.Name("float64"), [ast.Constant("inf" | "-inf" | "nan" as value)]):
            return float(value)
        case ast.Call(ast.Name("slot"), [ast.Constant(int(index))]):
            return ("slot", index)
        case ast.Call(ast.Name(name), args) if name in OPERATORS or name == "unknown":
            return (name, *map(_dim, args))
        case _:
            raise _malformed(ast.unparse(node))
