"""Fourier transforms as products with a matrix of roots of unity."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import op
from ...expr import Constant
from ...expr import Tuple as RelaxTuple
from ...ir import RelaxExpr
from ...prim import IntImm, const
from .declare import attr, declare, dims, dtype, rank


def _roots(count: int, kind: str, inverse: bool = False, kept: int | None = None) -> tuple[RelaxExpr, RelaxExpr]:
    """Real and imaginary parts of the first `kept` columns of the matrix e^(∓2πi jk / count)."""
    # j·k modulo the count, so that the angles are small and their roots exact to the last digits.
    turns = np.outer(np.arange(count), np.arange(count if kept is None else kept)) % max(count, 1)
    angles = 2 * np.pi * turns / max(count, 1)
    sign = 1 if inverse else -1
    return Constant(np.cos(angles).astype(kind)), Constant((sign * np.sin(angles)).astype(kind))


def _length(x: RelaxExpr) -> int:
    size = dims(x)[rank(x) - 1]
    if not isinstance(size, IntImm):
        raise ValueError("the last dimension must be a number")
    return size.value


def _dft(a: Any, real: RelaxExpr, imaginary: RelaxExpr) -> RelaxExpr:
    count = _length(real)
    cosines, sines = _roots(count, dtype(real), a.inverse)
    results = (
        op.subtract(op.matmul(real, cosines), op.matmul(imaginary, sines)),
        op.add(op.matmul(real, sines), op.matmul(imaginary, cosines)),
    )
    if not a.inverse:
        return RelaxTuple(results)
    whole = Constant(np.array(max(count, 1), dtype(real)))
    return RelaxTuple([op.divide(result, whole) for result in results])


declare(
    "dft", 2, attr("inverse", "bool", False),
    means=_dft, operands="re_data im_data", results=2,
)  # fmt: skip


def _stft(a: Any, x: RelaxExpr, window: RelaxExpr) -> RelaxExpr:
    """Transforms of overlapping frames: (batch, frequencies, frames, 2), with real and imaginary parts last."""
    if rank(x) not in (1, 2):
        raise ValueError("the data must have one dimension, or two")
    rows = x if rank(x) == 2 else op.expand_dims(x, 0)
    samples = dims(x)[rank(x) - 1]
    number = (samples - a.n_fft) // const(a.hop_length, "int64") + 1
    starts = op.multiply(op.arange(number, dtype="int64"), Constant(np.array(a.hop_length, "int64")))
    positions = op.add(op.expand_dims(starts, 1), Constant(np.arange(a.n_fft, dtype="int64")))
    before = (a.n_fft - a.win_length) // 2
    widths = [before, a.n_fft - a.win_length - before]
    weights = op.nn.pad(window, widths, "constant") if any(widths) else window
    frames = op.multiply(op.take(rows, positions, 1), weights)
    kept = a.n_fft // 2 + 1 if a.onesided else a.n_fft
    results: list[RelaxExpr] = []
    for matrix in _roots(a.n_fft, dtype(x), False, kept):
        results.append(op.permute_dims(op.matmul(frames, matrix), [0, 2, 1]))
    both = op.stack(results, 3)
    if not a.normalized:
        return both
    return op.multiply(both, Constant(np.array(a.n_fft**-0.5, dtype(x))))


declare(
    "stft", 2,
    attr("n_fft", "int"), attr("hop_length", "int"), attr("win_length", "int"),
    attr("normalized", "bool", False), attr("onesided", "bool", True),
    means=_stft, operands="data window",
)  # fmt: skip
