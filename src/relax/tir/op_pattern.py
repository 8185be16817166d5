"""Fusion patterns of kernels, derived from the structure of their loop nests and never from names.

    ELEMWISE               B[i, j] = f(A[i, j])               an operand is read at the indices of the result
    BROADCAST              B[i, j] = f(A[j])                 operands are read at some indices of the result, in order
    INJECTIVE              B[i, j] = f(A[j, i // 2])          operands are read at any function of the indices
    COMM_REDUCE            B[i] += A[i, k]                    each element of the operands is combined once
    OUT_ELEMWISE_FUSABLE   C[i, j] += A[i, k] * B[k, j]       elements are reused; softmax, pooling
    TUPLE                                                     for Relax tuples, not for kernels
    OPAQUE                                                    anything else

A kernel of several nests has the greatest pattern among them. One with several reductions, or with nests after a
reduction that are not elementwise, is OUT_ELEMWISE_FUSABLE. A kernel that changes its inputs, or has several outputs
and a reduction, is OPAQUE.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence

from ..prim import Analyzer, PrimExpr, Var, free_vars, is_const
from .buffer import Buffer
from .nests import Nest, is_compact, nest_of, root_of
from .stmt import PrimFunc
from .written import written_params


class OpPatternKind(enum.IntEnum):
    """Fusion patterns, from the most to the least fusable. The numbers are TVM's."""

    ELEMWISE = 0
    BROADCAST = 1
    INJECTIVE = 2
    COMM_REDUCE = 3
    OUT_ELEMWISE_FUSABLE = 4
    TUPLE = 7
    OPAQUE = 8


def op_pattern(func: PrimFunc) -> OpPatternKind:
    """Return the pattern of a kernel, as the module's docstring defines it."""
    allocated, statements = root_of(func)
    nests: list[Nest] = []
    for statement in statements:
        nest = nest_of(statement)
        if nest is None:
            return OpPatternKind.OPAQUE
        nests.append(nest)
    outputs = _outputs(func)
    if not nests or not outputs or not _is_single_assignment(nests, set(outputs) | set(allocated)):
        return OpPatternKind.OPAQUE
    if not all(map(is_compact, (*func.buffer_map.values(), *allocated))):
        return OpPatternKind.OPAQUE
    kind = _combined(nests)
    if len(outputs) > 1 and kind > OpPatternKind.INJECTIVE:
        return OpPatternKind.OPAQUE
    return kind


def _outputs(func: PrimFunc) -> list[Buffer]:
    """Return the buffers that a kernel writes if they are its last tensor parameters, else []."""
    written = written_params(func)
    tensors = [i for i, param in enumerate(func.params) if param in func.buffer_map]
    last = tensors[len(tensors) - len(written) :]
    return [func.buffer_map[func.params[i]] for i in last] if set(last) == set(written) else []


def _is_single_assignment(nests: Sequence[Nest], writable: set[Buffer]) -> bool:
    """True if each writable buffer is written by exactly one nest, before it is read."""
    written: set[Buffer] = set()
    for nest in nests:
        if any(load.buffer in writable and load.buffer not in written for load in nest.loads()):
            return False
        stored = {store.buffer for store in nest.stores}
        if stored & written or not stored <= writable:
            return False
        written |= stored
    return written == writable


def _combined(nests: Sequence[Nest]) -> OpPatternKind:
    """Return the pattern of a sequence of nests."""
    kind, reductions = OpPatternKind.ELEMWISE, 0
    for nest in nests:
        own = _kind_of(nest)
        reductions += nest.is_reduction
        if reductions and not nest.is_reduction and own > OpPatternKind.ELEMWISE:
            own = OpPatternKind.OUT_ELEMWISE_FUSABLE
        kind = max(kind, own)
    return OpPatternKind.OUT_ELEMWISE_FUSABLE if reductions > 1 else kind


def _kind_of(nest: Nest) -> OpPatternKind:
    analyzer = nest.analyzer()
    if nest.is_reduction:
        return _reduction_kind(nest, analyzer)
    store = nest.stores[0]
    stored = _indices(store.indices, analyzer)
    kinds = {_access_kind(_indices(load.indices, analyzer), stored) for load in nest.loads()}
    if not kinds:
        return OpPatternKind.ELEMWISE
    # One operand of full rank is enough: A[i, j] + B[j] is elementwise in A.
    if OpPatternKind.ELEMWISE in kinds:
        kinds.discard(OpPatternKind.BROADCAST)
    return max(kinds)


def _indices(indices: Sequence[PrimExpr], analyzer: Analyzer) -> tuple[PrimExpr, ...]:
    return tuple(analyzer.simplify(index) for index in indices)


def _access_kind(read: tuple[PrimExpr, ...], stored: tuple[PrimExpr, ...]) -> OpPatternKind:
    """Return the pattern of a load with indices `read` in a store with indices `stored`."""
    same = len(read) == len(stored) and all(
        a is b or (is_const(a, 0) and is_const(b, 0)) for a, b in zip(read, stored, strict=True)
    )
    if same:
        return OpPatternKind.ELEMWISE
    positions = [stored.index(i) if i in stored else -1 for i in read if not is_const(i, 0)]
    if -1 not in positions and positions == sorted(set(positions)):
        return OpPatternKind.BROADCAST
    return OpPatternKind.INJECTIVE


def _reduction_kind(nest: Nest, analyzer: Analyzer) -> OpPatternKind:
    """Return the pattern of a reduction: a load that does not depend on some spatial variable reuses elements.

    A variable with a single value, such as a kept dimension, causes no reuse.
    """
    spatial: set[Var] = set()
    domains = ((v.var, v.dom) for v in nest.block.iter_vars)
    single = {var for var, dom in domains if dom is not None and is_const(analyzer.simplify(dom.extent), 1)}
    for store in nest.stores:
        for index in _indices(store.indices, analyzer):
            if isinstance(index, Var):
                spatial.add(index)
            elif free_vars(index):
                return OpPatternKind.OPAQUE
    for load in nest.loads():
        read = _indices(load.indices, analyzer)
        bare = [index for index in read if isinstance(index, Var)]
        if not spatial <= {*bare, *single} or len(bare) + sum(is_const(i) for i in read) < len(read):
            return OpPatternKind.OUT_ELEMWISE_FUSABLE
    return OpPatternKind.COMM_REDUCE
