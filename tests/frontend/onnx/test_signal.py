"""Fourier transforms, caches, steps of optimisers; ONNX Runtime or NumPy tell the numbers."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import relax
from relax.frontend.onnx import from_onnx
from support import PLAIN_LOOPS

rng = np.random.default_rng(11)


@pytest.mark.parametrize("onesided", [0, 1])
def test_dft(agrees, onesided: int):
    text = f"""
    agraph (float[N, T, 1] x) => (float[N, K, 2] y) {{ y = DFT <axis = 1, onesided = {onesided}> (x) }}"""
    signals = [rng.standard_normal((n, t, 1)).astype("float32") for n, t in ((1, 1), (2, 8), (1, 13))]
    agrees(text, *signals, rtol=1e-4, atol=1e-4)


def test_inverse_dft_gives_the_signal_back():
    text = """
    <ir_version: 10, opset_import: ["": 20]>
    agraph (float[N, T, 2] x) => (float[N, T, 2] y) { f = DFT (x)
      y = DFT <inverse = 1> (f) }"""
    mod = from_onnx(onnx.parser.parse_model(text))
    vm = relax.VirtualMachine(relax.build(mod, PLAIN_LOOPS), relax.cpu())
    for size in (1, 6, 11):
        x = rng.standard_normal((2, size, 2)).astype("float32")
        np.testing.assert_allclose(vm["main"](x).numpy(), x, atol=1e-5)


def test_short_time_transform(agrees):
    text = """
    agraph (float[N, T, 1] x, float[8] w) => (float[N, F, 5, 2] y) <int64 step = {3}, int64 size = {8}> {
      y = STFT (x, step, w, size) }"""
    window = np.hanning(8).astype("float32")
    agrees(text, *((rng.standard_normal((n, t, 1)).astype("float32"), window) for n, t in ((1, 8), (2, 20))), atol=1e-4)


def test_writing_into_a_cache():
    text = """
    <ir_version: 12, opset_import: ["": 24]>
    agraph (float[B, M, 2] c, float[B, S, 2] u, int64[B] at) => (float[B, M, 2] y) {
      y = TensorScatter <mode = "circular"> (c, u, at) }"""
    mod = from_onnx(onnx.parser.parse_model(text))
    vm = relax.VirtualMachine(relax.build(mod, PLAIN_LOOPS), relax.cpu())
    cache, at = np.zeros((2, 4, 2), "float32"), np.array([1, 3], "int64")
    for size in (1, 3):
        update = rng.standard_normal((2, size, 2)).astype("float32")
        expected = cache.copy()
        for b in range(2):
            for s in range(size):
                expected[b, (at[b] + s) % 4] = update[b, s]
        np.testing.assert_array_equal(vm["main"](cache, update, at).numpy(), expected)


def test_a_step_of_momentum():
    text = """
    <ir_version: 10, opset_import: ["": 20, "ai.onnx.preview.training": 1]>
    agraph (float r, int64 t, float[N] x, float[N] d, float[N] v) => (float[N] y, float[N] w) {
      y, w = ai.onnx.preview.training.Momentum <alpha = 0.9, beta = 0.5, norm_coefficient = 0.01, mode = "standard">
        (r, t, x, d, v) }"""
    mod = from_onnx(onnx.parser.parse_model(text))
    vm = relax.VirtualMachine(relax.build(mod, PLAIN_LOOPS), relax.cpu())
    x, d, v = rng.standard_normal((3, 5)).astype("float32")
    for count, factor in ((0, 1.0), (2, 0.5)):
        moved, momentum = vm["main"](np.array(0.1, "float32"), np.array(count), x, d, v)
        expected = 0.9 * v + factor * (d + 0.01 * x)
        np.testing.assert_allclose(momentum.numpy(), expected, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(moved.numpy(), x - 0.1 * expected, rtol=1e-5, atol=1e-6)
