"""Special functions computed by iteration: incomplete gamma functions, zeta, orthogonal polynomials.

They are computed in float64 and rounded to the dtype of the result. Each element is iterated until it has converged, or
as often as its degree says. The expansions are those of the NIST Digital Library of Mathematical Functions (DLMF).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, cast

from .... import op, te
from ....expr import ExprWithOp, ShapeExpr
from ....ir import RelaxExpr
from ....prim import PrimExpr, Var, const, intrin
from ....tir.buffer import Buffer, decl_buffer
from ....tir.stmt import AllocBuffer, BufferStore, LetStmt, SeqStmt, Stmt, While
from ....topi.grad import nested
from ..emitter import Emitter
from ..registry import register
from .special import BERNOULLI, kept, log_gamma, polynomial

Scalars: TypeAlias = Sequence[PrimExpr]
Step: TypeAlias = Callable[[Scalars, Scalars], Sequence[PrimExpr]]
"""Numbers of an element's state, from the state and the element of each operand."""

MOST = 20000
"""Iterations of a series of an incomplete gamma function, which has converged by then at LARGE."""
LARGE = 1e6
"""Parameter of an incomplete gamma function from which on it is computed by an asymptotic expansion."""
EPSILON = 2.0**-53


def _iterated(
    g: Emitter,
    name: str,
    operands: Sequence[RelaxExpr],
    start: Callable[[Scalars], Scalars],
    goes_on: Callable[[Scalars, Scalars], PrimExpr],
    advance: Step,
    result: int,
) -> ExprWithOp:
    """Return a number of the state of each element, after as many steps as `goes_on` says."""

    def computed(*tensors: te.Tensor) -> te.Tensor:
        first = tensors[0]

        def statement(inputs: list[Buffer], outputs: list[Buffer]) -> Stmt:
            loops = [Var(f"i{axis}", "int64") for axis in range(first.ndim)]
            elements = [buffer[tuple(loops)] for buffer in inputs]
            begin = start(elements)
            state = decl_buffer((len(begin),), "float64", "state", scope="local")
            numbers = [state[place] for place in range(len(begin))]
            following = [Var(f"next{place}", "float64") for place in range(len(begin))]
            step: Stmt = SeqStmt(tuple(BufferStore(state, var, place) for place, var in enumerate(following)))
            for var, value in zip(following, advance(numbers, elements), strict=True):
                step = LetStmt(var, value, step)
            body = SeqStmt(
                (
                    *(BufferStore(state, value, place) for place, value in enumerate(begin)),
                    While(goes_on(numbers, elements), step),
                    BufferStore(outputs[0], numbers[result], tuple(loops)),
                )
            )
            return nested(AllocBuffer(state, body), loops, first.shape)

        return te.extern([first.shape], list(tensors), statement, name, ["float64"])[0]

    return cast("ExprWithOp", g.builder.emit_te(computed, *operands, primfunc_name_hint=name))


def _number(value: float) -> PrimExpr:
    return const(float(value), "float64")


def _wide(g: Emitter, *values: Any) -> list[ExprWithOp]:
    """Return operands in float64, rounded to the dtype of the result first, broadcast to its shape."""
    shape = ShapeExpr(g.shape())
    tensors = [g.cast(g.tensor(value, g.out_dtype), "float64") for value in values]
    return [cast("ExprWithOp", g.emit(op.broadcast_to(tensor, shape))) for tensor in tensors]


# ------------------------------------------------------------------------------------- incomplete gamma functions


def _excess(g: Emitter, ratio: ExprWithOp) -> ExprWithOp:
    """Return μ - log(1 + μ) of μ = `ratio`, from its power series where that loses no digits."""
    near = kept(g, op.minimum(op.maximum(ratio, -0.02), 0.02))
    series = polynomial(g, near, [0.0, 0.0, *((-1.0) ** k / k for k in range(2, 12))])
    return kept(g, op.where(op.equal(near, ratio), series, ratio - op.log(ratio + 1.0)))


def _leading(g: Emitter, a: ExprWithOp, x: ExprWithOp, excess: ExprWithOp) -> ExprWithOp:
    """Return x^a e^-x / Γ(a + 1): by Stirling's series (DLMF 5.11.1) for a of at least 10."""
    large = kept(g, op.maximum(a, 10.0))
    inverse = kept(g, 1.0 / large)
    tail = [number / ((2 * k) * (2 * k - 1)) for k, number in enumerate(BERNOULLI, 1)]
    series = polynomial(g, kept(g, inverse * inverse), tail) * inverse
    high = op.exp(-(large * excess) - series) / op.sqrt(large * (2 * math.pi))
    small = kept(g, op.minimum(a, 10.0))
    low = op.exp(small * op.log(x) - x - kept(g, log_gamma(g, kept(g, small + 1.0))))
    return kept(g, op.where(op.less(a, 10.0), low, high))


def _series(g: Emitter, a: ExprWithOp, x: ExprWithOp) -> ExprWithOp:
    """Return Σ x^k / ((a + 1) ... (a + k)) (DLMF 8.7.1) for x of at most a + 1; 1 elsewhere."""

    def goes_on(state: Scalars, at: Scalars) -> PrimExpr:
        count, term, total = state
        return intrin.all(at[1] <= at[0] + 1.0, term > total * EPSILON, count < _number(MOST))

    def advance(state: Scalars, at: Scalars) -> Scalars:
        count, term, total = state
        following = term * at[1] / (at[0] + count + 1.0)
        return [count + 1.0, following, total + following]

    def start(at: Scalars) -> Scalars:
        return [_number(0), _number(1), _number(1)]

    return _iterated(g, "incomplete_gamma_series", [a, x], start, goes_on, advance, 2)


def _fraction(g: Emitter, a: ExprWithOp, x: ExprWithOp) -> ExprWithOp:
    """Return the continued fraction of Γ(a, x) e^x / x^a (DLMF 8.9.2) for x above a + 1, by Lentz's method."""

    def goes_on(state: Scalars, at: Scalars) -> PrimExpr:
        count, change = state[0], state[4]
        return intrin.all(at[1] > at[0] + 1.0, intrin.abs(change - 1.0) > 2 * EPSILON, count < _number(MOST))

    def advance(state: Scalars, at: Scalars) -> Scalars:
        count, total, upper, lower, _ = state
        number = count + 1.0
        numerator = number * (at[0] - number)
        denominator = at[1] + 1.0 - at[0] + number * 2.0
        above = denominator + numerator / upper
        below = _number(1) / (denominator + numerator * lower)
        return [number, total * above * below, above, below, above * below]

    def start(at: Scalars) -> Scalars:
        first = at[1] + 1.0 - at[0]
        inverse = _number(1) / intrin.max(first, _number(1))
        return [_number(0), inverse, _number(1e300), inverse, _number(2)]

    return _iterated(g, "incomplete_gamma_fraction", [a, x], start, goes_on, advance, 1)


def _uniform(g: Emitter, a: ExprWithOp, ratio: ExprWithOp, excess: ExprWithOp, sign: float) -> ExprWithOp:
    """Return Q(a, x), or P(a, x) for the sign -1, for a of at least LARGE (DLMF 8.12.3 and 8.12.4).

    The terms from the second on are below 1e-12.
    """
    eta = kept(g, op.sqrt(excess * 2.0) * op.sign(ratio))
    is_near = op.less(op.abs(eta), 0.01)
    near = polynomial(g, kept(g, op.minimum(op.maximum(eta, -0.01), 0.01)),
                   [-1 / 3, 1 / 12, -2 / 135, 1 / 864, 1 / 2835, -139 / 777600])  # fmt: skip
    first = op.where(is_near, near, 1.0 / op.where(is_near, 1.0, ratio) - 1.0 / op.where(is_near, 1.0, eta))
    weight = op.exp(-(a * excess)) / op.sqrt(a * (2 * math.pi))
    return kept(g, op.erfc(eta * op.sqrt(a * 0.5) * sign) * 0.5 + weight * first * sign)


def _incomplete_gamma(upper: bool) -> Callable[..., RelaxExpr]:
    """Return P(a, x), or Q(a, x) = 1 - P(a, x); NaN where torch has it."""

    def convert(g: Emitter, of: RelaxExpr, at: RelaxExpr) -> RelaxExpr:
        a, x = _wide(g, of, at)
        is_proper = kept(g, op.logical_and(op.logical_and(op.greater(a, 0.0), op.less(a, math.inf)),
                                            op.logical_and(op.greater(x, 0.0), op.less(x, math.inf))))  # fmt: skip
        b, y = (kept(g, op.where(is_proper, value, 1.0)) for value in (a, x))
        ratio = kept(g, (y - b) / b)
        excess = _excess(g, ratio)
        is_large = kept(g, op.greater_equal(b, LARGE))
        c, z = (kept(g, op.where(is_large, 1.0, value)) for value in (b, y))
        leading = _leading(g, b, y, excess)
        below, above = leading * _series(g, c, z), leading * b * _fraction(g, c, z)
        is_above = kept(g, op.greater(y, b + 1.0))
        if upper:
            large = _uniform(g, b, ratio, excess, 1.0)
            finite = op.where(is_above, above, 1.0 - below)
        else:
            large = _uniform(g, b, ratio, excess, -1.0)
            finite = op.where(is_above, 1.0 - above, below)
        proper = op.where(is_large, large, finite)
        whole, nothing = (g.const(value, "float64") for value in ((0, 1) if upper else (1, 0)))
        is_negative = op.logical_or(op.less(a, 0.0), op.less(x, 0.0))
        at_zero = op.where(op.greater(x, 0.0), whole, math.nan)
        is_infinite = op.isinf(a)
        of_infinity = op.where(is_infinite, nothing, math.nan)
        at_infinity = op.where(is_infinite, math.nan, whole)
        infinite = op.where(op.isinf(x), at_infinity, of_infinity)
        improper = op.where(op.equal(a, 0.0), at_zero, op.where(op.equal(x, 0.0), nothing, infinite))
        result = op.where(is_negative, math.nan, op.where(is_proper, proper, improper))
        return g.cast(g.emit(result), g.out_dtype)

    return convert


for _name in ("igamma", "special_gammainc"):
    register(f"aten.{_name}", _incomplete_gamma(False))
for _name in ("igammac", "special_gammaincc"):
    register(f"aten.{_name}", _incomplete_gamma(True))

# ------------------------------------------------------------------------------------- zeta


SHIFT = 10
"""The series of ζ(x, q) is summed term by term up to a q of at least this."""


def zeta(g: Emitter, x: RelaxExpr, q: RelaxExpr) -> RelaxExpr:
    """Hurwitz' ζ(x, q) by the Euler-Maclaurin formula (DLMF 25.11.5): ∞ at its poles, NaN where torch has it."""
    a, b = _wide(g, x, q)
    is_pole = kept(g, op.logical_and(op.less_equal(b, 0.0), op.equal(op.floor(b), b)))
    is_real = op.logical_or(op.greater(b, 0.0), op.equal(op.floor(a), a))
    is_bounded = op.logical_and(op.less(a, math.inf), op.less(op.abs(b), math.inf))
    is_odd = op.logical_or(is_pole, op.less_equal(a, 1.0))
    is_finite = kept(g, op.logical_and(op.logical_and(is_bounded, is_real), op.logical_not(is_odd)))
    s, start = kept(g, op.where(is_finite, a, 2.0)), kept(g, op.where(is_finite, b, 1.0))

    def goes_on(state: Scalars, at: Scalars) -> PrimExpr:
        place, term, total, count = state
        is_smaller = intrin.any(intrin.abs(term) > intrin.abs(total) * EPSILON, place < _number(0))
        return intrin.all(intrin.any(place < _number(SHIFT), count < _number(SHIFT)), is_smaller)

    def advance(state: Scalars, at: Scalars) -> Scalars:
        place, _, total, count = state
        term = intrin.power(place, -at[0])
        return [place + 1.0, term, total + term, count + 1.0]

    def begin(at: Scalars) -> Scalars:
        return [at[1], _number(math.inf), _number(0), _number(0)]

    summed = _iterated(g, "zeta_sum", [s, start], begin, goes_on, advance, 2)
    end = _iterated(g, "zeta_end", [s, start], begin, goes_on, advance, 0)
    power = kept(g, op.power(end, -s))
    tail = end * power / (s - 1.0) + power * 0.5
    factor: ExprWithOp = kept(g, s / end)
    inverse = kept(g, 1.0 / (end * end))
    for k, number in enumerate(BERNOULLI, 1):
        tail = tail + factor * power * (number / math.factorial(2 * k))
        factor = kept(g, factor * (s + float(2 * k - 1)) * (s + float(2 * k)) * inverse)
    is_needed = op.greater(op.abs(power), op.abs(summed) * EPSILON)
    value = op.where(is_needed, summed + tail, summed)
    nan, infinite = g.const(math.nan, "float64"), g.const(math.inf, "float64")
    of_infinity = op.where(op.less(b, 1.0), infinite, op.where(op.equal(b, 1.0), g.const(1, "float64"), nan))
    is_infinite = op.logical_or(op.equal(a, 1.0), op.logical_and(is_pole, op.logical_not(op.less(a, 1.0))))
    improper = op.where(is_infinite, infinite, op.where(op.equal(a, math.inf), of_infinity, nan))
    return g.cast(g.emit(op.where(is_finite, value, improper)), g.out_dtype)


register("aten.special_zeta", zeta)

# ------------------------------------------------------------------------------------- orthogonal polynomials


First: TypeAlias = Callable[[PrimExpr], PrimExpr]
"""The polynomial of the degree 1, of x."""
Following: TypeAlias = Callable[[PrimExpr, PrimExpr, PrimExpr, PrimExpr], PrimExpr]
"""The polynomial of the degree k + 1, from k, x, and those of the degrees k and k - 1."""


def _family(name: str, first: First, following: Following) -> Callable[..., RelaxExpr]:
    """Return the converter of a family: p₀ = 1, p₁ = first(x), pₖ₊₁ = following(k, x, pₖ, pₖ₋₁), 0 below p₀."""

    def convert(g: Emitter, x: RelaxExpr, n: RelaxExpr) -> RelaxExpr:
        at, degree = _wide(g, x, n)

        def start(element: Scalars) -> Scalars:
            is_one = element[1] < _number(1)
            one = intrin.if_then_else(element[1] <= _number(-1), _number(0), _number(1))
            return [_number(1), one, intrin.if_then_else(is_one, one, first(element[0]))]

        def goes_on(state: Scalars, element: Scalars) -> PrimExpr:
            return intrin.all(state[0] + 1.0 <= element[1], state[2].equal(state[2]))

        def advance(state: Scalars, element: Scalars) -> Scalars:
            degree, before, value = state
            return [degree + 1.0, value, following(degree, element[0], value, before)]

        return g.cast(_iterated(g, name, [at, degree], start, goes_on, advance, 2), g.out_dtype)

    return convert


def _turned(x: PrimExpr) -> PrimExpr:
    """The variable of shifted polynomials."""
    return x + x - 1.0


def _chebyshev(k: PrimExpr, x: PrimExpr, p: PrimExpr, before: PrimExpr) -> PrimExpr:
    return (x + x) * p - before


def _shifted(k: PrimExpr, x: PrimExpr, p: PrimExpr, before: PrimExpr) -> PrimExpr:
    return (_turned(x) + _turned(x)) * p - before


_FAMILIES: dict[str, tuple[First, Following]] = {
    "chebyshev_polynomial_t": (lambda x: x, _chebyshev),
    "chebyshev_polynomial_u": (lambda x: x + x, _chebyshev),
    "chebyshev_polynomial_v": (lambda x: x + x - 1.0, _chebyshev),
    "chebyshev_polynomial_w": (lambda x: x + x + 1.0, _chebyshev),
    "shifted_chebyshev_polynomial_t": (_turned, _shifted),
    "shifted_chebyshev_polynomial_u": (lambda x: _turned(x) + _turned(x), _shifted),
    "shifted_chebyshev_polynomial_v": (lambda x: _turned(x) + _turned(x) - 1.0, _shifted),
    "shifted_chebyshev_polynomial_w": (lambda x: _turned(x) + _turned(x) + 1.0, _shifted),
    "hermite_polynomial_h": (lambda x: x + x, lambda k, x, p, q: (x + x) * p - (k + k) * q),
    "hermite_polynomial_he": (lambda x: x, lambda k, x, p, q: x * p - k * q),
    "laguerre_polynomial_l": (
        lambda x: _number(1) - x,
        lambda k, x, p, q: ((k + k + (_number(1) - x)) * p - k * q) / (k + 1.0),
    ),
    "legendre_polynomial_p": (lambda x: x, lambda k, x, p, q: ((k + k + 1.0) * x * p - k * q) / (k + 1.0)),
}

for _name, _rules in _FAMILIES.items():
    register(f"aten.special_{_name}", _family(_name, *_rules))
