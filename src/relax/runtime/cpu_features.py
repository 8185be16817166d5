"""The features of this machine's processor, under LLVM's names, found without LLVM."""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Iterable

from .machine_code import ARCHITECTURES, Architecture, architecture_named
from .native import host_machine


@functools.cache
def _flags() -> frozenset[str] | None:
    """The words of /proc/cpuinfo's flags; None where there is no such file."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                key, _, value = line.partition(":")
                if key.strip() in ("flags", "Features"):
                    return frozenset(value.split())
    except OSError:
        pass
    return None


def missing_features(required: Iterable[str]) -> list[str]:
    """Required features that this machine is known to lack."""
    flags = _flags()
    architecture = ARCHITECTURES.get(host_machine())
    if flags is None or architecture is None:
        return []
    names = architecture.cpuinfo_names
    return [
        f
        for f in required
        if f in architecture.checked_features
        and (names.get(f, f) not in flags or (_needs_tiles(f, architecture) and not grants_tiles()))
    ]


def _needs_tiles(feature: str, architecture: Architecture) -> bool:
    return architecture.tiles is not None and feature.startswith(architecture.tiles.prefix)


@functools.cache
def grants_tiles() -> bool:
    """True if the processor may have tile registers, and the system lets this process, all threads included, use them.

    Linux saves these registers only for processes that ask.
    """
    architecture = ARCHITECTURES.get(host_machine())
    tiles = None if architecture is None else architecture.tiles
    return sys.platform == "linux" and tiles is not None and ctypes.CDLL(None).syscall(*tiles.request) == 0


def machine_of_triple(triple: str) -> int:
    """The ELF number of the architecture a target triple names; 0 if it is none we can load."""
    architecture = architecture_named(triple.split("-")[0])
    return 0 if architecture is None else architecture.elf_machine
