"""Values of a PrimFunc's variables for specialisation to static sizes or scalars.

specialize(matmul, {n: 128})                every buffer's n is 128
specialize(scale, {factor: 2.0})            the parameter is removed
specialize(matmul, {a: decl_buffer((128, 64))})     sizes are those of the given buffer
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..ir import Diagnostic, DiagnosticError
from ..prim import PrimExpr, Var, Verdict, convert, match_dtypes, prove_equal
from .buffer import Buffer, shape_vars_bound_by


def specialized_values(
    params: Sequence[Var], buffer_map: Mapping[Var, Buffer], param_map: Mapping[Var, Any]
) -> dict[Var, PrimExpr]:
    """Return the values of sizes and scalar parameters, given directly or implied by given buffers.

    Raises DiagnosticError for a key that is neither a parameter nor a size, or a buffer that does not fit.
    """
    values: dict[Var, PrimExpr] = {}
    for key, value in param_map.items():
        buffer = buffer_map.get(key)
        if buffer is not None:
            if not isinstance(value, Buffer):
                raise _error(f"parameter {key.name} is a tensor: give a Buffer")
            _bind_buffer(values, buffer, value)
        else:
            _bind(values, key, _as_expr(key, value))
    allowed = set(params).union(*map(shape_vars_bound_by, buffer_map.values()))
    for key in values:
        if key not in allowed:
            raise _error(f"{key.name} is neither a parameter nor a size of one")
    return values


def _as_expr(key: Var, value: Any) -> PrimExpr:
    return match_dtypes(key, value)[1] if not isinstance(value, PrimExpr) else convert(value)


def _bind(values: dict[Var, PrimExpr], var: Var, value: PrimExpr) -> None:
    value = value.astype(var.dtype)
    if var in values and prove_equal(values[var], value) is not Verdict.YES:
        raise _error(f"{var.name} would be {values[var]} and {value}")
    values[var] = value


def _bind_buffer(values: dict[Var, PrimExpr], old: Buffer, new: Buffer) -> None:
    if old.dtype != new.dtype:
        raise _error(f"{old.name} has dtype {old.dtype!s}, the given buffer {new.dtype!s}")
    if old.ndim != new.ndim:
        raise _error(f"{old.name} has {old.ndim} dimensions, the given buffer {new.ndim}")
    for axis, (size, given) in enumerate(zip(old.shape, new.shape, strict=True)):
        if isinstance(size, Var):
            _bind(values, size, given)
        elif prove_equal(size, given) is Verdict.NO:
            raise _error(f"dimension {axis} of {old.name} is {size}, of the given buffer {given}")


def _error(message: str) -> DiagnosticError:
    hint = "give sizes and scalars by their variables, tensors by a buffer of the same rank and dtype"
    return DiagnosticError(Diagnostic("E5020", f"specialize: {message}", hint=hint))
