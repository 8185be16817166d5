"""Estimate of the memory that the first call of a program will request.

A plan lays the tensors of a function out in one storage (`vm.builtin.alloc_storage`). Where all sizes are known, so is
the storage's. Else it depends on the call: as many bytes are expected as the program has constants, and at most
`MOST_UNKNOWN`, since what is not needed is memory wasted. Of a call that needs more, the pages that are missing take
less of its time.
"""

from __future__ import annotations

import math
from typing import Any, Final, cast

import tvm_ffi

from .bytecode import Call, Const, Imm, Operand, Program
from .dtypes import canonical_dtype, itemsize

MOST_KNOWN: Final = 64 << 20
"""Limit in bytes of the memory prepared for a storage of static size."""
MOST_UNKNOWN: Final = 4 << 20
"""Limit in bytes of the memory prepared for a storage of dynamic size."""
ADDRESSES: Final = 256 << 20
"""Address space in bytes reserved for a storage of dynamic size, within which it can grow in place."""


def first_memory(program: Program) -> tuple[int, int]:
    """Return (bytes to prepare for the first call, bytes of address space to reserve); 0 for none."""
    entries = {i for i, entry in enumerate(program.entries) if entry.name == "vm.builtin.alloc_storage"}
    sizes = [
        _size(instruction.args[0], program.constants)
        for function in program.functions.values()
        for instruction in function.code
        if isinstance(instruction, Call) and instruction.func in entries
    ]
    static_bytes = min(MOST_KNOWN, max((size for size in sizes if size is not None), default=0))
    if None not in sizes:
        return static_bytes, 0
    constants = sum(
        value.numel() * itemsize(canonical_dtype(value.dtype))
        for value in program.constants
        if isinstance(value, tvm_ffi.Tensor)
    )
    return max(static_bytes, min(MOST_UNKNOWN, constants)), ADDRESSES


def _size(operand: Operand, constants: list[Any]) -> int | None:
    """Return the size of a storage in bytes, or None if it is computed at run time."""
    match operand:
        case Imm(value):
            return value
        case Const(index) if isinstance(constants[index], tvm_ffi.Shape):
            return math.prod(cast("tuple[int, ...]", constants[index]))
        case Const(index) if isinstance(constants[index], int):
            return constants[index]
        case _:
            return None
