"""Recognising products: C[batch, m, n] = Σ_k A[batch, m, k] · B[batch, k, n], whatever the order of the indices.

An index variable that A, B and C have is of the batch, one that A and C have of the rows, one that B and C have of the
columns, and that of the reduction is in A and B. The operand that has the last index of the result stands as B.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..prim import Add, IntImm, Mul, PrimExpr, Var, is_const
from ..tir import Block, BlockRealize, Buffer, BufferLoad, BufferStore, For, ForKind, IterVar, PrimFunc, Stmt


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


def perfect_nest(func: PrimFunc) -> tuple[list[For], BlockRealize] | None:
    """The loops and the block of a function that consists of nothing else; None for another one."""
    stmt: Stmt = func.body
    if isinstance(stmt, BlockRealize) and not stmt.block.iter_vars and not stmt.block.alloc_buffers:
        stmt = stmt.block.body
    loops: list[For] = []
    while isinstance(stmt, For):
        if stmt.kind is not ForKind.SERIAL or stmt.annotations or not is_const(stmt.min, 0):
            return None
        loops.append(stmt)
        stmt = stmt.body
    if not isinstance(stmt, BlockRealize) or not is_const(stmt.predicate, 1):
        return None
    block = stmt.block
    own = block.alloc_buffers or block.match_buffers or block.annotations
    return None if own or not _walks_domain(stmt, loops) else (loops, stmt)


def _walks_domain(realize: BlockRealize, loops: list[For]) -> bool:
    """True if each variable of the block is one loop, and runs over its whole domain."""
    loop_vars = {loop.loop_var: loop for loop in loops}
    for iter_var, value in zip(realize.block.iter_vars, realize.iter_values, strict=True):
        if iter_var.dom is None or not is_const(iter_var.dom.min, 0):
            return False
        if isinstance(value, Var) and value in loop_vars:
            if not _same(loop_vars.pop(value).extent, iter_var.dom.extent):
                return False
        elif not (is_const(value, 0) and is_const(iter_var.dom.extent, 1)):
            return False
    return all(is_const(loop.extent, 1) for loop in loop_vars.values())


def _same(a: PrimExpr, b: PrimExpr) -> bool:
    return a is b or (isinstance(a, IntImm) and isinstance(b, IntImm) and a.value == b.value)


def contraction_of(func: PrimFunc) -> Contraction | None:
    """The product that a function computes, if that is all it does."""
    nest = perfect_nest(func)
    if nest is None:
        return None
    block = nest[1].block
    store, init = block.body, block.init
    if (
        not isinstance(store, BufferStore)
        or not isinstance(init, BufferStore)
        or init.buffer is not store.buffer
    ):
        return None
    factors = _factors(store)
    if (
        factors is None
        or not _plain(store.buffer, init.indices, block)
        or not _equal(init.indices, store.indices)
    ):
        return None
    return _classified(store, init.value, factors, block)


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


def _plain(buffer: Buffer, indices: tuple[PrimExpr, ...], block: Block) -> bool:
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
    if not _plain(a.buffer, a.indices, block) or not _plain(b.buffer, b.indices, block):
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


__all__ = ["Contraction", "contraction_of", "perfect_nest"]
