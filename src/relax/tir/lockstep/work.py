"""Estimated gain of lockstep execution, which must exceed the cost of compiling a statement for it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, Final

from ...prim import IntImm, PrimExpr, Var
from ...prim.traits import has_effects
from ..evaluation import Env
from ..statements import parts_of
from ..stmt import BlockRealize, BufferStore, For, LetStmt, Stmt

LEAST: Final = 500
"""Least gain of statements that run in lockstep."""
PREPARATION: Final = 64
"""Cost of compiling and starting a store in lockstep, in stores of one element in single steps."""
UNKNOWN: Final = 8
"""Assumed number of iterations of a loop whose extent depends on outer loops."""


def gain(stmt: Stmt, prepared: Callable[[PrimExpr], Callable[[Env], Any]]) -> tuple[int, Callable[[Env], int] | None]:
    """Return the number of elements that a statement stores, less the cost of compiling it for lockstep.

    If it depends on sizes, return its static part and a function that computes it; `prepared` compiles expressions.
    """
    fixed, open_ = 0, list[tuple[int, tuple[PrimExpr, ...]]]()
    bindings: dict[Var, PrimExpr] = {}
    for times, extents in _stores(stmt, 1, (), bindings):
        fixed -= PREPARATION
        if extents:
            open_.append((times, extents))
        else:
            fixed += times
    if not open_:
        return fixed, None
    values = {extent: prepared(extent) for _, extents in open_ for extent in extents if not has_effects(extent)}
    bound = [(var, prepared(value)) for var, value in bindings.items() if not has_effects(value)]

    def count(env: Env) -> int:
        inside = dict(env)
        for var, value in bound:
            number = _number(value, inside)
            if number is not None:
                inside[var] = number
        sizes = {extent: _number(value, inside) for extent, value in values.items()}
        counts = {extent: max(size, 0) for extent, size in sizes.items() if size is not None}
        return fixed + sum(
            times * math.prod(counts.get(extent, UNKNOWN) for extent in extents) for times, extents in open_
        )

    return fixed, count


def _stores(
    stmt: Stmt, times: int, extents: tuple[PrimExpr, ...], bindings: dict[Var, PrimExpr]
) -> Iterator[tuple[int, tuple[PrimExpr, ...]]]:
    """Yield for each store its elements in loops of static extent, and the extents of the other loops.

    Integer lets on the way are added to `bindings`.
    """
    match stmt:
        case BufferStore(indices=indices):
            yield times * (indices[-1].dtype.lanes if indices else 1), extents
            return
        case For(extent=IntImm(_, extent)):
            times *= max(extent, 0)
        case For():
            extents = (*extents, stmt.extent)
        case LetStmt(var, value) if var.dtype.is_integer:
            bindings[var] = value
        case BlockRealize() if stmt.block.init is not None:
            yield from _stores(stmt.block.init, times, extents, bindings)
        case _:
            pass
    for part in parts_of(stmt):
        yield from _stores(part, times, extents, bindings)


def _number(value: Callable[[Env], Any], env: Env) -> Any:
    """Return the value of an expression, or None if it depends on unbound variables or fails."""
    try:
        return value(env)
    except (ArithmeticError, LookupError, ValueError):
        return None
