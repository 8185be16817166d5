"""Operators whose operands have a rank or dtype that is known at run time only.

`LegalizeOps` calls `relax.run.operator` for them. The kernels of a call, one for each combination of dtypes and ranks,
come from the executable that the program brings along, or from the compiler, if it is installed.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias, cast

import tvm_ffi

from .builtin_table import Effects, builtin
from .dtypes import canonical_dtype
from .executable import Executable
from .forks import hold_at_fork
from .rooms import ModuleWhenUsed
from .tensor import numpy_view
from .values import is_tuple

_machine: Final = ModuleWhenUsed("relax.runtime.vm")
_compiler: Final = ModuleWhenUsed("relax.vm.operator_kernels")
"""Not part of the runtime: it is missing where the runtime alone is installed."""

RUN_OPERATOR: Final = "relax.run.operator"

Kernel: TypeAlias = "Callable[[Sequence[Any]], Any]"
"""A function of a list of operands."""

MOST_KERNELS: Final = 1024
"""Number of kernels that are kept, those used last."""


class Compiled(NamedTuple):
    """A kernel that the compiler made for some operands."""

    kernel: Kernel
    is_general: bool
    """True for all operands of the same dtypes and ranks; False for those of the same sizes and values alone."""


_kernels: Final[OrderedDict[tuple[Any, ...], Kernel | None]] = OrderedDict()
"""Kernels by call and signature, those used last at the end; None where each size has a kernel of its own."""
_programs: Final[dict[str, Executable]] = {}
"""Executables that programs brought along, by call."""
_lock: Final = threading.RLock()
hold_at_fork(_lock)


@builtin(RUN_OPERATOR, Effects(aliases="all"), program_errors=True)
def run_operator(spec: str, code: Any, *args: Any) -> Any:
    """Run the operator of `spec`, a call as a function in JSON, on operands of any dtype and rank.

    `code` is an executable with kernels for some combinations, as uint8, or None. Raises RuntimeError for another
    combination if the compiler is not installed, and what the compiled operator raises.
    """
    key = (spec, *map(_signature, args))
    kernel = _kernels.get(key)
    if kernel is None:
        kernel = _kernel(spec, code, key, args)
    return kernel(args)


def entry_of(executable: Executable, name: str | None = None) -> Kernel:
    """Return a function of an executable, its only one by default, that takes and returns values of the VM."""
    program = _machine.VirtualMachine(executable)
    return partial(program.call_raw, program[name or executable.entry_points[0]])


def signature_name(signature: Sequence[tuple[str, int]]) -> str:
    """Name of the function for tensors of these dtypes and ranks in an executable of kernels."""
    return "__".join(["on", *(f"{dtype}_{rank}" for dtype, rank in signature)])


def _signature(value: Any) -> Any:
    """Return all of a value that the choice of a kernel depends on."""
    if isinstance(value, tvm_ffi.Tensor):
        return value.dtype, len(value.shape)
    if isinstance(value, tvm_ffi.Shape):
        return len(value)
    return tuple(map(_signature, value)) if is_tuple(value) else type(value)


def _details(value: Any) -> Any:
    """Return the sizes of tensors, and all other values."""
    if isinstance(value, (tvm_ffi.Tensor, tvm_ffi.Shape)):
        return tuple(value.shape if isinstance(value, tvm_ffi.Tensor) else value)
    return tuple(map(_details, value)) if is_tuple(value) else value


def _kernel(spec: str, code: Any, key: tuple[Any, ...], args: Sequence[Any]) -> Kernel:
    """Return the kernel for some operands, loaded or compiled if it is not at hand."""
    with _lock:
        if key in _kernels and _kernels[key] is None:
            key = (*key, tuple(map(_details, args)))
        kernel = _kernels.get(key)
        if kernel is None:
            kernel = None if code is None else _loaded(spec, code, args)
        if kernel is None:
            made = _compiled(spec, args)
            kernel = made.kernel
            if not made.is_general:
                _kernels.setdefault(key, None)
                key = (*key, tuple(map(_details, args)))
        _kernels[key] = kernel
        _kernels.move_to_end(key)
        while len(_kernels) > MOST_KERNELS:
            _kernels.popitem(last=False)
        return kernel


def _loaded(spec: str, code: Any, args: Sequence[Any]) -> Kernel | None:
    """Return the kernel that the program brought along for operands; None if it has none."""
    if not all(isinstance(arg, tvm_ffi.Tensor) for arg in args):
        return None
    if spec not in _programs:
        executable = Executable.from_bytes(cast(bytes, numpy_view(code).tobytes()))
        _programs[spec] = _machine.VirtualMachine(executable)
    program = _programs[spec]
    name = signature_name([(canonical_dtype(arg.dtype), len(arg.shape)) for arg in args])
    return program[name] if name in program else None


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
