"""Results of a convolution, as the statement behind it in the same function changes them.

    C[n, co, h, w] = …                                          E[n, co, h, w] = max(… + bias[co], 0)
    for n, co, h, w in T.grid(…):                       gives
        E[n, co, h, w] = max(C[n, co, h, w] + bias[co], 0)
"""

from __future__ import annotations

from collections.abc import Sequence

from ...prim import PrimExpr, Var
from ...tir import Buffer, BufferLoad, BufferStore, Stmt
from ...tir.functor import StmtExprMutator, substitute
from .windows import Kernel


class Results:
    """Where results go: an element of the convolution, as the kernel's epilogue changes it."""

    def __init__(self, kernel: Kernel) -> None:
        self.windows = kernel.windows
        self.store = kernel.windows.out
        self._sum = self.store.buffer
        if kernel.epilogue is not None:
            self.store = kernel.epilogue.stores[0]
        self._epilogue = kernel.epilogue

    def put(self, place: Sequence[PrimExpr], value: PrimExpr) -> Stmt:
        """Store the element at a place of the result, of which `value` is the sum."""
        if self._epilogue is None:
            return BufferStore(self.store.buffer, value, tuple(place))
        at = {index: p for index, p in zip(self.store.indices, place, strict=True) if isinstance(index, Var)}
        changed = substitute(_Replaced(self._sum, value).visit(self.store.value), at)
        return BufferStore(self.store.buffer, changed, tuple(place))


class _Replaced(StmtExprMutator):
    """Loads of one buffer become a value."""

    def __init__(self, buffer: Buffer, value: PrimExpr) -> None:
        super().__init__()
        self.buffer, self.value = buffer, value

    def visit_BufferLoad(self, node: BufferLoad) -> PrimExpr:
        return self.value if node.buffer is self.buffer else self.visit_children(node)


__all__ = ["Results"]
