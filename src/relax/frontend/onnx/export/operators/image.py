"""Images: sampling at coordinates, regions, suppression of boxes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..graph import Graph
from ..registry import Sizes, writer
from ..tensor import Size, Tensor
from .creation import numbers
from .indexing import index_of
from .linear import wider_of
from .resizing import resized
from .shape import joined
from .windows import in_layout


@writer("relax.image.resize")
def resize(g: Graph, operator: Any, data: Tensor, size: Sizes, scales: Tensor | None, roi: Tensor | None) -> Tensor:
    axes = [axis % data.ndim for axis in operator.numbered(data.ndim)]
    return resized(g, operator, data, axes, size, scales, roi)


@writer("relax.image.resize2d")
def resize2d(g: Graph, operator: Any, data: Tensor, size: Sizes) -> Tensor:
    x = in_layout(data, operator.layout, "NCHW")
    roi = None if operator.roi is None else g.const(np.array(operator.roi, np.float32), "float32")
    out = resized(g, operator, x, [2, 3], size, None, roi)
    return in_layout(out, "NCHW", operator.layout)


# ------------------------------------------------------------------------------------------- sampling


@writer("relax.image.grid_sample")
def grid_sample(g: Graph, operator: Any, data: Tensor, grid: Tensor) -> Tensor:
    rank = data.ndim
    letters = "NC" + "DHW"[5 - rank :]
    wide = wider_of(data.dtype, grid.dtype)
    x = in_layout(data, operator.layout, letters).to(wide)
    first = operator.grid_layout == "channels_first"
    vectors = (grid.transpose([0, *range(2, rank), 1]) if first else grid).to(wide)
    if rank == 3:
        zero = (vectors * 0.0).ranked(3)
        vectors = joined(g, [vectors.ranked(3), zero], 2).ranked(3).unsqueeze(1)
        x = x.ranked(3).unsqueeze(2)
    mode = {"bilinear": "linear", "nearest": "nearest", "bicubic": "cubic"}[operator.method]
    out = g.run(
        "GridSample", x, vectors, rank=max(rank, 4), mode=mode, padding_mode=operator.padding_mode,
        align_corners=int(operator.align_corners),
    )  # fmt: skip
    out = out.squeeze(2) if rank == 3 else out
    return in_layout(out, letters, operator.layout)


@writer("relax.image.affine_grid")
def affine_grid(g: Graph, operator: Any, data: Tensor, size: Sizes) -> Tensor:
    theta = data.wide()
    sizes = size.given or size.values(g, theta.ndim)
    rank = len(sizes)
    axes: list[Tensor] = []
    for d, length in enumerate(sizes):
        number = g.scalar(length)
        steps = numbers(g, number).to(theta.dtype)
        if operator.align_corners:
            last = g.run("Max", number - 1, g.const(1, "int64")).to(theta.dtype)
            along = steps * 2.0 / last - 1.0
        else:
            along = (steps * 2.0 + 1.0) / g.run("Max", number, g.const(1, "int64")).to(theta.dtype) - 1.0
        axes.append(along.reshape([-1 if a == d else 1 for a in range(rank)]))
    columns = [*axes[::-1], g.const(1.0, theta.dtype)]
    points = [column.expand(sizes).unsqueeze(rank) for column in columns]
    matrix = joined(g, points, rank).reshape([-1, rank + 1])
    products = g.run("MatMul", matrix, theta.transpose([0, 2, 1]), rank=3)
    batch = data.size(0)
    out = products.reshape([batch, *sizes, rank])
    return out.transpose([0, rank + 1, *range(1, rank + 1)]) if operator.grid_layout == "channels_first" else out


# ------------------------------------------------------------------------------------------- regions, boxes


@writer("relax.vision.roi_align")
def roi_align(g: Graph, operator: Any, data: Tensor, rois: Tensor, batch_indices: Tensor | None) -> Tensor:
    if operator.mode == "max":
        g.refuse('regions pooled to the greatest sample (mode "max")', 'ONNX has "avg" and "weighted_max"')
    x = in_layout(data, operator.layout, "NCHW").wide()
    regions = rois.wide()
    if batch_indices is None:
        batch_indices = regions.slice(1, 0, 1).reshape([-1])
        regions = regions.slice(1, 1, 5)
    out = g.run(
        "RoiAlign", x, regions, index_of(batch_indices), rank=4,
        output_height=operator.pooled_size[0], output_width=operator.pooled_size[1],
        spatial_scale=operator.spatial_scale, sampling_ratio=max(operator.sample_ratio, 0),
        mode="avg" if operator.mode == "avg" else "max",
        coordinate_transformation_mode="half_pixel" if operator.aligned else "output_half_pixel",
    )  # fmt: skip
    return in_layout(out, "NCHW", operator.layout)


@writer("relax.vision.deform_conv2d")
def deform_conv2d(
    g: Graph, operator: Any, data: Tensor, offset: Tensor, weight: Tensor, bias: Tensor | None, mask: Tensor | None
) -> Tensor:
    pads = [low for low, _ in operator.pads] + [high for _, high in operator.pads]
    return g.run(
        "DeformConv", data, weight, offset, bias, mask, rank=4, strides=list(operator.strides), pads=pads,
        dilations=list(operator.dilation), group=operator.groups, offset_group=operator.offset_groups,
    )  # fmt: skip


@writer("relax.vision.col2im")
def col2im(g: Graph, operator: Any, data: Tensor, image: Sizes, block: Sizes) -> Tensor:
    if not data.kind.is_float:
        g.refuse(f"images assembled from blocks of {data.dtype}", "cast to float32")
    rank = len(image.given or ())
    pads = list(operator.padding) * (2 * rank // len(operator.padding))
    return g.run(
        "Col2Im", data, image.vector(g), block.vector(g), rank=rank + 2, pads=pads,
        strides=_each(operator.strides, rank), dilations=_each(operator.dilation, rank),
    )  # fmt: skip


def _each(values: Sequence[int], rank: int) -> list[int]:
    return list(values) * (rank // len(values))


@writer("relax.vision.all_class_non_max_suppression", "relax.vision.padded_non_max_suppression")
def non_max_suppression(
    g: Graph, operator: Any, boxes: Tensor, scores: Tensor, most: Tensor, iou: Tensor, least: Tensor | None
) -> list[Tensor]:
    limit = g.run("Max", most.to("int64").reshape([1]), g.const(0, "int64"))
    threshold = None if least is None else least.to("float32").reshape([1])
    inputs = [boxes.to("float32"), scores.to("float32"), limit, iou.to("float32").reshape([1]), threshold]
    center = int(operator.center_point_box)
    rows = g.node("NonMaxSuppression", *inputs, dtype="int64", rank=2, center_point_box=center)
    count: Size = rows.size(0)
    assert isinstance(count, Tensor), "the number of rows is read from them"
    if operator.short_name.endswith("padded_non_max_suppression"):
        total = g.const(1, "int64")
        for size in scores.sizes():
            total = total * g.scalar(size)
        pads = joined(g, [g.ints([0, 0]), (total - count).reshape([1]), g.ints([0])], 0)
        rows = g.run("Pad", rows, pads, g.const(-1, "int64"), rank=2)
    return [rows, count.reshape([1])]


@writer("relax.vision.leading_rows")
def leading_rows(g: Graph, operator: Any, data: Tensor, count: Tensor) -> Tensor:
    rows = g.run("Max", index_of(count).reshape([1]), g.const(0, "int64"))
    return data.slice(0, 0, rows.reshape([]))
