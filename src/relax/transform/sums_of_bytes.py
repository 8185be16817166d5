"""Add quantised tensors by two fused multiply-adds, where that is proved to give the same integers.

Before   x = R.dequantize(a, R.const(s), R.const(y, "uint8"))                 # a, b: (n, 64), uint8
         v = R.add(x, R.dequantize(b, R.const(t), R.const(z, "uint8")))
         q = R.quantize(v, R.const(r), R.const(w, "uint8"), out_dtype="uint8")
After    q = R.call_tir(cls.add_quantized, (a, b, R.const(f), R.const(g), R.const(c), …), …)

         @T.prim_func(private=True)
         def add_quantized(a, b, f, g, c, …): … round(fma(float32(a[i, j]), f, fma(float32(b[i, j]), g, c)))

So are the sums of residual blocks. `relax.op.byte_sums` has the proof, which is about all pairs of bytes. `relu` may
stand between the sum and `quantize`.

Where one of the tensors is quantised just before, by the scale 1 and for the sum only, its integers stay floats: they
are rounded and limited as such, and are no bytes in between.

Declines: scales and zero points that are not known, or not single numbers; tensors that broadcast; scales of which no
numbers are found that fit all pairs, such as one that is twice another, so that a sum in two is half way between two
integers and rounded as the roundings before it turned out; machines without fused multiply-adds.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from .. import te, topi
from ..analysis.properties import NORMAL_FORM, SHAPES_LOWERED, STORAGE_EXPLICIT
from ..analysis.uses import times_used
from ..dpl.rewrite import KnownValues
from ..expr import Call, Constant, DataflowVar, Function, Var, VarBinding, const
from ..ir import DataType, IRModule, RelaxExpr
from ..op import is_call_of, operator_of
from ..op.binary import Add, Multiply
from ..op.byte_sums import Factors, factors
from ..op.nn.activation import Relu
from ..op.qdq import Dequantize, Quantize, limits_of
from ..op.unary import Astype
from ..rewrite import bindings_in
from ..runtime.records import dataclass
from ..struct_info import TensorStructInfo
from ..target import Target
from .decorators import module_pass

BYTES = ("int8", "uint8")

Array: TypeAlias = "NDArray[np.generic]"


@module_pass(opt_level=1, needs={NORMAL_FORM}, breaks={STORAGE_EXPLICIT, SHAPES_LOWERED})
def SumsOfBytes(mod: IRModule) -> IRModule:
    """Add quantised tensors by fused multiply-adds; see the module's docstring."""
    target = Target.current()
    if target is None or not target.is_resolved or not target.has_fma:
        return mod
    return _Sums(mod).module()


@dataclass(frozen=True)
class _Scale:
    """Meaning of the integers of a dtype: they stand for the floats (integer - zero) · scale."""

    scale: np.float32
    zero: int
    dtype: DataType

    @property
    def every(self) -> NDArray[np.int64]:
        """All integers of the dtype."""
        return np.arange(int(self.dtype.min_value), int(self.dtype.max_value) + 1, dtype=np.int64)

    def limits(self, has_relu: bool) -> tuple[int, int]:
        """The least and the greatest integer less the zero point; of no less than 0 for `relu`."""
        least, most = int(self.dtype.min_value) - self.zero, int(self.dtype.max_value) - self.zero
        return max(least, 0) if has_relu else least, most


@dataclass(frozen=True)
class _Operand:
    """An operand of a sum: a tensor of bytes, or the floats of which the bytes are made for this sum only."""

    tensor: RelaxExpr
    scale: _Scale
    floats: RelaxExpr | None
    place: int
    """The place among the bindings at which the floats are computed; 0 where there are none."""


class _Sums(KnownValues):
    def __init__(self, mod: IRModule) -> None:
        super().__init__(mod)
        self.uses: Counter[Var] = Counter()
        self.places: dict[RelaxExpr, int] = {}

    def concerns(self, function: Function) -> bool:
        """True if something is quantised."""
        return any(is_call_of(binding.value, Quantize) for binding in bindings_in(function))

    def function(self, function: Function) -> RelaxExpr:
        self.uses.update(times_used(bindings_in(function)))
        return super().function(function)

    def bind(self, binding: VarBinding, value: RelaxExpr, var: Var | None = None) -> Var:
        new = super().bind(binding, value, var)
        self.uses[new] = self.uses[binding.var]
        self.places[new] = len(self.places)
        return new

    def call(self, call: Call) -> RelaxExpr:
        call = self.parts(call)
        operator = operator_of(call)
        return self.quantized(operator, call) if isinstance(operator, Quantize) else call

    def quantized(self, quantize: Quantize, call: Call) -> RelaxExpr:
        """The bytes of a quantised sum of bytes; the call itself where its operand is none."""
        result = self.scale(call.args[1], call.args[2], quantize.out_dtype)
        inner, has_relu = self.value(call.args[0]), False
        if isinstance(inner, Call) and is_call_of(inner, Relu):
            inner, has_relu = self.value(inner.args[0]), True
        if result is None or not isinstance(inner, Call) or not is_call_of(inner, Add):
            return call
        operands = [self.operand(arg) for arg in inner.args]
        if not isinstance(info := inner.struct_info_, TensorStructInfo) or info.dims is None:
            return call
        left, right = operands
        if left is None or right is None or not all(_is_like(operand.tensor, info) for operand in (left, right)):
            return call
        # Of two whose floats are known the earlier one: fusion puts the sum behind what is computed first.
        if (left.floats is None, left.place) > (right.floats is None, right.place):
            left, right = right, left
        numbers = _numbers(left.scale, right.scale, result, has_relu, left.floats is None)
        if numbers is None:
            return call
        least = const(np.array(result.limits(has_relu)[0], np.float32))
        offset = limits_of(result.dtype, result.zero)[1]
        return self.added(left, right.tensor, numbers, (least, offset), result.dtype).replace(span=call.span)

    def added(
        self, left: _Operand, right: RelaxExpr, numbers: Factors, limits: tuple[Constant, Constant], dtype: DataType
    ) -> Call:
        """The call of a kernel that adds."""
        formula = topi.qdq.add_quantized if left.floats is None else topi.qdq.add_rounded

        def compute(*operands: te.Tensor) -> te.Tensor:
            return formula(*operands, out_dtype=str(dtype))

        rounded = () if left.floats is None else left.scale.limits(False)
        floats = [const(np.array(number, np.float32)) for number in (*rounded, *numbers)]
        first = left.tensor if left.floats is None else left.floats
        return self.builder.call_te(compute, first, right, *floats, *limits, primfunc_name_hint="add_quantized")

    # ------------------------------------------------------------------------------------ operands

    def operand(self, expr: RelaxExpr) -> _Operand | None:
        """The bytes that an operand stands for."""
        call = self.value(expr)
        if not isinstance(call, Call) or not isinstance(operator := operator_of(call), Dequantize):
            return None
        info = call.args[0].struct_info_
        if operator.out_dtype != "float32" or not isinstance(info, TensorStructInfo):
            return None
        scale = self.scale(call.args[1], call.args[2], info.dtype)
        if scale is None:
            return None
        is_only = self.is_single(expr) and self.is_single(call.args[0])
        floats = self.floats(call.args[0], scale) if is_only else None
        return _Operand(call.args[0], scale, floats, 0 if floats is None else self.places.get(floats, 0))

    def floats(self, tensor: RelaxExpr, scale: _Scale) -> RelaxExpr | None:
        """The floats that are rounded to a tensor of bytes."""
        call = self.value(tensor)
        if not isinstance(call, Call) or not isinstance(operator := operator_of(call), Quantize):
            return None
        own_scale = self.scale(call.args[1], call.args[2], operator.out_dtype)
        if own_scale is None or own_scale.scale != 1 or own_scale.zero != scale.zero:
            return None
        info = call.args[0].struct_info_
        if not isinstance(info, TensorStructInfo) or info.dtype != "float32":
            return None
        return call.args[0] if scale.dtype.is_uint or self.is_product(call.args[0]) else None

    def is_product(self, expr: RelaxExpr) -> bool:
        """True for integers times finite numbers, which are no NaN."""
        call = self.value(expr)
        if not isinstance(call, Call) or not is_call_of(call, Multiply):
            return False
        integers, factor = (self.value(arg) for arg in call.args)
        if not isinstance(factor, Constant) or not np.isfinite(factor.data.numpy()).all():
            return False
        if not isinstance(integers, Call) or not is_call_of(integers, Astype):
            return False
        info = integers.args[0].struct_info_
        return isinstance(info, TensorStructInfo) and info.dtype.is_integer

    def is_single(self, expr: RelaxExpr) -> bool:
        """True for a variable that one expression uses."""
        return isinstance(expr, DataflowVar) and self.uses[expr] == 1

    def scale(self, scale: RelaxExpr, zero: RelaxExpr, dtype: DataType) -> _Scale | None:
        """A known scale and zero point of bytes."""
        operands = [self.value(operand) for operand in (scale, zero)]
        numbers = [constant.data.numpy() for constant in operands if isinstance(constant, Constant)]
        if dtype not in BYTES or len(numbers) < 2 or any(number.size != 1 for number in numbers):
            return None
        if numbers[0].dtype != np.float32 or numbers[1].dtype.kind not in "iu":
            return None
        point = int(numbers[1].item())
        if not dtype.min_value <= point <= dtype.max_value:
            return None
        return _Scale(np.float32(numbers[0].item()), point, dtype)


def _is_like(expr: RelaxExpr, info: TensorStructInfo) -> bool:
    """True if a tensor has the shape of another one."""
    own = expr.struct_info_
    if not isinstance(own, TensorStructInfo) or own.dims is None or info.dims is None or own.ndim != info.ndim:
        return False
    return all(topi.same_size(a, b) for a, b in zip(own.dims, info.dims, strict=True))


@lru_cache(maxsize=1024)
def _numbers(left: _Scale, right: _Scale, result: _Scale, has_relu: bool, is_bytes: bool) -> Factors | None:
    """The numbers of the multiply-adds; integers of the left operand have no zero point where they are no bytes."""
    with np.errstate(all="ignore"):
        first, second = (
            Dequantize().evaluate(operand.every, operand.scale, np.array(operand.zero, np.int32))
            for operand in (left, right)
        )
        total = Add().evaluate(first[:, None], second[None, :])
        total = Relu().evaluate(total) if has_relu else total
        zero = np.array(result.zero, result.dtype.numpy())
        numbers = Quantize(out_dtype=result.dtype).evaluate(total, result.scale, zero)
    if not 0 < result.scale < np.inf:
        return None
    quotients = float(left.scale) / float(result.scale), float(right.scale) / float(result.scale)
    own = (left.every, left.zero) if is_bytes else (left.every - left.zero, 0)
    expected = numbers.astype(np.int64) - result.zero
    return factors(own[0], right.every, quotients, (own[1], right.zero), expected, result.limits(has_relu))
