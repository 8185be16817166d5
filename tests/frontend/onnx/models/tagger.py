"""An LSTM tagger: embeddings, a bidirectional LSTM of two layers over sequences of different lengths, labels."""

from __future__ import annotations

import numpy as np
import onnx

from .graph import Graph

SMALL = {"layers": 2, "width": 16, "hidden": 8, "vocabulary": 50, "labels": 5}
FULL = {"layers": 2, "width": 256, "hidden": 256, "vocabulary": 20000, "labels": 50}
DIMENSIONS = {"batch": (2, 1, 3, 4, 6), "seq": (5, 1, 2, 9, 20)}


def model(layers: int, width: int, hidden: int, vocabulary: int, labels: int) -> onnx.ModelProto:
    g = Graph("tagger", opset=14)
    words = g.input("words", "int64", "batch", "seq")
    lengths = g.input("lengths", "int64", "batch")
    x = g.Transpose(g.Gather(g.weight(vocabulary, width, scale=1.0), words), perm=[1, 0, 2])
    batch, inputs = g.size(x, 1), width
    for layer in range(layers):
        g.scope("lstm", str(layer))
        zero = onnx.numpy_helper.from_array(np.zeros(1, "float32"))
        state = g.ConstantOfShape(g.sizes(2, batch, hidden), value=zero)
        every, _, _ = g.LSTM(
            x,
            g.weight(2, 4 * hidden, inputs, scale=0.3),
            g.weight(2, 4 * hidden, hidden, scale=0.3),
            g.weight(2, 8 * hidden),
            g.Cast(lengths, to=6),
            state,
            state,
            outputs=3,
            hidden_size=hidden,
            direction="bidirectional",
        )
        x = g.Reshape(g.Transpose(every, perm=[0, 2, 1, 3]), [0, 0, -1])
        inputs = 2 * hidden
    g.scope("head")
    scores = g.linear(g.Transpose(x, perm=[1, 0, 2]), inputs, labels)
    chances = g.LogSoftmax(scores, axis=2)
    tags = g.ArgMax(chances, axis=2, keepdims=0)
    return g.model(chances=(chances, "float32", "batch", "seq", labels), tags=(tags, "int64", "batch", "seq"))


def inputs(rng: np.random.Generator, batch: int, seq: int) -> dict[str, np.ndarray]:
    lengths = rng.integers(1, seq + 1, batch)
    lengths[0] = seq
    return {"words": rng.integers(0, 50, (batch, seq)), "lengths": lengths}
