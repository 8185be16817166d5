"""Panels of constants as memory holds them, and as vectors of a row are read from them.

    Elements     each element as its own                 int8, four vectors     v0, v1, v2, v3
    BitFields    2 or 4 bits: 4 or 2 vectors in one      int4, four vectors     v0 + 16 · v1,  v2 + 16 · v3

A new way to hold constants is a class with the methods of `PanelStorage`; `ComputedProduct` takes a list of them.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Final, TypeAlias

import numpy as np

from ....ir import DataType
from ....prim import Cast, PrimExpr, const
from ....prim.intrin import bitwise_and, shift_left, shift_right
from ....runtime.records import dataclass
from ....tir import Buffer, BufferLoad
from ...build import spread, vector_load

Array: TypeAlias = "np.ndarray[Any, Any]"

WORD: Final = 32
"""Bits of the integers in which bit fields are separated."""


@dataclass(frozen=True)
class PanelStorage:
    """Form in which memory holds panels of a constant, and vectors are read from them. Subclasses are such forms."""

    @abstractmethod
    def load_of(self, part: PrimExpr) -> BufferLoad | None:
        """Return the load of the constant in a part of an operand that `vector` computes, or None for other parts."""

    def dtype(self, dtype: DataType) -> str:
        """Return the dtype in memory of a constant of `dtype`."""
        return str(dtype)

    def vectors(self, dtype: DataType, vectors: int) -> int:
        """Return the number of vectors of memory that hold a row of `vectors` vectors."""
        del dtype
        return vectors

    def held(self, dtype: DataType, rows: Array, lanes: int) -> Array:
        """Return the rows of a panel (rows, width) as memory holds them."""
        del dtype, lanes
        return rows

    @abstractmethod
    def vector(self, part: PrimExpr, source: Buffer, row: PrimExpr, number: int, lanes: int) -> PrimExpr:
        """Return vector `number` of a row: the values of `part`. Integers may be wider than the part's."""


@dataclass(frozen=True)
class Elements(PanelStorage):
    """Holds each element as its own; it takes any load."""

    def load_of(self, part: PrimExpr) -> BufferLoad | None:
        return part if isinstance(part, BufferLoad) else None

    def vector(self, part: PrimExpr, source: Buffer, row: PrimExpr, number: int, lanes: int) -> PrimExpr:
        del part
        return vector_load(source, (row, number * lanes), lanes)


@dataclass(frozen=True)
class BitFields(PanelStorage):
    """Holds integers of 2 or 4 bits in fields of bytes: those of one vector in the same field."""

    def load_of(self, part: PrimExpr) -> BufferLoad | None:
        load = part.value if isinstance(part, Cast) else None
        return load if isinstance(load, BufferLoad) and load.dtype in ("int2", "int4", "uint2", "uint4") else None

    def dtype(self, dtype: DataType) -> str:
        del dtype
        return "int8"

    def vectors(self, dtype: DataType, vectors: int) -> int:
        return -(-vectors * dtype.bits // 8)

    def held(self, dtype: DataType, rows: Array, lanes: int) -> Array:
        bits = dtype.bits
        fields = 8 // bits
        count, width = rows.shape
        filled = np.zeros((count, self.vectors(dtype, width // lanes) * fields * lanes), np.int8)
        filled[:, :width] = rows.astype(np.int8)
        numbers = np.reshape(filled, (count, -1, fields, lanes)).astype(np.uint8)  # a negative number wraps around
        shifts = (np.arange(fields, dtype=np.uint8) * np.uint8(bits))[:, None]
        parts = (numbers & np.uint8((1 << bits) - 1)) << shifts
        packed: Array = parts.sum(axis=2, dtype=np.uint8)  # fields do not overlap
        return np.reshape(packed, (count, -1)).astype(np.int8)

    def vector(self, part: PrimExpr, source: Buffer, row: PrimExpr, number: int, lanes: int) -> PrimExpr:
        assert isinstance(part, Cast)
        bits = part.value.dtype.bits
        place, field = divmod(number, 8 // bits)
        wide = vector_load(source, (row, place * lanes), lanes).astype(f"int32x{lanes}")
        dtype, first = str(part.dtype.with_lanes(lanes)), field * bits

        def constant(value: int) -> PrimExpr:
            return spread(const(value, "int32"), lanes)

        if part.value.dtype.is_uint:
            shifted = shift_right(wide, constant(first)) if first else wide
            return bitwise_and(shifted, constant((1 << bits) - 1)).astype(dtype)
        above = WORD - bits
        if first + bits < 8:
            wide, first = shift_left(wide, constant(above - first)), above
        return shift_right(wide, constant(first)).astype(dtype)
