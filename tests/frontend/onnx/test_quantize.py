"""Quantisation: QDQ, operators on quantised tensors, integer products."""

from __future__ import annotations

import numpy as np
import pytest

import relax

rng = np.random.default_rng(7)


def floats(*shape: int) -> np.ndarray:
    return (rng.standard_normal(shape) * 3).astype("float32")


def small(dtype: str, *shape: int) -> np.ndarray:
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max, shape, endpoint=True).astype(dtype)


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_quantize_and_back(agrees, dtype: str):
    text = f"""
    agraph (float[N, 4] x) => ({dtype}[N, 4] q, float[N, 4] y, {dtype}[N, 4] c)
    <float s = {{0.05}}, {dtype} z = {{3}}, float[4] ss = {{0.1, 0.2, 0.3, 0.4}}, {dtype}[4] zz = {{0, 1, 2, 3}}> {{
      q = QuantizeLinear (x, s, z)
      y = DequantizeLinear (q, s, z)
      c = QuantizeLinear <axis = 1> (x, ss, zz) }}"""
    extremes = np.array([[np.inf, -np.inf, 0.075, -0.025]], "float32")
    agrees(text, floats(1, 4), floats(5, 4), floats(0, 4), extremes)


def test_dynamic_quantisation(agrees):
    text = """
    agraph (float[N, 4] x) => (uint8[N, 4] q, float s, uint8 z) { q, s, z = DynamicQuantizeLinear (x) }"""
    agrees(text, floats(1, 4), floats(3, 4), np.abs(floats(2, 4)))


def test_integer_products(agrees):
    text = """
    agraph (uint8[M, K] a, int8[K, 3] b, uint8 az, int8[3] bz) => (int32[M, 3] y) {
      y = MatMulInteger (a, b, az, bz) }"""
    zero, zeros = np.array(7, "uint8"), np.array([1, -2, 0], "int8")
    agrees(text, *((small("uint8", m, k), small("int8", k, 3), zero, zeros) for m, k in ((1, 2), (4, 5))))


def test_quantised_products(agrees):
    text = """
    agraph (uint8[M, 4] a, uint8[4, 3] b) => (uint8[M, 3] y)
    <float s = {0.02}, uint8 z = {120}, float t = {0.5}, uint8 u = {7}> {
      y = QLinearMatMul (a, s, z, b, s, z, t, u) }"""
    agrees(text, *((small("uint8", m, 4), small("uint8", 4, 3)) for m in (1, 5)))


def test_quantised_convolution(agrees):
    text = """
    agraph (uint8[N, 2, H, W] x, int8[3, 2, 3, 3] w, int32[3] b) => (uint8[N, 3, H, W] y)
    <float s = {0.02}, uint8 z = {120}, float[3] t = {0.01, 0.02, 0.03}, int8[3] u = {0, 0, 0},
     float v = {0.1}, uint8 q = {5}> {
      y = QLinearConv <pads = [1, 1, 1, 1]> (x, s, z, w, t, u, v, q, b) }"""
    # Of 7 bits: without VNNI, ONNX Runtime's sum of two products of bytes saturates at 16 bits.
    weight, bias = small("int8", 3, 2, 3, 3) // 2, np.array([10, -20, 30], "int32")
    agrees(text, *((small("uint8", n, 2, h, w), weight, bias) for n, h, w in ((1, 3, 4), (2, 5, 3))))


def test_products_of_bytes_are_rounded_as_onnxruntime_rounds_them(agrees):
    """All products of two bytes, of which some are almost half way between two numbers of the result."""
    weights = ", ".join(map(str, range(-127, 128)))
    text = f"""
    agraph (uint8[N, 1, 1, 256] x) => (uint8[N, 255, 1, 256] y)
    <float s = {{0.3}}, uint8 z = {{128}}, int8[255, 1, 1, 1] w = {{{weights}}}, float t = {{0.7}}, int8 u = {{0}},
     float v = {{50.0}}, uint8 q = {{128}}> {{
      y = QLinearConv (x, s, z, w, t, u, v, q) }}"""
    agrees(text, np.arange(256, dtype="uint8").reshape(1, 1, 1, 256))


@pytest.mark.parametrize("bias", [30, 2**23])
@pytest.mark.parametrize("zero", [0, 120])
def test_quantised_depthwise_convolution(agrees, imported, zero, bias):
    """Sums and biases are float32, unless a bias is too large; other convolutions add one number for each channel.

    Weights have 7 bits: without VNNI, ONNX Runtime's sum of two products of bytes saturates at 16 bits.
    """
    text = f"""
    agraph (uint8[N, 2, H, W] x) => (uint8[N, 2, H, W] y, uint8[N, 1, H, W] z)
    <int8[2, 1, 1, 3] w = {{1, -2, 63, 4, -64, 6}}, int8[1, 2, 1, 3] k = {{1, -2, 63, 4, -64, 6}},
     int32[2] b = {{10, {bias}}}, int32[1] c = {{-30}}, float s = {{0.02}}, uint8 p = {{{zero}}}, float[2] t = {{0.01, 0.02}},
     int8[2] u = {{0, 0}}, float r = {{0.03}}, int8 o = {{0}}, float v = {{0.1}}, uint8 q = {{5}}> {{
      y = QLinearConv <pads = [0, 1, 0, 1], group = 2> (x, s, p, w, t, u, v, q, b)
      z = QLinearConv <pads = [0, 1, 0, 1]> (x, s, p, k, r, o, v, q, c) }}"""
    agrees(text, *(small("uint8", n, 2, h, w) for n, h, w in ((1, 3, 4), (2, 5, 3), (0, 3, 3), (3, 16, 17))))
    script = imported(text).script()
    narrowed = [line for line in script.splitlines() if "R.astype(" in line and line.endswith('dtype="int32")')]
    assert script.count("R.add(") == 2
    assert len(narrowed) == (bias >= 2**23)


def test_products_with_known_weights_read_bytes(agrees, imported):
    """Zero points are taken out of the sums; weights without theirs are int8."""
    text = """
    agraph (uint8[M, 4] a, uint8 az) => (int32[M, 3] y, int32[M, 3] z)
    <uint8[4, 3] w = {130, 2, 255, 128, 7, 140, 90, 128, 129, 200, 66, 3}, uint8[3] bz = {128, 100, 130},
     uint8 p = {9}> {
      y = MatMulInteger (a, w, az, bz)
      z = MatMulInteger (a, w, p, bz) }"""
    agrees(text, *((small("uint8", m, 4), small("uint8")) for m in (1, 5)))
    script = imported(text).script()
    assert script.count("R.matmul(") == 2
    assert 'R.astype(a, dtype="int32")' not in script


def test_convolutions_with_known_weights_read_bytes(agrees):
    """The data are padded with their zero point."""
    text = """
    agraph (uint8[N, 1, H, W] x) => (int32[N, 2, H, W] y, int32[N, 2, H, W] z)
    <int8[2, 1, 3, 3] w = {1, -2, 3, 4, -5, 6, 7, 8, 9, -128, 127, 3, 4, 5, 6, 7, 8, 9}, uint8 p = {120}> {
      y = ConvInteger <pads = [1, 1, 1, 1]> (x, w, p)
      z = ConvInteger <auto_pad = "SAME_UPPER"> (x, w) }"""
    agrees(text, *(small("uint8", n, 1, h, w) for n, h, w in ((1, 3, 4), (2, 5, 3))))


def test_depthwise_convolutions_of_bytes_are_added_up_in_float32(agrees, imported):
    """Of few products float32 has every sum: those of the largest bytes too."""
    text = """
    agraph (uint8[N, 2, H, W] x) => (int32[N, 4, H, W] y, int32[N, 4, P, Q] z)
    <int8[4, 1, 3, 3] w = {1, -2, 3, 4, -5, 6, 7, 8, 9, -128, 127, 3, 4, 5, 6, 7, 8, 9, -128, -128, -128, -128, -128,
     -128, -128, -128, -128, 127, 127, 127, 127, 127, 127, 127, 127, 127}, uint8 p = {120}, uint8 o = {0}> {
      y = ConvInteger <pads = [1, 1, 1, 1], group = 2> (x, w, p)
      z = ConvInteger <strides = [2, 2], group = 2> (x, w, o) }"""
    extreme = np.full((1, 2, 4, 5), 255, "uint8")
    agrees(text, *(small("uint8", n, 2, h, w) for n, h, w in ((1, 3, 4), (2, 5, 3), (0, 3, 3))), extreme)
    script = imported(text).script()
    assert script.count('R.astype(x, dtype="float32")') == 2
    assert 'out_dtype="int32"' not in script


def test_other_grouped_convolutions_of_bytes_stay_integers(agrees, imported):
    """Groups of many channels add up more products than float32 has the sums of."""
    numbers = ", ".join(str(int(n)) for n in rng.integers(-128, 128, 4 * 8 * 9))
    text = f"""
    agraph (uint8[N, 16, H, W] x) => (int32[N, 4, H, W] y)
    <int8[4, 8, 3, 3] w = {{{numbers}}}, uint8 p = {{120}}> {{
      y = ConvInteger <pads = [1, 1, 1, 1], group = 2> (x, w, p) }}"""
    agrees(text, small("uint8", 1, 16, 3, 4), small("uint8", 2, 16, 1, 1))
    assert 'out_dtype="int32"' in imported(text).script()


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int16"])
def test_quantize_and_back_of_com_microsoft(agrees, dtype: str):
    """ONNX Runtime's tools write them for bytes, and for 16 bits before opset 21 has these."""
    text = f"""
    agraph (float[N, 4] x) => ({dtype}[N, 4] q, float[N, 4] y, {dtype}[N, 4] c, float[N, 4] d)
    <float s = {{0.05}}, {dtype} z = {{3}}, float[4] ss = {{0.1, 0.2, 0.3, 0.4}}, {dtype}[4] zz = {{0, 1, 2, 3}}> {{
      q = com.microsoft.QuantizeLinear (x, s, z)
      y = com.microsoft.DequantizeLinear (q, s, z)
      c = com.microsoft.QuantizeLinear <axis = 1> (x, ss, zz)
      d = com.microsoft.DequantizeLinear <axis = 1> (c, ss, zz) }}"""
    extremes = np.array([[np.inf, -np.inf, 0.075, -0.025]], "float32")
    agrees(text, floats(1, 4), floats(5, 4), floats(0, 4), extremes)


def test_products_between_quantizers_of_com_microsoft_read_bytes(agrees):
    text = """
    agraph (float[N, 3] x) => (float[N, 2] y)
    <float s = {0.5}, uint8 z = {3}, int8[3, 2] w = {3, -100, -1, 27, 5, 9}, float t = {0.25}, int8 zero = {0}> {
      q = com.microsoft.QuantizeLinear (x, s, z)
      d = com.microsoft.DequantizeLinear (q, s, z)
      v = com.microsoft.DequantizeLinear (w, t, zero)
      y = MatMul (d, v) }"""
    mod = agrees(text, floats(1, 3), floats(4, 3), floats(0, 3))
    assert "int8" in relax.transform.FakeQuantizationToInteger()(mod)["main"].script().partition("matmul")[2]


@pytest.mark.parametrize("dtype", ["uint4", "int4"])
def test_dequantize_of_com_microsoft_with_4_bits(agrees, dtype: str):
    code = {"uint4": 21, "int4": 22}[dtype]
    text = f"""
    agraph (int8[N, 3] x) => (float[N, 3] y)
    <float[3] s = {{0.1, 0.2, 0.3}}, int8[3] p = {{0, 1, 2}}> {{
      q = Cast <to = {code}> (x)
      z = Cast <to = {code}> (p)
      y = com.microsoft.DequantizeLinear <axis = 1> (q, s, z) }}"""
    agrees(text, np.array([[0, 1, 7], [2, 3, 5]], "int8"), np.empty((0, 3), "int8"), opset=21)
