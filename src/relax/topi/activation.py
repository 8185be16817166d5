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
from .broadcast import read_broadcast
from .twofold import Twofold, cubic, let, scaled
from .util import accumulator_dtype, normalize_axis

Scalar = Callable[[PrimExpr], PrimExpr]


def _map(x: te.Tensor, name: str, function: Scalar) -> te.Tensor:
    """Apply `function` to each element, in the accumulator dtype.

    The argument is max(x, -1000), so that the value at -∞ is the limit 0, not -∞ · 0.
    """
    wide = accumulator_dtype(x.dtype)

    def of(*i: Any) -> PrimExpr:
        return let(intrin.max(x(*i).astype(wide), const(-_FAR, wide)), function).astype(x.dtype)

    return te.compute(x.shape, of, name, tag="elemwise")


def relu(x: te.Tensor) -> te.Tensor:
    """max(x, 0); NaN stays NaN."""
    return te.compute(x.shape, lambda *i: intrin.max(x(*i), const(0, x.dtype)), "relu", tag="elemwise")


_FAR: Final = 1000.0
"""Bound beyond which the activations below are 0 or x; no intermediate overflows within ±1000."""
_MINUS_ROOT_HALF: Final = Fraction("-0.707106781186547524400844362104849039")
_TWO_ROOT_TWO_OVER_PI: Final = Fraction("1.59576912160573071175978423973752747")
_TAIL: Final = {"float32": (80, 40), "float64": (640, 320)}
"""(limit, shift): for x < -limit, e^x is computed as e^(x + shift) · e^-shift, as it would be subnormal where x · e^x
is not. Both factors are normal, and e^(x + shift) is negligible beside 1.
"""


def gelu(x: te.Tensor) -> te.Tensor:
    """x · Φ(x) = x/2 · erfc(-x / √2) (Hendrycks & Gimpel 2016)."""
    return _map(x, "gelu", _gelu)


def _gelu(x: PrimExpr) -> PrimExpr:
    zero = const(0.0, x.dtype)

    def product(y: PrimExpr, z: Twofold) -> PrimExpr:
        return Select(y < zero, y - y * (_slope(z.high) * z.low), y)  # not of -0, nor of infinity

    near = intrin.min(x, const(_FAR, x.dtype))
    return scaled(near, _MINUS_ROOT_HALF, lambda z: let(x * 0.5 * intrin.erfc(z.high), lambda y: product(y, z)))


def _slope(z: PrimExpr) -> PrimExpr:
    """-erfc'(z) / erfc(z) for positive z.

    Lies between z + √(z² + 4/π) and z + √(z² + 2) (Abramowitz & Stegun 7.1.13). In float32, where z < 11, an error of
    0.7 / z costs a third of a unit in the last place, so 2z + 0.1 suffices.
    """
    if z.dtype == "float32":
        return z * const(2.0, z.dtype) + const(0.1, z.dtype)
    return z + intrin.sqrt(z * z + const(4 / math.pi, z.dtype))


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
    """x · σ(w + low), computed from e^-|w|, which cannot overflow."""
    zero, one = const(0.0, x.dtype), const(1.0, x.dtype)
    limit, shift = _TAIL[x.dtype]
    far = w < const(-limit, x.dtype)

    def quotient(e: PrimExpr) -> PrimExpr:
        return Select(w >= zero, x, x * e) / (e + one) * Select(far, const(math.exp(-shift), x.dtype), one)

    value = let(intrin.exp(Select(far, const(shift, x.dtype), zero) - intrin.abs(w)), quotient)
    if low is None:
        return value
    return let(value, lambda y: Select(y < zero, y + y * low, y))


def _elementwise(x: te.Tensor, name: str, function: Scalar) -> te.Tensor:
    """Apply `function` to each element, in the accumulator dtype."""
    wide = accumulator_dtype(x.dtype)
    return te.compute(x.shape, lambda *i: let(x(*i).astype(wide), function).astype(x.dtype), name, tag="elemwise")


def relu6(x: te.Tensor) -> te.Tensor:
    """min(max(x, 0), 6); NaN stays NaN."""
    zero, six = const(0, x.dtype), const(6, x.dtype)
    return te.compute(x.shape, lambda *i: intrin.min(intrin.max(x(*i), zero), six), "relu6", tag="elemwise")


def leaky_relu(x: te.Tensor, alpha: float) -> te.Tensor:
    """x where it is positive, alpha · x elsewhere."""
    return _elementwise(x, "leaky_relu", lambda v: Select(v > const(0, v.dtype), v, v * const(alpha, v.dtype)))


def prelu(x: te.Tensor, alpha: te.Tensor, axis: int = 1) -> te.Tensor:
    """x where it is positive, slope · x elsewhere.

    Slopes with one dimension lie along `axis`, others broadcast to x.
    """
    until = normalize_axis(axis, x.ndim) + 1 if alpha.ndim == 1 else x.ndim

    def of(*i: Any) -> PrimExpr:
        slope = read_broadcast(alpha, x.shape[:until], i[:until])
        return let(x(*i), lambda v: Select(v > const(0, v.dtype), v, v * slope))

    return te.compute(x.shape, of, "prelu", tag="broadcast")


def softplus(x: te.Tensor, beta: float = 1.0, threshold: float = 20.0) -> te.Tensor:
    """log(1 + e^(beta · x)) / beta; x where beta · x is above the threshold."""

    def of(v: PrimExpr) -> PrimExpr:
        factor, limit, zero = const(beta, v.dtype), const(threshold, v.dtype), const(0, v.dtype)

        def curve(w: PrimExpr) -> PrimExpr:
            value = intrin.max(w, zero) + intrin.log1p(intrin.exp(-intrin.abs(w)))
            return Select(w > limit, v, value / factor)

        return let(v * factor, curve)

    return _elementwise(x, "softplus", of)


_SELU_ALPHA: Final = 1.6732632423543772
_SELU_SCALE: Final = 1.0507009873554805


def selu(x: te.Tensor) -> te.Tensor:
    """scale · x where x is positive, scale · alpha · (e^x - 1) elsewhere (Klambauer et al. 2017).

    e^x - 1 is computed as tanh(x / 2) · (e^x + 1), which avoids cancellation near 0.
    """

    def of(v: PrimExpr) -> PrimExpr:
        low = intrin.min(v, const(0, v.dtype))
        below = intrin.tanh(low * 0.5) * (intrin.exp(low) + const(1, v.dtype))
        return Select(v > const(0, v.dtype), v * _SELU_SCALE, below * (_SELU_SCALE * _SELU_ALPHA))

    return _elementwise(x, "selu", of)
