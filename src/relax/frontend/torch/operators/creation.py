"""Operators that make tensors of numbers and shapes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .... import op
from ....expr import PrimValue, ShapeExpr
from ....ir import RelaxExpr
from ....prim import PrimExpr, const
from ..emitter import Dim, Emitter, as_dim
from ..registry import converter, register

MOST_PLACES = 1 << 22
"""Maximum number of elements of a matrix, the indices of whose triangles are a constant."""


def _filled(g: Emitter, sizes: Sequence[Dim], value: Any) -> RelaxExpr:
    dims = ShapeExpr([as_dim(dim) for dim in sizes])
    if isinstance(value, RelaxExpr):
        return op.broadcast_to(g.cast(value, g.out_dtype), dims)
    if isinstance(value, PrimExpr):
        return op.full(dims, PrimValue(value), g.out_dtype)
    return op.full(dims, g.const(value, g.out_dtype), g.out_dtype)


def _of_sizes(value: int) -> Callable[..., RelaxExpr]:
    def convert(g: Emitter, size: Sequence[Dim], *others: Any, **options: Any) -> RelaxExpr:
        return _filled(g, size, value)

    return convert


def _like(value: int) -> Callable[..., RelaxExpr]:
    def convert(g: Emitter, x: RelaxExpr, *others: Any, **options: Any) -> RelaxExpr:
        return _filled(g, g.dims(x), value)

    return convert


def _of_new_sizes(value: int) -> Callable[..., RelaxExpr]:
    def convert(g: Emitter, x: RelaxExpr, size: Sequence[Dim], *others: Any, **options: Any) -> RelaxExpr:
        return _filled(g, size, value)

    return convert


for _name, _value in {"zeros": 0, "ones": 1, "empty": 0}.items():  # what is not initialised is 0
    register(f"aten.{_name}", _of_sizes(_value))
    register(f"aten.{_name}_like", _like(_value))
    register(f"aten.new_{_name}", _of_new_sizes(_value))
register("aten.empty.memory_format", _of_sizes(0))
register("aten.empty_permuted", _of_sizes(0))
register("aten._efficientzerotensor", _of_sizes(0))


@converter("aten.empty_strided")
def empty_strided(g: Emitter, size: Sequence[Dim], stride: Sequence[Dim], **options: Any) -> RelaxExpr:
    if any(isinstance(step, int) and step < 0 for step in stride):
        raise g.error(f"the strides {list(stride)} are negative", hint="pass strides from 0 on")
    return _filled(g, size, 0)


@converter("aten.new_empty_strided")
def new_empty_strided(
    g: Emitter, x: RelaxExpr, size: Sequence[Dim], stride: Sequence[Dim], **options: Any
) -> RelaxExpr:
    return empty_strided(g, size, stride)


@converter("aten.full.default")
def full(g: Emitter, size: Sequence[Dim], fill_value: Any, **options: Any) -> RelaxExpr:
    return _filled(g, size, fill_value)


@converter("aten.full_like")
def full_like(g: Emitter, x: RelaxExpr, fill_value: Any, **options: Any) -> RelaxExpr:
    return _filled(g, g.dims(x), fill_value)


@converter("aten.new_full")
def new_full(g: Emitter, x: RelaxExpr, size: Sequence[Dim], fill_value: Any, **options: Any) -> RelaxExpr:
    return _filled(g, size, fill_value)


@converter("aten.fill")
def fill(g: Emitter, x: RelaxExpr, value: Any) -> RelaxExpr:
    return _filled(g, g.dims(x), value)


@converter("aten.scalar_tensor", "prims.scalar_tensor")
def scalar_tensor(g: Emitter, s: Any, **options: Any) -> RelaxExpr:
    return g.tensor(s, g.out_dtype)


@converter("aten.arange.default")
def arange(g: Emitter, end: Any, **options: Any) -> RelaxExpr:
    return arange_from(g, 0, end)


@converter("aten.arange.start", "aten.arange.start_step")
def arange_from(g: Emitter, start: Any, end: Any, step: Any = 1, **options: Any) -> RelaxExpr:
    bounds = [PrimValue(_scalar(value)) for value in (start, end, step)]
    return op.arange(*bounds, dtype=g.out_dtype)


def _scalar(value: Any) -> PrimExpr:
    return value if isinstance(value, PrimExpr) else const(value, "float64" if isinstance(value, float) else "int64")


@converter("aten.linspace.default")
def linspace(g: Emitter, start: Any, end: Any, steps: int, **options: Any) -> RelaxExpr:
    """From both ends to the middle, as torch reckons it."""
    dtype = g.out_dtype
    if steps < 2:
        return _filled(g, [steps], start)
    step = g.const((float(end) - float(start)) / (steps - 1), dtype)
    position = g.emit(op.arange(steps, dtype="int64"))
    ahead = op.add(g.const(start, dtype), op.multiply(step, op.astype(position, dtype)))
    steps_left = op.astype(op.subtract(g.const(steps - 1, "int64"), position), dtype)
    back = op.subtract(g.const(end, dtype), op.multiply(step, steps_left))
    return op.where(op.less(position, g.const(steps // 2, "int64")), ahead, back)


@converter("aten.eye.default", "aten.eye.m")
def eye(g: Emitter, n: Dim, m: Dim | None = None, **options: Any) -> RelaxExpr:
    rows = op.arange(PrimValue(as_dim(n)), dtype="int64")
    columns = op.arange(PrimValue(as_dim(n if m is None else m)), dtype="int64")
    return op.astype(op.equal(op.expand_dims(rows, [1]), columns), g.out_dtype)


@converter("aten.meshgrid.indexing", "aten.meshgrid.default")
def meshgrid(g: Emitter, tensors: Sequence[RelaxExpr], *, indexing: str = "ij") -> list[RelaxExpr]:
    return g.parts(op.meshgrid(list(tensors), indexing=indexing))


@converter("aten.one_hot")
def one_hot(g: Emitter, x: RelaxExpr, num_classes: int = -1) -> RelaxExpr:
    if num_classes < 0:
        g.unsupported("one_hot without num_classes", "pass num_classes")
    if str(g.dtype(x)) != "int64":
        raise g.error(f"classes of {g.dtype(x)}", hint="convert them to torch.int64")
    classes = op.arange(num_classes, dtype=str(g.dtype(x)))
    return op.astype(op.equal(op.expand_dims(x, [g.ndim(x)]), classes), "int64")


@converter("aten.tril_indices")
def tril_indices(g: Emitter, row: int, col: int, offset: int = 0, **options: Any) -> RelaxExpr:
    return _triangle(g, np.tril_indices, row, col, offset)


@converter("aten.triu_indices")
def triu_indices(g: Emitter, row: int, col: int, offset: int = 0, **options: Any) -> RelaxExpr:
    return _triangle(g, np.triu_indices, row, col, offset)


def _triangle(g: Emitter, indices: Callable[..., Any], row: int, col: int, offset: int) -> RelaxExpr:
    """The constant of the indices of a triangle of a matrix."""
    if row < 0 or col < 0:
        raise g.error(f"a matrix of {row} x {col} elements", hint="pass sizes from 0 on")
    if row * col > MOST_PLACES:
        g.unsupported(f"the indices of a triangle of {row} x {col} elements", f"at most {MOST_PLACES} are a constant")
    return g.const(np.stack(indices(row, max(-row, min(offset, col)), col)), g.out_dtype)
