"""Subnormal numbers: kept, as the language says, or taken for zeros, which is faster where there are many.

A processor takes a hundred cycles or more for an operation that reads or makes a subnormal number. Trained weights may
have many of them. The mode belongs to a thread and holds for all that it computes, NumPy's operations too; the threads
of the pool compute in the mode of the thread that entered the parallel loop.
"""

from __future__ import annotations

import ctypes
import platform
import sys

from .machine_code import architecture_named


def set_flush_denormals(mode: bool) -> bool:
    """Say if the calling thread takes subnormal numbers for zeros from now on, as operands and as results.

    They are those that are not zero and less than the least normal number, which is about 1.2e-38 in float32. Other
    threads keep their mode; a new thread begins with that of the thread that starts it.

    Returns
    -------
    bool
        False if it cannot be set on this system; only Linux on x86-64 and AArch64 is supported. Nothing changes then.

    Raises
    ------
    TypeError
        If `mode` is no bool.
    """
    if not isinstance(mode, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"set_flush_denormals: expected a bool, found {type(mode).__name__}")
    architecture = architecture_named(platform.machine())
    if sys.platform != "linux" or architecture is None:
        return False
    control_word = architecture.float_mode
    library = ctypes.CDLL(None)
    environment = ctypes.create_string_buffer(control_word.size)
    if library.fegetenv(environment):
        return False
    word = ctypes.c_uint32.from_buffer(environment, control_word.offset)
    word.value = word.value | control_word.bits if mode else word.value & ~control_word.bits
    return library.fesetenv(environment) == 0
