"""Remove layout transformations that undo each other.

Before   lv = R.layout_transform(x, lambda n, c: (n, c // 4, c % 4))        After   y = R.exp(x)
         lv1 = R.layout_transform(lv, lambda n, c, i: (n, c * 4 + i))
         y = R.exp(lv1)

Two transformations undo each other if the second index map of the first one's result is proved to be the identity, and
no element was added as padding in between; one alone goes if its map is the identity. The result then is another name
for the operand, unless somebody could tell (`relax.transform.algebra.same_value`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...analysis.properties import NORMAL_FORM, SHAPES_LOWERED
from ...expr import Call, Function
from ...ir import IRModule, RelaxExpr
from ...op import is_call_of, operator_of
from ...op.layout import LayoutTransform
from ...prim import Analyzer, PrimExpr, Verdict, const, prove_equal, prove_shape_equal
from ...prim.expr import cast
from ...tir import Range
from ..decorators import function_pass
from .questions import dims
from .same_value import SameValues


@function_pass(opt_level=1, needs={NORMAL_FORM}, breaks={SHAPES_LOWERED})
def OptimizeLayoutTransform(func: Function, mod: IRModule) -> Function:
    """Remove layout transformations in pairs; see the module's docstring."""
    return _Layouts(mod).rewrite_function(func)


class _Layouts(SameValues):
    concerned = LayoutTransform

    def same_as(self, call: Call) -> RelaxExpr | None:
        if not is_call_of(call, LayoutTransform):
            return None
        if _is_identity(call.args[0], [call]):
            return call.args[0]
        first = self.value(call.args[0])
        if isinstance(first, Call) and is_call_of(first, LayoutTransform):
            return first.args[0] if _is_identity(first.args[0], [first, call]) else None
        return None


def _is_identity(source: RelaxExpr, calls: Sequence[Call]) -> bool:
    """True if the composition of the transformations is provably the identity."""
    before, after = dims(source), dims(calls[-1])
    if before is None or after is None or len(before) != len(after):
        return False
    if prove_shape_equal(before, after) is not Verdict.YES:
        return False
    if any(prove_equal(_count(before), _count(dims(call))) is not Verdict.YES for call in calls):
        return False
    analyzer = Analyzer()
    start = _map_of(calls[0]).initial_indices
    for index, size in zip(start, before, strict=True):
        analyzer.bind(index, Range.from_min_extent(const(0, index.dtype), cast(index.dtype, size)))
    indices: Sequence[PrimExpr] = start
    for call in calls:
        indices = _map_of(call).map_indices(indices)
    return all(analyzer.can_prove_equal(a, b) for a, b in zip(start, indices, strict=True))


def _map_of(call: Call) -> Any:
    return getattr(operator_of(call), "index_map", None)


def _count(sizes: Sequence[PrimExpr] | None) -> PrimExpr:
    count: PrimExpr = const(1, "int64")
    for size in sizes if sizes is not None else (const(-1, "int64"),):
        count = count * size
    return count
