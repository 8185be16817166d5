"""A convolution of single elements as a product over the pixels of an image, for `pointwise_tiles` to write.

    C[n, co, h, w] = max(… * (1 / sqrt(v[co] + 1e-5)), 0)       C[n, co, pixel] = max(total * table[co], 0)

What is computed of each sum has the sum and the pixel as variables; what the output channel alone decides is in tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np

from ...prim import PrimExpr, Var
from ...tir import (
    AllocBuffer,
    Buffer,
    BufferStore,
    DeclBuffer,
    ForKind,
    IfThenElse,
    IterVar,
    LetStmt,
    Stmt,
)
from ...tir.functor import substitute
from ..build import block, loop
from .windows import Axis

Array: TypeAlias = "np.ndarray[Any, Any]"


@dataclass(frozen=True)
class Table:
    """Values that each output channel decides, computed once: scales of a normalisation, such as 1 / √(v[c] + ε)."""

    buffer: Buffer
    channel: Var
    value: PrimExpr

    def filled(self, channels: int, lanes: int) -> Stmt:
        """The loop that computes them, in vectors."""

        def element(c: PrimExpr) -> Stmt:
            value = substitute(self.value, {self.channel: c.astype(str(self.channel.dtype))})
            stored = BufferStore(self.buffer, value, (c,))
            return stored if channels % lanes == 0 else IfThenElse(c < channels, stored)

        return loop("c", -(-channels // lanes), lambda c: loop(
            "lane", lanes, lambda lane: element(c * lanes + lane), ForKind.VECTORIZED))  # fmt: skip


@dataclass(frozen=True)
class Pixels:
    """A convolution of single elements as a product; `Results` reads its results from it."""

    batch: tuple[IterVar, ...]
    row: Var
    """The output channel."""
    column: Var
    """The pixel."""
    count: PrimExpr
    """The pixels of the result."""
    channels: int
    inputs: int
    store: BufferStore
    """The store of a result; its last index is the pixel."""
    total: Var
    """The variable in the value of the store that stands for the sum."""
    source: Buffer
    """The data, with one dimension for its pixels."""
    weights: Buffer
    steps: tuple[Axis, ...]
    """The axes of pixels, if the result has not all pixels of the data."""
    views: tuple[Buffer, ...]
    """Views of results, and of what they are made of besides sums."""
    names: tuple[tuple[Var, PrimExpr], ...]
    tables: tuple[Table, ...] = ()
    has_words: bool = False
    """True if the data are words already; `inputs` is the number of words then."""
    image: tuple[tuple[Var, PrimExpr], ...] = ()
    """Variables of the store that say which image it is, where each image has loops of its own."""

    def declared(self, body: Stmt, lanes: int) -> Stmt:
        """A statement with the tables, views and sizes around it that it uses."""
        for table in self.tables:
            body = AllocBuffer(table.buffer, block([table.filled(self.channels, lanes), body]))
        for view in (*self.views, self.source):
            body = DeclBuffer(view, body)
        for name, value in reversed(self.names):
            body = LetStmt(name, value, body)
        return body


class RowPacking(Protocol):
    """The order of weights as tiles read them."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the result."""
        ...

    def __call__(self, array: Array) -> Array:
        """Weights in this order."""
        ...


@dataclass(frozen=True)
class WeightBlocks:
    """Weights as tiles read them: P[block, ci, p] = W[first + p, ci], where `first` is the block's first channel."""

    channels: int
    inputs: int
    width: int
    """The channels of a block."""
    is_filled: bool
    """True if the last block ends with zeros; False if it begins before the end of the one before it."""

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
    """Depthwise weights as tiles read them: P[tap, c] = W[c, 0, i, j], with zeros up to whole vectors."""

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


__all__ = ["Pixels", "RowPacking", "Table", "TapVectors", "WeightBlocks"]
