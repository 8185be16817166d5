"""Block formats in the order in which products read them: a vector's lane is a row, one stream from the first byte on.

Rows of weights are cut into panels of `lanes` rows. A panel is a sequence of units, one for each block of the format,
and a unit a sequence of vectors of 32 bits, with one lane for each row (floats and steps take fractions of a vector):

    scale, minimum       float16, or float32 where float16 has not all scales
    steps                int8: for each group of the block those of the scale, then those of the minimum
    for each 32 numbers  4 vectors: byte t of vector v holds the numbers 4v + t (low half), and 16 + 4v + t (high half)
                         of 5 bits: one vector more; bit 8t + v is the high bit of number 4v + t
                         of 6 bits: two more; bits 8t + 2 (v mod 4) of vector v div 4 are those of number 4v + t
                         of 8 bits: 8 vectors; byte t of vector v is the number 4v + t

A number is stored as the format's code, from which `zero` is subtracted; numbers of a table and of 8 bits are stored as
bytes, signed or 128 larger. So a dot product of four bytes adds four products of a row in its own lane, the numbers
need a shift and a mask at most, and the sum of a group begins with `-zero` times the sum of the other factor.
(Measured beside other orders: lanes of rows read 28 of the 30 GB/s that memory delivers to one core, rows 19.)
"""

# NumPy's stubs leave the results of reshape, view and clip partly unknown.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

from typing import Any, Final, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from ..runtime.files import in_threads
from ..runtime.records import dataclass
from .block_formats import BlockFormat, Factor, Parts, block_format

Array: TypeAlias = "NDArray[Any]"

PIECE: Final = 1 << 18
"""Weights that `pack` arranges at a time, so that its temporary arrays fit the L2 cache."""
CHUNK: Final = 32
"""Numbers that are stored together."""


@dataclass(frozen=True)
class PackedBlocks:
    """A block format in panels of `lanes` rows; see the module's docstring."""

    name: str
    lanes: int
    signed: bool = False
    """True if bytes are stored signed; otherwise they are 128 larger."""

    @property
    def format(self) -> BlockFormat:
        """The format of the rows. Raises KeyError for a name that no format has."""
        held = block_format(self.name)
        if held is None:
            raise KeyError(self.name)
        return held

    @property
    def bits(self) -> int:
        """Stored bits of a number: 4, 5, 6 or 8."""
        integers = self.format.integers
        return 8 if integers.table or integers.signed else max(integers.bits, 4)

    @property
    def zero(self) -> int:
        """Number that is subtracted from a stored one."""
        if self.bits == 8:
            return 0 if self.signed else 128
        return self.format.integers.offset

    @property
    def groups(self) -> int:
        """Groups of a block."""
        return self.format.elements // self.format.group

    @property
    def float_words(self) -> int:
        """32-bit words of a vector of scales, or of minima."""
        return self.lanes // 2 if self.format.scale.dtype == "float16" else self.lanes

    @property
    def steps(self) -> int:
        """First word of the steps of the scale in a unit."""
        return self.float_words * (1 if self.format.minimum is None else 2)

    @property
    def minimum_steps(self) -> int:
        """First word of the steps of the minimum in a unit."""
        return self.steps + (0 if self.format.scale.steps is None else self.groups * self.lanes // 4)

    @property
    def first_number(self) -> int:
        """First word of the numbers in a unit."""
        minimum = self.format.minimum
        has_steps = minimum is not None and minimum.steps is not None
        return self.minimum_steps + (self.groups * self.lanes // 4 if has_steps else 0)

    @property
    def chunk(self) -> int:
        """32-bit words of 32 numbers of all lanes."""
        return self.bits * self.lanes

    @property
    def unit(self) -> int:
        """32-bit words of a unit."""
        return self.first_number + self.format.elements // CHUNK * self.chunk

    def panels(self, rows: int) -> int:
        """Panels of `rows` rows."""
        return -(-rows // self.lanes)

    def words(self, depth: int) -> int:
        """32-bit words of a panel with rows of `depth` numbers."""
        return depth // self.format.elements * self.unit

    def attributes(self, columns: int) -> dict[str, Any]:
        """Return the attributes by which ``R.nn.quantized_matmul`` and its kin read panels of `columns` rows."""
        return {"format": self.name, "lanes": self.lanes, "signed": self.signed, "columns": columns}

    # ------------------------------------------------------------------------------------ packing

    def __call__(self, data: Array) -> Array:
        """Return packed rows as panels, as `pack` does."""
        return self.pack(data)

    def pack(self, data: Array) -> Array:
        """Return packed rows (rows, bytes) as panels (panels, words), int32; rows that are missing are 0.

        Raises ValueError if the bytes are no whole blocks.
        """
        blocks = self.format.blocks(data)
        depth = blocks.shape[1] * self.format.elements
        panels = np.empty((self.panels(len(data)), self.words(depth)), np.int32)
        step = max(PIECE // (max(depth, 1) * self.lanes), 1)

        def packed(first: int) -> None:
            rows = blocks[first * self.lanes : (first + step) * self.lanes]
            missing = -len(rows) % self.lanes
            if missing:
                rows = np.concatenate([rows, np.zeros((missing, *rows.shape[1:]), np.uint8)])
            panels[first : first + step] = self._packed(rows)

        in_threads(packed, range(0, len(panels), step))
        return panels

    def _packed(self, blocks: Array) -> Array:
        """Return the blocks of whole panels, (rows, blocks, bytes), as panels."""
        held = self.format
        parts = [self._floats(blocks, held.scale)]
        if held.minimum is not None:
            parts.append(self._floats(blocks, held.minimum))
        for factor in (held.scale, held.minimum):
            if factor is not None and factor.steps is not None:
                parts.append(self._in_lanes(held.numbers(blocks, factor.steps).astype(np.int8)))
        parts.append(self._numbers(blocks))
        units = np.concatenate(parts, axis=-1)
        return units.view(np.int32).reshape(len(blocks) // self.lanes, -1)

    def _in_lanes(self, array: Array) -> Array:
        """Return (rows, blocks, count, …) as bytes (panels, blocks, bytes), the rows of a panel beside each other."""
        rows, blocks, *inner = array.shape
        split = array.reshape(rows // self.lanes, self.lanes, blocks, *(inner or [1]))
        moved = np.moveaxis(split, 1, 3)
        return np.ascontiguousarray(moved).view(np.uint8).reshape(rows // self.lanes, blocks, -1)

    def _floats(self, blocks: Array, factor: Factor) -> Array:
        dtype = np.float16 if self.format.scale.dtype == "float16" else np.float32
        if dtype is np.float16:  # the bits, of NaN too
            held = np.ascontiguousarray(blocks[..., factor.place : factor.place + 2])
            return self._in_lanes(cast("Any", held).view(np.float16))
        return self._in_lanes(self.format.floats(blocks, factor)[..., None])

    def _numbers(self, blocks: Array) -> Array:
        rows, count = blocks.shape[:2]
        if self.bits == 8:
            numbers = self.format.numbers(blocks) + (0 if self.signed else 128)
            chunks = numbers.astype(np.uint8).reshape(rows, count, -1, CHUNK)
            return self._in_lanes(_words(chunks).reshape(rows, count, -1))
        codes = self.format.codes(blocks).reshape(rows, count, -1, CHUNK)
        parts = [_words(codes[..., :16] & 15 | (codes[..., 16:] & 15) << 4)]
        high = (codes >> 4).reshape(*codes.shape[:-1], 8, 4)
        if self.bits == 5:
            bits = high << np.arange(8, dtype=np.uint8)[:, None]
            parts.append(_words(np.bitwise_or.reduce(bits, axis=-2)))
        elif self.bits == 6:
            bits = (high << (2 * (np.arange(8, dtype=np.uint8) % 4))[:, None]).reshape(*codes.shape[:-1], 2, 4, 4)
            parts.append(_words(np.bitwise_or.reduce(bits, axis=-2).reshape(*codes.shape[:-1], 8)))
        return self._in_lanes(np.concatenate(parts, axis=-1).reshape(rows, count, -1))

    # ------------------------------------------------------------------------------------ unpacking

    def parts(self, panels: Array, rows: int) -> Parts:
        """Return what the blocks of `rows` rows hold, from panels (panels, words), int32."""
        held = self.format
        units = panels.reshape(len(panels), -1, self.unit)

        def of_lanes(start: int, words: int, dtype: type) -> Array:
            """Return vectors as (rows, blocks, count)."""
            part = np.ascontiguousarray(units[..., start : start + words])
            split = cast("Any", part).view(dtype).reshape(*units.shape[:2], -1, self.lanes)
            return np.moveaxis(split, 3, 1).reshape(len(panels) * self.lanes, units.shape[1], -1)[:rows]

        def floats(start: int) -> Array:
            dtype = np.float16 if held.scale.dtype == "float16" else np.float32
            return of_lanes(start, self.float_words, dtype)[..., 0].astype(np.float32)

        def steps(factor: Factor | None, start: int) -> Array | None:
            if factor is None or factor.steps is None:
                return None
            return of_lanes(start, self.groups * self.lanes // 4, np.int8).astype(np.int32)

        words = of_lanes(self.first_number, self.unit - self.first_number, np.int32)
        minimum = None if held.minimum is None else floats(self.float_words)
        return Parts(
            held, self._numbers_of(words), floats(0), steps(held.scale, self.steps), minimum,
            steps(held.minimum, self.minimum_steps),
        )  # fmt: skip

    def _numbers_of(self, words: Array) -> Array:
        """Return numbers (rows, blocks, elements) of vectors (rows, blocks, count), int32."""
        rows, blocks = words.shape[:2]
        stored = cast("Any", np.ascontiguousarray(words)).view(np.uint8).reshape(rows, blocks, -1, self.bits, 4)
        if self.bits == 8:
            numbers = stored.view(np.int8).astype(np.int32) if self.signed else stored.astype(np.int32) - 128
            return numbers.reshape(rows, blocks, -1)
        low = stored[..., :4, :]
        codes = np.concatenate([low & 15, low >> 4], axis=-2).astype(np.int32)
        vectors = np.arange(8)
        if self.bits == 5:
            codes += (stored[..., 4:, :] >> vectors[:, None] & 1).astype(np.int32) << 4
        elif self.bits == 6:
            codes += (stored[..., 4 + vectors // 4, :] >> (2 * (vectors % 4))[:, None] & 3).astype(np.int32) << 4
        return codes.reshape(rows, blocks, -1) - self.zero


def _words(array: Array) -> Array:
    """Return the bytes of the last dimension as int32."""
    return cast("Any", np.ascontiguousarray(array)).view(np.int32)


__all__ = ["CHUNK", "PackedBlocks"]
