"""TVM's name for the questions about scalar expressions and PrimFuncs."""

from __future__ import annotations

from ..ir import structural_equal
from ..prim import PrimExpr
from .usage import undefined_vars
from .well_formed import verify_well_formed


def expr_deep_equal(lhs: PrimExpr, rhs: PrimExpr) -> bool:
    """True if two expressions are the same, over the same variables."""
    return structural_equal(lhs, rhs)


__all__ = ["expr_deep_equal", "undefined_vars", "verify_well_formed"]
