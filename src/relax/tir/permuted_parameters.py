"""Permute the dimensions of a kernel's parameters.

    X: T.Buffer((n, c, h, w))               X: T.Buffer((n, h, w, c))
    … X[v_n, v_c, v_h, v_w] …               … X[v_n, v_h, v_w, v_c] …

    after with_permuted_parameters(func, {X: (0, 2, 3, 1)})

Loops, blocks and the order of computation do not change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from ..prim import PrimExpr, Var
from .buffer import Buffer, BufferLoad, BufferRegion, Range
from .functor import StmtExprMutator
from .stmt import BufferStore, PrimFunc

Axes: TypeAlias = "tuple[int, ...]"
"""Dimension of the old buffer for each dimension of the new one."""
LAST: Axes = (0, 2, 3, 1)
"""Permutation from NCHW to NHWC."""
FIRST: Axes = (0, 3, 1, 2)
"""Permutation from NHWC to NCHW."""


def with_permuted_parameters(func: PrimFunc, axes: Mapping[Buffer, Axes]) -> tuple[PrimFunc, dict[Buffer, Buffer]]:
    """Return the function with permuted buffers for some of its parameters, and a map from old to new buffers."""
    permuted = {
        old: old.replace(data=Var(old.data.name, "handle"), shape=tuple(old.shape[a] for a in order))
        for old, order in axes.items()
    }
    accesses = PermutedAccesses({old: (new, axes[old]) for old, new in permuted.items()})
    buffers = {param: permuted.get(buffer, buffer) for param, buffer in func.buffer_map.items()}
    return func.replace(buffer_map=buffers, body=accesses.visit(func.body)), permuted


class PermutedAccesses(StmtExprMutator):
    """Redirect accesses of buffers to their permuted replacements."""

    def __init__(self, permuted: Mapping[Buffer, tuple[Buffer, Axes]]) -> None:
        super().__init__()
        self.permuted = permuted

    def visit_BufferLoad(self, node: BufferLoad) -> BufferLoad:
        changed = self.visit_children(node)
        if node.buffer not in self.permuted:
            return changed
        new, axes = self.permuted[node.buffer]
        return changed.replace(buffer=new, indices=_in_order(changed.indices, axes))

    def visit_BufferStore(self, node: BufferStore) -> BufferStore:
        changed = self.visit_children(node)
        if node.buffer not in self.permuted:
            return changed
        new, axes = self.permuted[node.buffer]
        return changed.replace(buffer=new, indices=_in_order(changed.indices, axes))

    def visit_BufferRegion(self, node: BufferRegion) -> BufferRegion:
        changed = self.visit_children(node)
        if node.buffer not in self.permuted:
            return changed
        new, axes = self.permuted[node.buffer]
        region: tuple[Range, ...] = tuple(changed.region[a] for a in axes)
        return changed.replace(buffer=new, region=region)


def _in_order(indices: Sequence[PrimExpr], axes: Axes) -> tuple[PrimExpr, ...]:
    return tuple(indices[a] for a in axes)
