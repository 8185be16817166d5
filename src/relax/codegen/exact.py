"""Size arithmetic: overflow of 64 bits is an error and does not wrap around."""

from __future__ import annotations

from ..native.formula import Val
from ..prim import PrimExpr
from .context import Context, escaped


def exact(cx: Context, op: str, a: Val, b: Val, expr: PrimExpr) -> Val:
    """Sum, difference or product (``add``, ``sub``, ``mul``) of two int64; overflow is an error about `expr`."""
    both = "{ i64, i1 }"
    function = a.b.module.intrinsic(f"llvm.s{op}.with.overflow.i64", both, "i64", "i64")
    pair = a.b.op(f"call {both} {function}(i64 {a.ref}, i64 {b.ref})")
    fits = a.make(f"extractvalue {both} {pair}, 1", "i1") ^ 1
    require_fits(cx, fits, expr)
    return a.make(f"extractvalue {both} {pair}, 0")


def require_fits(cx: Context, fits: Val, expr: PrimExpr) -> None:
    """Raise OverflowError at run time unless `fits` holds; the message names `expr`."""
    cx.fail_unless(fits, "OverflowError", f"a size does not fit into 64 bits: {escaped(str(expr))}")
