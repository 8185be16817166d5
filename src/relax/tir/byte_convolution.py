"""Recognise kernels of one int8 convolution over 2-D images in NCHW order.

    padded[n, c, y, x] = if_then_else(inside, X[n, c, y - 1, x - 1], 0)                         (if there is padding)
    C[n, co, h, w] += int32(W[co, ci, i, j]) * int32(padded[n, ci, h * 2 + i, w * 2 + j])       a reduction
    R[n, co, h, w] = uint8(… C[n, co, h, w] … S[n, co, h, w])                                   (optional epilogue)

Supported are the convolutions that the schedule rule `schedules.cpu.byte_pixels` computes in NHWC order: one group,
channels that fill packed int8×4 groups and vectors, int8 weights, and zero padding.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final

from ..ir import DataType
from ..prim import Call, Cast, IntImm, PrimExpr, Select, Var, is_const, simplify
from .buffer import Buffer, BufferLoad
from .convolution import RANK, ConvolutionChain, summed_product
from .nests import Nest, nest_of, root_of
from .stmt import PrimFunc

INPUTS: Final = 16
"""Divisor of the number of input channels."""
OUTPUTS: Final = 32
"""Divisor of the number of output channels."""
WEIGHTS: Final = 4096
"""Least product of input and output channels: for fewer weights, the specialised loops do not pay."""
PIXELS: Final = 2
"""Least number of result pixels, if that is static."""


def byte_convolution_of(func: PrimFunc) -> ConvolutionChain | None:
    """Return the int8 convolution of a kernel as a chain of one, or None."""
    nests = [nest_of(stmt) for stmt in root_of(func)[1]]
    valid_nests = [nest for nest in nests if nest is not None]
    positions = [i for i, nest in enumerate(valid_nests) if nest.is_reduction]
    if len(valid_nests) < len(nests) or len(positions) != 1 or positions[0] > 1 or positions[0] < len(valid_nests) - 2:
        return None
    sums, behind = valid_nests[positions[0]], valid_nests[positions[0] + 1 :]
    params = tuple(func.buffer_map.values())
    operands = _operands(sums)
    if operands is None or operands[0].buffer not in params:
        return None
    weight, data = operands
    source = data.buffer if not positions[0] else _padded(valid_nests[0], data.buffer)
    last = behind[0] if behind else sums
    result = last.stores[0]
    if source not in params or result.buffer not in params or not _is_image(result.indices, result.buffer):
        return None
    read = [load for load in last.loads() if load.buffer is sums.stores[0].buffer]
    if behind and not (read and all(load.indices[1] is result.indices[1] for load in read)):
        return None
    images = {
        load.buffer: load
        for load in (last.loads() if behind else ())
        if load.buffer in params and load.buffer.ndim == RANK
    }
    beside = tuple(
        buffer
        for buffer, load in images.items()
        if all(a is b for a, b in zip(load.indices, result.indices, strict=True))
    )
    if source in beside or weight.buffer in images:
        return None
    return ConvolutionChain(source, False, (weight.buffer,), result.buffer, beside)


def _operands(nest: Nest) -> tuple[BufferLoad, BufferLoad] | None:
    """Return the weights and the data of a reduction, or None if it is not a supported convolution."""
    store, product = nest.stores[0], summed_product(nest)
    if product is None or not _is_image(store.indices, store.buffer):
        return None
    factors = [factor.value if isinstance(factor, Cast) else factor for factor in (product.a, product.b)]
    loads = [factor for factor in factors if isinstance(factor, BufferLoad)]
    for weight, data in (loads, loads[::-1]) if len(loads) == 2 else ():
        if _fits(store.indices, store.buffer.dtype, weight, data) and not _is_small(store.buffer):
            return weight, data
    return None


def _fits(out: Sequence[PrimExpr], sums: DataType, weight: BufferLoad, data: BufferLoad) -> bool:
    bytes_ = data.buffer.dtype in ("int8", "uint8") and weight.buffer.dtype == "int8" and sums == "int32"
    if not bytes_ or len(weight.indices) != RANK or len(data.indices) != RANK:
        return False
    if not all(isinstance(index, Var) for index in weight.indices) or weight.indices[0] is not out[1]:
        return False
    if data.indices[0] is not out[0] or data.indices[1] is not weight.indices[1]:
        return False
    sizes = [size.value for size in weight.buffer.shape if isinstance(size, IntImm)]
    if len(sizes) < RANK:
        return False
    outputs, inputs, *_ = sizes
    return not (outputs % OUTPUTS or inputs % INPUTS) and outputs * inputs >= WEIGHTS


def _is_small(result: Buffer) -> bool:
    """True for a result of fewer than `PIXELS` pixels; False if their number is dynamic."""
    images, _, *pixels = result.shape
    sizes = [size.value for size in (images, *pixels) if isinstance(size, IntImm)]
    return len(sizes) == RANK - 1 and prod(sizes) < PIXELS


def _padded(nest: Nest, buffer: Buffer) -> Buffer | None:
    """Return the tensor from which `nest` computes the zero-padded copy `buffer`, or None if the nest does something
    else.
    """
    store = nest.stores[0]
    match store.value:
        case Call(args=(_, BufferLoad() as load, fill)) if store.value.intrinsic == "if_then_else":
            pass
        case Select(_, BufferLoad() as load, fill):
            pass
        case _:
            return None
    in_order = len(load.indices) == RANK and simplify(load.indices[1]) is store.indices[1]
    return load.buffer if store.buffer is buffer and is_const(fill, 0) and in_order else None


def _is_image(indices: Sequence[PrimExpr], buffer: Buffer) -> bool:
    """True if `buffer` has four dimensions, each indexed by a variable."""
    return buffer.ndim == RANK and all(isinstance(index, Var) for index in indices)
