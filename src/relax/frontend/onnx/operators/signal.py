"""Signals: Fourier transforms, and writing into caches.

A transform of N elements is a product with the matrix of its N² complex roots, which for the lengths of audio frames
costs no more than the layers around it, and takes any N, known or not.
"""

from __future__ import annotations

import math

import numpy as np

from .... import op
from ....expr import PrimValue, ShapeExpr
from ....ir import DataType
from ....prim import IntImm, PrimExpr, simplify
from ..emitter import Emitter
from ..model import dtype_name
from ..registry import converter
from ..values import Array, Dims, Ints, Tensor


def _roots(g: Emitter, length: PrimExpr, rows: PrimExpr, inverse: bool, dtype: DataType) -> tuple[Tensor, Tensor]:
    """Matrices (length, rows) of the cosines and sines of 2 π k n / length; sines negative unless `inverse`."""
    k, n = (op.arange(PrimValue(size * 0), PrimValue(size), dtype="int64") for size in (rows, length))
    whole = op.full(ShapeExpr([]), PrimValue(length), "int64")
    turns = op.floor_mod(op.multiply(op.expand_dims(n, 1), op.expand_dims(k, 0)), whole)
    step = op.divide(g.const(2 * math.pi, "float64"), op.astype(whole, "float64"))
    angles = g.emit(op.multiply(op.astype(turns, "float64"), step))
    sines = op.sin(angles) if inverse else op.negative(op.sin(angles))
    return g.emit(op.astype(op.cos(angles), str(dtype))), g.emit(op.astype(sines, str(dtype)))


def _transformed(g: Emitter, x: Tensor, length: PrimExpr, axis: int, inverse: bool, onesided: bool) -> Tensor:
    """The transform of (…, real or complex) data along an axis, cut or filled up with zeros to a length."""
    ndim, dtype = g.ndim(x), g.dtype(x)
    size = g.dims(x)[axis]
    if not g.is_true(size.equal(length)):
        widths: list[PrimExpr | int] = [0] * (2 * ndim)
        widths[2 * axis + 1] = simplify(length - size)
        x = g.emit(op.nn.pad(x, widths))
    rows = simplify(length // 2 + 1) if onesided else length
    cosines, sines = _roots(g, length, rows, inverse, dtype)
    components = g.dims(x)[ndim - 1]
    last = [d for d in range(ndim - 1) if d != axis]
    moved = g.emit(op.permute_dims(x, [ndim - 1, *last, axis]))
    real = g.emit(op.squeeze(op.strided_slice(moved, [0], [0], [1]), 0))
    if isinstance(components, IntImm) and components.value == 2:
        imaginary = g.emit(op.squeeze(op.strided_slice(moved, [0], [1], [2]), 0))
        a = op.subtract(op.matmul(real, cosines), op.matmul(imaginary, sines))
        b = op.add(op.matmul(real, sines), op.matmul(imaginary, cosines))
    else:
        a, b = op.matmul(real, cosines), op.matmul(real, sines)
    both = op.stack([a, b], axis=ndim - 1)
    if inverse:
        both = op.divide(both, op.astype(op.full(ShapeExpr([]), PrimValue(length), "int64"), str(dtype)))
    back = list(range(ndim - 2))
    return op.permute_dims(both, [*back[:axis], ndim - 2, *back[axis:], ndim - 1])


@converter("DFT", since=20)
def dft(
    g: Emitter,
    input: Tensor,
    dft_length: Dims | None = None,
    axis: Ints | None = None,
    *,
    inverse: int = 0,
    onesided: int = 0,
) -> Tensor:
    dimension = g.axis(-2 if axis is None else g.number(axis, "axis"), g.ndim(input))
    if inverse and onesided:
        g.unsupported("the inverse of a one-sided DFT")
    if dimension == g.ndim(input) - 1:
        raise g.error("axis must not be the last one, which holds real and imaginary parts", code="E6003")
    length = g.dims(input)[dimension] if dft_length is None else g.single(dft_length, "dft_length")
    return _transformed(g, input, length, dimension, bool(inverse), bool(onesided))


@converter("DFT", since=17)
def dft_17(
    g: Emitter, input: Tensor, dft_length: Dims | None = None, *, axis: int = 1, inverse: int = 0, onesided: int = 0
) -> Tensor:
    return dft(g, input, dft_length, (axis,), inverse=inverse, onesided=onesided)


@converter("STFT", since=17)
def stft(
    g: Emitter,
    signal: Tensor,
    frame_step: Dims,
    window: Tensor | None = None,
    frame_length: Dims | None = None,
    *,
    onesided: int = 1,
) -> Tensor:
    if g.ndim(signal) not in (2, 3):
        raise g.error(f"the signal must have 2 or 3 dimensions, found {g.ndim(signal)}")
    if g.ndim(signal) == 2:
        signal = g.emit(op.expand_dims(signal, 2))
    if frame_length is not None:
        length = g.single(frame_length, "frame_length")
    elif window is not None:
        length = g.single(g.dims(window), "the shape of window")
    else:
        raise g.error("neither window nor frame_length is given", code="E6002")
    step, size = g.single(frame_step, "frame_step"), g.dims(signal)[1]
    count = simplify((size - length) // step + 1)
    starts = op.multiply(_count(count), op.full(ShapeExpr([]), PrimValue(step), "int64"))
    positions = op.add(op.expand_dims(starts, 1), op.expand_dims(_count(length), 0))
    frames = g.emit(op.take(signal, g.emit(positions), 1))
    if window is not None:
        frames = g.emit(op.multiply(frames, op.reshape(window, [1, 1, -1, 1])))
    return _transformed(g, frames, length, 2, False, bool(onesided))


def _count(size: PrimExpr) -> Tensor:
    return op.arange(PrimValue(size * 0), PrimValue(size), dtype="int64")


MOST_WEIGHTS = 1 << 24
"""Mel bins times the length of the transform."""


@converter("MelWeightMatrix", since=17)
def mel_weight_matrix(
    g: Emitter,
    num_mel_bins: Array,
    dft_length: Array,
    sample_rate: Array,
    lower_edge_hertz: Array,
    upper_edge_hertz: Array,
    *,
    output_datatype: int = 1,
) -> Tensor:
    inputs = num_mel_bins, dft_length, sample_rate, lower_edge_hertz, upper_edge_hertz
    numbers = [float(g.fitting(np.ravel(x).tolist(), 1, "an input")[0]) for x in inputs]
    bins, length, rate = map(int, np.nan_to_num(numbers[:3]))
    if min(bins, length, rate) < 1 or bins * length > MOST_WEIGHTS or not min(numbers[3:]) > -700:
        raise g.error(f"there is no matrix of weights for {numbers}", code="E6003")
    low, high = (2595 * math.log10(1 + edge / 700) for edge in numbers[3:])
    rows = length // 2 + 1
    edges = low + np.arange(bins + 2) * ((high - low) / (bins + 2))
    bin_edges = np.floor((length + 1) * (700 * (10 ** (edges / 2595) - 1)) / rate).astype(np.int64)
    if not 0 <= bin_edges.min() <= bin_edges[:-1].max() < rows or bin_edges[-1] > rows:
        raise g.error(f"a frequency lies beyond the {rows} of the transform", code="E6003")
    matrix: Array = np.zeros((rows, bins))
    for i in range(bins):
        lower, centre, upper = bin_edges[i : i + 3]
        for j in range(lower, centre + 1) if centre > lower else [centre]:
            matrix[j, i] = 1 if centre == lower else (j - lower) / (centre - lower)
        for j in range(centre, upper):
            matrix[j, i] = (upper - j) / (upper - centre)
    return g.const(matrix, dtype_name(output_datatype))


@converter("TensorScatter", since=24)
def tensor_scatter(
    g: Emitter,
    past_cache: Tensor,
    update: Tensor,
    write_indices: Tensor | None = None,
    *,
    axis: int = -2,
    mode: str = "linear",
) -> Tensor:
    ndim = g.ndim(past_cache)
    dimension = g.axis(axis, ndim)
    dims = g.fitting(g.dims(update), ndim, "the shape of update")
    steps = op.reshape(_count(dims[dimension]), [-1 if d == dimension else 1 for d in range(ndim)])
    if write_indices is not None:
        steps = op.add(steps, op.reshape(write_indices, [-1, *[1] * (ndim - 1)]))
    if mode == "circular":
        steps = op.floor_mod(steps, op.full(ShapeExpr([]), PrimValue(g.dims(past_cache)[dimension]), "int64"))
    elif mode != "linear":
        raise g.error(f"mode must be linear or circular, found {mode!r}", code="E6003")
    return op.scatter_elements(past_cache, g.emit(op.broadcast_to(steps, ShapeExpr(dims))), update, axis=dimension)
