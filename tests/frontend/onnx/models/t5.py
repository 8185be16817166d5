"""An encoder and decoder in the shape of T5: relative positions in buckets, cross attention, three open dimensions."""

from __future__ import annotations

import math

import numpy as np
import onnx

from .graph import Graph

SMALL = {"layers": 1, "width": 16, "heads": 2, "vocabulary": 50}
FULL = {"layers": 6, "width": 512, "heads": 8, "vocabulary": 32128}
DIMENSIONS = {"batch": (2, 1, 3, 4, 6), "source": (5, 1, 2, 9, 20), "target": (3, 1, 2, 8, 15)}

LOWEST = float(np.finfo("float32").min)
BUCKETS, FARTHEST = 32, 128


def model(layers: int, width: int, heads: int, vocabulary: int) -> onnx.ModelProto:
    g = Graph("t5", opset=13)
    ids = g.input("input_ids", "int64", "batch", "source")
    mask = g.input("attention_mask", "int64", "batch", "source")
    targets = g.input("decoder_input_ids", "int64", "batch", "target")
    tokens = g.weight(vocabulary, width, scale=1.0)

    g.scope("encoder")
    padding = g.Mul(g.Sub(1.0, g.Cast(g.Unsqueeze(g.Unsqueeze(mask, [1]), [2]), to=1)), LOWEST)
    x = g.Gather(tokens, ids)
    size = g.size(ids, 1)
    bias = g.Add(_position_bias(g, size, heads, both_ways=True), padding)
    for layer in range(layers):
        g.scope("encoder", f"block.{layer}")
        normal = _rms_norm(g, x, width)
        x = g.Add(x, _attention(g, normal, normal, bias, width, heads))
        x = g.Add(x, _feed_forward(g, _rms_norm(g, x, width), width))
    memory = _rms_norm(g, x, width)

    g.scope("decoder")
    y = g.Gather(tokens, targets)
    size = g.size(targets, 1)
    bias = g.Add(_position_bias(g, size, heads, both_ways=False), _causal_bias(g, targets))
    for layer in range(layers):
        g.scope("decoder", f"block.{layer}")
        normal = _rms_norm(g, y, width)
        y = g.Add(y, _attention(g, normal, normal, bias, width, heads))
        y = g.Add(y, _attention(g, _rms_norm(g, y, width), memory, padding, width, heads))
        y = g.Add(y, _feed_forward(g, _rms_norm(g, y, width), width))
    g.scope("lm_head")
    scaled = g.Mul(_rms_norm(g, y, width), float(width**-0.5))
    logits = g.MatMul(scaled, g.Transpose(tokens, perm=[1, 0]))
    return g.model(logits=(logits, "float32", "batch", "target", vocabulary))


def _rms_norm(g: Graph, x: str, width: int) -> str:
    mean = g.ReduceMean(g.Pow(g.Cast(x, to=1), 2.0), axes=[-1])
    return g.Mul(g.weight(width, offset=1.0), g.Mul(x, g.Div(1.0, g.Sqrt(g.Add(mean, 1e-6)))))


def _feed_forward(g: Graph, x: str, width: int) -> str:
    return g.linear(g.Relu(g.linear(x, width, 2 * width, bias=False)), 2 * width, width, bias=False)


def _causal_bias(g: Graph, ids: str) -> str:
    """(1 - (arange[None, None, :].repeat(batch, seq, 1) <= arange[None, :, None])) * lowest"""
    batch, size = g.size(ids, 0), g.size(ids, 1)
    places = g.Range(0, size, 1)
    every = g.Tile(g.Unsqueeze(g.Unsqueeze(places, [0]), [1]), g.sizes(batch, size, 1))
    seen = g.LessOrEqual(every, g.Unsqueeze(g.Unsqueeze(places, [0]), [2]))
    return g.Mul(g.Sub(1.0, g.Cast(g.Unsqueeze(seen, [1]), to=1)), LOWEST)


def _position_bias(g: Graph, size: str, heads: int, both_ways: bool) -> str:
    """A learned number for each head and bucket of distances, (1, heads, size, size)."""
    places = g.Range(0, g.Cast(size, to=7), 1)
    distance = g.Sub(g.Unsqueeze(places, [0]), g.Unsqueeze(places, [1]))
    buckets, start = BUCKETS, None
    if both_ways:
        buckets //= 2
        start = g.Mul(g.Cast(g.Greater(distance, 0), to=7), buckets)
        distance = g.Abs(distance)
    else:
        distance = g.Neg(g.Min(distance, g.ConstantOfShape(g.Shape(distance), value=_zero())))
    exact = buckets // 2
    logs = g.Div(g.Log(g.Div(g.Cast(distance, to=1), float(exact))), math.log(FARTHEST / exact))
    large = g.Add(g.Cast(g.Mul(logs, float(buckets - exact)), to=7), exact)
    limit = g.ConstantOfShape(g.Shape(large), value=onnx.numpy_helper.from_array(np.array([buckets - 1])))
    chosen = g.Where(g.Less(distance, exact), distance, g.Min(large, limit))
    bucket = chosen if start is None else g.Add(start, chosen)
    return g.Unsqueeze(g.Transpose(g.Gather(g.weight(BUCKETS, heads, scale=1.0), bucket), perm=[2, 0, 1]), [0])


def _zero() -> onnx.TensorProto:
    return onnx.numpy_helper.from_array(np.array([0]))


def _attention(g: Graph, x: str, memory: str, bias: str, width: int, heads: int) -> str:
    batch = g.size(x, 0)

    def split(part: str) -> str:
        rows = g.view(g.linear(part, width, width, bias=False), batch, -1, heads, width // heads)
        return g.Transpose(rows, perm=[0, 2, 1, 3])

    query, key, value = split(x), split(memory), split(memory)
    scores = g.Add(g.MatMul(query, g.Transpose(key, perm=[0, 1, 3, 2])), bias)
    mixed = g.Transpose(g.MatMul(g.Softmax(scores, axis=-1), value), perm=[0, 2, 1, 3])
    return g.linear(g.view(mixed, batch, -1, width), width, width, bias=False)


def inputs(rng: np.random.Generator, batch: int, source: int, target: int) -> dict[str, np.ndarray]:
    mask = np.ones((batch, source), "int64")
    mask[0, (source + 1) // 2 :] = 0
    return {
        "input_ids": rng.integers(0, 50, (batch, source)),
        "attention_mask": mask,
        "decoder_input_ids": rng.integers(0, 50, (batch, target)),
    }
