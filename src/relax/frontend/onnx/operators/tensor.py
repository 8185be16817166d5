"""Operators that move elements or convert them: joining, cutting, reordering, dtypes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .... import op, te
from ....expr import PrimValue, ShapeExpr
from ....info.text import prim_text
from ....ir import DataType, structural_equal
from ....prim import IntImm, PrimExpr, Select, const
from ....struct_info import ShapeStructInfo
from ..emitter import Emitter
from ..model import dtype_name
from ..objects import run
from ..registry import converter
from ..values import Dims, Ints, Object, Signed, Tensor, TensorType, Value
from .reduce import named

FAR_END = 2**63 - 1
"""A slice end larger than any size."""

OPEN_END = 10**9
"""Slice ends from this number on are exporters' way to say "to the end"."""

# ------------------------------------------------------------------------------------- joining, cutting


@converter("Concat", since=4)
def concat(g: Emitter, *inputs: Tensor, axis: int) -> Tensor:
    return inputs[0] if len(inputs) == 1 else op.concat(list(inputs), axis=axis)


@converter("Split", since=2)
def split(g: Emitter, data: Tensor, split: Dims | None = None, *, axis: int = 0, num_outputs: int | None = None) -> Any:
    dimension = g.axis(axis, g.ndim(data))
    if split is None:
        return op.split(data, num_outputs or len(g.outputs), dimension)
    ends: list[PrimExpr] = [const(0, "int64")]
    for size in split:
        ends.append(ends[-1] + size)
    numbers = [end.value for end in ends if isinstance(end, IntImm)]
    if len(split) != len(g.outputs):
        raise g.error(f"it has {len(g.outputs)} outputs for {len(split)} parts", code="E6002")
    _require_total(g, ends[-1], g.dims(data)[dimension])
    if len(numbers) == len(ends):
        return op.split(data, numbers[1:-1], dimension)
    return tuple(
        op.strided_slice(data, [dimension], [begin], [begin + size], assume_inbound=True)
        for begin, size in zip(ends, split, strict=False)
    )


def _require_total(g: Emitter, total: PrimExpr, size: PrimExpr) -> None:
    if g.is_true(total.equal(size)) is False:
        message = f"the parts have {prim_text(total)} elements together, the dimension has {prim_text(size)}"
        raise g.error(message, code="E6003")


@converter("Slice")
def slice_(
    g: Emitter, data: Tensor, starts: Signed, ends: Signed, axes: Signed | None = None, steps: Signed | None = None
) -> Tensor:
    """The bounds mean what they do in Python: in the form of numbers where axes and steps are known."""
    ndim = g.ndim(data)
    if any(bound is not None and len(bound) != len(starts) for bound in (ends, axes, steps)):
        raise g.error("starts, ends, axes and steps differ in length", code="E6003")
    sliced_axes = _integers(range(len(starts)) if axes is None else axes)
    strides = _integers([1] * len(starts) if steps is None else steps)
    if sliced_axes is None or strides is None:
        return _slice_at_run_time(g, data, starts, ends, axes, steps)
    sliced_axes = g.axes(sliced_axes, ndim)
    sliced = op.strided_slice(data, list(sliced_axes), list(starts), list(ends), list(strides))
    whole = op.strided_slice(data, sliced_axes, starts, list(map(_opened, ends)), strides)
    _require_dims(g, g.dims(sliced), g.dims(whole))
    is_all = all(isinstance(start, IntImm) and start.value == 0 for start in starts) and set(strides) <= {1}
    return data if is_all and structural_equal(g.dims(whole), g.dims(data)) else whole


def _opened(end: PrimExpr) -> PrimExpr:
    """The end of a slice; beyond every size if an exporter meant that."""
    return const(FAR_END, "int64") if isinstance(end, IntImm) and end.value >= OPEN_END else end


def _require_dims(g: Emitter, dims: Dims, expected: Dims) -> None:
    """A check that a slice has as many elements as the one that goes to the end, when it runs.

    So a dimension of `n` elements stays `n`, and does not become ``min(1000000000, n)``.
    """
    if not structural_equal(dims, expected):
        g.builder.match_cast(g.emit(ShapeExpr(dims)), ShapeStructInfo(ShapeExpr(expected).values))


def _integers(values: Sequence[int] | Signed) -> Ints | None:
    numbers = [value.value if isinstance(value, IntImm) else value for value in values]
    return tuple(n for n in numbers if isinstance(n, int)) if all(isinstance(n, int) for n in numbers) else None


def _slice_at_run_time(
    g: Emitter, data: Tensor, starts: Signed, ends: Signed, axes: Signed | None, steps: Signed | None
) -> Tensor:
    """The axes or steps are only known when it runs: the bounds of all dimensions become tensors."""
    ndim = g.ndim(data)
    count = len(starts)
    index = [const(d, "int64") for d in range(count)] if axes is None else list(axes)
    bounds: list[Any] = []
    for values, default in (
        (starts, [const(0, "int64")] * ndim),
        (ends, [const(FAR_END, "int64")] * ndim),
        (steps or (const(1, "int64"),) * count, [const(1, "int64")] * ndim),
    ):
        chosen = default
        for axis, value in zip(index, values, strict=True):
            chosen = [Select(named(axis, d, ndim), value, other) for d, other in enumerate(chosen)]
        bounds.append(_vector(g, chosen))
    return op.dynamic_strided_slice(data, *bounds)


def _vector(g: Emitter, values: Sequence[PrimExpr]) -> Tensor:
    elements = [op.reshape(g.scalar(value), (1,)) for value in values]
    return g.emit(elements[0] if len(elements) == 1 else op.concat(elements, axis=0))


# ------------------------------------------------------------------------------------- reordering


@converter("Transpose")
def transpose(g: Emitter, data: Tensor, *, perm: Ints | None = None) -> Tensor:
    return op.permute_dims(data, perm)


@converter("ReverseSequence")
def reverse_sequence(g: Emitter, data: Tensor, lengths: Tensor, *, batch_axis: int = 1, time_axis: int = 0) -> Tensor:
    return op.reverse_sequence(data, lengths, time_axis, batch_axis)


def _image_sizes(g: Emitter, data: Tensor, blocksize: int, mode: str) -> Dims:
    """The four dimensions of images, after checking the attributes of an exchange of depth and space."""
    g.choice(mode, "mode", ("DCR", "CRD"))
    if g.ndim(data) != 4:
        raise g.error(f"expected 4 dimensions, found {g.ndim(data)}", code="E6003")
    g.within([blocksize], "blocksize")
    return g.dims(data)


@converter("DepthToSpace")
def depth_to_space(g: Emitter, data: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    n, c, h, w = _image_sizes(g, data, blocksize, mode)
    b = const(blocksize, "int64")
    depth = c // (blocksize * blocksize)
    inner, order = ([b, b, depth], (0, 3, 4, 1, 5, 2)) if mode == "DCR" else ([depth, b, b], (0, 1, 4, 2, 5, 3))
    blocked = op.reshape(data, ShapeExpr([n, *inner, h, w]))
    return op.reshape(op.permute_dims(blocked, order), ShapeExpr([n, depth, h * blocksize, w * blocksize]))


@converter("SpaceToDepth")
def space_to_depth(g: Emitter, data: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    n, c, h, w = _image_sizes(g, data, blocksize, mode)
    b = const(blocksize, "int64")
    high, wide = h // blocksize, w // blocksize
    blocked = op.reshape(data, ShapeExpr([n, c, high, b, wide, b]))
    order = (0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4)
    moved = op.permute_dims(blocked, order)
    return op.reshape(moved, ShapeExpr([n, c * (blocksize * blocksize), high, wide]))


@converter("Trilu")
def trilu(g: Emitter, data: Tensor, k: Signed | None = None, *, upper: int = 1) -> Tensor:
    diagonal = 0 if k is None else PrimValue(g.single(k, "k"))
    return op.triu(data, diagonal) if upper else op.tril(data, diagonal)


@converter("Where")
def where(g: Emitter, condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    return op.where(condition, x, y)


# ------------------------------------------------------------------------------------- dtypes


@converter("Cast", since=6)
def cast(g: Emitter, x: Tensor, *, to: int, saturate: int = 1, round_mode: str = "up") -> Value:
    if dtype_name(to) == "string":
        return written(g, x)
    return _converted(g, x, dtype_name(to), saturate, round_mode)


@converter("CastLike", since=15)
def cast_like(g: Emitter, x: Tensor, target: Tensor, *, saturate: int = 1, round_mode: str = "up") -> Tensor:
    return _converted(g, x, str(g.dtype(target)), saturate, round_mode)


def written(g: Emitter, x: Tensor) -> Object:
    """Numbers as strings."""
    if not (g.dtype(x).is_integer or str(g.dtype(x)) in ("float16", "float32", "float64")):
        g.unsupported(f"a conversion of {g.dtype(x)} to strings")
    return Object(run(g, "numbers_to_strings", x), TensorType("string", g.info(x).ndim))


def _converted(g: Emitter, x: Tensor, dtype: str, saturate: int, round_mode: str) -> Tensor:
    target = DataType(dtype)
    if target == g.dtype(x):
        return x
    if target.is_integer and target.bits < 8 and g.dtype(x).is_float:
        return op.astype(op.astype(x, "int32"), dtype)  # which wraps around
    if not (target.is_float and target.bits <= 8):
        return op.astype(x, dtype)
    if target == "float8_e8m0fnu":
        return op.saturating_astype(x, dtype, round_mode)
    return op.saturating_astype(x, dtype) if saturate or target.bits < 8 else op.astype(x, dtype)


@converter("BitCast")
def bit_cast(g: Emitter, x: Tensor, *, to: int) -> Tensor:
    dtype, source = dtype_name(to), g.dtype(x)
    if dtype == "string" or _width(DataType(dtype)) != _width(source):
        g.unsupported(f"reading {source} as {dtype}, of another width,")
    if source.is_bool:
        x, source = g.emit(op.astype(x, "uint8")), DataType("uint8")
    target = "uint8" if dtype == "bool" else dtype

    def reinterpreted(data: te.Tensor) -> te.Tensor:
        return te.compute(data.shape, lambda *i: te.reinterpret(target, data(*i)), "bit_cast")

    bits = x if source == target else g.builder.emit_te(reinterpreted, x)
    return bits if target == dtype else op.astype(bits, dtype)


def _width(dtype: DataType) -> int:
    return 8 if dtype.is_bool else dtype.bits
