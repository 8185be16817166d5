"""Random tensors, and Dropout.

The numbers are those of relax.op.random: without a seed they differ from call to call.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

from .... import op
from ....expr import PrimValue, ShapeExpr
from ....ir import RelaxExpr
from ....prim import PrimExpr, const
from ..emitter import Emitter
from ..registry import converter
from ..values import Elements, Ints, Tensor, Value

FLOAT, INT32 = 1, 6
"""ONNX's numbers of float32 and int32."""

Draw = Callable[..., Tensor]
"""op.random.uniform or op.random.normal."""


def _drawn(g: Emitter, draw: Draw, dims: Sequence[PrimExpr], dtype: str, seed: float | None) -> Tensor:
    """A tensor of random numbers. A seed is a float32 in ONNX: its bits are used."""
    start: RelaxExpr
    if seed is None:
        start = g.emit(op.random.seed())
    else:
        (bits,) = struct.unpack("<i", struct.pack("<f", seed))
        start = PrimValue(const(bits, "int64"))
    return g.emit(draw(ShapeExpr(dims), start, dtype=dtype))


def _shifted(x: Tensor, scale: float, shift: float) -> Tensor:
    scaled = x if scale == 1 else op.multiply(x, scale)
    return scaled if shift == 0 else op.add(scaled, shift)


def _uniform(g: Emitter, dims: Sequence[PrimExpr], dtype: str, low: float, high: float, seed: float | None) -> Tensor:
    return _shifted(_drawn(g, op.random.uniform, dims, dtype, seed), high - low, low)


def _normal(g: Emitter, dims: Sequence[PrimExpr], dtype: str, mean: float, scale: float, seed: float | None) -> Tensor:
    return _shifted(_drawn(g, op.random.normal, dims, dtype, seed), scale, mean)


@converter("RandomUniform", pure=False)
def random_uniform(
    g: Emitter, *, shape: Ints, dtype: int = FLOAT, low: float = 0.0, high: float = 1.0, seed: float | None = None
) -> Tensor:
    return _uniform(g, [const(dim, "int64") for dim in shape], g.numbers(dtype), low, high, seed)


@converter("RandomUniformLike", pure=False)
def random_uniform_like(
    g: Emitter, x: Tensor, *, dtype: int | None = None, low: float = 0.0, high: float = 1.0, seed: float | None = None
) -> Tensor:
    kind = str(g.dtype(x)) if dtype is None else g.numbers(dtype)
    return _uniform(g, g.dims(x), kind, low, high, seed)


@converter("RandomNormal", pure=False)
def random_normal(
    g: Emitter, *, shape: Ints, dtype: int = FLOAT, mean: float = 0.0, scale: float = 1.0, seed: float | None = None
) -> Tensor:
    return _normal(g, [const(dim, "int64") for dim in shape], g.numbers(dtype), mean, scale, seed)


@converter("RandomNormalLike", pure=False)
def random_normal_like(
    g: Emitter, x: Tensor, *, dtype: int | None = None, mean: float = 0.0, scale: float = 1.0, seed: float | None = None
) -> Tensor:
    kind = str(g.dtype(x)) if dtype is None else g.numbers(dtype)
    return _normal(g, g.dims(x), kind, mean, scale, seed)


@converter("Bernoulli", pure=False)
def bernoulli(g: Emitter, x: Tensor, *, dtype: int | None = None, seed: float | None = None) -> Tensor:
    kind = str(g.dtype(x)) if dtype is None else g.numbers(dtype)
    drawn = _drawn(g, op.random.uniform, g.dims(x), str(g.dtype(x)), seed)
    return op.astype(op.less(drawn, x), kind)


@converter("Multinomial", pure=False)
def multinomial(
    g: Emitter, x: Tensor, *, dtype: int = INT32, sample_size: int = 1, seed: float | None = None
) -> Tensor:
    """Classes drawn with the probabilities softmax(x), several for each row."""
    if g.ndim(x) != 2:
        raise g.error(f"expected a row of numbers for each sample, found {g.ndim(x)} dimensions", code="E6003")
    rows, _ = g.dims(x)
    count = const(sample_size, "int64")
    numbers = _drawn(g, op.random.uniform, [rows * count, const(1, "int64")], str(g.dtype(x)), seed)
    row = op.repeat(op.arange(PrimValue(rows)), PrimValue(count), axis=0)
    sample = op.multinomial_from_uniform(op.nn.softmax(x), numbers, op.expand_dims(row, 1), dtype=g.numbers(dtype))
    return op.reshape(sample, ShapeExpr([rows, count]))


# ------------------------------------------------------------------------------------- Dropout


@converter("Dropout", since=7)
def dropout_without_training(g: Emitter, x: Tensor, *, ratio: float = 0.5) -> Any:
    return _everything_kept(g, x, "bool" if g.opset >= 10 else str(g.dtype(x)))


@converter("Dropout", since=12)
def dropout(
    g: Emitter, x: Tensor, ratio: Value | None = None, training_mode: Value | None = None, *, seed: int | None = None
) -> Any:
    """Outside of training the tensor itself; in training, with a seed, elements are dropped at random."""
    share = g.const(0.5, "float32") if ratio is None else ratio
    if training_mode is None or _is_number(g.elements(training_mode), 0) or _is_number(g.elements(share), 0):
        return _everything_kept(g, x, "bool")
    if seed is None:
        hint = "export the model for inference, or give the node a seed"
        g.unsupported("training mode without a seed", hint)
    training, dropped = (g.emit(op.reshape(g.tensor(value), ())) for value in (training_mode, share))
    wide = "float64" if g.dtype(x) == "float64" else "float32"
    dropped = g.emit(op.where(training, g.cast(dropped, wide), g.const(0, wide)))
    kept = g.emit(op.greater_equal(_drawn(g, op.random.uniform, g.dims(x), wide, seed), dropped))
    scaled = op.divide(g.cast(x, wide), op.subtract(1.0, dropped))
    return g.cast(op.where(kept, scaled, 0.0), g.dtype(x)), kept


def _is_number(value: Elements | None, number: float) -> bool:
    """True for a value of one element, which is known to be this number."""
    numbers = None if value is None else value.numbers()
    return numbers is not None and bool((numbers == number).all())


def _everything_kept(g: Emitter, x: Tensor, dtype: str) -> Any:
    """Return the tensor itself, and a mask of ones if requested."""
    if not any(g.outputs[1:]):
        return x
    return x, op.ones(ShapeExpr(g.dims(x)), dtype)
