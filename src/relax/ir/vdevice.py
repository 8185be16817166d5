"""Virtual devices of a module: the list, and device names in text.

Devices are named as in TVM: ``"vdevice:2"`` is the third of the list; ``"llvm:1"`` the second of those whose target is
of the kind llvm; ``"llvm"`` is ``"llvm:0"``. A scope at the end (``"llvm:1:shared"``) must be the device's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .expr import VDevice
from .module import IRModule

VDEVICES = "vdevice"
"""Key of the virtual devices in a module's global infos."""


def listed_vdevices(mod: IRModule | None) -> tuple[VDevice, ...]:
    """Virtual devices of a module, in order."""
    return () if mod is None else mod.global_infos.get(VDEVICES, ())


def target_kind(vdevice: VDevice) -> str:
    """Kind of a device's target: ``llvm`` for ``llvm -mcpu=x``."""
    return vdevice.target.split()[0] if vdevice.target.split() else "llvm"


def same_vdevice(a: VDevice | None, b: VDevice | None) -> bool:
    """True if two virtual devices have equal fields."""
    if a is None or b is None:
        return a is b
    return (a.target, a.vdevice_id, a.memory_scope) == (b.target, b.vdevice_id, b.memory_scope)


def vdevice_index(vdevice: VDevice, listed: Sequence[VDevice]) -> int | None:
    """Index of a device in a list; None if it is not in the list."""
    return next((i for i, device in enumerate(listed) if same_vdevice(device, vdevice)), None)


def vdevice_text(vdevice: VDevice, listed: Sequence[VDevice] = ()) -> str:
    """Name of a listed device; for others, target kind and the device's own index."""
    kind = target_kind(vdevice)
    peers = [device for device in listed if target_kind(device) == kind]
    index = vdevice_index(vdevice, peers)
    return f"{kind}:{vdevice.vdevice_id if index is None else index}"


def parse_vdevice(text: str) -> VDevice:
    """Device described by text, without a list: ``"cuda:1"``, ``"cuda:1:shared"``."""
    kind, index, scope = _parsed(text)
    return VDevice(kind, index, scope or "global")


def find_vdevice(text: str, listed: Sequence[VDevice]) -> VDevice:
    """Listed device named by text. Raises ValueError with the possible names if there is none."""
    kind, index, scope = _parsed(text)
    peers = [device for device in listed if kind in (VDEVICES, target_kind(device))]
    if index >= len(peers):
        names = ", ".join(dict.fromkeys(_names(listed))) or "no virtual device"
        raise ValueError(f"the module has no virtual device {text!r}; it lists {names}")
    device = peers[index]
    if scope not in ("", device.memory_scope):
        raise ValueError(f"the memory scope of virtual device {text!r} is {device.memory_scope!r}")
    return device


def _names(listed: Sequence[VDevice]) -> Iterator[str]:
    counts: dict[str, int] = {}
    for vdevice in listed:
        kind = target_kind(vdevice)
        yield f'"{kind}:{counts.get(kind, 0)}"'
        counts[kind] = counts.get(kind, 0) + 1


def _parsed(text: str) -> tuple[str, int, str]:
    fields = text.split(":")
    if not fields[0] or len(fields) > 3 or (len(fields) > 1 and not fields[1].isdigit()):
        raise ValueError(f"vdevice {text!r} is not of the form target:index or target:index:scope")
    return fields[0], int(fields[1]) if len(fields) > 1 else 0, fields[2] if len(fields) > 2 else ""
