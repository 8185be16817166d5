"""Reductions: a combiner with its identity, applied along reduction axes.

k = te.reduce_axis((0, K), "k")
te.sum(A[i, k] * B[k, j], axis=k);  te.max(x, y) of values, without an axis, is max(x, y)
argmax = te.comm_reducer(combine, identity, "argmax");  argmax((index[i, k], value[i, k]), axis=k)
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from ..ir import DataType
from ..prim import IntImm, PrimExpr, Var, const, convert, intrin
from .buffer import CommReducer, IterVar, Reduce, to_indices
from .scalar import as_tuple

Combine = Callable[[Any, Any], Any]


class Reducer:
    """A commutative and associative reduction; call it on an expression (or a tuple of them) and axes."""

    def __init__(self, fcombine: Combine, fidentity: Callable[..., Any], name: str) -> None:
        self.fcombine, self.fidentity = fcombine, fidentity
        self.__name__ = name

    def __call__(self, expr: Any, *more: Any, axis: Any = None, where: Any = None, init: Any = None) -> Any:
        """Return the reduction of `expr` over `axis` (one or several IterVars) at the points where `where` holds.

        `init` is the start value, by default the identity. A tuple of expressions returns a tuple of results. `axis`,
        `where` and `init` may be passed by position after `expr`. Without an axis, several positional values are
        combined: ``max(x, y)``.

        Raises TypeError if an axis is not a reduction axis.
        """
        if more and not isinstance(more[0], (IterVar, tuple, list)):
            if (axis, where, init) != (None, None, None):
                raise TypeError(f"{self.__name__}: expected an expression and its axes, or values only")
            return functools.reduce(self.fcombine, (convert(value) for value in (expr, *more)))
        if len(more) > 3:
            raise TypeError(f"{self.__name__}: expected an expression, axis, where and init")
        if more:
            axis, where, init = (*more, *(axis, where, init)[len(more) :])[:3]
        several = isinstance(expr, (tuple, list))
        sources = to_indices(expr)
        axes = _axes(self.__name__, axis)
        condition = IntImm("bool", 1) if where is None else convert(where)
        starts = _starts(init, sources)
        reducer = self.combiner(tuple(source.dtype for source in sources), several)
        if axes:
            results = tuple(Reduce(reducer, sources, axes, condition, i, starts) for i in range(len(sources)))
        else:
            results = self.over_nothing(sources, condition, starts or reducer.identity_element, several)
        return results if several else results[0]

    def combiner(self, dtypes: tuple[DataType, ...], several: bool) -> CommReducer:
        """Return the combiner for sources of these dtypes. Raises TypeError if the functions return other dtypes."""
        lhs = tuple(Var(f"x{i}" if several else "x", dtype) for i, dtype in enumerate(dtypes))
        rhs = tuple(Var(f"y{i}" if several else "y", dtype) for i, dtype in enumerate(dtypes))
        if several:
            result, identity = self.fcombine(lhs, rhs), self.fidentity(*dtypes)
        else:
            result, identity = (self.fcombine(lhs[0], rhs[0]),), (self.fidentity(dtypes[0]),)
        combiner = CommReducer(lhs, rhs, tuple(convert(r) for r in result), tuple(convert(e) for e in identity))
        for role, values in (("result", combiner.result), ("identity", combiner.identity_element)):
            actual = tuple(value.dtype for value in values)
            if actual != dtypes:
                expected = ", ".join(dtypes)
                raise TypeError(f"{self.__name__}: the {role} has dtypes ({', '.join(actual)}), expected ({expected})")
        return combiner

    def over_nothing(
        self, sources: tuple[PrimExpr, ...], condition: PrimExpr, starts: tuple[PrimExpr, ...], several: bool
    ) -> tuple[PrimExpr, ...]:
        """Reduce without axes: combine `starts` with the sources where the condition holds."""
        combined = self.fcombine(starts, sources) if several else (self.fcombine(*starts, *sources),)
        return tuple(
            intrin.if_then_else(condition, value, start) for value, start in zip(combined, starts, strict=True)
        )


def _axes(name: str, axis: Any) -> tuple[IterVar, ...]:
    axes = () if axis is None else as_tuple(axis)
    for item in axes:
        if not isinstance(item, IterVar) or item.iter_type != "reduce":
            raise TypeError(f"{name}: axis must be made by te.reduce_axis, found {item!s}")
    return axes


def _starts(init: Any, sources: tuple[PrimExpr, ...]) -> tuple[PrimExpr, ...]:
    if init is None:
        return ()
    values = as_tuple(init)
    if len(values) != len(sources):
        raise ValueError(f"init: found {len(values)} values, expected {len(sources)}")
    return tuple(
        value.astype(source.dtype) if isinstance(value, PrimExpr) else const(value, source.dtype)
        for value, source in zip(values, sources, strict=True)
    )


def comm_reducer(fcombine: Combine, fidentity: Callable[..., Any], name: str = "reduce") -> Reducer:
    """Create a reduction from its combiner and identity.

    For one value, ``fcombine(x, y)`` and ``fidentity(dtype)``. For several reduced together (argmax),
    `fcombine` gets two tuples and returns one, ``fidentity(*dtypes)`` returns a tuple, and the reducer is
    called with a tuple.
    """
    return Reducer(fcombine, fidentity, name)


def _zero(dtype: str) -> PrimExpr:
    return const(0, dtype)


def _one(dtype: str) -> PrimExpr:
    return const(1, dtype)


def _lowest(dtype: str) -> PrimExpr:
    """Return the identity of max: -inf for dtypes that have it, else the least value."""
    kind = DataType(dtype)
    low = kind.min_value
    return const(low, kind) if math.isinf(low) else intrin.min_value(kind)


def _highest(dtype: str) -> PrimExpr:
    kind = DataType(dtype)
    high = kind.max_value
    return const(high, kind) if math.isinf(high) else intrin.max_value(kind)


sum = comm_reducer(lambda x, y: x + y, _zero, "sum")
prod = comm_reducer(lambda x, y: x * y, _one, "prod")
max = comm_reducer(intrin.max, _lowest, "max")
min = comm_reducer(intrin.min, _highest, "min")
