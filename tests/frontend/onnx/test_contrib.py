"""Operators of com.microsoft: fused ones, normalisations, attention with its caches; compared with ONNX Runtime."""

from __future__ import annotations

import re

import numpy as np
import onnxruntime as ort
import pytest
from models.graph import Graph

import relax
from relax.frontend.onnx import from_onnx

MS = "com.microsoft"


def r(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng((seed, *shape)).standard_normal(shape).astype("float32")


def equal(model, *calls: dict[str, np.ndarray], rtol: float = 1e-4, atol: float = 1e-5) -> relax.IRModule:
    """Import and build once, compare each call with ONNX Runtime."""
    mod = from_onnx(model)
    vm = relax.VirtualMachine(relax.build(mod, "llvm"), relax.cpu())
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for arrays in calls:
        result = vm["main"](*(relax.nd.array(arrays[item.name]) for item in model.graph.input))
        results = [result] if len(model.graph.output) == 1 else list(result)
        for output, actual, expected in zip(model.graph.output, results, session.run(None, arrays)):
            assert actual.numpy().shape == expected.shape, output.name
            np.testing.assert_allclose(actual.numpy(), expected, rtol, atol, err_msg=output.name)
    return mod


# ------------------------------------------------------------------------------------- fused operators


def test_activations(agrees):
    agrees(
        """
    agraph (float[N, 8] x, float[8] b) => (float[N, 8] y) {
      a = com.microsoft.BiasGelu(x, b)
      c = com.microsoft.FastGelu(a, b)
      d = com.microsoft.QuickGelu<alpha = 1.5>(c)
      y = com.microsoft.Gelu(d)
    }""",
        *((r(n, 8), r(8)) for n in (0, 1, 5)),
        atol=1e-5,
    )


def test_products(agrees):
    agrees(
        """
    agraph (float[N, 3, 4] a, float[N, 3, 5] b, float[4, 2] w, float[2] c) => (float[N, 4, 5] y, float[M, 2] z) {
      y = com.microsoft.FusedMatMul<alpha = 0.5, transA = 1>(a, b)
      rows = Constant<value_ints = [-1, 4]>()
      flat = Reshape(a, rows)
      z = com.microsoft.FusedGemm<activation = "LeakyRelu", activation_alpha = 0.2>(flat, w, c)
    }""",
        *((r(n, 3, 4), r(n, 3, 5), r(4, 2), r(2)) for n in (1, 4)),
    )


def test_product_of_matrices_that_are_not_in_front(agrees):
    agrees(
        """
    agraph (float[3, N, 4] a, float[N, 4, 5] b) => (float[N, 3, 5] y) {
      y = com.microsoft.FusedMatMul<transBatchA = 1>(a, b)
    }""",
        *((r(3, n, 4), r(n, 4, 5)) for n in (1, 4)),
    )


def test_convolution_with_sum_and_activation(agrees):
    agrees(
        """
    agraph (float[N, 3, H, H] x, float[4, 3, 3, 3] w, float[4] b, float[N, 4, H, H] z) => (float[N, 4, H, H] y) {
      y = com.microsoft.FusedConv<activation = "Relu", kernel_shape = [3, 3], pads = [1, 1, 1, 1]>(x, w, b, z)
    }""",
        *((r(n, 3, h, h), r(4, 3, 3, 3), r(4), r(n, 4, h, h)) for n, h in ((1, 1), (2, 5))),
        atol=1e-5,
    )


def test_skip_normalisations(agrees):
    agrees(
        """
    agraph (float[B, S, 8] x, float[B, S, 8] s, float[8] g, float[8] b) =>
        (float[B, S, 8] y, float[B, S, 8] t, float[B, S, 8] z) {
      y, m, v, t = com.microsoft.SkipLayerNormalization<epsilon = 1e-5>(x, s, g, b, b)
      z = com.microsoft.SkipSimplifiedLayerNormalization<epsilon = 1e-5>(y, t, g)
    }""".replace("y, m, v, t", "y, , , t"),
        *((r(b, s, 8), r(b, s, 8, seed=1), r(8), r(8, seed=1)) for b, s in ((1, 1), (2, 3))),
        atol=1e-5,
    )


def test_embeddings():
    g = Graph("embed")
    ids, segments, mask = (g.input(name, "int32", "b", "s") for name in ("ids", "segments", "mask"))
    tables = [g.weight(n, 8, scale=1.0) for n in (20, 10, 2)]
    y, counts = g.EmbedLayerNormalization(ids, segments, *tables, g.weight(8), g.weight(8), mask, outputs=2, domain=MS)
    model = g.model(y=(y, "float32", "b", "s", 8), counts=(counts, "int32", "b"))
    equal(
        model,
        *(
            {
                "ids": np.arange(b * s, dtype="int32").reshape(b, s) % 20,
                "segments": np.arange(b * s, dtype="int32").reshape(b, s) % 2,
                "mask": (np.arange(b * s, dtype="int32").reshape(b, s) % 3 > 0).astype("int32"),
            }
            for b, s in ((1, 1), (3, 7))
        ),
    )


@pytest.mark.parametrize("is_narrow", [True, False])
@pytest.mark.parametrize("transposed", [0, 1])
def test_quantised_gemm(agrees, transposed: int, is_narrow: bool):
    """The last layer of a classifier that ONNX Runtime has quantised; without a scale the result is float32.

    Weights have seven bits, as those of `quantised_lstm`.
    """
    weights = "int8[3, 4]" if transposed else "int8[4, 3]"
    result, behind = ("uint8", ", v, q") if is_narrow else ("float", "")
    text = f"""
    agraph (uint8[M, 4] a, {weights} b, int32[3] c) => ({result}[M, 3] y)
    <float s = {{0.02}}, uint8 z = {{120}}, float[3] t = {{0.01, 0.02, 0.03}}, int8[3] u = {{0, 0, 0}},
     float v = {{0.1}}, uint8 q = {{100}}> {{
      y = com.microsoft.QGemm<alpha = 0.5, transB = {transposed}>(a, s, z, b, t, u, c{behind})
    }}"""
    generator = np.random.default_rng(0)
    weight = generator.integers(-64, 64, (3, 4) if transposed else (4, 3)).astype("int8")
    bias = np.array([100, -2000, 30], "int32")
    agrees(text, *((generator.integers(0, 256, (m, 4)).astype("uint8"), weight, bias) for m in (1, 5)))


def quantised_lstm(g: Graph, x: str, sizes: tuple[int, int], dtype: str, zero: int, by_row: bool, directions: int = 2):
    """DynamicQuantizeLSTM of random weights: the node's output, and LSTM by the same weights as floats.

    Signed weights have seven bits: ONNX Runtime's sums of others overflow on processors without VNNI.
    """
    low, high = {"int8": (-64, 64), "uint8": (0, 256)}[dtype]
    hidden = sizes[1]
    weights = [g.random.integers(low, high, (directions, k, 4 * hidden), dtype) for k in sizes]
    count = (directions, 4 * hidden) if by_row else (directions,)
    scales = [g.random.uniform(0.002, 0.004, count).astype("float32") for _ in weights]
    zeros = [np.full(count, zero, dtype) for _ in weights]
    bias = g.weight(directions, 8 * hidden)
    parts = [g.parameter(part) for pair in zip(scales, zeros, strict=True) for part in pair]
    options = {"hidden_size": hidden, "direction": "bidirectional" if directions == 2 else "forward"}
    narrow = g.DynamicQuantizeLSTM(
        x, *map(g.parameter, weights), bias, None, None, None, None, *parts, domain=MS, **options
    )
    floats = [
        np.transpose((w.astype("int32") - zero).astype("float32") * s.reshape(directions, 1, -1), (0, 2, 1))
        for w, s in zip(weights, scales, strict=True)
    ]
    return narrow, g.LSTM(x, *(g.parameter(np.ascontiguousarray(w)) for w in floats), bias, **options)


@pytest.mark.parametrize("by_row", [False, True])
@pytest.mark.parametrize(("dtype", "zero"), [("int8", 0), ("uint8", 120)])
def test_lstm_with_quantised_weights(dtype, zero, by_row):
    """ONNX Runtime rounds the activations as well, so its results are near; those by the weights as floats are equal."""
    g = Graph("lstm")
    x = g.input("x", "float32", "s", "b", 40)
    y, z = quantised_lstm(g, x, (40, 30), dtype, zero, by_row)
    model = g.model(y=(y, "float32", "s", 2, "b", 30), z=(z, "float32", "s", 2, "b", 30))
    calls = [{"x": r(s, b, 40)} for s, b in ((1, 1), (5, 3), (2, 9))]
    mod = equal(model, *calls, rtol=0.1, atol=0.1)
    vm = relax.VirtualMachine(relax.build(mod, "llvm"), relax.cpu())
    for call in calls:
        narrow, floats = (result.numpy() for result in vm["main"](relax.nd.array(call["x"])))
        np.testing.assert_allclose(narrow, floats, 1e-4, 1e-5)


@pytest.mark.parametrize(("dtype", "zero"), [("int8", 0), ("uint8", 120)])
def test_quantised_weights_of_an_lstm_take_a_byte_each(dtype, zero):
    g = Graph("lstm")
    x = g.input("x", "float32", "s", "b", 256)
    y, _ = quantised_lstm(g, x, (256, 256), dtype, zero, by_row=False, directions=1)
    held = relax.build(from_onnx(g.model(y=(y, "float32", "s", 1, "b", 256))), "llvm").constants
    arrays = [np.from_dlpack(constant) for constant in held if hasattr(constant, "__dlpack__")]
    assert sum(array.nbytes for array in arrays if array.dtype == dtype) == 2 * 256 * 1024
    assert sum(array.nbytes for array in arrays if array.dtype != dtype) < 16 * 1024


@pytest.mark.parametrize("axis", [None, 1])
@pytest.mark.parametrize(("layer", "gates"), [("LSTM", 4), ("GRU", 3)])
def test_dequantised_weights_of_recurrent_layers_stay_narrow(layer, gates, axis, monkeypatch):
    """Two layers, as in a QDQ model; small ones, which would become floats."""
    monkeypatch.setattr("relax.transform.dequantize_in_products.FEW_BYTES", 0)
    g, hidden, rows = Graph("qdq"), 30, gates * 30
    y = x = g.input("x", "float32", "s", "b", 40)
    for size in (40, hidden):
        weights = []
        for k in (size, hidden):
            numbers = g.random.integers(-128, 128, (1, rows, k)).astype("int8")
            scale = g.random.uniform(0.002, 0.004, () if axis is None else (rows,)).astype("float32")
            parts = map(g.parameter, (numbers, scale, np.zeros(scale.shape, "int8")))
            weights.append(g.DequantizeLinear(*parts, axis=axis))
        y = g.Squeeze(getattr(g, layer)(y, *weights, g.weight(1, 2 * rows), hidden_size=hidden), [1])
    model = g.model(y=(y, "float32", "s", "b", hidden))
    mod = equal(model, *({"x": r(s, b, 40)} for s, b in ((1, 1), (5, 3), (2, 9))), rtol=1e-3, atol=1e-4)
    assert x in mod["main"].script()
    assert "R.dequantize" not in relax.transform.DequantizeInProducts()(mod).script()


@pytest.mark.parametrize(
    ("scale", "weight", "message"),
    [
        ((1, 1, 1), (1, 4, 24), "a scale must have 1 or 2 dimensions, found 3"),
        ((1,), (4, 24), "a quantised weight must have 3 dimensions, found 2"),
        ((3,), (1, 4, 24), "reshape: the numbers of elements differ"),
        ((1, 23), (1, 4, 24), "dimension 1 of x is 23, which does not broadcast to 24"),
    ],
)
def test_quantised_weights_of_an_lstm_of_other_shapes(scale, weight, message):
    g = Graph("lstm")
    x = g.input("x", "float32", "s", "b", 4)
    weights = [g.parameter(np.zeros(shape, "int8")) for shape in (weight, (1, 6, 24))]
    parts = [g.parameter(np.zeros(scale, dtype)) for dtype in ("float32", "int8")] * 2
    y = g.DynamicQuantizeLSTM(x, *weights, None, None, None, None, None, *parts, domain=MS, hidden_size=6)
    with pytest.raises(relax.DiagnosticError, match=re.escape(message)) as raised:
        from_onnx(g.model(y=(y, "float32", "s", 1, "b", 6)))
    assert "com.microsoft.DynamicQuantizeLSTM" in str(raised.value)


# ------------------------------------------------------------------------------------- attention


def mask_of(b: int, t: int) -> np.ndarray:
    mask = np.ones((b, t), "int32")
    mask[0, (t + 1) // 2 :] = 0
    return mask


@pytest.mark.parametrize("one_way", [0, 1])
def test_attention_with_a_past(one_way):
    g = Graph("attention")
    x, mask = g.input("x", "float32", "b", "s", 8), g.input("mask", "int32", "b", "past + s")
    past = g.input("past", "float32", 2, "b", 2, "past", 4)
    y, present = g.Attention(
        x, g.weight(8, 24), g.weight(24), mask, past, outputs=2, domain=MS, num_heads=2, unidirectional=one_way
    )
    model = g.model(y=(y, "float32", "b", "s", 8), present=(present, "float32", 2, "b", 2, "past + s", 4))
    sizes = ((1, 1, 0), (2, 3, 4)) if one_way else ((2, 1, 5), (3, 4, 1))
    equal(model, *({"x": r(b, s, 8), "mask": mask_of(b, p + s), "past": r(2, b, 2, p, 4)} for b, s, p in sizes))


def test_lengths_as_a_mask():
    g = Graph("attention")
    x, lengths = g.input("x", "float32", "b", "s", 8), g.input("lengths", "int32", "b")
    y = g.Attention(x, g.weight(8, 24), g.weight(24), lengths, domain=MS, num_heads=2)
    equal(
        g.model(y=(y, "float32", "b", "s", 8)),
        *({"x": r(b, s, 8), "lengths": np.arange(b, dtype="int32") % s + 1} for b, s in ((1, 1), (3, 4))),
    )


def test_multi_head_attention():
    g = Graph("mha")
    q = g.input("q", "float32", "b", "s", 8)
    k, v = (g.input(name, "float32", "b", "t", 8) for name in "kv")
    mask, extra = g.input("mask", "int32", "b", "t"), g.input("extra", "float32", 1, 2, "s", "t")
    y = g.MultiHeadAttention(q, k, v, g.weight(24), mask, extra, domain=MS, num_heads=2)
    equal(
        g.model(y=(y, "float32", "b", "s", 8)),
        *(
            {
                "q": r(b, s, 8),
                "k": r(b, t, 8, seed=1),
                "v": r(b, t, 8, seed=2),
                "mask": mask_of(b, t),
                "extra": r(1, 2, s, t),
            }
            for b, s, t in ((1, 1, 1), (2, 3, 5))
        ),
    )


def test_multi_head_attention_with_a_cache():
    g = Graph("mha")
    q, k, v = (g.input(name, "float32", "b", "s", 8) for name in "qkv")
    pasts = [g.input(f"past_{name}", "float32", "b", 2, "past", 4) for name in "kv"]
    y, *present = g.MultiHeadAttention(
        q, k, v, None, None, None, *pasts, outputs=3, domain=MS, num_heads=2, unidirectional=1
    )
    shape = ("float32", "b", 2, "past + s", 4)
    model = g.model(y=(y, "float32", "b", "s", 8), key=(present[0], *shape), value=(present[1], *shape))
    equal(
        model,
        *(
            {name: r(b, s, 8, seed=i) for i, name in enumerate("qkv")}
            | {f"past_{name}": r(b, 2, p, 4, seed=i) for i, name in enumerate("kv")}
            for b, s, p in ((1, 1, 3), (2, 3, 2), (2, 2, 0))
        ),
    )


def test_packed_projections():
    """Heads packed as (batch, length, heads, 3, size), which ONNX Runtime only takes on GPUs, mean the same."""
    g = Graph("packed")
    qkv = g.input("qkv", "float32", "b", "s", 2, 3, 4)
    y = g.MultiHeadAttention(qkv, domain=MS, num_heads=2)
    kv = g.Slice(qkv, [1], [3], [3])
    q = g.Reshape(g.Slice(qkv, [0], [1], [3]), [0, 0, 8])
    z = g.MultiHeadAttention(q, kv, domain=MS, num_heads=2)
    k, v = (g.Transpose(g.Squeeze(g.Slice(qkv, [i], [i + 1], [3]), [3]), perm=[0, 2, 1, 3]) for i in (1, 2))
    separate = g.MultiHeadAttention(q, k, v, domain=MS, num_heads=2)  # keys and values with their heads second
    outputs = {name: (value, "float32", "b", "s", 8) for name, value in (("y", y), ("z", z), ("s", separate))}
    vm = relax.VirtualMachine(relax.build(from_onnx(g.model(**outputs)), "llvm"), relax.cpu())
    x = r(2, 3, 2, 3, 4)
    packed, halfway, expected = (item.numpy() for item in vm["main"](relax.nd.array(x)))
    scores = np.einsum("bihd,bjhd->bhij", x[:, :, :, 0], x[:, :, :, 1]) / 2
    weights = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    right = np.einsum("bhij,bjhd->bihd", weights, x[:, :, :, 2]).reshape(2, 3, 8)
    for actual in (packed, halfway, expected):
        np.testing.assert_allclose(actual, right, 1e-4, 1e-5)


@pytest.mark.parametrize("form", ["rows", "ends and begins"])
def test_other_masks(form):
    g = Graph("attention")
    x = g.input("x", "float32", "b", "s", 8)
    rows = form == "rows"
    mask = g.input("mask", "int32", "b", "s", "s") if rows else g.input("mask", "int32", "2 * b")
    y = g.Attention(x, g.weight(8, 24), g.weight(24), mask, domain=MS, num_heads=2)

    def masked(b: int, s: int) -> np.ndarray:
        if rows:
            return np.tril(np.ones((b, s, s), "int32"))
        return np.concatenate([np.full(b, s, "int32"), np.arange(b, dtype="int32") % s])

    shape = ("float32", "b", "s", 8)
    equal(g.model(y=(y, *shape)), *({"x": r(b, s, 8), "mask": masked(b, s)} for b, s in ((1, 1), (3, 4))))


@pytest.mark.parametrize("window", [-1, 3])
def test_group_query_attention(window):
    """Prompts, and single new words behind pasts of different lengths."""
    g = Graph("gqa")
    q, k, v = (g.input(name, "float32", "b", "s", heads * 16) for name, heads in (("q", 4), ("k", 2), ("v", 2)))
    pasts = [g.input(f"past_{name}", "float32", "b", 2, "past", 16) for name in "kv"]
    lengths, total = g.input("lengths", "int32", "b"), g.input("total", "int32", 1)
    angles = np.outer(np.arange(32), 0.5 ** np.arange(8)).astype("float32")
    y, *present = g.GroupQueryAttention(
        q,
        k,
        v,
        *pasts,
        lengths,
        total,
        g.parameter(np.cos(angles)),
        g.parameter(np.sin(angles)),
        outputs=3,
        domain=MS,
        num_heads=4,
        kv_num_heads=2,
        do_rotary=1,
        local_window_size=window,
    )
    shape = ("float32", "b", 2, "total_length", 16)
    model = g.model(y=(y, "float32", "b", "s", 64), key=(present[0], *shape), value=(present[1], *shape))

    def call(b: int, s: int, past: int, lengths: list[int]) -> dict[str, np.ndarray]:
        return {
            "q": r(b, s, 64),
            "k": r(b, s, 32, seed=1),
            "v": r(b, s, 32, seed=2),
            "past_k": r(b, 2, past, 16),
            "past_v": r(b, 2, past, 16, seed=1),
            "lengths": np.array(lengths, "int32") - 1,
            "total": np.array([max(lengths)], "int32"),
        }

    equal(model, call(2, 5, 0, [5, 5]), call(1, 1, 6, [7]), call(2, 1, 6, [7, 4]))


@pytest.mark.parametrize("interleaved", [0, 1])
def test_rotary_embedding(agrees, interleaved):
    angles = np.outer(np.arange(16), [1.0, 0.3]).astype("float32")
    agrees(
        f"""
    agraph (float[B, S, 8] x, int64[B, S] p, float[16, 2] c, float[16, 2] s) => (float[B, S, 8] y) {{
      y = com.microsoft.RotaryEmbedding<interleaved = {interleaved}>(x, p, c, s)
    }}""",
        *(
            (r(b, s, 8), np.arange(b * s).reshape(b, s) % 16, np.cos(angles), np.sin(angles))
            for b, s in ((1, 1), (3, 4))
        ),
    )


def test_rotary_embedding_of_a_part_of_each_head():
    """Heads second, positions as an offset, angles for half of a head."""
    g = Graph("rotary")
    x, first = g.input("x", "float32", "b", 2, "s", 8), g.input("first", "int64", 1)
    angles = np.outer(np.arange(16), [1.0, 0.3]).astype("float32")
    tables = g.parameter(np.cos(angles)), g.parameter(np.sin(angles))
    y = g.RotaryEmbedding(x, first, *tables, domain=MS, num_heads=2, rotary_embedding_dim=4)
    shape = ("float32", "b", 2, "s", 8)
    equal(g.model(y=(y, *shape)), *({"x": r(b, 2, s, 8), "first": np.array([b])} for b, s in ((1, 1), (3, 4))))


def test_sums_with_biases():
    """BiasAdd and BiasSoftmax, which ONNX Runtime only has on GPUs."""
    g = Graph("biases")
    x, bias = g.input("x", "float32", "b", 4, 3), g.input("bias", "float32", 3)
    y = g.BiasAdd(x, bias, x, domain=MS)
    z = g.BiasSoftmax(x, g.Unsqueeze(bias, [0, 1]), domain=MS, axis=1)
    model = g.model(y=(y, "float32", "b", 4, 3), z=(z, "float32", "b", 4, 3))
    vm = relax.VirtualMachine(relax.build(from_onnx(model), "llvm"), relax.cpu())
    for b in (0, 1, 3):
        x, bias = r(b, 4, 3), r(3)
        y, z = (item.numpy() for item in vm["main"](relax.nd.array(x), relax.nd.array(bias)))
        powers = np.exp(x + bias)
        np.testing.assert_allclose(y, x + bias + x, 1e-5, 1e-6)
        np.testing.assert_allclose(z, powers / powers.sum((1, 2), keepdims=True), 1e-5, 1e-6)


# ------------------------------------------------------------------------------------- what is refused


def refused(build) -> str:
    g = Graph("refused")
    y = build(g, g.input("x", "float32", "b", "s", 8))
    with pytest.raises(relax.ir.DiagnosticError) as error:
        from_onnx(g.model(y=(y, "float32", "b", "s", 8)))
    (diagnostic,) = error.value.diagnostics
    assert diagnostic.code == "E6001"
    assert diagnostic.span is not None
    return diagnostic.message


def test_refused():
    assert "the activation Softsign with 0 parameters is not supported" in refused(
        lambda g, x: g.FusedGemm(x, x, domain=MS, activation="Softsign")
    )
    assert "Attention with do_rotary or past_present_share_buffer is not supported" in refused(
        lambda g, x: g.Attention(x, g.weight(8, 24), domain=MS, num_heads=2, do_rotary=1)
    )
    assert "a mask of 4 dimensions (1, 2 and 3 are) is not supported" in refused(
        lambda g, x: g.Attention(x, g.weight(8, 24), None, g.input("m", "int32", 1, 1, 4, 4), domain=MS, num_heads=2)
    )
    lengths = np.zeros(1, np.int32), np.array(3, np.int32)
    heads = {"domain": MS, "num_heads": 2, "kv_num_heads": 2}
    assert "GroupQueryAttention with softcap is not supported" in refused(
        lambda g, x: g.GroupQueryAttention(x, x, x, None, None, *lengths, **heads, softcap=2.0)
    )
    assert "GroupQueryAttention with inputs behind attention_bias is not supported" in refused(
        lambda g, x: g.GroupQueryAttention(x, x, x, None, None, *lengths, *[None] * 4, g.weight(2), **heads)
    )
