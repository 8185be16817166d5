"""Images resized and sampled."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from .... import op
from ....expr import ShapeExpr
from ....ir import RelaxExpr
from ....prim import IntImm
from ..emitter import Dim, Emitter, as_dim
from ..registry import converter, register


def _resized(
    g: Emitter, x: RelaxExpr, method: str, mode: str, scales: Sequence[Any], antialias: bool = False
) -> RelaxExpr:
    """The sizes are those that torch has derived; scales that it was given say where an element comes from.

    Bytes are interpolated as floats, and rounded; torch has weights of 15 bits, so a byte may differ by 1.
    """
    count = len(g.value.shape) - 2
    given = list(scales)[-count:]
    factors = None
    if mode != "align_corners" and given and None not in given:
        _check_scales(g, x, given)
        if any(scale != int(scale) for scale in given):
            factors = g.const([float(scale) for scale in given], "float32")
    is_rounded = str(g.dtype(x)) == "uint8" and method != "nearest_neighbor"
    resized = op.image.resize(
        g.cast(x, "float32") if is_rounded else x,
        ShapeExpr(g.shape()[2:]),
        factors,
        axes=list(range(2, 2 + count)),
        method=method,
        coordinate_transformation_mode=mode,
        rounding_method="floor" if mode == "asymmetric" else "round_prefer_ceil",
        cubic_alpha=-0.5 if antialias else -0.75,
        cubic_exclude=antialias,  # a wide filter counts the elements inside alone
        antialias=antialias,
    )
    if not is_rounded:
        return resized
    limited = op.minimum(op.maximum(op.round(resized), g.const(0, "float32")), g.const(255, "float32"))
    return op.astype(limited, "uint8")


def _check_scales(g: Emitter, x: RelaxExpr, scales: Sequence[float]) -> None:
    """Raise DiagnosticError unless scales are positive, and those from the input to the result."""
    dims, sizes = g.dims(x)[2:], g.shape()[2:]
    for dim, size, scale in zip(dims, sizes, scales, strict=True):
        scaled = dim.value * scale if isinstance(dim, IntImm) and 0 < scale < math.inf else None
        if not 0 < scale < math.inf or (scaled is not None and isinstance(size, IntImm) and int(scaled) != size.value):
            raise g.error(f"the scale {scale} does not make {size} of {dim}", hint="pass the size, and None as scale")


def _nearest(mode: str) -> Callable[..., RelaxExpr]:
    def convert(g: Emitter, x: RelaxExpr, output_size: Any = None, *scales: Any, **options: Any) -> RelaxExpr:
        values = _scales(g, output_size, scales, options)
        return _resized(g, x, "nearest_neighbor", mode, values)

    return convert


def _smooth(method: str, antialias: bool) -> Callable[..., RelaxExpr]:
    def convert(
        g: Emitter, x: RelaxExpr, output_size: Any, align_corners: bool, *scales: Any, **options: Any
    ) -> RelaxExpr:
        if antialias and align_corners:  # torch takes the centres of pixels then, at the scale between corners
            g.unsupported("antialias with align_corners")
        mode = "align_corners" if align_corners else "half_pixel"
        return _resized(g, x, method, mode, _scales(g, output_size, scales, options), antialias)

    return convert


def _scales(g: Emitter, output_size: Any, scales: Sequence[Any], options: dict[str, Any]) -> list[Any]:
    """The scales of the axes, which overloads pass as a list instead of the size, or one by one."""
    values = [*scales, *options.values()]
    if output_size is not None and any(isinstance(value, list) for value in values):
        raise g.error("both a size and scales are passed", hint="pass one of them")
    count = len(g.value.shape) - 2
    if output_size is not None and len(output_size) != count:
        raise g.error(f"a size of {len(output_size)} numbers", hint=f"pass {count} of them")
    return [item for value in values for item in (value if isinstance(value, list) else [value])]  # type: ignore[reportUnknownVariableType]


for _count in (1, 2, 3):
    register(f"aten.upsample_nearest{_count}d", _nearest("asymmetric"))
    register(f"aten._upsample_nearest_exact{_count}d", _nearest("half_pixel"))
for _name, _method in {
    "linear1d": "linear",
    "bilinear2d": "linear",
    "trilinear3d": "linear",
    "bicubic2d": "cubic",
}.items():
    register(f"aten.upsample_{_name}", _smooth(_method, False))
    register(f"aten._upsample_{_name}_aa", _smooth(_method, True))


@converter("aten.grid_sampler", "aten.grid_sampler_2d", "aten.grid_sampler_3d")
def grid_sample(
    g: Emitter, x: RelaxExpr, grid: RelaxExpr, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> RelaxExpr:
    return op.image.grid_sample(
        x,
        grid,
        method=g.choice("interpolation mode", ("bilinear", "nearest", "bicubic"), interpolation_mode),
        layout="NCHW" if g.ndim(x) == 4 else "NCDHW",
        padding_mode=g.choice("padding mode", ("zeros", "border", "reflection"), padding_mode),
        align_corners=align_corners,
        grid_layout="channels_last",
    )


@converter("aten.affine_grid_generator")
def affine_grid(g: Emitter, theta: RelaxExpr, size: Sequence[Dim], align_corners: bool) -> RelaxExpr:
    """Coordinates of a regular grid, from -1 to 1, times the matrices of the batch."""
    if len(size) != 4:
        g.unsupported("affine_grid of volumes")
    batch = g.dims(theta)[0]
    if g.is_true(batch.equal(as_dim(size[0]))) is False:
        raise g.error(f"a size of {size[0]} images for {batch} matrices", hint="pass the size of the batch")
    rows: list[RelaxExpr] = []
    for count in size[2:]:
        length = g.tensor(count, "float32")
        positions = op.astype(op.arange(count, dtype="int64"), "float32")
        one, two = g.const(1, "float32"), g.const(2, "float32")
        if align_corners:
            coordinate = op.subtract(op.divide(op.multiply(two, positions), op.subtract(length, one)), one)
        else:
            coordinate = op.subtract(op.divide(op.add(op.multiply(two, positions), one), length), one)
        rows.append(g.emit(coordinate))
    height, width = (g.dims(row)[0] for row in rows)
    y = op.broadcast_to(op.expand_dims(rows[0], [1]), ShapeExpr([height, width]))
    x = op.broadcast_to(rows[1], ShapeExpr([height, width]))
    base = op.stack([x, y, op.full(ShapeExpr([height, width]), g.const(1, "float32"), "float32")], axis=2)
    flat = g.emit(op.reshape(base, ShapeExpr([height * width, 3])))
    grid = g.emit(op.matmul(flat, op.permute_dims(theta, [0, 2, 1])))
    return g.reshape(grid, [g.dims(theta)[0], height, width, 2])
