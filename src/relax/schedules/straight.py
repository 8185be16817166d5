"""Straight-line values: no inner bindings, and names for the elements they read.

    Y[i] = T.Select(X[i] < 0, X[i] * a[j], X[i])        x = X[i]
                                                        Y[i] = T.Select(x < 0, x * a[j], x)

In vectorised code, conditional reads become masked loads, and dependent values are recomputed for each condition. So an
element gets a name if it is read unconditionally (X[i]) or if reading it cannot fail.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from ..ir import structural_equal
from ..prim import And, Call, Let, Or, PrimExpr, Select, Var, free_vars
from ..tir import Buffer, BufferLoad, BufferStore, IfThenElse, LetStmt, Stmt
from ..tir.functor import StmtExprMutator

Binding = tuple[Var, PrimExpr]


class Names:
    """Collects names for common values, to be bound around all statements that use them."""

    def __init__(self, is_safe: Callable[[BufferLoad], bool] = lambda load: False) -> None:
        self.bindings: list[Binding] = []
        """Bindings in the order in which they must be made."""
        self._loads: list[tuple[BufferLoad, Var]] = []
        self._is_safe = is_safe

    def stmt(self, stmt: Stmt, own: Collection[Buffer] = ()) -> Stmt:
        """Return the statement with names for the elements it reads, except those of the buffers `own`."""
        changed = _Naming(self, own).visit(stmt)
        return _Known(self).visit(changed) if self._loads else changed

    def value(self, value: PrimExpr, own: Collection[Buffer] = ()) -> PrimExpr:
        """Return the value with names for the elements it reads, except those of the buffers `own`."""
        changed = _Naming(self, own).visit(value)
        return _Known(self).visit(changed) if self._loads else changed

    def name_of(self, load: BufferLoad) -> Var | None:
        """Return the name of an equal load, or None."""
        for other, var in self._loads:
            if load is other or (load.buffer is other.buffer and structural_equal(load, other)):
                return var
        return None

    def named(self, load: BufferLoad, in_any_case: bool) -> PrimExpr:
        """Return the name of a load, creating it if the load may be executed unconditionally; else return the load."""
        var = self.name_of(load)
        if var is None and (in_any_case or self._is_safe(load)):
            var = Var(load.buffer.name.lower(), load.dtype)
            self._loads.append((load, var))
            self.bindings.append((var, load))
        return load if var is None else var


def bound(bindings: list[Binding], body: Stmt) -> Stmt:
    """A statement inside of bindings."""
    for var, value in reversed(bindings):
        body = LetStmt(var, value, body)
    return body


class _Naming(StmtExprMutator):
    """Names loads that are evaluated unconditionally or that cannot fail."""

    def __init__(self, names: Names, own: Collection[Buffer]) -> None:
        super().__init__()
        self.names, self.own = names, own
        self.in_any_case = True
        self.inner: set[Var] = set()
        """Variables bound inside the statement; values that use them cannot be hoisted."""

    def sometimes(self, node: Any) -> Any:
        """Rewrite a conditionally evaluated operand."""
        outside, self.in_any_case = self.in_any_case, False
        try:
            return self.visit(node)
        finally:
            self.in_any_case = outside

    def visit_BufferLoad(self, node: BufferLoad) -> PrimExpr:
        node = self.visit_children(node)
        if node.buffer in self.own or self.inner.intersection(free_vars(node)):
            return node
        return self.names.named(node, self.in_any_case)

    def visit_Let(self, node: Let) -> PrimExpr:
        if not self.in_any_case or self.inner.intersection(free_vars(node.value)):
            self.inner.add(node.var)
            return self.visit_children(node)
        self.names.bindings.append((node.var, self.visit(node.value)))
        return self.visit(node.body)

    def visit_LetStmt(self, node: LetStmt) -> LetStmt:
        value = self.visit(node.value)
        self.inner.add(node.var)
        return node.replace(value=value, body=self.visit(node.body))

    def visit_IfThenElse(self, node: IfThenElse) -> IfThenElse:
        condition = self.visit(node.condition)
        other = None if node.else_case is None else self.sometimes(node.else_case)
        return node.replace(condition=condition, then_case=self.sometimes(node.then_case), else_case=other)

    def visit_BufferStore(self, node: BufferStore) -> BufferStore:
        return node.replace(value=self.visit(node.value))

    def visit_Select(self, node: Select) -> Select:
        return node.replace(
            condition=self.visit(node.condition),
            true_value=self.sometimes(node.true_value),
            false_value=self.sometimes(node.false_value),
        )

    def visit_Call(self, node: Call) -> Call:
        if node.intrinsic != "if_then_else":
            return self.visit_children(node)
        condition, *branches = node.args
        return node.replace(args=(self.visit(condition), *map(self.sometimes, branches)))

    def visit_And(self, node: And) -> And:
        return node.replace(a=self.visit(node.a), b=self.sometimes(node.b))

    def visit_Or(self, node: Or) -> Or:
        return node.replace(a=self.visit(node.a), b=self.sometimes(node.b))


class _Known(StmtExprMutator):
    """Replaces named loads by their names."""

    def __init__(self, names: Names) -> None:
        super().__init__()
        self.names = names

    def visit_BufferLoad(self, node: BufferLoad) -> PrimExpr:
        node = self.visit_children(node)
        var = self.names.name_of(node)
        return node if var is None else var
