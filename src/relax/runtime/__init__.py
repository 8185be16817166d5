"""What a compiled program needs to run: tensors, packed functions, executables and the virtual machine.

This package stands alone on NumPy and tvm-ffi: it imports no other part of relax.
"""

from __future__ import annotations

from . import nd
from .device import Device, cpu, device
from .nd import NDArray
from .registry import get_global_func, register_func, remove_global_func
from .tensor import numpy_view, tensor_of
from .values import PackedFunc, ShapeTuple

__all__ = [
    "Device",
    "NDArray",
    "PackedFunc",
    "ShapeTuple",
    "cpu",
    "device",
    "get_global_func",
    "nd",
    "numpy_view",
    "register_func",
    "remove_global_func",
    "tensor_of",
]
