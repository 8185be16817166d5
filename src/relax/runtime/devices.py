"""Devices: where a tensor lives.

The object is tvm-ffi's own. This runtime computes on the host, which may be seen as several devices: ``cpu(0)``,
``cpu(1)``, … have one memory, but a tensor belongs to one of them, and goes to another by being copied. NumPy's
arrays belong to ``cpu(0)``.
"""

from __future__ import annotations

import tvm_ffi

Device = tvm_ffi.Device

_CPU = tvm_ffi.device("cpu", 0)


def cpu(index: int = 0) -> Device:
    """The host processor and its memory, as device number `index`."""
    return _CPU if index == 0 else tvm_ffi.device("cpu", index)


def device(name: str, index: int = 0) -> Device:
    """A device by name: ``device("cpu", 1)``, ``device("cpu:1")``, or by its target: ``device("llvm")`` is the CPU."""
    kind, colon, number = name.partition(":")
    if colon and number.isdigit():
        name, index = kind, int(number)
    return cpu(index) if name in ("llvm", "cpu") else tvm_ffi.device(name, index)


def is_cpu(dev: Device) -> bool:
    """True if memory on `dev` is the host's."""
    return dev.type == "cpu"


def require_host(dev: Device, subject: str) -> None:
    """Raise TypeError unless `dev` is a device, ValueError unless it is a host device; `subject` starts the message."""
    if not isinstance(dev, tvm_ffi.Device):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"{subject}: a device is made by relax.cpu() or relax.device(name); found {dev!r}")
    if not is_cpu(dev):
        raise ValueError(f"{subject}: there is no memory on {dev}; this runtime has cpu only")
