"""Slabs of rows for Strassen's algorithm (see `strassen`), with the sums of A computed once per slab.

    for r in T.parallel(258):
        lefts[…, 0:7, r, :] = A11, A12, A12 - S2, S1, S2, A22, S3         S1 = A21 + A22, S2 = S1 - A11, S3 = A11 - A21
        uneven[r] = rows r and 258 + r differ too much

Rows and depths that do not fill tiles are padded here: rows with the last row, depths with zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from ....prim import LE, LT, Add, And, PrimExpr, Select, Sub, Var, const, simplify
from ....prim.instructions import prefetch, vector_reduce_max
from ....prim.intrin import abs as absolute
from ....prim.intrin import max as maximum
from ....prim.intrin import min as minimum
from ....runtime.records import dataclass
from ....tir import Buffer, BufferLoad, BufferStore, DeclBuffer, Evaluate, ForKind, LetStmt, Stmt
from ...build import alloc, block, int64, let, loop, ramp, spread, vector_load, vector_store
from ..tile.division import Tile
from .finiteness import if_any_raised
from .operands import Matrices, tile_view

PRODUCTS: Final = 7
EVEN: Final = 16
"""Largest ratio of the maximum magnitudes of two rows computed together."""


@dataclass(frozen=True)
class Cut:
    """Halves of the depth, and the blocks of a half."""

    depth: int
    blocks: int
    """Number of blocks of half the depth."""
    lanes: int

    @property
    def half(self) -> int:
        """Depth of the first half; the second half of an odd depth is one shorter."""
        return -(-self.depth // 2)

    @property
    def halves(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """(First index, length) of each half."""
        return (0, self.half), (self.half, self.depth - self.half)

    @property
    def block(self) -> int:
        """Depth of a block."""
        return -(-self.half // self.blocks)

    @property
    def pitch(self) -> int:
        """Row pitch of the sums of A, in elements: whole vectors."""
        return -(-self.block // self.lanes) * self.lanes

    @property
    def is_full(self) -> bool:
        """True if the blocks cover both halves exactly, without padding."""
        return self.blocks * self.block == self.half and self.depth % 2 == 0


@dataclass(frozen=True)
class Slab:
    """Rows whose sums are in memory: first row, number of rows, rows of the upper half, tiles of a half."""

    first: PrimExpr
    rows: PrimExpr
    upper: PrimExpr
    tiles: PrimExpr
    lefts: Buffer
    uneven: Buffer
    """By row of a half: nonzero if the magnitudes of the two rows computed together differ too much."""


@dataclass(frozen=True)
class Part:
    """Tiles of a half slab and a pair of panels, whose products fit the L2 cache."""

    slab: Slab
    begin: PrimExpr
    tiles: PrimExpr
    low: PrimExpr
    """Number of low tiles, which come last: at most `strassen.LOWS`."""
    pair: PrimExpr
    sums: Buffer


def each_vector(tile: Tile, body: Callable[[PrimExpr], Stmt]) -> Stmt:
    """Return `body(first column)` for each vector of a panel, unrolled."""
    return loop("v", tile.vectors, lambda v: body(v * tile.lanes), ForKind.UNROLLED)


def vector_loop(tile: Tile, body: Callable[[PrimExpr], Stmt]) -> Stmt:
    """Return `body(first column)` for each vector of a panel, as a loop (less code to compile)."""
    return loop("v", tile.vectors, lambda v: body(v * tile.lanes))


class Lefts:
    """Writes the left operands of the seven products, slab by slab."""

    def __init__(self, operands: Matrices, tile: Tile, cut: Cut) -> None:
        self.operands, self.tile, self.cut = operands, tile, cut
        self.dtype = "float32"

    def made(self, slab: Slab) -> Stmt:
        """Compute the seven left operands of a slab."""
        operands, lanes = self.operands, self.tile.lanes
        last = simplify(self.operands.rows - 1)

        def row(r: Var) -> Stmt:
            upper = minimum(slab.first + minimum(r, slab.upper - 1), last)
            lower = minimum(slab.first + slab.upper + r, slab.first + slab.rows - 1)
            return let("upper", upper, lambda u: let("lower", minimum(lower, last), lambda d: quarters(r, u, d)))

        def quarters(r: Var, upper: Var, lower: Var) -> Stmt:
            views = [
                tile_view(operands.left, {operands.row: place, operands.k: int64(start)}, (
                    (operands.row, int64(1)), (operands.k, int64(size))))
                for place in (upper, lower) for start, size in self.cut.halves
            ]  # fmt: skip
            result = alloc("greatest", (2, lanes), self.dtype, "local", lambda greatest: block([
                *(vector_store(greatest, (int64(i), int64(0)), spread(const(0, self.dtype), lanes)) for i in (0, 1)),
                loop("ko", self.cut.blocks, lambda ko: loop("v", self.cut.pitch // lanes, lambda v: (
                    self._seven_lefts(slab.lefts, greatest, views, ko, r, v * lanes)))),
                vector_store(slab.uneven, (r, int64(0)), uneven(greatest, lanes)),
            ]))  # fmt: skip
            for view in reversed(views):
                result = DeclBuffer(view, result)
            return result

        return loop("r", simplify(slab.tiles * self.tile.rows), row, ForKind.PARALLEL)

    def evenness(self, slab: Slab, finite: Buffer) -> Stmt:
        """Set `finite[0]` to 0 if the magnitudes of any paired rows differ too much."""
        rows = simplify(slab.tiles * self.tile.rows)
        return if_any_raised(slab.uneven, rows, self.tile.lanes, BufferStore(finite, int64(0), (int64(0),)))

    def _seven_lefts(self, lefts: Buffer, greatest: Buffer, views: list[Buffer], ko: Var, r: Var, c: PrimExpr) -> Stmt:
        lanes = self.tile.lanes
        place = simplify(ko * self.cut.block + c)

        def mask(size: int) -> PrimExpr | None:
            return (
                None
                if self.cut.is_full and self.cut.pitch == self.cut.block
                else LT(ramp(place, lanes), spread(int64(size), lanes))
            )

        sizes = [size for _, size in self.cut.halves] * 2
        loads = [
            vector_load(view, (int64(0), place), lanes, mask(size)) for view, size in zip(views, sizes, strict=True)
        ]
        # A may be in L3, and rows of a block are too short for hardware prefetching.
        asked = (Evaluate(prefetch(BufferLoad(view, (int64(1), place)), locality=3)) for view in views)
        return seven_lefts(loads, greatest, lambda i, x: vector_store(lefts, (ko, int64(i), r, c), x), asked)


def seven_lefts(
    loads: Sequence[PrimExpr], greatest: Buffer, store: Callable[[int, PrimExpr], Stmt], before: Iterable[Stmt] = ()
) -> Stmt:
    """Compute a vector of each of the seven left operands from A11, A12, A21, A22, and update both rows' maximum
    magnitudes.
    """
    vector, lanes = loads[0].dtype, loads[0].dtype.lanes
    a11, a12, a21, a22 = quarters = [Var(name, vector) for name in ("a11", "a12", "a21", "a22")]
    s1, s2 = Var("s1", vector), Var("s2", vector)
    values = (a11, a12, Sub(a12, s2), s1, s2, a22, Sub(a11, a21))

    def greater(i: int, a: PrimExpr, b: PrimExpr) -> Stmt:
        place, most = (int64(i), int64(0)), maximum(absolute(a), absolute(b))
        return vector_store(greatest, place, maximum(vector_load(greatest, place, lanes), most))

    result = block([*before, *map(store, range(PRODUCTS), values), greater(0, a11, a12), greater(1, a21, a22)])
    result = LetStmt(s1, Add(a21, a22), LetStmt(s2, Sub(s1, a11), result))
    for var, load in reversed(list(zip(quarters, loads, strict=True))):
        result = LetStmt(var, load, result)
    return result


def uneven(greatest: Buffer, lanes: int) -> PrimExpr:
    """Vector of ones if the maximum magnitudes of two rows differ too much, else of zeros."""
    upper, lower = (vector_reduce_max(vector_load(greatest, (int64(i), int64(0)), lanes)) for i in (0, 1))
    even = And(LE(upper, lower * float(EVEN)), LE(lower, upper * float(EVEN)))
    return spread(Select(even, const(0, "float32"), const(1, "float32")), lanes)
