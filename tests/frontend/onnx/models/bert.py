"""BERT with a pooler: symbolic batch and sequence; LayerNorm in single steps, as before opset 17."""

from __future__ import annotations

import numpy as np
import onnx

from .graph import Graph

SMALL = {"layers": 2, "width": 32, "heads": 4, "vocabulary": 50, "positions": 40}
FULL = {"layers": 12, "width": 768, "heads": 12, "vocabulary": 30522, "positions": 512}
DIMENSIONS = {"batch": (2, 1, 3, 5, 8), "seq": (7, 1, 2, 16, 33)}


def model(layers: int, width: int, heads: int, vocabulary: int, positions: int) -> onnx.ModelProto:
    g = Graph("bert", opset=14)
    ids, mask, types = (
        g.input(name, "int64", "batch", "seq") for name in ("input_ids", "attention_mask", "token_type_ids")
    )
    # (1 - mask) * -3.4e38, over heads and queries
    wide = g.Unsqueeze(g.Unsqueeze(mask, [1]), [2])
    bias = g.Mul(g.Sub(1.0, g.Cast(wide, to=1)), float(np.finfo("float32").min))

    g.scope("embeddings")
    places = g.cut(g.parameter(np.arange(positions, dtype="int64")[None]), 1, 0, g.size(ids, 1))
    x = g.Add(g.Gather(g.weight(vocabulary, width, scale=1.0), ids), g.Gather(g.weight(2, width, scale=1.0), types))
    x = g.layer_norm(g.Add(x, g.Gather(g.weight(positions, width, scale=1.0), places)), width, 1e-12)

    for layer in range(layers):
        g.scope("encoder", f"layer.{layer}")
        x = g.layer_norm(g.Add(g.linear(_attention(g, x, bias, width, heads), width, width), x), width, 1e-12)
        inner = g.gelu(g.linear(x, width, 4 * width))
        x = g.layer_norm(g.Add(g.linear(inner, 4 * width, width), x), width, 1e-12)

    g.scope("pooler")
    first = g.Gather(x, 0, axis=1)
    pooled = g.Tanh(g.Gemm(first, g.weight(width, width), g.weight(width), transB=1))
    return g.model(
        last_hidden_state=(x, "float32", "batch", "seq", width), pooler_output=(pooled, "float32", "batch", width)
    )


def _attention(g: Graph, x: str, bias: str, width: int, heads: int) -> str:
    """Self-attention; each view asks for the sizes of its own input."""

    def split(part: str) -> str:
        return g.view(part, g.size(part, 0), g.size(part, 1), heads, width // heads)

    query, key, value = (split(g.linear(x, width, width)) for _ in range(3))
    scores = g.MatMul(g.Transpose(query, perm=[0, 2, 1, 3]), g.Transpose(key, perm=[0, 2, 3, 1]))
    weights = g.Softmax(g.Add(g.Div(scores, float((width // heads) ** 0.5)), bias), axis=-1)
    mixed = g.Transpose(g.MatMul(weights, g.Transpose(value, perm=[0, 2, 1, 3])), perm=[0, 2, 1, 3])
    return g.view(mixed, g.size(mixed, 0), g.size(mixed, 1), width)


def inputs(rng: np.random.Generator, batch: int, seq: int) -> dict[str, np.ndarray]:
    mask = np.ones((batch, seq), "int64")
    mask[0, (seq + 1) // 2 :] = 0
    return {
        "input_ids": rng.integers(0, 50, (batch, seq)),
        "attention_mask": mask,
        "token_type_ids": rng.integers(0, 2, (batch, seq)),
    }
