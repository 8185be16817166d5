"""Scalar expressions as nodes: each becomes a vector of one element, computed once per graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ....prim import Call, Cast, FloatImm, IntImm, Let, Max, Min, Not, PrimExpr, Select
from ....prim import Var as PrimVar
from ....prim import expr as prim
from ....prim.expr import BinaryExpr
from .tensor import Nodes, Tensor

Binary = Callable[[Nodes, Tensor, Tensor], Tensor]


def _floor_div(g: Nodes, a: Tensor, b: Tensor) -> Tensor:
    """Quotient rounded down: (a - a mod b) / b, of which the division is exact."""
    if a.kind.is_float:
        return g.run("Floor", a / b)
    return (a - g.run("Mod", a, b)) / b


def _mod(g: Nodes, a: Tensor, b: Tensor) -> Tensor:
    return g.run("Mod", a, b, fmod=1)


def _ne(g: Nodes, a: Tensor, b: Tensor) -> Tensor:
    return ~a.equal(b)


_OPERATORS: Final[dict[type[PrimExpr], str]] = {
    prim.Add: "Add", prim.Sub: "Sub", prim.Mul: "Mul", prim.Div: "Div", prim.FloorMod: "Mod", Min: "Min", Max: "Max",
    prim.And: "And", prim.Or: "Or",
}  # fmt: skip
"""Operators of ONNX that compute the same, in the dtype of the operands."""
_COMPARISONS: Final[dict[type[PrimExpr], str]] = {
    prim.EQ: "Equal", prim.LT: "Less", prim.LE: "LessOrEqual", prim.GT: "Greater", prim.GE: "GreaterOrEqual",
}  # fmt: skip
_WRITTEN: Final[dict[type[PrimExpr], Binary]] = {prim.FloorDiv: _floor_div, prim.Mod: _mod, prim.NE: _ne}


def tensor_of(g: Nodes, expr: PrimExpr) -> Tensor:
    """The value of a scalar expression as a vector of one element. Raises DiagnosticError for what ONNX cannot say."""
    done = g.computed.get(expr)
    if done is not None:
        return done.at(g)
    result = _written(g, expr)
    g.computed[expr] = result
    return result


def _written(g: Nodes, expr: PrimExpr) -> Tensor:
    match expr:
        case IntImm() | FloatImm():
            return (
                g.const([expr.value], str(expr.dtype)) if expr.dtype != "bool" else g.const([bool(expr.value)], "bool")
            )
        case PrimVar():
            if expr not in g.bound:
                g.refuse(f"the size {expr.name}, which no parameter or match_cast in scope binds")
            return g.bound[expr].at(g)
        case Not(a):
            return ~tensor_of(g, a)
        case Cast(dtype, value):
            return tensor_of(g, value).to(str(dtype))
        case Select(condition, yes, no):
            return tensor_of(g, condition).where(tensor_of(g, yes), tensor_of(g, no))
        case Let():
            g.bind(expr.var, tensor_of(g, expr.value))
            return tensor_of(g, expr.body)
        case Call():
            return _call(g, expr)
        case _:
            pass
    if not isinstance(expr, BinaryExpr):
        g.refuse(f"the size {expr}")
    a, b = tensor_of(g, expr.a), tensor_of(g, expr.b)
    if type(expr) in _OPERATORS:
        return g.run(_OPERATORS[type(expr)], a, b)
    if type(expr) in _COMPARISONS:
        return g.run(_COMPARISONS[type(expr)], a, b, dtype="bool")
    return _WRITTEN[type(expr)](g, a, b)


_CALLS: Final = {
    "abs": "Abs", "ceil": "Ceil", "exp": "Exp", "floor": "Floor", "log": "Log", "nearbyint": "Round", "round": "Round",
    "sqrt": "Sqrt", "tanh": "Tanh", "sin": "Sin", "cos": "Cos", "sigmoid": "Sigmoid",
}  # fmt: skip


def _call(g: Nodes, call: Call) -> Tensor:
    """An intrinsic of scalars."""
    name = getattr(call.op, "name", "").removeprefix("tir.")
    args = [tensor_of(g, arg) for arg in call.args]
    if name in _CALLS:
        return g.run(_CALLS[name], *args)
    if name == "if_then_else":
        return args[0].where(args[1], args[2])
    if name == "pow":
        return g.run("Pow", *args)
    if name == "trunc":
        return args[0].to("int64").to(args[0].dtype)
    g.refuse(f"the size {call}")
