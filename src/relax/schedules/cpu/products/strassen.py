"""float32 products with packed weights by one level of Strassen's algorithm: seven half-size products instead of eight.

    for i, j, k in T.grid(M, N, K):     for slab in range(…):                           516 rows at a time
        with T.block("C"):                  for r in T.parallel(258):                   the quarters of A and their sums
            with T.init():                      lefts[…, 0:7, r, :] = A11, A12, A12 - S2, S1, S2, A22, S3
                C[i, j] = 0                     uneven[r] = rows r and 258 + r differ too much
                                            for task in T.parallel(parts * pairs):      258 rows of a half, two panels
            C[i, j] += A[i, k] * B[k, j]        for ko in range(ceildiv(K // 2, 768)):
                                                    for i in range(3):                  in register tiles
    for i, j in T.grid(M, N):                           sums[i, …] += lefts[ko, i, …] * (B11, B21 or B22)
        with T.block("D"):                          for i in range(4):
            D[i, j] = f(C[i, j])                        right[0:768, 0:64] = T1, T2, B21 - T2 or T3
                                                        sums[3 + i, …] += lefts[ko, 3 + i, …] * right[…]
                                                for io in range(43):                    a tile of each quarter
                                                    sums[0:4, …] = C11, C12, C21, C22
                                                    D[…] = f(sums[0:4, …])

The quarters are halves of a slab's rows, two adjacent column panels, and halves of the depth. The variant is S.
Winograd's, with

    S1 = A21 + A22, S2 = S1 - A11, S3 = A11 - A21        T1 = B12 - B11, T2 = B22 - T1, T3 = B22 - B12

and seven products P in this order, from which U = P1 + P5, C11 = P1 + P2, C12 = U + P4 + P3, C21 = U + P7 + P6, and C22
= U + P7 + P4. Sums of A are computed once per slab; sums of B once per part, from the panels of the plain product, so
weights take no extra memory or traffic: they are computed one after the other in the same buffer, which stays in the L2
cache with the seven products of a part. Tiles prefetch the next tile's A and accumulators, and the next block of the
panels.

Rows and depths that do not fill tiles are padded when the sums of A are computed: rows with the last row, depths with
zeros. Columns after the last pair of panels are left to the plain product.

The error of an element is at most `ERROR` · (K + 18) · 2⁻²⁴ times K · max |A| · max |B|, while a plain sum's is at most
K · 2⁻²⁴ times the sum of the magnitudes of its own products: small elements beside large ones lose digits. (Each result
adds at most 18 times the product of the largest elements for each k of a half, after K / 2 + 9 roundings.) max |A| is
that of the two rows computed together, one of the upper and one of the lower half of a slab. If these maxima differ by
a factor above `EVEN`, as for the zero rows that pad a sequence, the plain product computes all results: a later
normalisation would amplify the noise of the other row. An infinity or NaN, or an overflow in a sum of quarters, would
spread to finite elements: if any result is not finite, the plain product recomputes all of them.

Not supported: other dtypes, few rows or rows that fill tiles badly, shallow or narrow products, batches, results that
overwrite operands of their epilogue; and everything if ``relax.fast_algorithms`` is False.

V. Strassen, *Gaussian elimination is not optimal*, 1969; N. Higham, *Accuracy and Stability of Numerical Algorithms*,
chapter 23. Computing the sums while packing follows J. Huang et al., *Strassen's algorithm reloaded*, 2016.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, TypeAlias

from ....ir.transform import FAST_ALGORITHMS, PassContext
from ....prim import LE, NE, And, IntImm, PrimExpr, Select, Sub, Var, const, simplify
from ....prim.instructions import prefetch
from ....prim.intrin import ceildiv, floordiv, floormod
from ....prim.intrin import max as maximum
from ....prim.intrin import min as minimum
from ....target import Target
from ....tir import Buffer, BufferLoad, BufferStore, DeclBuffer, Evaluate, ForKind, IfThenElse, Stmt
from ....tir.buffer import decl_buffer
from ....tir.nests import loads_in
from ...build import block, digits, int64, let, loop, named, scratch, spread, vector_load, vector_store
from ..tile import RegisterTile, register_tile, row_at
from ..tile.division import LOW, TASKS_PER_CORE, Tile, panels, tile_for
from ..tile.shares import share_of
from .finiteness import if_any_raised
from .operands import Matrices
from .strassen_results import LOWS, Quarters
from .strassen_slabs import PRODUCTS, Cut, Lefts, Part, Slab, each_vector, vector_loop

ERROR: Final = 4.5
"""Factor of the error bound (see above)."""
SUMS: Final = 4
"""Number of products whose right operands are sums of quarters."""
LEAST_ROWS: Final = 24
"""Fewest rows for which the sums cost less than the eighth product."""
LEAST_UNEVEN_ROWS: Final = 96
"""Fewest rows if some cores compute more pairs of panels than others."""
LEAST_DEPTH: Final = 256
"""Least depth for which combining the seven products costs little."""
LEAST_PAIRS: Final = 2
"""Fewest pairs of panels over which the sums of A, shared by all pairs, are amortised."""
SHARE: Final = 5
"""A block of a right operand takes at most 1 / SHARE of the L2 cache."""
SLAB: Final = 43
"""Most tiles of half a slab; sums of A are in memory for one slab at a time."""
EVEN_TASKS: Final = 2
"""Tasks per core that keep the cores busy if all have the same number."""
LEAST_TILES: Final = 8
"""Fewest tiles per part of the rows that amortise the sums of B, which are computed for each part."""
LEAST_OWN_TILES: Final = 16
"""Fewest tiles per part if the pairs divide evenly among the cores, so that each core has a part of the rows.

A core then reads only sums of A that it computed. Cache lines read by two cores are rewritten at 2.3 GB/s, 27 ns per
line, with or without write prefetches (two cores of a virtual AMD EPYC, Zen 4). With fewer tiles, the division would be
too uneven: 11 tiles as 6 and 5 lose more than that.
"""
WASTE: Final = 16
"""Padding rows of tiles may be at most 1 / WASTE."""

_Quarter: TypeAlias = tuple[int, int]
"""(Half of the depth, panel of the pair)."""
_PLACE: Final[_Quarter] = (-1, -1)
"""Marker for the current contents of the right operand's memory instead of a quarter."""
_NEXT: Final[tuple[_Quarter, ...]] = ((1, 0), (1, 1), (0, 1), (1, 1), (1, 0), (0, 1), (0, 0))
"""First quarter read by the product after each one; after the last one, the first quarter of the next block."""
_NEXT_OTHER: Final[tuple[_Quarter, ...]] = ((1, 0), (1, 1), (0, 0), (1, 1), (1, 0), (1, 1), (0, 0))
"""Second quarter read by the product after each one, or the same quarter if it reads only one."""


def panels_by_sevens(operands: Matrices, target: Target) -> int:
    """Number of column panels computed by Strassen's algorithm if there are enough rows; 0 if it does not apply."""
    if not PassContext.current().config.get(FAST_ALGORITHMS, True):
        return 0
    dtypes = {str(access.dtype) for access in (operands.left, operands.right, operands.total)}
    if dtypes != {"float32"} or operands.batch or _reads_results(operands):
        return 0
    if operands.left.indices[-1] is not operands.k:
        return 0
    tile = tile_for(target, 32)
    if tile.lanes < 4 or not isinstance(operands.columns, IntImm) or not isinstance(operands.depth, IntImm):
        return 0
    if operands.depth.value < LEAST_DEPTH:
        return 0
    wide = panels(operands.columns.value, tile)[0]
    pairs = min(wide.number, operands.columns.value // tile.columns) // 2  # results have whole panels
    if wide.size != tile.vectors or pairs < LEAST_PAIRS:
        return 0
    worth = is_worth_it(operands.rows, 2 * pairs, target)
    if isinstance(operands.rows, IntImm) and not bool(simplify(worth)):
        return 0
    return 2 * pairs


def _reads_results(operands: Matrices) -> bool:
    """True if results overwrite operands of their epilogue, and so cannot be recomputed."""
    data = operands.store.buffer.data
    return any(load.buffer.data is data for load in loads_in(operands.store.value))


def is_worth_it(rows: PrimExpr, count: int, target: Target) -> PrimExpr:
    """Condition that there are enough rows for `count` panels, and that most rows of their tiles are filled."""
    tile, cores, pairs = tile_for(target, 32), target.num_cores, count // 2
    is_even = pairs % cores == 0 or pairs >= TASKS_PER_CORE * cores
    least = LEAST_ROWS if is_even else LEAST_UNEVEN_ROWS
    slabs, tiles = _slabs(rows, tile)
    upper = ceildiv(rows, slabs * 2)
    filled = 2 * slabs * (tiles * tile.rows - _lows(upper - (tiles - 1) * tile.rows, tiles, tile) * (tile.rows - LOW))
    return And(LE(int64(least), rows), LE(filled * (WASTE - 1), rows * WASTE))


def _lows(left: PrimExpr, tiles: PrimExpr, tile: Tile) -> PrimExpr:
    """Number of low tiles (0 to 2) that end a half slab of `tiles` tiles whose last one has `left` rows."""
    result: PrimExpr = int64(0)
    for lows in range(1, LOWS + 1):
        most = tile.rows - lows * (tile.rows - LOW)
        result = Select(And(LE(left, int64(most)), tiles > lows), int64(lows), result)
    return result


def _slabs(rows: PrimExpr, tile: Tile) -> tuple[PrimExpr, PrimExpr]:
    """Return (number of slabs, most tiles of half a slab)."""
    slabs = maximum(ceildiv(rows, int64(2 * SLAB * tile.rows)), int64(1))
    return slabs, ceildiv(ceildiv(rows, slabs), int64(2 * tile.rows))


class Sevens:
    """Writes the loops of one product whose first panels are computed by Strassen's algorithm."""

    def __init__(self, operands: Matrices, target: Target, count: int) -> None:
        assert isinstance(operands.depth, IntImm)
        assert operands.packed is not None
        self.operands, self.tile, self.count = operands, tile_for(target, 32), count
        self.packed, self.dtype, self.cores = operands.packed, "float32", target.num_cores
        self.vector = f"float32x{self.tile.lanes}"
        tile, caches = self.tile, target.machine.caches
        depth = operands.depth.value
        most_rows = max(caches.l2 // SHARE // (tile.columns * 4), tile.lanes)
        self.cut = Cut(depth, -(-depth // (2 * most_rows)), tile.lanes)
        """Division of the depth into blocks that fit the cache (see `SHARE`)."""
        self.lefts, self.quarters = Lefts(operands, tile, self.cut), Quarters(operands, tile)
        fitting = caches.l2 // 2 // (PRODUCTS * tile.rows * tile.columns * 4)
        self.most_tiles = min(max(fitting, LEAST_TILES), SLAB)
        """Most tiles of a part, whose seven products stay in the L2 cache."""

    def product(self, finite: Buffer) -> Stmt:
        """Compute all slabs; set `finite[0]` to the number of panels computed.

        It is 0 if a result is not finite or magnitudes of paired rows differ too much.
        """
        tile = self.tile
        slabs, tiles = _slabs(self.operands.rows, tile)
        most = tiles_of(simplify(tiles))
        # Redundant bound: makes sizes derived from tiles constant-bounded.
        tiles = minimum(simplify(tiles), int64(most))
        pairs = self.count // 2
        parts = -(-most // LEAST_TILES)
        shapes = (self.cut.blocks, PRODUCTS, most * tile.rows, self.cut.pitch), (pairs * parts, tile.lanes)

        def body(lefts: Buffer, flags: Buffer, uneven: Buffer) -> Stmt:
            return named("slabs", simplify(slabs), lambda slabs: named(
                "tiles", tiles, lambda tiles: block([
                    BufferStore(finite, const(self.count, "int64"), (int64(0),)),
                    loop("slab", slabs, lambda slab: _while(finite, self._slab(
                        lefts, flags, uneven, finite, slab, tiles))),
                ])))  # fmt: skip

        return scratch("lefts", shapes[0], self.dtype, lambda lefts: scratch(
            "flags", shapes[1], self.dtype, lambda flags: scratch(
                "uneven", (most * tile.rows, tile.lanes), self.dtype, lambda uneven:
                    body(lefts, flags, uneven))))  # fmt: skip

    def _slab(self, lefts: Buffer, flags: Buffer, uneven: Buffer, finite: Buffer, number: Var, tiles: PrimExpr) -> Stmt:
        """Compute a slab of rows: sums of A, the products, and the check for finite results."""
        rows, height = self.operands.rows, self.tile.rows
        size = simplify(tiles * (2 * height))

        def of_rows(first: PrimExpr, count: PrimExpr) -> Stmt:
            slab = Slab(first, count, simplify(floordiv(count + 1, 2)), tiles, lefts, uneven)
            tasks = _while(finite, self._tasks(slab, flags, finite))
            return IfThenElse(count > 0, block([self.lefts.made(slab), self.lefts.evenness(slab, finite), tasks]))

        def behind(first: PrimExpr) -> Stmt:
            count = minimum(size, maximum(rows - first, int64(0)))
            return named("rows", simplify(count), lambda count: of_rows(first, count))

        return named("first", simplify(number * size), behind)

    # ------------------------------------------------------------------ tasks

    def _tasks(self, slab: Slab, flags: Buffer, finite: Buffer) -> Stmt:
        """Return the parallel loop over row parts and pairs of panels, and the combination of their flags."""
        pairs, tiles = int64(self.count // 2), slab.tiles
        number = self.count // 2
        even = number % self.cores == 0 and number >= EVEN_TASKS * self.cores
        wanted, least = -(-TASKS_PER_CORE * self.cores // number), LEAST_TILES
        if even:
            wanted, least = self.cores, LEAST_OWN_TILES
        several = minimum(int64(wanted), floordiv(tiles, least))
        parts = maximum(ceildiv(tiles, int64(self.most_tiles)), several)

        def task(parts: PrimExpr, var: Var) -> Stmt:
            def of(places: list[PrimExpr]) -> Stmt:
                part, pair = places
                first, end = (minimum(share_of(at, tiles, parts), tiles) for at in (part, part + 1))
                # Redundant bound (`most_tiles`): makes all indices of a part constant-bounded.
                return named("begin", simplify(first), lambda begin: named(
                    "held", minimum(simplify(end - begin), int64(self.most_tiles)), lambda held:
                        named("low", self._low(slab, begin, held), lambda low: self._part(
                            slab, (begin, held, low), pair, flags, var))))  # fmt: skip

            return digits(var, ["part", "pair"], [parts, pairs], of)

        def all_tasks(parts: PrimExpr) -> Stmt:
            count = simplify(parts * pairs)
            return block([
                loop("task", count, lambda var: task(parts, var), ForKind.PARALLEL),
                if_any_raised(flags, count, self.tile.lanes, BufferStore(finite, int64(0), (int64(0),))),
            ])  # fmt: skip

        return named("parts", simplify(maximum(parts, int64(1))), all_tasks)

    def _low(self, slab: Slab, begin: PrimExpr, tiles: PrimExpr) -> PrimExpr:
        """Number of low tiles among tiles `begin` to `begin + tiles`."""
        left = slab.upper - (begin + tiles - 1) * self.tile.rows
        return simplify(_lows(left, tiles, self.tile))

    def _part(
        self, slab: Slab, held: tuple[PrimExpr, PrimExpr, PrimExpr], pair: PrimExpr, flags: Buffer, task: Var
    ) -> Stmt:
        """Compute the results of some row tiles and a pair of panels; `held` is (first tile, tiles, low tiles)."""
        shape = (PRODUCTS, self._part_rows(), self.tile.columns)

        def summed(sums: Buffer) -> Stmt:
            part = Part(slab, *held, pair, sums)
            return block([
                *([] if self.cut.blocks == 1 else [self._cleared(part)]),
                scratch("right", (self.cut.block, self.tile.columns), self.dtype, lambda right: loop(
                    "ko", self.cut.blocks, lambda ko: self._block(part, right, ko))),
                self.quarters.finished(part, flags, task),
            ])  # fmt: skip

        return scratch("sums", shape, self.dtype, summed)

    def _part_rows(self) -> int:
        """Most rows of a part."""
        _, tiles = _slabs(self.operands.rows, self.tile)
        return min(tiles_of(simplify(tiles)), self.most_tiles) * self.tile.rows

    def _cleared(self, part: Part) -> Stmt:
        zero = spread(const(0, self.dtype), self.tile.lanes)
        rows = simplify(part.tiles * self.tile.rows)
        return loop("i", PRODUCTS, lambda i: loop("r", rows, lambda r: vector_loop(
            self.tile, lambda c: vector_store(part.sums, (i, r, c), zero))))  # fmt: skip

    # ------------------------------------------------------------------ products

    def _block(self, part: Part, right: Buffer, ko: Var) -> Stmt:
        """Compute the seven products over a block of both depth halves.

        Packed quarters are read in place unless they need padding; sums of quarters are computed while the first tile
        reads them.
        """
        if not self.cut.is_full:
            return loop("i", PRODUCTS, lambda i: block([
                self._right(part, right, ko, i), self._tiles(part, ko, i, right)]))  # fmt: skip
        plain = PRODUCTS - SUMS

        def with_quarter(i: Var) -> Stmt:
            """Product by an unmodified quarter: B11, B21 or B22."""
            view = self._quarter_of(part, ko, minimum(i, int64(1)), floordiv(i, 2))
            return DeclBuffer(view, self._tiles(part, ko, i, view))

        def with_sum(i: Var) -> Stmt:
            first = self._first_tile(part, right, ko, i)
            return block([IfThenElse(part.tiles > 0, first), self._tiles(part, ko, i + plain, right, 1)])

        return block([loop("i", plain, with_quarter), loop("i", SUMS, with_sum)])

    def _first_tile(self, part: Part, right: Buffer, ko: Var, i: Var) -> Stmt:
        """Compute the first tile of a product by a sum of quarters, and store the sum for the other tiles.

        The sums are T1 = B12 - B11, T2 = B22 - T1, B21 - T2, T3 = B22 - B12: the difference of two quarters, or of a
        quarter and the stored sum.
        """
        number, is_last = i + (PRODUCTS - SUMS), floordiv(i, SUMS - 1)

        def of(first: Buffer, second: Buffer) -> Stmt:
            return self._tile(part, right, ko, number, (int64(0), int64(0)), self.tile.rows, lambda k, c: Sub(
                vector_load(first, (k, c), self.tile.lanes), vector_load(second, (k, c), self.tile.lanes)))  # fmt: skip

        outer = self._quarter_of(part, ko, is_last, int64(1)), self._quarter_of(part, ko, int64(0), is_last)
        inner = self._quarter_of(part, ko, int64(1), 2 - i)
        return IfThenElse(
            floormod(i, SUMS - 1).equal(0),
            DeclBuffer(outer[0], DeclBuffer(outer[1], of(*outer))),
            DeclBuffer(inner, of(inner, right)),
        )

    def _quarter_of(self, part: Part, ko: Var, half: PrimExpr, side: PrimExpr) -> Buffer:
        """View of a depth block of one packed panel of a pair."""
        columns = self.tile.columns
        start = self._panel(part.pair, side) + (half * self.cut.half + ko * self.cut.block) * columns
        return self._packed_view((self.cut.block, columns), simplify(start))

    def _tiles(self, part: Part, ko: Var, i: PrimExpr, right: Buffer, done: int = 0) -> Stmt:
        """Compute a product of blocks tile by tile, starting after `done` tiles."""

        count = simplify(part.tiles - part.low)

        def whole(io: Var) -> Stmt:
            return self._tile(part, right, ko, i, (io + done if done else io, int64(0)), self.tile.rows)

        return block([
            loop("io", simplify(count - done), whole),
            loop("low", part.low, lambda io: self._tile(part, right, ko, i, (count, io), LOW)),
        ])  # fmt: skip

    def _panel(self, pair: PrimExpr, right: int | PrimExpr) -> PrimExpr:
        """Offset of one panel of a pair in the packed matrix."""
        return (pair * 2 + right) * (self.cut.depth * self.tile.columns)

    def _right(self, part: Part, right: Buffer, ko: Var, i: Var) -> Stmt:
        """Compute the right operand of product `i`, replacing the previous one."""
        b11, b12, b21, b22 = ((half, side) for half in (0, 1) for side in (0, 1))
        # B11, B21, B22, T1, T2 = B22 - T1, B21 - T2, T3: a quarter, minus another one or the current contents.
        terms = ((b11, None), (b21, None), (b22, None), (b12, b11), (b22, _PLACE), (b21, _PLACE), (b22, b12))
        *others, last = (self._difference(part, right, ko, *pair) for pair in terms)
        result = last
        for number, stmt in reversed(list(enumerate(others))):
            result = IfThenElse(i.equal(number), stmt, result)
        return result

    def _difference(self, part: Part, right: Buffer, ko: Var, first: _Quarter, second: _Quarter | None) -> Stmt:
        """Store the difference of two quarters' blocks; the shorter half is padded with its last row."""
        columns, lanes, halves = self.tile.columns, self.tile.lanes, self.cut.halves
        views: dict[_Quarter, Buffer] = {}
        for quarter in (first, second):
            if quarter is not None and quarter is not _PLACE:
                start, size = halves[quarter[0]]
                offset = self._panel(part.pair, quarter[1]) + start * columns
                views[quarter] = self._packed_view((size, columns), simplify(offset))

        def term(quarter: _Quarter, k: Var, c: PrimExpr) -> PrimExpr:
            if quarter is _PLACE:
                return vector_load(right, (k, c), lanes)
            row = ko * self.cut.block + k
            row = minimum(row, int64(halves[quarter[0]][1] - 1))
            return vector_load(views[quarter], (simplify(row), c), lanes)

        def value(k: Var, c: PrimExpr) -> Stmt:
            whole = term(first, k, c)
            return vector_store(right, (k, c), whole if second is None else Sub(whole, term(second, k, c)))

        result = loop("k", self.cut.block, lambda k: each_vector(self.tile, lambda c: value(k, c)))
        for view in views.values():
            result = DeclBuffer(view, result)
        return result

    def _packed_view(self, shape: tuple[int, int], offset: PrimExpr) -> Buffer:
        return decl_buffer(
            [int64(size) for size in shape], self.dtype, "panel", data=self.packed.buffer.data, elem_offset=offset
        )

    def _tile(
        self, part: Part, right: Buffer, ko: Var, i: PrimExpr, before: tuple[PrimExpr, PrimExpr], height: int,
        made: Callable[[Var, PrimExpr], PrimExpr] | None = None,
    ) -> Stmt:  # fmt: skip
        """Accumulate a tile of one product in registers; with `made`, compute the right operand on the fly and store
        it.

        `before` is (whole tiles, low tiles) preceding it.
        """
        lanes = self.tile.lanes
        first = simplify(before[0] * self.tile.rows + before[1] * LOW)
        lefts, sums = part.slab.lefts, part.sums
        _, _, most, _ = lefts.shape
        row = (ko * PRODUCTS + i) * most + part.begin * self.tile.rows + first
        left = decl_buffer(
            [int64(height), int64(self.cut.block)], self.dtype, "left", data=lefts.data,
            strides=[int64(self.cut.pitch), int64(1)], elem_offset=simplify(row * self.cut.pitch),
        )  # fmt: skip

        def asked_left(k: PrimExpr) -> Stmt:
            """Prefetch the sums of A of the next tile, which follow this tile's."""
            place = (int64(0), height * self.cut.pitch + k * height)
            return Evaluate(prefetch(BufferLoad(left, place), locality=3))

        def asked_sums(k: PrimExpr) -> list[Stmt]:
            """Prefetch the accumulators of the next tile, which other products may have evicted."""
            if self.cut.blocks == 1:
                return []
            steps = max(self.cut.block // (self.tile.rows * self.tile.vectors), 1)
            place = (i, first + height, floordiv(k, steps) * lanes)
            return [Evaluate(prefetch(BufferLoad(sums, place), locality=3))]

        def kept(k: Var) -> Callable[[PrimExpr, PrimExpr], Stmt] | None:
            return None if made is None else lambda c, vector: vector_store(right, (k, c), vector)

        def tile(tile: RegisterTile) -> Stmt:
            def step(asked: Callable[[PrimExpr], Stmt], k: Var) -> Stmt:
                vector = row_at(right, (k, int64(0)), lanes) if made is None else partial(made, k)
                added = tile.step(lambda p: BufferLoad(left, (p, k)), vector, kept(k))
                return block([asked(k), asked_left(k), *asked_sums(k), added])

            old = tile.begun(lambda p, c: vector_load(sums, (i, first + p, c), lanes))
            new = tile.each(lambda p, c: vector_store(sums, (i, first + p, c), tile.load(p, c)))
            steps = self._asking(part, ko, i, simplify(before[0] + before[1]), lambda asked: loop(
                "k", self.cut.block, partial(step, asked)))  # fmt: skip
            return block([tile.cleared() if self.cut.blocks == 1 else old, DeclBuffer(left, steps), new])

        return register_tile(height, self.tile.vectors, lanes, tile, sums=self.dtype)

    def _asking(
        self, part: Part, ko: Var, i: PrimExpr, io: PrimExpr,
        body: Callable[[Callable[[PrimExpr], Stmt]], Stmt],
    ) -> Stmt:  # fmt: skip
        """Call `body` with the prefetches of a tile: cache lines of the quarter that the next product reads.

        Each of four consecutive tiles covers a part of a quarter; the next four cover the second quarter if there is
        one.
        """
        columns, lanes, parts = self.tile.columns, self.tile.lanes, self.tile.vectors
        is_other = floormod(floordiv(io, parts), 2)
        (half, side), (other_half, other_side) = (
            [_chosen(i, [quarter[place] for quarter in quarters]) for place in (0, 1)]
            for quarters in (_NEXT, _NEXT_OTHER)
        )
        half = Select(is_other.equal(0), half, other_half)
        side = Select(is_other.equal(0), side, other_side)
        size = self.cut.block * columns
        following = Select(ko + 1 < self.cut.blocks, (ko + 1) * size, int64(2 * self.cut.depth * columns))
        following = Select(i.equal(PRODUCTS - 1), following, ko * size)
        line = following + floormod(io, parts) * (self.cut.block * lanes)

        def asking(quarter: Var) -> Stmt:
            view = self._packed_view((1, columns), quarter)
            return DeclBuffer(view, let("line", line, lambda line: body(lambda k: Evaluate(prefetch(
                BufferLoad(view, (int64(0), line + k * lanes)), locality=2)))))  # fmt: skip

        return let("quarter", self._panel(part.pair, side) + half * (self.cut.half * columns), asking)


def _while(finite: Buffer, body: Stmt) -> Stmt:
    """Run `body` unless a flag already requires the plain product."""
    return IfThenElse(NE(BufferLoad(finite, (int64(0),)), int64(0)), body)


def _chosen(i: PrimExpr, values: Sequence[int]) -> PrimExpr:
    """Select values[i]."""
    *others, last = values
    result: PrimExpr = int64(last)
    for number, value in reversed(list(enumerate(others))):
        result = Select(i.equal(number), int64(value), result)
    return result


def tiles_of(tiles: PrimExpr) -> int:
    """Upper bound of the tiles of half a slab."""
    return tiles.value if isinstance(tiles, IntImm) else SLAB
