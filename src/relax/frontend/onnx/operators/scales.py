"""Scales and zero points of quantised tensors, as operands that broadcast with the data."""

from __future__ import annotations

from .... import op
from ..emitter import Emitter
from ..values import Tensor


def one_number(g: Emitter, parameter: Tensor) -> Tensor:
    """A scale or zero point for a whole tensor without dimensions; one per index of an axis as it is."""
    if g.ndim(parameter) == 1 and g.is_true(g.dims(parameter)[0].equal(1)):
        return op.reshape(parameter, [])
    return parameter


def _block(g: Emitter, x: Tensor, parameter: Tensor, axis: int, block_size: int) -> Tensor:
    """A parameter with one number for each block along an axis, repeated for each element."""
    whole = op.repeat(parameter, block_size, axis)
    size = g.dims(x)[axis]
    return op.strided_slice(whole, [axis], [0], [size])


def spread(g: Emitter, x: Tensor, parameter: Tensor, axis: int, block_size: int) -> Tensor:
    """A scale or zero point in a shape that broadcasts with the data."""
    parameter = g.emit(one_number(g, parameter))
    if g.ndim(parameter) == 0:
        return parameter
    dimension = g.axis(axis, g.ndim(x))
    if g.ndim(parameter) == g.ndim(x) and (block_size or g.ndim(x) > 1):
        return _block(g, x, parameter, dimension, block_size) if block_size else parameter
    return op.reshape(parameter, [-1 if d == dimension else 1 for d in range(g.ndim(x))])
