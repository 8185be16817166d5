"""A vision transformer: symbolic batch, height and width; the table of positions is resized to the image."""

from __future__ import annotations

import numpy as np
import onnx

from .graph import Graph

SMALL = {"layers": 2, "width": 32, "heads": 4, "patch": 4, "side": 4, "classes": 10}
FULL = {"layers": 12, "width": 768, "heads": 12, "patch": 16, "side": 14, "classes": 1000}
DIMENSIONS = {"batch": (2, 1, 3, 4, 5), "height": (16, 4, 12, 24, 32), "width": (16, 8, 20, 28, 36)}


def model(layers: int, width: int, heads: int, patch: int, side: int, classes: int) -> onnx.ModelProto:
    g = Graph("vit", opset=17)
    image = g.input("image", "float32", "batch", 3, "height", "width")
    g.scope("embeddings")
    x = g.Conv(
        image,
        g.weight(width, 3, patch, patch),
        g.weight(width),
        kernel_shape=[patch] * 2,
        strides=[patch] * 2,
        pads=[0] * 4,
    )
    batch, rows, columns = g.size(x, 0), g.size(x, 2), g.size(x, 3)
    # x.flatten(2).transpose(1, 2), behind the class token
    x = g.Transpose(g.Reshape(x, g.Concat(g.Slice(g.Shape(x), [0], [2], [0]), [-1], axis=0)), perm=[0, 2, 1])
    token = g.expand(g.weight(1, 1, width, scale=1.0), batch, -1, -1)
    x = g.Add(g.Concat(token, x, axis=1), _positions(g, rows, columns, side, width))
    for layer in range(layers):
        g.scope(f"blocks.{layer}")
        x = g.Add(x, _attention(g, g.layer_norm(x, width), width, heads))
        inner = g.gelu(g.linear(g.layer_norm(x, width), width, 4 * width))
        x = g.Add(x, g.linear(inner, 4 * width, width))
    g.scope("head")
    logits = g.Gemm(g.Gather(g.layer_norm(x, width), 0, axis=1), g.weight(width, classes), g.weight(classes))
    return g.model(logits=(logits, "float32", "batch", classes))


def _positions(g: Graph, rows: str, columns: str, side: int, width: int) -> str:
    """F.interpolate of the table of positions to rows × columns, behind the position of the class token."""
    table = g.weight(1, side * side + 1, width, scale=1.0)
    first, rest = g.cut(table, 1, 0, 1), g.cut(table, 1, 1, 2**63 - 1)
    square = g.Transpose(g.Reshape(rest, [1, side, side, width]), perm=[0, 3, 1, 2])
    sizes = g.Concat(g.Slice(g.Shape(square), [0], [2], [0]), g.Cast(g.sizes(rows, columns), to=7), axis=0)
    resized = g.Resize(square, None, None, sizes, mode="linear", coordinate_transformation_mode="pytorch_half_pixel")
    return g.Concat(first, g.Reshape(g.Transpose(resized, perm=[0, 2, 3, 1]), [1, -1, width]), axis=1)


def _attention(g: Graph, x: str, width: int, heads: int) -> str:
    """One product for queries, keys and values, which are gathered from a dimension of 3."""
    batch, count = g.size(x, 0), g.size(x, 1)
    parts = g.view(g.linear(x, width, 3 * width), batch, count, 3, heads, width // heads)
    turned = g.Transpose(parts, perm=[2, 0, 3, 1, 4])
    query, key, value = (g.Gather(turned, i, axis=0) for i in range(3))
    scaled = g.Mul(query, float((width // heads) ** -0.5))
    weights = g.Softmax(g.MatMul(scaled, g.Transpose(key, perm=[0, 1, 3, 2])), axis=-1)
    mixed = g.Transpose(g.MatMul(weights, value), perm=[0, 2, 1, 3])
    return g.linear(g.view(mixed, batch, count, width), width, width)


def inputs(rng: np.random.Generator, batch: int, height: int, width: int) -> dict[str, np.ndarray]:
    return {"image": rng.standard_normal((batch, 3, height, width)).astype("float32")}
