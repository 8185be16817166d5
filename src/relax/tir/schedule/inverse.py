"""Inverses of the indices of a block's accesses: the values of its variables in terms of the element accessed.

A[vi * 16 + vj], vj in [0, 16)        vi = p // 16, vj = p % 16
A[0, vi + 1]                          vi = p1 - 1
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ir import DataType
from ...prim import Analyzer, IntImm, PrimExpr, Var, const, free_vars, is_const, simplify, substitute
from ...prim.intrin import floordiv, floormod
from ...prim.iter_map import IterMapLevel, IterMark, IterSplitExpr, IterSumExpr, detect_iter_map
from ..buffer import IterVar, Range


def as_dtype(expr: PrimExpr, dtype: DataType) -> PrimExpr:
    """An integer expression in another dtype."""
    if expr.dtype == dtype:
        return expr
    return const(expr.value, dtype) if isinstance(expr, IntImm) else expr.astype(dtype)


def inverse_of(
    iter_vars: Sequence[IterVar], indices: Sequence[PrimExpr], points: Sequence[PrimExpr]
) -> dict[Var, PrimExpr] | None:
    """The values of a block's variables for which indices are `points`; None if the indices do not decide them."""
    domains = {v.var: v.dom for v in iter_vars if v.dom is not None}
    if len(domains) < len(iter_vars):
        return None
    variables = [index for index in indices if isinstance(index, Var) and index in domains]
    if len(set(variables)) == len(indices):
        plain = {var: as_dtype(point, var.dtype) for var, point in zip(variables, points, strict=True)}
        return _with_single_values(plain, domains)
    result = _inverse_of_digits(domains, indices, places := [Var("p", index.dtype) for index in indices])
    if result is None or not _is_inverse(domains, dict(zip(places, indices, strict=True)), result):
        return None
    at = {place: as_dtype(point, place.dtype) for place, point in zip(places, points, strict=True)}
    return {var: simplify(substitute(value, at)) for var, value in result.items()}


def _with_single_values(values: dict[Var, PrimExpr], domains: dict[Var, Range]) -> dict[Var, PrimExpr] | None:
    """The values, and those of variables that have one only; None if a variable has several."""
    for var, dom in domains.items():
        if var not in values:
            if not is_const(dom.extent, 1):
                return None
            values[var] = as_dtype(dom.min, var.dtype)
    return values


def _inverse_of_digits(
    domains: dict[Var, Range], indices: Sequence[PrimExpr], places: Sequence[Var]
) -> dict[Var, PrimExpr] | None:
    """The values of variables for which indices are `places`, where each index is a sum of digits of variables.

    They are a guess: the caller checks them.
    """
    mapped = detect_iter_map(indices, domains, True, IterMapLevel.Injective, False)
    if mapped.errors:
        return None
    marks: dict[IterMark, PrimExpr] = {}
    for index, point in zip(mapped.indices, places, strict=True):
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
    return _with_single_values(result, domains)


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


def _is_inverse(domains: dict[Var, Range], indices: dict[Var, PrimExpr], values: dict[Var, PrimExpr]) -> bool:
    """True if, at the indices for any values of a block's variables in their domains, the inverse gives them."""
    analyzer = Analyzer()
    for var, dom in domains.items():
        analyzer.bind(var, dom)
    return all(analyzer.can_prove_equal(substitute(value, indices), var) for var, value in values.items())


__all__ = ["as_dtype", "inverse_of"]
