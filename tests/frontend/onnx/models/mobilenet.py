"""MobileNet-V2: inverted residuals with depthwise convolutions and ReLU6; symbolic batch, height and width."""

from __future__ import annotations

import numpy as np
import onnx

from .graph import Graph

# (expansion, channels, blocks, stride)
SMALL = {"stages": ((1, 8, 1, 1), (4, 12, 2, 2)), "first": 8, "last": 32, "classes": 10}
FULL = {
    "stages": (
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    ),
    "first": 32,
    "last": 1280,
    "classes": 1000,
}
DIMENSIONS = {"batch": (2, 1, 3, 4, 5), "height": (32, 17, 24, 48, 65), "width": (32, 16, 33, 50, 64)}


def model(stages: tuple[tuple[int, ...], ...], first: int, last: int, classes: int) -> onnx.ModelProto:
    g = Graph("mobilenet", opset=11)
    x = g.input("image", "float32", "batch", 3, "height", "width")
    g.scope("features", "0")
    x = _relu6(g, g.batch_norm(g.conv(x, 3, first, 3, stride=2, bias=False), first))
    channels = first
    for expansion, width, blocks, stride in stages:
        for block in range(blocks):
            g.scope("features", f"{width}.{block}")
            x = _inverted_residual(g, x, channels, width, expansion, 1 if block else stride)
            channels = width
    g.scope("head")
    x = _relu6(g, g.batch_norm(g.conv(x, channels, last, 1, bias=False), last))
    # x.mean([2, 3]), then the classifier
    pooled = g.ReduceMean(x, axes=[2, 3], keepdims=0)
    logits = g.Gemm(pooled, g.weight(classes, last), g.weight(classes), alpha=1.0, beta=1.0, transB=1)
    return g.model(logits=(logits, "float32", "batch", classes))


def _relu6(g: Graph, x: str) -> str:
    return g.Clip(x, np.float32(0), np.float32(6))


def _inverted_residual(g: Graph, x: str, channels: int, width: int, expansion: int, stride: int) -> str:
    inner, y = channels * expansion, x
    if expansion > 1:
        y = _relu6(g, g.batch_norm(g.conv(y, channels, inner, 1, bias=False), inner))
    y = _relu6(g, g.batch_norm(g.conv(y, inner, inner, 3, stride=stride, group=inner, bias=False), inner))
    y = g.batch_norm(g.conv(y, inner, width, 1, bias=False), width)
    return g.Add(x, y) if stride == 1 and channels == width else y


def inputs(rng: np.random.Generator, batch: int, height: int, width: int) -> dict[str, np.ndarray]:
    return {"image": rng.standard_normal((batch, 3, height, width)).astype("float32")}
