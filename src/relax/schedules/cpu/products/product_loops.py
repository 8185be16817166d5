"""Matrix products of float32 or float64, in register tiles over packed blocks.

    for i, j, k in T.grid(M, N, K):          for task in T.parallel(groups * panels):     64 columns, a group of rows
        with T.block("C"):                       for ch in range(chunks):                 1020 rows at a time
            with T.init():                           sums[0:1020, 0:64] = 0
                C[i, j] = 0                          for ko in range(ceildiv(K, 1024)):
            C[i, j] += A[i, k] * B[k, j]                 panel[0:1024, 0:64] = B[…]       copied
                                                         for io in range(170):            rows, six at a time
    for i, j in T.grid(M, N):                                acc = sums[io * 6 + …]       in registers
        with T.block("D"):                                   for k in range(1024):
            D[i, j] = f(C[i, j])                                 acc[p, :] += A[row + p, k] * panel[k, :]   p in 0 .. 5
                                                             sums[io * 6 + …] = acc
                                                     D[…] = f(sums[…])                    C is no longer in memory

The tile fills the registers (6 × 4 vectors with 32 registers); `tile.division` divides rows and columns among tiles and
threads. The copied block of B stays in the L2 cache while all rows of a chunk iterate over it; tiles prefetch the rows
of the next tile. The last panel is zero-padded, and only columns inside the matrix are stored. Tiles store results
directly if these are the sums, or an epilogue of sums over a single depth block (`product_results`). Tiles access views
(`tile_view`), so dynamic sizes affect only their base offsets, not every index.

Packed panels are read from memory once per group of rows, whose part of A stays in the L2 cache. Tiles prefetch the
next block while they compute; a single tile reads sequentially, which hardware prefetching covers, and prefetches
nothing.

Register-blocked outer products over packed panels follow K. Goto and R. van de Geijn, *Anatomy of High-Performance
Matrix Multiplication*, 2008.

The rule `product` decides which products use these loops.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from ....prim import And, IntImm, PrimExpr, Select, Var, const, is_const, simplify
from ....prim.intrin import floordiv, floormod
from ....prim.intrin import max as maximum
from ....prim.intrin import min as minimum
from ....runtime.records import dataclass
from ....target import Target
from ....tir import Buffer, BufferLoad, DeclBuffer, ForKind, IfThenElse, Stmt
from ...build import (
    block,
    digits,
    int64,
    let,
    loop,
    named,
    product_of,
    scratch,
    size_of,
    spread,
    vector_load,
    vector_store,
)
from ..tile import RegisterTile, prefetched, register_tile
from ..tile.division import (
    FEW_ROWS,
    LOW,
    STREAMED_ROWS,
    Segment,
    Tile,
    blocks,
    depth_of_block,
    even_block,
    groups,
    panels,
    tile_for,
    with_panels,
)
from ..tile.shares import share_of
from .column_panels import ColumnPanel, each_vector, panel_of
from .operands import Matrices, tile_view
from .parameters import ProductParameters
from .product_results import ProductResults
from .right_operand import (
    BlockInMemory,
    Copied,
    DepthBlock,
    Readers,
    RightOperand,
    Share,
    packed_block,
    right_operand_of,
)

ROWS_ASKED: Final = 8
"""Rows prefetched in turn: those of the next tile, rounded up to a power of two."""
DEFAULT: Final = ProductParameters()
CHUNK: Final = 40
"""Row blocks whose accumulators are in memory at a time, for packed panels."""
ROWS_OF_A_COPY: Final = 96
"""Rows that share a copy of a panel; the copy takes a few hundredths of the time of their tiles."""
ROWS_OF_A_GROUP: Final = 24
"""Rows of a task if panels are not copied; its rows are read from the L2 cache."""


def blocks_of_chunk(target: Target, tile: Tile, bits: int) -> int:
    """Row blocks that share a copy of a panel: their accumulators fill a quarter of the L2 cache."""
    return max(target.machine.caches.l2 // 4 // (tile.rows * tile.columns * bits // 8), CHUNK)


@dataclass(frozen=True)
class RowsOfPanel:
    """Rows that iterate over a depth block: first row, number of whole tiles, and remaining rows (or None)."""

    first: PrimExpr
    tiles: PrimExpr
    tail: PrimExpr | None
    sums: Buffer | None
    """Accumulators of the rows; None: each tile stores its results."""

    def count(self, height: int) -> PrimExpr:
        """Number of rows, for tiles of `height` rows."""
        return self.tiles * height + (0 if self.tail is None else self.tail)


class ProductWriter:
    """Writes the loops of one product."""

    def __init__(
        self,
        operands: Matrices,
        target: Target,
        parameters: ProductParameters = DEFAULT,
        right: RightOperand | None = None,
    ) -> None:
        """`right` is the right operand as tiles read it; by default as memory holds it."""
        bits = operands.total.dtype.bits
        self.operands, self.tile, self.cores = operands, tile_for(target, bits, parameters.tile), target.num_cores
        tile = self.tile
        self.dtype = str(operands.total.dtype)
        self.rows, self.columns, self.depth = operands.rows, operands.columns, operands.depth
        self.few = isinstance(self.rows, IntImm) and self.rows.value < FEW_ROWS
        self.left = self._left()
        """Number of remainder rows."""
        self.whole = int64(0) if self.few else simplify(floordiv(self.rows - self.left, tile.rows))
        """Number of full-height row blocks, which are divided into groups."""
        columns = self.columns.value if isinstance(self.columns, IntImm) else 0
        self.widest = panels(columns, tile)[0].size if columns else tile.vectors
        """Vectors of the widest panels."""
        self.right = right_operand_of(operands, tile, self.widest) if right is None else right
        caches = target.machine.caches
        self.cache = caches.l2 * 3 // 8
        """Bytes of rows that stay in cache while all panels iterate over them."""
        if not self.right.is_packed:
            self.cache = max(self.cache, caches.l3 // 4)
        is_deep = not self.right.stays_in_l1 and (self.right.is_packed or not self.few)
        self.block = even_block(self.depth, parameters.depth or depth_of_block(target, tile, bits, is_deep))
        self.least = parameters.group or (ROWS_OF_A_COPY if self.right.is_copied else ROWS_OF_A_GROUP)
        """Fewest rows of a task."""
        usual = CHUNK if self.right.is_packed else blocks_of_chunk(target, tile, bits)
        self.chunk = parameters.chunk or usual
        """Row blocks whose accumulators are in memory at a time."""
        self.is_one_block = isinstance(self.depth, IntImm) and self.depth.value <= self.block
        """True if the depth is statically one block."""
        self.results = ProductResults(operands, target, self.is_one_block)

    # ------------------------------------------------------------------ tasks

    def tasks(self) -> Stmt:
        """Return all tasks, wrapped in the views and sizes they use."""
        return self.operands.declared(self.loops(int64(0)))

    def loops(self, done: PrimExpr) -> Stmt:
        """Return the parallel loop over the batch, groups of rows, and panels from panel `done` on."""
        batch = [size_of(v) for v in self.operands.batch]
        names = [*(v.var.name for v in self.operands.batch), "go", "jo"]

        def counted(segments: list[Segment], count: PrimExpr) -> Stmt:
            count = simplify(count - done)
            others = product_of([*batch, count])
            least = max(self.least // self.tile.rows, 1)
            number = groups(self.whole, others, least, self.cores, self._most_blocks(least))
            return named("groups", number, lambda number: parallel(segments, [*batch, number, count]))

        def parallel(segments: list[Segment], sizes: list[PrimExpr]) -> Stmt:
            def task(var: Var) -> Stmt:
                return digits(var, names, sizes, lambda parts: self._task(
                    segments, [*parts[:-1], simplify(parts[-1] + done)], sizes[-2]))  # fmt: skip

            return loop("task", product_of(sizes), task, ForKind.PARALLEL)

        return with_panels(self.columns, self.tile, counted)

    def _most_blocks(self, least: int) -> PrimExpr:
        """Row blocks that stay in cache, beside a panel, while all panels iterate over them.

        The cache is L2 for packed panels. Copying panels again for each group would take longer than reading the rows
        from L3.
        """
        size = self.tile.rows * self.depth * (self.operands.left.dtype.bits // 8)
        fitting = floordiv(int64(self.cache), maximum(size, int64(1)))
        return simplify(maximum(fitting, int64(least)))

    def _task(self, segments: list[Segment], parts: list[PrimExpr], number: PrimExpr) -> Stmt:
        """Compute a group of rows of one panel."""
        *outer, go, jo = parts
        values = dict(zip((v.var for v in self.operands.batch), outer, strict=True))

        def group(begin: PrimExpr, end: PrimExpr, is_last: PrimExpr | None) -> Stmt:
            return panel_of(
                values,
                segments,
                jo,
                self.columns,
                self.tile.lanes,
                lambda panel: self._chunks(panel, begin, end, is_last),
            )

        if is_const(number, 1):
            return group(int64(0), self.whole, None)
        begin, end = (minimum(share_of(at, self.whole, number), self.whole) for at in (go, go + 1))
        return let("begin", begin, lambda begin: let("end", end, lambda end: group(
            begin, end, go.equal(number - 1))))  # fmt: skip

    # ------------------------------------------------------------------ rows

    def _chunks(self, panel: ColumnPanel, begin: PrimExpr, end: PrimExpr, is_last: PrimExpr | None) -> Stmt:
        """Compute the rows of a group, chunk by chunk of row blocks."""
        if self.few:
            return self._chunk(panel, int64(0), int64(0), None)
        left, chunk_size = self.left, int64(self.chunk)

        def chunk(ch: PrimExpr) -> Stmt:
            return let("block", begin + ch * self.chunk, lambda first: named(
                "tiles", minimum(chunk_size, maximum(end - first, int64(0))), partial(tiles, first)))  # fmt: skip

        def tiles(first: Var, count: PrimExpr) -> Stmt:
            if is_const(left, 0):
                return self._chunk(panel, first, count, None)
            behind = (first + count).equal(end)
            behind = behind if is_last is None else And(is_last, behind)
            most = self.tile.rows - 1 if isinstance(left, IntImm) else 2 * LOW
            tail = minimum(Select(behind, left, int64(0)), int64(most))  # a bound for interval analysis
            return named("tail", tail, partial(self._chunk, panel, first, count))

        number = simplify(end - begin)
        if isinstance(number, IntImm) and number.value <= self.chunk:
            return self._chunk(panel, begin, number, None if is_const(left, 0) else left)
        chunks = maximum(int64(1), floordiv(number + (self.chunk - 1), self.chunk))
        return loop("ch", simplify(chunks), chunk)

    def _chunk(self, panel: ColumnPanel, first: PrimExpr, tiles: PrimExpr, tail: PrimExpr | None) -> Stmt:
        """Compute a chunk of row blocks and the remainder rows over the whole depth."""
        height, width = self.tile.rows, panel.vectors * self.tile.lanes
        row = simplify(first * height)
        if self.results.are_direct:
            return self._blocks(panel, RowsOfPanel(row, tiles, tail, None))
        most = self.rows.value if self.few and isinstance(self.rows, IntImm) else height * (self.chunk + 2)

        def summed(sums: Buffer) -> Stmt:
            rows = RowsOfPanel(row, tiles, tail, sums)
            count = self.rows if self.few else simplify(minimum(rows.count(height), int64(most)))
            return named("count", count, partial(made, rows))

        def made(rows: RowsOfPanel, count: PrimExpr) -> Stmt:
            assert rows.sums is not None
            results = self.results.of_rows(panel, rows.sums, rows.first, count)
            return block([self._cleared(rows, panel, count), self._blocks(panel, rows), results])

        return scratch("sums", (most, width), self.dtype, summed)

    def _cleared(self, rows: RowsOfPanel, panel: ColumnPanel, count: PrimExpr) -> Stmt:
        sums, zero = rows.sums, spread(const(0, self.dtype), self.tile.lanes)
        assert sums is not None
        return loop(
            "r", count, lambda r: each_vector(panel, self.tile.lanes, lambda c: vector_store(sums, (r, c), zero))
        )

    def _blocks(self, panel: ColumnPanel, rows: RowsOfPanel) -> Stmt:
        """Iterate all rows over the depth blocks."""
        if self.is_one_block:
            return self._block(panel, rows, int64(0), self.depth)
        blocks = simplify(floordiv(self.depth + (self.block - 1), self.block))
        if self.results.are_direct:
            blocks = simplify(maximum(blocks, int64(1)))  # results are stored for a depth of 0, too
        if is_const(simplify(floormod(self.depth, self.block)), 0):
            return loop("ko", blocks, lambda ko: self._block(panel, rows, ko * self.block, int64(self.block)))
        return loop("ko", blocks, lambda ko: let(
            "depth", minimum(int64(self.block), self.depth - ko * self.block), lambda depth: self._block(
                panel, rows, ko * self.block, depth)))  # fmt: skip

    def _block(self, panel: ColumnPanel, rows: RowsOfPanel, start: PrimExpr, depth: PrimExpr) -> Stmt:
        """Iterate all rows over one depth block."""
        most = min(self.depth.value if isinstance(self.depth, IntImm) else self.block, self.block)
        return self.right.block(panel, start, depth, most, self._readers(rows))

    def _readers(self, rows: RowsOfPanel) -> Readers:
        tiles = partial(self._tiles, rows=rows)
        if self.few and isinstance(self.rows, IntImm):
            return Readers(tiles, tiles, const(self.rows.value <= LOW, "bool"))
        if rows.tail is None or (isinstance(rows.tiles, IntImm) and rows.tiles.value):
            return Readers(tiles, tiles, const(False, "bool"))
        return Readers(tiles, partial(self._tail, rows=rows, tail=rows.tail), rows.tiles <= 0)

    def copied_panels(self, packed: BufferLoad, behind: Callable[[BlockInMemory], Stmt]) -> Stmt:
        """Copy all panels of a matrix into `packed`; `behind` returns a statement to run after each copy."""

        copies = Copied(self.operands, self.tile)

        def copied(panel: ColumnPanel) -> Stmt:
            view = packed_block(self.operands, packed, panel, int64(0), self.depth, copies.width(panel))
            part = BlockInMemory(panel, int64(0), self.depth, view)
            return DeclBuffer(view, block([copies.copy(part), behind(part)]))

        return self.each_panel(copied)

    def each_panel(self, body: Callable[[ColumnPanel], Stmt]) -> Stmt:
        """Return a parallel loop over all panels of a matrix."""

        def panels_of(segments: list[Segment], count: PrimExpr) -> Stmt:
            return loop("jo", count, lambda jo: panel_of(
                {}, segments, jo, self.columns, self.tile.lanes, body), ForKind.PARALLEL)  # fmt: skip

        return with_panels(self.columns, self.tile, panels_of)

    # ------------------------------------------------------------------ tiles

    def _left(self) -> PrimExpr:
        """Number of remainder rows.

        A dynamic remainder of 1 or 2 is combined with the last whole tile into two low tiles.
        """
        height = self.tile.rows
        rest = floormod(self.rows, height)
        if isinstance(self.rows, IntImm):
            return simplify(rest)
        is_lowest = And(And(rest > 0, rest <= 2 * LOW - height), self.rows > height)
        return simplify(Select(is_lowest, rest + height, rest))

    def _tiles(self, part: DepthBlock, rows: RowsOfPanel) -> Stmt:
        """Compute the tiles of some rows."""
        height = self.tile.rows
        if isinstance(self.rows, IntImm) and self.few:
            low = self.right.is_packed and self.rows.value < STREAMED_ROWS
            segments = blocks(self.rows.value, self.tile)
            share = Share(int64(0), int64(sum(s.number for s in segments)), low)
            parts: list[Stmt] = []
            for s in segments:
                parts.append(self._tiles_of(part, rows, s.start, s.count, s.size, share))
                share = share.behind(s.number)
            return block(parts)
        share = Share(int64(0), rows.tiles)
        whole = self._tiles_of(part, rows, int64(0), rows.tiles, height, share)
        return block([whole, *([] if rows.tail is None else [self._tail(part, rows, rows.tail)])])

    def _tiles_of(
        self, part: DepthBlock, rows: RowsOfPanel, start: PrimExpr, count: PrimExpr, height: int, share: Share
    ) -> Stmt:
        """Compute `count` consecutive tiles of one height, from row `start` on, relative to the first row."""
        return loop("io", simplify(count), lambda io: self._tile(
            part, rows, simplify(start + io * height), height, share.behind(io)))  # fmt: skip

    def _tail(self, part: DepthBlock, rows: RowsOfPanel, tail: PrimExpr) -> Stmt:
        """Compute a dynamic number of remainder rows: tiles of four rows, and one of 1, 2, 3 or 5.

        Narrow panels, which are few, compute them row by row, which compiles less code.
        """
        left, first = self.left, rows.tiles * self.tile.rows
        low = Share(rows.tiles, int64(1), low=True)
        if isinstance(left, IntImm):
            tile = self._tile(part, rows, simplify(first), left.value, Share(rows.tiles, int64(1)))
            return tile if isinstance(tail, IntImm) else IfThenElse(tail > 0, tile)
        if part.panel.vectors < self.widest:
            return self._tiles_of(part, rows, first, tail, 1, low)
        # At most eight rows; interval analysis bounds both values.
        is_five = tail.equal(LOW + 1)
        fours = Select(is_five, int64(0), floordiv(tail, LOW))
        rest = Select(is_five, int64(LOW + 1), floormod(tail, LOW))
        stmts = [self._tiles_of(part, rows, first, fours, LOW, Share(rows.tiles, int64(2), low=True))]
        first = simplify(first + fours * LOW)
        for height in (LOW + 1, *range(LOW - 1, 0, -1)):
            stmts.append(IfThenElse(rest.equal(height), self._tile(part, rows, first, height, low)))
        return block(stmts)

    def _tile(self, part: DepthBlock, rows: RowsOfPanel, first: PrimExpr, height: int, share: Share) -> Stmt:
        """Accumulate a register tile over a depth block; its rows begin at `first`, relative to the first row of
        `rows`.
        """
        operands, lanes = self.operands, self.tile.lanes
        at = {**part.panel.values, operands.row: rows.first + first, operands.k: part.start}
        left = tile_view(operands.left, at, ((operands.row, int64(height)), (operands.k, part.depth)))

        def sums(tile: RegisterTile) -> Stmt:
            def step(k: PrimExpr) -> Stmt:
                asked = self._asked(part, left, k, share)
                if rows.sums is None:
                    asked += self.results.asked(result, part.panel, height, k)
                added = tile.step(lambda p: BufferLoad(left, (p, k)).astype(self.dtype), self.right.vectors(part, k))
                return block([*asked, added])

            kept = rows.sums
            if kept is None:
                old = self.results.begun(result, part.panel, tile, part.start)
                new = self.results.stored(result, part.panel, tile)
            else:
                old = tile.begun(lambda p, c: vector_load(kept, (first + p, c), lanes))
                new = tile.each(lambda p, c: vector_store(kept, (first + p, c), tile.load(p, c)))
            return block([old, DeclBuffer(left, loop("k", part.depth, step)), new])

        result = self.results.of_tile(part.panel, rows.first + first, int64(height))
        stmt = register_tile(
            height,
            part.panel.vectors,
            lanes,
            sums,
            sums=self.dtype,
            has_numbered_columns=self.right.has_numbered_columns(part),
        )
        return stmt if rows.sums is not None else result.declared(stmt)

    def _asked(self, part: DepthBlock, left: Buffer, k: PrimExpr, share: Share) -> list[Stmt]:
        """Prefetches of one step of a tile: of the right operand or, if its blocks are copied, of the left one.

        A tile then prefetches all rows of the next tile, which may be in L3, over a few steps.
        """
        if self.right.is_packed:
            return self.right.asked(part, k, share)
        if self.few or share.low or self.operands.left.indices[-1] is not self.operands.k:
            return []
        return [prefetched(left, (int64(self.tile.rows) + floormod(k, ROWS_ASKED), k), 3)]


__all__ = [
    "ProductWriter", "RowsOfPanel", "Tile", "tile_for",
]  # fmt: skip
