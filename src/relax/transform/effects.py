"""What computing an expression can do besides giving a value: fail, or touch something others see."""

from __future__ import annotations

from ..expr import Call, Constant, DataTypeImm, PrimValue, ShapeExpr, StringImm, Tuple, TupleGetItem, Var
from ..ir import GlobalVar, Op, RelaxExpr
from ..prim import Call as PrimCall
from ..prim import Div, FloorDiv, FloorMod, IntImm, Let, Mod, PrimExpr, is_const, sub_expressions

_TOTAL = frozenset({"relax.shape_of", "relax.null_value", "relax.shape_to_tensor", "relax.make_closure"})
"""Operators that give a value whatever they are given of the kinds they take."""


def never_fails(expr: RelaxExpr) -> bool:
    """Whether evaluating a leaf, a projection or a call certainly gives a value and does nothing else."""
    match expr:
        case Var() | Constant() | GlobalVar() | StringImm() | DataTypeImm():
            return True
        case Tuple(fields):
            return all(never_fails(field) for field in fields)
        case ShapeExpr(values):
            return all(scalar_never_fails(value) for value in values)
        case PrimValue(value):
            return scalar_never_fails(value)
        case TupleGetItem(source):
            return never_fails(source)
        case Call(Op(name), args):
            return name in _TOTAL and all(never_fails(arg) for arg in args)
        case _:
            return False  # an ExternFunc may be missing; an unknown function may do anything


def scalar_never_fails(expr: PrimExpr) -> bool:
    """Whether a scalar expression divides by nothing that may be zero, and calls nothing."""
    match expr:
        case Div(_, b) | Mod(_, b) | FloorDiv(_, b) | FloorMod(_, b):
            if not isinstance(b, IntImm) or is_const(b, 0):
                return False
        case PrimCall() | Let():
            return False
        case _:
            pass
    return all(scalar_never_fails(part) for part in sub_expressions(expr))
