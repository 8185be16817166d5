"""Matrix products of narrow dtypes (int8 into int32, bfloat16 into float32) by dot products of packed groups.

    for i, j, k in T.grid(M, N, K):          words of A: A4[i, k // 4] = A[i, k // 4 * 4 : … + 4]     (see `tile.words`)
        with T.block("C"):                   words of B: B4[k // 4, j] = B[k // 4 * 4 : … + 4, j]
            with T.init():
                C[i, j] = 0                  for task in T.parallel(groups * panels):      64 columns, a group of rows
            C[i, j] += A[i, k] * B[k, j]         for io in …:                              rows, six at a time
                                                     acc = 0, or the corrections of B's columns     in registers
    for i, j in T.grid(M, N):                        for k in range(ceildiv(K, 4)):
        with T.block("D"):                               acc[p, :] = T.dot_u8s8(acc[p, :], A4[io * 6 + p, k], B4[k, :])
            D[i, j] = f(C[i, j])                     D[…] = f(acc)

Panels of packed B are read from the L2 cache, so accumulators stay in registers over the whole depth. Constant B is
packed at compile time (`WordPanels`), other B at run time. A is read in place if its rows are packed groups already:
contiguous elements of the right dtype, whose static number fills whole groups.

Targets without byte dot products multiply pairs of int16 (`T.dot_s16s16`), to which the bytes are converted when they
are packed. bfloat16 without dot products is left to `product`.

Not supported: other dtypes, bfloat16 products with few rows and a non-constant right operand (see `few_rows`),
and cases that `operands` rejects.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from ....prim import IntImm, PrimExpr, Var, const, is_const, simplify
from ....prim.instructions import TILE_ROWS, TILE_WORDS, tile_dot
from ....prim.intrin import address_of, ceildiv, floordiv, floormod
from ....prim.intrin import min as minimum
from ....runtime.records import dataclass
from ....target import Target
from ....tir import Buffer, BufferLoad, DeclBuffer, Evaluate, ForKind, IfThenElse, PrimFunc, Stmt
from ....tir.nests import Nest
from ...build import (
    apart,
    block,
    int64,
    let,
    loop,
    named,
    product_of,
    scratch,
    size_of,
    spread,
    tasks,
    vector_load,
    vector_store,
)
from ...matrix_product import MatrixProduct
from ...rule import PackedFunction, Refusal, ScheduleRule
from ...space import Space
from ..tile import RegisterTile, register_tile, row_at
from ..tile.division import Segment, blocks, groups, shapes_of_tiles, with_panels
from ..tile.parameters import TALLEST
from ..tile.words import Words, bits_view, words_for
from .column_panels import ColumnPanel, each_vector, mask_of, panel_of
from .dot_operands import WORD, WordOperands, WordPanels, with_views
from .few_rows import MOST_ROWS
from .operands import Operands, Results, product_of_numbers, rewritten_products, tile_view
from .packed_panels import PanelPacking, packed_products

Array: TypeAlias = "np.ndarray[Any, Any]"

ROWS_OF_A_GROUP: Final = 24
"""Fewest rows of a task."""
LEAST_ROWS: Final = 4
"""Fewest rows for which int8 tile instructions are faster than dot products."""


@dataclass(frozen=True)
class DotParameters:
    """Numbers that the loops of a dot product may choose."""

    tile: tuple[int, int] | None = None
    """Rows and vectors of a register tile; None: what is computed from the target's registers."""
    group: int = ROWS_OF_A_GROUP
    """Fewest rows of a task."""


class DotProduct(ScheduleRule):
    """Schedule rule for products of narrow dtypes."""

    parameters = DotParameters()

    def space(self, target: Target) -> Space[DotParameters]:
        """Return the shapes of register tiles, and the fewest rows of a task."""
        tiles = shapes_of_tiles(target, TALLEST)
        return Space(DotParameters, {"tile": (None, *tiles), "group": (ROWS_OF_A_GROUP, 6, 12, 48, 96, 192)})

    def apply(self, func: PrimFunc, target: Target, tunable: bool) -> PrimFunc | Refusal:
        del tunable

        def write(operands: Operands) -> Stmt | Refusal:
            words = _words_of(operands, target)
            if isinstance(words, Refusal):
                return words
            if words.sums == "float32" and _has_few_rows(operands):
                return Refusal("few rows read the right operand once, in the order of memory")
            return _Writer(operands, words, target, self.parameters).product()

        return rewritten_products(func, write, _narrow_product_of)

    def pack(self, func: PrimFunc, target: Target, constants: Sequence[int]) -> PackedFunction | Refusal:
        def write(operands: Operands) -> Stmt | Refusal:
            words = _words_of(operands, target)
            return words if isinstance(words, Refusal) else _Writer(operands, words, target, self.parameters).product()

        def panels(operands: Operands, packing: PanelPacking) -> WordPanels | Refusal:
            words = _words_of(operands, target)
            return words if isinstance(words, Refusal) else WordPanels(packing, words)

        return packed_products(func, target, constants, write, _narrow_product_of, panels, self.parameters.tile)


def _narrow_product_of(nest: Nest) -> MatrixProduct | Refusal:
    """Return the product computed by a nest, if a target could pack its dtypes into groups."""
    product = product_of_numbers(nest)
    if isinstance(product, Refusal):
        return product
    narrow = product.lhs.dtype.bits < WORD and product.rhs.dtype.bits < WORD
    if not narrow or product.sum_dtype not in ("int32", "float32"):
        return Refusal(f"operands of {product.lhs.dtype} and {product.rhs.dtype} are not narrow", unrelated=True)
    return product


def _words_of(operands: Operands, target: Target) -> Words | Refusal:
    """Return the packed groups of a product."""
    if target.machine.vector_bits < 128:
        return Refusal("the target has no vectors")
    dtypes = operands.left.dtype, operands.right.dtype, operands.total.dtype
    words = words_for(target, *dtypes, in_tiles=_fills_tiles(operands))
    if words is None:
        return Refusal(f"the target has no dot products of {dtypes[0]} and {dtypes[1]} summed in {dtypes[2]}")
    return words


def _fills_tiles(operands: Operands) -> bool:
    """True unless the product statically leaves most of a hardware tile empty; for floats, whatever the rows."""
    rows, depth = operands.rows, operands.depth
    if isinstance(depth, IntImm) and depth.value * operands.left.dtype.bits < WORD * TILE_WORDS // 2:
        return False
    least = LEAST_ROWS if operands.left.dtype.is_integer else 1
    return not isinstance(rows, IntImm) or rows.value >= least


def _has_few_rows(operands: Operands) -> bool:
    rows = operands.rows
    return isinstance(rows, IntImm) and rows.value <= MOST_ROWS and operands.right_is_contiguous


class _Writer(WordOperands):
    """Writes the loops of one product."""

    def __init__(self, operands: Operands, words: Words, target: Target, parameters: DotParameters) -> None:
        super().__init__(operands, words, target, parameters.tile)
        self.least = parameters.group

    # ------------------------------------------------------------------ tasks

    def _tasks(self) -> Stmt:
        """Return the parallel loop over the batch, groups of rows, and panels of columns."""
        batch = [size_of(v) for v in self.operands.batch]
        names = [*(v.var.name for v in self.operands.batch), "go", "jo"]
        tiles = simplify(ceildiv(self.rows, self.height_of_tile))

        def counted(segments: list[Segment], count: PrimExpr) -> Stmt:
            least = max(self.least // self.height_of_tile, 1)
            number = groups(tiles, product_of([*batch, count]), least, self.cores)
            return named("groups", number, lambda number: parallel(segments, [*batch, number, count]))

        def parallel(segments: list[Segment], sizes: list[PrimExpr]) -> Stmt:
            def task(parts: list[PrimExpr]) -> Stmt:
                values = dict(zip((v.var for v in self.operands.batch), parts[:-2], strict=True))

                def rows(panel: ColumnPanel) -> Stmt:
                    view = self._panel_view(panel)
                    return DeclBuffer(view, self._group(panel, view, parts[-2], sizes[-2]))

                return panel_of(values, segments, parts[-1], self.columns, self.lanes, rows)

            return tasks("task", names, sizes, task)

        return with_panels(self.columns, self.tile, counted)

    def _group(self, panel: ColumnPanel, view: Buffer, go: PrimExpr, number: PrimExpr) -> Stmt:
        """Compute the register tiles of a group of rows."""
        if self.words.in_tiles:
            return self._wide_tiles(panel, view, go, number)
        if isinstance(self.rows, IntImm) and is_const(number, 1):
            return block(
                loop("io", piece.count, lambda io, piece=piece: self._tile(
                    panel, view, simplify(piece.start + io * piece.size), piece.size))
                for piece in blocks(self.rows.value, self.tile)
            )  # fmt: skip
        height = self.tile.rows
        whole = simplify(floordiv(self.rows, height))
        share = simplify(floordiv(whole + (number - 1), number))
        left = simplify(self.rows - whole * height)

        def tiles(begin: PrimExpr, end: PrimExpr) -> Stmt:
            full = loop("io", simplify(end - begin), lambda io: self._tile(
                panel, view, simplify((begin + io) * height), height))  # fmt: skip
            if is_const(left, 0):
                return full
            behind = self._tail(panel, view, simplify(whole * height), left)
            return block([full, behind if is_const(number, 1) else IfThenElse(go.equal(number - 1), behind)])

        if is_const(number, 1):
            return tiles(int64(0), whole)
        return let("share", share, lambda share: let("begin", minimum(go * share, whole), lambda begin: let(
            "end", minimum(begin + share, whole), lambda end: tiles(begin, end))))  # fmt: skip

    def _tail(self, panel: ColumnPanel, view: Buffer, first: PrimExpr, left: PrimExpr) -> Stmt:
        """Compute the remaining rows; a dynamic remainder takes one tile per bit of its count."""
        if isinstance(left, IntImm):
            return self._tile(panel, view, first, left.value)
        stmts: list[Stmt] = []
        for height in (4, 2, 1):
            rest = left if height == 4 else floormod(left, 2 * height)
            stmts.append(IfThenElse(rest >= height, self._tile(panel, view, first, height)))
            first = first + floordiv(rest, height) * height
        return block(stmts)

    # ------------------------------------------------------------------ tiles of the machine

    def _wide_tiles(self, panel: ColumnPanel, view: Buffer, go: PrimExpr, number: PrimExpr) -> Stmt:
        """Compute the rows of a group by hardware tiles."""
        total = simplify(ceildiv(self.rows, TILE_ROWS))

        def tiles(begin: PrimExpr, end: PrimExpr) -> Stmt:
            def tile(io: Var) -> Stmt:
                first = simplify((begin + io) * TILE_ROWS)
                count = simplify(minimum(int64(TILE_ROWS), self.rows - first))
                return let("first", first, lambda first: named(
                    "count", count, lambda count: self._wide_tile(panel, view, first, count)))  # fmt: skip

            return loop("io", simplify(end - begin), tile)

        if is_const(number, 1):
            return tiles(int64(0), total)
        share = floordiv(total + (number - 1), number)
        return let("share", share, lambda share: let("begin", minimum(go * share, total), lambda begin: let(
            "end", minimum(begin + share, total), lambda end: tiles(begin, end))))  # fmt: skip

    def _wide_tile(self, panel: ColumnPanel, view: Buffer, first: PrimExpr, count: PrimExpr) -> Stmt:
        """Accumulate one hardware tile of rows and store the results."""
        operands, width, words = self.operands, panel.vectors * self.lanes, self.words
        at = {**panel.values, operands.row: first}
        depth = operands.depth if self.left_is_words else self.depth
        left = tile_view(self.left, at, ((operands.row, count), (operands.k, depth)))
        bits = bits_view(left)
        distance = simplify(floordiv(left.strides[0], words.group)) if self.left_is_words else left.strides[0]
        zero = spread(const(0, words.sums), self.lanes)
        steps = simplify(floordiv(self.depth, TILE_WORDS))

        def sums(buffer: Buffer) -> Stmt:
            def multiplied(start: int) -> Stmt:
                return Evaluate(tile_dot(
                    words.kind, _address(buffer, 0, start), width, _address(bits, 0, 0), distance,
                    _address(view, 0, start), width, count, min(TILE_ROWS, width - start), steps,
                ))  # fmt: skip

            cleared = loop("r", count, lambda r: each_vector(
                panel, self.lanes, lambda c: vector_store(buffer, (r, c), zero)))  # fmt: skip
            added = block(multiplied(start) for start in range(0, width, TILE_ROWS))
            product = added if is_const(steps, 0) else IfThenElse(steps > 0, with_views((left, bits), added))
            return block([cleared, product, self._finished(panel, buffer, first, count)])

        return scratch("sums", (TILE_ROWS, width), words.sums, sums)

    def _finished(self, panel: ColumnPanel, sums: Buffer, first: PrimExpr, count: PrimExpr) -> Stmt:
        """Apply the epilogue to some rows and store the columns inside the matrix."""
        result = self._results_of(panel, first, count)

        def vector(r: Var, c: PrimExpr) -> Stmt:
            if result.is_sum:
                value = vector_load(sums, (r, c), self.lanes)
                return vector_store(result.out, result.place(r, c), value, mask_of(panel, c, self.lanes))
            return self._made(result, panel, sums, r, c)

        return result.declared(loop("r", count, lambda r: loop(
            "v", panel.vectors, lambda v: vector(r, v * self.lanes))))  # fmt: skip

    # ------------------------------------------------------------------ tiles of registers

    def _tile(self, panel: ColumnPanel, view: Buffer, first: PrimExpr, height: int) -> Stmt:
        """Accumulate one register tile and store the results."""
        operands = self.operands
        depth = operands.depth if self.left_is_words else self.depth
        at = {**panel.values, operands.row: first}
        left = tile_view(self.left, at, ((operands.row, int64(height)), (operands.k, depth)))
        bits = bits_view(left)

        def first_sum(c: PrimExpr) -> PrimExpr:
            return vector_load(view, (self.depth, c), self.lanes)

        def word(p: PrimExpr, w: PrimExpr) -> PrimExpr:
            if not self.left_is_words:
                return BufferLoad(bits, (p, w))
            group = self.words.group
            return self.words.neighbours(vector_load(bits, (p, w * group), group), True)

        def sums(tile: RegisterTile) -> Stmt:
            steps = loop("w", self.depth, lambda w: tile.step(
                lambda p: word(p, w), row_at(view, (w, int64(0)), self.lanes)))  # fmt: skip
            begun = tile.begun(lambda p, c: first_sum(c)) if self.words.correction else tile.cleared()
            return block([begun, with_views((left, bits), steps), self._results(panel, tile, first)])

        return register_tile(
            height, panel.vectors, self.lanes, sums, sums=self.words.sums, factors="int32", product=self.words.add
        )

    # ------------------------------------------------------------------ results

    def _results(self, panel: ColumnPanel, tile: RegisterTile, first: PrimExpr) -> Stmt:
        """Apply the epilogue to a register tile and store the columns inside the matrix."""
        result = self._results_of(panel, first, int64(tile.height))
        if result.is_sum:
            return result.declared(tile.each(lambda p, c: vector_store(
                result.out, result.place(p, c), tile.load(p, c), mask_of(panel, c, self.lanes))))  # fmt: skip

        def made(sums: Buffer) -> Stmt:
            copied = tile.each(lambda p, c: vector_store(sums, (p, c), tile.load(p, c)))
            # A separate function: the epilogue's constants would displace the next tile's accumulators.
            results = apart("p", tile.height, lambda p: loop(
                "v", panel.vectors, lambda v: self._made(result, panel, sums, p, v * self.lanes)))  # fmt: skip
            return block([copied, results])

        return result.declared(scratch("sums", (tile.height, tile.width), self.words.sums, made))

    def _results_of(self, panel: ColumnPanel, first: PrimExpr, height: PrimExpr) -> Results:
        width = int64(panel.vectors * self.lanes)
        at = {**panel.values, self.operands.row: first, self.operands.column: panel.start}
        return Results(self.operands, at, height, width if panel.inside is None else panel.inside)

    def _made(self, result: Results, panel: ColumnPanel, sums: Buffer, r: PrimExpr, c: PrimExpr) -> Stmt:
        """Apply the epilogue to a vector of accumulators and store it."""

        def lane(x: Var) -> Stmt:
            stored = result.made(r, c + x, BufferLoad(sums, (r, c + x)))
            return stored if panel.inside is None else IfThenElse(c + x < panel.inside, stored)

        return loop("x", self.lanes, lane, ForKind.VECTORIZED)


def _address(buffer: Buffer, row: int, column: int) -> PrimExpr:
    return address_of(BufferLoad(buffer, (int64(row), int64(column))))


__all__ = ["DotProduct", "WordPanels"]
