"""The operators of `relax.op.image`, as editors and type checkers see them. Written by tools/make_stubs.py."""

from collections.abc import Sequence
from relax.expr import Call
from relax.op.arguments import DTypeLike, ShapeLike, TensorLike
from typing import Literal

def affine_grid(
    data: TensorLike,
    size: ShapeLike,
    align_corners: bool = True,
    grid_layout: Literal['channels_first', 'channels_last'] | str = 'channels_first',
) -> Call:
    """A grid for grid_sample: `data` (N, 2, 3) or (N, 3, 4) times (x, y[, z], 1), for elements of an image of `size`.

    The coordinates are spaced evenly, -1 and 1 being the centres of the first and last elements (without
    `align_corners`, their outer edges). The vectors lie along dimension 1, or with "channels_last" along the last one.
    A dimension of one element lies at -1, or at 0 without `align_corners`.
    """

def grid_sample(
    data: TensorLike,
    grid: TensorLike,
    method: Literal['bilinear', 'nearest', 'bicubic'] | str = 'bilinear',
    layout: str = 'NCHW',
    padding_mode: Literal['zeros', 'border', 'reflection'] | str = 'zeros',
    align_corners: bool = True,
    grid_layout: Literal['channels_first', 'channels_last'] | str = 'channels_first',
) -> Call:
    """Sample data at the coordinates of a grid: (N, C, H, W) data, or of 1 or 3 spatial dimensions, in `layout`.

    The grid has a vector (x, y, z) for each element of the result, -1 and 1 being the centres of the first and last
    elements (without `align_corners`, their outer edges). Its vectors lie along dimension 1 ("channels_first", as in
    TVM) or the last one ("channels_last", as in ONNX and PyTorch). Outside of the data are zeros, the nearest element
    ("border"), or the data reflected at the border. "bicubic" reads the 4 elements around a coordinate in each
    dimension, each of which may be outside, as PyTorch and ONNX Runtime do (ONNX's reference code moves the coordinate
    first).
    """

def resize(
    data: TensorLike,
    size: ShapeLike,
    scales: TensorLike | None = None,
    roi: TensorLike | None = None,
    axes: int | Sequence[int] | None = None,
    method: Literal['nearest_neighbor', 'linear', 'cubic'] | str = 'linear',
    coordinate_transformation_mode: Literal['half_pixel', 'half_pixel_symmetric', 'pytorch_half_pixel', 'tf_half_pixel_for_nn', 'align_corners', 'asymmetric', 'tf_crop_and_resize'] | str = 'half_pixel',
    rounding_method: Literal['round', 'floor', 'ceil', 'round_prefer_floor', 'round_prefer_ceil'] | str = 'round',
    cubic_alpha: float = -0.75,
    cubic_exclude: bool = False,
    extrapolation_value: float = 0.0,
    antialias: bool = False,
    out_dtype: DTypeLike = '',
) -> Call:
    """The data with each axis of `axes` (None: all) resized to its entry of `size`.

    `coordinate_transformation_mode` maps index o of an axis to a coordinate of the data by the scale: that of `scales`
    (the size must be the rounded product of scale and length), or else size / length. "linear" and "cubic" weight the
    elements around the coordinate (with `antialias`, a kernel widened by the reduction), "nearest_neighbor" selects one
    by `rounding_method`. Outside the data, the border element is read; `cubic_exclude` omits such elements;
    "tf_crop_and_resize", which resizes the part between the starts and the ends in `roi`, yields `extrapolation_value`
    there. Integers are rounded towards zero.
    """

def resize2d(
    data: TensorLike,
    size: ShapeLike,
    roi: float | Sequence[float] | None = None,
    layout: str = 'NCHW',
    method: Literal['nearest_neighbor', 'linear', 'cubic'] | str = 'linear',
    coordinate_transformation_mode: Literal['half_pixel', 'half_pixel_symmetric', 'pytorch_half_pixel', 'tf_half_pixel_for_nn', 'align_corners', 'asymmetric', 'tf_crop_and_resize'] | str = 'half_pixel',
    rounding_method: Literal['round', 'floor', 'ceil', 'round_prefer_floor', 'round_prefer_ceil'] | str = 'round',
    cubic_alpha: float = -0.5,
    cubic_exclude: bool = False,
    extrapolation_value: float = 0.0,
    out_dtype: DTypeLike = '',
) -> Call:
    """Images in `layout` resized to the height and width in `size`; the attributes are those of `image.resize`.

    `roi` is (top, left, bottom, right), for "tf_crop_and_resize".
    """
