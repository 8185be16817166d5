"""Split axes and dimensions where indices divide them, as in a reshape before or after a transpose.

    for n, c in T.grid(N, 768):                            for n, h, d in T.grid(N, 12, 64):
        Y[n, c] = X[c // 64, n, c % 64]                        Y3[n, h, d] = X[h, n, d]         Y3: Y as (N, 12, 64)

    for h, d, n in T.grid(12, 64, N):                      for h, d, n in T.grid(12, 64, N):
        Y[h, d, n] = X[n, h * 64 + d]                          Y[h, d, n] = X3[n, h, d]         X3: X as (N, 12, 64)

    for n, i, c in T.grid(N, 512, 256):                    for n, i, co, ci in T.grid(N, 512, 4, 64):
        Y[n, i, c] = X[n, (i * 256 + c) // 64, …]              Y4[n, i, co, ci] = X[n, i * 4 + co, ci]

Contiguous runs then are axes of their own, and transposes are recognised as such. Quotients and remainders of sums are
reduced to those of axes if the other terms are multiples of the divisor or too small to matter. An axis is split by the
common divisor of its quotients and remainders, at least 16; a dimension is split if every access to its buffer indexes
it by such a sum of two axes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import inf
from typing import Final, TypeAlias, TypeVar

from ..ir import Node
from ..prim import Add, FloorDiv, FloorMod, IntImm, Mul, PrimExpr, Var, const, is_const
from ..prim.intrin import floordiv, floormod
from ..tir import Buffer, BufferLoad, BufferStore, Stmt
from ..tir.buffer import decl_buffer
from ..tir.functor import StmtExprMutator, post_order_visit, substitute
from ..tir.nests import loads_in
from .stages import Axis, Group, Stage

AccessT = TypeVar("AccessT", BufferLoad, BufferStore)

Terms: TypeAlias = list[tuple[int, PrimExpr]]
"""Factors and expressions of a sum."""

LEAST: Final = 16
"""Shortest axis that is split off, so that it still is a run of whole vectors; shorter ones are interleaved elements.
"""


def with_split_axes(group: Group) -> Group:
    """Split the axes and dimensions of a group with one element-wise stage wherever indices become plain variables."""
    (stage,) = group.stages
    body = _OfTerms({axis.var: axis.size for axis in stage.axes}).visit(stage.body)
    if body is not stage.body:
        group = _of_body(group, stage, stage.axes, body)
        (stage,) = group.stages
    for axis in stage.axes:
        by = _divisor(stage, axis)
        if by is not None:
            group = _split(group, axis, by)
    return _with_split_dimensions(group)


def _divisor(stage: Stage, axis: Axis) -> int | None:
    """Return the divisor shared by all quotients and remainders of an axis if it divides the extent, else None."""
    numbers: set[int] = set()

    def visit(node: Node) -> None:
        if isinstance(node, FloorDiv | FloorMod) and node.a is axis.var:
            numbers.add(node.b.value if isinstance(node.b, IntImm) else 0)

    post_order_visit(stage.body, visit)
    if len(numbers) != 1 or axis.size is None:
        return None
    (by,) = numbers
    return by if LEAST <= by < axis.size and axis.size % by == 0 else None


def _split(group: Group, axis: Axis, by: int) -> Group:
    """Replace an axis of the group by two."""
    assert axis.size is not None
    dtype = axis.var.dtype
    outer = Axis(Var(f"{axis.var.name}o", dtype), const(axis.size // by, dtype))
    inner = Axis(Var(f"{axis.var.name}i", dtype), const(by, dtype))
    (stage,) = group.stages
    body = substitute(stage.body, {axis.var: outer.var * by + inner.var})
    assert isinstance(body, Stmt)
    body = Quotients(outer.var, inner.var, by).visit(body)
    axes = [part for old in stage.axes for part in ((outer, inner) if old is axis else (old,))]
    return _of_body(group, stage, tuple(axes), body)


class _OfTerms(StmtExprMutator):
    """Simplifies (i * 256 + c) // 64 to i * 4 + c // 64, and (i * 16 + c) // 64 to i // 4 if c is less than 16.

    Remainders likewise: c % 64, and i % 4 * 16 + c.
    """

    def __init__(self, sizes: Mapping[Var, int | None]) -> None:
        super().__init__()
        self.sizes = sizes

    def visit_FloorDiv(self, node: FloorDiv) -> PrimExpr:
        parts = self._parts(node)
        if parts is None:
            return self.visit_children(node)
        whole, middle, by, _ = parts
        return _sum_of([*whole, (1, floordiv(middle, by))] if middle is not None else whole, node)

    def visit_FloorMod(self, node: FloorMod) -> PrimExpr:
        parts = self._parts(node)
        if parts is None:
            return self.visit_children(node)
        _, middle, by, small = parts
        assert isinstance(node.b, IntImm)
        rest = [] if middle is None else [(node.b.value // by, floormod(middle, by))]
        return _sum_of([*rest, *small], node)

    def _parts(self, node: FloorDiv | FloorMod) -> tuple[Terms, PrimExpr | None, int, Terms] | None:
        """Split a dividend into (quotient of the multiples, middle term to be divided, its divisor, terms too small to
        matter).

        Returns None if the sum has no such split, or has one term only.
        """
        terms = _terms(node.a)
        if not isinstance(node.b, IntImm) or node.b.value < 1 or terms is None or len(terms) < 2:
            return None
        divisor = node.b.value
        whole = [(factor // divisor, var) for factor, var in terms if factor % divisor == 0]
        rest = sorted((term for term in terms if term[0] % divisor), key=lambda term: term[0])
        small: Terms = []
        while rest and self._end([*small, rest[0]]) <= divisor:
            small.append(rest.pop(0))
        if not rest:
            return whole, None, divisor, small
        if len(rest) > 1 or divisor % rest[0][0] or self._end(small) > rest[0][0]:
            return None
        ((factor, middle),) = rest
        return (whole, middle, divisor // factor, small) if whole or small else None

    def _end(self, terms: Terms) -> float:
        """Upper bound (exclusive) of a sum of terms."""
        sizes = [(factor, self.sizes.get(var)) for factor, var in terms if isinstance(var, Var)]
        return 1 + sum(inf if size is None else factor * (size - 1) for factor, size in sizes)


def _terms(expr: PrimExpr) -> Terms | None:
    """Return the factors and variables of a sum, or None for another expression or a factor below 1."""
    match expr:
        case Add(a, b):
            first, second = _terms(a), _terms(b)
            return None if first is None or second is None else [*first, *second]
        case Mul(Var() as var, IntImm() as factor) if factor.value > 0:
            return [(factor.value, var)]
        case Var():
            return [(1, expr)]
        case _:
            return None


def _sum_of(terms: Terms, like: PrimExpr) -> PrimExpr:
    total: PrimExpr | None = None
    for factor, part in terms:
        term = part if factor == 1 else part * factor
        total = term if total is None else total + term
    return const(0, like.dtype) if total is None else total


class Quotients(StmtExprMutator):
    """Replaces (h * by + d) // by by h, and its remainder by d."""

    def __init__(self, outer: Var, inner: Var, by: int) -> None:
        super().__init__()
        self.outer, self.inner, self.by = outer, inner, by

    def visit_FloorDiv(self, node: FloorDiv) -> PrimExpr:
        return self.outer if self._is_cut(node) else self.visit_children(node)

    def visit_FloorMod(self, node: FloorMod) -> PrimExpr:
        return self.inner if self._is_cut(node) else self.visit_children(node)

    def _is_cut(self, node: FloorDiv | FloorMod) -> bool:
        parts = sum_of_two(node.a)
        is_by = isinstance(node.b, IntImm) and node.b.value == self.by
        return is_by and parts == (self.outer, self.by, self.inner)


def _of_body(group: Group, stage: Stage, axes: tuple[Axis, ...], body: Stmt) -> Group:
    stores = (body,) if isinstance(body, BufferStore) else ()
    rows = axes if group.rows == stage.axes else group.rows
    return replace(group, stages=(replace(stage, axes=axes, stores=stores, body=body),), rows=rows)


# ------------------------------------------------------------------ dimensions


def sum_of_two(index: PrimExpr) -> tuple[Var, int, Var] | None:
    """Return (h, c, d) of an index h * c + d, or None."""
    match index:
        case Add(Mul(Var() as outer, IntImm() as by), Var() as inner):
            return outer, by.value, inner
        case _:
            return None


def _with_split_dimensions(group: Group) -> Group:
    """Replace buffers with a dimension indexed by the sum of two axes by views with two dimensions."""
    (stage,) = group.stages
    sizes = {axis.var: axis.size for axis in stage.axes}
    (store,) = stage.stores
    views: dict[Buffer, tuple[Buffer, int]] = {}
    for access in (store, *loads_in(stage.body)):
        for place, index in enumerate(access.indices):
            parts = sum_of_two(index)
            size = access.buffer.shape[place]
            if parts is None or parts[1] < LEAST or not isinstance(size, IntImm):
                continue
            outer, by, inner = parts
            covers = sizes.get(inner) == by and sizes.get(outer) == size.value // by and size.value % by == 0
            if covers and access.buffer not in views:
                shape = list(access.buffer.shape)
                dtype = str(size.dtype)
                shape[place : place + 1] = [const(size.value // by, dtype), const(by, dtype)]
                view = decl_buffer(
                    shape, str(access.buffer.dtype), f"{access.buffer.name}_cut", data=access.buffer.data
                )
                views[access.buffer] = view, place
    if not views:
        return group
    cut = _Cut(views, sizes)
    body = cut.visit(stage.body)
    if cut.misses:
        return group
    changed = _of_body(group, stage, stage.axes, body)
    return replace(changed, views=(*group.views, *(view for view, _ in views.values())))


class _Cut(StmtExprMutator):
    """Replaces accesses to split buffers by accesses to their views."""

    def __init__(self, views: dict[Buffer, tuple[Buffer, int]], sizes: Mapping[Var, int | None]) -> None:
        super().__init__()
        self.views, self.sizes = views, sizes
        self.misses = False
        """True if a buffer with a view was accessed at an index of another form."""

    def _of_view(self, access: AccessT) -> AccessT:
        if access.buffer not in self.views:
            return access
        view, place = self.views[access.buffer]
        parts, width = sum_of_two(access.indices[place]), view.shape[place + 1]
        if parts is None or not is_const(width, parts[1]) or self.sizes.get(parts[2]) != parts[1]:
            self.misses = True
            return access
        outer, _, inner = parts
        indices = (*access.indices[:place], outer, inner, *access.indices[place + 1 :])
        return access.replace(buffer=view, indices=indices)

    def visit_BufferLoad(self, node: BufferLoad) -> PrimExpr:
        load = self.visit_children(node)
        assert isinstance(load, BufferLoad)
        return self._of_view(load)

    def visit_BufferStore(self, node: BufferStore) -> Stmt:
        store = self.visit_children(node)
        assert isinstance(store, BufferStore)
        return self._of_view(store)
