"""A detector in the shape of YOLO: two scales joined by resizing, boxes from a computed grid, NonMaxSuppression.

Height and width are multiples of 8, as the joined scales ask for; the number of boxes is only told by the image.
"""

from __future__ import annotations

import numpy as np
import onnx

from .graph import Graph

SMALL = {"width": 8, "classes": 3}
FULL = {"width": 48, "classes": 80}
DIMENSIONS = {"batch": (2, 1, 3, 4, 5), "height": (32, 8, 24, 48, 64), "width": (32, 16, 40, 56, 64)}


def model(width: int, classes: int) -> onnx.ModelProto:
    g = Graph("yolo", opset=17)
    image = g.input("image", "float32", "batch", 3, "height", "width")
    g.scope("backbone")
    x = _block(g, image, 3, width, 3, 2)
    x = _csp(g, _block(g, x, width, 2 * width, 3, 2), 2 * width)
    fine = x
    x = _csp(g, _block(g, x, 2 * width, 4 * width, 3, 2), 4 * width)
    coarse = _pyramid(g, x, 4 * width)
    g.scope("neck")
    scales = np.array([1, 1, 2, 2], "float32")
    up = g.Resize(
        coarse, None, scales, mode="nearest", nearest_mode="floor", coordinate_transformation_mode="asymmetric"
    )
    fine = _csp(g, _block(g, g.Concat(up, fine, axis=1), 6 * width, 2 * width, 1), 2 * width)
    parts = [_head(g, fine, 2 * width, classes, 4), _head(g, coarse, 4 * width, classes, 8)]

    g.scope("postprocess")
    every = g.Concat(*parts, axis=1)  # (batch, anchors, 4 + classes)
    boxes = g.cut(every, 2, 0, 4)
    scores = g.Transpose(g.cut(every, 2, 4, 2**63 - 1), perm=[0, 2, 1])
    chosen = g.NonMaxSuppression(boxes, scores, [10], [0.5], [0.6], center_point_box=1)
    # boxes[batch, anchor], one for each that was chosen
    place = g.Gather(chosen, [0, 2], axis=1)
    result = g.GatherND(boxes, place)
    return g.model(
        everything=(every, "float32", "batch", "anchors", 4 + classes),
        chosen=(chosen, "int64", "count", 3),
        boxes=(result, "float32", "count", 4),
    )


def _block(g: Graph, x: str, inputs: int, outputs: int, kernel: int, stride: int = 1) -> str:
    y = g.conv(x, inputs, outputs, kernel, stride)
    return g.Mul(y, g.Sigmoid(y))


def _csp(g: Graph, x: str, channels: int) -> str:
    """Half of the channels goes through a bottleneck."""
    half = channels // 2
    left, right = g.Split(_block(g, x, channels, channels, 1), [half, half], outputs=2, axis=1)
    inner = g.Add(right, _block(g, _block(g, right, half, half, 3), half, half, 3))
    return _block(g, g.Concat(left, right, inner, axis=1), 3 * half, channels, 1)


def _pyramid(g: Graph, x: str, channels: int) -> str:
    """The same pool one after the other, all results joined."""
    parts = [_block(g, x, channels, channels // 2, 1)]
    for _ in range(3):
        parts.append(g.MaxPool(parts[-1], kernel_shape=[5, 5], strides=[1, 1], pads=[2] * 4))
    return _block(g, g.Concat(*parts, axis=1), 2 * channels, channels, 1)


def _head(g: Graph, x: str, channels: int, classes: int, stride: int) -> str:
    """(batch, rows · columns, 4 + classes): centres and sizes in pixels, chances."""
    g.scope(f"head{stride}")
    x = g.conv(x, channels, 4 + classes, 1)
    batch, rows, columns = (g.size(x, axis) for axis in (0, 2, 3))
    flat = g.Transpose(g.view(x, batch, 4 + classes, -1), perm=[0, 2, 1])
    flat = g.Sigmoid(flat)
    # the grid of columns and rows: meshgrid, stacked and flattened
    wide = g.Expand(g.Unsqueeze(g.Range(0, columns, 1), [0]), g.sizes(rows, columns))
    high = g.Expand(g.Unsqueeze(g.Range(0, rows, 1), [1]), g.sizes(rows, columns))
    grid = g.Concat(g.Unsqueeze(wide, [2]), g.Unsqueeze(high, [2]), axis=2)
    grid = g.Cast(g.Reshape(grid, [1, -1, 2]), to=1)
    centre, size, chances = g.Split(flat, [2, 2, classes], outputs=3, axis=2)
    centre = g.Mul(g.Add(g.Sub(g.Mul(centre, 2.0), 0.5), grid), float(stride))
    size = g.Mul(g.Pow(g.Mul(size, 2.0), 2.0), float(2 * stride))
    return g.Concat(centre, size, chances, axis=2)


def inputs(rng: np.random.Generator, batch: int, height: int, width: int) -> dict[str, np.ndarray]:
    return {"image": rng.standard_normal((batch, 3, height, width)).astype("float32")}
