"""Inverses of the indices of a block's accesses: the values of its variables in terms of the element accessed.

A[vi * 16 + vj], vj in [0, 16)        vi = p // 16, vj = p % 16
A[0, vi + 1]                          vi = p1 - 1
"""

from __future__ import annotations

from collections.abc import Sequence

from ...prim import Analyzer, IntImm, PrimExpr, Var, const, free_vars, is_const, simplify, substitute
from ...prim.intrin import floordiv, floormod
from ...prim.iter_map import IterMapLevel, IterMark, IterSplitExpr, IterSumExpr, detect_iter_map
from ..stmt import Block
from .place import as_dtype


def inverse_of(
    block: Block, indices: Sequence[PrimExpr], points: Sequence[PrimExpr]
) -> dict[Var, PrimExpr] | None:
    """The values of a block's variables for which its indices are `points`; None if indices do not decide them."""
    domains = {v.var: v.dom for v in block.iter_vars if v.dom is not None}
    if len(domains) < len(block.iter_vars):
        return None
    mapped = detect_iter_map(indices, domains, True, IterMapLevel.Injective, False)
    if mapped.errors:
        return None
    marks: dict[IterMark, PrimExpr] = {}
    for index, point in zip(mapped.indices, points, strict=True):
        if not _take_apart(index, point, marks):
            return None
    result: dict[Var, PrimExpr] = {}
    while marks:
        mark, value = marks.popitem()
        if isinstance(mark.source, IterSumExpr):
            if any(part.source is mark for part in mark.source.args) or not _take_apart(
                mark.source, value, marks
            ):
                return None
            continue
        var = next((var for var in free_vars(mark.source) if var in domains), None)
        if var is not None:  # the source is the variable less its least value
            result[var] = simplify(as_dtype(value + simplify(var - mark.source), var.dtype))
    for var, dom in domains.items():
        if var not in result:
            if not is_const(dom.extent, 1):
                return None
            result[var] = as_dtype(dom.min, var.dtype)
    return result if _is_inverse(block, indices, points, result) else None


def _take_apart(index: IterSumExpr, point: PrimExpr, marks: dict[IterMark, PrimExpr]) -> bool:
    """Add the digits that a sum has at a point to the values of their marks. False for a sum that is not understood."""
    rest = point if is_const(index.base, 0) else point - index.base
    scales = [arg.scale.value if isinstance(arg.scale, IntImm) else 0 for arg in index.args]
    if len(scales) == 1 and scales[0] == -1:
        rest, scales = index.base - point, [1]
    if any(scale < 1 for scale in scales):
        return False
    for scale, arg in sorted(zip(scales, index.args, strict=True), key=lambda item: -item[0]):
        digit = rest if scale == 1 else floordiv(rest, const(scale, rest.dtype))
        rest = floormod(rest, const(scale, rest.dtype))
        _add(arg, digit, marks)
    return True


def _add(arg: IterSplitExpr, digit: PrimExpr, marks: dict[IterMark, PrimExpr]) -> None:
    part = digit if is_const(arg.lower_factor, 1) else digit * arg.lower_factor
    marks[arg.source] = marks[arg.source] + part if arg.source in marks else part


def _is_inverse(
    block: Block, indices: Sequence[PrimExpr], points: Sequence[PrimExpr], values: dict[Var, PrimExpr]
) -> bool:
    """True if, at the indices for any values of a block's variables in their domains, the inverse gives them."""
    analyzer = Analyzer()
    for iter_var in block.iter_vars:
        if iter_var.dom is not None:
            analyzer.bind(iter_var.var, iter_var.dom)
    variables = {point: index for point, index in zip(points, indices, strict=True) if isinstance(point, Var)}
    return all(analyzer.can_prove_equal(substitute(value, variables), var) for var, value in values.items())


__all__ = ["inverse_of"]
