"""Constant weights with a scale for each block of a row: rows of a block format where one has them, else uint8."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from .... import op
from ....expr import Constant
from ....ir import DataType
from ....runtime.records import dataclass
from ....topi.block_formats import BlockFormat, group_rows
from ..emitter import Emitter
from ..values import Array, Tensor

CHUNK: Final = 32
"""Numbers in a block of which block formats have a multiple."""
AT_ONCE: Final = 1 << 22
"""Numbers that are arranged at a time: each takes 16 bytes meanwhile."""
DTYPES: Final = ("int4", "uint4", "int8", "uint8")
"""Dtypes of numbers that `Blocks` holds."""


@dataclass(frozen=True)
class Blocks:
    """Weights (numbers - zeros) * scales: numbers (rows, blocks, size), scales and zeros (rows, blocks)."""

    numbers: NDArray[np.uint8]
    scales: Array
    zeros: NDArray[np.uint8]
    """Zero points, rounded to numbers where they are floats."""
    rest: NDArray[np.float32] | None
    """Float zero points minus `zeros`; None for integers."""
    bits: int

    def of_columns(self, columns: NDArray[np.int64]) -> Blocks:
        """Return blocks of chosen columns (one a place, -1 for none, where the weight is 0)."""
        flat = np.reshape(self.numbers, (len(self.numbers), -1))[:, columns]
        moved = np.reshape(flat, self.numbers.shape)
        is_empty = np.reshape(columns < 0, self.numbers.shape[1:])
        numbers = np.where(is_empty, self.zeros[..., None], moved)
        return Blocks(numbers, self.scales, self.zeros, self.rest, self.bits)

    def format_rows(self) -> tuple[Array, BlockFormat] | None:
        """Return the weights as rows of a block format; None if no format has blocks of this size."""
        rows, blocks, size = self.numbers.shape
        if size % CHUNK:
            return None
        middle = 1 << (self.bits - 1)
        is_signed = bool((self.zeros == middle).all())
        step = max(AT_ONCE // (blocks * size), 1)
        parts: list[Array] = []
        held: BlockFormat | None = None
        for start in range(0, rows, step):
            some = slice(start, start + step)
            flat = np.reshape(self.numbers[some], (-1, blocks * size))
            numbers = flat.astype(np.int16) - middle if is_signed else flat
            zeros = None if is_signed else self.zeros[some]
            part, held = group_rows(numbers, self.scales[some], zeros, max(self.bits, 4))
            parts.append(part)
        return None if held is None else (np.concatenate(parts), held)

    def weights(self, g: Emitter, dtype: str = "float32") -> Tensor:
        """Return the weights as floats (rows, columns), dequantised by an operator that products take in."""
        packed = self.format_rows()
        if packed is not None:
            return g.emit(op.dequantize_blocks(g.shared(packed[0]), packed[1].name, out_dtype=dtype))
        rows, blocks, size = self.numbers.shape
        parts = (np.reshape(self.numbers, (-1, size)), np.ravel(self.scales).astype("float32"), np.ravel(self.zeros))
        floats = g.emit(op.reshape(g.emit(op.dequantize(*map(g.const, parts), axis=0)), [rows, blocks * size]))
        return floats if dtype == "float32" else g.emit(op.astype(floats, dtype))


def unpacked(packed: Array, bits: int) -> NDArray[np.uint8]:
    """Return the numbers in the bytes of the last dimension, those in the low bits first."""
    if bits == 8:
        return packed
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    numbers = (packed[..., None] >> shifts) & np.uint8((1 << bits) - 1)
    return np.reshape(numbers, (*packed.shape[:-1], -1))


def constant_blocks(
    g: Emitter, numbers: Tensor, scales: Tensor, zeros: Tensor | None, size: int, axis: int = -1
) -> Blocks | None:
    """Return constant numbers of 4 or 8 bits whose blocks of `size` lie along an axis, which becomes the last one.

    Scales and zero points have the dimensions of the numbers, with one element per block. Return None for tensors that
    are not constants, a last block that is not whole, and scales or zero points of other dtypes or shapes.
    """
    dtype = str(g.dtype(numbers))
    parts = [part for part in (numbers, scales, zeros) if part is not None]
    if dtype not in DTYPES or not all(isinstance(part, Constant) for part in parts):
        return None
    if (zeros is not None and str(g.dtype(zeros)) != dtype) or str(g.dtype(scales)) not in ("float32", "float16"):
        return None
    arrays = [np.asarray(g.array(part, "data")) for part in parts]
    if any(array.ndim != arrays[0].ndim for array in arrays):
        return None
    values, factors, *points = (np.moveaxis(array, axis, -1) for array in arrays)
    *outer, columns = values.shape
    if not values.size or columns % size or any(part.shape != (*outer, columns // size) for part in (factors, *points)):
        return None
    bits = DataType(dtype).bits
    shift = 1 << (bits - 1) if dtype.startswith("int") else 0

    def codes(array: Array, *shape: int) -> NDArray[np.uint8]:
        wide = array.astype(np.int16) + shift
        return np.reshape(wide.astype(np.uint8), shape)

    blocks = columns // size
    held = codes(points[0], -1, blocks) if points else np.full((values.size // columns, blocks), shift, np.uint8)
    return Blocks(codes(values, -1, blocks, size), np.reshape(factors, (-1, blocks)), held, None, bits)
