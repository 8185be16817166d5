"""Random tensors. Their numbers are those of relax.op.random, not torch's, and differ from call to call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .... import op
from ....expr import ShapeExpr
from ....ir import RelaxExpr
from ....prim import simplify
from ..emitter import Dim, Emitter, as_dim
from ..registry import converter, register

Draw = Callable[..., RelaxExpr]
"""op.random.uniform or op.random.normal."""


def _drawn(g: Emitter, draw: Draw, sizes: Sequence[Dim], dtype: str) -> RelaxExpr:
    seed = g.emit(op.random.seed())
    return g.emit(draw(ShapeExpr([as_dim(size) for size in sizes]), seed, dtype=dtype))


def _of_sizes(draw: Draw) -> Callable[..., RelaxExpr]:
    def convert(g: Emitter, size: Sequence[Dim], **options: Any) -> RelaxExpr:
        return _drawn(g, draw, size, g.out_dtype)

    return convert


def _like(draw: Draw) -> Callable[..., RelaxExpr]:
    def convert(g: Emitter, x: RelaxExpr, **options: Any) -> RelaxExpr:
        return _drawn(g, draw, g.dims(x), g.out_dtype)

    return convert


for _name, _draw in {"rand": op.random.uniform, "randn": op.random.normal}.items():
    register(f"aten.{_name}.default", _of_sizes(_draw), pure=False)
    register(f"aten.{_name}_like.default", _like(_draw), pure=False)


def _integers(g: Emitter, low: Dim, high: Dim, sizes: Sequence[Dim]) -> RelaxExpr:
    """Integers ≥ low and < high: the floor of as many parts of 1."""
    if isinstance(low, int) and isinstance(high, int) and low >= high:
        raise g.error(f"there are no integers from {low} to less than {high}", hint="pass the lower limit first")
    share = _drawn(g, op.random.uniform, sizes, "float64")
    count = g.tensor(simplify(as_dim(high) - low), "float64")
    whole = op.astype(op.floor(op.multiply(share, count)), "int64")
    return g.cast(g.emit(op.add(whole, g.tensor(low, "int64"))), g.out_dtype)


@converter("aten.randint.default", pure=False)
def randint(g: Emitter, high: Dim, size: Sequence[Dim], **options: Any) -> RelaxExpr:
    return _integers(g, 0, high, size)


@converter("aten.randint.low", pure=False)
def randint_from(g: Emitter, low: Dim, high: Dim, size: Sequence[Dim], **options: Any) -> RelaxExpr:
    return _integers(g, low, high, size)


@converter("aten.randint_like.default", pure=False)
def randint_like(g: Emitter, x: RelaxExpr, high: Dim, **options: Any) -> RelaxExpr:
    return _integers(g, 0, high, g.dims(x))


@converter("aten.randint_like.low_dtype", pure=False)
def randint_like_from(g: Emitter, x: RelaxExpr, low: Dim, high: Dim, **options: Any) -> RelaxExpr:
    return _integers(g, low, high, g.dims(x))


@converter("aten.randperm.default", pure=False)
def randperm(g: Emitter, n: Dim, **options: Any) -> RelaxExpr:
    """The places of random numbers in order."""
    keys = _drawn(g, op.random.uniform, [n], "float64")
    return g.cast(g.emit(op.argsort(keys, 0, False, "int64")), g.out_dtype)
