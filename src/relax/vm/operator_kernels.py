"""Kernels of operators for operands that are met at run time (`relax.runtime.operators`).

A kernel is compiled for operands of the same dtypes and ranks. An operator that also needs sizes or values, as
`R.squeeze` needs the sizes that are 1, gets a kernel for each of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any, cast

from ..block_builder import BlockBuilder
from ..derive.substitution import substitute
from ..expr import Call, Function, PrimValue, ShapeExpr, Tuple, TupleGetItem, Var
from ..interpreter.operators import info_of
from ..ir import DiagnosticError, IRModule, RelaxExpr, StructInfo, load_json
from ..ir.transform import PassContext
from ..op.base import Operator, operator_of
from ..prim import PrimExpr, SizeVar, const
from ..runtime import Executable
from ..runtime.operators import Compiled, Kernel, signature_name
from ..runtime.values import kind_of
from ..struct_info import PrimStructInfo, ShapeStructInfo, TensorStructInfo, TupleStructInfo
from ..transform.legalize_ops import LegalizeOps
from ..transform.runtime_dispatch import DISPATCH, Signature
from .driver import build


def compiled(spec: str, args: Sequence[Any]) -> Compiled:
    """Compile the call of `spec` for the dtypes and ranks of `args`, or for just these if that is too little.

    Raises AssertionError for operands whose sizes or dtypes do not fit, and TypeError for those of another kind, as the
    interpreter does; ValueError for a `spec` that LegalizeOps does not write.
    """
    function = _read(spec)
    infos = [
        PrimStructInfo(value=const(arg, param.struct_info.dtype))
        if isinstance(param.struct_info, PrimStructInfo)
        else info_of(arg)
        for param, arg in zip(function.params, args, strict=True)
    ]
    _check_kinds(function, infos, args)
    general = _general_function(function, infos)
    if general is not None:
        return Compiled(_kernel(general), is_general=True)
    try:
        return Compiled(_kernel(_specialised(function, infos)), is_general=False)
    except DiagnosticError as error:
        raise AssertionError("; ".join(diagnostic.message for diagnostic in error.diagnostics)) from error


def compiled_beforehand(spec: str, signatures: Sequence[Signature]) -> bytes:
    """Return a serialised executable with a function for each signature that the operator takes; b"" if it has none."""
    function = _read(spec)
    functions: dict[str, Function] = {}
    for signature in signatures:
        infos = [TensorStructInfo(_sizes(rank, i), dtype) for i, (dtype, rank) in enumerate(signature)]
        general = _general_function(function, infos)
        if general is not None:
            name = signature_name(signature)
            functions[name] = general.replace(attrs={**general.attrs, "global_symbol": name})
    return _build(IRModule(functions)).to_bytes() if functions else b""


def _read(spec: str) -> Function:
    """Read the function of a call, which may come from a file that somebody else wrote."""
    function = load_json(spec)
    body = function.body if isinstance(function, Function) else None
    if not isinstance(body, Call) or operator_of(body) is None:
        raise ValueError("not the call of an operator")
    return function


def _check_kinds(function: Function, infos: Sequence[StructInfo], args: Sequence[Any]) -> None:
    """Raise TypeError for an operand of a kind that the operator does not take."""
    call = cast(Call, function.body)
    operator = cast(Operator, operator_of(call))
    kinds = {param: (info, arg) for param, info, arg in zip(function.params, infos, args, strict=True)}
    for operand, expr in operator.arguments(call):
        if isinstance(expr, Var) and expr in kinds and not operand.accepts(kinds[expr][0]):
            message = f"{operand.name} must be {operand.wanted}, found {kind_of(kinds[expr][1])}"
            raise TypeError(f"{operator.short_name}: {message}")


def _general_function(function: Function, infos: Sequence[StructInfo]) -> Function | None:
    """Return the function for operands of these dtypes and ranks; None if it is ill-typed, or needs sizes or values."""
    if cast(Operator, operator_of(cast(Call, function.body))).rank_depends_on_sizes:
        return None
    try:
        general = _specialised(function, list(map(_general, infos, count())))
        with PassContext(config={DISPATCH: False}):
            LegalizeOps()(IRModule.from_expr(general))
    except DiagnosticError:
        return None
    return general


def _general(info: StructInfo, position: int) -> StructInfo:
    """Replace the sizes and values in the struct info of an operand by unknown ones."""
    match info:
        case TensorStructInfo():
            return TensorStructInfo(_sizes(info.ndim, position), info.dtype)
        case ShapeStructInfo():
            return ShapeStructInfo(_sizes(info.ndim, position))
        case PrimStructInfo():
            return PrimStructInfo(info.dtype)
        case TupleStructInfo(fields):
            return TupleStructInfo(tuple(_general(field, position) for field in fields))
        case _:
            return info


def _sizes(rank: int, position: int) -> list[PrimExpr]:
    return [SizeVar(f"x{position}_{axis}", "int64") for axis in range(rank)]


def _specialised(function: Function, infos: Sequence[StructInfo]) -> Function:
    """Return a function whose parameters have the given struct info; raise DiagnosticError for an ill-typed call."""
    builder = BlockBuilder()
    name = str(function.attrs["global_symbol"])
    params: list[Var] = []
    replaced: dict[Any, Any] = {}
    for param, info in zip(function.params, infos, strict=True):
        if not isinstance(param.struct_info, PrimStructInfo) or param.struct_info.value is None:
            params.append(Var(param.name_hint, info))
            replaced[param] = _with_fields(params[-1], info)
        elif isinstance(info, PrimStructInfo) and info.value is not None:
            params.append(Var(param.name_hint, PrimStructInfo(info.dtype)))
            replaced[param.struct_info.value] = info.value
        else:
            params.append(Var(param.name_hint, param.struct_info))  # binds the shape variable
    with builder.function(name, params):
        builder.emit_func_output(builder.emit(substitute(cast(Call, function.body), replaced)))
    return cast(Function, builder.get()[name])


def _with_fields(expr: RelaxExpr, info: StructInfo) -> RelaxExpr:
    """Return a value whose sizes, scalars and fields the operator sees."""
    match info:
        case TupleStructInfo(fields):
            return Tuple(tuple(_with_fields(TupleGetItem(expr, i), field) for i, field in enumerate(fields)))
        case ShapeStructInfo(values) if values is not None:
            return ShapeExpr(values)
        case PrimStructInfo(value=value) if value is not None:
            return PrimValue(value)
        case _:
            return expr


def _kernel(function: Function) -> Kernel:
    return Kernel(_build(IRModule.from_expr(function)))


def _build(module: IRModule) -> Executable:
    with PassContext(config={DISPATCH: False}):
        return build(module, "llvm")
