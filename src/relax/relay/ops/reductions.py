"""Reductions, scans and sorting."""

from __future__ import annotations

from typing import Any

from ... import op
from ...ir import RelaxExpr
from .declare import COMM_REDUCE, attr, axes_of, declare, optional_dtype, scalar

_REDUCED = (attr("axis", "any", None), attr("keepdims", "bool", False), attr("exclude", "bool", False))


def _reduction(name: str) -> Any:
    function: Any = getattr(op, name)

    def means(a: Any, x: RelaxExpr) -> RelaxExpr:
        return function(x, axes_of(a.axis, x, a.exclude), a.keepdims)

    return means


for _name in ("max", "mean", "min", "prod", "sum"):
    declare(_name, 1, *_REDUCED, pattern=COMM_REDUCE, means=_reduction(_name))


def _logical(name: str) -> Any:
    function = getattr(op, name)

    def means(a: Any, x: RelaxExpr) -> RelaxExpr:
        numbers = op.astype(op.astype(x, "bool"), "uint8")
        return op.astype(function(numbers, axes_of(a.axis, x, a.exclude), a.keepdims), "bool")

    return means


declare("all", 1, *_REDUCED, pattern=COMM_REDUCE, means=_logical("min"))
declare("any", 1, *_REDUCED, pattern=COMM_REDUCE, means=_logical("max"))


def _selection(name: str) -> Any:
    function = getattr(op, name)

    def means(a: Any, x: RelaxExpr) -> RelaxExpr:
        if a.select_last_index:
            raise ValueError("select_last_index=True has no counterpart in Relax")
        axes = axes_of(a.axis, x, a.exclude)
        if axes is not None and len(axes) > 1:
            raise ValueError(f"{name} goes over one axis, or all of them")
        return op.astype(function(x, axes[0] if axes else None, a.keepdims), "int32")

    return means


for _name in ("argmax", "argmin"):
    declare(_name, 1, *_REDUCED, attr("select_last_index", "bool", False), pattern=COMM_REDUCE, means=_selection(_name))


def _variance(a: Any, x: RelaxExpr, mean: RelaxExpr) -> RelaxExpr:
    if a.unbiased:
        raise ValueError("unbiased=True has no counterpart in Relax")
    difference = op.subtract(x, mean)
    return op.mean(op.multiply(difference, difference), axes_of(a.axis, x, a.exclude), a.keepdims)


declare(
    "variance",
    2,
    *_REDUCED,
    attr("unbiased", "bool", False),
    pattern=COMM_REDUCE,
    means=_variance,
    operands="data mean",
)


def _logsumexp(a: Any, x: RelaxExpr) -> RelaxExpr:
    axes = axes_of(a.axis, x, a.exclude)
    greatest = op.max(x, axes, True)
    # An infinite maximum would yield inf - inf.
    shift = op.where(op.isfinite(greatest), greatest, scalar(0.0, x))
    total = op.sum(op.exp(op.subtract(x, shift)), axes, True)
    result = op.add(op.log(total), shift)
    return result if a.keepdims else op.squeeze(result, axes)


declare("logsumexp", 1, *_REDUCED, means=_logsumexp)

_SCANNED = (attr("axis", "int?", None), attr("dtype", "dtype?", None), attr("exclusive", "bool", False))
declare("cumsum", 1, *_SCANNED, means=lambda a, x: op.cumsum(x, a.axis, optional_dtype(a.dtype), a.exclusive))
declare("cumprod", 1, *_SCANNED, means=lambda a, x: op.cumprod(x, a.axis, optional_dtype(a.dtype), a.exclusive))

_SORTED = (attr("axis", "int", -1), attr("is_ascend", "bool", True))
declare("sort", 1, *_SORTED, means=lambda a, x: op.sort(x, a.axis, not a.is_ascend))
declare(
    "argsort", 1, *_SORTED, attr("dtype", "dtype", "int32"),
    means=lambda a, x: op.argsort(x, a.axis, not a.is_ascend, str(a.dtype)),
)  # fmt: skip
declare(
    "topk", 1,
    attr("k", "int", 1), attr("axis", "int", -1), attr("ret_type", "str", "both"), attr("is_ascend", "bool", False),
    attr("dtype", "dtype", "int32"),
    means=lambda a, x: op.topk(x, a.k if a.k > 0 else -1, a.axis, a.ret_type, not a.is_ascend, str(a.dtype)),
    results=lambda a, _: 2 if a.ret_type == "both" else None,
)  # fmt: skip
