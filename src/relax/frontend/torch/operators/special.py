"""Special functions: gamma functions, inverses and tails of the error function, Bessel functions.

They are computed in float64 and rounded to the dtype of the result, so that a float32 is exact to its last digits. The
polynomials are interpolated at Chebyshev points of their intervals, from values of 50 digits (mpmath); the variable of
each is mapped to [-1, 1]. The expansions are those of the NIST Digital Library of Mathematical Functions (DLMF).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, cast

from .... import op, te
from ....expr import ExprWithOp
from ....ir import RelaxExpr
from ....prim import PrimExpr, const, intrin
from ....topi.reduction import scan
from ..emitter import Emitter
from ..registry import converter, register

Function = Callable[[Emitter, ExprWithOp], RelaxExpr]

INF = math.inf

LOG_GAMMA = (
    0.46580963736232694, -0.11513161737597968, 0.0402561232000186, -0.016208382218222628,
    0.0070294409699912415, -0.0031879600555921477, 0.0014887756299293967, -0.0007096266392881128,
    0.00034335906401760963, -0.0001680525791943255, 8.299853550086302e-05, -4.129402992790652e-05,
    2.0672717533440028e-05, -1.0401737475249538e-05, 5.248146968954036e-06, -2.6625182504788153e-06,
    1.3814141208951165e-06, -7.057024267549264e-07, 3.0665817051133664e-07, -1.56857684292128e-07,
    1.6352043842766728e-07, -8.490057647231302e-08, -4.578771546629386e-08, 2.4178504782250734e-08,
    5.50049839600285e-08, -2.8796531330770584e-08, -1.8694975531459512e-08, 9.80474406961826e-09,
    4.864042207975231e-09, -2.5468926169249786e-09,
)  # fmt: skip
"""log Γ(x) / ((x - 1) (x - 2)) for x from 0.75 to 2.5: relative error 2e-16."""

SCALED_TAIL = (
    1.2375126308378275, -0.14024059858554702, 0.003585415485463652, 0.0822767384901511,
    -0.10880393014170497, 0.09230432116019581, -0.05869339859061101, 0.028362277421556188,
    -0.009746579546772877, 0.0017556258320574729, 0.0002937135880316984, -0.00029015397728117225,
    5.1649442877311626e-05, 2.2383904876445646e-05, -1.1445172561420112e-05, -9.728327812064796e-07,
    1.753745843453635e-06, -5.828827783766716e-08, -2.6166884528581574e-07, 2.431232515000242e-08,
    4.1602904023333066e-08, -4.395643933011148e-09, -7.0705951743345486e-09, 5.366153829724437e-10,
    1.187560812244071e-09, -2.60179937204658e-11, -1.647059420509794e-10, -5.474680209802051e-12,
    1.3044442522753113e-11, 1.0025828126770392e-12,
)  # fmt: skip
"""(1 + 2x) e^(x²) erfc(x) for x ≥ 0, in (x - 3.75) / (x + 3.75): relative error 3e-16."""

TAIL_NEAR = (
    0.9137205300158354, 0.022917069961404832, -0.004786226503864488, 0.00021071423261911129,
    0.00031994285403863255, -0.00011819171666214396, -5.126537926288989e-06, 1.2585895693252243e-05,
)  # fmt: skip
"""x / s in w = s² = -log(q (2 - q)) from 0 to 6, where q = erfc(x): relative error 3e-8."""

TAIL_FAR = (
    0.9655493447868602, -0.03749706072627827, 0.0010184796588549073, 0.004265329677198854,
    -0.0012498611726685083, 0.0003183583734097617, -0.00011881563471829979, 2.6473626103963314e-05,
    -0.00011655219348565288, 5.006953854390531e-05, 6.827885087504265e-05, -2.395398720376269e-05,
    -3.988435168072857e-05, 2.1065722829304196e-05,
)  # fmt: skip
"""x / s in 1 / s for s from √6 to 28, as of TAIL_NEAR: relative error 8e-9."""

BESSEL_0_FAR = (
    0.4006368487838702, 0.001728082560688879, 3.4788161993713114e-05, 1.348063624305992e-06,
    8.002455642522293e-08, 6.566417116076791e-09, 7.035666836656336e-10, 9.507185896917757e-11,
    1.584980970914488e-11, 3.2210981463867893e-12, 7.956602534407173e-13, 2.277988294092869e-13,
    7.468301345546272e-14, 5.2136757523633035e-14, 4.269268839881977e-14, 7.682120248813676e-15,
    -1.1436514521452284e-14, -5.130448079883993e-15,
)  # fmt: skip
"""√x e^-x I₀(x) in 1 / x for x ≥ 15: relative error 1e-16."""

BESSEL_1_FAR = (
    0.39390196521878273, -0.005095524343232612, -5.6968996702219416e-05, -1.8537002679571078e-06,
    -1.0101756021737527e-07, -7.876225747718787e-09, -8.156130846093309e-10, -1.0754492197555751e-10,
    -1.7599326632546185e-11, -3.52427084676972e-12, -8.60339268511851e-13, -2.442536812693836e-13,
    -7.885772412288827e-14, -5.4202623712094345e-14, -4.4943104251010705e-14, -8.497914561902087e-15,
    1.1877066558192635e-14, 5.400937260949048e-15,
)  # fmt: skip
"""√x e^-x I₁(x) in 1 / x for x ≥ 15: relative error 1e-16."""

PHASE_COSINE_0 = (
    0.9994572757882519, -0.0005363673192130033, 6.137416080111143e-06, -2.052744816021978e-07,
    1.2803761421389911e-08, -1.2121178913027262e-09, 1.5500573849457377e-10, -2.4883792349430343e-11,
    4.786833648457065e-12, -1.061860361827791e-12, 2.454626647456918e-13, -6.563491590174781e-14,
    3.334599531685773e-14, -1.1346926815291663e-14,
)  # fmt: skip
"""The factor P of J = √(2/πx) (P cos χ - Q sin χ) for the order 0, in 1 / x², x ≥ 8 (DLMF 10.17.3), error 1e-16."""

PHASE_SINE_0 = (
    -0.12444091103610816, 0.0005466519279475136, -1.1817110660731776e-05, 5.684971885449538e-07,
    -4.534973594868882e-08, 5.146228618919075e-09, -7.575872758461843e-10, 1.362452803693964e-10,
    -2.88387465828897e-11, 6.934511868227323e-12, -1.6798068504524111e-12, 4.743918565467509e-13,
    -2.729058891731019e-13, 9.756113507128432e-14,
)  # fmt: skip
"""The factor x Q for the order 0, in 1 / x², x ≥ 8 (DLMF 10.17.3), error 1e-16."""

PHASE_COSINE_1 = (
    1.0009070262780821, 0.0008988049416705564, -7.95969469844003e-06, 2.453676622679369e-07,
    -1.4708512970871809e-08, 1.3603054724512454e-09, -1.713108363257052e-10, 2.7205216071451606e-11,
    -5.190987549128526e-12, 1.1443000350441976e-12, -2.635099411586755e-13, 7.019004954768849e-14,
    -3.5404613525657416e-14, 1.2012721775449965e-14,
)  # fmt: skip
"""The factor P of J = √(2/πx) (P cos χ - Q sin χ) for the order 1, in 1 / x², x ≥ 8 (DLMF 10.17.3), error 1e-16."""

PHASE_SINE_1 = (
    0.3742149922195918, -0.0007697167057643569, 1.456961480935691e-05, -6.633568564937367e-07,
    5.1361067953963376e-08, -5.720887751116045e-09, 8.315594957016384e-10, -1.481767246888408e-10,
    3.114226481045957e-11, -7.446940085047187e-12, 1.798464167692092e-12, -5.061753256584603e-13,
    2.8910711721761855e-13, -1.0308138671963011e-13,
)  # fmt: skip
"""The factor x Q for the order 1, in 1 / x², x ≥ 8 (DLMF 10.17.3), error 1e-16."""

CENTRE = (
    0.9174083670082358, 0.03356743029149362, 0.0026140287536472458, 0.00025227493287004047,
    2.696997823340859e-05, 3.0628576198699783e-06, 3.731459760410881e-07, 4.5390458227845045e-08,
)  # fmt: skip
"""erfinv(y) / y in y² from 0 to 0.25: relative error 2e-9."""

EULER = 0.5772156649015329
"""Euler's constant, -ψ(1)."""

BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798, -174611 / 330)
"""Bernoulli numbers B₂, B₄, ..., B₂₀ of asymptotic expansions."""

# ------------------------------------------------------------------------------------- parts of formulas


def kept(g: Emitter, x: RelaxExpr) -> ExprWithOp:
    """Return an expression as a variable, to be read several times."""
    return cast("ExprWithOp", g.emit(x))


def polynomial(g: Emitter, x: ExprWithOp, coefficients: Sequence[float]) -> ExprWithOp:
    """Return the polynomial of these coefficients, that of x⁰ first."""
    result: ExprWithOp = x * coefficients[-1]
    for coefficient in reversed(coefficients[1:-1]):
        result = (result + coefficient) * x
    return kept(g, result + coefficients[0])


def _on(g: Emitter, x: ExprWithOp, low: float, high: float, coefficients: Sequence[float]) -> ExprWithOp:
    """Return the polynomial that is fitted on an interval; x outside of it is moved to its nearer end."""
    inside = op.minimum(op.maximum(x, low), high)
    return polynomial(g, kept(g, (inside - (low + high) / 2) * (2 / (high - low))), coefficients)


def _sine_of_turns(g: Emitter, x: ExprWithOp) -> tuple[ExprWithOp, ExprWithOp]:
    """Return sin πx and cos πx but for a common sign, exact near whole numbers."""
    angle = kept(g, (x - op.round(x)) * math.pi)
    return kept(g, op.sin(angle)), kept(g, op.cos(angle))


def _is_pole(g: Emitter, x: ExprWithOp) -> ExprWithOp:
    """True for 0 and negative whole numbers, at which gamma functions have poles."""
    return kept(g, op.logical_and(op.less_equal(x, 0.0), op.equal(op.floor(x), x)))


def _in_float64(function: Function) -> Callable[..., RelaxExpr]:
    """Return the converter of a function of one tensor that is computed in float64."""

    def convert(g: Emitter, x: RelaxExpr) -> RelaxExpr:
        return g.cast(g.emit(function(g, _wide(g, x))), g.out_dtype)

    return convert


def _wide(g: Emitter, x: Any) -> ExprWithOp:
    """Return an operand in float64, rounded to the dtype of the result first."""
    return cast("ExprWithOp", g.cast(g.tensor(x, g.out_dtype), "float64"))


# ------------------------------------------------------------------------------------- gamma functions


def log_gamma(g: Emitter, x: ExprWithOp) -> RelaxExpr:
    """log |Γ(x)|: Stirling's series (DLMF 5.11.1) from 8.5 on, recurrence below, reflection (5.5.3) of negative x."""
    is_negative = kept(g, op.less(x, 0.0))
    a = kept(g, op.where(is_negative, 1.0 - x, x))
    is_low = op.less(a, 0.75)
    near = kept(g, op.where(is_low, a + 1.0, a))
    low = _on(g, near, 0.75, 2.5, LOG_GAMMA) * (near - 1.0) * (near - 2.0) - op.where(is_low, op.log(a), 0.0)
    is_middle = kept(g, op.less(a, 8.5))
    product: ExprWithOp = a
    for step in range(1, 6):
        product = product * (a + float(step))
    y = kept(g, op.where(is_middle, a + 6.0, a))
    inverse = kept(g, 1.0 / y)
    tail = [number / ((2 * k) * (2 * k - 1)) for k, number in enumerate(BERNOULLI, 1)]
    series = polynomial(g, kept(g, inverse * inverse), tail) * inverse
    stirling = (y - 0.5) * (op.log(y) - 1.0) + (0.5 * math.log(2 * math.pi) - 0.5) + series
    high = stirling - op.where(is_middle, op.log(op.where(is_middle, product, 1.0)), 0.0)
    positive = kept(g, op.where(op.less(a, 2.5), low, high))
    sine, _ = _sine_of_turns(g, x)
    reflected = math.log(math.pi) - op.log(op.abs(sine)) - positive
    finite = op.where(op.logical_or(_is_pole(g, x), op.isinf(x)), INF, op.where(is_negative, reflected, positive))
    return finite


register("aten.lgamma", _in_float64(log_gamma))


def digamma(g: Emitter, x: ExprWithOp) -> RelaxExpr:
    """The derivative of log Γ(x): ∓∞ at ±0, NaN at negative whole numbers."""
    value = _polygamma(g, 0, x)
    return op.where(op.equal(x, 0.0), -1.0 / x, op.where(_is_pole(g, x), math.nan, value))


register("aten.digamma", _in_float64(digamma))


@converter("aten.polygamma")
def polygamma(g: Emitter, n: int, x: RelaxExpr) -> RelaxExpr:
    """The derivative n + 1 of log Γ(x), infinite at its poles."""
    if not 0 <= n <= 20:
        raise g.error(f"polygamma of the order {n}", hint="pass an order from 0 to 20")
    wide = _wide(g, x)
    if n == 0:
        return g.cast(g.emit(digamma(g, wide)), g.out_dtype)
    pole = op.where(_is_pole(g, wide), INF if n % 2 else -INF, _polygamma(g, n, wide))
    return g.cast(g.emit(pole), g.out_dtype)


def _polygamma(g: Emitter, n: int, x: ExprWithOp) -> ExprWithOp:
    """The derivative n + 1 of log Γ(x) off its poles; of negative x by reflection (DLMF 5.15.6)."""
    is_negative = kept(g, op.less(x, 0.0))
    positive = kept(g, _polygamma_of_positive(g, n, kept(g, op.where(is_negative, 1.0 - x, x))))
    sine, cosine = _sine_of_turns(g, x)
    cotangent = kept(g, cosine / sine)
    slope = [0.0, 1.0]  # π^n times this polynomial of the cotangent is its derivative n
    for _ in range(n):
        derived = [k * c for k, c in enumerate(slope)][1:]
        slope = [-c for c in derived] + [0.0, 0.0]
        for k, c in enumerate(derived):
            slope[k + 2] -= c
    turned = polynomial(g, cotangent, slope) * math.pi ** (n + 1)
    return op.where(is_negative, (positive if n % 2 == 0 else -positive) - turned, positive)


def _polygamma_of_positive(g: Emitter, n: int, x: ExprWithOp) -> ExprWithOp:
    """By recurrence (DLMF 5.15.5) to an argument of at least 10 + n, then asymptotically (5.11.2, 5.15.8)."""
    count, factorial = 10 + n, float(math.factorial(n))
    is_small = kept(g, op.less(x, float(count)))
    before = _power(g, kept(g, 1.0 / x), n + 1)
    for step in range(1, count):
        before = before + _power(g, kept(g, 1.0 / (x + float(step))), n + 1)
    y = kept(g, op.where(is_small, x + float(count), x))
    inverse = kept(g, 1.0 / y)
    square = kept(g, inverse * inverse)
    terms = [b * math.factorial(2 * k + n - 1) / math.factorial(2 * k) for k, b in enumerate(BERNOULLI, 1)]
    series = polynomial(g, square, terms) * square + inverse * (factorial / 2)
    first = _power(g, inverse, n) * (series + math.factorial(n - 1)) if n else series - op.log(y)
    total = first + op.where(is_small, before * factorial, 0.0)
    return total if n % 2 else -total


def _power(g: Emitter, x: ExprWithOp, exponent: int) -> ExprWithOp:
    """Return a product of equal factors, at least one."""
    result = x
    for _ in range(exponent - 1):
        result = result * x
    return kept(g, result)


# ------------------------------------------------------------------------------------- the error function


def _inverse_of_erf(g: Emitter, y: ExprWithOp, q: ExprWithOp) -> ExprWithOp:
    """The x of which erf(x) is y and erfc(|x|) is q = 1 - |y|: q is read where |y| > 1/2, and y elsewhere.

    A polynomial near the result, and one step of Halley's method, which cubes the relative error.
    """
    a = kept(g, op.abs(y))
    is_centre = kept(g, op.less_equal(a, 0.5))
    s = kept(g, op.sqrt(-op.log(q * (2.0 - q))))
    near, far = _on(g, kept(g, s * s), 0.0, 6.0, TAIL_NEAR), _on(g, kept(g, 1.0 / s), 1 / 28, 6**-0.5, TAIL_FAR)
    tail = s * op.where(op.less(s, math.sqrt(6.0)), near, far)
    x = kept(g, op.where(is_centre, a * _on(g, kept(g, a * a), 0.0, 0.25, CENTRE), tail))
    excess = op.where(is_centre, op.erf(x) - a, q - op.erfc(x))
    step = kept(g, excess / (op.exp(-(x * x)) * (2 / math.sqrt(math.pi))))
    found = x - step / (1.0 + x * step)
    size = op.where(op.equal(q, 0.0), INF, op.where(op.less(q, 0.0), math.nan, found))
    return op.where(op.less(y, 0.0), -size, size)


def erfinv(g: Emitter, x: ExprWithOp) -> RelaxExpr:
    """The inverse of erf; NaN outside of [-1, 1]."""
    return _inverse_of_erf(g, x, kept(g, 1.0 - op.abs(x)))


def ndtri(g: Emitter, p: ExprWithOp) -> RelaxExpr:
    """The inverse of the normal distribution's cumulative function; NaN outside of [0, 1]."""
    q = kept(g, op.minimum(p, 1.0 - p) * 2.0)
    return _inverse_of_erf(g, kept(g, p * 2.0 - 1.0), q) * math.sqrt(2.0)


def erfcx(g: Emitter, x: ExprWithOp) -> RelaxExpr:
    """e^(x²) erfc(x); of negative x by 2 e^(x²) - erfcx(-x), with the square in two parts, as the rest is rounded."""
    a = kept(g, op.abs(x))
    positive = kept(g, polynomial(g, kept(g, 1.0 - 7.5 / (a + 3.75)), SCALED_TAIL) / (a * 2.0 + 1.0))
    b = kept(g, op.minimum(a, 30.0))
    head = kept(g, op.floor(b * 16.0) / 16.0)
    power = op.exp(head * head) * op.exp((b - head) * (b + head))
    return op.where(op.less(x, 0.0), power * 2.0 - positive, positive)


def log_ndtr(g: Emitter, x: ExprWithOp) -> RelaxExpr:
    """The logarithm of the normal distribution's cumulative function; far below 0 from erfcx, which does not vanish."""
    y = kept(g, x * -(0.5**0.5))
    low = op.log(kept(g, erfcx(g, y)) * 0.5) - y * y
    rest = kept(g, op.erfc(-y) * -0.5)  # log(1 + rest) as elementwise.log1p computes it
    above = kept(g, rest + 1.0)
    exact = op.where(
        op.equal(above, 1.0), rest, op.log(above) * rest / op.where(op.equal(above, 1.0), 1.0, above - 1.0)
    )
    return op.where(op.less(x, -1.0), low, op.where(op.less(x, 0.0), op.log(op.erfc(y) * 0.5), exact))


for _name, _function in {
    "erfinv": erfinv,
    "special_ndtri": ndtri,
    "special_erfcx": erfcx,
    "special_log_ndtr": log_ndtr,
}.items():
    register(f"aten.{_name}", _in_float64(_function))

# ------------------------------------------------------------------------------------- modified Bessel functions


def _bessel(order: int, scaled: bool) -> Function:
    """Return I₀ or I₁, times e^-|x| if it is scaled: a power series (DLMF 10.25.2) up to 15, a polynomial beyond."""
    coefficients = [1 / (math.factorial(k) * math.factorial(k + order)) for k in range(32)]

    def function(g: Emitter, x: ExprWithOp) -> RelaxExpr:
        a = kept(g, op.abs(x))
        is_near = op.less(a, 15.0)
        b = kept(g, op.minimum(a, 15.0))
        near = polynomial(g, kept(g, b * b * 0.25), coefficients)
        near = near * b * 0.5 if order else near
        c = kept(g, op.maximum(a, 15.0))
        far = _on(g, kept(g, 1.0 / c), 0.0, 1 / 15, BESSEL_1_FAR if order else BESSEL_0_FAR) / op.sqrt(c)
        if scaled:
            result = op.where(is_near, near * op.exp(-b), far)
        else:
            half = kept(g, op.exp(op.minimum(c, 3000.0) * 0.5))  # I₀ overflows later than e^x
            result = op.where(is_near, near, op.where(op.isinf(a), INF, far * half * half))
        return op.where(op.less(x, 0.0), -kept(g, result), result) if order else result

    return function


for _name, _order, _scaled in (("i0", 0, False), ("special_i0e", 0, True), ("special_i1", 1, False)):
    register(f"aten.{_name}", _in_float64(_bessel(_order, _scaled)))
register("aten.special_i1e", _in_float64(_bessel(1, True)))
register("aten.special_modified_bessel_i0", _in_float64(_bessel(0, False)))
register("aten.special_modified_bessel_i1", _in_float64(_bessel(1, False)))

# ------------------------------------------------------------------------------------- Bessel functions


def _bessel_near(g: Emitter, order: int, x: ExprWithOp, second: bool) -> ExprWithOp:
    """J or Y for x of at most 8 by power series (DLMF 10.2.2, 10.8.1), which lose three digits at 8."""
    quarter = kept(g, x * x * 0.25)
    first = [(-1.0) ** k / (math.factorial(k) * math.factorial(k + order)) for k in range(30)]
    half = kept(g, x * 0.5)
    j = polynomial(g, quarter, first)
    j = kept(g, j * half) if order else j
    if not second:
        return j
    sums = [sum(1 / step for step in range(1, k + 1)) - EULER for k in range(31)]  # ψ(k + 1)
    terms = [c * (sums[k] + sums[k + order]) for k, c in enumerate(first)]
    rest = polynomial(g, quarter, terms)
    logarithm = op.log(half) * j * 2.0
    return kept(g, (logarithm - rest * half - 1.0 / half if order else logarithm - rest) * (1 / math.pi))


def _bessel_far(g: Emitter, order: int, x: ExprWithOp, second: bool) -> ExprWithOp:
    """J or Y for x of at least 8 by the amplitudes of a cosine and a sine, of x less an odd part of π / 4."""
    square = kept(g, 1.0 / (x * x))
    p = _on(g, square, 0.0, 1 / 64, PHASE_COSINE_1 if order else PHASE_COSINE_0)
    q = kept(g, _on(g, square, 0.0, 1 / 64, PHASE_SINE_1 if order else PHASE_SINE_0) / x)
    sine, cosine = kept(g, op.sin(x)), kept(g, op.cos(x))
    plus, minus = kept(g, sine + cosine), kept(g, sine - cosine)
    of_cosine, of_sine = (minus, -plus) if order else (plus, minus)  # √2 times those of the angle
    wave = p * of_sine + q * of_cosine if second else p * of_cosine - q * of_sine
    return kept(g, wave / op.sqrt(x * math.pi))


def _oscillating_bessel(order: int, second: bool) -> Function:
    """Return J₀, J₁, Y₀ or Y₁; Y is -∞ at 0 and NaN below, and all are NaN at infinity as torch has them."""

    def function(g: Emitter, x: ExprWithOp) -> RelaxExpr:
        a = kept(g, op.abs(x))
        near = _bessel_near(g, order, kept(g, op.minimum(a, 8.0)), second)
        result = op.where(op.less(a, 8.0), near, _bessel_far(g, order, kept(g, op.maximum(a, 8.0)), second))
        if second:
            return op.where(op.equal(x, 0.0), -INF, op.where(op.less(x, 0.0), math.nan, result))
        return op.where(op.less(x, 0.0), -kept(g, result), result) if order else result

    return function


for _order in (0, 1):
    register(f"aten.special_bessel_j{_order}", _in_float64(_oscillating_bessel(_order, False)))
    register(f"aten.special_bessel_y{_order}", _in_float64(_oscillating_bessel(_order, True)))


# ------------------------------------------------------------------------------------- running sums


@converter("aten.logcumsumexp")
def logcumsumexp(g: Emitter, x: RelaxExpr, dim: int) -> RelaxExpr:
    """The logarithm of running sums of e^x, each from the one before, which neither overflows nor loses small ones."""
    if not g.ndim(x):
        return x
    axis = g.axis(dim, g.ndim(x))

    def running(data: te.Tensor) -> te.Tensor:
        return scan(data, axis, "float64", False, "logcumsumexp", const(-INF, "float64"), _log_of_sum)

    return g.cast(g.builder.emit_te(running, _wide(g, x), primfunc_name_hint="logcumsumexp"), g.out_dtype)


def _log_of_sum(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """Return log(e^a + e^b); of two equal infinities, that."""
    great, distance = intrin.max(a, b), intrin.abs(a - b)
    total = great + intrin.log1p(intrin.exp(-distance))
    is_nan = intrin.any(intrin.isnan(a), intrin.isnan(b))
    return intrin.if_then_else(intrin.all(a.equal(b), intrin.isinf(a)), a, intrin.if_then_else(is_nan, a + b, total))
