"""Hoist loop-invariant values out of a loop.

    for k in T.vectorized(768):                               s = S[0]
        a = A[i, k]                                           c = 1 / T.sqrt(s / 768 + 1e-05)
        s = S[0]                                              for k in T.vectorized(768):
        Y[i, k] = a * (1 / T.sqrt(s / 768 + 1e-05))               a = A[i, k]
                                                                  Y[i, k] = a * c

Vectorised kernels are compiled unchanged: LLVM hoists nothing out of their loops. Values that may fail stay in the
loop, unless the caller says that they cannot; so do values that cost next to nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from ..ir import Node, structural_equal
from ..prim import Let, PrimExpr, Var, free_vars
from ..prim.traits import cost, may_fail
from ..tir import BufferLoad, LetStmt
from ..tir.functor import StmtExprMutator
from .straight import Binding

_NodeT = TypeVar("_NodeT", bound=Node)


class Invariants:
    """Collects names for values that do not depend on given variables, to be bound before the loops over these."""

    def __init__(self, varying: Iterable[Var], is_safe: Callable[[BufferLoad], bool]) -> None:
        self.varying = set(varying)
        self.bindings: list[Binding] = []
        """Bindings in the order in which they must be made."""
        self._is_safe = is_safe

    def split(self, bindings: Sequence[Binding]) -> list[Binding]:
        """Return the bindings that stay inside the loop; move the others before it."""
        inside: list[Binding] = []
        for var, value in bindings:
            fixed = not self.varying.intersection(free_vars(value))
            safe = self._is_safe(value) if isinstance(value, BufferLoad) else not may_fail(value)
            if fixed and safe:
                self.bindings.append((var, value))
            else:
                inside.append((var, self.named(value)))
                self.varying.add(var)
        return inside

    def named(self, node: _NodeT) -> _NodeT:
        """Replace the loop-invariant values in a statement or value by names."""
        return _Naming(self).visit(node)

    def name_of(self, value: PrimExpr) -> Var | None:
        """Return the name of a loop-invariant value, or None if the value must stay inside the loop."""
        if not value.dtype.is_float or may_fail(value) or cost(value) <= 1:
            return None
        used = free_vars(value)
        if not used or self.varying.intersection(used):
            return None
        for var, other in self.bindings:
            if structural_equal(value, other):
                return var
        var = Var("c", value.dtype)
        self.bindings.append((var, value))
        return var


class _Naming(StmtExprMutator):
    """Replaces the largest invariant subexpressions by their names."""

    def __init__(self, invariants: Invariants) -> None:
        super().__init__()
        self.invariants = invariants

    def visit(self, node: _NodeT) -> _NodeT:  # type: ignore[reportIncompatibleMethodOverride]
        if isinstance(node, PrimExpr):
            name = self.invariants.name_of(node)
            if name is not None:
                return name  # type: ignore[return-value]
        return super().visit(node)

    def visit_Let(self, node: Let) -> PrimExpr:
        self.invariants.varying.add(node.var)
        return self.visit_children(node)

    def visit_LetStmt(self, node: LetStmt) -> LetStmt:
        self.invariants.varying.add(node.var)
        return self.visit_children(node)
