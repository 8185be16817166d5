"""Total expressions: they always yield a value without effects, so passes may drop or hoist them."""

from __future__ import annotations

from ..expr import Call, Constant, DataTypeImm, PrimValue, ShapeExpr, StringImm, Tuple, TupleGetItem, Var
from ..info.mapping import fields_in
from ..ir import GlobalVar, Op, RelaxExpr, StructInfo
from ..op import infer_call, operator_of
from ..op.dims import collect_checks
from ..op.intrinsics import Intrinsic
from ..prim import Analyzer, IntImm, PrimExpr
from ..prim import Var as PrimVar
from ..prim.totality import scalar_never_fails
from ..runtime.sizes import is_size
from ..struct_info import ObjectStructInfo, PrimStructInfo, TensorStructInfo, TupleStructInfo


def never_fails(expr: RelaxExpr) -> bool:
    """True if evaluating a leaf, projection or call cannot fail and has no effect."""
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
    """True if a call's operator gives a value for any elements, and the operands are known to be what it takes."""
    operator = operator_of(call)
    if operator is None or not operator.total:
        return False
    infos = [arg.struct_info_ for arg in call.args]
    if isinstance(operator, Intrinsic):  # which ask for kinds alone
        return not any(info is None or isinstance(info, ObjectStructInfo) for info in infos)
    return all(map(_is_known, (*infos, call.struct_info_))) and not _leaves_checks(call)


def _is_known(info: StructInfo | None) -> bool:
    """True if dtypes and sizes of tensors are known, so that inference compares them all."""

    def is_static(field: StructInfo) -> bool:
        if isinstance(field, TensorStructInfo):
            return field.dims is not None and not field.dtype.is_void
        return isinstance(field, PrimStructInfo)

    return info is not None and all(map(is_static, fields_in(info)))


def _leaves_checks(call: Call) -> bool:
    """True if inference leaves conditions on sizes to be asserted at run time."""
    with collect_checks() as checks:
        infer_call(call)
    return bool(checks)


def is_condition(info: StructInfo | None) -> bool:
    """True if a value is provably a bool scalar, as an If requires."""
    if isinstance(info, PrimStructInfo):
        return info.dtype.is_bool
    return isinstance(info, TensorStructInfo) and info.ndim == 0 and info.dtype.is_bool


def is_nonnegative(value: PrimExpr) -> bool:
    """True if a dimension is certainly ≥ 0.

    That one which depends on others may be too great counts as little as that memory may not suffice.
    """
    if isinstance(value, IntImm):
        return is_size(value.value)
    return (isinstance(value, PrimVar) and value.nonnegative) or Analyzer().can_prove_greater_equal(value, 0)
