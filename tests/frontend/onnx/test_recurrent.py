"""LSTM, GRU and RNN: every direction, from one build for all lengths and batches."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from support import PLAIN_LOOPS

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
    sizes = f"float[{directions}, {gates * HIDDEN}, {INPUT}] w, float[{directions}, {gates * HIDDEN}, {HIDDEN}] r"
    cell = ", c" if name == "LSTM" else ""
    outputs = f"float[T, {directions}, N, {HIDDEN}] y, float[{directions}, N, {HIDDEN}] h"
    outputs += f", float[{directions}, N, {HIDDEN}] c" if cell else ""
    text = f"""
    agraph (float[T, N, {INPUT}] x, {sizes}, float[{directions}, {2 * gates * HIDDEN}] b) => ({outputs}) {{
      y, h{cell} = {name} <hidden_size = {HIDDEN}, direction = "{direction}"> (x, w, r, b) }}"""
    agrees(
        text,
        *(inputs(gates, directions, t, n) for t, n in ((1, 1), (4, 2), (7, 1), (3, 4), (2, 9))),
        opset=14,
        rtol=1e-4,
    )


def test_lengths_of_sequences(agrees):
    text = f"""
    agraph (float[T, N, {INPUT}] x, float[1, 12, {INPUT}] w, float[1, 12, {HIDDEN}] r, float[1, 24] b, int32[N] s)
    => (float[T, 1, N, {HIDDEN}] y, float[1, N, {HIDDEN}] h) {{
      y, h = LSTM <hidden_size = {HIDDEN}> (x, w, r, b, s) }}"""
    lengths = np.array([2, 4, 1], "int32")
    agrees(text, (*inputs(4, 1, 4, 3), lengths), opset=14, rtol=1e-4)


@pytest.mark.parametrize(("name", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
def test_sequences_of_a_batch_do_not_touch_each_other(imported, name: str, gates: int):
    """A sequence gives the same alone as in a batch, of which four go through the steps together."""
    hidden, batch = 19, 6
    mod = imported(
        f"""
    agraph (float[T, N, 2] x, float[2, {gates * hidden}, 2] w, float[2, {gates * hidden}, {hidden}] r)
    => (float[T, 2, N, {hidden}] y, float[2, N, {hidden}] h) {{
      y, h = {name} <hidden_size = {hidden}, direction = "bidirectional"> (x, w, r) }}"""
    )
    run = relax.VirtualMachine(relax.build(mod, PLAIN_LOOPS), relax.cpu())["main"]
    x = rng.standard_normal((5, batch, 2)).astype("float32")
    x[2, 1], x[3, 2], x[1, 5] = np.nan, np.inf, -np.inf
    w = rng.standard_normal((2, gates * hidden, 2)).astype("float32")
    r = rng.standard_normal((2, gates * hidden, hidden)).astype("float32")
    together = [value.numpy() for value in run(x, w, r)]
    assert [np.isnan(together[0][:, :, n]).any() for n in (0, 1, 3, 4)] == [False, True, False, False]
    for n in range(batch):
        alone = [value.numpy() for value in run(x[:, n : n + 1].copy(), w, r)]
        for whole, part in zip(together, alone, strict=True):
            np.testing.assert_allclose(whole[..., n : n + 1, :], part, 1e-5, 1e-6)
