"""Recognising products: C[batch, m, n] = Σ_k A[batch, m, k] · B[batch, k, n], whatever the order of the indices.

An index variable that A, B and C have is of the batch, one that A and C have of the rows, one that B and C have of the
columns, and that of the reduction is in A and B. The operand that has the last index of the result stands as B.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ..prim import Add, IntImm, Mul, PrimExpr, Var, const, is_const, mark_nonnegative, simplify
from ..tir import Block, BlockRealize, Buffer, BufferLoad, BufferStore, IterVar, PrimFunc, Range, Stmt
from ..tir.buffer import decl_buffer
from ..tir.nests import Nest, nest_of, root_of
from ..tir.statements import seq_of


@dataclass(frozen=True)
class Contraction:
    """A product of two buffers, summed over one variable."""

    out: BufferStore
    start: PrimExpr
    """The value from which the sum begins."""
    lhs: BufferLoad
    rhs: BufferLoad
    batch: tuple[IterVar, ...]
    rows: tuple[IterVar, ...]
    columns: tuple[IterVar, ...]
    depth: IterVar


def rewritten_nests(func: PrimFunc, rewrite: Callable[[Nest], Stmt | None]) -> PrimFunc | None:
    """The function with other statements for those of its nests that `rewrite` has one for; None if it has none."""
    _, stmts = root_of(func)
    results: list[Stmt] = []
    for stmt in stmts:
        nest = nest_of(stmt)
        changed = None if nest is None else rewrite(nest)
        results.append(stmt if changed is None else changed)
    if all(a is b for a, b in zip(results, stmts, strict=True)):
        return None
    return with_root(func, results)


def with_root(func: PrimFunc, stmts: Sequence[Stmt], unused: Sequence[Buffer] = ()) -> PrimFunc:
    """The function with other statements in its root (see `root_of`), which no longer allocates the unused buffers."""
    body, arranged = func.body, seq_of(stmts)
    if isinstance(body, BlockRealize) and not body.block.iter_vars:
        kept = tuple(buffer for buffer in body.block.alloc_buffers if buffer not in unused)
        root = body.block.replace(body=arranged, alloc_buffers=kept)
        return func.replace(body=body.replace(block=root))
    return func.replace(body=arranged)


def _same(a: PrimExpr, b: PrimExpr) -> bool:
    return a is b or (isinstance(a, IntImm) and isinstance(b, IntImm) and a.value == b.value)


def contraction_of(nest: Nest) -> Contraction | None:
    """The product that a nest computes; None if it computes something else."""
    sums = sum_of_products(nest.block)
    if sums is None:
        return None
    store, start, a, b = sums
    return _classified(store, start, (a, b), nest.block)


def sum_of_products(block: Block) -> tuple[BufferStore, PrimExpr, BufferLoad, BufferLoad] | None:
    """The store, the start and the factors of a block that adds up products of two elements; None for another one."""
    store, init = block.body, block.init
    if not isinstance(store, BufferStore) or not isinstance(init, BufferStore):
        return None
    factors = _factors(store)
    if factors is None or init.buffer is not store.buffer or not _equal(init.indices, store.indices):
        return None
    return (store, init.value, *factors) if plain(store.buffer, init.indices, block) else None


def _factors(store: BufferStore) -> tuple[BufferLoad, BufferLoad] | None:
    """The two factors of ``C[...] = C[...] + A[...] * B[...]``."""
    match store.value:
        case Add(BufferLoad() as sum_, Mul(BufferLoad() as a, BufferLoad() as b)):
            pass
        case Add(Mul(BufferLoad() as a, BufferLoad() as b), BufferLoad() as sum_):
            pass
        case _:
            return None
    if sum_.buffer is not store.buffer or not _equal(sum_.indices, store.indices):
        return None
    return None if store.buffer in {a.buffer, b.buffer} else (a, b)


def _equal(a: tuple[PrimExpr, ...], b: tuple[PrimExpr, ...]) -> bool:
    return len(a) == len(b) and all(x is y or _same(x, y) for x, y in zip(a, b, strict=True))


def plain(buffer: Buffer, indices: tuple[PrimExpr, ...], block: Block) -> bool:
    """True if a compact buffer is indexed by block variables, each at most once, and zeros."""
    own = {v.var for v in block.iter_vars}
    used = [index for index in indices if not is_const(index, 0)]
    if buffer.strides or buffer.elem_offset is not None or buffer.dtype.lanes != 1:
        return False
    return all(isinstance(i, Var) and i in own for i in used) and len({id(i) for i in used}) == len(used)


def _classified(
    store: BufferStore, start: PrimExpr, factors: tuple[BufferLoad, BufferLoad], block: Block
) -> Contraction | None:
    a, b = factors
    if not plain(a.buffer, a.indices, block) or not plain(b.buffer, b.indices, block):
        return None
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
            return None
        groups[kind].append(v)
    if len(groups["depth"]) != 1:
        return None
    batch, rows, columns = (tuple(groups[kind]) for kind in ("batch", "rows", "columns"))
    return Contraction(store, start, a, b, batch, rows, columns, groups["depth"][0])


def _variables(indices: tuple[PrimExpr, ...]) -> set[int]:
    return {id(index) for index in indices if isinstance(index, Var)}


def _ends_in_column(a: BufferLoad, b: BufferLoad, store: BufferStore) -> bool:
    """True if the last index of the result is one of `a` alone: then `a` is what has the columns."""
    last = store.indices[-1] if store.indices else None
    return (
        isinstance(last, Var) and id(last) in _variables(a.indices) and id(last) not in _variables(b.indices)
    )


Views = tuple[tuple[Buffer, ...], "tuple[tuple[Var, PrimExpr], ...]"]
"""Views of buffers that a body must declare, inside of lets of the sizes that have names."""


def with_merged_rows(product: Contraction) -> tuple[Contraction, Views]:
    """The product with one variable for its rows, over views of its buffers.

    The number of rows gets a name if it is a product: proofs about rows need not look at its factors.

    Rows merge where their variables index neighbouring dimensions, in the same order, of the result and of the left
    operand, so that rows that follow each other in one do in the other. Otherwise the product comes back as it is.
    """
    rows = product.rows
    if len(rows) < 2:
        return product, ((), ())
    places = [_places(load.indices, rows) for load in (product.lhs, product.out)]
    if any(place is None for place in places):
        return product, ((), ())
    extent: PrimExpr = const(1, "int64")
    for row in rows:
        assert row.dom is not None
        extent = extent * row.dom.extent.astype("int64")
    extent = simplify(extent)
    names: tuple[tuple[Var, PrimExpr], ...] = ()
    if not isinstance(extent, (IntImm, Var)):
        count = Var("rows", "int64")
        mark_nonnegative(count)
        names, extent = ((count, extent),), count
    merged = IterVar(Range.from_min_extent(const(0, "int64"), extent), Var("row", "int64"))
    views: dict[Buffer, Buffer] = {}
    left = _merged(product.lhs.buffer, product.lhs.indices, places[0], len(rows), merged, views)
    out = _merged(product.out.buffer, product.out.indices, places[1], len(rows), merged, views)
    changed = replace(
        product,
        lhs=BufferLoad(*left),
        out=product.out.replace(buffer=out[0], indices=out[1]),
        rows=(merged,),
    )
    return changed, (tuple(views.values()), names)


def _places(indices: tuple[PrimExpr, ...], rows: tuple[IterVar, ...]) -> int | None:
    """The dimension from which on the variables of rows are the indices, in their order; None if they are not."""
    first = next((d for d, index in enumerate(indices) if index is rows[0].var), None)
    if first is None:
        return None
    there = indices[first : first + len(rows)]
    same = len(there) == len(rows) and all(i is v.var for i, v in zip(there, rows, strict=True))
    return first if same else None


def _merged(
    buffer: Buffer,
    indices: tuple[PrimExpr, ...],
    first: int | None,
    count: int,
    row: IterVar,
    views: dict[Buffer, Buffer],
) -> tuple[Buffer, tuple[PrimExpr, ...]]:
    """A view of a compact buffer in which the dimensions of the rows are one, and its indices."""
    assert first is not None
    assert row.dom is not None
    behind = first + count
    shape = (*buffer.shape[:first], row.dom.extent, *buffer.shape[behind:])
    view = views.get(buffer)
    if view is None:
        view = views[buffer] = decl_buffer(shape, str(buffer.dtype), f"{buffer.name}_rows", data=buffer.data)
    return view, (*indices[:first], row.var, *indices[behind:])


__all__ = [
    "Contraction", "Nest", "contraction_of", "plain", "rewritten_nests", "sum_of_products", "with_merged_rows",
    "with_root",
]  # fmt: skip
