"""Products with few rows (up to 24) of float32 or float64, which read the right operand once, in memory order.

    for i, j, k in T.grid(2, N, K):          for task in T.parallel(ceildiv(N, 1024)):    a strip of columns
        with T.block("C"):                       sums = T.alloc_buffer((2, 1024))         0 at first
            with T.init():                       for ko in range(K // 8):
                C[i, j] = 0                          for j in strip, a vector at a time:
            C[i, j] += A[i, k] * B[k, j]                 s = sums[:, j]
                                                         prefetch(B[(ko + 1) * 8 + u, j])           for u in 0 .. 7
                                                         s += A[:, ko * 8 + u] * B[ko * 8 + u, j]   for u in 0 .. 7
                                                         sums[:, j] = s
                                                 the same for the last K % 8, one at a time
                                                 C[:, strip] = sums

Such a product is bound by the memory bandwidth for B. Eight rows of B are eight streams, which hardware prefetching
must detect anew in every strip, so the next eight rows are prefetched in software. The accumulators of a strip stay in
the L1 cache. The epilogue is part of the last step.

With more than 8 rows, 8 elements of each row of A are more numbers than there are registers. Then the sums of a vector
of columns stay in registers over 64 rows of B, and the elements of A are copied next to each other:

    for ko in range(ceildiv(K, 64)):
        factors = A[:, ko * 64 : ko * 64 + 64]
        for j in strip, a vector at a time:
            acc = sums[:, j]                                                              in registers
            for k in range(64):
                prefetch(B[(ko + 1) * 64 + k, j])
                acc += factors[:, k] * B[ko * 64 + k, j]
            sums[:, j] = acc

A product with a dynamic number of rows has these loops for each of `HEIGHTS`; the last row stands for missing ones,
whose sums are not stored. `product` decides at run time between them and its own (`are_streamed`), and takes them for a
known number of 9 to 24 rows if the right operand is large.

Not supported: more rows, non-contiguous columns, and cases that `product` rejects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from ....prim import GE, LE, Add, And, IntImm, Mul, PrimExpr, Var, const, is_const, simplify
from ....prim.instructions import prefetch
from ....prim.intrin import ceildiv, floordiv, floormod
from ....prim.intrin import min as minimum
from ....runtime.records import dataclass
from ....target import Target
from ....tir import Buffer, BufferLoad, BufferStore, DeclBuffer, Evaluate, ForKind, IfThenElse, LetStmt, PrimFunc, Stmt
from ...build import alloc, block, int64, let, loop, size_of, spread, tasks, vector_load, vector_store
from ...rule import Refusal, ScheduleRule
from ...space import Space
from ..tile.division import TASKS_PER_CORE, even_pieces
from ..tile.operands import prefetched
from ..tile.registers import RegisterTile, register_tile
from .operands import Matrices, Operands, Results, Values, rewritten_products, tile_view

MOST_ROWS: Final = 8
"""Most rows of a product that reads `STREAMS` rows of B together."""
STREAMS: Final = 8
HEIGHTS: Final = (1, 2, 4, 8, 12, 16, 20, 24)
"""Rows that loops exist for if their number is dynamic."""
HELD_ROWS: Final = 4
"""Most rows of A whose elements are read where they are if their number is dynamic: each has an address of its own."""
DEPTH: Final = 64
"""Rows of B over which sums stay in registers. More of them may share too few sets of the L2 cache."""
LEAST_LARGE: Final = 1 << 18
"""Bytes of a right operand from which on copying it into panels takes longer than it helps 9 to 24 rows."""
STRIP: Final = 1024
"""Most columns of a strip, whose accumulators stay in the L1 cache."""
USUAL_STRIP: Final = 512
"""Columns of a strip of a matrix with an unknown number of columns."""
LEAST_STRIP: Final = 256
"""Fewest columns of a strip, for long sequential runs, unless the matrix has fewer."""


@dataclass(frozen=True)
class StreamParameters:
    """Numbers that the loops of a product with few rows may choose."""

    streams: int = STREAMS
    """Rows of the right operand that are read together."""
    strip: int | None = None
    """Columns of a task; None: as many as occupy all cores, up to `STRIP`."""


DEFAULT: Final = StreamParameters()


class StreamedProduct(ScheduleRule):
    """Schedule rule for products with few rows."""

    parameters = DEFAULT

    def space(self, target: Target) -> Space[StreamParameters]:
        """Return the parameters: rows of the right operand that are read together, and columns of a task."""
        del target
        return Space(StreamParameters, {"streams": (STREAMS, 1, 2, 4, 16), "strip": (None, 128, 256, 512, 1024, 2048)})

    def apply(self, func: PrimFunc, target: Target, tunable: bool) -> PrimFunc | Refusal:
        del tunable

        def write(operands: Operands) -> Stmt | Refusal:
            rows = operands.rows
            if not isinstance(rows, IntImm) or rows.value > MOST_ROWS:
                return Refusal(f"the number of rows is dynamic, or more than {MOST_ROWS}")
            if not operands.right_is_contiguous:
                return Refusal("the right operand is not contiguous along the columns")
            return operands.declared(StreamWriter(operands, target, self.parameters).tasks())

        return rewritten_products(func, write)


def are_streamed(operands: Matrices) -> PrimExpr:
    """Condition under which the number of rows is few; that of a known number of rows is known."""
    rows, few = operands.rows, And(GE(operands.rows, int64(1)), LE(operands.rows, int64(HEIGHTS[-1])))
    if not isinstance(rows, IntImm):
        return few
    size = simplify(operands.depth * operands.columns * (operands.right.dtype.bits // 8))
    return few if isinstance(size, IntImm) and size.value >= LEAST_LARGE else const(False, "bool")


def strip_of(columns: PrimExpr, cores: int) -> int:
    """Columns of a strip: fewer than the most if that occupies more cores."""
    if cores == 1:
        return STRIP
    if not isinstance(columns, IntImm):
        return USUAL_STRIP
    share = -(-columns.value // (cores * TASKS_PER_CORE))
    return min(max(-(-share // LEAST_STRIP), 1) * LEAST_STRIP, STRIP)


class StreamWriter:
    """Writes the loops of one product: of a few rows, or of a dynamic number, at most the last of `HEIGHTS`."""

    def __init__(self, operands: Matrices, target: Target, parameters: StreamParameters = DEFAULT) -> None:
        self.operands = operands
        self.rows, self.columns, self.depth = operands.rows, operands.columns, operands.depth
        self.dtype = operands.total.dtype
        self.lanes = max(target.machine.vector_bits // self.dtype.bits, 1)
        self.streams = parameters.streams
        self.strip = parameters.strip or strip_of(self.columns, target.num_cores)
        self.tallest = target.machine.vector_registers - 4
        """Rows of the tallest tile of one vector; the other registers hold B's vector, and factors."""
        self.heights = (self.rows.value,) if isinstance(self.rows, IntImm) else HEIGHTS

    def tasks(self) -> Stmt:
        """Return the parallel loop over the batch and strips of columns."""
        sizes = [*(size_of(v) for v in self.operands.batch), simplify(ceildiv(self.columns, self.strip))]
        names = [*(v.var.name for v in self.operands.batch), "jo"]

        def task(parts: list[PrimExpr]) -> Stmt:
            *outer, jo = parts
            values = dict(zip((v.var for v in self.operands.batch), outer, strict=True))
            start = simplify(jo * self.strip)
            width = minimum(const(self.strip, "int64"), self.columns - start)
            return let("width", simplify(width), lambda w: self._strip(values, start, w))

        return tasks("task", names, sizes, task)

    def _strip(self, values: Values, start: PrimExpr, width: Var) -> Stmt:
        """Compute all results of a strip."""
        operands = self.operands
        at = {**values, operands.row: int64(0), operands.column: start}
        left = tile_view(operands.left, at, ((operands.row, self.rows), (operands.k, self.depth)))
        right = tile_view(operands.right, at, ((operands.k, self.depth), (operands.column, width)))

        def strip(sums: Buffer) -> Stmt:
            added = self._sums(sums, left, right, width, self.heights[-1])
            for height in reversed(self.heights[:-1]):
                lower = self._sums(sums, left, right, width, height)
                added = IfThenElse(LE(self.rows, int64(height)), lower, added)
            results = self._results(sums, Results(operands, at, self.rows, width), width)
            return block([DeclBuffer(left, DeclBuffer(right, added)), results])

        return alloc("sums", (self.heights[-1], self.strip), str(self.dtype), "global", strip)

    def _sums(self, sums: Buffer, left: Buffer, right: Buffer, width: Var, height: int) -> Stmt:
        """Compute the sums of `height` rows."""
        zero = spread(const(0, str(self.dtype)), self.lanes)

        def cleared(v: Var) -> Stmt:
            return block(vector_store(sums, (p, v * self.lanes), zero) for p in range(height))

        parts = [loop("v", -(-self.strip // self.lanes), cleared)]
        in_tiles = height > (MOST_ROWS if isinstance(self.rows, IntImm) else HELD_ROWS)
        if in_tiles:
            parts.append(self._sums_in_tiles(sums, left, right, width, height))
        if not (in_tiles and self._has_whole_vectors):
            parts += self._streamed(sums, left, right, width, height, only_rest=in_tiles)
        return block(parts)

    def _streamed(
        self, sums: Buffer, left: Buffer, right: Buffer, width: Var, height: int, *, only_rest: bool
    ) -> list[Stmt]:
        """Add all products to the sums of `height` rows; `only_rest`: of the columns after the last whole vector."""
        steps = simplify(floordiv(self.depth, self.streams))
        rest = simplify(floormod(self.depth, self.streams))
        parts: list[Stmt] = []
        if not is_const(steps, 0):
            parts.append(loop("ko", steps, lambda ko: self._add(sums, left, right, width, height, [
                ko * self.streams + u for u in range(self.streams)], only_rest)))  # fmt: skip
        if not is_const(rest, 0):
            parts.append(loop("k", rest, lambda k: self._add(sums, left, right, width, height, [
                steps * self.streams + k], only_rest)))  # fmt: skip
        return parts

    @property
    def _has_whole_vectors(self) -> bool:
        """True if the columns are provably whole vectors."""
        return is_const(simplify(floormod(self.columns, self.lanes)), 0)

    def _sums_in_tiles(self, sums: Buffer, left: Buffer, right: Buffer, width: Var, height: int) -> Stmt:
        """Add all products to the sums of many rows, a vector of columns at a time over blocks of the depth.

        Columns after the last whole vector are left to `_streamed`: LLVM vectorises a loop of scalar products along
        the depth, which rounds them before they are added, so results would depend on the number of rows.
        """
        dtype = str(self.dtype)

        def part(ko: Var, depth: Var, factors: Buffer) -> Stmt:
            start = ko * DEPTH

            def copied(p: Var, k: Var) -> Stmt:
                factor = BufferLoad(left, (self._row(p), start + k))
                return BufferStore(factors, factor.astype(dtype), (p, k))

            def vector(v: Var) -> Stmt:
                c = v * self.lanes
                return block(self._tile(sums, factors, right, (start, depth), rows, c) for rows in self._tiles(height))

            copies = loop("p", height, lambda p: loop("k", depth, lambda k: copied(p, k)))
            return block([copies, loop("v", floordiv(width, self.lanes), vector)])

        def step(ko: Var) -> Stmt:
            depth = simplify(minimum(const(DEPTH, "int64"), self.depth - ko * DEPTH))
            return let("depth", depth, lambda depth: alloc(
                "factors", (height, DEPTH), dtype, "global", lambda factors: part(ko, depth, factors)))  # fmt: skip

        return loop("ko", simplify(ceildiv(self.depth, DEPTH)), step)

    def _tiles(self, height: int) -> Iterator[tuple[int, int]]:
        """First row and number of rows of each tile of one vector that fits into registers."""
        first = 0
        for segment in even_pieces(height, -(-height // self.tallest)):
            for _ in range(segment.number):
                yield first, segment.size
                first += segment.size

    def _tile(
        self, sums: Buffer, factors: Buffer, right: Buffer, depths: tuple[PrimExpr, Var], rows: tuple[int, int],
        c: PrimExpr,
    ) -> Stmt:  # fmt: skip
        """Add some products, at `depths` (first, number), to the sums of `rows` (first, number) by a vector."""
        (start, depth), (first, height), lanes = depths, rows, self.lanes
        wide = str(self.dtype.with_lanes(lanes))

        def written(tile: RegisterTile) -> Stmt:
            def step(k: Var) -> Stmt:
                added = tile.step(
                    lambda p: BufferLoad(factors, (first + p, k)),
                    lambda _: vector_load(right, (start + k, c), lanes).astype(wide),
                )
                return added if first else block([prefetched(right, (start + k + DEPTH, c)), added])

            return block([
                tile.begun(lambda p, _: vector_load(sums, (first + p, c), lanes)),
                loop("k", depth, step),
                tile.each(lambda p, v: vector_store(sums, (first + p, c), tile.load(p, v))),
            ])  # fmt: skip

        return register_tile(height, 1, lanes, written, sums=str(self.dtype))

    def _row(self, p: PrimExpr) -> PrimExpr:
        """Row of A that is read as the p-th one."""
        return p if isinstance(self.rows, IntImm) else minimum(p, self.rows - 1)

    def _each_vector(self, width: Var, body: Callable[[PrimExpr, int], Stmt], *, only_rest: bool = False) -> Stmt:
        """Return `body(first column, lanes)` for each vector of a strip, then for each remaining column."""
        lanes = self.lanes
        whole = floordiv(width, lanes)
        parts = [] if only_rest else [loop("v", whole, lambda v: body(v * lanes, lanes))]
        if not self._has_whole_vectors:
            parts.append(loop("c", floormod(width, lanes), lambda c: body(whole * lanes + c, 1)))
        return block(parts)

    def _add(
        self, sums: Buffer, left: Buffer, right: Buffer, width: Var, height: int, depths: Sequence[PrimExpr],
        only_rest: bool,
    ) -> Stmt:  # fmt: skip
        """Add rows `depths` of B, times the elements of A, to the sums; `only_rest`: in columns after whole vectors."""
        dtype = str(self.dtype)
        rows = [self._row(int64(p)) if p else int64(0) for p in range(height)]

        def body(c: PrimExpr, lanes: int) -> Stmt:
            wide = str(self.dtype.with_lanes(lanes))
            names = [Var(f"b{u}", wide) for u in range(len(depths))]
            stores: list[Stmt] = []
            for p, row in enumerate(rows):
                total = vector_load(sums, (p, c), lanes)
                for k, name in zip(depths, names, strict=True):
                    factor = BufferLoad(left, (row, k)).astype(dtype)
                    total = Add(total, Mul(spread(factor, lanes), name))
                stores.append(vector_store(sums, (p, c), total))
            asked = [Evaluate(prefetch(BufferLoad(right, (k + self.streams, c)), locality=2)) for k in depths]
            result = block([*(asked if lanes > 1 and len(depths) == self.streams else []), *stores])
            for name, k in reversed(list(zip(names, depths, strict=True))):
                result = LetStmt(name, vector_load(right, (k, c), lanes).astype(wide), result)
            return result

        return self._each_vector(width, body, only_rest=only_rest)

    def _results(self, sums: Buffer, result: Results, width: Var) -> Stmt:
        """Apply the epilogue to a strip and store it."""

        def stored(rows: Sequence[PrimExpr]) -> Stmt:
            def plain(c: PrimExpr, lanes: int) -> Stmt:
                return block(
                    vector_store(result.out, result.place(p, c), vector_load(sums, (p, c), lanes)) for p in rows
                )

            def made(c: Var) -> Stmt:
                return block(result.made(p, c, BufferLoad(sums, (p, c))) for p in rows)

            return self._each_vector(width, plain) if result.is_sum else loop("c", width, made, ForKind.VECTORIZED)

        if isinstance(self.rows, IntImm):
            return result.declared(stored([int64(p) for p in range(self.rows.value)]))
        return result.declared(loop("p", self.rows, lambda p: stored([p])))
