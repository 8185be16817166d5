"""Formulas of matrices with a diagonal, and of window functions."""

# The parameters of a formula are index variables; te.compute says so, but not in a way a type checker can follow.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .. import te
from ..ir import DataType
from ..prim import PrimExpr, Select, const, convert, intrin
from ..prim import cast as cast_expr


def eye(n: Any, m: Any, k: Any = 0, dtype: str = "float32") -> te.Tensor:
    """Ones on the diagonal that begins k columns to the right of the first element; zeros elsewhere."""
    diagonal = as_size(k)
    one, zero = const(1, dtype), const(0, dtype)
    shape = (as_size(n), as_size(m))
    return te.compute(shape, lambda i, j: Select((j - i).equal(diagonal), one, zero), "T_eye", tag="injective")


def tril(x: te.Tensor, k: Any = 0) -> te.Tensor:
    """The elements of the last two dimensions on the k-th diagonal and below it, and zeros above it."""
    return _triangle(x, k, "T_tril", lambda offset, diagonal: offset <= diagonal)


def triu(x: te.Tensor, k: Any = 0) -> te.Tensor:
    """The elements of the last two dimensions on the k-th diagonal and above it, and zeros below it."""
    return _triangle(x, k, "T_triu", lambda offset, diagonal: offset >= diagonal)


def _triangle(x: te.Tensor, k: Any, name: str, keeps: Callable[[Any, Any], Any]) -> te.Tensor:
    diagonal, zero = as_size(k), const(0, x.dtype)
    return te.compute(x.shape, lambda *i: Select(keeps(i[-1] - i[-2], diagonal), x(*i), zero), name, tag="injective")


def cosine_window(size: Any, periodic: Any, weights: tuple[Any, ...], dtype: str) -> te.Tensor:
    """weights[0] - weights[1] · cos t + weights[2] · cos 2t …, where t goes from 0 to 2π in `size` steps.

    A periodic window omits the last of size + 1 values; a window of one value is 1. It is computed in float64.
    """
    kind, count = DataType(dtype), as_size(size)
    is_periodic = convert(periodic) if isinstance(periodic, PrimExpr) else const(bool(periodic), "bool")
    flag = is_periodic if is_periodic.dtype.is_bool else is_periodic != 0
    steps = intrin.max(Select(flag, count, count - 1), const(1, "int64"))
    factors = [cast_expr("float64", convert(weight)) for weight in weights]

    def value(i: PrimExpr) -> PrimExpr:
        angle = cast_expr("float64", i) * (2 * math.pi) / cast_expr("float64", steps)
        total = factors[0]
        for order, factor in enumerate(factors[1:], 1):
            term = factor * intrin.cos(angle * float(order))
            total = total - term if order % 2 else total + term
        return cast_expr(kind, Select(count.equal(1), const(1.0, "float64"), total))

    return te.compute((count,), value, "T_window", tag="injective")


def as_size(value: Any) -> PrimExpr:
    """Convert a scalar to a dimension."""
    return cast_expr("int64", convert(value))
