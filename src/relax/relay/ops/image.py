"""Operators on images and boxes."""

from __future__ import annotations

from typing import Any

from ... import op
from ...ir import RelaxExpr
from .declare import INJECTIVE, attr, declare, optional_dtype


def _resize2d(a: Any, x: RelaxExpr) -> RelaxExpr:
    return op.image.resize2d(
        x, list(a.size), roi=list(a.roi) if a.roi else None, layout=a.layout, method=a.method,
        coordinate_transformation_mode=a.coordinate_transformation_mode,
        rounding_method=a.rounding_method or "round", cubic_alpha=a.cubic_alpha, cubic_exclude=bool(a.cubic_exclude),
        extrapolation_value=a.extrapolation_value, out_dtype=optional_dtype(a.out_dtype),
    )  # fmt: skip


declare(
    "image.resize2d", 1,
    attr("size", "any"), attr("roi", "floats?", None), attr("layout", "str", "NCHW"), attr("method", "str", "linear"),
    attr("coordinate_transformation_mode", "str", "half_pixel"), attr("rounding_method", "str", ""),
    attr("cubic_alpha", "float", -0.5), attr("cubic_exclude", "int", 0), attr("extrapolation_value", "float", 0.0),
    attr("out_dtype", "dtype?", None),
    pattern=INJECTIVE,
    means=_resize2d,
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
    means=lambda a, x: op.image.affine_grid(x, list(a.target_shape)),
)  # fmt: skip
