"""The gain of lockstep execution: it is prepared for statements that store enough elements to make up for that."""

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
"""The gain from which on statements run in lockstep."""
PREPARATION: Final = 64
"""Elements that are stored one after the other in the time in which a store is prepared, and begun, in lockstep."""
UNKNOWN: Final = 8
"""Iterations of a loop whose extent depends on loops around it."""


def gain(
    stmt: Stmt, prepared: Callable[[PrimExpr], Callable[[Env], Any]]
) -> tuple[int, Callable[[Env], int] | None]:
    """The elements that a statement stores beyond those that its preparation is worth.

    Where they depend on sizes, the function that counts them comes with it; `prepared` makes expressions executable.
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
    values = {
        extent: prepared(extent) for _, extents in open_ for extent in extents if not has_effects(extent)
    }
    bound = [(var, prepared(value)) for var, value in bindings.items() if not has_effects(value)]

    def count(env: Env) -> int:
        inside = dict(env)
        for var, value in bound:
            number = _number(value, inside)
            if number is not None:
                inside[var] = number
        sizes = {extent: _number(value, inside) for extent, value in values.items()}
        known = {extent: max(size, 0) for extent, size in sizes.items() if size is not None}
        return fixed + sum(
            times * math.prod(known.get(extent, UNKNOWN) for extent in extents) for times, extents in open_
        )

    return fixed, count


def _stores(
    stmt: Stmt, times: int, extents: tuple[PrimExpr, ...], bindings: dict[Var, PrimExpr]
) -> Iterator[tuple[int, tuple[PrimExpr, ...]]]:
    """For each store, its elements in the loops of constant extents, and the extents of the others.

    What sizes are bound to on the way is added to `bindings`.
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
    """The value of an expression, None if variables that it depends on have none yet."""
    try:
        return value(env)
    except (ArithmeticError, LookupError, ValueError):
        return None
