"""The operands of a product as matrices: elements by row, depth and column, for values of the batch's variables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from ...prim import FloatImm, IntImm, PrimExpr, Var, const, substitute
from ...tir import BufferLoad, ForKind, IterVar, PrimFunc, Stmt
from ..build import int64, loop
from ..contraction import Contraction

SMALL: Final = 8192
"""Multiplications for which arranging the loops is not worth the time to compile them."""


def is_float_product(product: Contraction, func: PrimFunc) -> bool:
    """True for a product of float32 or float64 from 0 with one variable of columns, of arguments that are apart."""
    dtype = product.out.buffer.dtype
    same = product.lhs.dtype == dtype and product.rhs.dtype == dtype
    from_zero = isinstance(product.start, FloatImm) and product.start.value == 0
    apart = bool(func.attrs.get("tir.noalias"))
    plain = dtype in ("float32", "float64") and same and from_zero and apart and len(product.columns) == 1
    return plain and not _is_small(product)


def _is_small(product: Contraction) -> bool:
    """True for a product of known sizes with few multiplications."""
    total = 1
    for iter_var in (*product.batch, *product.rows, *product.columns, product.depth):
        size = _size(iter_var)
        if not isinstance(size, IntImm):
            return False
        total *= size.value
    return total < SMALL


class Operands:
    """A product, of which the last variable of the rows is the row; the others are loops around, as the batch's are."""

    def __init__(self, product: Contraction) -> None:
        self.product = product
        self.columns, self.depth = _size(product.columns[0]), _size(product.depth)
        self._outer: tuple[IterVar, ...] = product.rows[:-1]
        self._row: IterVar | None = product.rows[-1] if product.rows else None
        self.rows = const(1, "int64") if self._row is None else _size(self._row)

    def batches(self, body: Callable[[dict[Var, PrimExpr]], Stmt]) -> Stmt:
        """Loops over the batch and the outer variables of the rows, the outermost parallel, around a product."""
        return self._batch((*self.product.batch, *self._outer), {}, body)

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
            _size(first),
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


def _size(iter_var: IterVar) -> PrimExpr:
    """The number of values of a variable, as an index."""
    assert iter_var.dom is not None
    return int64(iter_var.dom.extent)


__all__ = ["Operands", "is_float_product"]
