"""Operators of early versions of ONNX, compared with ONNX Runtime, which still has most of them."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from support import PLAIN_LOOPS

rng = np.random.default_rng(4)
IMAGES = [rng.standard_normal((n, 3, h, 7)).astype("float32") for n, h in ((1, 5), (2, 6), (0, 4))]

CALLS = {
    "Affine": "alpha = 2.0, beta = 1.0",
    "Crop": "border = [1, 2, 3, 1]",
    "ImageScaler": "bias = [1.0, 2.0, 3.0], scale = 2.0",
    "ParametricSoftplus": "alpha = 2.0, beta = 1.5",
    "Scale": "scale = 2.0",
    "ScaledTanh": "alpha = 2.0, beta = 0.5",
}


@pytest.mark.parametrize("name", CALLS)
def test_operators_of_images(agrees, name):
    text = f"agraph (float[N, 3, H, 7] x) => (float y) {{ y = {name}<{CALLS[name]}>(x) }}"
    agrees(text, *IMAGES, opset=7)


def test_crop_to_a_size(agrees):
    text = "agraph (float[N, 3, H, 7] x) => (float y) { y = Crop<border = [1, 2, 3, 1], scale = [2, 3]>(x) }"
    agrees(text, *IMAGES, opset=7)


@pytest.mark.parametrize(
    ("call", "shape"),
    [
        ("ConstantFill<value = 2.5>(x)", (4, 3)),
        ("ConstantFill<value = 2.5, extra_shape = [2]>(x)", (4, 3, 2)),
        ("ConstantFill<value = 2.5, input_as_shape = 1>(s)", (4, 3)),
        ("ConstantFill<value = 2.5, shape = [5, 1]>()", (5, 1)),
    ],
)
def test_constants_of_a_shape(imported, call, shape):
    text = f"agraph (float[N, 3] x) => (float y) {{ s = Shape(x)\n y = {call} }}"
    vm = relax.VirtualMachine(relax.build(imported(text, 7), PLAIN_LOOPS), relax.cpu())
    result = vm["main"](np.ones((4, 3), "float32")).numpy()
    assert (result.dtype, result.shape) == (np.float32, shape)
    assert (result == 2.5).all()


def test_what_is_no_image(imported):
    with pytest.raises(relax.DiagnosticError, match="E6003.*its input must have 4 dimensions, found 2"):
        imported("agraph (float[N, 3] x) => (float y) { y = Crop<border = [1, 1, 1, 1]>(x) }", 7)
