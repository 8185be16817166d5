"""What a compiled program needs to run: tensors, packed functions, executables and the virtual machine.

This package stands alone on NumPy and tvm-ffi: it imports no other part of relax.
"""

from __future__ import annotations

from . import nd
from .device import Device, cpu, device
from .nd import NDArray
from .tensor import numpy_view, tensor_of

__all__ = ["Device", "NDArray", "cpu", "device", "nd", "numpy_view", "tensor_of"]
