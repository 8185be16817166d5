"""Formulas that sort along an axis: a stable merge sort of indices, row by row, in O(n log n) steps.

For a small k, the first k elements in order are found in one pass over a row by insertion into a sorted list. Elements
that compare equal keep their order, in descending order too. A NaN is greater than every number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from .. import te
from ..ir import DataType
from ..prim import IntImm, PrimExpr, Var, const, intrin
from ..tir.buffer import Buffer, decl_buffer
from ..tir.stmt import AllocBuffer, BufferStore, For, IfThenElse, LetStmt, SeqStmt, Stmt, While
from .util import normalize_axis


def argsort(x: te.Tensor, axis: int = -1, descending: bool = False, dtype: str = "int32") -> te.Tensor:
    """The indices along `axis` that sort the elements."""
    order = order_of(x, axis, descending)
    if order.dtype == dtype:
        return order
    return te.compute(order.shape, lambda *i: order(*i).astype(dtype), "T_argsort", tag="elemwise")


def sort(x: te.Tensor, axis: int = -1, descending: bool = False) -> te.Tensor:
    """The elements along `axis` in order."""
    return _chosen(x, order_of(x, axis, descending), x.shape, axis, "T_sort")


def topk(
    x: te.Tensor, k: PrimExpr | None, axis: int = -1, ret_type: str = "both", largest: bool = True, dtype: str = "int32"
) -> te.Tensor | list[te.Tensor]:
    """The k greatest (or least) elements along `axis`, in order, and their indices; all of them for a k of None."""
    axis = normalize_axis(axis, x.ndim)
    few = k.value if isinstance(k, IntImm) and 0 < k.value <= FEW else None
    order = order_of(x, axis, largest, few)
    shape = x.shape if k is None else (*x.shape[:axis], k, *x.shape[axis + 1 :])
    results: list[te.Tensor] = []
    if ret_type != "indices":
        results.append(_chosen(x, order, shape, axis, "topk_values"))
    if ret_type != "values":
        results.append(te.compute(shape, lambda *i: order(*i).astype(dtype), "topk_indices", tag="injective"))
    return results if ret_type == "both" else results[0]


def _chosen(x: te.Tensor, order: te.Tensor, shape: Sequence[PrimExpr], axis: int, name: str) -> te.Tensor:
    """Elements of x that come first in the order."""
    axis = normalize_axis(axis, x.ndim)
    return te.compute(shape, lambda *i: x(*i[:axis], order(*i), *i[axis + 1 :]), name, tag="injective")


def order_of(x: te.Tensor, axis: int, descending: bool, first: int | None = None) -> te.Tensor:
    """int64 indices along `axis` that sort the elements: all, or the first `count`, which must not exceed their
    number.
    """
    axis = normalize_axis(axis, x.ndim)
    shape = x.shape if first is None else (*x.shape[:axis], const(first, "int64"), *x.shape[axis + 1 :])

    def statement(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        loops = [Var(f"i{d}", "int64") for d in range(x.ndim) if d != axis]
        row = (_Row if first is None else _FirstOfRow)(ins[0], outs[0], loops, axis, descending)
        body: Stmt = row.sorted()
        for buffer in (row.scratch, row.state):  # each row has its own, so that rows may be sorted side by side
            body = AllocBuffer(buffer, body)
        sizes = [size for d, size in enumerate(x.shape) if d != axis]
        for var, size in zip(reversed(loops), reversed(sizes), strict=True):
            body = For(var, 0, size, "parallel", body)
        return body

    return te.extern([shape], [x], statement, "sort_order", ["int64"])[0]


FEW: Final = 64
"""Largest list kept sorted while a row is read; an insertion may move every entry."""

_WIDTH, _LEFT, _RIGHT = range(3)
"""Indices in the state of a sort: the length of sorted runs, and the next elements of two runs."""


class _Row:
    """Merge sort of the indices of one row: runs of 1, 2, 4, … elements, merged in pairs.

    while width < n:
        for each pair of runs: merge them from `order` into `scratch`
        copy `scratch` to `order`; width *= 2
    """

    def __init__(self, values: Buffer, order: Buffer, loops: Sequence[Var], axis: int, descending: bool) -> None:
        self.values, self.order = values, order
        self.loops, self.axis, self.descending = list(loops), axis, descending
        self.size = values.shape[axis]
        self.scratch = decl_buffer([self.size], "int64", "scratch")
        self.state = decl_buffer([3], "int64", "state")

    def sorted(self) -> Stmt:
        k, copied = Var("k", "int64"), Var("k", "int64")
        width = self.state[_WIDTH]
        start = For(k, 0, self.size, "serial", self.store(k, k))
        copy = For(copied, 0, self.size, "serial", self.store(copied, self.scratch[copied]))
        step = SeqStmt((self.merged_pairs(width), copy, self.set(_WIDTH, width * 2)))
        return SeqStmt((start, self.set(_WIDTH, const(1, "int64")), While(width < self.size, step)))

    def merged_pairs(self, width: PrimExpr) -> Stmt:
        """Merge every two neighbouring runs."""
        pair, k = Var("pair", "int64"), Var("k", "int64")
        low, middle, high = (Var(name, "int64") for name in ("low", "middle", "high"))
        merge = SeqStmt(
            (
                self.set(_LEFT, low),
                self.set(_RIGHT, middle),
                For(k, 0, high - low, "serial", self.merged(low + k, middle, high)),
            )
        )
        body: Stmt = LetStmt(high, intrin.min(middle + width, self.size), merge)
        body = LetStmt(middle, intrin.min(low + width, self.size), body)
        body = LetStmt(low, pair * width * 2, body)
        return For(pair, 0, intrin.ceildiv(self.size, width * 2), "serial", body)

    def merged(self, position: PrimExpr, middle: PrimExpr, high: PrimExpr) -> Stmt:
        """Store the lesser of two runs' next elements; the left run's if they are equal."""
        left, right = self.state[_LEFT], self.state[_RIGHT]
        first, second = self.index(left), self.index(right)
        is_right = intrin.if_then_else(
            left >= middle,
            True,
            intrin.if_then_else(right >= high, False, self.before(self.value(second), self.value(first))),
        )
        return IfThenElse(
            is_right,
            SeqStmt((BufferStore(self.scratch, second, [position]), self.set(_RIGHT, right + 1))),
            SeqStmt((BufferStore(self.scratch, first, [position]), self.set(_LEFT, left + 1))),
        )

    def before(self, a: PrimExpr, b: PrimExpr) -> PrimExpr:
        """True if element `a` is ordered strictly before `b`."""
        dtype = DataType(a.dtype)
        if dtype.is_bool or (dtype.is_float and dtype.bits < 16):
            wide = "float32" if dtype.is_float else "int32"
            a, b = a.astype(wide), b.astype(wide)
        less, greater = (b, a) if self.descending else (a, b)
        if not dtype.is_float:
            return less < greater
        return intrin.any(less < greater, intrin.all(intrin.isnan(greater), intrin.logical_not(intrin.isnan(less))))

    def value(self, index: PrimExpr) -> PrimExpr:
        return self.values[tuple(self.at(index))]

    def index(self, position: PrimExpr) -> PrimExpr:
        return self.order[tuple(self.at(position))]

    def store(self, position: PrimExpr, index: PrimExpr) -> Stmt:
        return BufferStore(self.order, index, self.at(position))

    def set(self, position: int, value: PrimExpr) -> Stmt:
        return BufferStore(self.state, value, [const(position, "int64")])

    def at(self, position: PrimExpr) -> list[PrimExpr]:
        return [*self.loops[: self.axis], position, *self.loops[self.axis :]]


class _FirstOfRow(_Row):
    """Selection of the first elements of one row in order, with the best of those read so far in `scratch`.

    for j in range(n):
        if fewer than all places are taken, or values[j] stands before the last of them:
            move those behind it by a place; put it where they were
    """

    def __init__(self, values: Buffer, order: Buffer, loops: Sequence[Var], axis: int, descending: bool) -> None:
        super().__init__(values, order, loops, axis, descending)
        self.places = order.shape[axis]
        self.scratch = decl_buffer([self.places], str(values.dtype), "best")

    def sorted(self) -> Stmt:
        j, value = Var("j", "int64"), Var("value", self.values.dtype)
        last = intrin.min(j, self.places - 1)
        is_first = intrin.if_then_else(j < self.places, True, self.before(value, self.scratch[self.places - 1]))
        insertion = IfThenElse(is_first, self.put(j, value, last))
        read = For(j, 0, self.size, "serial", LetStmt(value, self.value(j), insertion))
        position = Var("k", "int64")
        return SeqStmt((For(position, 0, self.places, "serial", self.store(position, const(-1, "int64"))), read))

    def put(self, j: PrimExpr, value: PrimExpr, last: PrimExpr) -> Stmt:
        """Insert an element into the sorted top-k list, dropping the last one."""
        position = self.state[_LEFT]
        before = position - 1
        moved = SeqStmt(
            (
                BufferStore(self.scratch, self.scratch[before], [position]),
                self.store(position, self.index(before)),
                self.set(_LEFT, before),
            )
        )
        behind = intrin.if_then_else(position > 0, self.before(value, self.scratch[before]), False)
        stored = (BufferStore(self.scratch, value, [position]), self.store(position, j))
        return SeqStmt((self.set(_LEFT, last), While(behind, moved), *stored))
