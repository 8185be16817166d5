"""Products by int8 and packed int4 weights: `_weight_int8pack_mm` and `_weight_int4pack_mm_for_cpu`.

Converters emit arithmetic on the integers, and float32 products, of which `relax.transform.ArithmeticToDequantize`
and the passes behind it keep constant weights in 8 or 4 bits.
"""

from __future__ import annotations

import sys
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .... import op
from ....expr import Constant
from ....ir import RelaxExpr
from ..emitter import Emitter
from ..registry import converter

Array: TypeAlias = "NDArray[Any]"

HINT = "import the program without keep_params_as_input"


@converter("aten._weight_int8pack_mm")
def weight_int8pack_mm(g: Emitter, x: RelaxExpr, weights: RelaxExpr, scales: RelaxExpr) -> RelaxExpr:
    numbers = g.emit(op.permute_dims(g.emit(op.astype(weights, "float32"))))
    total = g.emit(op.matmul(g.tensor(x, "float32"), numbers))
    return g.cast(g.emit(op.multiply(total, g.tensor(scales, "float32"))), str(g.dtype(x)))


@converter("aten._weight_int4pack_mm_for_cpu")
def weight_int4pack_mm_for_cpu(
    g: Emitter, x: RelaxExpr, packed: RelaxExpr, group: int, scales_and_zeros: RelaxExpr
) -> RelaxExpr:
    if not isinstance(packed, Constant) or not isinstance(scales_and_zeros, Constant):
        raise g.error("weights of 4 bits that are packed for a processor must be constants", hint=HINT)
    numbers = _unpacked(g, np.asarray(packed.data))
    rows, depth = numbers.shape
    parameters: Array = np.asarray(scales_and_zeros.data).astype(np.float32)
    if group <= 0 or depth % group or parameters.shape != (depth // group, rows, 2):
        raise g.error(f"scales and zero points of shape {parameters.shape} do not fit {rows} rows of {depth} numbers")
    scales, minima = (g.const(np.transpose(parameters[..., i])[..., None], "float32") for i in range(2))
    wide = op.astype(g.const(np.reshape(numbers, (rows, depth // group, group)), "int4"), "float32")
    scaled = op.add(g.emit(op.multiply(g.emit(wide), scales)), minima)
    weights = g.emit(op.permute_dims(g.reshape(g.emit(scaled), [rows, depth])))
    return g.cast(g.emit(op.matmul(g.tensor(x, "float32"), weights)), str(g.dtype(x)))


def _unpacked(g: Emitter, packed: Array) -> Array:
    """Return int8 numbers from -8 to 7, (rows, depth), of uint8 (rows, depth / 2) packed by torch for this processor.

    The packed order depends on the processor. Packing each hexadecimal digit of the flat index reveals it.
    """
    if packed.ndim != 2 or packed.dtype != np.uint8:
        raise g.error(f"packed weights must be a matrix of uint8, found {packed.dtype} of shape {packed.shape}")
    torch = sys.modules["torch"]
    shape = len(packed), 2 * packed.shape[1]
    places = np.arange(packed.size * 2, dtype=np.int32)
    origin = np.zeros(places.size, np.int32)
    for digit in range(0, places.size.bit_length(), 4):
        digits = torch.from_numpy(np.reshape(places >> digit & 15, shape))
        origin |= (
            _halves(torch.ops.aten._convert_weight_to_int4pack_for_cpu(digits, 1).numpy()).astype(np.int32) << digit
        )
    numbers = np.empty(places.size, np.int8)
    numbers[origin] = _halves(packed)
    return np.reshape(numbers - np.int8(8), shape)


def _halves(packed: Array) -> Array:
    """Return the low and high half of each byte, interleaved, as a vector."""
    return np.ravel(np.stack([packed & 15, packed >> 4], axis=-1)).astype(np.int8)
