"""Element-wise operators: arithmetic, comparisons, functions, activations, conversions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .... import op
from ....expr import ShapeExpr
from ....ir import DataType, RelaxExpr
from ....prim import PrimExpr
from ..emitter import Emitter
from ..registry import converter, register

Binary = Callable[[RelaxExpr, RelaxExpr], RelaxExpr]
Unary = Callable[[RelaxExpr], RelaxExpr]

# ------------------------------------------------------------------------------------- arithmetic


def _arithmetic(function: Binary, of_bools: Binary | None = None) -> Callable[..., RelaxExpr]:
    """An operator whose operands have the dtype of its result."""

    def convert(g: Emitter, a: Any, b: Any) -> RelaxExpr:
        if g.out_dtype == "bool" and of_bools is not None:
            return of_bools(g.tensor(a), g.tensor(b))
        return function(g.tensor(a, g.out_dtype), g.tensor(b, g.out_dtype))

    return convert


def _compared(function: Binary) -> Callable[..., RelaxExpr]:
    """An operator whose operands are promoted, and whose result is bool."""

    def convert(g: Emitter, a: Any, b: Any) -> RelaxExpr:
        return function(*g.promoted(a, b))

    return convert


for _name, _function in {
    "bitwise_and": op.bitwise_and,
    "bitwise_or": op.bitwise_or,
    "bitwise_xor": op.bitwise_xor,
    "bitwise_left_shift": op.left_shift,
    "bitwise_right_shift": op.right_shift,
    "__and__": op.bitwise_and,
    "__or__": op.bitwise_or,
    "__xor__": op.bitwise_xor,
    "__lshift__": op.left_shift,
    "__rshift__": op.right_shift,
    "logaddexp": op.log_add_exp,
}.items():
    register(f"aten.{_name}", _arithmetic(_function))

register("aten.mul", _arithmetic(op.multiply, op.logical_and))
register("aten.maximum", _arithmetic(op.maximum, op.logical_or))
register("aten.minimum", _arithmetic(op.minimum, op.logical_and))

for _name, _function in {
    "eq": op.equal,
    "ne": op.not_equal,
    "lt": op.less,
    "le": op.less_equal,
    "gt": op.greater,
    "ge": op.greater_equal,
}.items():
    register(f"aten.{_name}", _compared(_function))


def _logical(function: Callable[..., RelaxExpr]) -> Callable[..., RelaxExpr]:
    def convert(g: Emitter, *operands: RelaxExpr) -> RelaxExpr:
        return function(*(_truth(g, x) for x in operands))

    return convert


def _truth(g: Emitter, x: RelaxExpr) -> RelaxExpr:
    """True where an element is not 0."""
    return x if g.dtype(x).is_bool else g.emit(op.not_equal(x, g.const(0, str(g.dtype(x)))))


for _name, _function in {
    "logical_and": op.logical_and,
    "logical_or": op.logical_or,
    "logical_xor": op.logical_xor,
    "logical_not": op.logical_not,
}.items():
    register(f"aten.{_name}", _logical(_function))


def _scaled(g: Emitter, x: Any, alpha: Any) -> RelaxExpr:
    """An operand times a number, in the dtype of the result."""
    is_float = DataType(g.out_dtype).is_float
    if isinstance(alpha, bool) or (isinstance(alpha, float) and not is_float):
        hint = f"pass {'a number' if is_float else 'an integer'}"
        raise g.error(f"the factor {alpha} does not fit the result of {g.out_dtype}", hint=hint)
    tensor = g.tensor(x, g.out_dtype)
    return tensor if alpha == 1 else op.multiply(tensor, g.tensor(alpha, g.out_dtype))


@converter("aten.add")
def add(g: Emitter, a: Any, b: Any, alpha: Any = 1) -> RelaxExpr:
    if g.out_dtype == "bool":
        if isinstance(alpha, float):
            raise g.error(f"the factor {alpha} does not fit the result of bool", hint="pass True or False")
        return op.logical_or(g.tensor(a), g.tensor(b, "bool")) if alpha else g.tensor(a)
    return op.add(g.tensor(a, g.out_dtype), _scaled(g, b, alpha))


@converter("aten.sub", "aten.subtract")
def sub(g: Emitter, a: Any, b: Any, alpha: Any = 1) -> RelaxExpr:
    if any(g.dtype(x).is_bool if isinstance(x, RelaxExpr) else isinstance(x, bool) for x in (a, b)):
        raise g.error("an operand of a difference is a bool", hint="use logical_not or logical_xor, or convert it")
    return op.subtract(g.tensor(a, g.out_dtype), _scaled(g, b, alpha))


@converter("aten.rsub")
def rsub(g: Emitter, a: Any, b: Any, alpha: Any = 1) -> RelaxExpr:
    return sub(g, b, a, alpha)


@converter("aten.div", "aten.divide", "aten.true_divide")
def div(g: Emitter, a: Any, b: Any, rounding_mode: str | None = None) -> RelaxExpr:
    if rounding_mode is None:
        return op.divide(g.tensor(a, g.out_dtype), g.tensor(b, g.out_dtype))
    dividend, divisor = g.tensor(a, g.out_dtype), g.tensor(b, g.out_dtype)
    if rounding_mode == "floor":
        return op.floor_divide(dividend, divisor)
    quotient = op.divide(dividend, divisor)
    if DataType(g.out_dtype).is_float:
        return op.trunc(quotient)
    remainder = g.emit(op.mod(dividend, divisor))  # of the sign of the dividend
    return op.floor_divide(op.subtract(dividend, remainder), divisor)


@converter("aten.floor_divide")
def floor_divide(g: Emitter, a: Any, b: Any) -> RelaxExpr:
    return div(g, a, b, "floor")


register("aten.remainder", _arithmetic(op.floor_mod))
register("aten.fmod", _arithmetic(op.mod))


@converter("aten.pow")
def power(g: Emitter, base: Any, exponent: Any) -> RelaxExpr:
    """Powers that are products are written as such, as torch computes them."""
    if isinstance(base, RelaxExpr) and exponent in (1, 2, 3, -1, -2, 0.5, -0.5):
        x = g.tensor(base, g.out_dtype)
        is_float = DataType(g.out_dtype).is_float
        match exponent:
            case 1:
                return x
            case 2:
                return op.multiply(x, x)
            case 3:
                return op.multiply(op.multiply(x, x), x)
            case 0.5 if is_float:
                return op.sqrt(x)
            case -0.5 if is_float:
                return op.divide(g.const(1, g.out_dtype), op.sqrt(x))
            case -1 if is_float:
                return op.divide(g.const(1, g.out_dtype), x)
            case -2 if is_float:
                return op.divide(g.const(1, g.out_dtype), op.multiply(x, x))
            case _:
                pass
    return op.power(g.tensor(base, g.out_dtype), g.tensor(exponent, g.out_dtype))


@converter("aten.addcmul")
def addcmul(g: Emitter, x: RelaxExpr, a: RelaxExpr, b: RelaxExpr, value: Any = 1) -> RelaxExpr:
    return op.add(x, _scaled(g, g.emit(op.multiply(a, b)), value))


@converter("aten.addcdiv")
def addcdiv(g: Emitter, x: RelaxExpr, a: RelaxExpr, b: RelaxExpr, value: Any = 1) -> RelaxExpr:
    return op.add(x, _scaled(g, g.emit(op.divide(a, b)), value))


@converter("aten.lerp")
def lerp(g: Emitter, start: RelaxExpr, end: RelaxExpr, weight: Any) -> RelaxExpr:
    share = g.tensor(weight, g.out_dtype)
    difference = g.emit(op.subtract(end, start))
    near = op.add(start, op.multiply(share, difference))
    far = op.subtract(end, op.multiply(difference, op.subtract(g.const(1, g.out_dtype), share)))
    return op.where(op.less(op.abs(share), g.const(0.5, g.out_dtype)), near, far)


@converter("aten.where.self", "aten.where.ScalarOther", "aten.where.ScalarSelf", "aten.where.Scalar")
def where(g: Emitter, condition: RelaxExpr, a: Any, b: Any) -> RelaxExpr:
    return op.where(_truth(g, condition), g.tensor(a, g.out_dtype), g.tensor(b, g.out_dtype))


@converter("aten.masked_fill")
def masked_fill(g: Emitter, x: RelaxExpr, mask: RelaxExpr, value: Any) -> RelaxExpr:
    return op.where(mask, g.tensor(value, g.out_dtype), x)


# ------------------------------------------------------------------------------------- limits


@converter("aten.clamp")
def clamp(g: Emitter, x: RelaxExpr, min: Any = None, max: Any = None) -> RelaxExpr:
    result = g.tensor(x, g.out_dtype)
    if min is not None:
        result = op.maximum(result, g.tensor(min, g.out_dtype))
    return result if max is None else op.minimum(result, g.tensor(max, g.out_dtype))


@converter("aten.clamp_min")
def clamp_min(g: Emitter, x: RelaxExpr, min: Any) -> RelaxExpr:
    return clamp(g, x, min)


@converter("aten.clamp_max")
def clamp_max(g: Emitter, x: RelaxExpr, max: Any) -> RelaxExpr:
    return clamp(g, x, None, max)


@converter("aten.hardtanh")
def hardtanh(g: Emitter, x: RelaxExpr, min_val: float = -1, max_val: float = 1) -> RelaxExpr:
    return clamp(g, x, min_val, max_val)


# ------------------------------------------------------------------------------------- functions


def _of_floats(function: Unary) -> Callable[..., RelaxExpr]:
    """A function of one tensor; integers become the floats of the result first."""

    def convert(g: Emitter, x: RelaxExpr) -> RelaxExpr:
        return function(g.tensor(x, g.out_dtype))

    return convert


def _test(function: Unary) -> Callable[..., RelaxExpr]:
    """A question about the elements of a tensor."""

    def convert(g: Emitter, x: RelaxExpr) -> RelaxExpr:
        return function(x)

    return convert


for _name, _unary in {
    "abs": op.abs,
    "neg": op.negative,
    "_neg_view": op.negative,
    "exp": op.exp,
    "log": op.log,
    "sqrt": op.sqrt,
    "rsqrt": op.rsqrt,
    "square": op.square,
    "sin": op.sin,
    "cos": op.cos,
    "tan": op.tan,
    "asin": op.asin,
    "acos": op.acos,
    "atan": op.atan,
    "sinh": op.sinh,
    "cosh": op.cosh,
    "tanh": op.tanh,
    "asinh": op.asinh,
    "acosh": op.acosh,
    "atanh": op.atanh,
    "erf": op.erf,
    "erfc": op.erfc,
    "sigmoid": op.sigmoid,
    "floor": op.floor,
    "ceil": op.ceil,
    "trunc": op.trunc,
    "fix": op.trunc,
    "relu": op.nn.relu,
    "relu6": op.nn.relu6,
    "silu": op.nn.silu,
    "selu": op.nn.selu,
    "bitwise_not": op.bitwise_not,
}.items():
    register(f"aten.{_name}", _of_floats(_unary))

for _name, _unary in {"isnan": op.isnan, "isinf": op.isinf, "isfinite": op.isfinite}.items():
    register(f"aten.{_name}", _test(_unary))


@converter("aten.round.default")
def round_(g: Emitter, x: RelaxExpr) -> RelaxExpr:
    return op.round(x)


@converter("aten.round.decimals")
def round_decimals(g: Emitter, x: RelaxExpr, *, decimals: int) -> RelaxExpr:
    """Round to decimals, or to tens if they are negative: like torch, by a product or quotient of a power of ten."""
    if not g.dtype(x).is_float:
        g.unsupported("round of integers to decimals", "convert the tensor to floats")
    dtype = "float64" if g.out_dtype == "float64" else "float32"
    data, scale = g.cast(x, dtype), g.const(10.0 ** abs(decimals), dtype)
    before, after = (op.multiply, op.divide) if decimals >= 0 else (op.divide, op.multiply)
    return g.cast(g.emit(after(op.round(before(data, scale)), scale)), g.out_dtype)


@converter("aten.signbit")
def signbit(g: Emitter, x: RelaxExpr) -> RelaxExpr:
    """True for negative numbers, -0 among them; False for NaN of either sign."""
    if g.dtype(x).is_bool:
        return op.zeros_like(x)
    return _is_negative(g, x) if g.dtype(x).is_float else op.less(x, g.const(0, str(g.dtype(x))))


@converter("aten.ldexp")
def ldexp(g: Emitter, x: RelaxExpr, exponent: Any) -> RelaxExpr:
    # As torch does: a power in the dtype of the exponent, if that is a float.
    is_float = isinstance(exponent, RelaxExpr) and g.dtype(exponent).is_float
    dtype = str(g.dtype(exponent)) if is_float else g.out_dtype
    power = g.cast(g.emit(op.power(g.const(2, dtype), g.tensor(exponent, dtype))), g.out_dtype)
    return op.multiply(g.tensor(x, g.out_dtype), power)


@converter("aten.atan2.default")
def atan2(g: Emitter, y: RelaxExpr, x: RelaxExpr) -> RelaxExpr:
    """The angle of (x, y): the arc tangent of the quotient that is at most 1, moved to its octant."""
    dtype = "float64" if g.out_dtype == "float64" else "float32"
    height, side = g.tensor(y, dtype), g.tensor(x, dtype)
    a, b = g.emit(op.abs(height)), g.emit(op.abs(side))
    zero, one = g.const(0, dtype), g.const(1, dtype)
    great = g.emit(op.maximum(a, b))
    both_infinite = op.logical_and(op.isinf(a), op.isinf(b))
    quotient = op.where(both_infinite, one, op.divide(op.minimum(a, b), great))
    angle = g.emit(op.atan(op.where(op.equal(great, zero), zero, quotient)))
    steep = g.emit(op.where(op.greater(a, b), op.subtract(g.const(math.pi / 2, dtype), angle), angle))
    turned = op.where(_is_negative(g, side), op.subtract(g.const(math.pi, dtype), steep), steep)
    turned = g.emit(turned)
    return g.cast(g.emit(op.where(_is_negative(g, height), op.negative(turned), turned)), g.out_dtype)


def _is_negative(g: Emitter, x: RelaxExpr) -> RelaxExpr:
    """True for negative floats, -0 among them."""
    zero = g.const(0, str(g.dtype(x)))
    below_zero = op.less(op.divide(g.const(1, str(g.dtype(x))), x), zero)
    return op.logical_or(op.less(x, zero), op.logical_and(op.equal(x, zero), below_zero))


@converter("aten.copysign")
def copysign(g: Emitter, x: Any, sign: Any) -> RelaxExpr:
    size = g.emit(op.abs(g.tensor(x, g.out_dtype)))
    return op.where(_is_negative(g, g.tensor(sign, g.out_dtype)), op.negative(size), size)


@converter("aten.hypot")
def hypot(g: Emitter, x: RelaxExpr, y: RelaxExpr) -> RelaxExpr:
    """The length of (x, y), as greatest · √(1 + quotient²), which does not overflow early; ∞ if one is."""
    a, b = (g.emit(op.abs(g.tensor(operand, g.out_dtype))) for operand in (x, y))
    zero, one = g.const(0, g.out_dtype), g.const(1, g.out_dtype)
    great = g.emit(op.maximum(a, b))
    share = g.emit(op.divide(op.minimum(a, b), great))
    length = op.multiply(great, op.sqrt(op.add(one, op.multiply(share, share))))
    plain = op.where(op.equal(great, zero), zero, length)
    infinite = op.logical_or(op.isinf(a), op.isinf(b))
    return op.where(infinite, g.const(float("inf"), g.out_dtype), plain)


def _without_nan(function: Binary) -> Callable[..., RelaxExpr]:
    """The greater or lesser of two elements; of one that is NaN the other."""

    def convert(g: Emitter, a: RelaxExpr, b: RelaxExpr) -> RelaxExpr:
        x, y = g.tensor(a, g.out_dtype), g.tensor(b, g.out_dtype)
        if not DataType(g.out_dtype).is_float:
            return function(x, y)
        return op.where(op.isnan(x), y, op.where(op.isnan(y), x, function(x, y)))

    return convert


register("aten.fmax", _without_nan(op.maximum))
register("aten.fmin", _without_nan(op.minimum))


@converter("aten.reciprocal")
def reciprocal(g: Emitter, x: RelaxExpr) -> RelaxExpr:
    return op.divide(g.const(1, g.out_dtype), g.tensor(x, g.out_dtype))


@converter("aten.log2")
def log2(g: Emitter, x: RelaxExpr) -> RelaxExpr:
    return op.multiply(op.log(g.tensor(x, g.out_dtype)), g.const(1 / math.log(2), g.out_dtype))


@converter("aten.log10")
def log10(g: Emitter, x: RelaxExpr) -> RelaxExpr:
    return op.multiply(op.log(g.tensor(x, g.out_dtype)), g.const(1 / math.log(10), g.out_dtype))


@converter("aten.exp2")
def exp2(g: Emitter, x: RelaxExpr) -> RelaxExpr:
    return op.power(g.const(2, g.out_dtype), g.tensor(x, g.out_dtype))


@converter("aten.log1p")
def log1p(g: Emitter, x: RelaxExpr) -> RelaxExpr:
    """x · log(1 + x) / ((1 + x) - 1), which is exact where 1 + x is rounded; x where that is 1."""
    value = g.tensor(x, g.out_dtype)
    one = g.const(1, g.out_dtype)
    above = g.emit(op.add(one, value))
    rest = g.emit(op.subtract(above, one))
    is_plain = op.logical_or(op.equal(rest, g.const(0, g.out_dtype)), op.isinf(above))
    exact = op.multiply(op.log(above), op.divide(value, rest))
    return op.where(is_plain, op.where(op.isinf(above), op.log(above), value), exact)


@converter("aten.expm1")
def expm1(g: Emitter, x: RelaxExpr) -> RelaxExpr:
    """2 · e^(x/2) · sinh(x/2) near 0, where e^x - 1 would lose digits."""
    value = g.tensor(x, g.out_dtype)
    half = g.emit(op.multiply(value, g.const(0.5, g.out_dtype)))
    near = op.multiply(op.multiply(g.const(2, g.out_dtype), op.exp(half)), op.sinh(half))
    far = op.subtract(op.exp(value), g.const(1, g.out_dtype))
    return op.where(op.less(op.abs(value), g.const(1, g.out_dtype)), near, far)


@converter("aten.sign", "aten.sgn")
def sign(g: Emitter, x: RelaxExpr) -> RelaxExpr:
    """The sign, which of NaN is 0."""
    if g.dtype(x).is_bool:
        return x
    zero = g.const(0, g.out_dtype)
    above, below = (op.astype(compare(x, zero), g.out_dtype) for compare in (op.greater, op.less))
    return op.subtract(above, below)


# ------------------------------------------------------------------------------------- activations


@converter("aten.gelu")
def gelu(g: Emitter, x: RelaxExpr, approximate: str = "none") -> RelaxExpr:
    return op.nn.gelu(x) if approximate == "none" else op.nn.gelu_tanh(x)


@converter("aten.leaky_relu")
def leaky_relu(g: Emitter, x: RelaxExpr, negative_slope: float = 0.01) -> RelaxExpr:
    return op.nn.leakyrelu(x, negative_slope)


@converter("aten.prelu", "aten._prelu_kernel")
def prelu(g: Emitter, x: RelaxExpr, weight: RelaxExpr) -> RelaxExpr:
    below = op.multiply(g.reshape(weight, _channels(g, x, weight)), x)
    return op.where(op.greater(x, g.const(0, g.out_dtype)), x, below)


def _channels(g: Emitter, x: RelaxExpr, weight: RelaxExpr) -> list[Any]:
    """The shape in which a weight for each channel, or one for all, broadcasts to a tensor."""
    if g.ndim(weight) == g.ndim(x):
        return list(g.dims(weight))
    count: PrimExpr | int = g.dims(weight)[0] if g.ndim(weight) else 1
    return [1, count, *[1] * (g.ndim(x) - 2)] if g.ndim(x) > 1 else [count] * g.ndim(x)


@converter("aten.softplus")
def softplus(g: Emitter, x: RelaxExpr, beta: float = 1, threshold: float = 20) -> RelaxExpr:
    return op.nn.softplus(x, float(beta), float(threshold))


@converter("aten.mish")
def mish(g: Emitter, x: RelaxExpr) -> RelaxExpr:
    return op.multiply(x, op.tanh(op.nn.softplus(x)))


@converter("aten.hardsigmoid")
def hardsigmoid(g: Emitter, x: RelaxExpr) -> RelaxExpr:
    shifted = op.add(x, g.const(3, g.out_dtype))
    return op.divide(op.nn.relu6(shifted), g.const(6, g.out_dtype))


@converter("aten.hardswish")
def hardswish(g: Emitter, x: RelaxExpr) -> RelaxExpr:
    return op.multiply(x, hardsigmoid(g, x))


@converter("aten.elu")
def elu(g: Emitter, x: RelaxExpr, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> RelaxExpr:
    """A small input scale makes all of x small numbers, of which e^x - 1 would lose the digits."""
    scaled = g.emit(op.multiply(x, g.const(input_scale, g.out_dtype)))
    exact = abs(input_scale) < 0.25
    power = expm1(g, scaled) if exact else op.subtract(op.exp(scaled), g.const(1, g.out_dtype))
    below = op.multiply(power, g.const(alpha * scale, g.out_dtype))
    above = x if scale == 1 else op.multiply(x, g.const(scale, g.out_dtype))
    return op.where(op.greater(x, g.const(0, g.out_dtype)), above, below)


@converter("aten.celu")
def celu(g: Emitter, x: RelaxExpr, alpha: float = 1) -> RelaxExpr:
    if alpha == 0:
        raise g.error("alpha is 0, by which the input is divided", hint="pass another alpha, or use relu")
    return elu(g, x, alpha, 1, 1 / alpha)


@converter("aten.log_sigmoid")
def log_sigmoid(g: Emitter, x: RelaxExpr) -> RelaxExpr:
    return op.negative(op.nn.softplus(op.negative(x)))


@converter("aten.threshold")
def threshold(g: Emitter, x: RelaxExpr, threshold: Any, value: Any) -> RelaxExpr:
    is_below = op.less_equal(x, g.tensor(threshold, g.out_dtype))  # NaN is kept
    return op.where(is_below, g.tensor(value, g.out_dtype), x)


@converter("aten.glu")
def glu(g: Emitter, x: RelaxExpr, dim: int = -1) -> RelaxExpr:
    value, gate = g.parts(op.split(x, 2, g.axis(dim, g.ndim(x))))
    return op.multiply(value, op.sigmoid(gate))


@converter("aten._safe_softmax")
def safe_softmax(g: Emitter, x: RelaxExpr, dim: int, dtype: Any = None) -> RelaxExpr:
    """Softmax of which rows of -inf are 0: in attention, queries without keys."""
    result = g.emit(softmax(g, x, dim, dtype))
    keys = g.emit(op.not_equal(x, g.const(float("-inf"), str(g.dtype(x)))))
    if g.ndim(x):
        count = op.sum(g.cast(keys, "int64"), axis=[g.axis(dim, g.ndim(x))], keepdims=True)
        keys = g.emit(op.not_equal(count, g.const(0, "int64")))
    return op.where(keys, result, g.const(0, g.out_dtype))


@converter("aten.softmax", "aten._softmax")
def softmax(g: Emitter, x: RelaxExpr, dim: int, dtype: Any = None) -> RelaxExpr:
    return _along(g, op.nn.softmax, x, dim)


@converter("aten.log_softmax", "aten._log_softmax")
def log_softmax(g: Emitter, x: RelaxExpr, dim: int, dtype: Any = None) -> RelaxExpr:
    return _along(g, op.nn.log_softmax, x, dim)


def _along(g: Emitter, function: Any, x: RelaxExpr, dim: int) -> RelaxExpr:
    data = g.tensor(x, g.out_dtype)
    if not g.ndim(data):
        return g.reshape(g.emit(function(g.reshape(data, [1]), 0)), [])
    return function(data, g.axis(dim, g.ndim(data)))


# ------------------------------------------------------------------------------------- conversions, copies


@converter(
    "aten.to", "aten._to_copy", "aten.type_as", "aten.float", "aten.half", "aten.bool", "prims.convert_element_type"
)
def to(g: Emitter, x: RelaxExpr, *others: Any, **options: Any) -> RelaxExpr:
    return _truth(g, x) if g.out_dtype == "bool" else g.cast(x, g.out_dtype)


@converter(
    "aten.clone",
    "aten.alias",
    "aten.contiguous",
    "aten.detach",
    "aten.detach_",
    "aten.lift_fresh_copy",
    "aten.lift_fresh",
    "aten.dropout",
    "aten.feature_dropout",
    "aten.alpha_dropout",
    "aten.positive",
    "aten.resolve_conj",
    "aten.resolve_neg",
)
def same(g: Emitter, x: RelaxExpr, *others: Any, **options: Any) -> RelaxExpr:
    """The operand; modules are imported in the mode eval, in which dropout does nothing."""
    if "dropout" in g.title and len(others) > 1 and others[1] is True:
        g.unsupported("dropout of a module in the mode train", "call eval() before torch.export.export")
    return x


@converter("aten.native_dropout")
def native_dropout(g: Emitter, x: RelaxExpr, p: float, train: bool | None) -> list[RelaxExpr]:
    """The operand, and a mask of the elements that are kept: all of them. Without `train`, torch takes it as True."""
    kept = op.full(ShapeExpr(g.dims(x)), g.const(True, "bool"), "bool")
    return [same(g, x, p, train is not False), kept]


@converter("aten.copy")
def copy(g: Emitter, x: RelaxExpr, source: RelaxExpr, non_blocking: bool = False) -> RelaxExpr:
    return op.broadcast_to(g.cast(source, g.out_dtype), g.dims(x)) if g.ndim(x) else g.cast(source, g.out_dtype)
