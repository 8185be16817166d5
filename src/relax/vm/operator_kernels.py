"""Kernels of operators for operands that are met at run time (`relax.runtime.operators`).

A kernel is compiled for operands of the same dtypes and ranks. An operator that also needs sizes or values, as
`R.squeeze` needs the sizes that are 1, gets a kernel for each of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, cast

import tvm_ffi

from ..block_builder import BlockBuilder
from ..derive.substitution import substitute
from ..expr import Call, Constant, Function, PrimValue, ShapeExpr, Tuple, TupleGetItem, Var
from ..interpreter.operators import info_of
from ..ir import DiagnosticError, IRModule, RelaxExpr, StructInfo, load_json
from ..ir.transform import PassContext
from ..prim import SizeVar
from ..prim import Var as PrimVar
from ..runtime import Executable
from ..runtime.operators import Compiled, Kernel, entry_of, signature_name
from ..struct_info import PrimStructInfo, ShapeStructInfo, TensorStructInfo, TupleStructInfo
from ..transform.runtime_dispatch import DISPATCH, Signature
from .driver import build


def compiled(spec: str, args: Sequence[Any]) -> Compiled:
    """Compile the call of `spec` for the dtypes and ranks of `args`, or for just these if that is too little.

    Raises AssertionError for operands whose sizes or dtypes do not fit, TypeError for values of another kind, as the
    interpreter does.
    """
    function: Function = load_json(spec)
    infos = [info_of(arg) for arg in args]
    try:
        return Compiled(_kernel(_specialised(function, [_general(info) for info in infos])), is_general=True)
    except DiagnosticError:
        pass  # the operands do not fit, or their sizes or values are needed: both are told by the values
    try:
        return Compiled(_kernel(_specialised(function, infos)), is_general=False)
    except DiagnosticError as error:
        message = "; ".join(diagnostic.message for diagnostic in error.diagnostics)
        raise AssertionError(message) from error


def compiled_beforehand(spec: str, signatures: Sequence[Signature]) -> bytes:
    """Return a serialised executable with a function for each signature that the operator takes; b"" if it has none."""
    function: Function = load_json(spec)
    functions: dict[str, Function] = {}
    for signature in signatures:
        infos = [_general(TensorStructInfo((1,) * rank, dtype)) for dtype, rank in signature]
        try:
            specialised = _specialised(function, infos)
            _build(IRModule.from_expr(specialised))
        except DiagnosticError:
            continue
        name = signature_name(signature)
        functions[name] = specialised.replace(attrs={**specialised.attrs, "global_symbol": name})
    return _build(IRModule(functions)).to_bytes() if functions else b""


def _general(info: StructInfo) -> StructInfo:
    """Replace the sizes and values in struct info by unknown ones."""
    match info:
        case TensorStructInfo():
            return TensorStructInfo(_sizes(info.ndim), info.dtype)
        case ShapeStructInfo():
            return ShapeStructInfo(_sizes(info.ndim))
        case PrimStructInfo():
            return PrimStructInfo(info.dtype)
        case TupleStructInfo(fields):
            return TupleStructInfo(tuple(map(_general, fields)))
        case _:
            return info


def _sizes(count: int) -> tuple[SizeVar, ...]:
    return tuple(SizeVar(f"s{axis}", "int64") for axis in range(count))


def _specialised(function: Function, infos: Sequence[StructInfo]) -> Function:
    """Return a function whose parameters have the given struct info. Raises DiagnosticError if the call is ill-typed."""
    builder = BlockBuilder()
    name = str(function.attrs["global_symbol"])
    params = [Var(param.name_hint, info) for param, info in zip(function.params, infos, strict=True)]
    replaced: dict[Any, Any] = {}
    for old, new in zip(function.params, params, strict=True):
        replaced[old] = _with_fields(new, new.struct_info)
        size = getattr(old.struct_info_, "value", None)
        if isinstance(size, PrimVar):
            value = getattr(new.struct_info_, "value", None)
            replaced[size] = value if value is not None else size
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
    return entry_of(_build(IRModule.from_expr(function)))


def _build(module: IRModule) -> Executable:
    with PassContext(config={DISPATCH: False}):
        return build(module, "llvm")
