"""Kernels that copy their elements in order: reshapes."""

from __future__ import annotations

from ..prim import IntImm, PrimExpr, const, is_const, substitute
from ..prim import Var as PrimVar
from ..prim.analyzer import Analyzer
from ..prim.expr import INT64, cast
from .buffer import Buffer, BufferLoad, Range
from .stmt import BlockRealize, BufferStore, For, PrimFunc, Stmt


def is_flat_copy(func: PrimFunc) -> bool:
    """True if a PrimFunc of one input and one output is proved to copy element by element, in flat order."""
    buffers = [func.buffer_map[param] for param in func.params if param in func.buffer_map]
    if len(buffers) != 2 or buffers[0].dtype != buffers[1].dtype or not all(map(is_compact, buffers)):
        return False
    loops: dict[PrimVar, PrimExpr] = {}
    store = innermost_store(func.body, loops)
    if store is None or store.buffer is not buffers[1] or not isinstance(store.value, BufferLoad):
        return False
    if store.value.buffer is not buffers[0]:
        return False
    analyzer = Analyzer()
    for var, extent in loops.items():
        analyzer.bind(var, Range.from_min_extent(const(0, var.dtype), extent))
    # Where positions are equal, all of one side is all of the other.
    accesses = ((store.buffer, store.indices), (store.value.buffer, store.value.indices))
    if not any(covers(buffer, indices, loops, analyzer) for buffer, indices in accesses):
        return False
    source, result = (element_count(buffer) for buffer in buffers)
    if not Analyzer().can_prove_equal(source, result):  # also where a loop does not run, which `analyzer` excludes
        return False
    written, read = (flat_index(buffer, indices) for buffer, indices in accesses)
    return analyzer.can_prove_equal(written, read)


def is_compact(buffer: Buffer) -> bool:
    """True if a buffer is row-major from its pointer on."""
    offset = buffer.elem_offset
    return not buffer.strides and (offset is None or is_const(offset, 0))


def innermost_store(stmt: Stmt, loops: dict[PrimVar, PrimExpr]) -> BufferStore | None:
    """The one store of a perfect nest of loops, in terms of the loop variables; None if there is more to it."""
    match stmt:
        case For(loop_var, low, extent) if is_const(low, 0):
            loops[loop_var] = extent
            return innermost_store(stmt.body, loops)
        case BlockRealize(iter_values, predicate, block) if is_const(predicate, 1):
            if block.init is not None or block.alloc_buffers or block.match_buffers:
                return None
            store = innermost_store(block.body, loops)
            if store is None:
                return None
            table = {i.var: v for i, v in zip(block.iter_vars, iter_values, strict=True)}
            value, indices = substitute(store.value, table), substitute(store.indices, table)
            return BufferStore(store.buffer, value, indices)
        case BufferStore(predicate=None):
            return stmt
        case _:
            return None


def covers(buffer: Buffer, indices: tuple[PrimExpr, ...], loops: dict[PrimVar, PrimExpr], analyzer: Analyzer) -> bool:
    """True if accesses reach every element once: each index is a loop variable of its own, over the whole size."""
    varying = [index for index in indices if not is_const(index, 0)]
    used = [index for index in varying if isinstance(index, PrimVar)]
    if len(used) < len(varying) or len(set(used)) < len(used):
        return False
    for index, size in zip(indices, buffer.shape, strict=True):
        extent = loops.get(index) if isinstance(index, PrimVar) else const(1, "int64")
        if extent is None or not analyzer.can_prove_equal(cast(INT64, extent), cast(INT64, size)):
            return False
    rest = [extent for var, extent in loops.items() if var not in used]
    return all(isinstance(extent, IntImm) and extent.value == 1 for extent in rest)


def element_count(buffer: Buffer) -> PrimExpr:
    """The number of elements of a buffer."""
    count: PrimExpr = const(1, "int64")
    for size in buffer.shape:
        count = count * cast(INT64, size)
    return count


def flat_index(buffer: Buffer, indices: tuple[PrimExpr, ...]) -> PrimExpr:
    """The position of an element, counted in row-major order."""
    position: PrimExpr = const(0, "int64")
    for index, size in zip(indices, buffer.shape, strict=True):
        position = position * cast(INT64, size) + cast(INT64, index)
    return position
