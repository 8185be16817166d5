"""Quantisation: QDQ, operators on quantised tensors, integer products."""

from __future__ import annotations

import numpy as np
import onnxruntime as ort
import pytest
from models.graph import Graph

import relax
from relax.frontend.onnx import from_onnx

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


LIMITS = {"int4": (-8, 7), "uint4": (0, 15), "int8": (-128, 127), "uint8": (0, 255)}


def block_weights(dtype: str, shape: tuple[int, ...], axis: int, block: int, zeros: bool, out: str = "float32"):
    """Arrays of quantised weights, scales, and zero points or None."""
    sizes = [size // block if d == axis else size for d, size in enumerate(shape)]
    numbers, points = (
        rng.integers(*LIMITS[dtype], size, endpoint=True).astype(relax.DataType(dtype).numpy())
        for size in (shape, sizes)
    )
    return numbers, (rng.random(sizes) / 10).astype(out), points if zeros else None


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("dtype", LIMITS)
@pytest.mark.parametrize(("axis", "block"), [(0, 32), (1, 32), (0, 16), (1, 64)])
def test_weights_with_a_scale_for_each_block(dtype, axis, block, zeros):
    """Blocks of 32 numbers are constants of a block format, of which products read the integers; others are int8."""
    numbers, scales, points = block_weights(dtype, (64, 64), axis, block, zeros)
    g = Graph("blocks", opset=21)
    x = g.input("x", "float32", "m", 64)
    parts = [g.parameter(scales), g.parameter(points) if zeros else None]
    y = g.MatMul(x, g.DequantizeLinear(g.parameter(numbers), *parts, axis=axis, block_size=block))
    model = g.model(y=(y, "float32", "m", 64))
    mod = from_onnx(model)
    assert ("R.dequantize_blocks(" in mod.script()) == (block % 32 == 0)
    vm = relax.VirtualMachine(relax.build(mod, "llvm -opt-level=1"), relax.cpu())
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL  # it would round the data to bytes
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    for rows in (1, 5):
        data = floats(rows, 64)
        np.testing.assert_allclose(
            vm["main"](relax.nd.array(data)).numpy(), session.run(None, {"x": data})[0], 1e-4, 1e-3
        )


@pytest.mark.parametrize(
    ("dtype", "zeros", "narrow"), [("int4", False, "int4"), ("uint4", True, "uint4"), ("int8", False, "int8")]
)
@pytest.mark.parametrize("block", [16, 32, 0])
def test_products_read_weights_of_blocks_as_integers(dtype, zeros, narrow, block):
    """No tensor of floats is made of many weights: of blocks along the depth, or (0) with a scale for each column."""
    numbers, scales, points = block_weights(dtype, (1024, 300), 0, block or 1024, zeros)
    g = Graph("blocks", opset=21)
    x = g.input("x", "float32", "m", 1024)
    parts = [scales, points] if block else [scales[0], points[0] if zeros else None]
    given = [None if part is None else g.parameter(part) for part in parts]
    w = g.DequantizeLinear(g.parameter(numbers), *given, axis=0 if block else 1, block_size=block or None)
    mod = from_onnx(g.model(y=(g.MatMul(x, w), "float32", "m", 300)))
    found = relax.transform.DequantizeInProducts()(mod).script(show_meta=True)
    assert f'"{narrow}"' in found
    assert "R.matmul(" not in found
    data = floats(3, 1024)
    result = relax.VirtualMachine(relax.build(mod, "llvm"), relax.cpu())["main"](relax.nd.array(data)).numpy()
    each = block or 1024
    wide = numbers.astype("float64") - (0 if points is None else points.astype("float64").repeat(each, 0))
    np.testing.assert_allclose(
        result, data.astype("float64") @ (wide * scales.astype("float64").repeat(each, 0)), 1e-3, 1e-2
    )


@pytest.mark.parametrize("out", ["float32", "float16"])
@pytest.mark.parametrize(("shape", "axis"), [((3, 64, 2), 1), ((64, 3), 0), ((2, 3, 32), 2), ((2, 40), 1)])
def test_blocks_along_any_axis_are_dequantised_exactly(shape, axis, out):
    """Constants of any rank; (2, 40) has a last block of 8."""
    numbers, scales, points = block_weights("int8", shape, axis, 32 if shape != (2, 40) else 40, True, out)
    if shape == (2, 40):
        scales, points = (np.repeat(part, 2, 1) for part in (scales, points))
    g = Graph("blocks", opset=21)
    x = g.input("x", out, *shape)
    w = g.DequantizeLinear(g.parameter(numbers), g.parameter(scales), g.parameter(points), axis=axis, block_size=32)
    mod = from_onnx(g.model(y=(g.Mul(x, w), out, *shape)))
    found = relax.VirtualMachine(relax.build(mod, "llvm -opt-level=1"), relax.cpu())["main"](
        relax.nd.array(np.ones(shape, out))
    )
    spread = [part.astype("float32").repeat(32, axis).take(range(shape[axis]), axis) for part in (points, scales)]
    np.testing.assert_array_equal(found.numpy(), ((numbers.astype("float32") - spread[0]) * spread[1]).astype(out))


def test_dynamic_quantisation_of_constants_is_computed_at_import(agrees, imported):
    """Tools write it for weights that are Constant nodes: convolutions then multiply int8."""
    weights = rng.standard_normal((4, 2, 3, 3)).astype("float32")
    text = f"""
    agraph (uint8[N, 2, H, W] x, uint8 p) => (int32[N, 4, H, W] y, float s, uint8 z)
    <float[4, 2, 3, 3] w = {{{", ".join(map(str, weights.ravel()))}}}> {{
      v, s, z = DynamicQuantizeLinear (w)
      y = ConvInteger <pads = [1, 1, 1, 1]> (x, v, p, z) }}"""
    agrees(text, *((small("uint8", n, 2, h, w) // 2, np.array(9, "uint8")) for n, h, w in ((1, 3, 4), (2, 5, 3))))
    script = imported(text).script()
    assert "R.quantize(" not in script
    assert 'out_dtype="int32"' in script


@pytest.mark.parametrize(
    "numbers",
    [[np.nan, 1, 3, -4], [np.inf, -1, 0, 2], [-np.inf, 2, 0, 1], [1e-40, 0, 0, 0], [0, 0, 0, 0], [5, 6, 7, 8]],
)
def test_constants_are_quantised_as_the_program_quantises_them(imported, numbers):
    values = np.array(numbers, "float32")
    node = "{ q, s, z = DynamicQuantizeLinear (x) }"
    results = "(uint8[4] q, float s, uint8 z)"
    g = Graph("constant", opset=18)
    parts = g.DynamicQuantizeLinear(g.parameter(values), outputs=3)
    constant = from_onnx(g.model(q=(parts[0], "uint8", 4), s=(parts[1], "float32"), z=(parts[2], "uint8")))
    program = imported(f"agraph (float[4] x) => {results} {node}")
    found, expected = (
        relax.VirtualMachine(relax.build(mod, "llvm -opt-level=1"), relax.cpu())["main"](*inputs)
        for mod, inputs in ((constant, ()), (program, (relax.nd.array(values),)))
    )
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one.numpy(), other.numpy())


@pytest.mark.parametrize("zero", [0, 90])
@pytest.mark.parametrize("operator", ["MatMulIntegerToFloat", "DynamicQuantizeMatMul"])
def test_products_that_are_scaled(agrees, imported, operator, zero):
    """Scales, zero points and biases for each column; the data are rounded by the node, or have been."""
    # Of 7 bits: without VNNI, ONNX Runtime's sum of two products of bytes saturates at 16 bits.
    weights = ", ".join(map(str, rng.integers(0, 64, 18)))
    fixed = f"uint8[6, 3] w = {{{weights}}}, float[3] t = {{0.1, 0.2, 0.3}}, uint8[3] u = {{{zero}, {zero}, {zero}}}"
    if operator == "DynamicQuantizeMatMul":
        header = "agraph (float[B, M, 6] x, float[3] b) => (float[B, M, 3] y)"
        call, data = "(x, w, t, u, b)", floats
    else:
        header = "agraph (uint8[B, M, 6] x, float s, uint8 z, float[3] b) => (float[B, M, 3] y)"
        call, data = (
            "(x, w, s, t, z, u, b)",
            lambda *shape: (small("uint8", *shape), np.array(0.02, "float32"), np.array(7, "uint8")),
        )
    text = f"{header} <{fixed}> {{ y = com.microsoft.{operator} {call} }}"

    def inputs(*shape):
        own = data(*shape)
        return (*(own if isinstance(own, tuple) else (own,)), floats(3))

    agrees(text, inputs(1, 1, 6), inputs(2, 5, 6), inputs(3, 4, 6))
    assert 'out_dtype="int32"' in imported(text).script()
