"""The kind of a kernel for fusion, from the structure of its loop nests and never from its name.

    ELEMWISE               B[i, j] = f(A[i, j])               an operand is read where the result is written
    BROADCAST              B[i, j] = f(A[j])                 operands are read at some indices of the result, in order
    INJECTIVE              B[i, j] = f(A[j, i // 2])          operands are read anywhere that the indices tell
    COMM_REDUCE            B[i] += A[i, k]                    each element of the operands is combined once
    OUT_ELEMWISE_FUSABLE   C[i, j] += A[i, k] * B[k, j]       elements are combined several times; softmax, pooling
    TUPLE                                                     of Relax tuples, not of kernels
    OPAQUE                                                    anything else

A kernel of several nests is of the greatest kind among them. One with several reductions, or whose reduction is
followed by more than elementwise nests, is OUT_ELEMWISE_FUSABLE. A kernel that changes its inputs, or has several
outputs and a reduction, is OPAQUE.
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
    """Kinds of kernels, from the most to the least fusable. The numbers are TVM's."""

    ELEMWISE = 0
    BROADCAST = 1
    INJECTIVE = 2
    COMM_REDUCE = 3
    OUT_ELEMWISE_FUSABLE = 4
    TUPLE = 7
    OPAQUE = 8


def op_pattern(func: PrimFunc) -> OpPatternKind:
    """The kind of a kernel; see the module's docstring."""
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
    """The buffers that a kernel writes: its last tensor parameters. Empty if it writes others."""
    written = written_params(func)
    tensors = [i for i, param in enumerate(func.params) if param in func.buffer_map]
    last = tensors[len(tensors) - len(written) :]
    return [func.buffer_map[func.params[i]] for i in last] if set(last) == set(written) else []


def _is_single_assignment(nests: Sequence[Nest], writable: set[Buffer]) -> bool:
    """True if each buffer is written by one nest, all that may be are, and none is read before."""
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
    """The kind of nests that follow each other."""
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
    place = _indices(store.indices, analyzer)
    kinds = {_access_kind(_indices(load.indices, analyzer), place) for load in nest.loads()}
    if not kinds:
        return OpPatternKind.ELEMWISE
    # One operand of full rank is enough: A[i, j] + B[j] is elementwise in A.
    if OpPatternKind.ELEMWISE in kinds:
        kinds.discard(OpPatternKind.BROADCAST)
    return max(kinds)


def _indices(indices: Sequence[PrimExpr], analyzer: Analyzer) -> tuple[PrimExpr, ...]:
    return tuple(analyzer.simplify(index) for index in indices)


def _access_kind(read: tuple[PrimExpr, ...], place: tuple[PrimExpr, ...]) -> OpPatternKind:
    """The kind of a load at some indices in a store at others."""
    same = len(read) == len(place) and all(
        a is b or (is_const(a, 0) and is_const(b, 0)) for a, b in zip(read, place, strict=True)
    )
    if same:
        return OpPatternKind.ELEMWISE
    positions = [place.index(i) if i in place else -1 for i in read if not is_const(i, 0)]
    if -1 not in positions and positions == sorted(set(positions)):
        return OpPatternKind.BROADCAST
    return OpPatternKind.INJECTIVE


def _reduction_kind(nest: Nest, analyzer: Analyzer) -> OpPatternKind:
    """The kind of a reduction: each load that some spatial variable does not reach is repeated.

    A variable with one value, as of a dimension that is kept, repeats nothing.
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


__all__ = ["OpPatternKind", "op_pattern"]
