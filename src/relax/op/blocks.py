"""Weights in block formats of few bits, as files of language models have them, and their products with activations.

A *block format* (`relax.topi.block_formats`) stores 32 or 256 numbers of a row as integers of 2 to 8 bits with a scale,
in a tensor of uint8. A product rounds activations to bytes only where a program says so, by `nn.dynamic_quantize`.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from .. import topi
from ..info.text import prim_text
from ..ir import DataType
from ..prim import PrimExpr, const, is_const, simplify
from ..runtime.rounding import convert_array
from ..struct_info import PrimStructInfo, TensorStructInfo, TupleStructInfo
from ..topi.block_formats import FORMATS, BlockFormat, Parts, block_format
from ..topi.packed_blocks import PackedBlocks
from .binary import as_tensor
from .dims import require_same_dim, tensor
from .errors import ATTRIBUTES, SHAPES, OperatorError
from .facts import Exactness
from .operands import FLOATS
from .operator import Array, Operator, operator
from .selection import Take


class Blocks(Operator):
    """Base class of operators on weights in a block format."""

    __slots__ = ()

    format: str = "q4_0"
    """Name of the format: `q4_0`, `q4_k`, …"""

    @property
    def held(self) -> BlockFormat:
        """The format. Raises OperatorError for an unknown name."""
        held = block_format(self.format)
        if held is None:
            names = f"{', '.join(FORMATS)}, or int4_g32, int8_g32_zero, … for groups of 32 numbers"
            raise OperatorError(ATTRIBUTES, f"format must be one of {names}, found {self.format!r}")
        return held

    def depth_of(self, weights: TensorStructInfo) -> PrimExpr | None:
        """Return the numbers of a row; None if unknown. Raises OperatorError unless rows are whole blocks."""
        held = self.held
        self.require(weights.dtype.is_void or weights.dtype == "uint8", "weights", "a tensor of uint8",
                     found=str(weights.dtype))  # fmt: skip
        self.require(weights.ndim != 0, "weights", "a tensor of at least one dimension", code=SHAPES)
        if weights.dims is None:
            return None
        size = weights.dims[-1]
        rest = simplify(size % held.bytes)
        self.require(
            not is_const(rest) or is_const(rest, 0), "weights", f"rows of whole blocks of {held.bytes} bytes",
            code=SHAPES, found=f"rows of {prim_text(size)} bytes",
            hint=f"a row of {held.elements} numbers has {held.bytes} bytes in {held.name}",
        )  # fmt: skip
        return simplify(size // held.bytes * held.elements)


@operator("relax.dequantize_blocks")
class DequantizeBlocks(Blocks):
    """The numbers of rows in a block format: (…, bytes) of uint8 to (…, numbers) of out_dtype.

    Computed in float32 as the package `gguf` does, and converted.
    """

    exactness: ClassVar[Exactness] = Exactness.ALWAYS
    takes = ("uint",)

    out_dtype: DataType = DataType("float32")

    def infer(self, weights: TensorStructInfo) -> TensorStructInfo:
        self.require_attribute(self.out_dtype.is_float, "out_dtype", "a floating-point dtype")
        depth = self.depth_of(weights)
        if depth is None or weights.dims is None:
            return tensor(None, self.out_dtype, weights.ndim)
        return tensor((*weights.dims[:-1], depth), self.out_dtype)

    compute = topi.dequantize_blocks

    def reference(self, weights: Array) -> Array:
        return convert_array(self.held.decode(weights), self.out_dtype.numpy())


@operator("relax.nn.dynamic_quantize")
class DynamicQuantize(Operator):
    """Bytes and scales of blocks of the last dimension: (int8 (…, n), float32 (…, ⌈n / block_size⌉)).

    Numbers are converted to float32.
    The scale of a block is its greatest magnitude / 127; a byte is the number times 127 / that magnitude, rounded to
    the nearest integer, halves to even. A block of zeros has scale 0. A block with NaN has scale NaN, one with an
    infinity an infinite scale, and bytes 0.
    """

    takes = FLOATS
    total = True

    block_size: int = 32

    def infer(self, data: TensorStructInfo) -> TupleStructInfo:
        self.require_attribute(self.block_size > 0, "block_size", "a positive integer")
        self.require_dtype(data, "data", *self.takes)
        self.require(data.ndim != 0, "data", "a tensor of at least one dimension", code=SHAPES)
        if data.dims is None:
            return TupleStructInfo((tensor(None, "int8", data.ndim), tensor(None, "float32", data.ndim)))
        blocks = simplify((data.dims[-1] + const(self.block_size - 1, "int64")) // self.block_size)
        return TupleStructInfo((tensor(data.dims, "int8"), tensor((*data.dims[:-1], blocks), "float32")))

    compute = topi.dynamic_quantize

    def reference(self, data: Array) -> list[Array]:
        *outer, size = data.shape
        blocks = -(-size // self.block_size)
        filled = np.zeros((*outer, blocks * self.block_size), np.float32)
        filled[..., :size] = data.astype(np.float32)
        split: Array = np.reshape(filled, (*outer, blocks, self.block_size))
        most: Array = np.abs(split).max(-1, keepdims=True, initial=0)
        with np.errstate(all="ignore"):
            factor = np.where(most > 0, np.float32(127) / most, np.float32(0))
            value = split * factor
            numbers = np.where(np.isnan(value), 0, np.rint(value)).astype(np.int8)
        scales = (most / np.float32(127))[..., 0]
        return [np.reshape(numbers, filled.shape)[..., :size], scales]


class BlockMatrix(Blocks):
    """Base class of operators on a matrix of weights: rows as files have them, or panels of packed rows.

    Rows are uint8 (rows, bytes). With `lanes`, weights are panels of `columns` rows for kernels of that many lanes,
    int32 (panels, words), their bytes `signed` or 128 larger (`relax.topi.packed_blocks`).
    """

    __slots__ = ()

    lanes: int = 0
    signed: bool = False
    columns: int = 0

    @property
    def panels(self) -> PackedBlocks | None:
        """Order of the weights; None for rows as files have them."""
        return PackedBlocks(self.format, self.lanes, self.signed) if self.lanes else None

    def sizes(self, weights: TensorStructInfo, ndim: int = 2) -> tuple[PrimExpr | None, PrimExpr | None]:
        """Return the numbers of a row, and the rows, None where unknown. Raises OperatorError for other weights.

        With `ndim` 3, weights are several matrices of the same size.
        """
        kind = "a matrix" if ndim == 2 else "matrices, of 3 dimensions"
        self.require(weights.ndim in (-1, ndim), "weights", kind, code=SHAPES, found=f"{weights.ndim} dimensions")
        held = self.held
        if not self.lanes:
            return self.depth_of(weights), None if weights.dims is None else weights.dims[-2]
        self.require_attribute(self.lanes in (4, 8, 16, 32), "lanes", "0, 4, 8, 16 or 32")
        self.require(weights.dtype.is_void or weights.dtype == "int32", "weights", "panels of int32",
                     found=str(weights.dtype))  # fmt: skip
        panels, rows = PackedBlocks(self.format, self.lanes, self.signed), const(self.columns, "int64")
        if weights.dims is None:
            return None, rows
        count, words = weights.dims[-2:]
        self.require_same(count, const(panels.panels(self.columns), "int64"), "panels and those of the columns")
        blocks = simplify(words // panels.unit)
        self.require_same(words, simplify(blocks * panels.unit), "words and those of whole units")
        return simplify(blocks * held.elements), rows

    def require_same(self, found: PrimExpr, size: PrimExpr, sizes: str) -> None:
        """Raise OperatorError if two sizes differ."""
        message = f"{sizes} differ: {prim_text(found)} and {prim_text(size)}"
        require_same_dim(found, size, OperatorError(SHAPES, message))

    def parts(self, weights: Array) -> Parts:
        """Return what the blocks of the weights hold."""
        panels = self.panels
        return self.held.parts(weights) if panels is None else panels.parts(weights, self.columns)


@operator("relax.nn.quantized_take")
class QuantizedTake(BlockMatrix):
    """Rows of weights in a block format at the indices, as numbers of out_dtype: (…, depth).

    A negative index counts from the end; an index out of range is an error at run time. Weights are as those of
    `nn.quantized_matmul`, so that the table of a look-up can be that of a product.
    """

    takes = ("uint",)

    out_dtype: DataType = DataType("float32")

    def infer(self, weights: TensorStructInfo, indices: TensorStructInfo | PrimStructInfo) -> TensorStructInfo:
        self.require_attribute(self.out_dtype.is_float, "out_dtype", "a floating-point dtype")
        index = as_tensor(indices)
        self.require_dtype(index, "indices", "int", "uint")
        depth, _ = self.sizes(weights)
        if depth is None or index.dims is None:
            return tensor(None, self.out_dtype, -1 if index.ndim == -1 else index.ndim + 1)
        return tensor((*index.dims, depth), self.out_dtype)

    compute = topi.quantized_take

    def reference(self, weights: Array, indices: Array) -> Array:
        decoded = self.held.decoded(self.parts(weights))
        return convert_array(Take(0).reference(decoded, indices), self.out_dtype.numpy())


class BlockProduct(BlockMatrix):
    """Base class of products of activations in blocks of bytes and weights in a block format."""

    __slots__ = ()

    takes = ("int",)

    def product(
        self, x: TensorStructInfo, scales: TensorStructInfo, depth: PrimExpr | None, rows: PrimExpr | None
    ) -> TensorStructInfo:
        """Return the struct info of a product with rows of weights. Raises OperatorError for operands that differ."""
        for name, info, dtype in (("x", x, "int8"), ("scales", scales, "float32")):
            self.require(info.dtype.is_void or info.dtype == dtype, name, f"a tensor of {dtype}", found=str(info.dtype))
            self.require(info.ndim != 0, name, "a tensor of at least one dimension", code=SHAPES)
        if x.dims is None:
            return tensor(None, "float32", x.ndim)
        if depth is not None:
            self.require_same(x.dims[-1], depth, "the depth of x and of the weights")
        if scales.dims is not None:
            blocks = simplify(x.dims[-1] // self.held.elements)
            wanted = f"scales of blocks of {self.held.elements} numbers"
            self.require(scales.ndim == x.ndim, "scales", "of the rank of x", code=SHAPES, found=str(scales.ndim))
            for found, size in zip(scales.dims, (*x.dims[:-1], blocks), strict=True):
                self.require_same(found, size, wanted)
        return tensor(None, "float32", x.ndim) if rows is None else tensor((*x.dims[:-1], rows), "float32")

    def multiplied(self, x: Array, scales: Array, parts: Parts) -> Array:
        """Return the product of a matrix of activations and the rows whose blocks hold these parts."""
        count = parts.scale.shape[1]
        numbers = x.astype(np.int64).reshape(-1, count, self.held.elements)

        def part(floats: Array, steps: Array | None, of_weights: Array | int) -> Array:
            sums = np.einsum("ibe,jbe->ijb", numbers, parts.steps_of_numbers(steps) * of_weights)
            return (floats[None] * scales.reshape(-1, 1, count)).astype(np.float64) * sums

        with np.errstate(all="ignore"):
            total = part(parts.scale, parts.scale_steps, parts.numbers.astype(np.int64))
            if parts.minimum is not None:
                least = part(parts.minimum, parts.minimum_steps, 1)
                total = total - least if self.held.subtracts_minimum else total + least
            return total.sum(-1).astype(np.float32)


@operator("relax.nn.quantized_matmul")
class QuantizedMatmul(BlockProduct):
    """Product of activations in blocks of bytes (`dynamic_quantize`) and the rows of weights in a block format.

    x: int8 (…, depth), scales: float32 (…, blocks), weights: uint8 (rows, bytes); the result is float32 (…, rows). The
    products of a block are summed exactly; the sum over blocks is one of float32, of terms scale of x · scale of the
    weights · sum. A block of x has as many numbers as one of the weights.

    With `lanes`, weights are packed in panels of `columns` rows, int32 (panels, words), for kernels of that many lanes:
    the compiler arranges constant weights so.
    """

    def infer(self, x: TensorStructInfo, scales: TensorStructInfo, weights: TensorStructInfo) -> TensorStructInfo:
        return self.product(x, scales, *self.sizes(weights))

    compute = topi.quantized_matmul

    def reference(self, x: Array, scales: Array, weights: Array) -> Array:
        product = self.multiplied(x, scales, self.parts(weights))
        return product.reshape(*x.shape[:-1], product.shape[1])


@operator("relax.nn.quantized_expert_matmul")
class QuantizedExpertMatmul(BlockProduct):
    """Product of each row of activations in blocks of bytes and the weights of its expert, in a block format.

    x: int8 (n, depth), scales: float32 (n, blocks), experts: integers (n,), weights: uint8 (experts, rows, bytes); the
    result is float32 (n, rows). Row i is that of `nn.quantized_matmul` with the matrix `weights[experts[i]]`. An expert
    that there is not is an error at run time, a negative one, too. Kernels read weights once for consecutive rows of
    the same expert: callers sort rows by their expert.

    With `lanes`, the matrix of each expert is packed in panels of `columns` rows, int32 (experts, panels, words), for
    kernels of that many lanes (`relax.topi.packed_blocks`).
    """

    def infer(
        self, x: TensorStructInfo, scales: TensorStructInfo, weights: TensorStructInfo, experts: TensorStructInfo
    ) -> TensorStructInfo:  # fmt: skip
        self.require_dtype(experts, "experts", "int", "uint")
        for name, info, ndim in (("x", x, 2), ("experts", experts, 1)):
            wanted = "a matrix" if ndim == 2 else "a vector"
            self.require(info.ndim in (-1, ndim), name, wanted, code=SHAPES, found=f"{info.ndim} dimensions")
        result = self.product(x, scales, *self.sizes(weights, 3))
        if x.dims is not None and experts.dims is not None:
            self.require_same(experts.dims[0], x.dims[0], "the number of experts and of rows of x")
        return result

    compute = topi.quantized_expert_matmul

    def reference(self, x: Array, scales: Array, weights: Array, experts: Array) -> Array:
        if ((experts < 0) | (experts >= len(weights))).any():
            raise IndexError(f"an expert is out of range for {len(weights)} experts")
        count = self.columns if self.lanes else weights.shape[1]
        result = np.zeros((len(x), count), np.float32)
        for expert in np.unique(experts):
            own = experts == expert
            result[own] = self.multiplied(x[own], scales[own], self.parts(weights[expert]))
        return result


__all__ = ["DequantizeBlocks", "DynamicQuantize", "QuantizedExpertMatmul", "QuantizedMatmul", "QuantizedTake"]
