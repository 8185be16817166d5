"""Round constant weights of products and of look-ups to a block format of few bits.

Before   y = R.matmul(x, R.const(W))                           # W: (k, n), float32
         e = R.take(R.const(T), ids, axis=0)                   # T: (rows, k)
After    lv = R.dequantize_blocks(R.const(Q), format="q4_0")   # Q: (n, bytes), uint8
         y = R.matmul(x, R.permute_dims(lv))
         lv1 = R.take(R.const(P), ids, axis=0)
         e = R.dequantize_blocks(lv1, format="q4_0")
or       lv = R.nn.dynamic_quantize(x, block_size=32)          # activations="int8"
         y = R.nn.quantized_matmul(lv[0], lv[1], R.const(Q), format="q4_0")

A product with few rows takes as long as memory takes to deliver its weights. With `activations="int8"` the other factor
is rounded too, to bytes with a scale for each block, so that integers are multiplied: several times as fast, for an
error of about half a per cent of the result (docs/quantise-a-model.md has both, measured).

Declines: weights that are not constant, no float matrix, of fewer than `LEAST` numbers, not finite, or whose rows are
no whole blocks; products in float64.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..analysis.properties import NORMAL_FORM, SHAPES_LOWERED
from ..dpl.rewrite import KnownValues
from ..expr import Call, Constant, TupleGetItem, const
from ..ir import DataType, IRModule, RelaxExpr
from ..op import is_call_of, operator_of
from ..op.blocks import DequantizeBlocks, DynamicQuantize, QuantizedMatmul
from ..op.gradients import apply, tensor_info
from ..op.linear_algebra import Matmul
from ..op.selection import Take
from ..op.shapes import PermuteDims
from ..topi.block_formats import FORMATS, BlockFormat, block_format
from .decorators import module_pass
from .quantize_rows import quantize_rows

Array: TypeAlias = "NDArray[Any]"
Activations: TypeAlias = Literal["float32", "int8"]

LEAST: Final = 1 << 12
"""Numbers below which weights stay as they are."""


@module_pass(opt_level=0, needs={NORMAL_FORM}, breaks={SHAPES_LOWERED})
def QuantizeWeights(
    mod: IRModule, format: str = "q4_0", activations: Activations = "float32", embeddings: bool = True
) -> IRModule:
    """Round constant weights to a block format; see the module's docstring.

    `format` is a name of `relax.topi.block_formats`, `activations` says what products multiply, and `embeddings`
    whether the tables of look-ups are rounded too. Raises ValueError for other names.
    """
    held = checked_format(format)
    if activations not in ("float32", "int8"):
        raise ValueError(f"activations must be float32 or int8, found {activations}")
    return _Weights(mod, held, activations == "int8", embeddings).module()


def quantize_weights(
    model: Any, format: str = "q4_0", *, activations: Activations = "float32", embeddings: bool = True
) -> Any:
    """Round the weights of a model to a block format of few bits, such as ``q4_0``, ``q4_k`` or ``int8_g32``.

    `model` is an IRModule with constant weights, of which the pass `QuantizeWeights` makes another; or a mapping from
    names to arrays, of which float matrices with rows of whole blocks become rows (…, bytes) of uint8, as
    ``R.dequantize_blocks`` and ``R.nn.quantized_matmul`` take them. Raises ValueError for an unknown format.
    """
    if isinstance(model, IRModule):
        return QuantizeWeights(format=format, activations=activations, embeddings=embeddings)(model)
    held = checked_format(format)
    arrays: Mapping[str, Any] = model
    return {name: _rounded(np.asarray(array), held) for name, array in arrays.items()}


def checked_format(name: str) -> BlockFormat:
    """Return the format of a name. Raises ValueError if there is none."""
    held = block_format(name)
    if held is None:
        raise ValueError(f"{name} is no block format; there are {', '.join(FORMATS)}, int4_g32, int8_g64_zero, …")
    return held


def _rounded(array: Array, held: BlockFormat) -> Array:
    """Return an array as rows of blocks, or unchanged if it has none."""
    fits = array.ndim == 2 and _is_float(array) and array.shape[1] % held.elements == 0 and array.size > 0
    return quantize_rows(array, held.name) if fits and np.isfinite(array.astype(np.float32)).all() else array


def _is_float(array: Array) -> bool:
    return DataType(str(array.dtype)).is_float


class _Weights(KnownValues):
    def __init__(self, mod: IRModule, held: BlockFormat, rounds_activations: bool, embeddings: bool) -> None:
        super().__init__(mod)
        self.held, self.rounds_activations, self.embeddings = held, rounds_activations, embeddings
        self._rows: dict[tuple[Constant, bool], Constant | None] = {}
        """Rows by constant, and whether its columns are the rows: products by the same weights share them."""

    def call(self, call: Call) -> RelaxExpr:
        call = self.parts(call)
        operator = operator_of(call)
        if isinstance(operator, Matmul):
            return self.product(call)
        if isinstance(operator, Take) and self.embeddings:
            return self.look_up(call, operator)
        return call

    def product(self, call: Call) -> RelaxExpr:
        """Return a product with rounded weights."""
        info, data = tensor_info(call), tensor_info(call.args[0])
        if info.dtype == "float64" or not info.dtype.is_float or data.ndim < 1 or data.dtype == "float64":
            return call
        value, turned = self.value(call.args[1]), True
        if isinstance(value, Call) and is_call_of(value, PermuteDims):
            turned, value = False, self.value(value.args[0])
        rows = self.rows(value, turned)
        if rows is None:
            return call
        if not self.rounds_activations:
            weights = self.emitted(DequantizeBlocks(self.held.name, tensor_info(call.args[1]).dtype).call(rows))
            return apply("matmul", call.args[0], self.emitted(apply("permute_dims", weights)), out_dtype=info.dtype)
        parts = self.emitted(DynamicQuantize(self.held.elements).call(call.args[0]))
        numbers, scales = (self.emitted(TupleGetItem(parts, i)) for i in range(2))
        product = QuantizedMatmul(self.held.name).call(numbers, scales, rows)
        return product if info.dtype == "float32" else apply("astype", self.emitted(product), dtype=info.dtype)

    def look_up(self, call: Call, operator: Take) -> RelaxExpr:
        """Return rows of a rounded table."""
        info = tensor_info(call)
        rows = self.rows(self.value(call.args[0]), False) if operator.axis == 0 and operator.mode != "nan" else None
        if rows is None or info.dtype == "float64":
            return call
        taken = self.emitted(operator.call(rows, call.args[1]))
        return DequantizeBlocks(self.held.name, info.dtype).call(taken)

    def rows(self, value: RelaxExpr, turned: bool) -> Constant | None:
        """Return a constant matrix, `turned` or not, as rows of blocks; None if it has none."""
        if not isinstance(value, Constant):
            return None
        key = (value, turned)
        if key not in self._rows:
            array: Array = value.data.numpy()
            matrix: Array = np.transpose(array) if turned else array
            fits = matrix.ndim == 2 and matrix.size >= LEAST
            rounded = _rounded(matrix, self.held) if fits else matrix
            self._rows[key] = None if rounded is matrix else const(rounded)
        return self._rows[key]

    def emitted(self, value: RelaxExpr) -> RelaxExpr:
        """Bind a value; return its variable."""
        return self.builder.emit(value)


__all__ = ["QuantizeWeights", "quantize_weights"]
