"""Products with a single pair of packed panels by Strassen's algorithm, with precomputed sums of weights.

    for i, j, k in T.grid(M, 128, K):        for part in T.parallel(parts):                    32 rows, say
        with T.block("C"):                       for r in range(16):                           quarters, their sums
            with T.init():                           lefts[0:7, r, :] = A11, A12, A12 - S2, S1, S2, A22, S3
                C[i, j] = 0                      for i in range(7):
            C[i, j] += A[i, k] * W[k, j]             for q in …:                               6 or 4 rows
                                                         acc[p, :] += lefts[i, q + p, k] * W7[i, k, 0:64]
    for i, j in T.grid(M, 128):                          sums[i, q : …] = acc
        with T.block("D"):                       sums[0:4] = C11, C12, C21, C22
            D[i, j] = f(C[i, j])                 D[…] = f(sums[0:4])

The algorithm, its sums and its error bound are those of `strassen`, which shares sums of A among pairs of panels and
computes sums of the weights while it multiplies. Here each part computes its own sums of A, so threads share none, and
sums of the weights are packed at compile time: a single pair of panels is small, and fits the L2 cache even with its
sums (twice the size).

As in `strassen`, if paired rows differ too much in magnitude or a result is not finite, the plain product computes all
results.

Not supported: cases that `strassen` rejects, odd depths, and weights that take more than half of the L2 cache.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np

from ....ir.transform import FAST_ALGORITHMS, PassContext
from ....prim import LE, LT, And, IntImm, PrimExpr, Select, Var, const, is_const, simplify
from ....prim.instructions import prefetch
from ....prim.intrin import ceildiv, floordiv, floormod
from ....prim.intrin import max as maximum
from ....prim.intrin import min as minimum
from ....target import Target
from ....tir import Buffer, BufferLoad, BufferStore, DeclBuffer, Evaluate, ForKind, IfThenElse, Stmt
from ....tir.buffer import decl_buffer
from ....tir.nests import loads_in
from ...build import alloc, block, int64, let, loop, named, ramp, scratch, spread, vector_load, vector_store
from ..tile import RegisterTile, prefetched, register_tile, row_at
from ..tile.division import LOW, tile_for
from .finiteness import Flag, if_any_raised, own_flag
from .operands import Matrices, tile_view
from .packed_panels import PanelPacking
from .strassen import LEAST_DEPTH, LEAST_ROWS, SUMS, WASTE
from .strassen_results import QUARTERS, Quarters, combined_quarters
from .strassen_slabs import PRODUCTS, each_vector, seven_lefts, uneven

Array: TypeAlias = "np.ndarray[Any, Any]"

MOST_ROWS: Final = 48
"""Most rows of a part."""
PLAIN: Final = PRODUCTS - SUMS
"""Number of products whose right operands are unmodified quarters."""


@dataclass(frozen=True)
class PairPacking:
    """Packing of the two panels of a matrix, followed by the four sums of their quarters."""

    panels: PanelPacking
    dtype: str = "float32"

    def size(self, depth: int) -> int:
        """Elements of a packed matrix of `depth` rows with its sums."""
        return 2 * depth * sum(self.panels.widths)

    def __call__(self, array: Array) -> Array:
        packed = self.panels(array)
        (b11, b21), (b12, b22) = np.reshape(packed, (2, 2, -1))
        t1 = b12 - b11
        t2 = b22 - t1
        return np.concatenate([packed, t1, t2, b21 - t2, b22 - b12])


def packing_of_pair(operands: Matrices, packing: PanelPacking, target: Target) -> PanelPacking | PairPacking:
    """Return the packing with quarter sums if these loops apply to the product, else `packing` itself."""
    is_never = is_const(is_worth_it(operands.rows, target.num_cores), 0)
    return packing if is_never or not _is_pair(operands, target) else PairPacking(packing)


def is_packed_pair(operands: Matrices, target: Target) -> bool:
    """True if these loops apply to the product and its panels are packed with their quarter sums."""
    packed = operands.packed
    if packed is None or not _is_pair(operands, target):
        return False
    assert isinstance(operands.depth, IntImm)
    return is_const(packed.buffer.shape[-1], operands.depth.value * 4 * tile_for(target, 32).columns)


def _is_pair(operands: Matrices, target: Target) -> bool:
    """True for a product with one pair of panels, an even depth, and a left operand with contiguous rows."""
    tile, depth = tile_for(target, 32), operands.depth
    dtypes = {str(access.dtype) for access in (operands.left, operands.right, operands.total)}
    if not PassContext.current().config.get(FAST_ALGORITHMS, True) or dtypes != {"float32"} or operands.batch:
        return False
    if operands.left.indices[-1] is not operands.k or tile.lanes < LOW or not isinstance(depth, IntImm):
        return False
    if not is_const(operands.columns, 2 * tile.columns) or depth.value < LEAST_DEPTH or depth.value % 2:
        return False
    results = operands.store.buffer.data
    is_read = any(load.buffer.data is results for load in loads_in(operands.store.value))
    return not is_read and depth.value * 2 * tile.columns * 4 <= target.machine.caches.l2 // 2


def is_worth_it(rows: PrimExpr, cores: int) -> PrimExpr:
    """Condition that there are enough rows, and that most rows of their tiles are filled."""
    parts, height = _parts(rows, cores)
    filled = 2 * parts * height
    return simplify(And(LE(int64(LEAST_ROWS), rows), LE(filled * (WASTE - 1), rows * WASTE)))


def _parts(rows: PrimExpr, cores: int) -> tuple[PrimExpr, PrimExpr]:
    """Return (number of parts, rows of half a part); with enough rows, the number is a multiple of the cores.

    The rows of a half are even, so that tiles of six rows and one or two of four cover them.
    """
    shared = ceildiv(rows, int64(MOST_ROWS * cores)) * cores
    parts = Select(LE(int64(LEAST_ROWS * cores), rows), shared, ceildiv(rows, int64(MOST_ROWS)))
    parts = maximum(parts, int64(1))
    return parts, ceildiv(rows, parts * 4) * 2


@dataclass(frozen=True)
class _Part:
    """Rows computed together: the first row and the rows of each half; rows past the last one do not exist."""

    first: PrimExpr
    height: PrimExpr
    lefts: Buffer
    sums: Buffer
    flag: Flag
    """Raised if a result is not finite or the magnitudes of rows computed together differ too much."""


class OnePair:
    """Writes the loops of one product."""

    def __init__(self, operands: Matrices, target: Target) -> None:
        assert isinstance(operands.depth, IntImm)
        assert operands.packed is not None
        self.operands, self.packed, self.cores = operands, operands.packed, target.num_cores
        self.tile, self.dtype = tile_for(target, 32), "float32"
        self.quarters = Quarters(operands, self.tile)
        self.half = operands.depth.value // 2
        self.pitch = -(-self.half // self.tile.lanes) * self.tile.lanes
        """Row pitch of the sums of A, in elements: whole vectors."""

    def product(self, done: Buffer) -> Stmt:
        """Compute all parts; set `done[0]` to the number of panels computed: 2, or 0 if a part raised its flag."""
        lanes = self.tile.lanes
        parts, height = _parts(self.operands.rows, self.cores)

        def body(parts: PrimExpr, height: PrimExpr, flags: Buffer) -> Stmt:
            return block([
                BufferStore(done, int64(2), (int64(0),)),
                loop("part", parts, lambda part: self._part(part, height, flags), ForKind.PARALLEL),
                if_any_raised(flags, parts, lanes, BufferStore(done, int64(0), (int64(0),))),
            ])  # fmt: skip

        def of_parts(parts: PrimExpr, height: PrimExpr) -> Stmt:
            return scratch("flags", (parts, lanes), self.dtype, lambda flags: body(parts, height, flags))

        most = int64(MOST_ROWS // 2)
        return named("parts", simplify(parts), lambda parts: named(
            "height", simplify(minimum(height, most)), lambda height: of_parts(parts, height)))  # fmt: skip

    def _part(self, number: Var, height: PrimExpr, flags: Buffer) -> Stmt:
        """Compute the results of one part."""
        lanes, width, most = self.tile.lanes, self.tile.columns, MOST_ROWS // 2

        def body(first: PrimExpr, lefts: Buffer, sums: Buffer) -> Stmt:
            return own_flag(lanes, self.dtype, lambda flag: self._computed(
                _Part(first, height, lefts, sums, flag), Flag(flags, lanes, number)))  # fmt: skip

        first = simplify(number * (height * 2))
        return named("first", first, lambda first: scratch(
            "lefts", (PRODUCTS, most, self.pitch), self.dtype, lambda lefts: scratch(
                "sums", (PRODUCTS, most, width), self.dtype, lambda sums: body(first, lefts, sums))))  # fmt: skip

    def _computed(self, part: _Part, result: Flag) -> Stmt:
        return block([
            loop("r", part.height, lambda r: self._lefts(part, r)),
            loop("i", PRODUCTS, lambda i: self._product(part, i)),
            loop("r", part.height, lambda r: each_vector(
                self.tile, lambda c: combined_quarters(part.sums, part.flag, r, c))),
            result.store(part.flag.value),
            loop("q", QUARTERS, lambda q: self._quarter(part, q)),
        ])  # fmt: skip

    # ------------------------------------------------------------------ sums of A

    def _lefts(self, part: _Part, r: Var) -> Stmt:
        """Compute the seven left operands of a row of both halves; rows past the last one are clamped to it."""
        operands, lanes, last = self.operands, self.tile.lanes, self.operands.rows - 1

        def of_rows(upper: PrimExpr, lower: PrimExpr) -> Stmt:
            views = [
                tile_view(operands.left, {operands.row: row, operands.k: int64(start)}, (
                    (operands.row, int64(1)), (operands.k, int64(self.half))))
                for row in (upper, lower) for start in (0, self.half)
            ]  # fmt: skip
            result = alloc("greatest", (2, lanes), self.dtype, "local", lambda greatest: block([
                *(vector_store(greatest, (i, 0), spread(const(0, self.dtype), lanes)) for i in (0, 1)),
                *self._vectors_of_row(lambda c, mask: self._seven(part, greatest, views, (r, c), mask)),
                part.flag.add(uneven(greatest, lanes)),
            ]))  # fmt: skip
            for view in reversed(views):
                result = DeclBuffer(view, result)
            return result

        upper, lower = part.first + r, part.first + part.height + r
        return let("upper", minimum(upper, last), lambda upper: let(
            "lower", minimum(lower, last), lambda lower: of_rows(upper, lower)))  # fmt: skip

    def _vectors_of_row(self, body: Callable[[PrimExpr, PrimExpr | None], Stmt]) -> list[Stmt]:
        """Return `body(column, mask)` for each vector of half a row; the mask is None for whole vectors."""
        lanes = self.tile.lanes
        whole, rest = divmod(self.half, lanes)
        stmts = [loop("v", whole, lambda v: body(v * lanes, None))]
        if rest:
            place = int64(whole * lanes)
            stmts.append(body(place, LT(ramp(place, lanes), spread(int64(self.half), lanes))))
        return stmts

    def _seven(
        self, part: _Part, greatest: Buffer, views: list[Buffer], place: tuple[Var, PrimExpr], mask: PrimExpr | None
    ) -> Stmt:  # fmt: skip
        """Compute a vector of each left operand and update the maximum magnitudes of both rows."""
        lanes, (r, c) = self.tile.lanes, place
        loads = [vector_load(view, (0, c), lanes, mask) for view in views]
        return seven_lefts(loads, greatest, lambda i, x: vector_store(part.lefts, (i, r, c), x))

    # ------------------------------------------------------------------ products

    def _product(self, part: _Part, i: Var) -> Stmt:
        """Compute product `i` of the seven, tile by tile."""
        height = self.tile.rows

        def tiles(panel: Buffer, low: PrimExpr, whole: PrimExpr) -> Stmt:
            return block([
                loop("io", whole, lambda io: self._tile(part, i, panel, io * height, height, io)),
                loop("io", low, lambda io: self._tile(part, i, panel, whole * height + io * LOW, LOW, whole + io)),
            ])  # fmt: skip

        def of_panel(start: PrimExpr) -> Stmt:
            panel = decl_buffer(
                (int64(self.half), int64(self.tile.columns)), self.dtype, "panel",
                data=self.packed.buffer.data, elem_offset=start,
            )  # fmt: skip
            low = simplify(floormod(part.height, height - LOW + 1))
            return DeclBuffer(panel, named("low", low, lambda low: named("whole", simplify(
                floordiv(part.height - low * LOW, height)), lambda whole: tiles(panel, low, whole))))  # fmt: skip

        # B11, B21, and B22 of the second panel; the sums follow the panels.
        number = i + Select(i < PLAIN - 1, int64(0), int64(1))
        return named("start", simplify(number * (self.half * self.tile.columns)), of_panel)

    def _tile(self, part: _Part, i: Var, panel: Buffer, first: PrimExpr, height: int, number: PrimExpr) -> Stmt:
        """Accumulate one register tile of a product; prefetch its part of the next product's operands."""
        lanes, most = self.tile.lanes, MOST_ROWS // 2

        def body(tile: RegisterTile, left: Buffer) -> Stmt:
            def step(k: Var) -> Stmt:
                ahead = (self.half + k, floormod(number, self.tile.vectors) * lanes)
                asked = Evaluate(prefetch(BufferLoad(left, (int64(0), height * self.pitch + k * height))))
                added = tile.step(lambda p: BufferLoad(left, (p, k)), row_at(panel, (k, int64(0)), lanes))
                return block([asked, prefetched(panel, ahead), added])

            return block([
                tile.cleared(),
                loop("k", self.half, step),
                tile.each(lambda p, c: vector_store(part.sums, (i, first + p, c), tile.load(p, c))),
            ])  # fmt: skip

        left = decl_buffer(
            (int64(height), int64(self.half)), self.dtype, "left", data=part.lefts.data,
            strides=[int64(self.pitch), int64(1)], elem_offset=simplify((i * most + first) * self.pitch),
        )  # fmt: skip
        tile = register_tile(height, self.tile.vectors, lanes, lambda tile: body(tile, left), sums=self.dtype)
        return DeclBuffer(left, tile)

    # ------------------------------------------------------------------ results

    def _quarter(self, part: _Part, q: Var) -> Stmt:
        """Apply the epilogue to a quarter and store the rows that exist."""
        operands = self.operands
        row = simplify(part.first + floordiv(q, 2) * part.height)
        column = floormod(q, 2) * self.tile.columns
        count = minimum(part.height, maximum(operands.rows - row, int64(0)))
        return let("row", minimum(row, operands.rows), lambda row: named(
            "count", simplify(count), lambda count: let("column", column, lambda column: IfThenElse(
                count > 0, self.quarters.stored(part.sums, (q, int64(0)), (row, column), count)))))  # fmt: skip
