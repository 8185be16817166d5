"""The walkers under the names, and with the decorators, that TVM's users write."""

from __future__ import annotations

from .visitor import ExprFunctor, ExprMutator, ExprVisitor, PyExprMutator, PyExprVisitor, mutator, visitor

__all__ = [
    "ExprFunctor",
    "ExprMutator",
    "ExprVisitor",
    "PyExprMutator",
    "PyExprVisitor",
    "mutator",
    "visitor",
]
