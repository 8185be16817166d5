"""Constant weights in block formats: DequantizeLinear of blocks, and MatMulNBits and GatherBlockQuantized.

The latter two are operators of com.microsoft, which ONNX Runtime has. MatMulNBits (of `accuracy_level` 4) stands for a
product with weights of one scale per block whose activations `nn.dynamic_quantize` rounds.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from .....prim import simplify
from .....runtime.records import dataclass
from .....topi.block_formats import BlockFormat
from ..graph import Graph
from ..registry import writer
from ..tensor import Array, Tensor
from .reduce import extremum

MICROSOFT: Final = "com.microsoft"
INT8_ACTIVATIONS: Final = 4
"""`accuracy_level` that rounds activations to int8."""


@dataclass(frozen=True)
class _Rows:
    """Weights (numbers - zeros) * scales: numbers (rows, depth), scales and zeros (rows, groups), zeros or None."""

    numbers: Array
    scales: Array
    zeros: Array | None
    group: int

    @property
    def bits(self) -> int:
        """4 or 8: the bits that hold all numbers, and all zero points."""
        if self.zeros is None:
            return 4 if self.numbers.min(initial=0) >= -8 and self.numbers.max(initial=0) <= 7 else 8
        both = (self.numbers, self.zeros)
        is_narrow = all(part.min(initial=0) >= 0 and part.max(initial=0) <= 15 for part in both)
        return 4 if is_narrow else 8

    def codes(self) -> tuple[Array, Array | None]:
        """Return numbers and zero points as MatMulNBits has them: from 0 on, packed in bytes."""
        shift = 0 if self.bits == 4 and self.zeros is not None else 1 << (self.bits - 1)
        zeros = None if self.zeros is None else _packed(self.zeros + shift, self.bits)
        return _packed(self.numbers + shift, self.bits), zeros

    def dequantized(self, g: Graph, axis: int, transposed: bool = False) -> Tensor:
        """Write DequantizeLinear of the rows, or of columns if `transposed`; blocks lie along `axis`."""
        dtype = ("int4" if self.zeros is None else "uint4") if self.bits == 4 else "int8"
        parts = [self.numbers, self.scales, self.zeros]
        numbers, scales, zeros = (part.T if part is not None and transposed else part for part in parts)
        inputs = [g.const(numbers, dtype), g.const(scales, "float32"), None if zeros is None else g.const(zeros, dtype)]
        return g.node("DequantizeLinear", *inputs, dtype="float32", rank=2, axis=axis, block_size=self.group)


def _packed(numbers: Array, bits: int) -> Array:
    """Return numbers from 0 on in the bytes of the last dimension, the first of two in the low bits."""
    if bits == 8:
        return numbers.astype(np.uint8)
    *outer, size = numbers.shape
    even = np.zeros((*outer, -(-size // 2) * 2), np.uint8)
    even[..., :size] = numbers
    return even[..., ::2] | even[..., 1::2] << 4


def _rows(g: Graph, operator: Any, weights: Tensor) -> _Rows:
    """Return constant weights. Raises DiagnosticError for others, and for formats with a minimum."""
    held: BlockFormat = operator.held
    if getattr(operator, "lanes", 0):
        g.refuse("weights that are arranged for kernels", "export the program before it is built")
    data = g.model.constants.get(weights.name)
    if data is None:
        g.refuse(
            f"weights in the block format {held.name} that are no constants", "bind them: relax.transform.BindParams"
        )
    if held.minimum is not None and not held.has_zero_point:
        g.refuse(f"the block format {held.name}, which has minima", "decode the weights: BlockFormat.decode")
    parts = held.parts(np.reshape(data, (-1, data.shape[-1])))
    count, blocks, _ = parts.numbers.shape
    groups = blocks * (held.elements // held.group)
    scales = np.repeat(parts.scale[..., None], held.elements // held.group, axis=-1)
    if parts.scale_steps is not None:
        scales = scales * parts.scale_steps.astype(np.float32)
    zeros = parts.minimum_steps if held.has_zero_point else None
    return _Rows(
        np.reshape(parts.numbers, (count, -1)),
        np.reshape(scales, (count, groups)).astype(np.float32),
        None if zeros is None else np.reshape(zeros, (count, groups)),
        held.group,
    )


@writer("relax.dequantize_blocks")
def dequantize_blocks(g: Graph, operator: Any, weights: Tensor) -> Tensor:
    rows = _rows(g, operator, weights)
    matrix = rows.dequantized(g, axis=1)
    outer = g.model.constants[weights.name].shape[:-1]
    result = matrix if len(outer) == 1 else matrix.reshape([*outer, rows.numbers.shape[1]])
    return result.to(str(operator.out_dtype))


@writer("relax.nn.dynamic_quantize")
def dynamic_quantize(g: Graph, operator: Any, data: Tensor) -> list[Tensor]:
    size = operator.block_size
    if data.dims is None:
        g.refuse("activations of unknown shape in blocks", "match_cast them to a shape")
    *outer, depth = data.dims
    blocks = simplify((depth + (size - 1)) // size)
    floats = data.to("float32")
    added = g.node(
        "Concat", g.ints([0] * (2 * len(outer) + 1)), g.vector(simplify(blocks * size - depth)), rank=1, axis=0
    )
    whole = g.node("Pad", floats, added, rank=data.rank)
    split = whole.reshape([*outer, blocks, size])
    most = extremum(g, g.run("Abs", split), [split.ndim - 1], keepdims=True, largest=True)
    one = g.const(127.0, "float32")
    factor = (most > 0.0).where(one / most, g.const(0.0, "float32"))
    value = split * factor
    numbers = g.node("IsNaN", value, dtype="bool", rank=value.rank).where(
        g.const(0.0, "float32"), g.run("Round", value)
    )
    integers = numbers.to("int8").reshape([*outer, simplify(blocks * size)]).slice(len(outer), 0, depth)
    scales = (most / 127.0).reshape([*outer, blocks])
    g.model.rounded[integers.name] = data, size
    return [integers, scales]


@writer("relax.nn.quantized_matmul")
def quantized_matmul(g: Graph, operator: Any, x: Tensor, scales: Tensor, weights: Tensor) -> Tensor:
    rows = _rows(g, operator, weights)
    held: BlockFormat = operator.held
    source, size = g.model.rounded.get(x.name, (None, 0))
    count, depth = rows.numbers.shape
    if source is not None and size == held.elements == rows.group and _is_size(size):
        numbers, zeros = rows.codes()
        blocks = depth // size
        inputs = [
            source.at(g).to("float32"),
            g.const(np.reshape(numbers, (count, blocks, -1)), "uint8"),
            g.const(rows.scales, "float32"),
            None if zeros is None else g.const(zeros, "uint8"),
        ]
        return g.node(
            "MatMulNBits", *inputs, dtype="float32", rank=x.rank, domain=MICROSOFT, K=depth, N=count, bits=rows.bits,
            block_size=size, accuracy_level=INT8_ACTIVATIONS,
        )  # fmt: skip
    floats = g.node(
        "DequantizeLinear", x, scales, dtype="float32", rank=x.rank, axis=x.ndim - 1, block_size=held.elements
    )
    return g.run("MatMul", floats, rows.dequantized(g, axis=0, transposed=True), rank=x.rank)


@writer("relax.nn.quantized_take")
def quantized_take(g: Graph, operator: Any, weights: Tensor, indices: Tensor) -> Tensor:
    rows = _rows(g, operator, weights)
    if not _is_size(rows.group):
        g.refuse(f"rows in blocks of {rows.group} numbers", "blocks must be a power of 2, and not below 16")
    numbers, zeros = rows.codes()
    inputs = [
        g.const(numbers, "uint8"),
        indices if indices.dtype in ("int32", "int64") else indices.to("int64"),
        g.const(rows.scales, "float32"),
        None if zeros is None else g.const(zeros, "uint8"),
    ]
    result = g.node(
        "GatherBlockQuantized", *inputs, dtype="float32", rank=indices.ndim + 1, domain=MICROSOFT, bits=rows.bits,
        block_size=rows.group, gather_axis=0, quantize_axis=1,
    )  # fmt: skip
    return result.to(str(operator.out_dtype))


def _is_size(size: int) -> bool:
    """True for sizes of blocks that operators of com.microsoft have: powers of two from 16 on."""
    return size >= 16 and size & (size - 1) == 0
