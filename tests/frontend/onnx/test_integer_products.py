"""Products and convolutions of integers, with zero points that are constants or known at run time."""

from __future__ import annotations

import re

import numpy as np
import pytest

import relax

rng = np.random.default_rng(7)


def floats(*shape: int) -> np.ndarray:
    return (rng.standard_normal(shape) * 3).astype("float32")


def small(dtype: str, *shape: int) -> np.ndarray:
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max, shape, endpoint=True).astype(dtype)


def listed(array: np.ndarray) -> str:
    """The elements, as ONNX's text form has them."""
    return ", ".join(str(number) for number in array.ravel().tolist())


def test_integer_products(agrees):
    text = """
    agraph (uint8[M, K] a, int8[K, 3] b, uint8 az, int8[3] bz) => (int32[M, 3] y) {
      y = MatMulInteger (a, b, az, bz) }"""
    zero, zeros = np.array(7, "uint8"), np.array([1, -2, 0], "int8")
    agrees(text, *((small("uint8", m, k), small("int8", k, 3), zero, zeros) for m, k in ((1, 2), (4, 5))))


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


@pytest.mark.parametrize("zero", [128, 60, 200])
def test_products_with_zero_points_known_at_run_time_read_bytes(agrees, zero):
    """Weights that int8 does not hold without their zero point are split into int8 and one number per column."""
    weights = small("uint8", 6, 3)
    weights[0] = [0, 255, 9]
    text = f"""
    agraph (uint8[B, M, 6] a, uint8 az) => (int32[B, M, 3] y)
    <uint8[6, 3] w = {{{listed(weights)}}}, uint8 wz = {{{zero}}}> {{ y = MatMulInteger (a, w, az, wz) }}"""
    calls = [(small("uint8", b, m, 6), np.array(az, "uint8")) for b, m, az in ((1, 1, 0), (2, 5, 255), (0, 1, 3))]
    mod = agrees(text, *calls)
    assert 'out_dtype="int32"' in mod.script()


def test_rows_with_zero_points_of_their_own(imported):
    """Each row of the data has a zero point; the weights are split into int8 and one number per column."""
    text = f"""
    agraph (uint8[3, 4] a, uint8[3, 1] az) => (int32[3, 2] y)
    <uint8[4, 2] w = {{{listed(small("uint8", 4, 2))}}}, uint8[2] wz = {{3, 250}}> {{ y = MatMulInteger (a, w, az, wz) }}"""
    model = imported(text)
    a, az = small("uint8", 3, 4), small("uint8", 3, 1)
    vm = relax.VirtualMachine(relax.build(model, "llvm -opt-level=1"), relax.cpu())
    found = vm["main"](relax.nd.array(a), relax.nd.array(az)).numpy()
    w = np.array(text.split("w = {")[1].split("}")[0].split(","), "int64").reshape(4, 2)
    np.testing.assert_array_equal(found, (a.astype("int64") - az) @ (w - [3, 250]))


NUMBERS = re.compile(r"(\w+) = \[([^]]*)\]")
ATTRIBUTES = {
    "padded": "pads = [1, 1, 1, 1]",
    "uneven": "pads = [0, 1, 2, 0]",
    "strided": "pads = [1, 1, 1, 1], strides = [2, 2]",
    "dilated": "pads = [2, 2, 2, 2], dilations = [2, 2]",
    "same": 'auto_pad = "SAME_UPPER", strides = [2, 2]',
    "valid": 'auto_pad = "VALID"',
}


def convolved(x: np.ndarray, w: np.ndarray, attributes: str) -> np.ndarray:
    """Convolution of wide integers by NumPy, with the attributes of ONNX; `x` has no zero point."""
    values = {key: [int(n) for n in numbers.split(",")] for key, numbers in NUMBERS.findall(attributes)}
    strides, dilations = values.get("strides", [1, 1]), values.get("dilations", [1, 1])
    spans = [(size - 1) * step + 1 for size, step in zip(w.shape[2:], dilations)]
    pads = values.get("pads", [0, 0, 0, 0])
    if "SAME" in attributes:
        totals = [
            max((-(-size // step) - 1) * step + span - size, 0) for size, step, span in zip(x.shape[2:], strides, spans)
        ]
        pads = [total // 2 for total in totals] + [total - total // 2 for total in totals]
    x = np.pad(x, [(0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])])
    windows = np.lib.stride_tricks.sliding_window_view(x, spans, axis=(2, 3))
    windows = windows[:, :, :: strides[0], :: strides[1], :: dilations[0], :: dilations[1]]
    groups = x.shape[1] // w.shape[1]
    parts = zip(np.split(windows, groups, axis=1), np.split(w, groups), strict=True)
    return np.concatenate([np.einsum("nchwij,ocij->nohw", data, weights) for data, weights in parts], axis=1)


@pytest.mark.parametrize("zero", [0, 128, 60])
@pytest.mark.parametrize("kind", ATTRIBUTES)
def test_convolutions_with_zero_points_known_at_run_time_read_bytes(imported, kind, zero):
    """Data are padded with their zero point. Weights that int8 does not hold have one number per channel besides."""
    attributes = ATTRIBUTES[kind]
    dtype = "uint8" if zero else "int8"
    weights = small(dtype, 5, 4, 3, 3)
    text = f"""
    agraph (uint8[N, 4, H, W] x, uint8 p) => (int32[N, 5, P, Q] y)
    <{dtype}[5, 4, 3, 3] w = {{{listed(weights)}}}, {dtype} z = {{{zero}}}> {{
      y = ConvInteger <{attributes}> (x, w, p, z) }}"""
    mod = imported(text)
    script = mod.script()
    assert 'out_dtype="int32"' in script
    assert ('R.astype(x, dtype="int32")' in script) == (zero == 60)
    vm = relax.VirtualMachine(relax.build(mod, "llvm -opt-level=1"), relax.cpu())
    for n, h, w, p in ((1, 3, 4, 0), (2, 5, 6, 255), (1, 7, 5, 9)):
        x = small("uint8", n, 4, h, w)
        found = vm["main"](relax.nd.array(x), relax.nd.array(np.array(p, "uint8"))).numpy()
        expected = convolved(x.astype("int64") - p, weights.astype("int64") - zero, attributes)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("inputs", "zero"), [(1, 0), (1, 77), (6, 0), (6, 77), (40, 77)])
def test_grouped_convolutions_with_zero_points_known_at_run_time(imported, inputs, zero):
    """Few products per group are summed in float32; many with weights that int8 does not hold, in int32."""
    dtype = "uint8" if zero else "int8"
    weights = small(dtype, 4, inputs, 3, 3)
    text = f"""
    agraph (uint8[N, {2 * inputs}, H, W] x, uint8[1] p) => (int32[N, 4, H, W] y)
    <{dtype}[4, {inputs}, 3, 3] w = {{{listed(weights)}}}, {dtype} z = {{{zero}}}> {{
      y = ConvInteger <pads = [1, 1, 1, 1], group = 2> (x, w, p, z) }}"""
    mod = imported(text)
    assert ('R.astype(x, dtype="float32")' in mod.script()) == (inputs == 1 or (inputs, zero) == (6, 77))
    vm = relax.VirtualMachine(relax.build(mod, "llvm -opt-level=1"), relax.cpu())
    for n, h, w, p in ((1, 3, 4, 0), (2, 5, 6, 255)):
        x = np.full((n, 2 * inputs, h, w), 255, "uint8") if p == 0 else small("uint8", n, 2 * inputs, h, w)
        found = vm["main"](relax.nd.array(x), relax.nd.array(np.array([p], "uint8"))).numpy()
        expected = convolved(x.astype("int64") - p, weights.astype("int64") - zero, "pads = [1, 1, 1, 1]")
        np.testing.assert_array_equal(found, expected)


def test_signed_data_with_a_zero_point_known_at_run_time(imported):
    """Padding wraps around in int8 as it does in uint8."""
    weights = small("int8", 5, 4, 3, 3)
    text = f"""
    agraph (int8[N, 4, H, W] x, int8 p) => (int32[N, 5, P, Q] y)
    <int8[5, 4, 3, 3] w = {{{listed(weights)}}}> {{ y = ConvInteger <pads = [1, 1, 1, 1]> (x, w, p) }}"""
    vm = relax.VirtualMachine(relax.build(imported(text), "llvm -opt-level=1"), relax.cpu())
    for p in (-128, 127, 5):
        x = small("int8", 2, 4, 5, 6)
        found = vm["main"](relax.nd.array(x), relax.nd.array(np.array(p, "int8"))).numpy()
        expected = convolved(x.astype("int64") - p, weights.astype("int64"), "pads = [1, 1, 1, 1]")
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_a_convolution_quantised_while_it_runs(agrees, dtype):
    """The form that `onnxruntime.quantization.quantize_dynamic` writes."""
    # Of 7 bits: without VNNI, ONNX Runtime's sum of two products of bytes saturates at 16 bits.
    weights = rng.integers(0, 64, (8, 4, 3, 3))
    text = f"""
    agraph (float[N, 4, H, W] x, float[8] b) => (float[N, 8, H, W] y)
    <{dtype}[8, 4, 3, 3] w = {{{listed(weights)}}}, {dtype} z = {{31}}, float t = {{0.01}}, int64[4] shape = {{1, -1, 1, 1}}> {{
      q, s, p = DynamicQuantizeLinear (x)
      i = ConvInteger <pads = [1, 1, 1, 1]> (q, w, p, z)
      f = Cast <to = 1> (i)
      u = Mul (s, t)
      v = Mul (f, u)
      c = Reshape (b, shape)
      y = Add (v, c) }}"""
    calls = [(floats(n, 4, h, w), floats(8)) for n, h, w in ((1, 3, 4), (2, 16, 17))]
    agrees(text, *calls, (np.abs(floats(1, 4, 5, 5)) + 1, floats(8)), (np.zeros((1, 4, 2, 2), "float32"), floats(8)))
