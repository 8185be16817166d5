"""The operators of `relax.op.vision`, as editors and type checkers see them. Written by tools/make_stubs.py."""

from collections.abc import Sequence
from relax.expr import Call
from relax.op.arguments import ScalarLike, ShapeLike, TensorLike
from typing import Literal

def all_class_non_max_suppression(
    boxes: TensorLike,
    scores: TensorLike,
    max_output_boxes_per_class: TensorLike | ScalarLike,
    iou_threshold: TensorLike | ScalarLike,
    score_threshold: TensorLike | ScalarLike | None = None,
    output_format: Literal['onnx'] | str = 'onnx',
    center_point_box: bool = False,
) -> Call:
    """(indices, count): the boxes of each image and class that no better one covers, as rows (image, class, box).

    boxes (images, boxes, 4) hold (y1, x1, y2, x2) of two opposite corners, or with `center_point_box` (x, y, width,
    height) around a centre; scores (images, classes, boxes). Of each class the box with the highest score is taken, and
    those whose intersection over union with it is above `iou_threshold` are dropped, until
    `max_output_boxes_per_class` are taken or none is left. Only boxes with a score above `score_threshold` count. Of
    equal scores the first box wins. `count`, of shape (1,), is the number of rows.
    """

def col2im(
    data: TensorLike,
    image_shape: ShapeLike,
    block_shape: ShapeLike,
    strides: int | Sequence[int] = (1,),
    padding: int | Sequence[int] = (0,),
    dilation: int | Sequence[int] = (1,),
) -> Call:
    """Images assembled from blocks by adding overlapping elements: the adjoint of cutting images into blocks.

    data (N, C · elements of a block, blocks), the blocks counted in row-major order; result (N, C, *image_shape). A
    block starts every `strides` elements of the image with its `padding`, and its elements are `dilation` apart.
    """

def deform_conv2d(
    data: TensorLike,
    offset: TensorLike,
    weight: TensorLike,
    bias: TensorLike | None = None,
    mask: TensorLike | None = None,
    strides: int | Sequence[int] = (1, 1),
    padding: int | Sequence[int] = (0, 0),
    dilation: int | Sequence[int] = (1, 1),
    groups: int = 1,
    offset_groups: int = 1,
) -> Call:
    """Convolution whose taps are moved: data (N, C, H, W), weight (O, C / groups, KH, KW), bias (O,).

    offset (N, offset_groups · KH · KW · 2, OH, OW) holds for each tap the distances (y, x) by which it is moved, the
    data between elements being interpolated and zero outside; mask (N, offset_groups · KH · KW, OH, OW) its factors.
    """

def leading_rows(data: TensorLike, count: TensorLike) -> Call:
    """The first rows of the data; `count`, a tensor of one element, holds their number."""

def padded_non_max_suppression(
    boxes: TensorLike,
    scores: TensorLike,
    max_output_boxes_per_class: TensorLike | ScalarLike,
    iou_threshold: TensorLike | ScalarLike,
    score_threshold: TensorLike | ScalarLike | None = None,
    center_point_box: bool = False,
) -> Call:
    """all_class_non_max_suppression with one row per score; unused rows hold -1."""

def roi_align(
    data: TensorLike,
    rois: TensorLike,
    batch_indices: TensorLike | None = None,
    pooled_size: int | Sequence[int] = (1, 1),
    spatial_scale: float = 1.0,
    sample_ratio: int = -1,
    aligned: bool = False,
    layout: str = 'NCHW',
    mode: Literal['avg', 'max', 'weighted_max'] | str = 'avg',
) -> Call:
    """Pool regions of images: each is divided into `pooled_size` parts, which are reduced to the mean ("avg") or
    maximum of their samples.

    A sample is interpolated between the four elements around it; in mode "weighted_max", ONNX's "max", it is the
    greatest weighted element.

    data (N, C, H, W) in `layout`; rois (regions, 5) hold (image, x1, y1, x2, y2), or (regions, 4) without the image if
    batch_indices (regions,) has them; times `spatial_scale`, they are coordinates of the data. A part has
    `sample_ratio` samples along each side, or if that is not positive, its size rounded up. `aligned` shifts
    coordinates by -1/2, with element 0 at 1/2; otherwise the sides of regions are at least 1. Samples more than one
    element outside of the data are 0.
    """
