"""The features of this machine's processor, under LLVM's names, found without LLVM."""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Iterable
from typing import Final

from .elf import AARCH64, X86_64
from .native import host_machine

#: LLVM's name → /proc/cpuinfo's, where they differ
_X86_64_NAMES: Final = {
    "sse3": "pni",
    "sse4.1": "sse4_1",
    "sse4.2": "sse4_2",
    "lzcnt": "abm",
    "bmi": "bmi1",
    "cx16": "cx16",
    "prfchw": "3dnowprefetch",
    "avx512bf16": "avx512_bf16",
    "avx512bitalg": "avx512_bitalg",
    "avx512fp16": "avx512_fp16",
    "avx512vbmi2": "avx512_vbmi2",
    "avx512vnni": "avx512_vnni",
    "avx512vpopcntdq": "avx512_vpopcntdq",
    "avxvnni": "avx_vnni",
    "amx-bf16": "amx_bf16",
    "amx-int8": "amx_int8",
    "amx-tile": "amx_tile",
}
_AARCH64_NAMES: Final = {
    "neon": "asimd",
    "fullfp16": "asimdhp",
    "dotprod": "asimddp",
    "lse": "atomics",
    "rdm": "asimdrdm",
    "crc": "crc32",
    "fp16fml": "asimdfhm",
    "fp-armv8": "fp",
}
#: arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILE_DATA)
_REQUEST_TILES: Final = (158, 0x1023, 18)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: the features kernels are compiled for; those not listed (tuning, system instructions) do not matter here
_CHECKED: Final = {
    X86_64: _words(
        """
        sse sse2 sse3 ssse3 sse4.1 sse4.2 popcnt lzcnt bmi bmi2 f16c fma movbe avx avx2 avxvnni vaes gfni
        vpclmulqdq avx512f avx512bw avx512cd avx512dq avx512vl avx512ifma avx512vbmi avx512vbmi2 avx512vnni
        avx512bitalg avx512vpopcntdq avx512bf16 avx512fp16 amx-tile amx-bf16 amx-int8
        """
    ),
    AARCH64: _words("neon fp-armv8 fullfp16 dotprod lse rdm crc fp16fml sve sve2 bf16 i8mm"),
}


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
    """Those of the required features this machine is known to lack."""
    flags = _flags()
    machine = host_machine()
    if flags is None or machine not in _CHECKED:
        return []
    names = _X86_64_NAMES if machine == X86_64 else _AARCH64_NAMES
    checked = _CHECKED[machine]
    return [
        f
        for f in required
        if f in checked and (names.get(f, f) not in flags or (f.startswith("amx-") and not grants_tiles()))
    ]


@functools.cache
def grants_tiles() -> bool:
    """True if the system lets this process, all of its threads included, use the tile registers of x86-64 (AMX).

    Linux saves these registers only for processes that ask.
    """
    if sys.platform != "linux" or host_machine() != X86_64:
        return False
    return ctypes.CDLL(None).syscall(*_REQUEST_TILES) == 0


def machine_of_triple(triple: str) -> int:
    """The ELF number of the architecture a target triple names; 0 if it is none we can load."""
    return {"x86_64": X86_64, "amd64": X86_64, "aarch64": AARCH64, "arm64": AARCH64}.get(
        triple.split("-")[0].lower(), 0
    )
