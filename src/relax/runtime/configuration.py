"""Options of a VirtualMachine: devices and memory policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .decode import devices_used
from .devices import Device, cpu, is_cpu
from .devices import device as named_device
from .executable import Executable


def devices_of(executable: Executable, given: Device | Sequence[Device] | None) -> list[Device]:
    """Devices of a VM. Raises ValueError unless those that the program uses exist and are host devices."""
    listed = [given] if isinstance(given, Device) else list(given or ())
    devices = listed or [named_device(name) for name in executable.devices] or [cpu()]
    used = devices_used(executable.program)
    for index in used:
        if not 0 <= index < len(devices):
            wanted = f" ({executable.devices[index]})" if 0 <= index < len(executable.devices) else ""
            have = f"{len(devices)} device{'s' * (len(devices) != 1)} ({', '.join(map(str, devices))})"
            needed = ", ".join(f"relax.cpu({i})" for i in range(index + 1))
            raise ValueError(
                f"the program places tensors on its virtual device {index}{wanted}, and the machine is given "
                f"{have}; give one for each: VirtualMachine(executable, [{needed}])"
            )
    for dev in [*listed, *(devices[index] for index in used)]:
        if not is_cpu(dev):
            raise ValueError(f"this runtime runs on cpu only, not on {dev}")
    return devices


def memory_policy(config: str | Mapping[Any, str] | None) -> str:
    """The allocator's policy; ValueError if devices are to have different ones."""
    if config is None or isinstance(config, str):
        return config or "pooled"
    policies = set(config.values()) or {"pooled"}
    if len(policies) > 1:
        raise ValueError(f"memory_cfg: all devices of this runtime share one memory, found {dict(config)}")
    return policies.pop()
