"""Operators whose operands have a rank or dtype that is known at run time only.

`LegalizeOps` calls `relax.run.operator` for them. The kernels of a call, one for each combination of dtypes and ranks,
come from the executable that the program brings along, or from the compiler, if it is installed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple, cast

import tvm_ffi

from .builtin_table import builtin
from .compiled import CompiledFunction, kept_aside, machine_value
from .dtypes import canonical_dtype
from .executable import Executable
from .native import cells_function
from .rooms import ModuleWhenUsed
from .tensor import numpy_view
from .values import is_tuple

_machine: Final = ModuleWhenUsed("relax.runtime.vm")
_compiler: Final = ModuleWhenUsed("relax.vm.operator_kernels")
"""Not part of the runtime: it is missing where the runtime alone is installed."""

RUN_OPERATOR: Final = "relax.run.operator"

MOST_KERNELS: Final = 1024
"""Maximum number of kernels that are kept."""


class Kernel:
    """A function of an executable, its only one by default, that takes and returns values of the VM."""

    def __init__(self, executable: Executable, name: str | None = None) -> None:
        self._program = _machine.VirtualMachine(executable)
        self._entry = self._program[name or executable.entry_points[0]]
        self._compiled: CompiledFunction | None = self._entry.target.compiled

    @property
    def native(self) -> tvm_ffi.Function | None:
        """Machine code of the function, if it has some."""
        return None if self._compiled is None else self._compiled.function

    def __call__(self, args: Sequence[Any]) -> Any:
        """Call the function; an error carries no call sites yet, like one of its machine code."""
        if self._compiled is None:
            return self._program.call_unchecked(self._entry, args)
        return self._compiled(*args)


class Compiled(NamedTuple):
    """A kernel that the compiler made for some operands."""

    kernel: Kernel
    is_general: bool
    """True for all operands of the same dtypes and ranks; False for those of the same sizes and values alone."""


_kernels: Final[dict[tuple[Any, ...], Kernel | None]] = {}
"""Kernels by call and signature, those made last at the end; None where each size has a kernel of its own."""


def _native_choice() -> tvm_ffi.Function:
    """Return a packed function like `run_operator` that calls a kernel's machine code itself when it meets operands of
    the same dtypes and ranks again (`relax.codegen.support.cells.kernels`).
    """
    return cells_function("kernel_table")(kept_aside(_run_and_hold))


@builtin(RUN_OPERATOR, program_errors=True, compiled=_native_choice)
def run_operator(spec: str, code: Any, *args: Any) -> Any:
    """Run the operator of `spec`, a call as a function in JSON, on operands of any dtype and rank.

    `code` is an executable with kernels for some combinations, as uint8, or None. Raises RuntimeError for another
    combination if the compiler is not installed, and what the compiled operator raises.
    """
    return _kernel(spec, code, _key(spec, args), args)(args)


def _run_and_hold(cell: Any, spec: Any, code: Any, *args: Any) -> Any:
    """Run an operator; hand its kernel over in `cell` if it is for all operands of the same dtypes and ranks."""
    text, operands = str(spec), tuple(map(machine_value, args))
    key = _key(text, operands)
    kernel = _kernel(text, code, key, operands)
    if kernel.native is not None and _kernels.get(key) is kernel and not any(map(is_tuple, operands)):
        cells_function("hold_kernel")(cell, kernel.native)
    return kernel(operands)


def _key(spec: str, args: Sequence[Any]) -> tuple[Any, ...]:
    return (spec, *map(_signature, args))


def signature_name(signature: Sequence[tuple[str, int]]) -> str:
    """Name of the function for tensors of these dtypes and ranks in an executable of kernels."""
    return "__".join(["on", *(f"{dtype}_{rank}" for dtype, rank in signature)])


def _signature(value: Any) -> Any:
    """Return all of a value that the choice of a kernel depends on."""
    if isinstance(value, tvm_ffi.Tensor):
        return value.dtype, len(value.shape)
    if isinstance(value, tvm_ffi.Shape):
        return len(value)
    return tuple(map(_signature, value)) if is_tuple(value) else cast(Any, type(value))


def _details(value: Any) -> Any:
    """Return the sizes of tensors, and the values of shapes and numbers."""
    if isinstance(value, (tvm_ffi.Tensor, tvm_ffi.Shape)):
        return tuple(value.shape if isinstance(value, tvm_ffi.Tensor) else value)
    if is_tuple(value):
        return tuple(map(_details, value))
    return value if isinstance(value, (bool, int, float, str)) else None


def _kernel(spec: str, code: Any, key: tuple[Any, ...], args: Sequence[Any]) -> Kernel:
    """Return the kernel for some operands, loaded or compiled if it is not at hand."""
    kernel = _kernels.get(key)
    if kernel is not None:
        return kernel
    # Two threads may both make a kernel; one of the two is kept.
    if key in _kernels:
        key = (*key, tuple(map(_details, args)))
        kernel = _kernels.get(key)
    if kernel is None and code is not None:
        kernel = _loaded(code, args)
    if kernel is None:
        kernel, is_general = _compiled(spec, args)
        if not is_general:
            _kernels.setdefault(key, None)
            key = (*key, tuple(map(_details, args)))
    _kernels[key] = kernel
    while len(_kernels) > MOST_KERNELS:
        _kernels.pop(next(iter(_kernels)), None)
    return kernel


def _loaded(code: Any, args: Sequence[Any]) -> Kernel | None:
    """Return the kernel that the program brought along for operands; None if it has none."""
    if not all(isinstance(arg, tvm_ffi.Tensor) for arg in args):
        return None
    program = _program(numpy_view(code).tobytes())
    name = signature_name([(canonical_dtype(arg.dtype), len(arg.shape)) for arg in args])
    return Kernel(program, name) if name in program.entry_points else None


@lru_cache(maxsize=32)
def _program(code: bytes) -> Executable:
    return Executable.from_bytes(code)


def _compiled(spec: str, args: Sequence[Any]) -> Compiled:
    try:
        return cast(Compiled, _compiler.compiled(spec, args))
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith("relax"):
            raise
        kinds = ", ".join(map(_described, args))
        raise RuntimeError(
            f"no kernel was compiled beforehand for operands {kinds}, and the compiler is not installed; name the "
            'dtypes and ranks when the program is built: PassContext(config={"relax.LegalizeOps.combinations": '
            '[("float32", 2), …]})'
        ) from None


def _described(value: Any) -> str:
    """Return a value's dtype and rank as text."""
    if isinstance(value, tvm_ffi.Tensor):
        return f'R.Tensor("{canonical_dtype(value.dtype)}", ndim={len(value.shape)})'
    return f"R.Shape(ndim={len(value)})" if isinstance(value, tvm_ffi.Shape) else type(value).__name__
