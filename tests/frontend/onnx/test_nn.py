"""Convolutions, pools, normalisations and padding, at several sizes from one build."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from support import plain_machine

rng = np.random.default_rng(3)


def image(n: int, h: int, w: int, c: int = 3) -> np.ndarray:
    return rng.standard_normal((n, c, h, w)).astype("float32")


IMAGES = [image(1, 5, 7), image(2, 8, 6), image(0, 5, 5), image(1, 9, 9)]
WEIGHT = "float[4, 3, 3, 3] k = {" + ", ".join(f"{v:.3f}" for v in rng.standard_normal(108)) + "}"


@pytest.mark.parametrize(
    "options",
    [
        "pads = [1, 1, 1, 1]",
        "strides = [2, 1], pads = [0, 1, 2, 0], dilations = [1, 2]",
        'auto_pad = "SAME_UPPER"',
        'auto_pad = "SAME_LOWER", strides = [2, 2]',
        'auto_pad = "VALID"',
    ],
)
def test_conv(agrees, options: str):
    text = f"""
    agraph (float[N, 3, H, W] x) => (float[N, 4, I, J] y) <{WEIGHT}, float[4] b = {{1, 2, 3, 4}}> {{
      y = Conv <{options}> (x, k, b) }}"""
    agrees(text, *(IMAGES[:2] if "SAME_LOWER" in options else IMAGES), rtol=1e-4, atol=1e-4)


def test_conv_of_sequences_and_groups(agrees):
    text = """
    agraph (float[N, 4, T] x, float[6, 2, 3] w) => (float[N, 6, U] y) {
      y = Conv <group = 2, pads = [1, 1]> (x, w) }"""
    weight = rng.standard_normal((6, 2, 3)).astype("float32")
    agrees(text, *((rng.standard_normal((n, 4, t)).astype("float32"), weight) for n, t in ((1, 3), (2, 9))), rtol=1e-4)


@pytest.mark.parametrize(
    "options", ["strides = [2, 2], output_padding = [1, 0]", "pads = [1, 0, 1, 2]", "dilations = [2, 1], group = 1"]
)
def test_conv_transpose(agrees, options: str):
    text = f"""
    agraph (float[N, 2, H, W] x, float[2, 3, 3, 3] w) => (float[N, 3, I, J] y) {{
      y = ConvTranspose <{options}> (x, w) }}"""
    weight = rng.standard_normal((2, 3, 3, 3)).astype("float32")
    agrees(text, *((image(n, h, w, 2), weight) for n, h, w in ((1, 3, 4), (2, 5, 2))), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("auto_pad", ["NOTSET", "SAME_UPPER", "SAME_LOWER"])
def test_an_output_shape_of_data_of_open_sizes(agrees, auto_pad):
    text = f"""
    agraph (float[N, 2, H, W] x, float[2, 3, 3, 3] w) => (float[N, 3, 10, 9] y) {{
      y = ConvTranspose <strides = [2, 2], output_shape = [10, 9], auto_pad = "{auto_pad}"> (x, w) }}"""
    weight = rng.standard_normal((2, 3, 3, 3)).astype("float32")
    mod = agrees(text, *((image(1, h, w, 2), weight) for h, w in ((5, 4), (5, 5), (6, 7))), rtol=1e-4, atol=1e-5)
    assert "R.Tensor((N, 3, 10, 9)" in mod.script()


@pytest.mark.parametrize(
    "node",
    [
        'Conv <auto_pad = "SAME_UPPER">',
        "Conv <pads = [1, 1, 1, 1]>",
        'ConvTranspose <strides = [2, 2], auto_pad = "SAME_LOWER">',
        "ConvTranspose <strides = [2, 2], output_shape = [8, 9]>",
    ],
)
def test_kernels_of_open_sizes(agrees, node):
    text = f"""
    agraph (float[N, 2, H, W] x, float[2, 2, K, L] w) => (float[N, 2, I, J] y) {{ y = {node} (x, w) }}"""
    weight = rng.standard_normal((2, 2, 3, 3)).astype("float32")
    calls = [(image(1, 4, 5, 2), weight[:, :, :k, :l]) for k, l in ((3, 3), (2, 3))]
    agrees(text, *calls, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "node",
    [
        'AveragePool <kernel_shape = [3, 2], strides = [2, 2], auto_pad = "SAME_UPPER">',
        'AveragePool <kernel_shape = [3, 2], strides = [2, 2], auto_pad = "SAME_LOWER">',
        "MaxPool <kernel_shape = [2, 3], strides = [2, 2], ceil_mode = 1>",
        "MaxPool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]>",
        'MaxPool <kernel_shape = [3, 3], strides = [2, 2], auto_pad = "SAME_UPPER">',
        "AveragePool <kernel_shape = [2, 2], pads = [1, 0, 1, 1]>",
        "AveragePool <kernel_shape = [3, 2], pads = [1, 1, 1, 1], strides = [2, 2], count_include_pad = 1>",
        "GlobalAveragePool",
        "GlobalMaxPool",
        "LpPool <kernel_shape = [2, 2], p = 2>",
        'LpPool <kernel_shape = [3, 3], p = 3, strides = [2, 2], auto_pad = "SAME_UPPER">',
    ],
)
def test_pools(agrees, node: str):
    agrees(f"agraph (float[N, 3, H, W] x) => (float[N, 3, I, J] y) {{ y = {node} (x) }}", *IMAGES[:2], rtol=1e-4)


def test_indices_of_a_pool_and_their_use(agrees):
    text = """
    agraph (float[N, 3, H, W] x) => (float[N, 3, I, J] y, int64[N, 3, I, J] i, float[N, 3, K, L] z) {
      y, i = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (x)
      z = MaxUnpool <kernel_shape = [2, 2], strides = [2, 2]> (y, i) }"""
    agrees(text, image(1, 4, 6), image(2, 6, 2))


@pytest.mark.parametrize(
    "attributes",
    [
        'kernel_shape = [3, 2], strides = [2, 2], auto_pad = "SAME_UPPER"',
        'kernel_shape = [2, 3], auto_pad = "SAME_LOWER", storage_order = 1',
        'kernel_shape = [2, 3], strides = [3, 2], auto_pad = "SAME_LOWER", storage_order = 1',
        "kernel_shape = [3, 3], strides = [2, 1], pads = [1, 0, 1, 2], storage_order = 1",
    ],
)
def test_indices_of_a_pool_whose_padding_depends_on_the_size(agrees, attributes: str):
    text = f"""
    agraph (float[N, 3, H, W] x) => (float[N, 3, I, J] y, int64[N, 3, I, J] i) {{
      y, i = MaxPool <{attributes}> (x) }}"""
    agrees(text, image(1, 4, 6), image(2, 5, 7), image(1, 7, 3))


@pytest.mark.parametrize("dims", ["[N, 2, L]", "[N, 2, D, H, L]"])
def test_indices_of_pools_in_one_and_three_dimensions(agrees, dims: str):
    count = dims.count(",") - 1
    window, strides = [3] * count, [2] * count
    text = f"""
    agraph (float{dims} x) => (float{dims.replace("L", "O")} y, int64{dims.replace("L", "O")} i) {{
      y, i = MaxPool <kernel_shape = {window}, strides = {strides}, auto_pad = "SAME_UPPER"> (x) }}"""
    text = text.replace("D, H, O", "P, Q, O")
    agrees(text, *(rng.standard_normal((2, 2, *sizes[:count])).astype("float32") for sizes in ((4, 5, 6), (7, 4, 3))))


@pytest.mark.parametrize("order", [0, 1])
def test_indices_of_windows_of_the_padding_value_are_in_the_data(imported, order: int):
    """Static sizes, for which the operator itself pads, give the expected indices."""
    text = f"""
    agraph (float[1, 1, H, W] x) => (float[1, 1, I, J] y, int64[1, 1, I, J] i) {{
      y, i = MaxPool <kernel_shape = [3, 3], dilations = [1, 2], auto_pad = "SAME_LOWER", storage_order = {order}> (x)
    }}"""
    x = np.full((1, 1, 3, 5), -np.inf, "float32")
    found = plain_machine(imported(text))["main"](x)[1].numpy()
    expected = plain_machine(imported(text, shape_dict={"x": [1, 1, 3, 5]}))["main"](x)[1].numpy()
    assert found.tolist() == expected.tolist()
    assert 0 <= found.min() <= found.max() < 15


def test_normalisations(agrees):
    text = """
    agraph (float[N, 3, H, W] x) => (float[N, 3, H, W] a, float[N, 3, H, W] b, float[N, 3, H, W] c, float[N, 3, H, W] d)
    <float[3] s = {1, 2, 3}, float[3] t = {0, -1, 0.5}, float[3] m = {0.1, 0.2, 0.3}, float[3] v = {1, 0.5, 2}> {
      a = BatchNormalization (x, s, t, m, v)
      b = InstanceNormalization (x, s, t)
      c = LRN <size = 3, alpha = 0.1> (x)
      d = LpNormalization <axis = 1> (x) }"""
    agrees(text, *IMAGES[:2], rtol=1e-4, atol=1e-5)


def test_layer_normalisation_is_one_operator(agrees):
    text = """
    agraph (float[N, T, 8] x, float[8] s, float[8] b) => (float[N, T, 8] y) { y = LayerNormalization (x, s, b) }"""
    scale, shift = rng.standard_normal((2, 8)).astype("float32")
    calls = [(rng.standard_normal((n, t, 8)).astype("float32"), scale, shift) for n, t in ((1, 1), (2, 5), (0, 3))]
    assert "R.nn.layer_norm" in agrees(text, *calls, rtol=1e-4, atol=1e-5).script()


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge", "wrap"])
def test_pad(agrees, mode: str):
    text = f"""
    agraph (float[N, 3, H, W] x) => (float[N, 3, I, J] y) <int64[8] p = {{0, 0, 1, 2, 0, 0, 2, 1}}, float v = {{3}}> {{
      y = Pad <mode = "{mode}"> (x, p, v) }}"""
    agrees(text, *IMAGES[:2], opset=19)


def test_pads_that_the_data_tell(agrees):
    text = "agraph (float[H, W] x, int64[2] p, int64[1] a) => (float[I, J] y) { y = Pad (x, p, , a) }"
    x = image(1, 2, 3)[0, 0]
    agrees(text, *((x, np.array(p, "int64"), np.array([a], "int64")) for p, a in (([1, 2], 0), ([0, 3], -1))))


def test_a_kernel_that_does_not_fit_names_the_node(imported):
    text = """
    agraph (float[N, 3, H, W] x, float[4, 2, 3, 3] w) => (float[N, 4, I, J] y) { y = Conv (x, w) }"""
    with pytest.raises(relax.DiagnosticError, match=r'(?s)E3102.*model: Conv "y":1:1.*y = Conv\(x, w\)'):
        imported(text)


@pytest.mark.parametrize("operator", ["Conv", "ConvTranspose"])
def test_a_kernel_shape_that_is_not_the_weights_is_refused(imported, operator):
    text = f"""
    agraph (float[N, 3, H, W] x, float[3, 3, 3, 3] w) => (float[N, 3, I, J] y) {{
      y = {operator}<kernel_shape = [3, 5]> (x, w)
    }}"""
    message = r"E6003.*kernel_shape is \[3, 5\], the weights have kernels of \[3, 3\]"
    with pytest.raises(relax.DiagnosticError, match=message):
        imported(text)


@pytest.mark.parametrize("sizes", ["1", "2, 3", "2, 1", "4, 2, 3", ""])
def test_a_scale_of_a_layer_normalization_broadcasts(agrees, sizes):
    rng = np.random.default_rng(0)
    shape = [int(size) for size in sizes.split(",") if size]
    arrays = rng.random((4, 2, 3), "float32"), rng.random(shape, "float32"), rng.random(3, "float32")
    text = f"""
    agraph (float[4, 2, 3] x, float[{sizes}] s, float[3] b) => (float[4, 2, 3] y, float[4, 2, 3] z, float[4, 2, 1] m,
                                                                float[4, 2, 1] i) {{
      y = LayerNormalization<axis = -1>(x, s)
      z, m, i = LayerNormalization<axis = -1>(x, s, b)
    }}""".replace("float[]", "float")
    agrees(text, arrays)


def test_a_scale_of_a_layer_normalization_of_an_open_size(agrees):
    rng = np.random.default_rng(0)
    x = rng.random((4, 2, 3), "float32")
    text = "agraph (float[N, 2, M] x, float[K] s) => (float[N, 2, M] y) { y = LayerNormalization(x, s) }"
    agrees(text, *((x[:n], rng.random(k, "float32")) for n, k in ((4, 3), (4, 1), (1, 3))))


def test_a_scale_that_has_the_size_of_the_axis_is_fused(imported):
    text = "agraph (float[N, M] x) => (float[N, M] y) <float[3] s = {1, 2, 3}> { y = LayerNormalization(x, s) }"
    assert "R.nn.layer_norm" in imported(text).script()


def test_a_scale_that_is_larger_than_the_data_is_refused(imported):
    text = "agraph (float[4, 2, 3] x, float[2, 6] s) => (float[4, 2, 3] y) { y = LayerNormalization(x, s) }"
    with pytest.raises(relax.DiagnosticError, match=r'(?s)E3102.*model: LayerNormalization "y":1:1'):
        imported(text)
