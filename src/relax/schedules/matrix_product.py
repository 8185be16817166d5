"""Recognise matrix products: C[batch, m, n] = Σ_k A[batch, m, k] · B[batch, k, n], in any order of the indices.

An index variable of A, B and C belongs to the batch, one of A and C to the rows, one of B and C to the columns; the
reduction variable indexes A and B. The operand that holds the last index of the result becomes B.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import Final

from ..ir import DataType, structural_equal
from ..prim import Cast, IntImm, PrimExpr, SizeVar, Var, const, is_const, simplify
from ..runtime.records import dataclass
from ..tir import Block, Buffer, BufferLoad, BufferStore, IterVar, Range, Stmt
from ..tir.buffer import decl_buffer
from ..tir.contraction import reduction_of
from ..tir.functor import StmtExprMutator, substitute
from ..tir.nests import Nest, is_compact, loads_in, same_size
from ..tir.usage import free_vars
from .build import int64, size_of
from .rule import Refusal


@dataclass(frozen=True)
class MatrixProduct:
    """Sum of products of the elements of two buffers, reduced over one variable."""

    out: BufferStore
    """Store of the result: of the sum itself, or of an epilogue applied to it."""
    start: PrimExpr
    """Initial value of the sum."""
    lhs: BufferLoad
    rhs: BufferLoad
    batch: tuple[IterVar, ...]
    rows: tuple[IterVar, ...]
    columns: tuple[IterVar, ...]
    depth: IterVar
    sum_dtype: DataType
    total: Var | None = None
    """Variable in the value of `out` that stands for the sum; None if the sum is the result."""
    computed: Mapping[Buffer, PrimExpr] = field(default_factory=dict[Buffer, PrimExpr])
    """Values of operands that no memory holds, by the buffers that stand for them in `lhs` and `rhs`."""


NO_PRODUCT: Final = Refusal("a nest does not sum products", unrelated=True)

PLAIN: Final = Refusal("an operand or the result is not indexed by variables alone", unrelated=True)


def matrix_product_of(nest: Nest) -> MatrixProduct | Refusal:
    """Return the product that a nest computes."""
    sums = sum_of_products(nest.block)
    if sums is None:
        return NO_PRODUCT
    store, start, a, b = sums
    return _classified(store, start, (a, b), nest.block)


def computed_matrix_product_of(nest: Nest, is_read: Callable[[BufferLoad], bool]) -> MatrixProduct | Refusal:
    """Return the product of a nest whose operands may be expressions of other buffers' elements.

    An operand of which `is_read` holds is not computed: tiles can read it as memory has it.
    """
    block, reduction = nest.block, reduction_of(nest.block)
    factors = None if reduction is None else reduction.factors
    if reduction is None or factors is None:
        return NO_PRODUCT
    if not plain(reduction.out.buffer, reduction.out.indices, block):
        return PLAIN
    units = {v.var: const(0, v.var.dtype) for v in reduction.reduced if is_const(size_of(v), 1)}
    computed: dict[Buffer, PrimExpr] = {}

    def operand(factor: PrimExpr) -> BufferLoad:
        value = simplify(substitute(factor, units)) if units else factor
        load = value.value if isinstance(value, Cast) else value
        if isinstance(load, BufferLoad) and is_read(load) and plain(load.buffer, load.indices, block):
            return load
        free = set(free_vars(value))
        used = [v for v in block.iter_vars if v.var in free]
        buffer = decl_buffer([size_of(v) for v in used], str(value.dtype), "computed")
        computed[buffer] = value
        return BufferLoad(buffer, tuple(v.var for v in used))

    a, b = map(operand, factors)
    found = _classified(reduction.out, reduction.start, (a, b), block)
    return replace(found, computed=computed) if found else found


def sum_of_products(block: Block) -> tuple[BufferStore, PrimExpr, BufferLoad, BufferLoad] | None:
    """Return (store, initial value, factor, factor) of a block that sums products of two elements, or None.

    Factors are without casts to the sum's dtype.
    """
    reduction = reduction_of(block)
    factors = None if reduction is None else reduction.factors
    if reduction is None or factors is None:
        return None
    first, second = (part.value if isinstance(part, Cast) else part for part in factors)
    if not isinstance(first, BufferLoad) or not isinstance(second, BufferLoad):
        return None
    is_plain = plain(reduction.out.buffer, reduction.out.indices, block)
    return (reduction.out, reduction.start, first, second) if is_plain else None


def plain(buffer: Buffer, indices: tuple[PrimExpr, ...], block: Block) -> bool:
    """True if the buffer is compact and its indices are zeros and distinct block variables."""
    own = {v.var for v in block.iter_vars}
    used = [index for index in indices if not is_const(index, 0)]
    if buffer.strides or buffer.elem_offset is not None or buffer.dtype.lanes != 1:
        return False
    return all(isinstance(i, Var) and i in own for i in used) and len({id(i) for i in used}) == len(used)


def _classified(
    store: BufferStore, start: PrimExpr, factors: tuple[BufferLoad, BufferLoad], block: Block
) -> MatrixProduct | Refusal:
    a, b = factors
    if not plain(a.buffer, a.indices, block) or not plain(b.buffer, b.indices, block):
        return PLAIN
    if a.indices and b.indices and _ends_in_column(a, b, store):
        a, b = b, a
    in_a, in_b = _variables(a.indices), _variables(b.indices)
    in_c = _variables(store.indices)
    groups: dict[str, list[IterVar]] = {"batch": [], "rows": [], "columns": [], "depth": []}
    for v in block.iter_vars:
        place = (id(v.var) in in_a, id(v.var) in in_b, id(v.var) in in_c)
        kind = {
            (True, True, True): "batch", (True, False, True): "rows",
            (False, True, True): "columns", (True, True, False): "depth",
        }.get(place)  # fmt: skip
        if kind is None and v.dom is not None and is_const(v.dom.extent, 1):
            continue
        if kind is None or v.iter_type != ("reduce" if kind == "depth" else "spatial"):
            return Refusal(f"{v.var.name} is no variable of a batch, of rows, columns or the depth", unrelated=True)
        groups[kind].append(v)
    if len(groups["depth"]) != 1:
        return Refusal(f"the sum is over {len(groups['depth'])} variables, not one", unrelated=True)
    batch, rows, columns = (tuple(groups[kind]) for kind in ("batch", "rows", "columns"))
    return MatrixProduct(store, start, a, b, batch, rows, columns, groups["depth"][0], store.buffer.dtype)


def with_finish(product: MatrixProduct, nest: Nest) -> MatrixProduct | None:
    """Return the product with `nest` as its epilogue, or None if the nest does not map each sum to one result.

    for i, j in T.grid(M, N):                   each result is a function of the sum with the same indices,
        D[i, j] = f(C[i, j], bias[j])           and other buffers
    """
    sums, store = product.out, nest.block.body
    if nest.is_reduction or not isinstance(store, BufferStore):
        return None
    loads = [load for load in nest.loads() if load.buffer is sums.buffer]
    if not loads or not plain(sums.buffer, loads[0].indices, nest.block):
        return None
    if not all(structural_equal(load.indices, loads[0].indices) for load in loads):
        return None
    extents = {v.var: v for v in nest.block.iter_vars}
    names: dict[Var, PrimExpr] = {}
    for there, index, size in zip(loads[0].indices, sums.indices, sums.buffer.shape, strict=True):
        if isinstance(there, Var):
            if not same_size(size_of(extents.pop(there)), int64(size)) or there.dtype != index.dtype:
                return None
            names[there] = index
        elif not is_const(size, 1):
            return None
    if not all(is_const(size_of(v), 1) for v in extents.values()):
        return None
    names.update({var: const(0, var.dtype) for var in extents})
    total = Var("total", sums.buffer.dtype)
    value = _Replaced(loads, total).visit(store.value)
    out = store.replace(
        value=substitute(value, names), indices=tuple(substitute(index, names) for index in store.indices)
    )
    return replace(product, out=out, total=total)


class _Replaced(StmtExprMutator):
    """Replaces loads of one buffer by a variable."""

    def __init__(self, loads: Sequence[BufferLoad], var: Var) -> None:
        super().__init__()
        self.buffer, self.var = loads[0].buffer, var

    def visit_BufferLoad(self, node: BufferLoad) -> PrimExpr:
        return self.var if node.buffer is self.buffer else self.visit_children(node)


def _variables(indices: tuple[PrimExpr, ...]) -> set[int]:
    return {id(index) for index in indices if isinstance(index, Var)}


def _ends_in_column(a: BufferLoad, b: BufferLoad, store: BufferStore) -> bool:
    """True if the last index of the result occurs only in `a`: the operands must be exchanged."""
    last = store.indices[-1] if store.indices else None
    return isinstance(last, Var) and id(last) in _variables(a.indices) and id(last) not in _variables(b.indices)


Views = tuple[tuple[Buffer, ...], "tuple[tuple[Var, PrimExpr], ...]"]
"""Views that a body must declare, and the named sizes to bind around them."""


def with_merged_axes(product: MatrixProduct) -> tuple[MatrixProduct, Views]:
    """Merge the last row variables of a product into one, and the last column variables, over views of its buffers.

    A compound extent is bound to a name, so that proofs about rows do not expand it.

    Variables merge if they index adjacent dimensions, in the same order, of the result, of their operand and of all
    operands of the epilogue. Other variables stay.
    """
    views: tuple[Buffer, ...] = ()
    names: tuple[tuple[Var, PrimExpr], ...] = ()
    for of_rows in (True, False):
        variables = product.rows if of_rows else product.columns
        for first in range(len(variables) - 1):
            merged = _merged(product, variables[first:], of_rows)
            if merged is not None:
                product, (new_views, new_names) = merged
                views, names = (*views, *new_views), (*names, *new_names)
                break
    used = {load.buffer for part in (product.lhs, product.rhs) for load in loads_in(part)}
    used |= {product.out.buffer, *(load.buffer for load in loads_in(product.out.value))}
    return product, (tuple(view for view in views if view in used), names)


def _merged(
    product: MatrixProduct, variables: tuple[IterVar, ...], of_rows: bool
) -> tuple[MatrixProduct, Views] | None:
    """Merge the last row (`of_rows`) or column variables of the product; return None if they cannot be merged."""
    extent: PrimExpr = const(1, "int64")
    for variable in variables:
        extent = extent * size_of(variable)
    extent = simplify(extent)
    names: tuple[tuple[Var, PrimExpr], ...] = ()
    if not isinstance(extent, (IntImm, Var)):
        count = SizeVar("rows" if of_rows else "columns", "int64")
        names, extent = ((count, extent),), count
    merged = IterVar(Range.from_min_extent(const(0, "int64"), extent), Var("row" if of_rows else "column", "int64"))
    if (product.lhs if of_rows else product.rhs).buffer in product.computed:
        return None
    merger = IndexMerger(variables, merged)
    operand, out = merger.visit(product.lhs if of_rows else product.rhs), merger.visit(product.out)
    rest = {id(var) for part in (operand, out) for var in free_vars(part)}
    if any(id(variable.var) in rest for variable in variables):
        return None
    assert isinstance(operand, BufferLoad)
    views = tuple(merger.views.values()), names
    if of_rows:
        rows = (*product.rows[: -len(variables)], merged)
        return replace(product, lhs=operand, out=out, rows=rows), views
    columns = (*product.columns[: -len(variables)], merged)
    return replace(product, rhs=operand, out=out, columns=columns), views


class IndexMerger(StmtExprMutator):
    """Replaces accesses indexed by consecutive merged variables with accesses to views indexed by one variable.

    These are accesses of views, in which the dimensions of the variables are one.
    """

    def __init__(self, rows: tuple[IterVar, ...], merged: IterVar) -> None:
        super().__init__()
        self.rows, self.merged = rows, merged
        self.views: dict[tuple[Buffer, int], Buffer] = {}

    def visit_BufferLoad(self, node: BufferLoad) -> PrimExpr:
        place = self._place(node.buffer, node.indices)
        return self.visit_children(node) if place is None else BufferLoad(*place)

    def visit_BufferStore(self, node: BufferStore) -> Stmt:
        changed = self.visit_children(node)
        assert isinstance(changed, BufferStore)
        place = self._place(node.buffer, node.indices)
        return changed if place is None else changed.replace(buffer=place[0], indices=place[1])

    def _place(self, buffer: Buffer, indices: tuple[PrimExpr, ...]) -> tuple[Buffer, tuple[PrimExpr, ...]] | None:
        """Return a view of a compact buffer with the variables' dimensions merged, and its indices, or None."""
        first = next((d for d, index in enumerate(indices) if index is self.rows[0].var), None)
        if first is None or not is_compact(buffer):
            return None
        behind = first + len(self.rows)
        there = indices[first:behind]
        if len(there) < len(self.rows) or any(i is not v.var for i, v in zip(there, self.rows, strict=True)):
            return None
        view = self.views.get((buffer, first))
        if view is None:
            shape = (*buffer.shape[:first], size_of(self.merged), *buffer.shape[behind:])
            name = f"{buffer.name}_{'columns' if self.merged.var.name == 'column' else 'rows'}"
            view = decl_buffer(shape, str(buffer.dtype), name, data=buffer.data)
            self.views[buffer, first] = view
        return view, (*indices[:first], self.merged.var, *indices[behind:])


__all__ = [
    "IndexMerger", "MatrixProduct", "computed_matrix_product_of", "matrix_product_of", "plain", "sum_of_products",
    "with_finish", "with_merged_axes",
]  # fmt: skip
