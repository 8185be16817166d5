"""What computing an expression can do besides giving a value: fail, or touch something others see."""

from __future__ import annotations

from ..derive import is_pure_call
from ..expr import (
    Call,
    Constant,
    DataTypeImm,
    Function,
    PrimValue,
    ShapeExpr,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
)
from ..ir import GlobalVar, Node, Op, RelaxExpr, walk
from ..prim import Call as PrimCall
from ..prim import Div, FloorDiv, FloorMod, IntImm, Let, Mod, PrimExpr, is_const, sub_expressions
from ..struct_info import TensorStructInfo

_TOTAL = frozenset({"relax.shape_of", "relax.null_value", "relax.shape_to_tensor", "relax.make_closure"})
"""Operators that give a value whatever they are given of the kinds they take."""


def operators(text: str) -> frozenset[str]:
    """Names of operators from text."""
    return frozenset(f"relax.{name}" for name in text.split())


_OF_KNOWN_TENSORS = operators("""
    abs acos acosh add asin asinh astype atan atanh bitwise_and bitwise_not bitwise_or bitwise_xor ceil clip cos
    cosh equal erf exp expand_dims floor full_like greater greater_equal isfinite isinf isnan less less_equal log
    logical_and logical_not logical_or logical_xor maximum minimum multiply negative not_equal ones_like
    permute_dims prod round rsqrt sigmoid sign sin sinh sqrt square subtract sum tan tanh trunc where zeros_like
    nn.gelu nn.gelu_tanh nn.log_softmax nn.relu nn.silu nn.softmax
""")
"""Operators that give a value for any elements, once all shapes are known to fit: no indices, no integer division,
no size that an argument says, no maximum of nothing."""


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
            total = name in _TOTAL or (name in _OF_KNOWN_TENSORS and _is_known(expr))
            return total and all(never_fails(arg) for arg in args)
        case _:
            return False  # an ExternFunc may be missing; an unknown function may do anything


def _is_known(call: Call) -> bool:
    """Whether dtypes and sizes of a call's tensors are known, so that inference has decided that they fit."""
    infos = [call.struct_info_, *(arg.struct_info_ for arg in call.args)]
    tensors = [info for info in infos if isinstance(info, TensorStructInfo)]
    return len(tensors) == len(infos) and all(t.dims is not None and not t.dtype.is_void for t in tensors)


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


def has_impure_call(func: Function) -> bool:
    """Whether a function, or a local function in it, makes a call that may change something."""
    found: list[Call] = []

    def visit(item: Node) -> bool:
        if isinstance(item, Call) and not is_pure_call(item):
            found.append(item)
        return not found

    walk(func, visit)
    return bool(found)
