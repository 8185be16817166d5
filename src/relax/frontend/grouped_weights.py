"""Weights of 4 or 8 bits in files of AWQ, GPTQ and compressed-tensors, as rows of block formats.

    weights = relax.frontend.grouped_weights.from_gptq(file["w.qweight"], file["w.qzeros"], file["w.scales"])
    weights.rows, weights.format        uint8 (rows, bytes), "int4_g128_zero_float16"

Each tool keeps integers of several columns in a word of 32 bits, and scales and zero points by group of the depth:

    GPTQ                 qweight[k // 8, n], qzeros[group, n // 8] (zero points minus 1), scales[group, n], g_idx[k]
    AWQ                  qweight[k, n // 8], qzeros[group, n // 8], columns in the order 0 2 4 6 1 3 5 7
    compressed-tensors   weight_packed[n, k // 8] (integers plus 8), weight_scale[n, group], weight_zero_point[n, group]

The formulas are those of the tools' own unpacking (AutoGPTQ, AutoAWQ, compressed-tensors, format "pack-quantized").
Nothing is rounded: the rows have the files' integers, zero points, and scales (bfloat16 as float32).
"""

# NumPy's stubs leave the results of transposing, reshape and view partly unknown.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..ir import Diagnostic, DiagnosticError
from ..runtime.records import dataclass
from ..topi.block_formats import group_rows

Array: TypeAlias = "NDArray[Any]"

UNFIT: Final = "E6014"
"""Error code: tensors of quantised weights do not fit together."""
AWQ_ORDER: Final = (0, 2, 4, 6, 1, 3, 5, 7)
"""Column, among the eight of a 32-bit word, of each four bits from the lowest on."""


@dataclass(frozen=True)
class GroupedWeights:
    """Weights as rows of blocks: uint8 (rows, bytes), with the name of their format.

    `columns` is the place in the depth of each number of a row, or None if they are in order: products multiply
    ``R.take(x, columns, axis=-1)``.
    """

    rows: Array
    format: str
    columns: Array | None = None


def from_gptq(
    qweight: Array, qzeros: Array, scales: Array, g_idx: Array | None = None, *, bits: int = 4, zero_offset: int = 1
) -> GroupedWeights:
    """Return weights of GPTQ: qweight int32 (depth · bits / 32, n), qzeros int32 (groups, n · bits / 32), scales.

    `zero_offset` is what the tool subtracted from zero points: 1, or 0 in the form gptq_v2. Raises DiagnosticError
    (E6014) for tensors that do not fit together, groups of different sizes, and bits other than 4 and 8.
    """
    _require_bits(bits)
    numbers = _unpacked(_words(qweight, "qweight").T, bits).T
    depth, rows = numbers.shape
    groups = _sizes("scales", scales, None, rows)[0]
    zeros = _unpacked(_words(qzeros, "qzeros"), bits)
    _sizes("qzeros", zeros, groups, rows)
    columns = _in_groups(g_idx, depth, groups)
    if columns is not None:
        numbers = numbers[columns]
    return _grouped(numbers.T, scales.T, zeros.T.astype(np.int32) + zero_offset, bits, columns)


def from_awq(qweight: Array, qzeros: Array, scales: Array) -> GroupedWeights:
    """Return weights of AWQ (version "gemm", 4 bits): qweight int32 (depth, n / 8), qzeros int32 (groups, n / 8).

    Raises DiagnosticError (E6014) for tensors that do not fit together.
    """
    numbers, zeros = (
        _unpacked(_words(words, name), 4, AWQ_ORDER) for words, name in ((qweight, "qweight"), (qzeros, "qzeros"))
    )
    groups = _sizes("scales", scales, None, numbers.shape[1])[0]
    _sizes("qzeros", zeros, groups, numbers.shape[1])
    _in_groups(None, len(numbers), groups)
    return _grouped(numbers.T, scales.T, zeros.T, 4, None)


def from_compressed_tensors(
    weight_packed: Array, weight_scale: Array, weight_zero_point: Array | None = None, *, depth: int, bits: int = 4
) -> GroupedWeights:
    """Return weights in the format "pack-quantized": weight_packed int32 (n, ⌈depth · bits / 32⌉), scales (n, groups).

    `depth` is the second number of ``weight_shape``. Zero points are integers from -8 (-128) on, int8 (n, groups), or
    packed along n as the weights are, int32. Raises DiagnosticError (E6014) for tensors that do not fit together.
    """
    _require_bits(bits)
    low = 1 << bits - 1
    codes = _unpacked(_words(weight_packed, "weight_packed"), bits)
    rows = len(codes)
    if not 0 < depth <= codes.shape[1]:
        raise _unfit(f"weight_packed has {codes.shape[1]} columns for a depth of {depth}")
    codes = codes[:, :depth]
    groups = _sizes("weight_scale", weight_scale, rows, None)[1]
    _in_groups(None, depth, groups)
    if weight_zero_point is None:
        return _grouped(codes.astype(np.int32) - low, weight_scale, None, bits, None)
    if weight_zero_point.dtype == np.int32 and weight_zero_point.shape != (rows, groups):
        zeros: Array = _unpacked(weight_zero_point.T, bits).T[:rows].astype(np.int32)
    else:
        zeros = weight_zero_point.astype(np.int32) + low
    _sizes("weight_zero_point", zeros, rows, groups)
    return _grouped(codes, weight_scale, zeros, bits, None)


def _grouped(numbers: Array, scales: Array, zeros: Array | None, bits: int, columns: Array | None) -> GroupedWeights:
    """Return numbers (rows, depth) with scales and zero points (rows, groups)."""
    try:
        rows, held = group_rows(numbers, np.ascontiguousarray(scales), zeros, bits)
    except ValueError as error:
        raise _unfit(str(error)) from None
    return GroupedWeights(rows, held.name, columns)


def _unpacked(words: Array, bits: int, order: tuple[int, ...] | None = None) -> Array:
    """Return the integers in int32 words (rows, words) as uint8 (rows, words · 32 / bits), the lowest bits first."""
    count = 32 // bits
    shifts = np.arange(0, 32, bits, dtype=np.uint32)
    parts = (np.ascontiguousarray(words).view(np.uint32)[..., None] >> shifts).astype(np.uint8) & ((1 << bits) - 1)
    if order is not None:
        parts = parts[..., np.argsort(order)]
    return np.reshape(parts, (len(words), words.shape[1] * count))


def _words(array: Array, name: str) -> Array:
    """Return a matrix of words. Raises DiagnosticError for another array."""
    if array.ndim != 2 or str(array.dtype) not in ("int32", "uint32"):
        raise _unfit(f"{name} must be a matrix of int32, found {array.dtype} of shape {array.shape}")
    return array


def _sizes(name: str, array: Array, first: int | None, second: int | None) -> tuple[int, int]:
    """Return the shape of a matrix. Raises DiagnosticError unless it has the sizes that are given."""
    expected = ", ".join("any" if size is None else str(size) for size in (first, second))
    shape = array.shape
    if len(shape) != 2 or 0 in shape or first not in (None, shape[0]) or second not in (None, shape[1]):
        raise _unfit(f"{name} must have the shape ({expected}), found {shape}")
    return shape[0], shape[1]


def _in_groups(g_idx: Array | None, depth: int, groups: int) -> Array | None:
    """Return the columns sorted by their groups; None if they are in order."""
    if depth % groups:
        raise _unfit(f"a depth of {depth} has no {groups} groups of one size")
    if g_idx is None:
        return None
    own = np.ravel(g_idx).astype(np.int64)
    counts = np.bincount(own, minlength=groups) if own.size == depth and own.min() >= 0 else np.zeros(0)
    if len(counts) != groups or (counts != depth // groups).any():
        raise _unfit(f"g_idx must name each of {groups} groups {depth // groups} times")
    columns = np.argsort(own, kind="stable")
    return None if np.array_equal(columns, np.arange(depth)) else columns


def _require_bits(bits: int) -> None:
    if bits not in (4, 8):
        raise _unfit(f"weights of {bits} bits are not read; 4 and 8 are")


def _unfit(message: str) -> DiagnosticError:
    hint = "are all tensors of one layer, as the tool wrote them?"
    return DiagnosticError(Diagnostic(UNFIT, f"quantised weights: {message}", None, "", (), hint))


__all__ = ["GroupedWeights", "from_awq", "from_compressed_tensors", "from_gptq"]
