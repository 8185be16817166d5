"""A decoder in the shape of Llama: grouped queries, rotary embedding, RMS norm, SwiGLU, a cache, a computed mask."""

from __future__ import annotations

import numpy as np
import onnx

from .graph import Graph

SMALL = {"layers": 2, "width": 32, "heads": 4, "groups": 2, "vocabulary": 50}
FULL = {"layers": 8, "width": 1024, "heads": 16, "groups": 4, "vocabulary": 32000}
DIMENSIONS = {"batch": (2, 1, 3, 4, 6), "seq": (3, 1, 2, 9, 17), "past": (4, 0, 1, 7, 30)}

LOWEST = float(np.finfo("float32").min)


def model(layers: int, width: int, heads: int, groups: int, vocabulary: int) -> onnx.ModelProto:
    g, head = Graph("llama", opset=17), width // heads
    ids = g.input("input_ids", "int64", "batch", "seq")
    mask = g.input("attention_mask", "int64", "batch", "past + seq")
    places = g.input("position_ids", "int64", "batch", "seq")
    cache = ("batch", groups, "past", head)
    pasts = [[g.input(f"past_{i}.{part}", "float32", *cache) for part in ("key", "value")] for i in range(layers)]
    x = g.Gather(g.weight(vocabulary, width, scale=1.0), ids)
    bias = _causal_mask(g, x, mask, pasts[0][0])
    angles = _angles(g, places, head)
    present: dict[str, tuple] = {}
    for layer, (key, value) in enumerate(pasts):
        g.scope("model", f"layers.{layer}")
        normal = _rms_norm(g, x, width)
        mixed, key, value = _attention(g, normal, key, value, bias, angles, heads, groups, head)
        x = g.Add(x, mixed)
        x = g.Add(x, _mlp(g, _rms_norm(g, x, width), width))
        for part, result in (("key", key), ("value", value)):
            present[f"present_{layer}.{part}"] = (result, "float32", "batch", groups, "past + seq", head)
    g.scope("lm_head")
    logits = g.linear(_rms_norm(g, x, width), width, vocabulary, bias=False)
    return g.model(logits=(logits, "float32", "batch", "seq", vocabulary), **present)


def _rms_norm(g: Graph, x: str, width: int) -> str:
    mean = g.ReduceMean(g.Pow(x, 2.0), axes=[-1])
    return g.Mul(g.weight(width, offset=1.0), g.Mul(x, g.Div(1.0, g.Sqrt(g.Add(mean, 1e-6)))))


def _mlp(g: Graph, x: str, width: int) -> str:
    gate = g.linear(x, width, 2 * width, bias=False)
    inner = g.Mul(g.Mul(gate, g.Sigmoid(gate)), g.linear(x, width, 2 * width, bias=False))
    return g.linear(inner, 2 * width, width, bias=False)


def _causal_mask(g: Graph, x: str, mask: str, past: str) -> str:
    """full((seq, past + seq), min).triu(1 + past) * (arange > …), joined with the padding of the mask."""
    batch, queries = g.size(x, 0), g.size(x, 1)
    keys = g.Add(g.size(past, 2), queries)
    full = g.Expand(LOWEST, g.sizes(queries, keys))
    ahead = g.Trilu(full, 1, upper=1)
    rows = g.Reshape(g.Range(g.size(past, 2), keys, 1), [-1, 1])
    later = g.Cast(g.Greater(g.Range(0, keys, 1), rows), to=1)
    causal = g.Unsqueeze(g.Unsqueeze(g.Mul(ahead, later), [0]), [1])
    causal = g.expand(causal, batch, 1, -1, -1)
    padding = g.Unsqueeze(g.Unsqueeze(mask, [1]), [2])
    nothing = g.Equal(g.Add(causal, g.Cast(padding, to=1)), 0.0)
    return g.Where(nothing, LOWEST, causal)


def _angles(g: Graph, places: str, head: int) -> tuple[str, str]:
    """cos and sin of position · frequency, (batch, 1, seq, head)."""
    g.scope("rotary_emb")
    frequencies = g.parameter((10000.0 ** (-np.arange(0, head, 2) / head)).astype("float32").reshape(1, -1, 1))
    wide = g.expand(frequencies, g.size(places, 0), -1, 1)
    angles = g.Transpose(g.MatMul(wide, g.Cast(g.Unsqueeze(places, [1]), to=1)), perm=[0, 2, 1])
    both = g.Concat(angles, angles, axis=-1)
    return g.Unsqueeze(g.Cos(both), [1]), g.Unsqueeze(g.Sin(both), [1])


def _rotated(g: Graph, x: str, angles: tuple[str, str]) -> str:
    half = g.Div(g.size(x, 3), 2)
    turned = g.Concat(g.Neg(g.cut(x, 3, half, 2**63 - 1)), g.cut(x, 3, 0, half), axis=-1)
    return g.Add(g.Mul(x, angles[0]), g.Mul(turned, angles[1]))


def _repeated(g: Graph, x: str, heads: int, groups: int, head: int) -> str:
    """x[:, :, None].expand(batch, groups, heads / groups, keys, head), as one dimension of heads."""
    batch, keys = g.size(x, 0), g.size(x, 2)
    goal = g.sizes(batch, groups, heads // groups, keys, head)
    return g.view(g.Expand(g.Unsqueeze(x, [2]), goal), batch, heads, keys, head)


def _attention(
    g: Graph, x: str, key: str, value: str, bias: str, angles: tuple[str, str], heads: int, groups: int, head: int
) -> tuple[str, str, str]:
    batch, seq, width = g.size(x, 0), g.size(x, 1), heads * head

    def split(count: int) -> str:
        part = g.linear(x, width, count * head, bias=False)
        return g.Transpose(g.view(part, batch, seq, count, head), perm=[0, 2, 1, 3])

    query, new_key, new_value = (_rotated(g, split(heads), angles), _rotated(g, split(groups), angles), split(groups))
    key, value = g.Concat(key, new_key, axis=-2), g.Concat(value, new_value, axis=-2)
    keys, values = (_repeated(g, part, heads, groups, head) for part in (key, value))
    scores = g.Mul(g.MatMul(query, g.Transpose(keys, perm=[0, 1, 3, 2])), head**-0.5)
    seen = g.cut(bias, 3, 0, g.size(keys, 2))
    weights = g.Softmax(g.Add(scores, seen), axis=-1)
    mixed = g.Transpose(g.MatMul(weights, values), perm=[0, 2, 1, 3])
    return g.linear(g.view(mixed, batch, seq, width), width, width, bias=False), key, value


def inputs(
    rng: np.random.Generator,
    batch: int,
    seq: int,
    past: int,
    layers: int = 2,
    width: int = 32,
    heads: int = 4,
    groups: int = 2,
) -> dict[str, np.ndarray]:
    mask = np.ones((batch, past + seq), "int64")
    mask[0, 1 : 1 + (past + seq) // 3] = 0  # every query sees one key at least
    arrays: dict[str, np.ndarray] = {
        "input_ids": rng.integers(0, 50, (batch, seq)),
        "attention_mask": mask,
        "position_ids": np.tile(np.arange(past, past + seq), (batch, 1)),
    }
    for layer in range(layers):
        for part in ("key", "value"):
            shape = (batch, groups, past, width // heads)
            arrays[f"past_{layer}.{part}"] = rng.standard_normal(shape).astype("float32")
    return arrays
