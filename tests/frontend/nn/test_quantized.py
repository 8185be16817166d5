"""Layers with weights of few bits: what they emit, values against decoded weights, packing, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from nn_programs import body_of

import relax
from relax.frontend import nn
from relax.frontend.nn import Tensor, op, spec
from weights_in_blocks import format_named

RNG = np.random.default_rng(13)


class Net(nn.Module):
    """An embedding, a hidden layer, and the product with the embedding's table."""

    def __init__(self):
        self.embed = nn.Embedding(50, 256)
        self.fc = nn.Linear(256, 256)

    def forward(self, ids: Tensor):
        return op.silu(self.fc(self.embed(ids)))


def state():
    shapes = {name: param.shape for name, param in Net().named_parameters()}
    return {name: (RNG.standard_normal(shape) / 16).astype("float32") for name, shape in shapes.items()}


GIVEN = {"forward": {"ids": spec.Tensor(["n"], "int32")}}
IDS = np.array([3, 49, 0], "int32")


def quantised(format, activations="int8", weights=None, pack=False):
    model = nn.QuantizeModules(format, activations).visit("", Net())
    if pack:
        nn.pack_weights(model)
    if weights is not None:
        model.load_state_dict(weights)
    return model


def test_products_of_bytes():
    mod, params = quantised("q4_0").export_tvm(GIVEN)
    assert body_of(mod) == [
        "take = R.nn.quantized_take(embed_weight, ids)",
        "quantize = R.nn.dynamic_quantize(take)",
        "matmul = R.nn.quantized_matmul(quantize_0, quantize_1, fc_weight)",
        "add = R.add(matmul, fc_bias)",
        "silu = R.nn.silu(add)",
    ]
    assert [(name, param.shape, param.dtype) for name, param in params] == [
        ("embed.weight", [50, 144], "uint8"), ("fc.weight", [256, 144], "uint8"), ("fc.bias", [256], "float32"),
    ]  # fmt: skip


def test_products_of_decoded_weights():
    mod, _ = quantised("q4_k", "float32").export_tvm(GIVEN)
    assert body_of(mod)[1:4] == [
        'dequantize = R.dequantize_blocks(fc_weight, format="q4_k")',
        "permute_dims = R.permute_dims(dequantize)",
        "matmul = R.matmul(take, permute_dims)",
    ]


def silu(x):
    return x / (1 + np.exp(-x))


@pytest.mark.parametrize(
    ("format", "activations", "pack"),
    [
        ("q8_0", "int8", False),
        ("q4_k", "int8", True),
        ("int4_g32", "int8", True),
        ("q4_k", "float32", False),
        ("q6_k", "float32", True),
    ],
)
def test_values(format, activations, pack):
    weights = state()
    model = quantised(format, activations, weights, pack)
    found = model.jit(GIVEN, out_format="numpy", constants=not pack)(IDS)
    held = format_named(format)
    table, matrix = (
        held.decode(relax.quantize_weights({"w": weights[name]}, format)["w"]) for name in ("embed.weight", "fc.weight")
    )
    exact = silu(table[IDS] @ matrix.T + weights["fc.bias"])
    error = np.sqrt(np.square(found - exact).mean() / np.square(exact).mean())
    assert error < (0.02 if activations == "int8" else 1e-5)


def test_packed_parameters_are_those_of_the_target():
    model = quantised("q4_0")
    nn.pack_weights(model, relax.target.Target("llvm -mcpu=haswell"))
    assert model.fc.weight.layout == {"format": "q4_0", "lanes": 8, "signed": False, "columns": 256}
    assert repr(model.fc.weight) == 'Tensor([32, 288], "int32")'
    mod, _ = model.export_tvm(GIVEN)
    assert "R.nn.quantized_matmul(quantize_0, quantize_1, fc_weight, lanes=8, columns=256)" in body_of(mod)[2]
    with pytest.raises(ValueError, match="is packed already"):
        model.fc.weight.pack()


def test_data_are_packed_when_they_are_read():
    rows = relax.quantize_weights({"w": state()["fc.weight"]}, "q8_0")["w"]
    first, second = nn.QuantizedParameter(256, 256, "q8_0"), nn.QuantizedParameter(256, 256, "q8_0")
    first.data = rows
    first.pack()
    second.pack()
    second.data = rows
    np.testing.assert_array_equal(first.data.numpy(), second.data.numpy())
    third = nn.QuantizedParameter(256, 256, "q8_0")
    third.pack()
    third.data = second.data
    assert third.data.dtype == "int32"


def test_a_table_is_also_a_product():
    class Head(nn.Module):
        def __init__(self):
            self.embed = nn.QuantizedEmbedding(50, 64, "q8_0")

        def forward(self, x: Tensor):
            return self.embed.lm_head_forward(x)

    w, x = (RNG.standard_normal((n, 64)).astype("float16") for n in (50, 3))
    model = Head()
    model.embed.weight.data = w
    nn.pack_weights(model)
    found = model.jit({"forward": {"x": spec.Tensor(["n", 64], "float16")}}, out_format="numpy")(x)
    assert found.dtype == "float32"
    np.testing.assert_allclose(found, x.astype("float32") @ w.T.astype("float32"), atol=0.3)


def test_layers_that_stay():
    class Other(nn.Module):
        def __init__(self):
            self.keep, self.small, self.open = nn.Linear(256, 2), nn.Linear(8, 2), nn.Linear(256, "n")
            self.changed = nn.Linear(256, 2, dtype="float16", out_dtype="float32")

    model = nn.QuantizeModules("q4_0", keep=["keep"]).visit("", Other())
    kinds = [type(layer) for layer in (model.keep, model.small, model.open, model.changed)]
    assert kinds == [nn.Linear] * 3 + [nn.QuantizedLinear]
    assert (model.changed.out_dtype, model.changed.bias.dtype) == ("float32", "float32")
    kept = nn.QuantizeModules("q4_0", keep=lambda name: name != "keep").visit("", Other())
    assert [type(layer) for layer in (kept.keep, kept.changed)] == [nn.QuantizedLinear, nn.Linear]


def test_data_of_layers_are_rounded():
    weights = state()
    model = Net()
    model.load_state_dict(weights)
    model = nn.QuantizeModules("q8_0").visit("", model)
    rows = relax.quantize_weights({"w": weights["fc.weight"]}, "q8_0")["w"]
    np.testing.assert_array_equal(model.fc.weight.data.numpy(), rows)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: nn.QuantizedLinear(48, 8), ValueError, "rows of 48 weights are no whole blocks of 32, as q4_0 has"),
        (lambda: nn.QuantizedLinear(64, 8, "q4"), ValueError, "q4 is no block format; there are"),
        (
            lambda: nn.QuantizedEmbedding(8, 64, activations="int4"),
            ValueError,
            'activations must be "int8" or "float32"',
        ),
        (lambda: nn.QuantizeModules(activations="no"), ValueError, 'activations must be "int8" or "float32", found'),
    ],
)
def test_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_data_that_do_not_fit():
    param = nn.QuantizedParameter(8, 64, "q4_0")
    with pytest.raises(ValueError, match=r"weights of shape \[64, 8\] are not of 8 rows of 64"):
        param.data = np.zeros((64, 8), "float32")
    with pytest.raises(ValueError, match=r"cannot have data of shape \[8, 35\]"):
        param.data = np.zeros((8, 35), "uint8")
    param.pack()
    with pytest.raises(ValueError, match=r"rows of shape \[8, 35\] are not of shape \[8, 36\]"):
        param.data = np.zeros((8, 35), "uint8")
    with pytest.raises(TypeError, match="cannot have data of dtype int8; convert"):
        param.data = np.zeros((8, 36), "int8")


def test_packed_weights_are_multiplied_by_bytes():
    layer = nn.QuantizedLinear(64, 8, activations="float32")
    layer.weight.pack()
    with pytest.raises(ValueError, match="packed weights are multiplied by integers"):
        layer.export_tvm({"forward": {"x": spec.Tensor([1, 64], "float32")}})
