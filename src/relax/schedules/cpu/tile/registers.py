"""A tile's sums in registers, and the step that adds one outer product to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ....prim import PrimExpr, Var, const, simplify
from ....runtime.records import dataclass
from ....tir import Buffer, ForKind, LetStmt, Stmt
from ...build import alloc, block, int64, let, loop, spread, vector_load, vector_store
from .products import Product, multiply_add

Places = Callable[[PrimExpr, PrimExpr], Stmt]
"""Function (row, first column) → statement, for a vector of the tile."""


@dataclass(frozen=True)
class Vector:
    """A vector of each row of a tile: its first column and its lanes."""

    start: int
    lanes: int


@dataclass(frozen=True)
class RegisterTile:
    """Sums of some rows by some vectors of columns, and a row of the right operand.

    Rows and columns are variables of unrolled loops, which keeps the text short, or constants where operands must know
    them as numbers and where vectors differ in their lanes.
    """

    acc: Buffer
    line: Buffer
    height: int
    vectors: tuple[Vector, ...]
    product: Product = multiply_add
    has_numbered_rows: bool = False
    has_numbered_columns: bool = False

    @property
    def width(self) -> int:
        """Columns of the tile."""
        last = self.vectors[-1]
        return last.start + last.lanes

    @property
    def lanes(self) -> int:
        """Lanes of the widest vectors."""
        return self.vectors[0].lanes

    # ------------------------------------------------------------------ places

    def each(self, body: Places) -> Stmt:
        """Return `body(row, first column)` for each vector of the tile, unrolled."""
        return self.each_row(lambda p: self.each_vector(lambda c: body(p, c)))

    def each_row(self, body: Callable[[PrimExpr], Stmt]) -> Stmt:
        """Return `body(row)` for each row, unrolled."""
        if self.has_numbered_rows:
            return block(body(int64(p)) for p in range(self.height))
        return loop("p", self.height, body, ForKind.UNROLLED)

    def each_vector(self, body: Callable[[PrimExpr], Stmt]) -> Stmt:
        """Return `body(first column)` for each vector of a row, unrolled."""
        if self._is_even and not self.has_numbered_columns:
            return loop("v", len(self.vectors), lambda v: body(v * self.lanes), ForKind.UNROLLED)
        return block(body(int64(vector.start)) for vector in self.vectors)

    @property
    def _is_even(self) -> bool:
        return all(vector.lanes == self.lanes for vector in self.vectors)

    def lanes_of(self, column: PrimExpr) -> int:
        """Lanes of the vector that begins at a column."""
        if self._is_even:
            return self.lanes
        return next(vector.lanes for vector in self.vectors if vector.start == number_of(column))

    # ------------------------------------------------------------------ sums

    def load(self, p: PrimExpr, c: PrimExpr) -> PrimExpr:
        """Return the vector of sums of row `p` from column `c` on."""
        return vector_load(self.acc, (p, c), self.lanes_of(c))

    def store(self, p: PrimExpr, c: PrimExpr, value: PrimExpr) -> Stmt:
        """Set the vector of sums of row `p` from column `c` on."""
        return vector_store(self.acc, (p, c), value)

    def begun(self, value: Callable[[PrimExpr, PrimExpr], PrimExpr]) -> Stmt:
        """Set the sums to vectors `value(row, first column)`."""
        return self.each(lambda p, c: self.store(p, c, value(p, c)))

    def cleared(self) -> Stmt:
        """Set all sums to zero."""
        dtype = str(self.acc.dtype)
        return self.begun(lambda p, c: spread(const(0, dtype), self.lanes_of(c)))

    def step(
        self,
        element: Callable[[PrimExpr], PrimExpr],
        vector: Callable[[PrimExpr], PrimExpr],
        kept: Callable[[PrimExpr, PrimExpr], Stmt] | None = None,
    ) -> Stmt:
        """Add the outer product of a column `element(row)` and a row `vector(first column)`.

        `kept(first column, vector)` may store the vectors elsewhere, too. They stay in registers for all rows.
        """

        def loaded(c: PrimExpr) -> Stmt:
            value = vector(c)
            if kept is None:
                return vector_store(self.line, (c,), value)
            name = Var("b", value.dtype)
            return LetStmt(name, value, block([vector_store(self.line, (c,), name), kept(c, name)]))

        def added(p: PrimExpr, a: PrimExpr, c: PrimExpr) -> Stmt:
            lanes = self.lanes_of(c)
            factor = a if a.dtype.lanes == lanes else spread(a, lanes)
            return self.store(p, c, self.product(self.load(p, c), factor, vector_load(self.line, (c,), lanes)))

        def row(p: PrimExpr) -> Stmt:
            a = spread(element(p), self.lanes) if self._is_even else element(p)
            return let("a", a, lambda a: self.each_vector(lambda c: added(p, a, c)))

        return block([self.each_vector(loaded), self.each_row(row)])


def even_vectors(count: int, lanes: int) -> tuple[Vector, ...]:
    """Return consecutive vectors of equal lanes."""
    return tuple(Vector(v * lanes, lanes) for v in range(count))


def register_tile(
    height: int,
    vectors: int | Sequence[Vector],
    lanes: int,
    body: Callable[[RegisterTile], Stmt],
    *,
    sums: str,
    factors: str | None = None,
    product: Product = multiply_add,
    has_numbered_rows: bool = False,
    has_numbered_columns: bool = False,
) -> Stmt:
    """Call `body` with a register tile of `height` rows and some `vectors` of `lanes` lanes.

    `sums` is the dtype of the sums, `factors` that of the right operand's vectors as the product takes them.
    """
    held = tuple(even_vectors(vectors, lanes) if isinstance(vectors, int) else vectors)
    width = held[-1].start + held[-1].lanes
    return alloc("acc", (height, width), sums, "local", lambda acc: alloc(
        "line", (width,), factors or sums, "local", lambda line: body(
            RegisterTile(acc, line, height, held, product, has_numbered_rows, has_numbered_columns))))  # fmt: skip


def number_of(place: PrimExpr) -> int:
    """Return a row or column of a tile whose rows or columns are numbers."""
    number = simplify(place)
    value = getattr(number, "value", None)
    assert isinstance(value, int)
    return value
