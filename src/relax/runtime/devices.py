"""Devices: where a tensor lives.

The object is tvm-ffi's own; this runtime computes on the CPU.
"""

from __future__ import annotations

import tvm_ffi

Device = tvm_ffi.Device

_CPU = tvm_ffi.device("cpu", 0)


def cpu(index: int = 0) -> Device:
    """The host processor and its memory."""
    return _CPU if index == 0 else tvm_ffi.device("cpu", index)


def device(name: str, index: int = 0) -> Device:
    """A device by name: ``device("cpu")``, ``device("cpu", 0)``, or by its target: ``device("llvm")`` is the CPU."""
    return tvm_ffi.device("cpu" if name == "llvm" else name, index)


def is_cpu(dev: Device) -> bool:
    """Whether memory on `dev` is the host's."""
    return dev.type == "cpu"
