"""TVM's name for the functions and classes that walk and rewrite statements; they are defined in `functor`."""

from __future__ import annotations

from .functor import StmtExprMutator, StmtExprVisitor, ir_transform, post_order_visit, pre_order_visit, substitute
from .py_functor import PyStmtExprMutator, PyStmtExprVisitor, mutator, visitor
from .renew import renew_bound_vars as renew_defs

__all__ = [
    "PyStmtExprMutator",
    "PyStmtExprVisitor",
    "StmtExprMutator",
    "StmtExprVisitor",
    "ir_transform",
    "mutator",
    "post_order_visit",
    "pre_order_visit",
    "renew_defs",
    "substitute",
    "visitor",
]
