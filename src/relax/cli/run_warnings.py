"""Warnings about runs that succeed and compute nothing: tensors without elements, outputs of NaN alone.

Shapes of a program are known before it runs. An executable is run a second time, observed, if an output is empty or
consists of NaN.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import tvm_ffi

from ..derive.normalize import normalize_module
from ..expr import Call, Function
from ..info.text import struct_info_text
from ..ir import Diagnostic, DiagnosticError, IRModule, StructInfo
from ..ir.diagnostics import emit_warning
from ..prim import IntImm
from ..rewrite.rewriter import bindings_in
from ..runtime import Executable, VirtualMachine
from ..runtime.dtypes import is_float
from ..runtime.numerics import NumericsError
from ..runtime.timing import TracedCall
from ..struct_info import TensorStructInfo, TupleStructInfo
from ..transform.bind_symbolic_vars import BindSymbolicVars
from .outputs import Array, array_of

EMPTY: Final = "W7001"
"""A tensor without elements, computed from tensors that have some."""
NAN: Final = "W7002"
"""An output of NaN alone."""
_INSPECT: Final = "print each node's shape: relax show MODEL"


# ------------------------------------------------------------------------------------------ programs


def warn_of_empty_tensors(mod: IRModule, entry: str, sizes: Mapping[str, int]) -> None:
    """Warn of each call in a function that returns an empty tensor for arguments with elements, at some sizes."""
    for diagnostic in empty_tensors(mod, entry, sizes):
        emit_warning(diagnostic)


def empty_tensors(mod: IRModule, entry: str, sizes: Mapping[str, int]) -> Iterator[Diagnostic]:
    """Yield a warning for each call that returns an empty tensor for arguments with elements."""
    normal = normalize_module(mod)
    try:
        bound = BindSymbolicVars(dict(sizes), entry)(normal) if sizes else normal
    except DiagnosticError:  # a negative size: the run fails where it is computed
        return
    function = bound[entry]
    assert isinstance(function, Function)
    for binding in bindings_in(function):
        value = binding.value
        if not isinstance(value, Call):
            continue
        operands = [(arg, info) for arg in value.args for info in _tensors(arg.struct_info_)]
        if not operands or any(_is_empty(info) for _, info in operands):
            continue
        if any(map(_is_empty, _tensors(binding.var.struct_info_))):
            subject = f"{binding.var.name_hint}: {struct_info_text(binding.var.struct_info_)}"
            notes = [f"{getattr(arg, 'name_hint', 'argument')}: {struct_info_text(info)}" for arg, info in operands]
            hint = f"these sizes are too small: {_shown(sizes)}" if sizes else _INSPECT
            yield _empty(subject, Diagnostic("", "", value.span, notes=tuple(notes), hint=hint))


def _tensors(info: StructInfo | None) -> Iterator[TensorStructInfo]:
    if isinstance(info, TensorStructInfo):
        yield info
    elif isinstance(info, TupleStructInfo):
        for field in info.fields:
            yield from _tensors(field)


def _is_empty(info: TensorStructInfo) -> bool:
    return any(isinstance(dim, IntImm) and dim.value == 0 for dim in info.dims or ())


def _empty(subject: str, place: Diagnostic) -> Diagnostic:
    """Complete a warning about an empty tensor, of which `place` has the location, the notes and the hint."""
    return replace(place, code=EMPTY, message=f"{subject} has no elements, but its operands have", level="warning")


# --------------------------------------------------------------------------------------- executables


def warn_of_hollow_outputs(
    executable: Executable, entry: str, args: Sequence[Any], outputs: Sequence[tuple[str, Any]], traced: bool
) -> None:
    """Warn of outputs of NaN alone, and if `traced` of outputs without elements; name the call they stem from."""
    arrays = [(name, array) for name, value in outputs if (array := array_of(value)) is not None]
    hollow = [name for name, array in arrays if _is_nan(array)]
    if traced and (hollow or any(array.size == 0 for _, array in arrays)):
        found = _first_empty(executable, entry, args)
        if found is not None:
            emit_warning(found)
    if hollow:
        verb = "is" if len(hollow) == 1 else "are"
        place = _first_nan(executable, entry, args)
        emit_warning(replace(place, code=NAN, message=f"{', '.join(hollow)} {verb} NaN everywhere", level="warning"))


def _is_nan(array: Array) -> bool:
    return array.size > 0 and is_float(str(array.dtype)) and bool(np.isnan(array.astype("float64")).all())


def _first_nan(executable: Executable, entry: str, args: Sequence[Any]) -> Diagnostic:
    """Run again up to the first call that returns NaN; return its location and a note about it."""
    try:
        VirtualMachine(executable, check_numerics="nan")[entry](*args)
    except NumericsError as error:
        head = f"{error.variable} = " if error.variable else ""
        first, *others = error.detail.splitlines()
        notes = (f"first NaN: {head}{first}", *map(str.strip, others))
        return Diagnostic("", "", label=error.location, notes=notes, hint=_INSPECT)
    return Diagnostic("", "", hint=_INSPECT)


def _first_empty(executable: Executable, entry: str, args: Sequence[Any]) -> Diagnostic | None:
    """Run again, observed; return a warning about the first kernel that writes an empty tensor, None if none does."""
    found: list[Diagnostic] = []
    machine = VirtualMachine(executable)
    kernels = executable.debug.kernels

    def observe(call: TracedCall) -> None:
        kernel = kernels.get(call.name)
        if found or kernel is None:
            return
        written = [call.args[position] for position in kernel.written]
        read = [arg for arg in call.args if isinstance(arg, tvm_ffi.Tensor) and all(arg is not w for w in written)]
        if read and any(0 in arg.shape for arg in written) and all(0 not in arg.shape for arg in read):
            notes = tuple(f"operand: {tuple(arg.shape)} {arg.dtype}" for arg in read)
            found.append(_empty(f"the result of {call.name}", Diagnostic("", "", label=call.location, notes=notes)))

    machine.set_tracer(observe)
    machine[entry](*args)
    return found[0] if found else None


def _shown(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{name}={size}" for name, size in sizes.items())
