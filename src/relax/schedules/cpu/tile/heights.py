"""Division of rows into register tiles of two heights."""

from __future__ import annotations

from collections.abc import Callable

from ....prim import PrimExpr, simplify
from ....prim.intrin import floordiv, floormod
from ....tir import Stmt
from ...build import block, loop, named


def tall_and_short(units: PrimExpr, unit: int, body: Callable[[PrimExpr, int, PrimExpr], Stmt]) -> Stmt:
    """Return `body(first row, rows, number)` for each tile of three `unit` rows, then for each of two.

    At least two `units` of rows are needed: 7 units are 3 + 2 + 2, 4 are 2 + 2, 5 are 3 + 2.
    """
    tall, short = 3 * unit, 2 * unit

    def tiles(units: PrimExpr, number: PrimExpr) -> Stmt:
        return named("rest", simplify(units - number * 2), lambda rest: named(
            "whole", simplify(floordiv(rest, 3)), lambda whole: block([
                loop("q", whole, lambda q: body(q * tall, tall, q)),
                loop("q", number, lambda q: body(whole * tall + q * short, short, whole + q))])))  # fmt: skip

    return named("units", simplify(units), lambda units: named(
        "short", simplify(floormod(units * 2, 3)), lambda number: tiles(units, number)))  # fmt: skip
