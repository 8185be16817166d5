"""Layers: names and shapes of parameters, values against NumPy, and the modules of diffusers."""

from __future__ import annotations

import numpy as np
import pytest
from nn_programs import Method, computed, results

from relax.frontend import nn
from relax.frontend.nn import spec

RNG = np.random.default_rng(11)
X = RNG.standard_normal((2, 3, 4)).astype("float32")


def run(layer, *values, **arguments):
    """The parameters of a layer by name, filled with random numbers, and its result."""
    state = {
        name: RNG.standard_normal(param.shape).astype(param.dtype) for name, param in layer.named_parameters()
    }  # fmt: skip

    class Outer(nn.Module):
        def __init__(self):
            self.layer = layer

        def forward(self, *xs):
            return self.layer(*xs, **arguments)

    def forward(a, b=None):
        return layer(a, **arguments) if b is None else layer(a, b, **arguments)

    outer = Outer()
    outer.forward = forward
    names = ("a", "b")[: len(values)]
    given = {name: spec.Tensor(v.shape, str(v.dtype)) for name, v in zip(names, values, strict=True)}
    mod, params = outer.export_tvm({"forward": given})
    (found,) = results(mod, *values, *(state[name.removeprefix("layer.")] for name, _ in params))
    return state, found


def test_linear():
    state, y = run(nn.Linear(4, 5), X)
    assert {name: array.shape for name, array in state.items()} == {"weight": (5, 4), "bias": (5,)}
    np.testing.assert_allclose(y, X @ state["weight"].T + state["bias"], rtol=1e-4, atol=1e-5)
    state, y = run(nn.Linear(4, 5, bias=False, dtype="float16", out_dtype="float32"), X.astype("float16"))
    assert (list(state), y.dtype) == (["weight"], "float32")
    exact = X.astype("float16").astype("float32") @ state["weight"].astype("float32").T
    np.testing.assert_allclose(y, exact, rtol=1e-4, atol=1e-4)


def test_embedding():
    ids = np.array([[2, 0, 1]], "int32")
    state, y = run(nn.Embedding(3, 4), ids)
    np.testing.assert_array_equal(y, state["weight"][ids])
    state, y = run(nn.Embedding(3, 4), ids[0])
    np.testing.assert_array_equal(y, state["weight"][ids[0]])


def normalised(x, axes):
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + 1e-5)


def test_norms():
    state, y = run(nn.LayerNorm(4), X)
    np.testing.assert_allclose(y, normalised(X, -1) * state["weight"] + state["bias"], rtol=1e-3, atol=1e-5)
    state, y = run(nn.LayerNorm(4, elementwise_affine=False), X)
    assert not state
    np.testing.assert_allclose(y, normalised(X, -1), rtol=1e-3, atol=1e-5)
    state, y = run(nn.RMSNorm(4, -1, 1e-6), X)
    rms = X / np.sqrt((X**2).mean(-1, keepdims=True) + 1e-6)
    np.testing.assert_allclose(y, rms * state["weight"] + state["bias"], rtol=1e-4, atol=1e-5)
    state, y = run(nn.GroupNorm(1, 3), X)
    expected = normalised(X, (1, 2)) * state["weight"][:, None] + state["bias"][:, None]
    np.testing.assert_allclose(y, expected, rtol=1e-3, atol=1e-5)


def test_activations():
    for layer, expected in ((nn.ReLU(), np.maximum(X, 0)), (nn.SiLU(), X / (1 + np.exp(-X))), (nn.Identity(), X)):
        np.testing.assert_allclose(run(layer, X)[1], expected, rtol=1e-5)
    assert np.abs(run(nn.GELU(), X)[1] - X / (1 + np.exp(-1.702 * X))).max() < 0.03


@pytest.mark.parametrize(
    ("layer", "shape", "result", "weight"),
    [
        (nn.Conv1D(4, 6, 3, stride=2, padding=1, groups=2), (1, 4, 8), (1, 6, 4), (6, 2, 3)),
        (nn.Conv2D(4, 6, 3, padding="same"), (1, 4, 5, 6), (1, 6, 5, 6), (6, 4, 3, 3)),
        (nn.Conv2D(4, 6, (3, 1), data_layout="NHWC"), (1, 5, 6, 4), (1, 3, 6, 6), (6, 4, 3, 1)),
        (nn.Conv3D(2, 3, [1, 2, 3], stride=[1, 2, 1], bias=False), (1, 2, 3, 4, 5), (1, 3, 3, 2, 3), (3, 2, 1, 2, 3)),
        (nn.ConvTranspose1D(4, 6, 3, stride=2, padding=1, output_padding=1), (1, 4, 5), (1, 6, 10), (4, 6, 3)),
    ],
    ids=["1d", "2d", "2d, channels last", "3d", "1d transposed"],
)
def test_convolutions(layer, shape, result, weight):
    x = RNG.standard_normal(shape).astype("float32")
    state, y = run(layer, x)
    assert (y.shape, state["weight"].shape, "bias" in state) == (result, weight, layer.bias is not None)

    def same(x, w, *bias):
        function = getattr(nn.op, {3: "conv1d", 4: "conv2d", 5: "conv3d"}[len(shape)])
        extra = {"data_layout": layer.data_layout} if hasattr(layer, "data_layout") else {}
        if isinstance(layer, nn.ConvTranspose1D):
            function, extra = nn.op.conv1d_transpose, {"output_padding": 1}
        given = {"stride": layer.stride, "padding": layer.padding, "groups": layer.groups}
        return function(x, w, *bias, **given, **extra)

    if layer.bias is None:
        (expected,) = computed(lambda x, w: same(x, w), x, state["weight"])
    else:
        (expected,) = computed(lambda x, w, b: same(x, w, b), x, state["weight"], state["bias"])
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)


def linear(state, name, x):
    return x @ state[f"{name}.weight"].T + state.get(f"{name}.bias", np.float32(0))


def silu(x):
    return x / (1 + np.exp(-x))


def test_timesteps():
    _, y = run(nn.Timesteps(4, flip_sin_to_cos=True, downscale_freq_shift=0), np.array([0, 3], "float32"))
    angles = np.array([0, 3])[:, None] * np.array([1, 0.01])
    np.testing.assert_allclose(y, np.concatenate([np.cos(angles), np.sin(angles)], 1), rtol=1e-4, atol=1e-5)


def test_timestep_embeddings():
    sample, condition = X[0], RNG.standard_normal((3, 2)).astype("float32")
    layer = nn.TimestepEmbedding(4, 6, out_dim=5, post_act_fn="relu", cond_proj_dim=2)
    state, y = run(layer, sample, condition)
    x = sample + linear(state, "cond_proj", condition)
    expected = np.maximum(linear(state, "linear_2", silu(linear(state, "linear_1", x))), 0)
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-4)
    with pytest.raises(ValueError, match="the activation must be one of silu, gelu, relu, found 'mish'"):
        nn.TimestepEmbedding(4, 6, act_fn="mish")


@pytest.mark.parametrize("cross", [False, True])
def test_attention(cross):
    layer = nn.Attention(4, 6 if cross else None, heads=2, dim_head=3, norm_num_groups=2)
    other = RNG.standard_normal((2, 5, 6)).astype("float32")
    state, y = run(layer, X, *([other] if cross else []))
    groups = X.transpose(0, 2, 1).reshape(2, 2, 2, 3)
    x = normalised(groups, (2, 3)).reshape(2, 4, 3).transpose(0, 2, 1)
    x = x * state["group_norm.weight"] + state["group_norm.bias"]
    source = other if cross else x
    q, k, v = (
        linear(state, f"to_{name}", value).reshape(2, -1, 2, 3) for name, value in zip("qkv", (x, source, source))
    )  # fmt: skip
    scores = np.einsum("bmhd,bnhd->bhmn", q, k) / np.sqrt(3)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    attended = np.einsum("bhmn,bnhd->bmhd", weights / weights.sum(-1, keepdims=True), v).reshape(2, 3, 6)
    np.testing.assert_allclose(y, linear(state, "to_out.0", attended), rtol=1e-3, atol=1e-4)


def test_attention_takes_no_other_arguments():
    layer = nn.Attention(4)
    with pytest.raises(TypeError, match="Attention takes no argument 'ip_adapter'"):
        Method(lambda x: layer(x, ip_adapter=1)).export_tvm({"forward": {"x": spec.Tensor(X.shape, "float32")}})
