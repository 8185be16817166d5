"""The run-time of compiled programs: tensors, packed functions, executables and the virtual machine.

This package stands alone on NumPy and tvm-ffi: it imports no other part of relax.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import nd
from .allocator import MemoryStats
from .closure import Closure
from .devices import Device, cpu, device
from .exec_builder import ExecBuilder
from .executable import Executable, ExecutableError, load_executable, load_module
from .float_mode import set_flush_denormals
from .headers import include_path
from .missing import missing
from .nd import NDArray
from .numerics import NumericsError
from .registry import get_global_func, register_func, remove_global_func
from .tensor import numpy_view, tensor_of
from .threads import num_threads, set_num_threads
from .timing import BenchmarkResult, Report
from .values import PackedFunc, ShapeTuple
from .vm import LinkError, VirtualMachine, VMInstrumentReturnKind

tensor = nd.array
"""TVM's name of `nd.array`. (The module `relax.runtime.tensor` is imported by its whole name only.)"""

__all__ = [
    "BenchmarkResult", "Closure", "Device", "ExecBuilder", "Executable", "ExecutableError", "LinkError",
    "MemoryStats", "NDArray", "NumericsError", "PackedFunc", "Report", "ShapeTuple", "VMInstrumentReturnKind",
    "VirtualMachine", "cpu", "device", "get_global_func", "include_path", "load_executable", "load_module", "nd",
    "num_threads", "numpy_view", "register_func", "remove_global_func", "set_flush_denormals", "set_num_threads",
    "tensor", "tensor_of",
]  # fmt: skip

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        raise missing("relax.runtime", name)
