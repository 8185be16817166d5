"""Operands of nested operations of one kind: sums, maxima or minima."""

from __future__ import annotations

from .expr import Add, BinaryExpr, PrimExpr, Sub


def summands(expr: PrimExpr) -> list[tuple[PrimExpr, int]]:
    """Operands of nested sums and differences, left to right, each with its multiplicity.

    An expression shared by several sums is a single operand.
    """
    sums: list[PrimExpr] = []  # each before what it is made of
    leaves: list[PrimExpr] = []
    seen: set[int] = set()
    pending: list[tuple[PrimExpr, bool]] = [(expr, False)]
    while pending:
        part, done = pending.pop()
        if done:
            sums.append(part)
        elif id(part) not in seen:
            seen.add(id(part))
            if isinstance(part, (Add, Sub)):
                pending += (part, True), (part.b, False), (part.a, False)
            else:
                leaves.append(part)
    times = dict.fromkeys(seen, 0)
    times[id(expr)] = 1
    for part in reversed(sums):
        assert isinstance(part, (Add, Sub))
        own = times[id(part)]
        times[id(part.a)] += own
        times[id(part.b)] += own if isinstance(part, Add) else -own
    return [(leaf, times[id(leaf)]) for leaf in leaves]


def flatten(expr: PrimExpr, kind: type[PrimExpr]) -> list[PrimExpr]:
    """Operands of nested operations of one kind, left to right, without duplicates."""
    result: list[PrimExpr] = []
    seen: set[int] = set()
    pending = [expr]
    while pending:
        part = pending.pop()
        if id(part) not in seen:
            seen.add(id(part))
            if isinstance(part, kind):
                assert isinstance(part, BinaryExpr)
                pending += part.b, part.a
            else:
                result.append(part)
    return result
