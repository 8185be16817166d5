"""Scalar expressions as short text, for expected values in tests (the printer is another room's)."""

from __future__ import annotations

from relax.prim import BinaryExpr, Call, Cast, FloatImm, IntImm, Let, PrimExpr, Var, sub_expressions

SYMBOLS = {"Min": "min", "Max": "max", "Div": "truncdiv", "Mod": "truncmod", "And": "and", "Or": "or"}


def spell(expr: PrimExpr) -> str:
    """``(n + 1)``, ``min(n, 4)``, ``select(n < 4, n, 4)``."""
    if isinstance(expr, Var):
        return expr.name
    if isinstance(expr, (IntImm, FloatImm)):
        return str(bool(expr.value)) if expr.dtype == "bool" else str(expr.value)
    if isinstance(expr, Let):
        return f"(let {expr.var.name} = {spell(expr.value)} in {spell(expr.body)})"
    parts = [spell(part) for part in sub_expressions(expr)]
    if isinstance(expr, BinaryExpr) and expr.symbol:
        return f"({parts[0]} {expr.symbol} {parts[1]})"
    name = type(expr).__name__
    name = (
        expr.intrinsic
        if isinstance(expr, Call)
        else expr.dtype
        if isinstance(expr, Cast)
        else SYMBOLS.get(name, name.lower())
    )
    return f"{name}({', '.join(parts)})"
