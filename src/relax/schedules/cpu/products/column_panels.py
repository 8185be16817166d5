"""Panels of a product's columns: the columns of a task, and masks of those that the matrix does not have."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ....prim import LT, PrimExpr, is_const, simplify
from ....prim.intrin import floormod
from ....prim.intrin import min as minimum
from ....runtime.records import dataclass
from ....tir import ForKind, IfThenElse, Stmt
from ...build import block, int64, loop, named, ramp, spread
from ..tile.division import Segment
from .operands import Values


@dataclass(frozen=True)
class ColumnPanel:
    """Columns for given batch indices: the first column, the number inside the matrix, and the number of vectors."""

    values: Values
    start: PrimExpr
    inside: PrimExpr | None
    """Columns inside the matrix; None: all."""
    vectors: int


def panel_of(
    values: Values,
    segments: Sequence[Segment],
    jo: PrimExpr,
    columns: PrimExpr,
    lanes: int,
    body: Callable[[ColumnPanel], Stmt],
) -> Stmt:
    """Call `body` with panel `jo` of a matrix's columns, found in its segment."""
    if not segments:
        return block([])
    is_exact = is_const(simplify(floormod(columns, lanes)), 0)

    def panel(segment: Segment, number: PrimExpr) -> Stmt:
        start = simplify((segment.start + number * segment.size) * lanes)
        if is_exact:  # no vector extends past the last column
            return body(ColumnPanel(values, start, None, segment.size))
        inside = simplify(minimum(int64(segment.size * lanes), columns - start))
        return named("inside", inside, lambda count: body(ColumnPanel(values, start, count, segment.size)))

    first, *rest = segments
    result = panel(first, jo)
    for segment in rest:
        result = IfThenElse(LT(jo, first.count), result, panel(segment, jo - first.count))
    return result


def each_vector(panel: ColumnPanel, lanes: int, body: Callable[[PrimExpr], Stmt]) -> Stmt:
    """Return `body(first column)` for each vector of a panel."""
    return loop("v", panel.vectors, lambda v: body(v * lanes), ForKind.UNROLLED)


def mask_of(panel: ColumnPanel, column: PrimExpr, lanes: int) -> PrimExpr | None:
    """Mask of the lanes of a panel's vector inside the matrix, or None for all lanes."""
    return None if panel.inside is None else LT(ramp(column, lanes), spread(panel.inside, lanes))
