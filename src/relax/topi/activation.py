"""Activations: element-wise formulas that are accurate in their tails (docs/numerics.md).

Narrow floats (16 and 8 bits) are computed in float32 and rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final

from .. import te
from ..prim import PrimExpr, Select, const, intrin
from .twofold import Twofold, cubic, let, scaled
from .util import accumulator_dtype

Scalar = Callable[[PrimExpr], PrimExpr]


def _map(x: te.Tensor, name: str, function: Scalar) -> te.Tensor:
    """`function` of each element, computed in the accumulator dtype.

    Of max(x, -1000), as the value at -∞ is to be the limit 0, not -∞ · 0.
    """
    wide = accumulator_dtype(x.dtype)

    def of(*i: Any) -> PrimExpr:
        return let(intrin.max(x(*i).astype(wide), const(-_FAR, wide)), function).astype(x.dtype)

    return te.compute(x.shape, of, name, tag="elemwise")


def relu(x: te.Tensor) -> te.Tensor:
    """max(x, 0); NaN stays NaN."""
    return te.compute(x.shape, lambda *i: intrin.max(x(*i), const(0, x.dtype)), "relu", tag="elemwise")


_FAR: Final = 1000.0
"""Beyond ±1000, the activations below are 0 or x; nearer, no step on the way overflows."""
_MINUS_ROOT_HALF: Final = Fraction("-0.707106781186547524400844362104849039")
_TWO_ROOT_TWO_OVER_PI: Final = Fraction("1.59576912160573071175978423973752747")
_TAIL: Final = {"float32": 64, "float64": 600}
"""For x below -64 (-600), e^x is taken in two factors, as it would be subnormal where x · e^x is not."""


def gelu(x: te.Tensor) -> te.Tensor:
    """x · Φ(x) = x/2 · erfc(-x / √2) (Hendrycks & Gimpel 2016)."""
    return _map(x, "gelu", _gelu)


def _gelu(x: PrimExpr) -> PrimExpr:
    # -erfc'(z) / erfc(z) is between z + √(z² + 4/π) and z + √(z² + 2) (Abramowitz & Stegun 7.1.13).
    zero = const(0.0, x.dtype)

    def product(y: PrimExpr, z: Twofold) -> PrimExpr:
        slope = z.high + intrin.sqrt(z.high * z.high + const(4 / math.pi, x.dtype))
        return Select(y < zero, y - y * (slope * z.low), y)  # not of -0, nor of infinity

    near = intrin.min(x, const(_FAR, x.dtype))
    return scaled(
        near, _MINUS_ROOT_HALF, lambda z: let(x * 0.5 * intrin.erfc(z.high), lambda y: product(y, z))
    )


def gelu_tanh(x: te.Tensor) -> te.Tensor:
    """The tanh approximation of gelu, x/2 · (1 + tanh(√(2/π) · (x + 0.044715 x³))), as x · σ(√(8/π) · (…))."""
    cube = _TWO_ROOT_TWO_OVER_PI * Fraction("0.044715")

    def of(v: PrimExpr) -> PrimExpr:
        near = intrin.min(v, const(_FAR, v.dtype))
        return cubic(near, _TWO_ROOT_TWO_OVER_PI, cube, lambda w: _times_sigmoid(v, w.high, w.low))

    return _map(x, "gelu_tanh", of)


def silu(x: te.Tensor) -> te.Tensor:
    """x · σ(x)."""
    return _map(x, "silu", lambda v: _times_sigmoid(v, v, None))


def _times_sigmoid(x: PrimExpr, w: PrimExpr, low: PrimExpr | None) -> PrimExpr:
    """x · σ(w + low), from e^-|w| so that nothing overflows."""
    zero, one = const(0.0, x.dtype), const(1.0, x.dtype)
    shift = _TAIL[x.dtype]
    far = w < const(-shift, x.dtype)

    def quotient(e: PrimExpr) -> PrimExpr:
        rest = Select(far, one, e + one)
        return Select(w >= zero, x, x * e) / rest * Select(far, const(math.exp(-shift), x.dtype), one)

    value = let(intrin.exp(Select(far, const(shift, x.dtype), zero) - intrin.abs(w)), quotient)
    if low is None:
        return value
    return let(value, lambda y: Select(y < zero, y + y * low, y))
