"""Rules of calls in destination-passing style: its outputs are concrete, and it fits the PrimFunc.

A PrimFunc takes the inputs, the integers of `tir_vars`, and the outputs that are allocated for it; integers after the
outputs, as in other compilers, are accepted too. Only arguments proved not to fit are an error here; undecided
conditions are checked on entry of the function.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast

import numpy as np

from ..expr import ExternFunc, ShapeExpr, Tuple, convert
from ..info.relations import Level, fit_all
from ..ir import BaseFunc, Diagnostic, DiagnosticError, RelaxExpr, StructInfo
from ..prim import IntImm, PrimExpr
from ..prim import cast as prim_cast
from ..prim.expr import INT64
from ..struct_info import FuncStructInfo, PrimStructInfo, ShapeStructInfo, TensorStructInfo, TupleStructInfo
from .errors import OPERANDS, OperatorError
from .known import known_struct_info

OUTPUTS: Final = "E3110"
"""Output struct info that is missing or does not determine the allocation."""
SIGNATURE: Final = "E3111"
"""Arguments or outputs that do not fit the callee."""
INPLACE: Final = "E3112"
"""An output that cannot reuse the argument of its index."""


# ------------------------------------------------------------------------------------- building calls


def as_sequence(value: Any) -> tuple[Any, ...]:
    """Items of a tuple or list; a single value becomes a sequence of one."""
    return tuple(cast("tuple[Any, ...]", value)) if isinstance(value, (tuple, list)) else (value,)


def as_callee(op_name: str, func: Any) -> RelaxExpr:
    """Convert the callee of a call; text names a packed function."""
    if isinstance(func, str):
        return ExternFunc(func)
    if isinstance(func, BaseFunc) and not isinstance(func, ExternFunc):
        hint = "add it to the module (BlockBuilder.add_func) and call it by its GlobalVar"
        raise refused(op_name, f"the callee is a {type(func).__name__}, expected a GlobalVar or a name", hint)
    if isinstance(func, RelaxExpr):
        return func
    raise refused(op_name, f"the callee is a {type(func).__name__}, expected a GlobalVar or a name")


def as_arguments(op_name: str, args: Any) -> RelaxExpr:
    """Convert the argument tuple; a single value becomes a tuple of one."""
    try:
        expr = Tuple(()) if args is None else convert(args)
    except TypeError as error:
        raise refused(op_name, f"an argument cannot be used: {error}") from None
    if isinstance(known_struct_info(expr), TupleStructInfo) or isinstance(expr, Tuple):
        return expr
    return Tuple((expr,))


def as_shape(op_name: str, values: Any) -> RelaxExpr | None:
    """Convert `tir_vars`: a list of integers, or a shape value."""
    if values is None or isinstance(values, RelaxExpr):
        return values
    try:
        return ShapeExpr(as_sequence(values))
    except TypeError as error:
        raise refused(op_name, f"tir_vars: {error}") from None


def as_infos(op_name: str, sinfo_args: Any) -> tuple[StructInfo, ...]:
    """Convert `sinfo_args` to a tuple from none, one or several."""
    if sinfo_args is None:
        return ()
    given = as_sequence(sinfo_args)
    for info in given:
        if not isinstance(info, StructInfo):
            raise refused(op_name, f"sinfo_args holds a {type(info).__name__}, expected struct info")
    return given


def as_output(op_name: str, out_sinfo: Any, dtype: Any) -> StructInfo:
    """Convert the struct info of the result: one tensor's, or a tuple of several.

    The older spelling gives shapes and a dtype instead.
    """
    if isinstance(out_sinfo, StructInfo):
        return out_sinfo
    if isinstance(out_sinfo, (tuple, list)) and any(isinstance(i, StructInfo) for i in as_sequence(out_sinfo)):
        infos = as_infos(op_name, out_sinfo)
        return infos[0] if len(infos) == 1 else TupleStructInfo(infos)
    if out_sinfo is None:
        raise refused(op_name, "the struct info of the output is missing", code=OUTPUTS)
    if dtype is None:
        raise refused(
            op_name,
            "the dtype of the output is missing",
            f'give the output as R.Tensor(shape, dtype), or write {op_name}(..., shape, dtype="float32")',
            code=OUTPUTS,
        )
    return _shapes_as_output(op_name, out_sinfo, dtype)


def _shapes_as_output(op_name: str, shapes: Any, dtype: Any) -> StructInfo:
    items, dtypes = as_sequence(shapes), as_sequence(dtype)
    lone = not isinstance(shapes, (tuple, list))
    several = not lone and any(isinstance(item, (tuple, list, RelaxExpr)) for item in items)
    given: tuple[Any, ...] = items if several else (items[0] if lone else items,)
    if len(dtypes) not in (1, len(given)):
        raise refused(op_name, f"{len(given)} output shapes but {len(dtypes)} dtypes", code=OUTPUTS)
    if len(dtypes) == 1:
        dtypes *= len(given)
    try:
        infos = [TensorStructInfo(shape, item_dtype) for shape, item_dtype in zip(given, dtypes, strict=True)]
    except (TypeError, ValueError) as error:
        raise refused(op_name, f"the output cannot be {shapes!r} of {dtype!r}: {error}", code=OUTPUTS) from None
    return infos[0] if len(infos) == 1 else TupleStructInfo(infos)


def as_indices(op_name: str, indices: Any) -> tuple[int, ...]:
    """Convert an integer or a list of integers to argument indices."""
    given = as_sequence(indices)
    for index in given:
        if not isinstance(index, (int, np.integer, IntImm)) or isinstance(index, bool):
            raise refused(op_name, f"inplace_indices holds a {type(index).__name__}, expected integers")
    return tuple(int(index) for index in given)


def refused(op_name: str, message: str, hint: str = "", *, code: str = OPERANDS) -> DiagnosticError:
    """Error for an invalid argument of a builder function."""
    return DiagnosticError(Diagnostic(code, f"{op_name}: {message}", hint=hint))


# ------------------------------------------------------------------------------------------- checking


def output_infos(sinfo_args: Sequence[StructInfo]) -> tuple[TensorStructInfo, ...]:
    """Outputs that a call allocates. Raises OperatorError unless each has a shape and a dtype."""
    if len(sinfo_args) != 1:
        raise OperatorError(OUTPUTS, f"takes one output struct info, found {len(sinfo_args)}")
    info = sinfo_args[0]
    infos = info.fields if isinstance(info, TupleStructInfo) else (info,)
    return tuple(_concrete(field, i if len(infos) > 1 else -1) for i, field in enumerate(infos))


def _concrete(info: StructInfo, index: int) -> TensorStructInfo:
    name = "the output" if index == -1 else f"output {index}"
    if not isinstance(info, TensorStructInfo):
        raise OperatorError(OUTPUTS, f"{name} is {info}, expected a tensor")
    if info.dtype.is_void:
        raise OperatorError(OUTPUTS, f"{name} has no dtype, so it cannot be allocated")
    if info.shape is None:
        raise OperatorError(
            OUTPUTS,
            f"the shape of {name} is not known, so it cannot be allocated",
            hint="give every dimension, as an integer or an expression over shape variables",
        )
    return info


def check_signature(
    func: StructInfo, args: StructInfo, tir_vars: StructInfo | None, outputs: Sequence[StructInfo]
) -> None:
    """Raise OperatorError (E3111), listing every mismatch, if arguments or outputs are proved not to fit the callee."""
    if not isinstance(func, FuncStructInfo) or func.params is None:
        return
    if func.ret != TupleStructInfo(()) and not (isinstance(func.ret, TupleStructInfo) and not func.ret.fields):
        raise OperatorError(
            SIGNATURE, "the callee is a Relax function, expected a PrimFunc", operand="func", hint="call it directly"
        )
    if not isinstance(args, TupleStructInfo):
        return
    ints = _integers(tir_vars)
    if ints is None:
        return
    inputs = [(f"argument {i}", info) for i, info in enumerate(args.fields)]
    outs = [(f"output {i}" if len(outputs) > 1 else "the output", info) for i, info in enumerate(outputs)]
    given = arrange(inputs, ints, outs, func.params)
    if len(given) != len(func.params):
        raise OperatorError(SIGNATURE, _count_text(func, inputs, ints, outs))
    values = [_as_passed(info, param) for (_, info), param in zip(given, func.params, strict=True)]
    fits, _, _ = fit_all(values, func.params)
    wrong = [
        f"{name} does not fit: {fit.reason}"
        for (name, _), fit in zip(given, fits, strict=True)
        if fit.level is Level.DIFFERENT
    ]
    if wrong:
        raise OperatorError(SIGNATURE, "; ".join(wrong))


def ints_are_last(params: Sequence[StructInfo], count: int) -> bool:
    """True if a PrimFunc takes the integers of `tir_vars` after its outputs."""
    return count > 0 and bool(params) and isinstance(params[-1], PrimStructInfo)


def arrange(inputs: list[Any], ints: list[Any], outputs: list[Any], params: Sequence[StructInfo]) -> list[Any]:
    """Order inputs, integers and outputs as the PrimFunc takes them."""
    if ints_are_last(params, len(ints)):
        return [*inputs, *outputs, *ints]
    return [*inputs, *ints, *outputs]


def _integers(tir_vars: StructInfo | None) -> list[tuple[str, StructInfo]] | None:
    """Integers of `tir_vars`, with names; None if their number is unknown."""
    if tir_vars is None:
        return []
    if not isinstance(tir_vars, ShapeStructInfo) or tir_vars.ndim == -1:
        return None
    values = tir_vars.values
    infos = [
        PrimStructInfo(INT64) if values is None else PrimStructInfo(INT64, prim_cast(INT64, values[i]))
        for i in range(tir_vars.ndim)
    ]
    return [(f"tir_vars[{i}]", info) for i, info in enumerate(infos)]


def _as_passed(info: StructInfo, param: StructInfo) -> StructInfo:
    """Struct info of an integer argument: a PrimFunc receives int64, whatever the parameter's width."""
    if isinstance(info, PrimStructInfo) and isinstance(param, PrimStructInfo):
        both = (info.dtype.is_integer or info.dtype.is_bool) and param.dtype.is_integer
        if both and info.dtype != param.dtype:
            value: PrimExpr | None = None if info.value is None else prim_cast(param.dtype, info.value)
            return PrimStructInfo(param.dtype, value)
    return info


def _count_text(func: FuncStructInfo, inputs: list[Any], ints: list[Any], outs: list[Any]) -> str:
    counts = [f"{len(inputs)} arguments", f"{len(outs)} outputs"]
    if ints:
        counts.insert(1, f"{len(ints)} integers")
    return f"the function takes {len(func.params or ())} parameters, the call gives {', '.join(counts)}"


def check_inplace_indices(indices: tuple[int, ...], results: int, args: StructInfo, noun: str) -> None:
    """Require one index per result, each an argument or -1, without repetition, and at least one argument."""
    if len(indices) != results:
        raise OperatorError(INPLACE, f"{len(indices)} inplace_indices for {results} {noun}{'s' * (results != 1)}")
    count = len(args.fields) if isinstance(args, TupleStructInfo) else None
    seen: set[int] = set()
    for index in indices:
        if index < -1 or (count is not None and index >= count):
            range_text = "" if count is None else f"; there are {count}, counted from 0"
            raise OperatorError(INPLACE, f"inplace_indices: there is no argument {index}{range_text}", operand="args")
        if index in seen:
            raise OperatorError(INPLACE, f"inplace_indices: argument {index} is named twice", operand="args")
        if index >= 0:
            seen.add(index)
    if not seen:
        raise OperatorError(INPLACE, "inplace_indices names no argument", hint="use the call that allocates")
