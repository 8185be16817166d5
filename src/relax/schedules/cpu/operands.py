"""The operands of a product as matrices: elements by row, depth and column, for values of the batch's variables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from ...prim import FloatImm, IntImm, PrimExpr, Var, const, substitute
from ...tir import (
    Block,
    Buffer,
    BufferLoad,
    BufferStore,
    DeclBuffer,
    ForKind,
    IfThenElse,
    IterVar,
    LetStmt,
    Stmt,
)
from ..build import int64, loop
from ..contraction import Contraction, Nest, contraction_of, with_merged_rows

SMALL: Final = 8192
"""Multiplications for which arranging the loops is not worth the time to compile them."""


def is_large_float_sum(
    store: BufferStore, start: PrimExpr, factors: Sequence[BufferLoad], block: Block
) -> bool:
    """True for sums from 0 of products, all float32 or float64, unless they are known to be few."""
    dtype = store.buffer.dtype
    same = all(factor.dtype == dtype for factor in factors)
    from_zero = isinstance(start, FloatImm) and start.value == 0
    return dtype in ("float32", "float64") and same and from_zero and not _is_small(block)


def float_product_of(nest: Nest) -> Contraction | None:
    """The product of a nest, if it is one of float32 or float64, not small, with one variable of columns."""
    product = contraction_of(nest)
    if product is None or len(product.columns) != 1:
        return None
    factors = (product.lhs, product.rhs)
    return product if is_large_float_sum(product.out, product.start, factors, nest.block) else None


def _is_small(block: Block) -> bool:
    """True for a block of known sizes that multiplies few times."""
    total = 1
    for iter_var in block.iter_vars:
        size = size_of(iter_var)
        if not isinstance(size, IntImm):
            return False
        total *= size.value
    return total < SMALL


class Matrices(Protocol):
    """A product of matrices, several of them for the values of the batch's variables, as `product` writes it."""

    rows: PrimExpr
    columns: PrimExpr
    depth: PrimExpr
    out: Buffer

    def batches(self, body: Callable[[dict[Var, PrimExpr]], Stmt]) -> Stmt:
        """Loops over the batch around what `body` makes of the values of its variables."""
        ...

    def a(self, values: dict[Var, PrimExpr], row: PrimExpr, k: PrimExpr) -> PrimExpr:
        """An element of the left operand."""
        ...

    def b(self, values: dict[Var, PrimExpr], k: PrimExpr, column: PrimExpr) -> BufferLoad:
        """An element of the right operand, if its columns are contiguous."""
        ...

    def b_is_contiguous(self) -> bool:
        """True if neighbouring columns of the right operand are neighbours in memory."""
        ...

    def place(self, values: dict[Var, PrimExpr], row: PrimExpr, column: PrimExpr) -> list[PrimExpr]:
        """The indices of an element of the result."""
        ...

    def pack(
        self, values: dict[Var, PrimExpr], buffer: Buffer, start: PrimExpr, left: PrimExpr | None
    ) -> Stmt:
        """Copy the columns from `start` on into a buffer (depth, width); those from `left` on, if given, become 0."""
        ...


class Operands:
    """A product, of which the last variable of the rows is the row; the others are loops around, as the batch's are."""

    def __init__(self, product: Contraction) -> None:
        self.product, (self._views, self._names) = with_merged_rows(product)
        product = self.product
        self.out: Buffer = product.out.buffer
        self.columns, self.depth = size_of(product.columns[0]), size_of(product.depth)
        self._outer: tuple[IterVar, ...] = product.rows[:-1]
        self._row: IterVar | None = product.rows[-1] if product.rows else None
        self.rows = const(1, "int64") if self._row is None else size_of(self._row)

    def batches(self, body: Callable[[dict[Var, PrimExpr]], Stmt]) -> Stmt:
        """Loops over the batch and the outer variables of the rows, the outermost parallel, around a product."""
        result = self._batch((*self.product.batch, *self._outer), {}, body)
        for view in reversed(self._views):
            result = DeclBuffer(view, result)
        for name, value in reversed(self._names):
            result = LetStmt(name, value, result)
        return result

    def _batch(
        self,
        outer: Sequence[IterVar],
        values: dict[Var, PrimExpr],
        body: Callable[[dict[Var, PrimExpr]], Stmt],
    ) -> Stmt:
        if not outer:
            return body(values)
        first, *rest = outer
        kind = ForKind.SERIAL if values else ForKind.PARALLEL
        return loop(
            first.var.name,
            size_of(first),
            lambda var: self._batch(rest, {**values, first.var: var}, body),
            kind,
        )

    def a(self, values: dict[Var, PrimExpr], row: PrimExpr, k: PrimExpr) -> PrimExpr:
        """An element of the left operand."""
        at = {**values, self.product.depth.var: k}
        if self._row is not None:
            at[self._row.var] = row
        return self._load(self.product.lhs, at)

    def b(self, values: dict[Var, PrimExpr], k: PrimExpr, column: PrimExpr) -> BufferLoad:
        """An element of the right operand."""
        return self._load(
            self.product.rhs, {**values, self.product.depth.var: k, self.product.columns[0].var: column}
        )

    def _load(self, load: BufferLoad, at: dict[Var, PrimExpr]) -> BufferLoad:
        return BufferLoad(load.buffer, tuple(int64(substitute(index, at)) for index in load.indices))

    def b_is_contiguous(self) -> bool:
        """True if neighbouring columns of the right operand are neighbours in memory."""
        return self.product.rhs.indices[-1] is self.product.columns[0].var

    def place(self, values: dict[Var, PrimExpr], row: PrimExpr, column: PrimExpr) -> list[PrimExpr]:
        """The indices of an element of the result."""
        at = {**values, self.product.columns[0].var: column}
        if self._row is not None:
            at[self._row.var] = row
        return [int64(substitute(index, at)) for index in self.product.out.indices]

    def pack(
        self, values: dict[Var, PrimExpr], buffer: Buffer, start: PrimExpr, left: PrimExpr | None
    ) -> Stmt:
        """Copy the columns from `start` on into a buffer (depth, width); those from `left` on, if given, become 0."""

        def column(c: Var) -> Stmt:
            copy = loop("k", self.depth, lambda k: BufferStore(buffer, self.b(values, k, start + c), (k, c)))
            if left is None:
                return copy
            zero = const(0, str(buffer.dtype))
            return IfThenElse(
                c < left, copy, loop("k", self.depth, lambda k: BufferStore(buffer, zero, (k, c)))
            )

        return loop("c", buffer.shape[1], column)


def size_of(iter_var: IterVar) -> PrimExpr:
    """The number of values of a variable, as an index."""
    assert iter_var.dom is not None
    return int64(iter_var.dom.extent)


__all__ = ["Operands", "float_product_of", "is_large_float_sum", "size_of"]
