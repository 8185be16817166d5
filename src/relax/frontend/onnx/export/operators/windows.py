"""Convolutions and pools."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

from .....ir import DataType
from .....prim import IntImm
from ..graph import Graph
from ..registry import writer
from ..tensor import Size, Tensor
from .linear import wider_of
from .reduce import mean_over
from .shape import joined

_CONVOLUTIONS = [f"relax.nn.conv{n}d" for n in (1, 2, 3)]
_TRANSPOSED = [f"relax.nn.conv{n}d_transpose" for n in (1, 2, 3)]


def in_layout(x: Tensor, layout: str, letters: str) -> Tensor:
    """A tensor with its dimensions in another order."""
    order = [layout.index(letter) for letter in letters]
    result = x.transpose(order)
    if x.dims is not None:
        result.dims = tuple(x.dims[axis] for axis in order)
    return result


def _require_plain(g: Graph, operator: Any) -> None:
    """Refuse packed layouts: ONNX has one layout for each operator, and transposes have no inner parts."""
    if operator.is_packed:
        g.refuse(f"a packed layout ({', '.join(operator.operand_layouts)})", "compute in plain layouts, such as NCHW")


def _windows(operator: Any) -> dict[str, Any]:
    """Attributes that convolutions and pools share."""
    pads = [low for low, _ in operator.pads] + [high for _, high in operator.pads]
    return {"strides": list(operator.strides), "dilations": list(operator.dilation), "pads": pads}


def _pooling(operator: Any) -> dict[str, Any]:
    """Attributes of pools."""
    return {**_windows(operator), "kernel_shape": list(operator.pool_size), "ceil_mode": int(operator.ceil_mode)}


@writer(*_CONVOLUTIONS)
def convolution(g: Graph, operator: Any, data: Tensor, weight: Tensor) -> Tensor:
    return _convolved(g, operator, data, weight, "Conv", "OI")


@writer(*_TRANSPOSED)
def transposed_convolution(g: Graph, operator: Any, data: Tensor, weight: Tensor) -> Tensor:
    return _convolved(g, operator, data, weight, "ConvTranspose", "IO")


def _convolved(g: Graph, operator: Any, data: Tensor, weight: Tensor, op_type: str, kernel: str) -> Tensor:
    _require_plain(g, operator)
    x = in_layout(data, operator.data_layout, operator.letters)
    w = in_layout(weight, operator.kernel_layout, kernel + operator.spatial)
    attributes = {**_windows(operator), "group": operator.groups}
    if op_type == "ConvTranspose":
        attributes["output_padding"] = list(operator.output_padding)
    rank = data.ndim
    out_dtype = str(operator.out_dtype) or data.dtype
    if data.kind.is_integer:
        out = _of_integers(g, x, w, op_type, attributes, rank, out_dtype)
    else:
        wide = "float64" if "float64" in (data.dtype, weight.dtype, out_dtype) else "float32"
        out = g.run(op_type, x.to(wide), w.to(wide), rank=rank, **attributes)
    return in_layout(out, operator.letters, operator.result_letters)


def _of_integers(g: Graph, x: Tensor, w: Tensor, op_type: str, attributes: Any, rank: int, out_dtype: str) -> Tensor:
    """A convolution of integers: ConvInteger of 8 bits, whose sums of int32 wrap around, or a product of matrices."""
    if op_type != "Conv":
        g.refuse(f"a transposed convolution of {x.dtype}", "cast to float32")
    narrow = x.dtype in ("int8", "uint8") and w.dtype in ("int8", "uint8") and DataType(out_dtype).bits <= 32
    if not narrow or DataType(out_dtype).is_float:
        return _by_matrices(g, x, w, attributes, rank, wider_of(x.dtype, out_dtype))
    if x.dtype == "int8":  # ONNX Runtime's kernel takes uint8
        shifted = (x.to("int32") + 128).to("uint8")
        return g.node("ConvInteger", shifted, w, g.const(128, "uint8"), dtype="int32", rank=rank, **attributes)
    return g.node("ConvInteger", x, w, dtype="int32", rank=rank, **attributes)


def _by_matrices(g: Graph, x: Tensor, w: Tensor, attributes: Any, rank: int, wide: str) -> Tensor:
    """A convolution as a product of the weights and the elements that each tap reads."""
    window = [size.value for size in w.dims[2:] if isinstance(size, IntImm)] if w.dims is not None else []
    if len(window) < rank - 2:
        g.refuse(f"a convolution of {x.dtype} with a window of unknown size", "cast to float32")
    count, groups = rank - 2, attributes["group"]
    pads = [0, 0, *attributes["pads"][:count], 0, 0, *attributes["pads"][count:]]
    padded = g.run("Pad", x.to(wide), g.ints(pads), g.const(0, wide), rank=rank)
    spans = [(size - 1) * step for size, step in zip(window, attributes["dilations"], strict=True)]
    taps: list[Tensor] = []
    for tap in product(*map(range, window)):
        part = padded
        for d, (k, step, span) in enumerate(zip(tap, attributes["dilations"], spans, strict=True), 2):
            part = part.slice(d, k * step, padded.size(d) - (span - k * step), attributes["strides"][d - 2])
        taps.append(part.unsqueeze(2))
    columns = joined(g, taps, 2)  # (N, C, taps, *counts)
    counts = [taps[0].ranked(rank + 1).size(d + 3) for d in range(count)]
    batch, outputs = x.size(0), w.size(0)
    matrix = columns.reshape([batch, groups, (x.size(1) / groups) * len(taps), _product(counts)])
    weights = w.to(wide).reshape([groups, outputs / groups, w.size(1) * len(taps)])
    return g.run("MatMul", weights, matrix, rank=4).reshape([batch, outputs, *counts])


def _product(sizes: list[Tensor]) -> Tensor:
    total = sizes[0]
    for size in sizes[1:]:
        total = total * size
    return total


# ------------------------------------------------------------------------------------------- pools


def _names(kind: str, suffix: str = "") -> list[str]:
    return [f"relax.nn.{kind}{n}d{suffix}" for n in (1, 2, 3)]


@writer(*_names("max_pool"))
def max_pool(g: Graph, operator: Any, data: Tensor) -> Tensor:
    _require_plain(g, operator)
    x = in_layout(data, operator.layout, operator.letters)
    attributes = _pooling(operator)
    wide = (
        x
        if x.dtype in ("int8", "uint8", "float64")
        else x.to("float32")
        if x.kind.bits <= 16 or x.kind.is_float
        else None
    )
    if wide is None:
        if x.kind.bits > 32:
            g.refuse(f"a maximum pool of {x.dtype}", "cast to float64 if the values are small enough")
        wide = x.to("float64")
    out = g.run("MaxPool", wide, rank=data.ndim, **attributes)
    if x.kind.is_float:
        missing = g.run("IsNaN", wide, dtype="bool").to("float32")
        out = (g.run("MaxPool", missing, rank=data.ndim, **attributes) > 0).where(math.nan, out)
        if _has_empty_windows(operator):
            lowest = g.const(-3.4e38 if wide.dtype == "float32" else -1.7e308, wide.dtype)
            out = (out < lowest).where(-math.inf, out)
    return in_layout(out.to(data.dtype), operator.letters, operator.result_letters)


def _has_empty_windows(operator: Any) -> bool:
    """True if a window may lie in the padding alone."""
    spans = [(size - 1) * step for size, step in zip(operator.pool_size, operator.dilation, strict=True)]
    return any(max(pads) > span for pads, span in zip(operator.pads, spans, strict=True)) or max(operator.dilation) > 1


@writer(*_names("max_pool", "_with_indices"))
def max_pool_with_indices(g: Graph, operator: Any, data: Tensor) -> list[Tensor]:
    if operator.data_letters != operator.letters:
        g.refuse(f"indices of a maximum pool in the layout {operator.data_letters}", f"permute to {operator.letters}")
    attributes = _pooling(operator)
    if _has_empty_windows(operator):
        g.refuse("indices of windows that lie in the padding", "use a smaller padding")
    wide = data if data.dtype in ("int8", "uint8", "float64") else data.to("float32")
    values, indices = g.parts("MaxPool", wide, dtypes=[wide.dtype, "int64"], rank=data.ndim, **attributes)
    if data.kind.is_float:
        missing = g.run("IsNaN", wide, dtype="bool").to("float32")
        some, first = g.parts("MaxPool", missing, dtypes=["float32", "int64"], rank=data.ndim, **attributes)
        values, indices = (some > 0).where(math.nan, values), (some > 0).where(first, indices)
    results = [values.to(data.dtype), indices]
    return [in_layout(result, operator.letters, operator.result_letters) for result in results]


@writer(*_names("avg_pool"))
def avg_pool(g: Graph, operator: Any, data: Tensor) -> Tensor:
    _require_plain(g, operator)
    x = in_layout(data, operator.layout, operator.letters)
    attributes = _pooling(operator)
    include = int(operator.count_include_pad)
    out = g.run("AveragePool", x, rank=data.ndim, count_include_pad=include, **attributes)
    return in_layout(out, operator.letters, operator.result_letters)


@writer(*_names("lp_pool"))
def lp_pool(g: Graph, operator: Any, data: Tensor) -> Tensor:
    _require_plain(g, operator)
    x = in_layout(data, operator.layout, operator.letters)
    attributes = _pooling(operator)
    out = g.run("LpPool", x, rank=data.ndim, p=operator.p, **attributes)
    return in_layout(out, operator.letters, operator.result_letters)


@writer(*_names("adaptive_avg_pool"))
def adaptive_avg_pool(g: Graph, operator: Any, data: Tensor) -> Tensor:
    _require_plain(g, operator)
    x = data.wide()
    for letter, count in zip(operator.spatial, operator.output_size or (), strict=operator.output_size is not None):
        x = _adapted(g, x, data, operator.layout.index(letter), count)
    return in_layout(x, operator.layout, operator.result_letters)


def _adapted(g: Graph, x: Tensor, data: Tensor, axis: int, count: int) -> Tensor:
    """Means of `count` windows along an axis that are fitted to its size."""
    if count == 1:
        return mean_over(x.ranked(data.ndim), [axis])
    size = data.size(axis)
    number = size.constant
    parts: list[Tensor] = []
    for i in range(count):
        start: Size
        end: Size
        if number is not None:
            start, end = i * int(number) // count, -(-(i + 1) * int(number) // count)
            length = g.const(end - start, x.dtype)
        else:
            start, end = size * i / count, (size * (i + 1) + (count - 1)) / count
            length = (end - start).to(x.dtype)
        window = x.slice(axis, start, end)
        total = g.run("ReduceSum", window, g.ints([axis]), rank=x.rank, keepdims=1)
        parts.append((total / length).ranked(x.rank))
    return joined(g, parts, axis)


@writer("relax.grad.max_pool2d_backward")
def max_pool_backward(g: Graph, operator: Any, grad: Tensor, data: Tensor) -> Tensor:
    sizes, wide = data.sizes(), grad.wide()
    _, indices = max_pool_with_indices(g, operator, data)
    flat = in_layout(wide, operator.result_letters, operator.letters).flat()
    zeros = g.const(0, wide.dtype).expand([data.flat().size(0)])
    total = g.run("ScatterElements", zeros, indices.flat(), flat, rank=1, axis=0, reduction="add")
    return total.reshape(sizes)
