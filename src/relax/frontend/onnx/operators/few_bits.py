"""Weights of 2, 4 or 8 bits with a scale for each block: MatMulNBits and GatherBlockQuantized of com.microsoft.

Blocks of a multiple of 32 numbers become rows of a block format (`relax.topi.block_formats.grouped`), constants of as
many bytes as the model has. Products read them by `nn.quantized_matmul` where `accuracy_level` 4 permits activations of
int8, else by `dequantize_blocks`; both stay narrow in kernels. Other blocks (of 16) are dequantised from uint8. Tables
in block formats are read by `nn.quantized_take`; a table that is the weights of a product too is one constant.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .... import op
from ....expr import Call, Constant, Var
from ....op import is_call_of
from ....op.shapes import Reshape
from ....prim import IntImm, const
from ....topi.block_formats import BlockFormat
from ..emitter import Emitter
from ..registry import converter
from ..values import Array, Tensor
from .blocks import CHUNK, Blocks, constant_blocks, unpacked
from .quantize import dequantize_linear

DOMAIN = "com.microsoft"
INT8_ACTIVATIONS = 4
"""`accuracy_level` with which activations may be rounded to int8, in blocks like those of the weights."""


# ------------------------------------------------------------------------------------- products


@converter("MatMulNBits", domain=DOMAIN)
def matmul_n_bits(
    g: Emitter,
    A: Tensor,
    B: Array,
    scales: Array,
    zero_points: Array | None = None,
    g_idx: Array | None = None,
    bias: Tensor | None = None,
    *,
    K: int,
    N: int,
    block_size: int,
    bits: int = 4,
    accuracy_level: int = 0,
    weight_prepacked: int = 0,
) -> Tensor:
    if bits not in (2, 4, 8) or weight_prepacked:
        g.unsupported("MatMulNBits with weights of other than 2, 4 or 8 bits, or prepacked for a device")
    g.within([K, N, block_size], "each of K, N and block_size")
    if 0 in B.shape:  # a projection that the model leaves out
        zeros = op.zeros([*g.dims(A)[:-1], N], str(g.dtype(A)))
        return zeros if bias is None else op.add(zeros, bias)
    weights = _blocks(g, B, scales, zero_points, N, -(-K // block_size), block_size, bits)
    columns = _columns(g, g_idx, K, block_size)
    data = A
    if columns is not None:
        if (columns < 0).any() and not np.isfinite(scales.astype("float32")).all():
            g.unsupported("a last block that is not whole with scales that are not finite")
        weights, data = weights.of_columns(columns), _with_columns(g, A, columns, K)
    packed = weights.format_rows() if accuracy_level == INT8_ACTIVATIONS and weights.rest is None else None
    if packed is not None:
        rows, held = packed
        numbers, steps = g.parts(op.nn.dynamic_quantize(data, held.elements))
        product = op.nn.quantized_matmul(numbers, steps, g.shared(rows), held.name)
    else:
        product = _product(g, data, weights)
    product = _as_dtype(g, g.emit(product), str(g.dtype(A)))
    return product if bias is None else op.add(product, bias)


def _as_dtype(g: Emitter, x: Tensor, dtype: str) -> Tensor:
    return x if str(g.dtype(x)) == dtype else g.emit(op.astype(x, dtype))


def _blocks(
    g: Emitter, B: Array, scales: Array, zero_points: Array | None, rows: int, blocks: int, size: int, bits: int
) -> Blocks:
    """Return the weights. Raises DiagnosticError unless each block has its bytes, a scale and a zero point."""
    width = -(-size * bits // 8)
    if B.dtype != np.uint8 or B.size != rows * blocks * width:
        raise g.error(f"B must hold {rows * blocks * width} bytes, found {B.size} elements of {B.dtype}", code="E6003")
    if scales.dtype == object or scales.size != rows * blocks:
        raise g.error(f"scales must hold {rows * blocks} numbers, found {scales.size}", code="E6003")
    numbers = unpacked(np.reshape(B, (rows, blocks, width)), bits)[..., :size]
    scales = np.reshape(scales, (rows, blocks))
    rest: NDArray[np.float32] | None = None
    if zero_points is None:
        zeros = np.full((rows, blocks), 1 << (bits - 1), np.uint8)
    elif zero_points.dtype == np.uint8:
        if zero_points.size != rows * -(-blocks * bits // 8):
            raise g.error(
                f"zero_points holds {zero_points.size} bytes for {rows} rows of {blocks} blocks", code="E6003"
            )
        zeros = np.ascontiguousarray(unpacked(np.reshape(zero_points, (rows, -1)), bits)[:, :blocks])
    else:
        if zero_points.dtype == object or zero_points.size != rows * blocks:
            raise g.error(f"zero_points must hold {rows * blocks} numbers, found {zero_points.size}", code="E6003")
        floats = np.reshape(zero_points, (rows, blocks)).astype(np.float32)
        zeros = np.minimum(np.maximum(np.nan_to_num(np.rint(floats)), 0), (1 << bits) - 1).astype(np.uint8)
        rest = floats - zeros
        rest = rest if rest.any() else None
    return Blocks(numbers, scales, zeros, rest, bits)


def _columns(g: Emitter, g_idx: Array | None, depth: int, size: int) -> NDArray[np.int64] | None:
    """Return the column of the weights at each place of the blocks, -1 for none; None if each is at its place.

    `g_idx` has the block of each column. Raises DiagnosticError if a block has more than `size` columns.
    """
    blocks = -(-depth // size)
    own: NDArray[np.int64] = np.arange(depth) // size
    if g_idx is not None:
        if g_idx.dtype.kind not in "iu" or g_idx.size not in (depth, blocks * size):
            raise g.error(f"g_idx must hold {depth} integers, found {g_idx.size} of {g_idx.dtype}", code="E6003")
        own = np.ravel(g_idx)[:depth].astype(np.int64)
        if own.min() < 0 or own.max() >= blocks:
            raise g.error(f"g_idx must name blocks from 0 to {blocks - 1}, found {own.min()} to {own.max()}",
                          code="E6003")  # fmt: skip
        if np.bincount(own, minlength=blocks).max() > size:
            g.unsupported(f"g_idx with more than {size} columns in a block")
    elif depth % size == 0:
        return None
    columns = np.full((blocks, size), -1)
    for block in range(blocks):
        members = np.flatnonzero(own == block)
        columns[block, : len(members)] = members
    columns = np.ravel(columns)
    return None if np.array_equal(columns, np.arange(depth)) else columns


def _with_columns(g: Emitter, data: Tensor, columns: NDArray[np.int64], depth: int) -> Tensor:
    """Return the data with their columns moved, and columns of zeros where there is none."""
    last = g.ndim(data) - 1
    in_place = np.array_equal(columns[:depth], np.arange(depth))
    more = len(columns) - depth if in_place else int((columns < 0).any())
    if more:
        data = g.emit(op.nn.pad(data, [*[0] * (2 * last), 0, more]))
    if in_place:
        return data
    return g.emit(op.take(data, g.const(np.where(columns < 0, depth, columns)), axis=last))


def _product(g: Emitter, data: Tensor, weights: Blocks) -> Tensor:
    """Return the product of data and dequantised weights, float32.

    The rest of float zero points is subtracted as a product of its own, with the sums of blocks.
    """
    floats = _as_dtype(g, data, "float32")
    product = op.matmul(floats, g.emit(op.permute_dims(weights.weights(g))))
    if weights.rest is None:
        return product
    _, blocks, size = weights.numbers.shape
    sums = op.sum(g.emit(op.reshape(floats, [*g.dims(floats)[:-1], blocks, size])), axis=-1)
    shifts = np.ascontiguousarray((weights.rest * weights.scales.astype(np.float32)).T)
    return op.subtract(g.emit(product), g.emit(op.matmul(g.emit(sums), g.const(shifts))))


# ------------------------------------------------------------------------------------- tables of rows


@converter("GatherBlockQuantized", domain=DOMAIN)
def gather_block_quantized(
    g: Emitter,
    data: Tensor,
    indices: Tensor,
    scales: Tensor,
    zero_points: Tensor | None = None,
    *,
    bits: int = 4,
    block_size: int = 128,
    gather_axis: int = 0,
    quantize_axis: int = 1,
) -> Tensor:
    """The rows at some indices, which are dequantised behind the gather; zeros for an index out of range."""
    dtype = str(g.dtype(data))
    if dtype not in ("uint8", "int4", "uint4"):
        g.unsupported(f"GatherBlockQuantized of {dtype} (of uint8, int4 and uint4 is)")
    bits = bits if dtype == "uint8" else 4
    if bits not in (2, 4, 8):
        raise g.error(f"bits must be 2, 4 or 8, found {bits}", code="E6003")
    g.within([block_size], "block_size")
    ndim = g.ndim(data)
    along, blocked = g.axis(gather_axis, ndim), g.axis(quantize_axis, ndim)
    if along == blocked or (dtype == "uint8" and along):
        raise g.error(
            f"gather_axis {along} must differ from quantize_axis {blocked}, and be 0 for data of uint8", code="E6003"
        )
    if g.ndim(scales) != ndim or (zero_points is not None and g.ndim(zero_points) != ndim):
        raise g.error(f"scales and zero points must have the {ndim} dimensions of the data", code="E6003")
    if zero_points is not None and str(g.dtype(zero_points)) != dtype:
        raise g.error(f"zero_points must be of {dtype} as the data, found {g.dtype(zero_points)}")
    data, scales = _constant(g, data), _constant(g, scales)
    zero_points = None if zero_points is None else _constant(g, zero_points)
    inside, rows = _rows(g, indices, data, along)
    packed = _table(g, data, scales, zero_points, bits, block_size) if (along, blocked, ndim) == (0, 1, 2) else None
    if packed is not None:
        table, held = packed
        out_dtype = str(g.dtype(scales))
        values = op.nn.quantized_take(g.shared(table), rows, held.name, out_dtype=out_dtype)
    else:
        place = blocked + g.ndim(indices) - 1 if blocked > along else blocked
        numbers, steps, zeros = (
            None if part is None else g.emit(op.take(part, rows, axis=along)) for part in (data, scales, zero_points)
        )
        assert numbers is not None
        assert steps is not None
        if dtype == "uint8":
            numbers = _numbers(g, numbers, bits)
            middle = g.const(1 << (bits - 1), "uint8")
            zeros = middle if zeros is None else _numbers(g, zeros, bits)
            if zero_points is not None:
                count = g.dims(steps)[place]
                zeros = g.emit(op.strided_slice(zeros, [place], [0], [count]))
        values = dequantize_linear(g, numbers, steps, zeros, axis=place, block_size=block_size)
    values = g.emit(values)
    mask = [*g.dims(rows), *[1] * (ndim - 1 - along)]
    return op.where(g.emit(op.reshape(inside, mask)), values, g.const(0, str(g.dtype(scales))))


def _constant(g: Emitter, x: Tensor) -> Tensor:
    """Return a reshaped constant as a constant: models reshape weights of a product that are a table as well."""
    value = g.builder.lookup_binding(x) if isinstance(x, Var) else None
    if not isinstance(value, Call) or not is_call_of(value, Reshape) or not isinstance(value.args[0], Constant):
        return x
    sizes = [dim.value for dim in g.dims(x) if isinstance(dim, IntImm)]
    return g.const(np.reshape(g.array(value.args[0], "data"), sizes)) if len(sizes) == g.ndim(x) else x


def _rows(g: Emitter, indices: Tensor, data: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """Return a mask of the indices in range, and the indices from 0 on, 0 in place of others."""
    dtype = str(g.dtype(indices))
    size = g.dims(data)[axis]
    if not isinstance(size, IntImm):
        g.unsupported("GatherBlockQuantized of data with a dynamic dimension")
    count, zero = g.const(size.value, dtype), g.const(0, dtype)
    places = g.emit(op.where(op.less(indices, zero), op.add(indices, count), indices))
    inside = g.emit(op.logical_and(op.greater_equal(places, zero), op.less(places, count)))
    return inside, g.emit(op.where(inside, places, zero))


def _numbers(g: Emitter, packed: Tensor, bits: int) -> Tensor:
    """Return the numbers in the bytes of the last dimension, which a model packs with the low bits first."""
    if bits == 8:
        return packed
    shifts = g.const(np.arange(0, 8, bits, dtype=np.uint8))
    parts = op.right_shift(g.emit(op.expand_dims(packed, [-1])), shifts)
    numbers = g.emit(op.bitwise_and(g.emit(parts), g.const((1 << bits) - 1, "uint8")))
    *outer, size = g.dims(packed)
    return g.emit(op.reshape(numbers, [*outer, size * const(8 // bits, "int64")]))


def _table(
    g: Emitter, data: Tensor, scales: Tensor, zero_points: Tensor | None, bits: int, size: int
) -> tuple[Array, BlockFormat] | None:
    """Return a constant table (rows, columns) as rows of a block format; None where no format has it."""
    if size % CHUNK:
        return None
    if g.dtype(data) != "uint8" or not isinstance(data, Constant):
        blocks = constant_blocks(g, data, scales, zero_points, size)
        return None if blocks is None else blocks.format_rows()
    if not isinstance(scales, Constant) or not (zero_points is None or isinstance(zero_points, Constant)):
        return None
    numbers, steps = unpacked(np.asarray(g.array(data, "data")), bits), np.asarray(g.array(scales, "scales"))
    rows, columns = numbers.shape
    if columns % size or steps.shape != (rows, columns // size):
        return None
    zeros = np.full(steps.shape, 1 << (bits - 1), np.uint8)
    if zero_points is not None:
        zeros = unpacked(np.asarray(g.array(zero_points, "zero points")), bits)[:, : steps.shape[1]]
    return Blocks(np.reshape(numbers, (*steps.shape, size)), steps, zeros, None, bits).format_rows()
