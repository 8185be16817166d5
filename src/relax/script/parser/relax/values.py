"""Functions of `R` that are not operators: constants, scalars, tuples, calls of other functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import relax.op as op

from ....expr import Call, Constant, DataTypeImm, Function, PrimValue, ShapeExpr, StringImm, Tuple, TupleGetItem
from ....expr import const as _const
from ....expr import convert as _convert
from ....ir import GlobalVar, Op, RelaxExpr, StructInfo
from ....op.arguments import FunctionLike, TupleLike
from ....tir.stmt import PrimFunc
from ..core import Evaluator
from .annotations import StructInfoForm, as_struct_info


def const(value: Any, dtype: str | None = None) -> Constant:
    """A tensor constant of a number, nested lists of numbers, or an array."""
    return _const(value, dtype)


def prim_value(value: Any) -> PrimValue:
    """A scalar: a Python number, or an expression over shape variables."""
    return PrimValue(value)


def string(value: str) -> StringImm:
    """A string."""
    return StringImm(str(value))


def dtype_value(value: Any) -> DataTypeImm:
    """A dtype as a value."""
    return DataTypeImm(value)


def shape_value(values: Sequence[Any]) -> ShapeExpr:
    """A shape value."""
    return ShapeExpr(tuple(values))


def tuple_value(*fields: Any) -> Tuple:
    """A tuple: ``R.tuple(a, b)``, or ``R.tuple([a, b])``."""
    if len(fields) == 1 and isinstance(fields[0], (tuple, list)):
        fields = tuple(cast("Sequence[Any]", fields[0]))
    return Tuple(fields)


def convert_to_expr(value: Any) -> RelaxExpr:
    """Convert a Python value to an expression."""
    return _convert(value)


def _parser() -> Any:
    return Evaluator.current()


def _callee(function: Any) -> Any:
    """Convert a callee; a function of the surrounding Python program is adopted by the module being parsed."""
    parser = _parser()
    module = getattr(parser, "module", None)
    if isinstance(function, (Function, PrimFunc)) and module is not None:
        return module.adopt(function)
    return function


def _infos(value: Any) -> Any:
    """Convert struct info in an argument; scripts may omit the brackets: ``R.Object``."""
    if isinstance(value, StructInfoForm):
        return as_struct_info(value)
    if isinstance(value, (list, tuple)):
        items = cast("Sequence[Any]", value)
        return [_infos(item) for item in items]
    return value


def _older(options: dict[str, Any]) -> dict[str, Any]:
    """Accept the RFC's names of the output's shape and dtype."""
    if "output_dtype" in options:
        options["dtype"] = options.pop("output_dtype")
    return options


def call_tir(func: FunctionLike, args: TupleLike, out_sinfo: Any = None, tir_vars: Any = None, **older: Any) -> Call:
    """Call a PrimFunc in destination-passing style. Text names a packed function (an older spelling)."""
    if isinstance(func, str):
        global_vars: dict[str, GlobalVar] = getattr(getattr(_parser(), "module", None), "global_vars", {})
        if func not in global_vars:
            return call_dps_packed(func, args, out_sinfo, **older)
        func = global_vars[func]
    return op.call_tir(_callee(func), args, _infos(out_sinfo), tir_vars, **_older(older))


def call_tir_with_grad(
    func: FunctionLike,
    args: TupleLike,
    out_sinfo: Any = None,
    te_grad_name: str = "",
    te_grad_kwargs: Mapping[str, Any] | None = None,
    tir_vars: Any = None,
) -> Call:
    """Like call_tir, of a kernel with a registered gradient."""
    out = _infos(out_sinfo)
    return op.call_tir_with_grad(_callee(func), args, out, te_grad_name, te_grad_kwargs, tir_vars)


def call_tir_inplace(
    func: FunctionLike,
    args: TupleLike,
    inplace_indices: int | Sequence[int],
    out_sinfo: Any = None,
    tir_vars: Any = None,
) -> Call:
    """Like call_tir, but outputs reuse arguments."""
    return op.call_tir_inplace(_callee(func), args, inplace_indices, _infos(out_sinfo), tir_vars)


def call_dps_packed(func: FunctionLike, args: TupleLike, out_sinfo: Any = None, **older: Any) -> Call:
    """Call a packed function in destination-passing style."""
    return op.call_dps_packed(func, args, _infos(out_sinfo), **_older(older))


def _split(args: Sequence[Any], sinfo_args: Any) -> tuple[list[Any], Any]:
    """Split arguments and struct info; the older spelling passes struct info among the arguments."""
    infos = [as_struct_info(a) for a in args if isinstance(a, (StructInfo, StructInfoForm))]
    values = [a for a in args if not isinstance(a, (StructInfo, StructInfoForm))]
    if infos and sinfo_args is not None:
        raise TypeError("struct info is given twice: among the arguments and as sinfo_args")
    return values, infos if infos else _infos(sinfo_args)


def call_packed(func: FunctionLike, *args: Any, sinfo_args: Any = None) -> Call:
    """Call a packed function, which may have any effect."""
    values, infos = _split(args, sinfo_args)
    parser = _parser()
    if getattr(parser, "assumes_purity", False):  # the 2022 documents call packed functions in dataflow blocks
        return op.call_pure_packed(func, *values, sinfo_args=infos)
    return op.call_packed(func, *values, sinfo_args=infos)


def call_pure_packed(func: FunctionLike, *args: Any, sinfo_args: Any = None) -> Call:
    """Call a packed function that the caller declares to be free of side effects."""
    values, infos = _split(args, sinfo_args)
    return op.call_pure_packed(func, *values, sinfo_args=infos)


def call_inplace_packed(
    func: FunctionLike, *args: Any, inplace_indices: int | Sequence[int], sinfo_args: Any = None
) -> Call:
    """Call a packed function that changes only the arguments named."""
    values, infos = _split(args, sinfo_args)
    return op.call_inplace_packed(func, *values, inplace_indices=inplace_indices, sinfo_args=infos)


def call_builtin_with_ctx(func: FunctionLike, args: TupleLike, *, sinfo_args: Any = None) -> Call:
    """Call a builtin of the VM."""
    return op.call_builtin_with_ctx(func, args, sinfo_args=_infos(sinfo_args))


def invoke_closure(closure: RelaxExpr, args: TupleLike, sinfo_args: Any = None) -> Call:
    """Call a closure, which may have any effect."""
    return op.invoke_closure(closure, args, _infos(sinfo_args))


def invoke_pure_closure(closure: RelaxExpr, args: TupleLike, sinfo_args: Any = None) -> Call:
    """Call a closure without side effects."""
    return op.invoke_pure_closure(closure, args, _infos(sinfo_args))


def make_closure(func: FunctionLike, args: TupleLike = ()) -> Call:
    """A closure of a function; the captured values are its last parameters."""
    return op.make_closure(_callee(func), args)


def make_call(op: Any, args: Sequence[Any], attrs: Any = None, sinfo_args: Sequence[Any] = ()) -> Call:
    """``R.Call(op, [args], attrs=..., sinfo_args=(...))``: the node itself, without the operator's checks."""
    return Call(op, tuple(args), attrs, tuple(as_struct_info(info) for info in sinfo_args))


def tuple_get_item(value: Any, index: int) -> TupleGetItem:
    """``R.TupleGetItem(value, index)``: the node itself."""
    return TupleGetItem(_convert(value), index)


def get_op(name: str) -> Op:
    """``R.Op(name)``: an operator as a value."""
    return Op.get(name)
