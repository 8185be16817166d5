"""GPT-2 with a cache of keys and values: symbolic batch, sequence and past; the mask is cut from a stored triangle."""

from __future__ import annotations

import numpy as np
import onnx

from .graph import Graph

SMALL = {"layers": 2, "width": 32, "heads": 4, "vocabulary": 50, "positions": 64}
FULL = {"layers": 12, "width": 768, "heads": 12, "vocabulary": 50257, "positions": 1024}
DIMENSIONS = {"batch": (2, 1, 3, 4, 6), "seq": (3, 1, 2, 9, 17), "past": (4, 0, 1, 7, 30)}


def model(layers: int, width: int, heads: int, vocabulary: int, positions: int) -> onnx.ModelProto:
    g = Graph("gpt2", opset=14)
    ids = g.input("input_ids", "int64", "batch", "seq")
    mask = g.input("attention_mask", "int64", "batch", "past + seq")
    cache = ("batch", heads, "past", width // heads)
    pasts = [[g.input(f"past_{i}.{part}", "float32", *cache) for part in ("key", "value")] for i in range(layers)]
    batch, seq, past = g.size(ids, 0), g.size(ids, 1), g.size(pasts[0][0], 2)

    # arange(past, past + seq).unsqueeze(0).view(-1, seq)
    flat = g.view(ids, -1, seq)
    places = g.view(g.Unsqueeze(g.Range(past, g.Add(seq, past), 1), [0]), -1, seq)
    wide = g.Unsqueeze(g.Unsqueeze(g.view(mask, batch, -1), [1]), [2])
    bias = g.Mul(g.Sub(1.0, g.Cast(wide, to=1)), -10000.0)
    tokens = g.weight(vocabulary, width, scale=1.0)
    x = g.Add(g.Gather(tokens, flat), g.Gather(g.weight(positions, width, scale=1.0), places))

    triangle = g.parameter(np.tril(np.ones((1, 1, positions, positions), "uint8")))
    present: dict[str, tuple] = {}
    for layer, (key, value) in enumerate(pasts):
        g.scope(f"h.{layer}")
        mixed, key, value = _attention(g, g.layer_norm(x, width), key, value, bias, triangle, width, heads)
        x = g.Add(g.Identity(mixed), x)
        inner = _projection(g, g.layer_norm(x, width), width, 4 * width)
        x = g.Add(x, _projection(g, _gelu_new(g, inner), 4 * width, width))
        for part, result in (("key", key), ("value", value)):
            present[f"present_{layer}.{part}"] = (result, "float32", "batch", heads, "past + seq", width // heads)
    g.scope("head")
    x = g.view(g.layer_norm(x, width), batch, seq, g.size(x, 2))
    logits = g.MatMul(x, g.Transpose(tokens, perm=[1, 0]))
    return g.model(logits=(logits, "float32", "batch", "seq", vocabulary), **present)


def _projection(g: Graph, x: str, rows: int, columns: int) -> str:
    """GPT-2's Conv1D: rows of a matrix through Gemm, and back."""
    sizes = g.Concat(g.Slice(g.Shape(x), [0], [2], [0]), [columns], axis=0)
    flat = g.view(x, -1, g.size(x, 2))
    return g.Reshape(g.Gemm(flat, g.weight(rows, columns), g.weight(columns)), sizes)


def _attention(
    g: Graph, x: str, key: str, value: str, bias: str, triangle: str, width: int, heads: int
) -> tuple[str, str, str]:
    parts = g.Split(_projection(g, x, width, 3 * width), [width] * 3, outputs=3, axis=2)

    def split(part: str) -> str:
        head = g.Div(g.size(part, 2), heads)
        rows = g.Concat(g.Slice(g.Shape(part), [0], [-1], [0]), [heads], g.Unsqueeze(head, [0]), axis=0)
        return g.Transpose(g.Reshape(part, rows), perm=[0, 2, 1, 3])

    query, new_key, new_value = (split(part) for part in parts)
    key, value = g.Concat(key, new_key, axis=2), g.Concat(value, new_value, axis=2)
    scores = g.Div(g.MatMul(query, g.Transpose(key, perm=[0, 1, 3, 2])), float((width // heads) ** 0.5))
    queries, keys = g.size(query, 2), g.size(key, 2)
    seen = g.cut(g.cut(triangle, 2, g.Sub(keys, queries), keys), 3, 0, keys)
    scores = g.Where(g.Cast(seen, to=9), scores, float(np.finfo("float32").min))
    weights = g.Softmax(g.Add(scores, bias), axis=-1)
    mixed = g.Transpose(g.MatMul(weights, value), perm=[0, 2, 1, 3])
    shape = g.Slice(g.Shape(mixed), [0], [-2], [0])
    joined = g.Mul(g.size(mixed, 2), g.size(mixed, 3))
    mixed = g.Reshape(mixed, g.Concat(shape, g.Unsqueeze(joined, [0]), axis=0))
    return _projection(g, mixed, width, width), key, value


def _gelu_new(g: Graph, x: str) -> str:
    cubic = g.Add(x, g.Mul(g.Pow(x, 3.0), 0.044715))
    return g.Mul(g.Mul(x, 0.5), g.Add(g.Tanh(g.Mul(cubic, float((2 / np.pi) ** 0.5))), 1.0))


def inputs(
    rng: np.random.Generator, batch: int, seq: int, past: int, layers: int = 2, width: int = 32, heads: int = 4
) -> dict[str, np.ndarray]:
    mask = np.ones((batch, past + seq), "int64")
    mask[0, 1 : 1 + (past + seq) // 3] = 0  # every query sees one key at least
    arrays: dict[str, np.ndarray] = {"input_ids": rng.integers(0, 50, (batch, seq)), "attention_mask": mask}
    for layer in range(layers):
        for part in ("key", "value"):
            shape = (batch, heads, past, width // heads)
            arrays[f"past_{layer}.{part}"] = rng.standard_normal(shape).astype("float32")
    return arrays
