"""Products with few rows inside other loops, as in the steps of a recurrent layer, accumulated in registers.

    for t in range(steps):                       for t in range(steps):
        for s, row in T.grid(4, N):                  for p in range(N // 64):
            for k in range(K):                           acc = C[0:4, p * 64 : p * 64 + 64]          in registers
                C[s, row] += A[s, k] * B[k, row]         for k in range(K):
        ...                                                  b = B[k, p * 64 : p * 64 + 64]
                                                             acc[s, :] += A[s, k] * b            for s in 0 .. 3
                                                         C[0:4, p * 64 : p * 64 + 64] = acc
                                                     the remaining columns, in vectors and one by one

Each accumulator starts from the stored element and adds the products in loop order. Other statements of the outer loops
are unchanged. The right factor may be an expression of loads, such as the dequantisation of weights that are bytes in
memory, which is computed once per vector of columns, for all rows:

    C[s, row] += A[s, k]                                         b = float32(int32(Q[k, p * 64 : p * 64 + 64])
        * (float32(int32(Q[k, row]) - Z[row]) * S[row])               - Z[p * 64 : …]) * S[p * 64 : …]

Not supported: functions without tir.noalias, nests over blocks, more rows than registers hold, right factors with loads
that depend on the column and are not contiguous along it, and factors written by the nest itself.
"""

from __future__ import annotations

from typing import Final

from ....prim import Add, IntImm, Mul, PrimExpr, Var, free_vars, is_const, simplify
from ....prim.intrin import floordiv, floormod
from ....runtime.records import dataclass
from ....target import Target
from ....tir import Buffer, BufferLoad, BufferStore, For, ForKind, PrimFunc, Stmt
from ....tir.functor import StmtMutator, substitute
from ....tir.nests import is_compact, loads_in
from ...build import block, loop, vector_load, vector_store
from ...rule import ScheduleRule
from ..tile import RegisterTile, has_vectors, register_tile, runs_along, vector_of

MOST_ROWS: Final = 8
MOST_VECTORS: Final = 8
"""Most vectors per row: enough accumulators to hide the latency of a multiply-add, even for one row."""
DTYPES: Final = ("float32", "float64")


class StepProducts(ScheduleRule):
    """Schedule rule for products with few rows inside other loops."""

    complements = True

    def apply(self, func: PrimFunc, target: Target, tunable: bool) -> PrimFunc | None:
        del tunable
        if not func.attrs.get("tir.noalias"):
            return None
        body = _Products(target).visit(func.body)
        return None if body is func.body else func.replace(body=body)


class _Products(StmtMutator):
    """Puts register tiles in the place of products."""

    def __init__(self, target: Target) -> None:
        super().__init__()
        self.target = target

    def visit_For(self, node: For) -> Stmt:
        product = _product_of(node)
        return self.visit_children(node) if product is None else product.tiles(self.target)


def _product_of(stmt: For) -> _Product | None:
    """Return the product computed by a nest of loops over rows, columns and depth, or None."""
    loops: list[For] = []
    inner: Stmt = stmt
    while isinstance(inner, For) and len(loops) < 3:
        if inner.kind is not ForKind.SERIAL or inner.annotations or not is_const(inner.min, 0):
            return None
        if any(each.loop_var in free_vars(inner.extent) for each in loops):
            return None
        loops.append(inner)
        inner = inner.body
    if len(loops) != 3 or not isinstance(inner, BufferStore) or inner.predicate is not None:
        return None
    row, column, k = loops
    match inner.value:
        case Add(BufferLoad() as total, Mul(left, right)):
            if column.loop_var in free_vars(left):
                left, right = right, left
            product = _Product(inner, total, left, right, row, column, k)
        case _:
            return None
    return product if product.is_legal() else None


@dataclass(frozen=True)
class _Product:
    """C[…, row, …, column] += left(row, k) · right(k, column)."""

    store: BufferStore
    total: BufferLoad
    left: PrimExpr
    right: PrimExpr
    row: For
    column: For
    k: For

    @property
    def height(self) -> int:
        return self.row.extent.value if isinstance(self.row.extent, IntImm) else 0

    def is_legal(self) -> bool:
        row, column, k = (each.loop_var for each in (self.row, self.column, self.k))
        out = self.store.buffer
        if not 1 <= self.height <= MOST_ROWS or str(out.dtype) not in DTYPES:
            return False
        if self.left.dtype != out.dtype or self.right.dtype != out.dtype or self.total.predicate is not None:
            return False
        if self.total.buffer is not out or not _same_place(self.total, self.store):
            return False
        factors = [*loads_in(self.left), *loads_in(self.right)]
        if any(load.buffer.data is out.data or load.predicate is not None for load in factors):
            return False
        outer = {var for index in self.store.indices[:-1] for var in free_vars(index)}
        return (
            column not in free_vars(self.left)
            and row not in free_vars(self.right)
            and k not in free_vars(self.total)
            and column not in outer
            and row in outer
            and _runs_along(self.store.buffer, self.store.indices, column)
            and has_vectors(self.right, column)
            and all(runs_along(load, column) for load in loads_in(self.right))
        )

    def vectors(self, registers: int) -> int:
        """Vectors per row of a tile: accumulators, a right row and a left element fit the registers."""
        count = MOST_VECTORS
        while count > 1 and self.height * count + count + 1 > registers:
            count //= 2
        return count

    def tiles(self, target: Target) -> Stmt:
        """Return the product in register tiles."""
        machine = target.machine
        lanes = max(machine.vector_bits // self.store.buffer.dtype.bits, 1)
        vectors = self.vectors(machine.vector_registers)
        columns = self.column.extent.astype("int64")
        width = vectors * lanes
        whole, left = simplify(floordiv(columns, width)), simplify(floormod(columns, width))
        start = simplify(whole * width)
        parts = [] if is_const(whole, 0) else [loop("p", whole, lambda p: self._tile(p * width, vectors, lanes))]
        single = simplify(floordiv(left, lanes))
        if isinstance(single, IntImm) and single.value:
            parts.append(self._tile(start, single.value, lanes))
        elif not isinstance(single, IntImm):
            parts.append(loop("v", single, lambda v: self._tile(simplify(start + v * lanes), 1, lanes)))
        rest = simplify(floormod(left, lanes))
        if not is_const(rest, 0):
            behind = simplify(start + single * lanes)
            parts.append(loop("c", rest, lambda c: self._tile(simplify(behind + c), 1, 1)))
        return block(parts)

    def _tile(self, start: PrimExpr, vectors: int, lanes: int) -> Stmt:
        """Accumulate all rows of some column vectors."""
        row, column, depth = self.row.loop_var, self.column.loop_var, self.k.loop_var

        def at(indices: tuple[PrimExpr, ...], p: PrimExpr, c: PrimExpr) -> list[PrimExpr]:
            places = {row: _like(row, p), column: _like(column, start + c)}
            return [substitute(index, places) for index in indices]

        def sums(tile: RegisterTile) -> Stmt:
            def first(p: PrimExpr, c: PrimExpr) -> Stmt:
                return tile.store(p, c, vector_load(self.store.buffer, at(self.store.indices, p, c), lanes))

            def last(p: PrimExpr, c: PrimExpr) -> Stmt:
                return vector_store(self.store.buffer, at(self.store.indices, p, c), tile.load(p, c))

            def add(k: Var) -> Stmt:
                there = {depth: _like(depth, k)}
                return tile.step(
                    lambda p: substitute(self.left, {row: _like(row, p), **there}),
                    lambda c: vector_of(self.right, column, {**there, column: start + c}, lanes),
                )

            return block([tile.each(first), loop("k", self.k.extent, add), tile.each(last)])

        return register_tile(self.height, vectors, lanes, sums, sums=str(self.store.buffer.dtype))


def _like(var: Var, index: PrimExpr) -> PrimExpr:
    """Cast an index to the dtype of a variable."""
    return index.astype(str(var.dtype))


def _same_place(load: BufferLoad, store: BufferStore) -> bool:
    return all(is_const(simplify(a - b), 0) for a, b in zip(load.indices, store.indices, strict=True))


def _runs_along(buffer: Buffer, indices: tuple[PrimExpr, ...], var: Var) -> bool:
    """True if a compact buffer is contiguous along a variable."""
    *outer, last = indices
    moved = simplify(substitute(last, {var: var + 1}) - last)
    return is_compact(buffer) and is_const(moved, 1) and not any(var in free_vars(index) for index in outer)
