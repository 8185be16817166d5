"""Operators on images and bounding boxes."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from ... import op
from ...expr import Constant
from ...ir import RelaxExpr
from ..operators import AttrField
from .declare import INJECTIVE, attr, declare, optional_dtype


def resize_attrs(layout: str) -> tuple[AttrField, ...]:
    """Resize attributes other than size and region."""
    return (
        attr("layout", "str", layout), attr("method", "str", "linear"),
        attr("coordinate_transformation_mode", "str", "half_pixel"), attr("rounding_method", "str", ""),
        attr("cubic_alpha", "float", -0.5), attr("cubic_exclude", "int", 0),
        attr("extrapolation_value", "float", 0.0), attr("out_dtype", "dtype?", None),
    )  # fmt: skip


def _ways(a: Any) -> dict[str, Any]:
    """Convert the resize attributes to Relax's."""
    aligned = a.coordinate_transformation_mode == "align_corners"
    return {
        "method": a.method,
        "coordinate_transformation_mode": a.coordinate_transformation_mode,
        "rounding_method": a.rounding_method or ("round" if aligned else "floor"),
        "cubic_alpha": a.cubic_alpha,
        "cubic_exclude": bool(a.cubic_exclude),
        "extrapolation_value": a.extrapolation_value,
        "out_dtype": optional_dtype(a.out_dtype),
    }


def _per_axis(value: Any, count: int, name: str) -> list[Any]:
    """Sizes of `count` axes: a tuple, or one number for all. Raises ValueError."""
    if isinstance(value, int):
        return [value] * count
    if not isinstance(value, tuple):
        raise ValueError(f"{name} is a tuple of numbers, or one for all axes, found {value!r}")
    return list(cast("tuple[Any, ...]", value))


def resized(a: Any, x: RelaxExpr, letters: str, size: Any, roi: RelaxExpr | None) -> RelaxExpr:
    """Resize the dimensions named by `letters`; `roi` holds the start, then the end coordinates of the region."""
    if not a.layout.isupper():
        raise ValueError(f"the layout {a.layout} is packed: only orders of whole dimensions are resized")
    axes = [a.layout.index(letter) for letter in letters]
    return op.image.resize(x, size, None, roi, axes, **_ways(a))


def _resize(a: Any, x: RelaxExpr, letters: str) -> RelaxExpr:
    size = _per_axis(a.size, len(letters), "size")
    if len(letters) == 2:
        return op.image.resize2d(x, size, list(a.roi) if a.roi else None, a.layout, **_ways(a))
    roi = Constant(np.array(a.roi, "float32")) if a.roi else None
    return resized(a, x, letters, size, roi)


for _letters in ("W", "HW", "DHW"):
    declare(
        f"image.resize{len(_letters)}d", 1,
        attr("size", "any"), attr("roi", "floats?", None), *resize_attrs(f"NC{_letters}"),
        pattern=INJECTIVE,
        means=lambda a, x, letters=_letters: _resize(a, x, letters),
    )  # fmt: skip
declare(
    "image.grid_sample", 2,
    attr("method", "str", "bilinear"), attr("layout", "str", "NCHW"), attr("padding_mode", "str", "zeros"),
    attr("align_corners", "bool", True),
    means=lambda a, x, grid: op.image.grid_sample(x, grid, a.method, a.layout, a.padding_mode, a.align_corners),
    operands="data grid",
)  # fmt: skip
declare(
    "image.affine_grid", 1, attr("target_shape", "any"),
    means=lambda a, x: op.image.affine_grid(x, _per_axis(a.target_shape, 2, "target_shape")),
)  # fmt: skip
