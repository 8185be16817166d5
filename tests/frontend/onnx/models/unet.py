"""A U-Net: group norm in single steps, skip connections padded to sizes that differ; symbolic batch, height, width."""

from __future__ import annotations

import numpy as np
import onnx

from .graph import Graph

SMALL = {"depth": 2, "width": 8, "groups": 2}
FULL = {"depth": 4, "width": 64, "groups": 8}
DIMENSIONS = {"batch": (2, 1, 3, 4, 5), "height": (16, 17, 21, 22, 32), "width": (16, 18, 19, 33, 40)}


def model(depth: int, width: int, groups: int) -> onnx.ModelProto:
    g = Graph("unet", opset=17)
    x = g.input("image", "float32", "batch", 3, "height", "width")
    skips: list[str] = []
    channels = 3
    for level in range(depth):
        g.scope(f"down{level}")
        x = _double(g, x, channels, width * 2**level, groups)
        channels = width * 2**level
        skips.append(x)
        x = g.MaxPool(x, kernel_shape=[2, 2], strides=[2, 2], pads=[0] * 4, dilations=[1, 1], ceil_mode=0)
    g.scope("middle")
    x = _double(g, x, channels, 2 * channels, groups)
    channels *= 2
    for level in reversed(range(depth)):
        g.scope(f"up{level}")
        half = channels // 2
        up = g.ConvTranspose(
            x, g.weight(channels, half, 2, 2, scale=0.2), g.weight(half), kernel_shape=[2, 2], strides=[2, 2]
        )
        x = _double(g, g.Concat(skips[level], _padded_like(g, up, skips[level]), axis=1), channels, half, groups)
        channels = half
    g.scope("head")
    mask = g.Sigmoid(g.conv(x, channels, 1, 1))
    return g.model(mask=(mask, "float32", "batch", 1, "height", "width"))


def _double(g: Graph, x: str, inputs: int, outputs: int, groups: int) -> str:
    for count in (inputs, outputs):
        x = g.Relu(_group_norm(g, g.conv(x, count, outputs, 3, bias=False), outputs, groups))
    return x


def _group_norm(g: Graph, x: str, channels: int, groups: int) -> str:
    """nn.GroupNorm as exporters write it: instance norm of (batch, groups, -1)."""
    flat = g.Reshape(x, [0, groups, -1])
    normal = g.InstanceNormalization(flat, np.ones(groups, "float32"), np.zeros(groups, "float32"), epsilon=1e-5)
    back = g.Reshape(normal, g.Shape(x))
    scale, shift = (g.Unsqueeze(g.weight(channels, offset=offset), [1, 2]) for offset in (1.0, 0.0))
    return g.Add(g.Mul(back, scale), shift)


def _padded_like(g: Graph, x: str, goal: str) -> str:
    """F.pad(x, [dx // 2, dx - dx // 2, dy // 2, dy - dy // 2]), whose order of pads is turned round with tensors."""
    pads: list[str] = []
    for axis in (3, 2):
        missing = g.Sub(g.size(goal, axis), g.size(x, axis))
        half = g.Div(missing, 2)
        pads += [half, g.Sub(missing, half)]
    given = g.Concat(*(g.Unsqueeze(pad, [0]) for pad in pads), axis=0)
    rest = g.ConstantOfShape([4], value=onnx.numpy_helper.from_array(np.array([0], "int64")))
    rows = g.Reshape(g.Concat(given, rest, axis=0), [-1, 2])
    turned = g.Transpose(g.Slice(rows, [-1], [-(2**63) + 1], [0], [-1]), perm=[1, 0])
    return g.Pad(x, g.Cast(g.Reshape(turned, [-1]), to=7), 0.0, mode="constant")


def inputs(rng: np.random.Generator, batch: int, height: int, width: int) -> dict[str, np.ndarray]:
    return {"image": rng.standard_normal((batch, 3, height, width)).astype("float32")}
