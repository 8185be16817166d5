"""Operands that are computed: expressions of other arrays, evaluated vector by vector where tiles read them.

    float32(Q[k, j]) * S[k // 32, j]        few rows:     b[:] = float32(P[k, :]) * T[k // 32, :]     for each tile
                                            other rows:   panel[k, :] = b[:], once for a group of rows

P and T are panels of the constants Q and S, held as a `PanelStorage` says. Other arrays are read where they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from ....prim import PrimExpr, Var, is_const, simplify, substitute
from ....prim.intrin import floordiv
from ....runtime.records import dataclass
from ....tir import Buffer, BufferLoad, DeclBuffer, IfThenElse, Stmt
from ....tir.buffer import decl_buffer
from ...build import block, int64, loop, scratch, vector_store
from ..tile import number_of, prefetched, vector_of
from ..tile.division import Tile, panels
from .column_panels import ColumnPanel, mask_of
from .held_parts import HeldPart
from .operands import Matrices, tile_view
from .right_operand import BlockInMemory, DepthBlock, Readers, RightOperand, Share

Array: TypeAlias = "np.ndarray[Any, Any]"

AHEAD: Final = 2048
"""Prefetch distance in bytes of packed panels."""


@dataclass(frozen=True)
class ComputedBlock(DepthBlock):
    """Depth block of an operand that is evaluated as it is read, with the panels that it reads."""

    sources: Mapping[PrimExpr, Buffer]


class Computed(RightOperand):
    """Operand that is an expression of its depth and column, and of batch indices."""

    stays_in_l1 = True

    def __init__(self, operands: Matrices, tile: Tile, value: PrimExpr, held: Sequence[HeldPart]) -> None:
        super().__init__(operands, tile)
        self.value, self.held = value, held
        self.is_packed, self.is_copied = bool(held), not held

    def block(self, panel: ColumnPanel, start: PrimExpr, depth: PrimExpr, most: int, readers: Readers) -> Stmt:
        part = self.part(panel, start, depth)

        def copied(buffer: Buffer) -> Stmt:
            def line(k: Var) -> Stmt:
                return self.stored(part, k, lambda c, vector: vector_store(buffer, (k, c), vector))

            tiles = readers.tiles(BlockInMemory(panel, start, depth, buffer))
            return block([loop("k", depth, line), tiles])

        def evaluated() -> Stmt:
            return scratch("panel", (most, self.width(panel)), self.dtype, copied)

        if is_const(readers.are_few):
            stmt = readers.few(part) if is_const(readers.are_few, 1) else evaluated()
        else:
            stmt = IfThenElse(readers.are_few, readers.few(part), evaluated())
        return self.declared(part, stmt)

    def part(self, panel: ColumnPanel, start: PrimExpr, depth: PrimExpr) -> ComputedBlock:
        """Return a depth block, which views panels that `declared` declares."""
        return ComputedBlock(
            panel, start, depth, {held.part: self._view(held, panel, start, depth) for held in self.held}
        )

    def declared(self, part: ComputedBlock, body: Stmt) -> Stmt:
        """Wrap `body` in the views of a block."""
        for view in part.sources.values():
            body = DeclBuffer(view, body)
        return body

    def stored(self, part: DepthBlock, k: PrimExpr, store: Callable[[PrimExpr, PrimExpr], Stmt]) -> Stmt:
        """Return `store(first column, vector)` for each vector of a row of a block."""
        vector = self.vectors(part, k)
        columns = [int64(v * self.tile.lanes) for v in range(part.panel.vectors)]
        return block(store(c, vector(c)) for c in columns)

    def has_numbered_columns(self, part: DepthBlock) -> bool:
        return isinstance(part, ComputedBlock)

    def vectors(self, part: DepthBlock, k: PrimExpr) -> Callable[[PrimExpr], PrimExpr]:
        if not isinstance(part, ComputedBlock):
            return super().vectors(part, k)
        operands, lanes = self.operands, self.tile.lanes
        at = {**part.panel.values, operands.k: simplify(part.start + k)}

        def vector(c: PrimExpr) -> PrimExpr:
            known = {
                held.part: held.packing.storage.vector(
                    held.part, part.sources[held.part], self._row(held, k, at), number_of(c) // lanes, lanes
                )
                for held in self.held
            }
            there = {**at, operands.column: simplify(part.panel.start + c)}
            return vector_of(self.value, operands.column, there, lanes, known, mask_of(part.panel, c, lanes))

        return vector

    def asked(self, part: DepthBlock, k: PrimExpr, share: Share) -> list[Stmt]:
        """Prefetch panels with a row for each step at a fixed distance ahead."""
        if not isinstance(part, ComputedBlock):
            return []
        along = [part.sources[held.part] for held in self.held if held.row is self.operands.k]
        sizes = [self._row_size(held, part.panel.vectors) for held in self.held if held.row is self.operands.k]
        return [
            prefetched(view, (k + AHEAD * 8 // view.dtype.bits // size, int64(0)))
            for view, size in zip(along, sizes, strict=True)
        ]

    # ------------------------------------------------------------------ panels

    def _row_size(self, held: HeldPart, vectors: int) -> int:
        """Elements in memory of a row of a panel of `vectors` vectors."""
        return held.packing.storage.vectors(held.load.dtype, vectors) * self.tile.lanes

    def _row(self, held: HeldPart, k: PrimExpr, at: Mapping[Var, PrimExpr]) -> PrimExpr:
        """Return the row of a constant's panel that step `k` of a block reads."""
        if held.row is self.operands.k:
            return k
        return simplify(int64(substitute(held.row, {var: place.astype(str(var.dtype)) for var, place in at.items()})))

    def _view(self, held: HeldPart, panel: ColumnPanel, start: PrimExpr, depth: PrimExpr) -> Buffer:
        """View of a panel as (rows, elements of a row); of the rows of a depth block if its rows are the depth."""
        column, size = self.operands.column, self._row_size(held, panel.vectors)
        first, rows = (start, depth) if held.row is self.operands.k else (int64(0), int64(held.packing.rows))
        begin = simplify(self._before(held, panel) * held.packing.rows + first * size)
        view = tile_view(BufferLoad(held.buffer, (column,)), {column: begin}, ((column, rows * size),))
        return decl_buffer((rows, size), str(view.dtype), "panel", data=view.data, elem_offset=view.elem_offset)

    def _before(self, held: HeldPart, panel: ColumnPanel) -> PrimExpr:
        """Elements in memory of one row of all panels before a panel."""
        lanes, before = self.tile.lanes, 0
        segments = panels(held.packing.shape[held.packing.axis], self.tile)
        if all(self._row_size(held, segment.size) == segment.size * lanes for segment in segments):
            return panel.start
        for segment in segments:
            row = self._row_size(held, segment.size)
            if segment.size == panel.vectors:
                return simplify(before + floordiv(panel.start - segment.start * lanes, segment.size * lanes) * row)
            before += segment.number * row
        raise AssertionError(panel.vectors)
