"""Inverse index functions: a block's variables as functions of the accessed element.

A[vi * 16 + vj], vj in [0, 16)        vi = p // 16, vj = p % 16
A[0, vi + 1]                          vi = p1 - 1
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ir import DataType
from ...prim import Analyzer, IntImm, PrimExpr, Var, const, is_const, simplify, substitute
from ...prim.iter_map import IterMapLevel, detect_iter_map, inverse_affine_iter_map
from ..buffer import IterVar, Range


def as_dtype(expr: PrimExpr, dtype: DataType) -> PrimExpr:
    """Convert an integer expression to another dtype."""
    if expr.dtype == dtype:
        return expr
    return const(expr.value, dtype) if isinstance(expr, IntImm) else expr.astype(dtype)


def inverse_of(
    iter_vars: Sequence[IterVar], indices: Sequence[PrimExpr], points: Sequence[PrimExpr]
) -> dict[Var, PrimExpr] | None:
    """Return the values of a block's variables for which the indices are `points`; None if they are not determined."""
    domains = {v.var: v.dom for v in iter_vars if v.dom is not None}
    if len(domains) < len(iter_vars):
        return None
    variables = [index for index in indices if isinstance(index, Var) and index in domains]
    if len(set(variables)) == len(indices):
        plain = {var: as_dtype(point, var.dtype) for var, point in zip(variables, points, strict=True)}
        return _with_single_values(plain, domains)
    mapped = detect_iter_map(indices, domains, True, IterMapLevel.Injective, False)
    index_vars = [Var("p", index.dtype) for index in indices]
    try:
        result = inverse_affine_iter_map(mapped.indices, index_vars) if not mapped.errors else {}
    except ValueError:
        return None
    values = _with_single_values({var: as_dtype(value, var.dtype) for var, value in result.items()}, domains)
    if values is None or not _is_inverse(domains, dict(zip(index_vars, indices, strict=True)), values):
        return None
    at = {index_var: as_dtype(point, index_var.dtype) for index_var, point in zip(index_vars, points, strict=True)}
    return {var: simplify(substitute(value, at)) for var, value in values.items()}


def _with_single_values(values: dict[Var, PrimExpr], domains: dict[Var, Range]) -> dict[Var, PrimExpr] | None:
    """Add the values of variables with a single value; None if an unsolved variable has several."""
    for var, dom in domains.items():
        if var not in values:
            if not is_const(dom.extent, 1):
                return None
            values[var] = as_dtype(dom.min, var.dtype)
    return values


def _is_inverse(domains: dict[Var, Range], indices: dict[Var, PrimExpr], values: dict[Var, PrimExpr]) -> bool:
    """True if substituting the indices into the inverse is proved to yield the block's variables."""
    analyzer = Analyzer()
    for var, dom in domains.items():
        analyzer.bind(var, dom)
    return all(analyzer.can_prove_equal(substitute(value, indices), var) for var, value in values.items())
