"""A detector in the shape of YOLO's eighth version: C2f blocks, SPPF, a neck that goes up and down, three heads.

Height and width are open, multiples of 32. Boxes are expected values of distributions over distances to four sides.
"""

from __future__ import annotations

import numpy as np
import onnx

from .graph import Graph

SMALL = {"width": 8, "depth": 1, "classes": 3}
FULL = {"width": 16, "depth": 2, "classes": 80}
DIMENSIONS = {"batch": (2, 1, 3, 4, 5), "height": (64, 32, 96, 128, 160), "width": (64, 32, 96, 160, 128)}

BINS = 16
"""The distances of a side to the centre of its cell, of which each has a chance."""
SIDES = 4


def model(width: int, depth: int, classes: int) -> onnx.ModelProto:
    g = Graph("detector", opset=17)
    image = g.input("image", "float32", "batch", 3, "height", "width")
    w2, w4, w8, w16 = 2 * width, 4 * width, 8 * width, 16 * width
    g.scope("backbone")
    x = _block(g, _block(g, image, 3, width, 3, 2), width, w2, 3, 2)
    x = _c2f(g, x, w2, w2, depth, shortcut=True)
    fine = x = _c2f(g, _block(g, x, w2, w4, 3, 2), w4, w4, 2 * depth, shortcut=True)
    middle = x = _c2f(g, _block(g, x, w4, w8, 3, 2), w8, w8, 2 * depth, shortcut=True)
    x = _c2f(g, _block(g, x, w8, w16, 3, 2), w16, w16, depth, shortcut=True)
    coarse = _sppf(g, x, w16)
    g.scope("neck")
    up = _c2f(g, g.Concat(_upsampled(g, coarse), middle, axis=1), w16 + w8, w8, depth, shortcut=False)
    p3 = _c2f(g, g.Concat(_upsampled(g, up), fine, axis=1), w8 + w4, w4, depth, shortcut=False)
    down = g.Concat(_block(g, p3, w4, w4, 3, 2), up, axis=1)
    p4 = _c2f(g, down, w4 + w8, w8, depth, shortcut=False)
    down = g.Concat(_block(g, p4, w8, w8, 3, 2), coarse, axis=1)
    p5 = _c2f(g, down, w8 + w16, w16, depth, shortcut=False)
    heads = [_head(g, x, channels, classes, w4) for x, channels in ((p3, w4), (p4, w8), (p5, w16))]
    g.scope("boxes")
    sides, scores = g.Split(g.Concat(*heads, axis=2), [SIDES * BINS, classes], outputs=2, axis=1)
    batch = g.size(sides, 0)
    chances = g.Softmax(g.Transpose(g.view(sides, batch, SIDES, BINS, -1), perm=[0, 2, 1, 3]), axis=1)
    bins = g.parameter(np.arange(BINS, dtype="float32").reshape(1, BINS, 1, 1))
    distances = g.Reshape(g.Conv(chances, bins, kernel_shape=[1, 1]), g.sizes(batch, SIDES, -1))
    result = g.Concat(distances, g.Sigmoid(scores), axis=1)
    return g.model(found=(result, "float32", "batch", SIDES + classes, "anchors"))


def _block(g: Graph, x: str, inputs: int, outputs: int, kernel: int, stride: int = 1) -> str:
    y = g.conv(x, inputs, outputs, kernel, stride)
    return g.Mul(y, g.Sigmoid(y))


def _c2f(g: Graph, x: str, inputs: int, outputs: int, depth: int, shortcut: bool) -> str:
    """Half of the channels goes through bottlenecks, and the results of all of them are joined."""
    half = outputs // 2
    parts = g.Split(_block(g, x, inputs, outputs, 1), [half, half], outputs=2, axis=1)
    for _ in range(depth):
        y = _block(g, _block(g, parts[-1], half, half, 3), half, half, 3)
        parts.append(g.Add(parts[-1], y) if shortcut else y)
    return _block(g, g.Concat(*parts, axis=1), (2 + depth) * half, outputs, 1)


def _sppf(g: Graph, x: str, channels: int) -> str:
    """The same pool one after the other, all results joined."""
    parts = [_block(g, x, channels, channels // 2, 1)]
    for _ in range(3):
        parts.append(g.MaxPool(parts[-1], kernel_shape=[5, 5], strides=[1, 1], pads=[2] * 4))
    return _block(g, g.Concat(*parts, axis=1), 2 * channels, channels, 1)


def _upsampled(g: Graph, x: str) -> str:
    scales = np.array([1, 1, 2, 2], "float32")
    how = {"nearest_mode": "floor", "coordinate_transformation_mode": "asymmetric"}
    return g.Resize(x, None, scales, mode="nearest", **how)


def _head(g: Graph, x: str, channels: int, classes: int, inner: int) -> str:
    """(batch, sides · bins + classes, rows · columns)."""
    parts = []
    for outputs in (SIDES * BINS, classes):
        y = _block(g, _block(g, x, channels, inner, 3), inner, inner, 3)
        parts.append(g.conv(y, inner, outputs, 1))
    return g.view(g.Concat(*parts, axis=1), g.size(x, 0), SIDES * BINS + classes, -1)


def inputs(rng: np.random.Generator, batch: int, height: int, width: int) -> dict[str, np.ndarray]:
    return {"image": rng.standard_normal((batch, 3, height, width)).astype("float32")}
