"""Element-wise and broadcasting operators."""

from __future__ import annotations

import math
from typing import Any

from ... import op
from ...ir import RelaxExpr
from .declare import BROADCAST, ELEMWISE, FOLLOW, attr, declare, dtype, scalar

_UNARY = (
    "acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "erf", "exp", "isfinite", "isinf", "isnan", "log",
    "logical_not", "rsqrt", "sin", "sinh", "tan", "bitwise_not", "zeros_like", "ones_like",
)  # fmt: skip
_NARROW_UNARY = ("abs", "ceil", "floor", "negative", "round", "sigmoid", "sign", "sqrt", "tanh", "trunc")
_BINARY = (
    "bitwise_and", "bitwise_or", "bitwise_xor", "equal", "floor_divide", "floor_mod", "greater", "greater_equal",
    "left_shift", "less", "less_equal", "logical_and", "logical_or", "logical_xor", "mod", "not_equal", "power",
    "right_shift",
)  # fmt: skip
_NARROW_BINARY = ("add", "divide", "maximum", "minimum", "multiply", "subtract")


def _same(name: str) -> Any:
    function: Any = getattr(op, name)

    def means(a: Any, *operands: RelaxExpr) -> RelaxExpr:
        del a
        return function(*operands)

    return means


for _name in (*_UNARY, *_NARROW_UNARY):
    declare(_name, 1, pattern=ELEMWISE, mixed=FOLLOW if _name in _NARROW_UNARY else None, means=_same(_name))
for _name in (*_BINARY, *_NARROW_BINARY):
    declare(_name, 2, pattern=BROADCAST, mixed=FOLLOW if _name in _NARROW_BINARY else None, means=_same(_name))

declare("fast_exp", 1, pattern=ELEMWISE, means=lambda a, x: op.exp(x))
declare("fast_erf", 1, pattern=ELEMWISE, means=lambda a, x: op.erf(x))
declare("fast_tanh", 1, pattern=ELEMWISE, mixed=FOLLOW, means=lambda a, x: op.tanh(x))
declare("log2", 1, pattern=ELEMWISE, means=lambda a, x: op.multiply(op.log(x), scalar(1 / math.log(2), x)))
declare("log10", 1, pattern=ELEMWISE, means=lambda a, x: op.multiply(op.log(x), scalar(1 / math.log(10), x)))
declare("trunc_mod", 2, pattern=BROADCAST, means=lambda a, x, y: op.mod(x, y))


def _trunc_divide(a: Any, x: RelaxExpr, y: RelaxExpr) -> RelaxExpr:
    del a
    quotient = op.divide(x, y)  # truncated for integers
    return quotient if "int" in dtype(x) else op.trunc(quotient)


declare("trunc_divide", 2, pattern=BROADCAST, means=_trunc_divide)
declare("einsum", 1, attr("equation", "str"), means=lambda a, tensors: op.einsum(tensors, a.equation))
declare("copy", 1, pattern=ELEMWISE, mixed=FOLLOW, means=lambda a, x: op.astype(x, dtype(x)))
declare("annotation.stop_fusion", 1, means=lambda a, x: x)
declare(
    "where",
    3,
    pattern=BROADCAST,
    mixed=FOLLOW,
    means=lambda a, condition, x, y: op.where(condition, x, y),
    operands="condition x y",
)
declare("cast", 1, attr("dtype", "dtype"), pattern=ELEMWISE, means=lambda a, x: op.astype(x, str(a.dtype)))
declare(
    "cast_like", 2, pattern=ELEMWISE, means=lambda a, x, like: op.astype(x, dtype(like)), operands="data dtype_like"
)


def _clip(a: Any, x: RelaxExpr) -> RelaxExpr:
    kind = int if "int" in dtype(x) else float
    return op.clip(x, kind(a.a_min), kind(a.a_max))


declare("clip", 1, attr("a_min", "float"), attr("a_max", "float"), pattern=ELEMWISE, mixed=FOLLOW, means=_clip)
