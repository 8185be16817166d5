"""Operands of products as packed groups (`tile.words`), packed at run time unless constant or already packed in memory.

rows of the left operand      A4[i, w] = A[i, 4 * w : 4 * w + 4]
panels of the right operand   B4[panel][w, j] = B[4 * w : 4 * w + 4, start + j], with corrections below
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from ....prim import LT, IntImm, PrimExpr, Var, const, is_const, simplify
from ....prim.instructions import TILE_ROWS
from ....prim.intrin import ceildiv, floordiv, floormod
from ....runtime.records import dataclass
from ....target import Target
from ....tir import Buffer, BufferLoad, BufferStore, DeclBuffer, IfThenElse, Stmt
from ....tir.buffer import decl_buffer
from ...build import alloc, block, int64, let, loop, named, scratch, size_of, spread, tasks, vector_load, vector_store
from ..tile.division import Segment, Tile, tile_for, with_panels
from ..tile.words import Words, bits_view
from .column_panels import ColumnPanel, panel_of
from .operands import Operands, tile_view
from .packed_panels import PanelPacking

Array: TypeAlias = "np.ndarray[Any, Any]"

WORD: Final = 32
"""Bits of a packed group and of an accumulator."""


@dataclass(frozen=True)
class WordPanels:
    """Packing of constant matrices into consecutive panels of packed groups, with the corrections of their columns."""

    panels: PanelPacking
    words: Words
    dtype: str = "int32"

    def size(self, depth: int) -> int:
        """Packed groups of a matrix of `depth` rows."""
        count = self.words.count(int64(depth))
        assert isinstance(count, IntImm)
        return (count.value + bool(self.words.correction)) * sum(self.panels.widths)

    def __call__(self, array: Array) -> Array:
        matrices = self.words.packed(self.panels.filled(array))
        return self.panels.in_panels(matrices)


class WordOperands:
    """Operands of one product as packed groups, and its panels of columns."""

    def __init__(self, operands: Operands, words: Words, target: Target, shape: tuple[int, int] | None = None) -> None:
        self.operands, self.words, self.cores = operands, words, target.num_cores
        self.tile: Tile = tile_for(target, WORD, shape)
        self.lanes = self.tile.lanes
        self.vector = f"{words.sums}x{self.lanes}" if self.lanes > 1 else words.sums
        self.rows, self.columns = operands.rows, operands.columns
        self.depth: PrimExpr = words.count(operands.depth)
        """Packed groups per row."""
        self.height = self.depth + 1 if words.correction else self.depth
        """Packed groups per panel column, including its correction."""
        self.height_of_tile = TILE_ROWS if words.in_tiles else self.tile.rows
        self.left, self.right = operands.left, operands.packed
        """Accesses of packed groups: of the left operand by row and group, of the panels by column."""
        self.left_is_words = self._has_words_on_the_left()

    def _has_words_on_the_left(self) -> bool:
        """True if the rows of the left operand can be read as packed groups in place."""
        left, group = self.operands.left, self.words.group
        fills = is_const(simplify(floormod(self.operands.depth, group * self.words.step)), 0)
        same = left.dtype.bits * group == WORD and not self.words.correction
        return fills and same and isinstance(self.operands.depth, IntImm) and left.indices[-1] is self.operands.k

    @abstractmethod
    def _tasks(self) -> Stmt:
        """Return the loops that pack both operands."""

    # ------------------------------------------------------------------ words

    def product(self) -> Stmt:
        """Pack the operands that need it, then run the parallel loop over tasks."""

        def with_depth(depth: PrimExpr) -> Stmt:
            self.depth = depth
            self.height = simplify(depth + 1) if self.words.correction else depth
            return self._with_words()

        return self.operands.declared(named("words", self.depth, with_depth))

    def _with_words(self) -> Stmt:
        stmts: list[Stmt] = []

        def with_left() -> Stmt:
            if self.left_is_words:
                return with_right()
            axes = self._axes(self.operands.left, self.operands.k)
            shape = [*(size for _, size in axes), self.depth]

            def body(buffer: Buffer) -> Stmt:
                self.left = BufferLoad(buffer, (*(var for var, _ in axes), self.operands.k))
                stmts.append(self._left_words(axes))
                return with_right()

            return scratch("left_words", shape, "int32", body)

        def with_right() -> Stmt:
            if self.right is not None:
                return block([*stmts, self._tasks()])
            axes = self._axes(self.operands.right, self.operands.k, self.operands.column)
            columns = simplify(ceildiv(self.columns, self.tile.columns) * self.tile.columns)

            def body(buffer: Buffer) -> Stmt:
                self.right = BufferLoad(buffer, (*(var for var, _ in axes), self.operands.column))
                stmts.append(self._right_words(axes))
                return block([*stmts, self._tasks()])

            shape = [*(size for _, size in axes), simplify(columns * self.height)]
            return scratch("right_words", shape, "int32", body)

        return with_left()

    def _axes(self, access: BufferLoad, *but: Var) -> list[tuple[Var, PrimExpr]]:
        """Variables of an access with their sizes, except `but`."""
        sizes = {id(v.var): size_of(v) for v in self.operands.batch}
        sizes[id(self.operands.row)] = self.rows
        return [
            (index, sizes[id(index)])
            for index in access.indices
            if isinstance(index, Var) and not any(index is var for var in but)
        ]

    def _left_words(self, axes: Sequence[tuple[Var, PrimExpr]]) -> Stmt:
        """Pack the left operand, row by row."""
        operands, words = self.operands, self.words
        lanes, group = self.lanes, words.group
        step = lanes * group
        contiguous = operands.left.indices[-1] is operands.k

        def row(parts: list[PrimExpr]) -> Stmt:
            at = dict(zip((var for var, _ in axes), parts, strict=True))
            source = tile_view(operands.left, at, ((operands.k, operands.depth),))
            target = tile_view(self.left, at, ((operands.k, self.depth),))
            bits = bits_view(source)
            whole = simplify(floordiv(operands.depth, step)) if contiguous else int64(0)

            def vectors(v: Var) -> Stmt:
                numbers = vector_load(bits, (v * step,), step)
                return vector_store(target, (v * lanes,), words.neighbours(numbers, True))

            def one(w: Var) -> Stmt:
                return let("at", whole * lanes + w, lambda at: BufferStore(target, words.word_below(
                    lambda k: BufferLoad(bits, (k,)), at * group, operands.depth, True), (at,)))  # fmt: skip

            stmts = [] if is_const(whole, 0) else [loop("v", whole, vectors)]
            rest = simplify(self.depth - whole * lanes)
            stmts += [] if is_const(rest, 0) else [loop("w", rest, one)]
            return with_views((source, bits, target), block(stmts))

        names = [var.name for var, _ in axes]
        sizes = [size for _, size in axes]
        return tasks("row", names, sizes, row)

    def _right_words(self, axes: Sequence[tuple[Var, PrimExpr]]) -> Stmt:
        """Pack the right operand, panel by panel."""

        def panels(segments: list[Segment], count: PrimExpr) -> Stmt:
            sizes = [*(size for _, size in axes), count]
            names = [*(var.name for var, _ in axes), "jo"]

            def task(parts: list[PrimExpr]) -> Stmt:
                values = dict(zip((var for var, _ in axes), parts[:-1], strict=True))
                return panel_of(values, segments, parts[-1], self.columns, self.lanes, self._panel_of_words)

            return tasks("panel", names, sizes, task)

        return with_panels(self.columns, self.tile, panels)

    def _panel_of_words(self, panel: ColumnPanel) -> Stmt:
        operands, words, lanes = self.operands, self.words, self.lanes
        group, width = words.group, panel.vectors * lanes
        inside = int64(width) if panel.inside is None else panel.inside
        at = {**panel.values, operands.column: panel.start}
        source = tile_view(operands.right, at, ((operands.k, operands.depth), (operands.column, inside)))
        bits, target = bits_view(source), self._panel_view(panel)
        whole = simplify(floordiv(operands.depth, group))
        contiguous = operands.right_is_contiguous

        def word(w: PrimExpr, c: PrimExpr, count: int, is_whole: bool) -> PrimExpr:
            """Packed groups of some columns."""

            def number(k: PrimExpr) -> PrimExpr:
                return vector_load(bits, (k, c), count)

            if not is_whole:
                return words.word_below(number, w * group, operands.depth, False)
            return words.word([number(w * group + g) for g in range(group)], False)

        def line(w: PrimExpr, is_whole: bool) -> Stmt:
            def columns(c: PrimExpr) -> Stmt:
                def one(x: Var) -> Stmt:
                    stored = BufferStore(target, word(w, c + x, 1, is_whole), (w, c + x))
                    if panel.inside is None:
                        return stored
                    zero = BufferStore(target, const(0, "int32"), (w, c + x))
                    return IfThenElse(LT(c + x, inside), stored, zero)

                single = loop("x", lanes, one)
                if not contiguous or not is_whole:
                    return single
                together = vector_store(target, (w, c), word(w, c, lanes, True))
                return together if panel.inside is None else IfThenElse(c + lanes <= inside, together, single)

            return loop("v", panel.vectors, lambda v: columns(v * lanes))

        stmts = [loop("w", whole, lambda w: line(w, True))]
        tail = simplify(self.depth - whole)
        if not is_const(tail, 0):
            stmts.append(loop("w", tail, lambda w: line(simplify(whole + w), False)))
        if words.correction:
            stmts.append(loop("v", panel.vectors, lambda v: self._correction(target, v * lanes)))
        return with_views((source, bits, target), block(stmts))

    def _correction(self, panel: Buffer, c: PrimExpr) -> Stmt:
        """Store the corrections of some columns of a panel below its groups."""
        lanes = self.lanes

        def total(sums: Buffer) -> Stmt:
            def add(w: Var) -> Stmt:
                right = vector_load(panel, (w, c), lanes)
                return vector_store(sums, (0,), self.words.corrected(right, vector_load(sums, (0,), lanes)))

            scale = spread(self.words.scale_of_correction(), lanes)
            return block([
                vector_store(sums, (0,), spread(const(0, "int32"), lanes)),
                loop("w", self.depth, add),
                vector_store(panel, (self.depth, c), vector_load(sums, (0,), lanes) * scale),
            ])  # fmt: skip

        return alloc("sums", (lanes,), "int32", "local", total)

    def _panel_view(self, panel: ColumnPanel) -> Buffer:
        """View of a panel's packed groups, group by column."""
        assert self.right is not None
        column, width = self.operands.column, int64(panel.vectors * self.lanes)
        at = {**panel.values, column: simplify(panel.start * self.height)}
        view = tile_view(self.right, at, ((column, self.height * width),))
        return decl_buffer((self.height, width), "int32", "panel", data=view.data, elem_offset=view.elem_offset)


def with_views(views: Sequence[Buffer], body: Stmt) -> Stmt:
    """Wrap `body` in the distinct views."""
    for view in reversed(list(dict.fromkeys(views))):
        body = DeclBuffer(view, body)
    return body
