"""Shapes: permute, reshape, broadcast, join, cut."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .....prim import IntImm, PrimExpr
from .....struct_info import TensorStructInfo, TupleStructInfo
from ..graph import Graph
from ..registry import Sizes, writer
from ..tensor import Size, Tensor


def result_dims(g: Graph) -> Sequence[PrimExpr] | None:
    """Dimensions that were derived for the result of the call being written, None where they are not known."""
    return g.result.dims if isinstance(g.result, TensorStructInfo) else None


def result_rank(g: Graph) -> int:
    """Rank that was derived for the result of the call being written."""
    return g.result.ndim if isinstance(g.result, TensorStructInfo) else -1


def axes_of(x: Tensor, axis: Any) -> list[int]:
    """Axes, counted from the front and in order; all of them for None."""
    if axis is None:
        return list(range(x.ndim))
    return sorted(a % x.ndim for a in ((axis,) if isinstance(axis, int) else tuple(axis)))


@writer("relax.permute_dims")
def permute_dims(g: Graph, operator: Any, x: Tensor) -> Tensor:
    return x.transpose([int(axis) for axis in operator.order(x.ndim)])


def shaped(g: Graph, x: Tensor, shape: Sizes, op_type: str) -> Tensor:
    """Reshape or expand to a shape value."""
    if shape.given is not None:
        return x.reshape(shape.given) if op_type == "Reshape" else x.expand(shape.given)
    attributes: dict[str, Any] = {"allowzero": 1} if op_type == "Reshape" else {}
    return g.run(op_type, x, shape.vector(g), rank=result_rank(g), **attributes)


@writer("relax.reshape")
def reshape(g: Graph, operator: Any, x: Tensor, shape: Sizes) -> Tensor:
    return shaped(g, x, shape, "Reshape")


@writer("relax.broadcast_to")
def broadcast_to(g: Graph, operator: Any, x: Tensor, shape: Sizes) -> Tensor:
    return shaped(g, x, shape, "Expand")


@writer("relax.flatten")
def flatten(g: Graph, operator: Any, x: Tensor) -> Tensor:
    return x.flat()


@writer("relax.nn.batch_flatten")
def batch_flatten(g: Graph, operator: Any, data: Tensor) -> Tensor:
    dims = result_dims(g)
    return data.reshape(dims) if dims is not None else data.reshape([data.size(0), -1])


@writer("relax.expand_dims")
def expand_dims(g: Graph, operator: Any, x: Tensor) -> Tensor:
    return x.unsqueeze(*sorted(axis % (x.ndim + len(operator.axis)) for axis in operator.axis))


@writer("relax.squeeze")
def squeeze(g: Graph, operator: Any, x: Tensor) -> Tensor:
    axes = operator.axis
    if axes is None:
        if x.dims is None:
            g.refuse("squeeze without axes of a tensor of unknown dimensions", "name them: R.squeeze(x, axis=[0])")
        if not all(isinstance(size, IntImm) for size in x.dims):
            return g.run("Squeeze", x)
        axes = [d for d, size in enumerate(x.dims) if isinstance(size, IntImm) and size.value == 1]
    return x.squeeze(*[axis % x.ndim for axis in axes])


@writer("relax.layout_transform")
def layout_transform(g: Graph, operator: Any, x: Tensor) -> Tensor:
    g.refuse("a layout transform by an index map", "use reshape and permute_dims")


# ------------------------------------------------------------------------------------------- joining, cutting


def joined(g: Graph, tensors: Sequence[Tensor], axis: int) -> Tensor:
    """Concatenation along an axis."""
    if len(tensors) == 1:
        return tensors[0]
    return g.run_all("Concat", tensors, rank=tensors[0].rank, axis=axis)


@writer("relax.concat")
def concat(g: Graph, operator: Any, tensors: list[Tensor]) -> Tensor:
    return joined(g, tensors, 0 if operator.axis is None else operator.axis % tensors[0].ndim)


@writer("relax.stack")
def stack(g: Graph, operator: Any, tensors: list[Tensor]) -> Tensor:
    axis = operator.axis % (tensors[0].ndim + 1)
    return joined(g, [x.unsqueeze(axis) for x in tensors], axis)


@writer("relax.split")
def split(g: Graph, operator: Any, x: Tensor) -> list[Tensor]:
    axis = operator.axis % x.ndim
    assert isinstance(g.result, TupleStructInfo), "split returns a tuple"
    count = len(g.result.fields)
    cut: Any = operator.indices_or_sections
    if not isinstance(cut, int):
        bounds: list[Size] = [0, *cut]
        ends: list[Size] = [*bounds[1:], (1 << 63) - 1]
        return [x.slice(axis, start, end) for start, end in zip(bounds, ends, strict=True)]
    size = x.size(axis)
    step = (size + (count - 1)) / count
    return [x.slice(axis, step * i, step * (i + 1)) for i in range(count)]


@writer("relax.flip")
def flip(g: Graph, operator: Any, data: Tensor) -> Tensor:
    for axis in axes_of(data, operator.axis):
        data = reversed_along(data, axis)
    return data


def reversed_along(data: Tensor, axis: int) -> Tensor:
    """Elements in reversed order along an axis."""
    return data.slice(axis, -1, -(1 << 63), -1)


@writer("relax.tile")
def tile(g: Graph, operator: Any, data: Tensor, repeats: Sizes) -> Tensor:
    counts = repeats.given
    if counts is None:
        g.refuse("tile with counts that are not known", "give them as a tuple")
    new = len(counts) - data.ndim
    data = data.unsqueeze(*range(new)) if new > 0 else data
    counts = [*[1] * -new, *counts]
    return g.run("Tile", data, g.shape(counts), rank=len(counts))


@writer("relax.repeat")
def repeat(g: Graph, operator: Any, data: Tensor, repeats: Any) -> Tensor:
    axis = operator.axis
    if axis is None:
        data, axis = data.flat(), 0
    axis %= data.ndim
    sizes, count = data.sizes(), repeats
    tiled = data.unsqueeze(axis + 1)
    ones: list[Size] = [1] * (data.ndim + 1)
    ones[axis + 1] = count
    tiled = g.run("Tile", tiled, g.shape(ones), rank=data.ndim + 1)
    merged = g.scalar(sizes[axis]) * count.to("int64") if isinstance(count, Tensor) else g.scalar(sizes[axis]) * count
    return tiled.reshape([*sizes[:axis], merged, *sizes[axis + 1 :]])


@writer("relax.meshgrid")
def meshgrid(g: Graph, operator: Any, tensors: list[Tensor]) -> list[Tensor]:
    count = len(tensors)
    order = list(range(count))
    if operator.indexing == "xy" and count > 1:
        order[:2] = [1, 0]
    sizes: list[Size] = [0] * count
    for i, x in enumerate(tensors):
        sizes[order[i]] = x.sizes()[0] if x.ndim else 1
    return [x.reshape([-1 if d == order[i] else 1 for d in range(count)]).expand(sizes) for i, x in enumerate(tensors)]


# ------------------------------------------------------------------------------------------- sizes as values


@writer("relax.shape_of")
def shape_of(g: Graph, operator: Any, expr: Tensor) -> Sizes:
    if expr.dims is not None:
        return Sizes(list(expr.dims))
    return Sizes(None, g.node("Shape", expr, dtype="int64", rank=1))


@writer("relax.shape_to_tensor")
def shape_to_tensor(g: Graph, operator: Any, expr: Sizes) -> Tensor:
    return expr.vector(g)


@writer("relax.tensor_to_shape")
def tensor_to_shape(g: Graph, operator: Any, expr: Tensor) -> Sizes:
    return Sizes(None, expr.to("int64"))


@writer("relax.inspect.tensor_ndim")
def tensor_ndim(g: Graph, operator: Any, x: Tensor) -> Tensor:
    return g.const(x.ndim, "int32")


@writer("relax.inspect.tensor_shape_i")
def tensor_shape_i(g: Graph, operator: Any, x: Tensor, axis: Tensor) -> Tensor:
    return g.run("Gather", g.shape(x.sizes()), axis.to("int64"), rank=0)


@writer("relax.inspect.tensor_stride_i")
def tensor_stride_i(g: Graph, operator: Any, x: Tensor, axis: Tensor) -> Tensor:
    stride = g.const(1, "int64")
    strides: list[Tensor] = []
    for size in reversed(x.sizes()):
        strides.insert(0, stride)
        stride = stride * g.scalar(size)
    return g.run("Gather", g.shape(strides), axis.to("int64"), rank=0)


def _constant(value: int | str) -> Any:
    def write(g: Graph, operator: Any, x: Tensor) -> Tensor:
        kind = x.kind
        codes = 6 if kind.is_bool else 4 if x.dtype == "bfloat16" else 2 if kind.is_float else 0 if kind.is_int else 1
        bits = 8 if kind.is_bool else kind.bits
        number = {"code": codes, "bits": bits}.get(str(value), value)
        return g.const(number, "int64")

    return write


writer("relax.inspect.tensor_dtype_code")(_constant("code"))
writer("relax.inspect.tensor_dtype_bits")(_constant("bits"))
writer("relax.inspect.tensor_dtype_lanes")(_constant(1))
writer("relax.inspect.tensor_byte_offset", "relax.inspect.tensor_elem_offset")(_constant(0))


@writer(
    "relax.grad.no_grad", "relax.grad.start_checkpoint", "relax.grad.end_checkpoint", "relax.builtin.stop_lift_params",
    "relax.hint_on_device", "relax.to_vdevice",
)  # fmt: skip
def same(g: Graph, operator: Any, x: Any) -> Any:
    return x
