"""Values without bindings inside, and with names for the elements they read.

    Y[i] = T.Select(X[i] < 0, X[i] * a[j], X[i])        x = X[i]
                                                        Y[i] = T.Select(x < 0, x * a[j], x)

In vectors, what is read under a condition is read under a mask, and what depends on it is computed for each condition
again. So an element has a name if it is read in any case (X[i]), or if reading it cannot fail.
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
    """Names for values that statements have in common; they are bound around all of them."""

    def __init__(self, is_safe: Callable[[BufferLoad], bool] = lambda load: False) -> None:
        self.bindings: list[Binding] = []
        """In the order in which they must be bound."""
        self._loads: list[tuple[BufferLoad, Var]] = []
        self._is_safe = is_safe

    def stmt(self, stmt: Stmt, own: Collection[Buffer] = ()) -> Stmt:
        """A statement with the names in it; elements of the buffers `own` get none."""
        changed = _Naming(self, own).visit(stmt)
        return _Known(self).visit(changed) if self._loads else changed

    def value(self, value: PrimExpr, own: Collection[Buffer] = ()) -> PrimExpr:
        """A value with the names in it."""
        changed = _Naming(self, own).visit(value)
        return _Known(self).visit(changed) if self._loads else changed

    def name_of(self, load: BufferLoad) -> Var | None:
        """The name of an equal element."""
        for other, var in self._loads:
            if load is other or (load.buffer is other.buffer and structural_equal(load, other)):
                return var
        return None

    def named(self, load: BufferLoad, in_any_case: bool) -> PrimExpr:
        """The name of an element, a new one if it may have one; else the load."""
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
    """Gives names to what is evaluated in any case, and to what is safe to evaluate."""

    def __init__(self, names: Names, own: Collection[Buffer]) -> None:
        super().__init__()
        self.names, self.own = names, own
        self.in_any_case = True
        self.inner: set[Var] = set()
        """Variables that are bound inside of the statement: what uses them cannot be bound around it."""

    def sometimes(self, node: Any) -> Any:
        """The rewrite of what is evaluated under a condition."""
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
    """Puts names in the place of elements that have one."""

    def __init__(self, names: Names) -> None:
        super().__init__()
        self.names = names

    def visit_BufferLoad(self, node: BufferLoad) -> PrimExpr:
        node = self.visit_children(node)
        var = self.names.name_of(node)
        return node if var is None else var


__all__ = ["Binding", "Names", "bound"]
