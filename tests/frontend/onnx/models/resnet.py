"""ResNet with bottlenecks (50 layers at full size): symbolic batch, height and width."""

from __future__ import annotations

import numpy as np
import onnx

from .graph import Graph

SMALL = {"blocks": (1, 2), "width": 8, "classes": 10}
FULL = {"blocks": (3, 4, 6, 3), "width": 64, "classes": 1000}
DIMENSIONS = {"batch": (2, 1, 3, 4, 5), "height": (32, 17, 40, 48, 65), "width": (32, 16, 33, 50, 64)}


def model(blocks: tuple[int, ...], width: int, classes: int) -> onnx.ModelProto:
    g = Graph("resnet", opset=13)
    x = g.input("image", "float32", "batch", 3, "height", "width")
    g.scope("stem")
    x = g.Relu(g.batch_norm(g.conv(x, 3, width, 7, stride=2, bias=False), width))
    x = g.MaxPool(x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], dilations=[1, 1], ceil_mode=0)
    channels = width
    for stage, count in enumerate(blocks):
        inner = width * 2**stage
        for block in range(count):
            g.scope(f"layer{stage + 1}", str(block))
            x = _bottleneck(g, x, channels, inner, stride=2 if stage and not block else 1)
            channels = 4 * inner
    g.scope("head")
    flat = g.Flatten(g.GlobalAveragePool(x), axis=1)
    logits = g.Gemm(flat, g.weight(classes, channels), g.weight(classes), transB=1)
    return g.model(logits=(logits, "float32", "batch", classes))


def _bottleneck(g: Graph, x: str, channels: int, inner: int, stride: int) -> str:
    y = g.Relu(g.batch_norm(g.conv(x, channels, inner, 1, bias=False), inner))
    y = g.Relu(g.batch_norm(g.conv(y, inner, inner, 3, stride=stride, bias=False), inner))
    y = g.batch_norm(g.conv(y, inner, 4 * inner, 1, bias=False), 4 * inner)
    if stride > 1 or channels != 4 * inner:
        x = g.batch_norm(g.conv(x, channels, 4 * inner, 1, stride=stride, bias=False), 4 * inner)
    return g.Relu(g.Add(y, x))


def inputs(rng: np.random.Generator, batch: int, height: int, width: int) -> dict[str, np.ndarray]:
    return {"image": rng.standard_normal((batch, 3, height, width)).astype("float32")}
