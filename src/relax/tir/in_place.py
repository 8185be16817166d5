"""In-place forms of kernels: the output overwrites an input of the same shape.

    for i in range(n):                              for i in range(n):
        with T.block("exp"):                            with T.block("exp"):
            B[v] = T.exp(A[v])              becomes         A[v] = T.exp(A[v])

    for i in range(n): B[i] = A[i]
    for j in range(m): B[I[j]] = U[j]       becomes     for j in range(m): A[I[j]] = U[j]

The first form is elementwise: it stores each element once, and reads only the same element of the input. The second
copies the input and does not read it afterwards: without the copy, it updates the input.
"""

from __future__ import annotations

from ..ir import structural_equal
from ..prim import PrimExpr, Var, is_const
from .buffer import Buffer, BufferLoad
from .functor import substitute
from .nests import buffers_used, is_compact, loads_in, nest_of, root_of, same_size
from .regions import complete_block
from .stmt import BlockRealize, BufferStore, For, ForKind, PrimFunc, SeqStmt, Stmt
from .written import written_params


def in_place(func: PrimFunc, source: int) -> PrimFunc | None:
    """Return the kernel with its output parameter removed and its results written over input `source`; None if that is
    not proved safe.
    """
    written = written_params(func)
    buffers = [func.buffer_map.get(param) for param in func.params]
    if len(written) != 1 or source in written or buffers[source] is None:
        return None
    position = next(iter(written))
    target, old = buffers[position], buffers[source]
    if target is None or old is None or not _alike(target, old):
        return None
    body = func.body if _is_elementwise(func, old, target) else _without_copy(func.body, old, target)
    if body is None:
        return None
    params = tuple(param for i, param in enumerate(func.params) if i != position)
    table = {param: buffer for param, buffer in func.buffer_map.items() if buffer is not target}
    return func.replace(params=params, buffer_map=table, body=substitute(body, {target: old}))


def _alike(a: Buffer, b: Buffer) -> bool:
    """True if two buffers have the same dtype, are compact, and are proved to have the same shape."""
    if a.dtype != b.dtype or len(a.shape) != len(b.shape) or not is_compact(a) or not is_compact(b):
        return False
    return all(same_size(x, y) for x, y in zip(a.shape, b.shape, strict=True))


def _is_elementwise(func: PrimFunc, old: Buffer, target: Buffer) -> bool:
    """True if the kernel is one spatial nest over `target` that reads `old` only at the stored element; other
    statements may only be checks that read no tensor.
    """
    allocated, statements = root_of(func)
    nests = [nest for nest in map(nest_of, statements) if nest is not None]
    other_stmts = [stmt for stmt in statements if all(nest.stmt is not stmt for nest in nests)]
    if allocated or len(nests) != 1 or any(any(buffers_used(stmt)) for stmt in other_stmts):
        return False
    nest = nests[0]
    store = nest.stores[0]
    if nest.is_reduction or store.buffer is not target:
        return False
    loads = [load for load in loads_in(store) if load.buffer.data is old.data]
    return all(load.buffer is old and structural_equal(load.indices, store.indices) for load in loads)


def _without_copy(body: Stmt, old: Buffer, target: Buffer) -> Stmt | None:
    """Return the body without its initial copy of `old` to `target`; None if it has none or uses `old` afterwards."""
    match body:
        case BlockRealize((), predicate, block) if is_const(predicate, 1) and block.init is None:
            rest = _without_copy(block.body, old, target)
            if rest is None:
                return None
            new = block.replace(body=substitute(rest, {target: old}))
            if block.reads or block.writes:
                new = complete_block(new)
            return body.replace(block=new)
        case SeqStmt((first, *rest)) if rest and _copies(first, old, target):
            remaining = rest[0] if len(rest) == 1 else SeqStmt(tuple(rest))
            return None if any(old.data in used for used in buffers_used(remaining)) else remaining
        case _:
            return None


def _copies(stmt: Stmt, old: Buffer, target: Buffer) -> bool:
    """True if a statement copies each element of `old` to the same indices of `target`."""
    extents: dict[Var, PrimExpr] = {}
    while isinstance(stmt, For) and stmt.kind is ForKind.SERIAL and is_const(stmt.min, 0):
        extents[stmt.loop_var] = stmt.extent
        stmt = stmt.body
    if not isinstance(stmt, BufferStore) or stmt.buffer is not target or stmt.predicate is not None:
        return False
    value = stmt.value
    if not isinstance(value, BufferLoad) or value.buffer is not old:
        return False
    if not structural_equal(value.indices, stmt.indices):
        return False
    for index, size in zip(stmt.indices, target.shape, strict=True):
        extent = extents.pop(index, None) if isinstance(index, Var) else None
        if extent is None or not same_size(extent, size):
            return False
    return not extents
