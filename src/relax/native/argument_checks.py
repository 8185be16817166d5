"""Tables by which support code checks all arguments of a call (`relax.codegen.support.arguments`).

A kernel has a table of its parameters (`argument_table`): a row for each, followed by the static dimensions. The
properties of the arguments are written to an array of 64-bit words, in the order of the parameters: `TensorWords` for a
tensor, the value for a scalar, with floats as double. A pair of tensors that must not overlap is given by the positions
of their first memory words, and a message.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ..prim import IntImm, PrimExpr, Var
from ..runtime.records import dataclass
from ..target.c_structs import STRUCTS
from ..tir import Buffer
from .builder import Operand
from .ffi_layouts import BOOL, FLOAT, INT, POINTER, TENSOR
from .types import dlpack_code

_ROW: Final = len(STRUCTS["ArgumentRow"].fields)
"""Words in a row of the table: message number of the argument's name; kind; dtype as in DLPack; a flag (tensors:
strides allowed; integers: must be a size); rank; positions of its dimensions and of its words.
"""
MEMORY_WORDS: Final = 3
"""Number of words of a tensor before its dimensions."""


@dataclass(frozen=True)
class TensorWords:
    """Positions of a tensor argument's words, beginning at `first`."""

    first: int
    ndim: int

    @property
    def data(self) -> int:
        """Position of the pointer from which the offset is counted."""
        return self.first

    @property
    def start(self) -> int:
        """Position of the address of the first element."""
        return self.first + 1

    @property
    def end(self) -> int:
        """Position of the end address: behind the last element, or the first one if the parameter has strides."""
        return self.first + 2

    def dimension(self, axis: int) -> int:
        """Position of a dimension."""
        return self.first + MEMORY_WORDS + axis

    def stride(self, axis: int) -> int:
        """Position of a stride in elements, if the parameter has strides."""
        return self.first + MEMORY_WORDS + self.ndim + axis


def argument_table(
    params: Sequence[tuple[Var, Buffer | None]], names: Sequence[Operand]
) -> tuple[list[str], list[TensorWords], int]:
    """Return (table of a function's parameters, positions of their words, total number of words).

    The word of a scalar is at position `first`.
    """
    rows: list[str] = []
    sizes: list[str] = []
    places: list[TensorWords] = []
    behind = 0
    for (param, buffer), name in zip(params, names, strict=True):
        code, bits = dlpack_code(param.dtype if buffer is None else buffer.dtype)
        ndim = 0 if buffer is None else buffer.ndim
        at = _ROW * len(params) + len(sizes)
        if buffer is None:
            kind = {0: INT, 1: INT, 3: POINTER, 6: BOOL}.get(code, FLOAT)
            row = (kind, code | bits << 8, param.nonnegative, ndim, at, behind)
        else:
            dtype = code | bits << 8 | max(buffer.dtype.lanes, 1) << 16
            row = (TENSOR, dtype, bool(buffer.strides), ndim, at, behind)
            sizes += ("-1" if (size := constant_size(dim)) is None else str(size) for dim in buffer.shape)
        rows += (name, *(str(int(word)) for word in row))
        places.append(TensorWords(behind, ndim))
        behind += 1 if buffer is None else MEMORY_WORDS + ndim * (2 if buffer.strides else 1)
    return rows + sizes, places, behind


def constant_size(dim: PrimExpr) -> int | None:
    """Value of a static dimension; None for a dynamic one."""
    return dim.value if isinstance(dim, IntImm) and dim.value >= 0 else None
