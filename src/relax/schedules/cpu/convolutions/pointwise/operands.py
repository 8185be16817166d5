"""Pointwise convolutions as matrix products over the pixels of an image, for `pointwise.loops`.

    C[n, co, h, w] = max(… * (1 / sqrt(v[co] + 1e-5)), 0)       C[n, co, pixel] = max(total * table[co], 0)

The epilogue becomes an expression of the sum and the pixel; per-channel values are read from tables.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias

import numpy as np

from .....prim import PrimExpr, Var
from .....runtime.records import dataclass
from .....tir import AllocBuffer, Buffer, BufferStore, DeclBuffer, ForKind, IfThenElse, IterVar, LetStmt, Stmt
from .....tir.functor import substitute
from ....build import block, loop
from ..windows import Axis

Array: TypeAlias = "np.ndarray[Any, Any]"


@dataclass(frozen=True)
class Table:
    """Per-channel values computed once, such as normalisation scales 1 / √(v[c] + ε)."""

    buffer: Buffer
    channel: Var
    value: PrimExpr

    def filled(self, channels: int, lanes: int) -> Stmt:
        """Return the vectorised loop that fills the table."""

        def element(c: PrimExpr) -> Stmt:
            value = substitute(self.value, {self.channel: c.astype(str(self.channel.dtype))})
            stored = BufferStore(self.buffer, value, (c,))
            return stored if channels % lanes == 0 else IfThenElse(c < channels, stored)

        return loop("c", -(-channels // lanes), lambda c: loop(
            "lane", lanes, lambda lane: element(c * lanes + lane), ForKind.VECTORIZED))  # fmt: skip


@dataclass(frozen=True)
class Pixels:
    """Pointwise convolution as a matrix product; `Results` reads its results from it."""

    batch: tuple[IterVar, ...]
    row: Var
    """Output channel."""
    column: Var
    """Pixel index."""
    count: PrimExpr
    """Number of pixels of the result."""
    channels: int
    inputs: int
    store: BufferStore
    """Store of a result; its last index is the pixel."""
    total: Var
    """Variable in the store's value that stands for the sum."""
    source: Buffer
    """Data, with a single dimension for the pixels."""
    weights: Buffer
    steps: tuple[Axis, ...]
    """Pixel axes of a strided convolution; empty if it reads every pixel."""
    views: tuple[Buffer, ...]
    """Views of the results and of the other operands of the epilogue."""
    names: tuple[tuple[Var, PrimExpr], ...]
    tables: tuple[Table, ...] = ()
    has_words: bool = False
    """True if the data are packed groups already; `inputs` then counts groups."""
    image: tuple[tuple[Var, PrimExpr], ...] = ()
    """Variables of the store that identify the image, if each image has loops of its own."""

    def declared(self, body: Stmt, lanes: int) -> Stmt:
        """Wrap `body` in the tables, views and sizes it uses."""
        for table in self.tables:
            body = AllocBuffer(table.buffer, block([table.filled(self.channels, lanes), body]))
        for view in (*self.views, self.source):
            body = DeclBuffer(view, body)
        for name, value in reversed(self.names):
            body = LetStmt(name, value, body)
        return body


class RowPacking(Protocol):
    """Packing of weights for the fused row-by-row tiles."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the packed weights."""
        ...

    def __call__(self, array: Array) -> Array:
        """Return the packed weights."""
        ...


@dataclass(frozen=True)
class WeightBlocks:
    """Packing of weights as tiles read them: P[block, ci, p] = W[first + p, ci], with `first` the block's first
    channel.
    """

    channels: int
    inputs: int
    width: int
    """Channels of a block."""
    is_filled: bool
    """True if the last block is padded with zeros; False if it overlaps the previous block."""

    @property
    def shape(self) -> tuple[int, int, int]:
        return -(-self.channels // self.width), self.inputs, self.width

    def __call__(self, array: Array) -> Array:
        blocks, inputs, width = self.shape
        matrix = np.reshape(array, (self.channels, inputs))
        if self.is_filled:
            rows = np.zeros((blocks * width, inputs), array.dtype)
            rows[: self.channels] = matrix
        else:
            last = self.channels - width
            rows = np.concatenate([matrix[min(i * width, last) :][:width] for i in range(blocks)])
        return np.transpose(np.reshape(rows, (blocks, width, inputs)), (0, 2, 1))


@dataclass(frozen=True)
class TapVectors:
    """Packing of depthwise weights: P[tap, c] = W[c, 0, i, j], padded with zeros to whole vectors."""

    channels: int
    taps: int
    width: int

    @property
    def shape(self) -> tuple[int, int]:
        return self.taps, self.width

    def __call__(self, array: Array) -> Array:
        result = np.zeros(self.shape, array.dtype)
        result[:, : self.channels] = np.transpose(np.reshape(array, (self.channels, self.taps)))
        return result
