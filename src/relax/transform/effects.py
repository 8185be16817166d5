"""What computing an expression can do besides giving a value: fail, or touch something others see."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ..derive.rules import is_pure_call
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
from ..info.mapping import fields_in
from ..ir import DataType, GlobalVar, Node, Op, RelaxExpr, StructInfo, walk
from ..op import infer_call, operator_of
from ..op.dims import collect_checks
from ..op.intrinsics import Intrinsic
from ..prim import (
    Add,
    Analyzer,
    Div,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Max,
    Min,
    Mod,
    Mul,
    PrimExpr,
    Sub,
    is_const,
    post_order,
)
from ..prim import Call as PrimCall
from ..prim import Var as PrimVar
from ..runtime.limits import DIMENSION_LIMIT
from ..runtime.sizes import is_size
from ..struct_info import ObjectStructInfo, PrimStructInfo, TensorStructInfo, TupleStructInfo


def never_fails(expr: RelaxExpr) -> bool:
    """Whether evaluating a leaf, a projection or a call certainly gives a value and does nothing else."""
    match expr:
        case Var() | Constant() | GlobalVar() | StringImm() | DataTypeImm():
            return True
        case Tuple(fields):
            return all(never_fails(field) for field in fields)
        case ShapeExpr(values):
            return all(scalar_never_fails(value) and is_nonnegative(value) for value in values)
        case PrimValue(value):
            return scalar_never_fails(value)
        case TupleGetItem(source):
            return isinstance(source.struct_info_, TupleStructInfo) and never_fails(source)
        case Call(Op(), args):
            return _is_total(expr) and all(never_fails(arg) for arg in args)
        case _:
            return False  # an ExternFunc may be missing; an unknown function may do anything


def _is_total(call: Call) -> bool:
    """Whether a call's operator gives a value for any elements, and the operands are known to be what it takes."""
    operator = operator_of(call)
    if operator is None or not operator.total:
        return False
    infos = [arg.struct_info_ for arg in call.args]
    if isinstance(operator, Intrinsic):  # which ask for kinds alone
        return not any(info is None or isinstance(info, ObjectStructInfo) for info in infos)
    return all(map(_is_known, (*infos, call.struct_info_))) and not _leaves_checks(call)


def _is_known(info: StructInfo | None) -> bool:
    """Whether dtypes and sizes of tensors are known, so that inference compares them all."""

    def known(field: StructInfo) -> bool:
        if isinstance(field, TensorStructInfo):
            return field.dims is not None and not field.dtype.is_void
        return isinstance(field, PrimStructInfo)

    return info is not None and all(map(known, fields_in(info)))


def _leaves_checks(call: Call) -> bool:
    """Whether inference leaves something about the sizes to be asserted when the call runs."""
    with collect_checks() as checks:
        infer_call(call)
    return bool(checks)


def is_condition(info: StructInfo | None) -> bool:
    """Whether a value is known to be a bool scalar, which an If takes."""
    if isinstance(info, PrimStructInfo):
        return info.dtype.is_bool
    return isinstance(info, TensorStructInfo) and info.ndim == 0 and info.dtype.is_bool


def scalar_never_fails(expr: PrimExpr) -> bool:
    """Whether a scalar expression divides by nothing that may be zero, calls nothing, and stays in 64 bits."""
    fails = False
    ranges: dict[PrimExpr, _Range] = {}

    def visit(part: PrimExpr) -> None:
        nonlocal fails
        match part:
            case Div(_, b) | Mod(_, b) | FloorDiv(_, b) | FloorMod(_, b):
                fails = fails or not isinstance(b, IntImm) or is_const(b, 0)
            case PrimCall() | Let():
                fails = True
            case _:
                pass
        ranges[part] = _range_of(part, ranges)
        if part.dtype == "int64" and not _within(ranges[part], part.dtype):
            fails = True

    post_order(expr, visit)
    return not fails


def is_surely_size(value: PrimExpr) -> bool:
    """Whether a scalar expression certainly has a value, which a dimension may be."""
    ranges: dict[PrimExpr, _Range] = {}
    post_order(value, lambda part: ranges.update({part: _range_of(part, ranges)}))
    low, high = ranges[value]
    return low >= 0 and high < DIMENSION_LIMIT and scalar_never_fails(value)


def is_nonnegative(value: PrimExpr) -> bool:
    """Whether a dimension is certainly ≥ 0.

    That one which depends on others may be too great counts as little as that memory may not suffice.
    """
    if isinstance(value, IntImm):
        return is_size(value.value)
    return (isinstance(value, PrimVar) and value.nonnegative) or Analyzer().can_prove_greater_equal(value, 0)


_Range = tuple[int, int]
_SIZES: Final[_Range] = (0, DIMENSION_LIMIT - 1)
_UNKNOWN: Final[_Range] = (0, 0)
"""Of what is no integer: nobody asks."""


def _range_of(expr: PrimExpr, ranges: Mapping[PrimExpr, _Range]) -> _Range:
    """The least and greatest value of an integer expression, of whose operands these are known."""
    dtype = expr.dtype
    if not dtype.is_integer:
        return _UNKNOWN
    match expr:
        case IntImm(_, value):
            return value, value
        case PrimVar() if expr.nonnegative and dtype == "int64":
            return _SIZES
        case Add(a, b):
            found = ranges[a][0] + ranges[b][0], ranges[a][1] + ranges[b][1]
        case Sub(a, b):
            found = ranges[a][0] - ranges[b][1], ranges[a][1] - ranges[b][0]
        case Mul(a, b):
            products = [x * y for x in ranges[a] for y in ranges[b]]
            found = min(products), max(products)
        case Min(a, b):
            found = min(ranges[a][0], ranges[b][0]), min(ranges[a][1], ranges[b][1])
        case Max(a, b):
            found = max(ranges[a][0], ranges[b][0]), max(ranges[a][1], ranges[b][1])
        case FloorDiv(a, IntImm(_, divisor)) if divisor:
            quotients = [x // divisor for x in ranges[a]]
            found = min(quotients), max(quotients)
        case FloorMod(_, IntImm(_, divisor)) if divisor > 0:
            found = 0, divisor - 1
        case _:
            return int(dtype.min_value), int(dtype.max_value)
    # What leaves 64 bits is an error; in narrower types it wraps around.
    exact = dtype == "int64" or _within(found, dtype)
    return found if exact else (int(dtype.min_value), int(dtype.max_value))


def _within(found: _Range, dtype: DataType) -> bool:
    return dtype.min_value <= found[0] and found[1] <= dtype.max_value


def has_impure_call(func: Function) -> bool:
    """Whether a function, or a local function in it, makes a call that may change something."""
    found: list[Call] = []

    def visit(item: Node) -> bool:
        if isinstance(item, Call) and not is_pure_call(item):
            found.append(item)
        return not found

    walk(func, visit)
    return bool(found)
