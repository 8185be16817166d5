"""Images and regions of them: resizing, sampling, detection."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from typing import Any

from .... import op
from ....expr import PrimValue, ShapeExpr
from ....ir import DataType
from ....prim import IntImm, PrimExpr, cast, const, intrin, simplify
from ....struct_info import TensorStructInfo
from ..emitter import FAR, Emitter
from ..objects import run
from ..registry import converter
from ..values import Array, Dims, Elements, Ints, Tensor, Value

_METHODS = {"nearest": "nearest_neighbor", "linear": "linear", "cubic": "cubic"}


@converter("Resize", since=11)
def resize(
    g: Emitter,
    X: Tensor,
    roi: Value | None = None,
    scales: Value | None = None,
    sizes: Value | None = None,
    *,
    antialias: int = 0,
    axes: Ints = (),
    coordinate_transformation_mode: str = "half_pixel",
    cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0,
    extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: str = "stretch",
    mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
) -> Tensor:
    ndim = g.ndim(X)
    resized_axes = g.axes(axes or None, ndim)
    dims = [g.dims(X)[axis] for axis in resized_axes]
    if _is_given(g, sizes):
        goals: Sequence[PrimExpr] = g.fitting(g.sizes(sizes, "sizes"), len(dims), "sizes")
        factors = None
        if keep_aspect_ratio_policy != "stretch":
            goals, factors = _kept_ratio(g, dims, goals, keep_aspect_ratio_policy)
    else:
        goals, factors = _scaled(g, dims, scales)
    if mode not in _METHODS:
        raise g.error(f"mode must be nearest, linear or cubic, found {mode!r}", code="E6003")
    window = None
    if coordinate_transformation_mode == "tf_crop_and_resize":
        window = g.tensor(roi, "roi")
    elif mode != "nearest" or not antialias:
        resized_axes, goals, factors = _moving(g, X, resized_axes, goals, factors)
    if not resized_axes:
        return X
    return op.image.resize(
        X,
        ShapeExpr(goals),
        factors,
        window,
        axes=resized_axes,
        method=_METHODS[mode],
        coordinate_transformation_mode=coordinate_transformation_mode,
        rounding_method=nearest_mode,
        cubic_alpha=cubic_coeff_a,
        cubic_exclude=bool(exclude_outside),
        extrapolation_value=extrapolation_value,
        antialias=bool(antialias),
    )


def _moving(
    g: Emitter, x: Tensor, resized_axes: Ints, goals: Sequence[PrimExpr], factors: Tensor | None
) -> tuple[Ints, Sequence[PrimExpr], Tensor | None]:
    """The axes that change, with their sizes and scales: an axis of the same size and scale 1 is left as it is."""
    numbers = None if factors is None else _numbers(g, factors)
    if factors is not None and numbers is None:
        return resized_axes, goals, factors
    dims = g.dims(x)
    kept = [
        i
        for i, (axis, goal) in enumerate(zip(resized_axes, goals, strict=True))
        if not (g.is_true(dims[axis].equal(goal)) and (numbers is None or numbers[i] == 1.0))
    ]
    if numbers is None or all(numbers[i] == int(numbers[i]) for i in kept):  # sizes say the same as whole scales
        chosen = None
    else:
        chosen = g.const([numbers[i] for i in kept], "float32")
    return tuple(resized_axes[i] for i in kept), [goals[i] for i in kept], chosen


def _is_given(g: Emitter, value: Value | None) -> bool:
    """False for an input that is left out, or has no elements."""
    if value is None:
        return False
    elements = g.elements(value)
    return elements is None or elements.array.size > 0


def _scaled(g: Emitter, dims: Sequence[PrimExpr], scales: Value | None) -> tuple[list[PrimExpr], Tensor]:
    """The sizes of a result that is scaled, and the scales."""
    if not _is_given(g, scales):
        raise g.error("neither sizes nor scales are given", code="E6002")
    numbers = _numbers(g, scales)
    factors = g.tensor(scales, "scales")
    if numbers is None:
        lengths = op.shape_to_tensor(ShapeExpr(dims))
        product = op.floor(op.multiply(op.astype(lengths, "float64"), op.astype(factors, "float64")))
        return list(g.sizes(g.emit(op.astype(product, "int64")), "scaled")), factors
    g.fitting(numbers, len(dims), "scales")
    if not all(0 <= number < FAR for number in numbers):  # NaN included
        raise g.error(f"scales must be positive numbers, found {numbers.tolist()}", code="E6003")
    goals = [_times(size, float(number)) for size, number in zip(dims, numbers, strict=True)]
    return goals, factors


def _numbers(g: Emitter, value: Value | None) -> Array | None:
    elements = g.elements(value)
    numbers = None if elements is None else elements.numbers()
    return None if numbers is None else numbers.reshape(-1)


def _times(size: PrimExpr, factor: float) -> PrimExpr:
    """The floor of a size times a number, in integers where the number is a whole one or the part of one."""
    if factor == int(factor):
        return simplify(size * int(factor))
    if factor > 1 / FAR and 1 / factor == int(1 / factor):
        return simplify(size // int(1 / factor))
    if isinstance(size, IntImm):
        return simplify(size * 0 + int(size.value * factor))
    return cast("int64", intrin.floor(cast("float64", size) * factor))


def _kept_ratio(
    g: Emitter, dims: Sequence[PrimExpr], goals: Sequence[PrimExpr], policy: str
) -> tuple[list[PrimExpr], Tensor]:
    """Sizes with one scale for all axes: the least that `goals` ask for, or the greatest."""
    if policy not in ("not_larger", "not_smaller"):
        raise g.error(f"keep_aspect_ratio_policy is {policy!r}, which is not known", code="E6003")
    ratios = [cast("float64", goal) / cast("float64", size) for size, goal in zip(dims, goals, strict=True)]
    scale = ratios[0]
    for ratio in ratios[1:]:
        scale = intrin.min(scale, ratio) if policy == "not_larger" else intrin.max(scale, ratio)
    scale = simplify(scale)
    sizes = [simplify(cast("int64", intrin.floor(scale * cast("float64", size) + 0.5))) for size in dims]
    return sizes, g.tensor(Elements.of([cast("float32", scale)] * len(sizes), "float32"))


@converter("Resize", since=10)
def resize_10(g: Emitter, X: Tensor, scales: Value, *, mode: str = "nearest") -> Tensor:
    return resize(g, X, None, scales, mode=mode, coordinate_transformation_mode="asymmetric", nearest_mode="floor")


@converter("Upsample", since=7)
def upsample(g: Emitter, X: Tensor, scales: Value, *, mode: str = "nearest") -> Tensor:
    return resize_10(g, X, scales, mode=mode)


@converter("GridSample", since=16)
def grid_sample(
    g: Emitter, X: Tensor, grid: Tensor, *, align_corners: int = 0, mode: str = "linear", padding_mode: str = "zeros"
) -> Tensor:
    names = {
        "linear": "bilinear",
        "bilinear": "bilinear",
        "nearest": "nearest",
        "cubic": "bicubic",
        "bicubic": "bicubic",
    }
    if mode not in names:
        raise g.error(f"mode must be linear, nearest or cubic, found {mode!r}", code="E6003")
    return op.image.grid_sample(
        X,
        grid,
        method=names[mode],
        layout="NCHW" if g.ndim(X) == 4 else "NCDHW",
        padding_mode=padding_mode,
        align_corners=bool(align_corners),
        grid_layout="channels_last",
    )


@converter("AffineGrid", since=20)
def affine_grid(g: Emitter, theta: Tensor, size: Dims, *, align_corners: int = 0) -> Tensor:
    return op.image.affine_grid(
        theta, ShapeExpr(size[2:]), align_corners=bool(align_corners), grid_layout="channels_last"
    )


@converter("RoiAlign", since=10)
def roi_align(
    g: Emitter,
    X: Tensor,
    rois: Tensor,
    batch_indices: Tensor,
    *,
    coordinate_transformation_mode: str | None = None,
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
) -> Tensor:
    default = "half_pixel" if g.opset >= 16 else "output_half_pixel"
    return op.vision.roi_align(
        X,
        rois,
        batch_indices,
        pooled_size=(output_height, output_width),
        spatial_scale=spatial_scale,
        sample_ratio=sampling_ratio,
        aligned=(coordinate_transformation_mode or default) == "half_pixel",
        mode="weighted_max" if mode == "max" else mode,
    )


@converter("MaxRoiPool")
def max_roi_pool(g: Emitter, X: Tensor, rois: Tensor, *, pooled_shape: Ints, spatial_scale: float = 1.0) -> Tensor:
    """Maxima of the bins of each region, (batch, x1, y1, x2, y2), along rows and then along columns."""
    rows, columns = g.within(g.fitting(pooled_shape, 2, "pooled_shape"), "pooled_shape")
    if g.ndim(X) != 4 or g.ndim(rois) != 2:
        raise g.error(f"X must have 4 dimensions and rois 2, found {g.ndim(X)} and {g.ndim(rois)}", code="E6003")
    dtype = g.dtype(X)
    height, width = g.dims(X)[2:]
    batch, *corners = (g.emit(column) for column in g.parts(op.split(rois, 5, axis=1)))
    scaled = [op.multiply(corner, g.const(spatial_scale, dtype)) for corner in corners]
    half = g.const(0.5, dtype)  # halves are rounded away from 0
    x1, y1, x2, y2 = (g.emit(op.multiply(op.sign(x), op.floor(op.add(op.abs(x), half)))) for x in map(g.emit, scaled))
    lowest, zero = g.const(float("-inf"), dtype), g.const(0, dtype)
    images = g.emit(op.take(X, op.astype(op.squeeze(batch, [1]), "int64"), axis=0))
    in_column = _in_bins(g, x1, x2, columns, width, dtype)  # (regions, columns, width)
    columnwise = op.where(op.expand_dims(in_column, [1, 2]), op.expand_dims(images, [3]), lowest)
    maxima = g.emit(op.max(columnwise, -1))  # (regions, channels, height, columns)
    in_row = g.emit(_in_bins(g, y1, y2, rows, height, dtype))
    rowwise = op.where(
        op.expand_dims(in_row, [1, 3]), op.expand_dims(op.permute_dims(maxima, [0, 1, 3, 2]), [2]), lowest
    )
    result = g.emit(op.max(rowwise, -1))
    filled = [
        op.expand_dims(op.max(op.astype(membership, "int32"), -1), axes)
        for membership, axes in ((in_row, [1, 3]), (in_column, [1, 2]))
    ]
    return op.where(op.greater(op.multiply(*filled), g.const(0, "int32")), result, zero)


def _in_bins(g: Emitter, first: Tensor, last: Tensor, count: int, size: PrimExpr, dtype: DataType) -> Tensor:
    """True for the positions (of `size`) in each of the `count` equal bins of a region; bins may overlap."""
    length = op.maximum(op.add(op.subtract(last, first), g.const(1, dtype)), g.const(1, dtype))
    step = g.emit(op.divide(length, g.const(count, dtype)))
    bin_index = g.emit(op.arange(count, dtype=str(dtype)))
    begin = op.add(op.floor(op.multiply(bin_index, step)), first)
    end = op.add(op.ceil(op.multiply(op.add(bin_index, g.const(1, dtype)), step)), first)
    position = op.arange(PrimValue(size), dtype=str(dtype))
    begin, end = (g.emit(op.expand_dims(limit, [2])) for limit in (begin, end))
    return g.emit(op.logical_and(op.greater_equal(position, begin), op.less(position, end)))


@converter("NonMaxSuppression", since=10)
def non_max_suppression(
    g: Emitter,
    boxes: Tensor,
    scores: Tensor,
    max_output_boxes_per_class: Tensor | None = None,
    iou_threshold: Tensor | None = None,
    score_threshold: Tensor | None = None,
    *,
    center_point_box: int = 0,
) -> Any:
    most = max_output_boxes_per_class if max_output_boxes_per_class is not None else g.const(0, "int64")
    overlap = iou_threshold if iou_threshold is not None else g.const(0.0, "float32")
    whole = op.vision.all_class_non_max_suppression(
        boxes,
        scores,
        _number(g, most),
        _number(g, overlap),
        None if score_threshold is None else _number(g, score_threshold),
        center_point_box=bool(center_point_box),
    )
    # A row is (batch, class, box): GatherND and ScatterND need the 3.
    return g.parts(g.emit(whole, sizes={1: const(3, "int64")}))[0]


def _number(g: Emitter, x: Tensor) -> Tensor:
    return x if g.ndim(x) == 0 else g.emit(op.reshape(x, []))


@converter("DeformConv", since=19)
def deform_conv(
    g: Emitter,
    X: Tensor,
    W: Tensor,
    offset: Tensor,
    B: Tensor | None = None,
    mask: Tensor | None = None,
    *,
    dilations: Ints = (1, 1),
    group: int = 1,
    kernel_shape: Ints = (),
    offset_group: int = 1,
    pads: Ints = (0, 0, 0, 0),
    strides: Ints = (1, 1),
) -> Tensor:
    return op.vision.deform_conv2d(
        X,
        offset,
        W,
        B,
        mask,
        strides=strides,
        padding=pads,
        dilation=dilations,
        groups=group,
        offset_groups=offset_group,
    )


@converter("Col2Im", since=18)
def col2im(
    g: Emitter,
    input: Tensor,
    image_shape: Dims,
    block_shape: Dims,
    *,
    dilations: Ints = (),
    pads: Ints = (),
    strides: Ints = (),
) -> Tensor:
    rank = len(image_shape)
    return op.vision.col2im(
        input,
        ShapeExpr(image_shape),
        ShapeExpr(block_shape),
        strides=tuple(strides) or (1,) * rank,
        padding=tuple(pads) or (0,) * (2 * rank),
        dilation=tuple(dilations) or (1,) * rank,
    )


# ------------------------------------------------------------------------------------- image files


@converter("ImageDecoder", since=20)
def image_decoder(g: Emitter, encoded_stream: Tensor, *, pixel_format: str = "RGB") -> Tensor:
    if pixel_format not in ("RGB", "BGR", "Grayscale"):
        raise g.error(f"{pixel_format!r} is no pixel format", code="E6002")
    if importlib.util.find_spec("PIL") is None:
        g.unsupported("an image file without Pillow", "pip install pillow")
    info = TensorStructInfo(None, "uint8", None, 3)
    return run(g, "decode_image", encoded_stream, pixel_format, info=info)
