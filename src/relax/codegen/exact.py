"""Arithmetic of sizes: what leaves 64 bits is an error, not a small size."""

from __future__ import annotations

from ..native.formula import Val
from ..prim import PrimExpr
from .context import Context, escaped


def exact(cx: Context, op: str, a: Val, b: Val, expr: PrimExpr) -> Val:
    """The sum, difference or product (``add``, ``sub``, ``mul``) of two int64, as `expr` has it."""
    both = "{ i64, i1 }"
    function = a.b.module.intrinsic(f"llvm.s{op}.with.overflow.i64", both, "i64", "i64")
    pair = a.b.op(f"call {both} {function}(i64 {a.ref}, i64 {b.ref})")
    fits = a.make(f"extractvalue {both} {pair}, 1", "i1") ^ 1
    require_fits(cx, fits, expr)
    return a.make(f"extractvalue {both} {pair}, 0")


def require_fits(cx: Context, fits: Val, expr: PrimExpr) -> None:
    """Leave with an error unless the value of `expr` fits into 64 bits."""
    cx.fail_unless(fits, "OverflowError", f"a size does not fit into 64 bits: {escaped(str(expr))}")
