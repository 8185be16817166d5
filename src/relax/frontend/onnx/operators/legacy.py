"""Operators of early ONNX versions that were removed from the standard."""

from __future__ import annotations

import numpy as np

from .... import op
from ....expr import ShapeExpr
from ....prim import const
from ..emitter import Emitter
from ..registry import converter
from ..values import Elements, Floats, Ints, Tensor, Value
from .creation import FLOAT


@converter("Affine")
def affine(g: Emitter, X: Tensor, *, alpha: float = 1.0, beta: float = 0.0) -> Tensor:
    dtype = g.dtype(X)
    return op.add(op.multiply(X, g.const(alpha, dtype)), g.const(beta, dtype))


@converter("Scale")
def scale_(g: Emitter, input: Tensor, *, scale: float = 1.0) -> Tensor:
    return op.multiply(input, g.const(scale, g.dtype(input)))


@converter("ScaledTanh")
def scaled_tanh(g: Emitter, input: Tensor, *, alpha: float = 1.0, beta: float = 1.0) -> Tensor:
    dtype = g.dtype(input)
    return op.multiply(g.const(alpha, dtype), op.tanh(op.multiply(g.const(beta, dtype), input)))


@converter("ParametricSoftplus")
def parametric_softplus(g: Emitter, X: Tensor, *, alpha: float = 1.0, beta: float = 1.0) -> Tensor:
    dtype = g.dtype(X)
    return op.multiply(g.const(alpha, dtype), op.nn.softplus(op.multiply(g.const(beta, dtype), X)))


@converter("ImageScaler")
def image_scaler(g: Emitter, input: Tensor, *, bias: Floats = (), scale: float = 1.0) -> Tensor:
    """An image of layout NCHW times a number, plus one for each channel."""
    if g.ndim(input) != 4:
        raise g.error(f"its input must have 4 dimensions, found {g.ndim(input)}", code="E6003")
    dtype = g.dtype(input)
    scaled = op.multiply(input, g.const(scale, dtype))
    return op.add(scaled, g.const(np.reshape(bias, (-1, 1, 1)), dtype)) if bias else scaled


@converter("Crop")
def crop(g: Emitter, input: Tensor, *, border: Ints, scale: Ints = ()) -> Tensor:
    """An image of layout NCHW without its borders: left, top, right, bottom; with `scale` the height and width kept."""
    left, top, right, bottom = g.within(g.fitting(border, 4, "border"), "border", 0)
    if g.ndim(input) != 4:
        raise g.error(f"its input must have 4 dimensions, found {g.ndim(input)}", code="E6003")
    height, width = g.dims(input)[2:]
    ends = [height - bottom, width - right]
    if scale:
        rows, columns = g.within(g.fitting(scale, 2, "scale"), "scale", 0)
        ends = [const(top + rows, "int64"), const(left + columns, "int64")]
    return op.strided_slice(input, [2, 3], [top, left], ends)


@converter("ConstantFill")
def constant_fill(
    g: Emitter,
    input: Value | None = None,
    *,
    dtype: int = FLOAT,
    extra_shape: Ints = (),
    input_as_shape: int = 0,
    shape: Ints = (),
    value: float = 0.0,
) -> Tensor:
    """A constant tensor of the shape that an attribute gives, or an input, or that an input has."""
    if input is None:
        dims = Elements.of(shape).flat
    elif input_as_shape:
        dims = g.sizes(input, "input")
    else:
        dims = g.dims(g.tensor(input))
    element = g.numbers(dtype)
    return op.full(ShapeExpr([*dims, *Elements.of(extra_shape).flat]), g.const(value, element), element)
