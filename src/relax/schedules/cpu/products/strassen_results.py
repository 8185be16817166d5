"""Results of Strassen's algorithm (see `strassen`), combined from the seven products of a part.

    for io in range(43):                                        a tile of each quarter
        sums[0:4, …] = C11, C12, C21, C22                       from the seven products, in place of the first four
        D[…] = f(sums[0:4, …])                                  stored from the L1 cache

With U = P1 + P5, C11 = P1 + P2, C12 = U + P4 + P3, C21 = U + P7 + P6, and C22 = U + P7 + P4.
"""

from __future__ import annotations

from typing import Final

from ....prim import Add, PrimExpr, Select, Var, simplify
from ....prim.intrin import floordiv, floormod
from ....prim.intrin import max as maximum
from ....prim.intrin import min as minimum
from ....tir import Buffer, BufferLoad, ForKind, IfThenElse, LetStmt, Stmt
from ...build import block, int64, let, loop, named, vector_load, vector_store
from ..tile.division import LOW, Tile
from .finiteness import Flag, own_flag
from .operands import Matrices, Results
from .strassen_slabs import PRODUCTS, Part, each_vector, vector_loop

LOWS: Final = 2
"""Most low tiles that replace whole ones."""
QUARTERS: Final = 4


class Quarters:
    """Writes the result quarters of parts."""

    def __init__(self, operands: Matrices, tile: Tile) -> None:
        self.operands, self.tile = operands, tile
        self.dtype = "float32"

    def finished(self, part: Part, flags: Buffer, task: Var) -> Stmt:
        """Combine and store the results of a part, a tile of each quarter at a time, so that they are stored from the
        L1 cache.
        """
        height, lanes = self.tile.rows, self.tile.lanes
        noted = Flag(flags, lanes, task)

        def tile(io: Var) -> Stmt:
            whole = part.tiles - part.low
            lows = minimum(maximum(io - whole, int64(0)), int64(max(LOWS - 1, 0)))
            rows = Select(io < whole, int64(height), int64(LOW))

            def combined(flag: Flag, first: PrimExpr, rows: PrimExpr) -> Stmt:
                return block([
                    loop("r", rows, lambda r: each_vector(
                        self.tile, lambda c: combined_quarters(part.sums, flag, first + r, c))),
                    noted.add(flag.value),
                ])  # fmt: skip

            def of(first: PrimExpr, rows: PrimExpr) -> Stmt:
                quarters = loop("q", QUARTERS, lambda q: self._quarter(part, q, first, rows))
                return block([own_flag(lanes, self.dtype, lambda flag: combined(flag, first, rows)), quarters])

            return named("first", simplify(io * height - lows * (height - LOW)), lambda first: named(
                "height", simplify(rows), lambda rows: of(first, rows)))  # fmt: skip

        return block([noted.clear(), loop("io", part.tiles, tile)])

    def _quarter(self, part: Part, q: Var, first: PrimExpr, most: PrimExpr) -> Stmt:
        """Apply the epilogue to a tile of a quarter and store the rows that exist."""
        slab, height = part.slab, self.tile.rows
        lower, right = floordiv(q, 2), floormod(q, 2)
        begin = simplify(part.begin * height) + first
        held = Select(lower.equal(0), slab.upper, slab.rows - slab.upper)
        count = maximum(minimum(held - begin, most), int64(0))
        row = slab.first + lower * slab.upper + begin
        column = (part.pair * 2 + right) * self.tile.columns
        return named("count", simplify(count), lambda count: IfThenElse(count > 0, let(
            "row", row, lambda row: let("column", column, lambda column: self.stored(
                part.sums, (q, first), (row, column), count)))))  # fmt: skip

    def stored(self, sums: Buffer, source: tuple[PrimExpr, PrimExpr], place: tuple[Var, Var], count: PrimExpr) -> Stmt:
        """Store some rows of a quarter, and prefetch the destination of the next tile's rows."""
        lanes, operands = self.tile.lanes, self.operands
        q, first = source
        row, column = place
        at = {operands.row: row, operands.column: column}
        result = Results(operands, at, count, int64(self.tile.columns))

        def plain(r: Var, c: PrimExpr) -> Stmt:
            return vector_store(result.out, result.place(r, c), vector_load(sums, (q, first + r, c), lanes))

        def made(r: Var, c: PrimExpr) -> Stmt:
            return loop("x", lanes, lambda x: result.made(
                r, c + x, BufferLoad(sums, (q, first + r, c + x))), ForKind.VECTORIZED)  # fmt: skip

        def row_of(r: Var) -> Stmt:
            store = plain if result.is_sum else made
            return vector_loop(self.tile, lambda c: block([result.asked(r + self.tile.rows, c, 2), store(r, c)]))

        return result.declared(loop("r", count, row_of))


def combined_quarters(sums: Buffer, flag: Flag, r: PrimExpr, c: PrimExpr) -> Stmt:
    """Combine a vector of the seven products into the four result quarters, in place of the first four products.

    Raises the flag if a result is not finite.
    """
    lanes, vector = flag.lanes, f"float32x{flag.lanes}"
    p = [Var(f"p{i}", vector) for i in range(PRODUCTS)]
    first, second, third, fourth, fifth, sixth, seventh = p
    u, w = Var("u", vector), Var("w", vector)
    c11, c12, c21, c22 = quarters = [Var(name, vector) for name in ("c11", "c12", "c21", "c22")]
    result = block([
        *(vector_store(sums, (int64(i), r, c), x) for i, x in enumerate(quarters)),
        flag.observe(quarters),
    ])  # fmt: skip
    values = [
        (u, Add(first, fifth)), (w, Add(u, seventh)), (c11, Add(first, second)),
        (c12, Add(Add(u, fourth), third)), (c21, Add(w, sixth)), (c22, Add(w, fourth)),
    ]  # fmt: skip
    loads = [(x, vector_load(sums, (int64(i), r, c), lanes)) for i, x in enumerate(p)]
    for var, value in reversed([*loads, *values]):
        result = LetStmt(var, value, result)
    return result
