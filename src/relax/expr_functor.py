"""The walkers under the names, and with the decorators, that TVM's users write."""

from __future__ import annotations

from typing import Any

from .expr import DataflowVar
from .ir import RelaxExpr
from .rewrite.visitor import VISITS, ExprMutator, ExprVisitor, PyExprMutator, PyExprVisitor, mutator, visitor


class ExprFunctor:
    """Calls the method for the class of an expression, and returns its result; a class without one is an error.

    Define ``visit_call_``, ``visit_var_`` and so on; ``visit_var_`` is also asked for dataflow variables unless there
    is a ``visit_dataflow_var_``.
    """

    def visit_expr(self, expr: RelaxExpr) -> Any:
        """Visit any expression, by its class. Raises NotImplementedError for a class that has no method."""
        name = VISITS.get(type(expr), f"method for {type(expr).__name__}")
        method = getattr(self, name, None)
        if method is None and isinstance(expr, DataflowVar):
            method = getattr(self, "visit_var_", None)
        if method is None:
            raise NotImplementedError(f"{type(self).__name__} has no {name}")
        return method(expr)


__all__ = ["ExprFunctor", "ExprMutator", "ExprVisitor", "PyExprMutator", "PyExprVisitor", "mutator", "visitor"]
