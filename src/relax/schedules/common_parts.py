"""Hoist subexpressions of a value that are equal for many elements, so that a rule computes them once.

value       (total - mean[c]) * (1 / sqrt(var[c] + 1e-5)) + x[c, p]
becomes     (total - common) * common_1 + x[c, p]           for elements that differ in `p` and `total`
"""

from __future__ import annotations

from collections.abc import Sequence

from ..ir import Node
from ..prim import And, Call, IntImm, Let, Or, PrimExpr, Select, Var
from ..prim.intrin import is_pure
from ..prim.traits import has_effects
from ..tir import Buffer, BufferLoad
from ..tir.functor import StmtExprMutator
from ..tir.nests import loads_in
from ..tir.usage import free_vars


class CommonParts(StmtExprMutator):
    """Replace the largest invariant subexpressions that read memory by names.

    Excluded are subexpressions that read the buffer of the result and conditional operands, which may fail elsewhere.
    """

    def __init__(self, varying: Sequence[Var], buffer: Buffer | None = None) -> None:
        super().__init__()
        self._varying, self._buffer = {id(var) for var in varying}, buffer
        self.values: list[tuple[Var, PrimExpr]] = []
        """The names and the subexpressions they stand for."""

    def visit_default(self, node: Node) -> Node:
        if not isinstance(node, PrimExpr):
            return self.visit_children(node)
        if self._is_common(node):
            name = Var("common", node.dtype)
            self.values.append((name, node))
            return name
        if isinstance(node, Let):
            self._varying.add(id(node.var))  # names are bound outside of the Let
        is_choice = isinstance(node, (And, Or, Select))
        if isinstance(node, Call):
            is_choice = node.intrinsic == "if_then_else" or not is_pure(node)
        return node if is_choice else self.visit_children(node)

    def _is_common(self, node: PrimExpr) -> bool:
        loads = loads_in(node)
        if not loads or has_effects(node) or any(load.buffer is self._buffer for load in loads):
            return False
        if not all(map(_is_inside, loads)):
            return False
        return not any(id(var) in self._varying for var in free_vars(node))


def _is_inside(load: BufferLoad) -> bool:
    """True unless the load reads a fixed index of a dynamic dimension, which may be out of bounds."""
    pairs = zip(load.indices, load.buffer.shape, strict=True)
    return all(isinstance(index, Var) or isinstance(size, IntImm) for index, size in pairs)
