"""Resizing: ONNX's Resize where it says the same, else the weighted elements that each element of the result reads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from .....prim import IntImm, Verdict, prove_equal
from ..graph import Graph
from ..registry import Sizes
from ..tensor import Size, Tensor
from .creation import numbers
from .elementwise import converted

_METHODS: Final = {"nearest_neighbor": "nearest", "linear": "linear", "cubic": "cubic"}
_ROUNDINGS: Final = {"round": "round_prefer_ceil"}


def resized(
    g: Graph, operator: Any, data: Tensor, axes: Sequence[int], size: Sizes, scales: Tensor | None, roi: Tensor | None
) -> Tensor:
    """Resize axes of the data."""
    if not axes:
        return converted(data, str(operator.out_dtype) or data.dtype)
    sizes = size.values(g, len(axes))
    smooth, said = getattr(operator, "antialias", False), _is_said(operator, data, axes, sizes, scales)
    if not said and not smooth:
        return _by_taps(g, operator, data, axes, sizes, scales, roi)
    nearest = operator.method == "nearest_neighbor"
    wide = data if nearest else data.to("float32")
    attributes: dict[str, Any] = {
        "mode": _METHODS[operator.method],
        "coordinate_transformation_mode": operator.coordinate_transformation_mode,
        "axes": list(axes),
        "extrapolation_value": operator.extrapolation_value,
        "exclude_outside": int(operator.cubic_exclude),
        "antialias": int(getattr(operator, "antialias", False)),
    }
    if nearest:
        attributes["nearest_mode"] = _ROUNDINGS.get(operator.rounding_method, operator.rounding_method)
    if operator.method == "cubic":
        attributes["cubic_coeff_a"] = operator.cubic_alpha
    region = None if roi is None else roi.to("float32")
    factor = None if scales is None else scales.to("float32")
    target = g.shape(sizes) if factor is None else None
    if (
        target is not None and region is None
    ):  # sizes of all axes: ONNX Runtime moves transpositions past a Resize with axes
        every = dict(zip(axes, sizes, strict=True))
        target = g.shape([every.get(axis, length) for axis, length in enumerate(data.sizes())])
        del attributes["axes"]
    out = g.run("Resize", wide, region, factor, target, rank=data.ndim, **attributes)
    if not said:  # fails where ONNX rounds to other sizes
        every = dict(zip(axes, sizes, strict=True))
        out = out.reshape([every.get(axis, length) for axis, length in enumerate(data.sizes())])
    return converted(out.to(data.dtype) if nearest else out, str(operator.out_dtype) or data.dtype)


def _is_said(operator: Any, data: Tensor, axes: Sequence[int], sizes: Sequence[Size], scales: Tensor | None) -> bool:
    """True if ONNX's Resize computes the same: with `scales` it has no sizes, but rounds the products down."""
    if operator.coordinate_transformation_mode == "tf_half_pixel_for_nn":
        if getattr(operator, "antialias", False):
            data.graph.refuse("a smoothed resize with the coordinates tf_half_pixel_for_nn", "use half_pixel")
        return False
    if data.dtype in ("float64", "int64", "uint64") and not getattr(operator, "antialias", False):
        return False
    if scales is None:
        return True
    if scales.constant is None or data.dims is None:
        return False
    factors = [float(factor) for factor in scales.constant.reshape(-1)]
    return all(_rounds_to(data.dims[a], f, size) for a, f, size in zip(axes, factors, sizes, strict=True))


def _rounds_to(length: Any, factor: float, size: Size) -> bool:
    """True if a size is proved to be the product of a length and a factor, rounded down."""
    if isinstance(length, IntImm) and isinstance(size, IntImm):
        return math.floor(length.value * factor) == size.value
    if isinstance(size, (int, Tensor)) or not factor.is_integer():
        return False
    return prove_equal(length * int(factor), size) is Verdict.YES


def _by_taps(
    g: Graph, operator: Any, data: Tensor, axes: Sequence[int], sizes: Sequence[Size], scales: Tensor | None,
    roi: Tensor | None,
) -> Tensor:  # fmt: skip
    """Resize axis after axis: each element of the result is a sum of weighted elements of the data."""
    nearest = operator.method == "nearest_neighbor"
    out = (
        data
        if nearest
        else data.to("float64")
        if data.dtype in ("float64", "int64", "uint64", "int32")
        else data.wide()
    )
    out = out.ranked(data.ndim)
    beyond: Tensor | None = None
    for k, axis in enumerate(axes):
        length, count = data.size(axis).to("float64"), g.scalar(sizes[k])
        scale = None if scales is None else _element(g, scales, k)
        region = (g.const(0.0, "float64"), g.const(1.0, "float64"))
        if roi is not None:
            region = (_element(g, roi, k), _element(g, roi, k + len(axes)))
        at = _coordinates(g, operator.coordinate_transformation_mode, length, count, scale, region)
        out = _gathered(g, operator, out, axis, at, length)
        if operator.coordinate_transformation_mode == "tf_crop_and_resize":
            outside = ((at < 0) | (at > length - 1.0)).reshape([-1 if d == axis else 1 for d in range(data.ndim)])
            beyond = outside if beyond is None else beyond | outside
    dtype = str(operator.out_dtype) or data.dtype
    result = converted(out, dtype)
    if beyond is None:
        return result
    return beyond.where(converted(g.const(operator.extrapolation_value, "float64"), dtype), result)


def _element(g: Graph, vector: Tensor, index: int) -> Tensor:
    return g.run("Gather", vector.to("float64"), g.const(index, "int64"), rank=0)


def _coordinates(
    g: Graph, mode: str, length: Tensor, count: Tensor, scale: Tensor | None, region: tuple[Tensor, Tensor]
) -> Tensor:
    """Coordinates in the data of the elements of the result along one axis."""
    o, size = numbers(g, count).to("float64"), count.to("float64")
    stretched = size if scale is None else length * scale

    def back(x: Tensor) -> Tensor:
        return x * length / size if scale is None else x / scale

    start, end = region
    match mode:
        case "half_pixel":
            return back(o + 0.5) - 0.5
        case "half_pixel_symmetric":
            return length / 2.0 * (1.0 - size / stretched) + (back(o + 0.5) - 0.5)
        case "pytorch_half_pixel":
            return (size > 1).where(back(o + 0.5) - 0.5, 0.0)
        case "asymmetric":
            return back(o)
        case "tf_half_pixel_for_nn":
            return back(o + 0.5)
        case "align_corners":
            single = stretched.equal(1.0)
            return single.where(0.0, o * (length - 1.0) / single.where(1.0, stretched - 1.0))
        case _:
            several = stretched > 1
            inner = start * (length - 1.0) + o * ((end - start) * (length - 1.0)) / several.where(stretched - 1.0, 1.0)
            return several.where(inner, (start + end) * (length - 1.0) * 0.5)


def _gathered(g: Graph, operator: Any, x: Tensor, axis: int, at: Tensor, length: Tensor) -> Tensor:
    """Σ weight · element over the taps around each coordinate, along one axis."""
    last, zero = length - 1.0, g.const(0.0, "float64")

    def read(places: Tensor) -> Tensor:
        inside = g.run("Max", g.run("Min", places, last), zero).to("int64")
        return g.run("Gather", x, inside, rank=x.ndim, axis=axis)

    if operator.method == "nearest_neighbor":
        return read(_rounded(g, at, operator.rounding_method))
    floor, radius = g.run("Floor", at), 1 if operator.method == "linear" else 2
    taps = [floor + float(k) for k in range(1 - radius, radius + 1)]
    weights = [_weight(g, operator, g.run("Abs", tap - at)) for tap in taps]
    if operator.cubic_exclude:
        weights = [((t >= 0) & (t < length)).where(w, 0.0) for t, w in zip(taps, weights, strict=True)]
        total = sum(weights[1:], start=weights[0])
        weights = [weight / total for weight in weights]
    lifted = [w.to(x.dtype).reshape([-1 if d == axis else 1 for d in range(x.ndim)]) for w in weights]
    parts = [read(tap) * weight for tap, weight in zip(taps, lifted, strict=True)]
    return sum(parts[1:], start=parts[0]).ranked(x.ndim)


def _rounded(g: Graph, at: Tensor, method: str) -> Tensor:
    """Coordinates rounded to those of elements."""
    match method:
        case "floor" | "ceil":
            return g.run(method.capitalize(), at)
        case "round_prefer_floor":
            return g.run("Ceil", at - 0.5)
        case _:
            return g.run("Floor", at + 0.5)


def _weight(g: Graph, operator: Any, d: Tensor) -> Tensor:
    """Weight of an element at a distance."""
    if operator.method == "linear":
        return g.run("Max", 1.0 - d, g.const(0.0, "float64"))
    a = operator.cubic_alpha
    square = d * d
    near = square * d * (a + 2) - square * (a + 3) + 1.0
    far = square * d * a - square * (5 * a) + d * (8 * a) - 4 * a
    return (d <= 1).where(near, (d < 2).where(far, 0.0))
