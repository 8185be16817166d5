"""Matching of arguments with a signature (`relax.tir.signature`), written as code."""

from __future__ import annotations

from ..ir import Diagnostic
from ..native.formula import Val
from ..prim import PrimExpr, Var, free_vars
from ..runtime.messages import Message
from ..tir import PrimFunc
from ..tir.signature import ArgumentField, Signature, SizeMatching, Text, signature_of
from .context import Context, Unit
from .index import index


class WrittenMatching(SizeMatching[Val]):
    """Write the checks into a function. Sizes are in 64 bits."""

    def __init__(self, cx: Context, known: Signature, prefix: str = "") -> None:
        super().__init__(known, prefix)
        self.cx = cx
        self.b = cx.b

    def value(self, size: PrimExpr) -> Val:
        with self.cx.exactly():
            return index(self.cx, size)

    def define(self, var: Var, value: Val, is_size: bool) -> None:
        self.cx.wide[var] = value
        if is_size:
            self.cx.facts.size(var)

    def equal(self, a: Val, b: Val) -> Val:
        return Val(self.b, "i1", 1, "true") if a.ref == b.ref else a.eq(b)

    def within(self, value: Val, low: int, high: int) -> Val:
        if low == 0 and high < 2**63 - 1:
            return value.compare("", "ult", high + 1)
        if low == 0:
            return value.ge(0)
        holds = Val(self.b, "i1", 1, "true")
        return holds if high == 2**63 - 1 else value.ge(low) & value.le(high)

    def require(self, condition: Val, message: Message, **fields: Text[Val]) -> None:
        self.cx.require(condition, message, **fields)


def checked_signature(unit: Unit, name: str, func: PrimFunc) -> Signature:
    """Signature of a function; unbound variables are reported."""
    known = signature_of(func)
    scalars = {param for param, buffer in known.params if buffer is None}
    for place, expr in known.compared:
        for var in free_vars(expr):
            if var not in known.bound and var not in scalars:
                unit.unbound.add(var)
                _report_unbound(unit, name, var, place)
    return known


def _report_unbound(unit: Unit, name: str, var: Var, place: ArgumentField) -> None:
    message = f"{var.name}, in {place.words} of buffer {place.buffer.name}, stands alone in no dimension of any"
    unit.report(
        name,
        Diagnostic(
            "E5907",
            f"{message} parameter",
            place.buffer.span,
            hint=f"pass {var.name} as a parameter of its own, or give some buffer a dimension that is just {var.name}",
        ),
    )
