"""Fourier transforms as packed functions."""

from __future__ import annotations

import numpy as np
import pytest

from relax.runtime import ShapeTuple, get_global_func

run = {name: get_global_func(f"relax.run.fft_{name}") for name in ("c2c", "r2c", "c2r")}


def parts(z):
    return np.stack([z.real, z.imag], -1)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_transforms(dtype):
    x = np.random.default_rng(1).standard_normal((3, 6)).astype(dtype)
    spectrum = run["r2c"](x, ShapeTuple([1]), "none")
    assert spectrum.dtype == dtype
    tolerance = 1e-5 if dtype == "float32" else 1e-12
    np.testing.assert_allclose(spectrum.numpy(), parts(np.fft.rfft(x)), atol=tolerance)
    np.testing.assert_allclose(run["c2r"](spectrum, ShapeTuple([1]), "all", 6).numpy(), x, atol=tolerance)
    both = run["c2c"](spectrum, ShapeTuple([0, 1]), True, "root").numpy()
    np.testing.assert_allclose(both, parts(np.fft.fft2(np.fft.rfft(x), norm="ortho")), atol=tolerance)
    back = run["c2c"](both, ShapeTuple([0, 1]), False, "root").numpy()
    np.testing.assert_allclose(back, spectrum.numpy(), atol=tolerance)


def test_a_batch_without_elements():
    assert run["r2c"](np.ones((0, 6), "float32"), ShapeTuple([1]), "none").shape == (0, 4, 2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: run["r2c"](np.ones(4, "int64"), ShapeTuple([0]), "none"), "expected a tensor of float32 or float64"),
        (lambda: run["c2c"](np.ones((4, 3)), ShapeTuple([0]), True, "none"), "expected real and imaginary parts along"),
        (lambda: run["r2c"](np.ones(4), ShapeTuple([1]), "none"), "do not fit a tensor of 1 dimensions"),
        (lambda: run["r2c"](np.ones(0), ShapeTuple([0]), "none"), r"invalid number of data points \(0\) along axis 0"),
        (lambda: run["c2r"](np.ones((3, 2)), ShapeTuple([0]), "all", 0), "invalid number of data points"),
    ],
)
def test_operands_that_are_wrong(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call()
