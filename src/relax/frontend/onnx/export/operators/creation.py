"""Tensors made of sizes and numbers: full, zeros, arange, eye, triangles, window functions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..graph import Graph
from ..kernels import wide_dtype
from ..registry import Sizes, writer
from ..tensor import Size, Tensor
from .elementwise import converted
from .shape import result_dims, shaped


def filled(g: Graph, value: Tensor, sizes: Sequence[Size]) -> Tensor:
    """A tensor of a shape whose elements all have one value."""
    return value.expand(sizes)


@writer("relax.full")
def full(g: Graph, operator: Any, shape: Sizes, fill_value: Tensor) -> Tensor:
    value = converted(fill_value, str(operator.dtype) or fill_value.dtype)
    return shaped(g, value, shape, "Expand")


@writer("relax.full_like")
def full_like(g: Graph, operator: Any, x: Tensor, fill_value: Tensor) -> Tensor:
    return filled(g, converted(fill_value, str(operator.dtype) or x.dtype), x.sizes())


@writer("relax.zeros", "relax.ones")
def constant(g: Graph, operator: Any, shape: Sizes) -> Tensor:
    return shaped(g, g.const(operator.number, str(operator.dtype)), shape, "Expand")


@writer("relax.zeros_like", "relax.ones_like")
def constant_like(g: Graph, operator: Any, x: Tensor) -> Tensor:
    return filled(g, g.const(operator.number, str(operator.dtype) or x.dtype), x.sizes())


# ------------------------------------------------------------------------------------------- ranges


def numbers(g: Graph, count: Size) -> Tensor:
    """The vector 0, 1, … count - 1 of int64."""
    return g.node("Range", g.const(0, "int64"), g.scalar(count), g.const(1, "int64"), rank=1)


@writer("relax.arange")
def arange(g: Graph, operator: Any, start: Tensor, end: Tensor, step: Tensor) -> Tensor:
    floats = any(bound.kind.is_float for bound in (start, end, step))
    dtype = str(operator.dtype) or ("float32" if floats else "int64")
    dims = result_dims(g)
    if dims is not None:
        count: Size = dims[0]
    elif floats:
        steps = (end.to("float64") - start.to("float64")) / step.to("float64")
        count = g.run("Max", g.run("Ceil", steps).to("int64"), g.const(0, "int64"))
    else:
        whole = [bound.to("int64") for bound in (start, end, step)]
        rest = g.run("Mod", whole[0] - whole[1], whole[2])
        count = g.run("Max", -((whole[0] - whole[1] - rest) / whole[2]), g.const(0, "int64"))
    wide = wide_dtype(dtype)
    return (numbers(g, count).to(wide) * converted(step, wide) + converted(start, wide)).to(dtype)


# ------------------------------------------------------------------------------------------- matrices


@writer("relax.eye")
def eye(g: Graph, operator: Any, n: Tensor, m: Tensor, k: Tensor) -> Tensor:
    dims = result_dims(g)
    rows, columns = (n.to("int64"), m.to("int64")) if dims is None else dims
    return diagonal(g, rows, columns, k).to(str(operator.dtype))


@writer("relax.eye_like")
def eye_like(g: Graph, operator: Any, x: Tensor, k: Tensor) -> Tensor:
    rows, columns = x.sizes()
    return diagonal(g, rows, columns, k).to(str(operator.dtype) or x.dtype)


def diagonal(g: Graph, rows: Size, columns: Size, k: Tensor) -> Tensor:
    """A matrix of bools, true on a diagonal."""
    return (numbers(g, rows).unsqueeze(1) + k.to("int64")).equal(numbers(g, columns).unsqueeze(0))


def _triangle(upper: int) -> Any:
    def write(g: Graph, operator: Any, x: Tensor, k: Tensor) -> Tensor:
        return g.run("Trilu", x, k.to("int64"), rank=x.rank, upper=upper)

    return write


writer("relax.tril")(_triangle(0))
writer("relax.triu")(_triangle(1))


# ------------------------------------------------------------------------------------------- window functions


def cosines(g: Graph, operator: Any, size: Tensor, periodic: Tensor, weights: Sequence[Tensor]) -> Tensor:
    """Weighted cosines of an angle that goes once around; 1 for a single value."""
    dims = result_dims(g)
    count = size.to("int64") if dims is None else g.scalar(dims[0])
    around = count + (periodic.to("bool").to("int64") - 1)
    angle = numbers(g, count).to("float64") * (2 * math.pi) / g.run("Max", around, g.const(1, "int64")).to("float64")
    total: Any = g.const(0.0, "float64")
    for order, weight in enumerate(weights):
        term = g.run("Cos", angle * float(order)) * weight.to("float64")
        total = total - term if order % 2 else total + term
    return count.equal(1).where(1.0, total)


@writer("relax.hamming_window")
def hamming_window(g: Graph, operator: Any, size: Tensor, periodic: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
    return cosines(g, operator, size, periodic, [alpha, beta])


@writer("relax.blackman_window")
def blackman_window(g: Graph, operator: Any, size: Tensor, periodic: Tensor) -> Tensor:
    return cosines(g, operator, size, periodic, [g.const(weight, "float64") for weight in operator.weights])
