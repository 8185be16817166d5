"""Multiply quantised data by quantised weights as integers, instead of as the floats that they stand for.

Before   x = R.dequantize(q, R.const(0.5), R.const(3, "uint8"))       # q: (n, 64), uint8
         w = R.dequantize(R.const(W), R.const(s), R.const(z))         # W: (64, 32), int8; s, z: (32,)
         y = R.matmul(x, w)
After    lv = R.matmul(q, R.const(W - z), out_dtype="int32")
         lv1 = R.subtract(lv, R.const(3 * sum(W - z, axis=0)))
         lv2 = R.astype(lv1, "float32")
         y = R.multiply(lv2, R.const(0.5 * s))

So are products and convolutions of a model in the form that quantisation tools write, with QuantizeLinear and
DequantizeLinear around each operator. Bytes are multiplied four times as fast as floats where the processor has dot
products of them, and weights stay a quarter as large. The result is quantised as before; fusion makes that one kernel.

Where such a product is quantised again, before or behind the addition of known biases, its factor is divided by the new
scale while the program is built, and biases are added to the integers:

         q = R.quantize(R.add(y, b), R.const(t), u)
After    lv3 = R.astype(R.add(lv, R.const(B - 3 * …)), "float32")
         q = R.quantize(R.multiply(lv3, R.const(0.5 * s / t)), R.const(1.0), u)

with b = B · (0.5 · s), as quantisation tools write biases; other biases are divided by t and stay behind the product.

A sum of integers is exact, so the result is rounded three times (the sum as a float32, the product of the scales, their
product) where a sum of floats is rounded for each term: it is within 2⁻²² of the exact one, relatively. A number
that is quantised afterwards may be another one where the exact value is about half way between two.

Depthwise convolutions add up few products, for which vectors of floats are faster: of their integers as float32, which
has all sums.

Reshapes and transpositions between `dequantize` and the product are done to the integers. So are `take`s, whatever is
behind them: of a quantised table of embeddings only the rows that are used become floats. The greatest number of each
window of `max_pool` is that of the integers, as larger ones stand for larger floats. What is dequantised and quantised
again is left out where each integer is known to come back.

Declines: weights that are not constants, or do not fit int8 without their zero point; a scale or zero point of the
data that is not one known number, or a zero point that their dtype does not hold; scales that are not finite, or of
which the product is not a normal float32; sums that int32 might not hold.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from ..analysis.properties import NORMAL_FORM, SHAPES_LOWERED
from ..analysis.uses import times_used
from ..dpl.rewrite import KnownValues
from ..expr import Call, Constant, DataflowVar, Function, PrimValue, Tuple, Var, VarBinding, const
from ..ir import DataType, IRModule, RelaxExpr
from ..op import Operator, is_call_of, operator_of
from ..op.binary import Add, Multiply, Subtract
from ..op.linear_algebra import Matmul
from ..op.nn.activation import Relu
from ..op.nn.convolution import Convolution
from ..op.nn.padding import Pad
from ..op.nn.pooling import MaxPool
from ..op.qdq import Dequantize, Quantize
from ..op.selection import Take
from ..op.shapes import PermuteDims
from ..op.unary import Astype
from ..prim import IntImm
from ..rewrite import bindings_in
from ..runtime.records import dataclass
from ..struct_info import TensorStructInfo
from .decorators import function_pass

BYTES = ("int8", "uint8")
FEW = 32
"""Depthwise convolutions sum few products per channel: float32 is as fast there and represents all sums."""


@function_pass(opt_level=1, needs={NORMAL_FORM}, breaks={SHAPES_LOWERED})
def FakeQuantizationToInteger(func: Function, mod: IRModule) -> Function:
    """Make products of quantised data and weights products of integers; see the module's docstring."""
    return _Integers(mod).rewrite_function(func)


@dataclass(frozen=True)
class _Data:
    """Quantised data, which stand for (numbers - zero) · scale."""

    numbers: RelaxExpr
    scale: np.float32
    zero: int

    @property
    def grows(self) -> bool:
        """True if the mapping from numbers to floats is monotonic."""
        return bool(0 < self.scale < np.inf)


@dataclass(frozen=True)
class _Weights:
    """Quantised weights, which stand for numbers · scale: one scale, or one per index of the results' channels."""

    numbers: NDArray[np.int8]
    scale: NDArray[np.float32]


@dataclass(frozen=True)
class _Product:
    """A product of integers: floats that are (total - zeros) · factor, with arrays that broadcast."""

    total: RelaxExpr
    """Sums in int32, or in float32 where it represents all of them."""
    zeros: NDArray[np.int32]
    factor: NDArray[np.float32]
    most: int
    """Largest magnitude of `total - zeros`."""
    dtype: str = "int32"
    """The dtype of the sums."""

    def as_floats(self, total: RelaxExpr) -> RelaxExpr:
        """Sums, or what is added to them, as float32."""
        return total if self.dtype == "float32" else Astype(DataType("float32")).call(total)


class _Integers(KnownValues):
    def __init__(self, mod: IRModule) -> None:
        super().__init__(mod)
        self.uses: Counter[Var] = Counter()
        self.made: _Product | None = None
        """The product of the binding that is rewritten."""
        self.products: dict[RelaxExpr, _Product] = {}
        """Integer products by variable."""

    def function(self, function: Function) -> RelaxExpr:
        self.uses.update(times_used(bindings_in(function)))
        return super().function(function)

    def bind(self, binding: VarBinding, value: RelaxExpr, var: Var | None = None) -> Var:
        product, self.made = self.made, None
        new = super().bind(binding, value, var)
        self.uses[new] = self.uses[binding.var]
        if product is not None:
            self.products[new] = product
        return new

    def concerns(self, function: Function) -> bool:
        """True if something is dequantised."""
        return any(is_call_of(binding.value, Dequantize) for binding in bindings_in(function))

    def call(self, call: Call) -> RelaxExpr:
        call = self.parts(call)
        operator = operator_of(call)
        match operator:
            case Matmul() | Convolution():
                return self.product(operator, call)
            case Quantize():
                return self.requantized(operator, call)
            case _:
                return self.moved(call)

    def moved(self, call: Call) -> RelaxExpr:
        """The integers of a `dequantize` moved, and then dequantised."""
        operator = operator_of(call)
        match operator:
            case PermuteDims() | MaxPool():
                pass
            case Take(mode=mode) if mode != "nan":
                pass
            case Operator(view=True):
                pass
            case _:
                return call
        inner = self.value(call.args[0])
        dequantize = operator_of(inner) if isinstance(inner, Call) else None
        if not isinstance(inner, Call) or not isinstance(dequantize, Dequantize):
            return call
        data = self.data(inner)
        if data is None or (isinstance(operator, MaxPool) and not (_fills(operator) and data.grows)):
            return call
        return dequantize.call(operator.call(inner.args[0], *call.args[1:]), *inner.args[1:])

    def requantized(self, quantize: Quantize, call: Call) -> RelaxExpr:
        """Return the integers themselves if dequantising and quantising them again is the identity."""
        inner = self.value(call.args[0])
        dequantize = operator_of(inner) if isinstance(inner, Call) else None
        if not isinstance(inner, Call) or not isinstance(dequantize, Dequantize):
            return self.scaled(quantize, call)
        data = self.data(inner)
        parameters = [self.known(arg) for arg in call.args[1:]]
        if data is None or not isinstance(info := data.numbers.struct_info_, TensorStructInfo):
            return call
        scale, zero = parameters
        if scale is None or zero is None or max(scale.size, zero.size) > 1 or quantize.out_dtype != info.dtype:
            return call
        every = np.arange(info.dtype.min_value, info.dtype.max_value + 1).astype(info.dtype.numpy())
        with np.errstate(all="ignore"):
            floats = dequantize.evaluate(every, data.scale, np.int32(data.zero))
            again = quantize.evaluate(floats, np.reshape(scale, ()), np.reshape(zero, ()))
        return data.numbers if np.array_equal(every, again) else call

    def scaled(self, quantize: Quantize, call: Call) -> RelaxExpr:
        """A product that is quantised: integers times the factor over the new scale."""
        scale = self.known(call.args[1])
        if scale is None or scale.size != 1 or scale.dtype != np.float32 or quantize.out_dtype not in BYTES:
            return call
        value, bias = call.args[0], None
        relu = self.single(value)
        if relu is not None and is_call_of(relu, Relu):
            value = relu.args[0]
        else:
            relu = None
        added = self.single(value)
        added = added if added is not None and is_call_of(added, Add) else None
        if added is not None:
            value, other = added.args if added.args[0] in self.products else reversed(added.args)
            bias = self.constant(other)
        product = self.products.get(value)
        if product is None or self.single(value) is None or (added is not None and not _is_of(bias, product)):
            return call
        number = np.float32(scale.item())
        with np.errstate(all="ignore"):
            factor: NDArray[np.float32] = np.divide(product.factor, number)
        if not _usable(number) or not _usable(factor):
            return call
        new = _scaled(product, bias, number, factor)
        new = new if relu is None else Relu().call(new)
        return quantize.call(new, const(np.float32(1)), call.args[2])

    # ------------------------------------------------------------------------------------ operands

    def single(self, expr: RelaxExpr) -> Call | None:
        """The call that a variable stands for which one expression uses."""
        if not isinstance(expr, DataflowVar) or self.uses[expr] != 1:
            return None
        value = self.value(expr)
        return value if isinstance(value, Call) else None

    def constant(self, expr: RelaxExpr) -> NDArray[np.generic] | None:
        """Value of an expression of constants, as biases are written: dequantised, and in another shape."""
        value = self.value(expr)
        if isinstance(value, Constant):
            return value.data.numpy()
        operator = operator_of(value) if isinstance(value, Call) else None
        if not isinstance(value, Call) or operator is None:
            return None
        if not (operator.view or isinstance(operator, Dequantize)):
            return None
        info = value.struct_info_
        first = self.constant(value.args[0])
        if first is None or not isinstance(info, TensorStructInfo) or info.dims is None:
            return None
        if not isinstance(operator, Dequantize):
            sizes = [dim.value for dim in info.dims if isinstance(dim, IntImm)]
            return np.reshape(first, sizes) if len(sizes) == len(info.dims) else None
        parameters = [self.known(arg) for arg in value.args[1:]]
        with np.errstate(all="ignore"):
            return None if any(other is None for other in parameters) else operator.evaluate(first, *parameters)

    def known(self, expr: RelaxExpr) -> NDArray[np.generic] | None:
        value = self.value(expr)
        return value.data.numpy() if isinstance(value, Constant) else None

    def data(self, expr: RelaxExpr) -> _Data | None:
        """The quantised data that an operand stands for."""
        call = self.value(expr)
        if not isinstance(call, Call) or not isinstance(operator := operator_of(call), Dequantize):
            return None
        info = call.args[0].struct_info_
        scale, zero = self.known(call.args[1]), self.known(call.args[2])
        if operator.out_dtype != "float32" or not isinstance(info, TensorStructInfo) or info.dtype not in BYTES:
            return None
        if scale is None or zero is None or scale.dtype != np.float32 or scale.size != 1 or zero.size != 1:
            return None
        if zero.dtype.kind not in "iu" or not info.dtype.min_value <= int(zero.item()) <= info.dtype.max_value:
            return None
        return _Data(call.args[0], np.float32(scale.item()), int(zero.item()))

    def weights(self, expr: RelaxExpr, channels: int) -> _Weights | None:
        """The quantised weights that an operand stands for, whose scales and zero points lie along `channels`."""
        call = self.value(expr)
        if not isinstance(call, Call):
            return None
        operator = operator_of(call)
        if isinstance(operator, PermuteDims):
            return self.transposed(call, operator, channels)
        if not isinstance(operator, Dequantize) or operator.out_dtype != "float32":
            return None
        numbers, scale, zero = (self.known(arg) for arg in call.args)
        if numbers is None or scale is None or zero is None or str(numbers.dtype) not in BYTES:
            return None
        if scale.dtype != np.float32 or zero.dtype.kind not in "iu":
            return None
        axis = operator.axis % numbers.ndim
        if max(scale.size, zero.size) > 1 and axis != channels % numbers.ndim:
            return None
        shape = [-1 if d == axis else 1 for d in range(numbers.ndim)]
        wide = numbers.astype(np.int64) - np.reshape(zero.astype(np.int64), shape)
        if not wide.size or wide.min() < -128 or wide.max() > 127:
            return None
        return _Weights(wide.astype(np.int8), np.ravel(scale).astype(np.float32))

    def transposed(self, call: Call, operator: PermuteDims, channels: int) -> _Weights | None:
        """Weights that are dequantised and then transposed."""
        info = call.struct_info_
        if not isinstance(info, TensorStructInfo) or info.ndim < 1:
            return None
        axes = operator.order(info.ndim)
        inner = self.weights(call.args[0], axes[channels % info.ndim])
        return None if inner is None else _Weights(np.transpose(inner.numbers, axes), inner.scale)

    # ------------------------------------------------------------------------------------ products

    def product(self, operator: Matmul | Convolution, call: Call) -> RelaxExpr:
        """The product of integers that a product stands for; the call itself where there is none."""
        info = call.struct_info_
        if not isinstance(info, TensorStructInfo) or info.dtype != "float32" or info.ndim < 2:
            return call
        if isinstance(operator, Convolution) and operator.is_packed:
            return call
        if isinstance(operator, Matmul):
            channels, axis = -1, -1
        else:
            channels, axis = operator.kernel_layout.index("O"), operator.result_letters.index("C")
        data = self.data(call.args[0])
        weights = None if data is None else self.weights(call.args[1], channels)
        if data is None or weights is None or weights.numbers.ndim < 2:
            return call
        if isinstance(operator, Matmul) and (weights.numbers.ndim != 2 or _rank(data.numbers) < 2):
            return call
        summed = tuple(d for d in range(weights.numbers.ndim) if d != channels % weights.numbers.ndim)
        factor: NDArray[np.float32] = np.multiply(weights.scale, data.scale)
        if not _exact(weights.numbers, summed) or not _usable(factor):
            return call
        along = [-1 if d == axis % info.ndim else 1 for d in range(info.ndim)]
        scale = np.reshape(factor, along if factor.size > 1 else ())
        sums = np.reshape(weights.numbers.sum(axis=summed, dtype=np.int32), along)
        most = _greatest(weights.numbers, summed) * 255
        few = _terms(weights.numbers, channels) < FEW
        if isinstance(operator, Convolution) and operator.groups > 1 and few:
            total = self.builder.emit(operator.call(_centred(data), const(weights.numbers.astype(np.float32))))
            self.made = _Product(total, np.zeros_like(sums), scale, most, "float32")
            return Multiply().call(total, const(scale))
        numbers = data.numbers
        if isinstance(operator, Convolution) and data.zero and any(map(any, operator.pads)):
            numbers, operator = _padded(operator, numbers, data.zero)
        total = self.builder.emit(operator.replace(out_dtype="int32").call(numbers, const(weights.numbers)))
        self.made = _Product(total, sums * np.int32(data.zero), scale, most)
        if data.zero:
            total = Subtract().call(total, const(self.made.zeros))
        return Multiply().call(Astype(DataType("float32")).call(total), const(scale))


def _is_of(bias: NDArray[np.generic] | None, product: _Product) -> bool:
    """True for constant biases: one for all results, or one per output channel."""
    if bias is None or bias.dtype != np.float32 or bias.ndim > product.zeros.ndim:
        return False
    sizes = zip(reversed(bias.shape), reversed(product.zeros.shape), strict=False)
    return all(size in (1, whole) for size, whole in sizes)


def _scaled(
    product: _Product, bias: NDArray[np.generic] | None, scale: np.float32, factor: NDArray[np.float32]
) -> RelaxExpr:
    """A product plus biases, divided by a scale, where the factor is divided already."""
    added = _integers(bias, product) if bias is not None else np.zeros((), np.int32)
    before = -product.zeros if added is None else added - product.zeros
    numbers = const(before.astype(product.dtype))
    total = Add().call(product.total, numbers) if before.any() else product.total
    value = Multiply().call(product.as_floats(total), const(factor))
    return value if added is not None or bias is None else Add().call(value, const(np.asarray(bias / scale)))


def _integers(bias: NDArray[np.generic], product: _Product) -> NDArray[np.int32] | None:
    """The integers that are biases once they are multiplied by the factor; None where biases are no such products."""
    wide = np.rint(bias.astype(np.float64) / product.factor.astype(np.float64))
    if not (np.abs(wide) + product.most < (2**31 if product.dtype == "int32" else 2**24)).all():
        return None
    numbers = wide.astype(np.int32)
    return numbers if np.array_equal(numbers.astype(np.float32) * product.factor, bias) else None


def _centred(data: _Data) -> RelaxExpr:
    """Quantised data without their zero point, as floats."""
    floats = Astype(DataType("float32")).call(data.numbers)
    return Subtract().call(floats, const(np.float32(data.zero))) if data.zero else floats


def _fills(operator: MaxPool) -> bool:
    """True if each pooling window covers some data: an empty window has another maximum, as has the fill of a packed
    result.
    """
    if operator.is_packed:
        return False
    windows = zip(operator.pads, operator.pool_size, operator.dilation, strict=True)
    return not operator.ceil_mode and all(sum(pads) < size and step == 1 for pads, size, step in windows)


def _rank(expr: RelaxExpr) -> int:
    info = expr.struct_info_
    return info.ndim if isinstance(info, TensorStructInfo) else -1


def _terms(numbers: NDArray[np.int8], channels: int) -> int:
    """Return the number of products summed per result element."""
    return numbers.size // numbers.shape[channels]


def _exact(numbers: NDArray[np.int8], summed: tuple[int, ...]) -> bool:
    """True if int32 holds every sum of products with bytes, before and after the zero point is subtracted."""
    return _greatest(numbers, summed) * 255 < 2**31


def _greatest(numbers: NDArray[np.int8], summed: tuple[int, ...]) -> int:
    """Return the largest possible sum of magnitudes."""
    return int(np.abs(numbers.astype(np.int64)).sum(axis=summed).max(initial=0))


def _usable(factor: NDArray[np.float32] | np.float32) -> bool:
    """True if an int32 times each factor is finite, and no factor is so small that digits are lost."""
    least, most = float(np.finfo(np.float32).tiny), float(np.finfo(np.float32).max) / 2**31
    return bool(((factor >= least) & (factor <= most)).all())


def _padded(operator: Convolution, numbers: RelaxExpr, zero: int) -> tuple[RelaxExpr, Convolution]:
    """Pad the data with its zero point explicitly, and return the convolution without padding."""
    around = dict(zip(operator.spatial, operator.pads, strict=True))
    widths = [PrimValue(width) for letter in operator.data_letters for width in around.get(letter, (0, 0))]
    bordered = Pad(pad_value=zero).call(numbers, Tuple(widths))
    return bordered, operator.replace(padding=(0,) * (2 * len(operator.spatial)))
