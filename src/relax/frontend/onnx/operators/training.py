"""Steps of optimisers (ai.onnx.preview.training): Adagrad, Adam, Momentum."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .... import op
from ..emitter import Emitter
from ..registry import converter
from ..values import Tensor

DOMAIN = "ai.onnx.preview.training"


def _groups(g: Emitter, inputs: Sequence[Tensor], count: int) -> list[Sequence[Tensor]]:
    """The inputs in `count` groups of one length: the tensors that are optimised, their gradients, …"""
    if len(inputs) % count:
        raise g.error(f"it has {len(inputs)} tensors, expected {count} for each that is optimised", code="E6002")
    size = len(inputs) // count
    return [inputs[i * size : (i + 1) * size] for i in range(count)]


def _regularised(g: Emitter, x: Tensor, gradient: Tensor, coefficient: float) -> Tensor:
    if not coefficient:
        return gradient
    return g.emit(op.add(op.multiply(g.const(coefficient, g.dtype(x)), x), gradient))


@converter("Adagrad", domain=DOMAIN)
def adagrad(
    g: Emitter,
    R: Tensor,
    T: Tensor,
    *inputs: Tensor,
    decay_factor: float = 0.0,
    epsilon: float = 0.0,
    norm_coefficient: float = 0.0,
) -> tuple[Tensor, ...]:
    dtype = g.dtype(R)
    passed = op.multiply(op.astype(T, str(dtype)), g.const(decay_factor, dtype))
    rate = g.emit(op.divide(R, op.add(passed, g.const(1, dtype))))
    new: list[Tensor] = []
    squares: list[Tensor] = []
    for x, gradient, h in zip(*_groups(g, inputs, 3), strict=True):
        step = _regularised(g, x, gradient, norm_coefficient)
        squares.append(g.emit(op.add(h, op.multiply(step, step))))
        scaled = op.add(op.sqrt(squares[-1]), g.const(epsilon, g.dtype(x)))
        new.append(op.subtract(x, op.divide(op.multiply(rate, step), scaled)))
    return (*new, *squares)


@converter("Adam", domain=DOMAIN)
def adam(
    g: Emitter,
    R: Tensor,
    T: Tensor,
    *inputs: Tensor,
    alpha: float = 0.9,
    beta: float = 0.999,
    epsilon: float = 0.0,
    norm_coefficient: float = 0.0,
    norm_coefficient_post: float = 0.0,
) -> tuple[Tensor, ...]:
    dtype = g.dtype(R)
    one, count = g.const(1, dtype), g.emit(op.astype(T, str(dtype)))
    corrections = [op.subtract(one, op.power(g.const(base, dtype), count)) for base in (alpha, beta)]
    corrected = op.divide(op.multiply(R, op.sqrt(corrections[1])), corrections[0])
    rate = g.emit(op.where(op.greater(count, g.const(0, dtype)), corrected, R))
    groups: list[list[Tensor]] = [[], [], []]
    for x, gradient, v, h in zip(*_groups(g, inputs, 4), strict=True):
        kind = g.dtype(x)
        step = _regularised(g, x, gradient, norm_coefficient)
        mean = g.emit(op.add(op.multiply(g.const(alpha, kind), v), op.multiply(g.const(1 - alpha, kind), step)))
        square = op.multiply(g.const(1 - beta, kind), op.multiply(step, step))
        moment = g.emit(op.add(op.multiply(g.const(beta, kind), h), square))
        scaled = op.add(op.sqrt(moment), g.const(epsilon, kind))
        moved = op.subtract(x, op.divide(op.multiply(rate, mean), scaled))
        final = op.multiply(g.const(1 - norm_coefficient_post, kind), moved) if norm_coefficient_post else moved
        for group, value in zip(groups, (final, mean, moment), strict=True):
            group.append(value)
    return (*groups[0], *groups[1], *groups[2])


@converter("Momentum", domain=DOMAIN)
def momentum(
    g: Emitter, R: Tensor, T: Tensor, *inputs: Tensor, alpha: float, beta: float, mode: str, norm_coefficient: float
) -> tuple[Tensor, ...]:
    if mode not in ("standard", "nesterov"):
        raise g.error(f"mode must be standard or nesterov, found {mode!r}", code="E6003")
    dtype = g.dtype(R)
    later = op.greater(T, g.const(0, g.dtype(T)))
    factor = g.emit(op.where(later, g.const(beta, dtype), g.const(1, dtype)))
    new: list[Tensor] = []
    momenta: list[Tensor] = []
    for x, gradient, v in zip(*_groups(g, inputs, 3), strict=True):
        decay = g.const(alpha, g.dtype(x))
        step = _regularised(g, x, gradient, norm_coefficient)
        momenta.append(g.emit(op.add(op.multiply(decay, v), op.multiply(factor, step))))
        direction = momenta[-1]
        if mode == "nesterov":
            direction = op.add(step, op.multiply(decay, direction))
        new.append(op.subtract(x, op.multiply(R, direction)))
    return (*new, *momenta)


@converter("Gradient", domain=DOMAIN)
def gradient(g: Emitter, *inputs: Tensor, **attributes: Any) -> Tensor:
    g.unsupported("a gradient within a model")
