"""Register tiles of `chains.loops`: accumulators of some pixels by some channel vectors."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from .....prim import Add, IntImm, Mul, PrimExpr, Var, const, simplify
from .....prim.intrin import floormod
from .....tir import Buffer, BufferLoad, BufferStore, ForKind, LetStmt, Stmt
from .....tir.functor import substitute
from ....build import block, int64, let, loop, spread, vector_load
from ...tile import RegisterTile, Vector, number_of, prefetched, register_tile
from ..pointwise.operands import Table
from .chain import DTYPE, Finish
from .panels import Left, Step

FAR: Final = 1 << 16
"""Bytes of weights from which tiles prefetch them; smaller weights stay in cache, as each row rereads them."""
BYTES: Final = 4
"""Bytes of an element."""


class RowTiles:
    """Writes the tiles of one float32 chain."""

    factor = DTYPE
    """Dtype of the factors."""
    lanes: int
    middle: int
    """Channels of the intermediate images."""
    pixels: int
    """Pixels of a tile."""
    registers: int
    tables: Mapping[Finish, Mapping[Var, Table]]
    """Per-channel values of each epilogue, by the variable that stands for them."""

    def _pieces(self, size: int, channels: int) -> tuple[Vector, ...]:
        """Vectors of a tile; the last one may be a half vector if the tile covers all channels.

        Then all are half vectors if registers hold the accumulators, as half-width broadcasts are faster.
        """
        lanes, half = self.lanes, self.lanes // 2
        pieces = [Vector(v * lanes, lanes) for v in range(size)]
        if lanes > 2 and 0 < channels - (size - 1) * lanes <= half:
            halves = 2 * size - 1
            if (self.pixels + 1) * halves < self.registers:
                return tuple(Vector(v * half, half) for v in range(halves))
            pieces[-1] = Vector((size - 1) * lanes, half)
        return tuple(pieces)

    def _span(self, pieces: Sequence[Vector]) -> int:
        """Number of channel vectors of a tile, the last one rounded up to a whole vector."""
        return -(-(pieces[-1].start + pieces[-1].lanes) // self.lanes)

    def _product(
        self, pieces: Sequence[Vector], steps: Callable[[Step], Stmt], weights: tuple[Buffer, PrimExpr],
        number: PrimExpr, stored: Callable[[Buffer], Stmt],
    ) -> Stmt:  # fmt: skip
        """Accumulate pixels times weights in registers, and pass the accumulators to `stored`.

        `steps` turns the products at one depth index into the loop over the depth. If there are many weights, each tile
        prefetches a vector of the next ones, chosen by its `number` among the tiles of these weights.
        """
        (packed, first), lanes = weights, self.lanes
        vectors = self._span(pieces)
        ahead = Var("ahead", "int64")
        is_far = BYTES * math.prod(map(number_of_size, packed.shape)) >= FAR

        def sums(tile: RegisterTile) -> Stmt:
            def step(k: PrimExpr, left: Left) -> Stmt:
                def vector(c: PrimExpr) -> PrimExpr:
                    v, at = divmod(number_of(c), lanes)
                    return vector_load(packed, (simplify(first + v), k, at), tile.lanes_of(c))

                asked = [prefetched(packed, (ahead, k, int64(0)))] if is_far else []
                return block([*asked, tile.step(left, vector)])

            return block([tile.cleared(), steps(step), stored(tile.acc)])

        result = register_tile(
            self.pixels, pieces, lanes, sums, sums=DTYPE, factors=self.factor, product=self._added,
            has_numbered_columns=True,
        )  # fmt: skip
        place = simplify(first + vectors + floormod(number, vectors))
        return LetStmt(ahead, place, result) if is_far else result

    def _steps(self, data: Buffer, step: Step) -> Stmt:
        """Return the loop over the depth of the projection, for the depthwise results that a tile reads."""
        return loop("k", self.middle, lambda k: step(k, lambda p: BufferLoad(data, (p, k))))

    def _added(self, total: PrimExpr, element: PrimExpr, weights: PrimExpr) -> PrimExpr:
        """Multiply-add of a pixel's element and weights."""
        return Add(total, Mul(element, weights))

    def _kept(self, buffer: Buffer, value: PrimExpr) -> PrimExpr:
        """Convert a value to the form in which the buffer holds it between two convolutions."""
        del buffer
        return value

    def _changed(self, finish: Finish, acc: Buffer, pieces: Sequence[Vector], columns: PrimExpr, out: Buffer) -> Stmt:
        """Apply the epilogue to a tile whose first channel is `columns` and store it."""

        def vector(p: Var, piece: Vector) -> Stmt:
            def lane(x: Var) -> Stmt:
                place = piece.start + x
                tables = {name: BufferLoad(t.buffer, (columns + place,)) for name, t in self.tables[finish].items()}
                return let("total", BufferLoad(acc, (p, place)), lambda total: BufferStore(out, self._kept(
                    out, substitute(finish.store.value, {**tables, finish.total: total})), (p, place)))  # fmt: skip

            return loop("x", piece.lanes, lane, ForKind.VECTORIZED)

        return loop("p", acc.shape[0], lambda p: block(vector(p, piece) for piece in pieces), ForKind.UNROLLED)

    @property
    def zero(self) -> PrimExpr:
        return spread(const(0, DTYPE), self.lanes)


def number_of_size(size: PrimExpr) -> int:
    """Value of a static size."""
    assert isinstance(size, IntImm)
    return size.value
