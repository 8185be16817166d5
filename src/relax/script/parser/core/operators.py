"""Python's operators on the values of scripts: numbers, scalar expressions, Relax expressions.

Nothing is folded: the IR has the structure of the text.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final

from ....ir import RelaxExpr
from ....op.hooks import PYTHON_OPERATORS
from ....op.operator import public_function
from ....prim import expr as prim
from ....prim.expr import PrimExpr
from ....tir.buffer import Broadcast

PYTHON_BINARY: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "Add": lambda a, b: a + b,
    "Sub": lambda a, b: a - b,
    "Mult": lambda a, b: a * b,
    "Div": lambda a, b: a / b,
    "FloorDiv": lambda a, b: a // b,
    "Mod": lambda a, b: a % b,
    "Pow": lambda a, b: a**b,
    "LShift": lambda a, b: a << b,
    "RShift": lambda a, b: a >> b,
    "BitAnd": lambda a, b: a & b,
    "BitOr": lambda a, b: a | b,
    "BitXor": lambda a, b: a ^ b,
    "MatMult": lambda a, b: a @ b,
}

PYTHON_COMPARE: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "Eq": operator.eq, "NotEq": operator.ne, "Lt": operator.lt, "LtE": operator.le, "Gt": operator.gt,
    "GtE": operator.ge, "Is": operator.is_, "IsNot": operator.is_not, "In": lambda a, b: _contains(b, a),
    "NotIn": lambda a, b: not _contains(b, a),
}  # fmt: skip

SYMBOLS: Final[dict[str, str]] = {
    "Add": "+", "Sub": "-", "Mult": "*", "Div": "/", "FloorDiv": "//", "Mod": "%", "Pow": "**", "LShift":
    "<<", "RShift": ">>", "BitAnd": "&", "BitOr": "|", "BitXor": "^", "MatMult": "@", "Eq": "==", "NotEq":
    "!=", "Lt": "<", "LtE": "<=", "Gt": ">", "GtE": ">=", "Is": "is", "IsNot": "is not", "In": "in", "NotIn":
    "not in", "And": "and", "Or": "or", "Not": "not", "USub": "-", "UAdd": "+", "Invert": "~",
}  # fmt: skip

_PRIM: Final[dict[str, type[prim.BinaryExpr]]] = {
    "Add": prim.Add, "Sub": prim.Sub, "Mult": prim.Mul, "FloorDiv": prim.FloorDiv, "Mod": prim.FloorMod,
    "Eq": prim.EQ, "NotEq": prim.NE, "Lt": prim.LT, "LtE": prim.LE, "Gt": prim.GT, "GtE": prim.GE,
}  # fmt: skip

_BITWISE: Final[dict[str, str]] = {
    "BitAnd": "bitwise_and", "BitOr": "bitwise_or", "BitXor": "bitwise_xor", "LShift": "shift_left",
    "RShift": "shift_right",
}  # fmt: skip


def _contains(container: Any, value: Any) -> bool:
    """``value in container``. Containers with indexing only are rejected, as iterating over them may not end."""
    if not hasattr(container, "__contains__") and not hasattr(container, "__iter__"):
        raise TypeError(f"a {type(container).__name__} does not contain values")
    return value in container


def binary(name: str, a: Any, b: Any) -> Any:
    """``a <op> b``; `name` is the class of Python's operator node. Raises TypeError for unsupported operands."""
    a, b = as_operand(a), as_operand(b)
    if isinstance(a, RelaxExpr) or isinstance(b, RelaxExpr):
        return _relax_call(name, a, b)
    if isinstance(a, PrimExpr) or isinstance(b, PrimExpr):
        return _prim_binary(name, a, b)
    table = PYTHON_BINARY if name in PYTHON_BINARY else PYTHON_COMPARE
    return table[name](a, b)


def _relax_call(name: str, *operands: Any) -> Any:
    function = public_function(PYTHON_OPERATORS.get(name, ""))
    if function is None:
        raise TypeError(f"`{SYMBOLS[name]}` is not an operator of Relax")
    return function(*operands)


def _prim_binary(name: str, a: Any, b: Any) -> Any:
    if name in ("Is", "IsNot", "In", "NotIn"):
        return PYTHON_COMPARE[name](a, b)
    for side in (a, b):
        if not prim.is_expr_like(side):
            raise TypeError(f"expected a scalar expression, found {type(side).__name__}")
    a, b = of_one_width(a, b)
    if name in _PRIM:
        return prim.binary(_PRIM[name], a, b, fold=False)
    if name in _BITWISE:
        return prim.bitwise(_BITWISE[name], a, b)
    if name == "Div":
        a, b = prim.match_dtypes(a, b)
        if a.dtype.is_integer and b.dtype.is_integer:
            raise TypeError("integers divide in several ways; write a // b (floor) or T.truncdiv(a, b)")
        return prim.binary(prim.Div, a, b, fold=False)
    if name == "Pow":
        a, b = prim.match_dtypes(a, b)
        return prim.Call(a.dtype, "tir.pow", (a, b))
    raise TypeError(f"`{SYMBOLS[name]}` is not an operator of scalar expressions")


def of_one_width(a: Any, b: Any) -> tuple[Any, Any]:
    """Return both operands; a scalar beside a vector is broadcast to its lanes."""
    lanes = [side.dtype.lanes if isinstance(side, PrimExpr) else 1 for side in (a, b)]
    if lanes[0] == lanes[1] or 1 not in lanes:
        return a, b
    if lanes[0] == 1:
        b, a = of_one_width(b, a)
        return a, b
    element: prim.DataType = a.dtype.element_of
    scalar = b if isinstance(b, PrimExpr) else prim.match_dtypes(prim.Var("", element), b)[1]
    wanted = prim.promote(element, scalar.dtype)
    return a, Broadcast(prim.cast(wanted, scalar), lanes[0])


def unary(name: str, a: Any) -> Any:
    """``<op> a``. Raises TypeError for an unsupported operand."""
    a = as_operand(a)
    if isinstance(a, RelaxExpr):
        return _relax_call(name, a)
    if isinstance(a, PrimExpr):
        if name == "Not":
            return prim.Not(a)
        return {"USub": operator.neg, "UAdd": lambda x: x, "Invert": operator.invert}[name](a)  # type: ignore[reportUnknownLambdaType]
    return {"USub": operator.neg, "UAdd": operator.pos, "Invert": operator.invert, "Not": operator.not_}[name](a)


def connective(name: str, a: Any, b: Any) -> Any:
    """``a and b``, ``a or b`` of scalar expressions."""
    a, b = as_operand(a), as_operand(b)
    if isinstance(a, RelaxExpr) or isinstance(b, RelaxExpr):
        raise TypeError(f"`{SYMBOLS[name]}` is not an operator of Relax; use R.logical_{SYMBOLS[name]}")
    return (prim.And if name == "And" else prim.Or)(prim.convert(a), prim.convert(b))


def as_operand(value: Any) -> Any:
    """Convert a value to an operand: an iteration variable to its variable, a buffer reference to a load."""
    convert: Callable[[], Any] | None = getattr(value, "asobject", None)
    return value if convert is None else convert()
