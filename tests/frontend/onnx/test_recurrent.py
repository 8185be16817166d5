"""LSTM, GRU and RNN: every direction, from one build for all lengths and batches."""

from __future__ import annotations

import numpy as np
import pytest

rng = np.random.default_rng(5)
HIDDEN, INPUT = 3, 2


def inputs(gates: int, directions: int, time: int, batch: int) -> tuple[np.ndarray, ...]:
    def values(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype("float32")

    return (
        values(time, batch, INPUT),
        values(directions, gates * HIDDEN, INPUT),
        values(directions, gates * HIDDEN, HIDDEN),
        values(directions, 2 * gates * HIDDEN),
    )


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize(("name", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
def test_recurrent_layers(agrees, name: str, gates: int, direction: str):
    directions = 2 if direction == "bidirectional" else 1
    sizes = (
        f"float[{directions}, {gates * HIDDEN}, {INPUT}] w, float[{directions}, {gates * HIDDEN}, {HIDDEN}] r"
    )
    cell = ", c" if name == "LSTM" else ""
    outputs = f"float[T, {directions}, N, {HIDDEN}] y, float[{directions}, N, {HIDDEN}] h"
    outputs += f", float[{directions}, N, {HIDDEN}] c" if cell else ""
    text = f"""
    agraph (float[T, N, {INPUT}] x, {sizes}, float[{directions}, {2 * gates * HIDDEN}] b) => ({outputs}) {{
      y, h{cell} = {name} <hidden_size = {HIDDEN}, direction = "{direction}"> (x, w, r, b) }}"""
    agrees(text, *(inputs(gates, directions, t, n) for t, n in ((1, 1), (4, 2), (7, 1))), opset=14, rtol=1e-4)


def test_lengths_of_sequences(agrees):
    text = f"""
    agraph (float[T, N, {INPUT}] x, float[1, 12, {INPUT}] w, float[1, 12, {HIDDEN}] r, float[1, 24] b, int32[N] s)
    => (float[T, 1, N, {HIDDEN}] y, float[1, N, {HIDDEN}] h) {{
      y, h = LSTM <hidden_size = {HIDDEN}> (x, w, r, b, s) }}"""
    lengths = np.array([2, 4, 1], "int32")
    agrees(text, (*inputs(4, 1, 4, 3), lengths), opset=14, rtol=1e-4)
