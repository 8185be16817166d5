"""Quantised operators: fixed-point arithmetic, and ``qnn.*``."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import op
from ...expr import Constant
from ...ir import RelaxExpr
from .declare import BROADCAST, ELEMWISE, attr, axis_of, declare, dtype, rank


def _number(value: int) -> RelaxExpr:
    return Constant(np.array(value, "int64"))


def _fixed_point(x: RelaxExpr, multiplier: RelaxExpr, left: RelaxExpr, right: RelaxExpr) -> RelaxExpr:
    """x · 2^left · multiplier · 2^-31 · 2^-right, with a single rounding, half up."""
    if dtype(x) != "int32":
        raise ValueError(f"the data must be int32, found {dtype(x)}")
    product = op.multiply(op.left_shift(op.astype(x, "int64"), left), multiplier)
    shift = op.add(right, _number(31))
    half = op.left_shift(_number(1), op.subtract(shift, _number(1)))
    return op.astype(op.right_shift(op.add(product, half), shift), "int32")


declare(
    "fixed_point_multiply", 1, attr("multiplier", "int"), attr("shift", "int"),
    pattern=ELEMWISE,
    means=lambda a, x: _fixed_point(
        x, _number(a.multiplier), _number(max(a.shift, 0)), _number(max(-a.shift, 0))
    ),
)  # fmt: skip


def _per_axis(a: Any, x: RelaxExpr, *parameters: RelaxExpr) -> RelaxExpr:
    if len(a.axes) != 1:
        raise ValueError("axes must name one axis")
    behind = rank(x) - 1 - axis_of(a.axes[0], x)
    multiplier, left, right = (_along(p, behind) for p in parameters)
    return _fixed_point(
        x, multiplier, left if a.is_lshift_required else _number(0), right if a.is_rshift_required else _number(0)
    )


def _along(parameter: RelaxExpr, behind: int) -> RelaxExpr:
    wide = op.astype(parameter, "int64")
    return op.expand_dims(wide, list(range(1, 1 + behind))) if behind else wide


declare(
    "fixed_point_multiply_per_axis", 4,
    attr("is_lshift_required", "bool", False), attr("is_rshift_required", "bool", False), attr("axes", "ints"),
    pattern=BROADCAST,
    means=_per_axis, operands="x y lshift rshift",
)  # fmt: skip
declare(
    "qnn.quantize", 3, attr("out_dtype", "dtype", "int8"), attr("axis", "int", -1),
    means=lambda a, x, scale, zero: op.quantize(x, scale, _zero(zero, str(a.out_dtype)), a.axis, str(a.out_dtype)),
    operands="data output_scale output_zero_point",
)  # fmt: skip
declare(
    "qnn.dequantize", 3, attr("axis", "int", -1), attr("out_dtype", "dtype", "float32"),
    means=lambda a, x, scale, zero: op.dequantize(x, scale, _zero(zero, dtype(x)), a.axis, str(a.out_dtype)),
    operands="data input_scale input_zero_point",
)  # fmt: skip


def _zero(zero_point: RelaxExpr, kind: str) -> RelaxExpr:
    """Convert a zero point, int32 in Relay, to the quantised dtype."""
    return zero_point if dtype(zero_point) == kind else op.astype(zero_point, kind)
