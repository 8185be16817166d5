"""Programs as users of MLC-LLM write them: a decoder with caches, quantisation by a mutator, and a BlockBuilder."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import relax
from relax import te, tir
from relax.frontend import nn
from relax.frontend.nn import Tensor, op


@dataclasses.dataclass
class Config:
    hidden_size: int = 32
    intermediate_size: int = 64
    num_attention_heads: int = 4
    num_key_value_heads: int = 2
    head_dim: int = 8
    num_hidden_layers: int = 2
    rope_theta: float = 10000.0


class RotaryEmbedding(nn.Module):
    def __init__(self, config: Config):
        self.head_dim, self.theta = config.head_dim, config.rope_theta

    def forward(self, q: Tensor, k: Tensor, offset: tir.Var):
        def rotary(x: te.Tensor, offset):
            half = self.head_dim // 2

            def compute(b, s, h, d):
                frequency = tir.power(
                    tir.const(self.theta, "float32"), (d % half * 2).astype("float32") / self.head_dim
                )
                angle = (offset + s).astype("float32") / frequency
                other = tir.if_then_else(d < half, -x[b, s, h, d + half], x[b, s, h, d - half])
                return tir.cos(angle) * x[b, s, h, d] + tir.sin(angle) * other

            return te.compute(x.shape, compute, name="rotary")

        return tuple(op.tensor_expr_op(rotary, "rotary", args=[x, offset]) for x in (q, k))


class Attention(nn.Module):
    def __init__(self, config: Config, rotary: RotaryEmbedding):
        self.config, self.rotary = config, rotary
        heads = config.num_attention_heads + 2 * config.num_key_value_heads
        self.qkv_proj = nn.Linear(config.hidden_size, heads * config.head_dim, bias=False)
        self.o_proj = nn.Linear(config.num_attention_heads * config.head_dim, config.hidden_size, bias=False)
        self.k_cache = nn.KVCache(4, [config.num_key_value_heads, config.head_dim])
        self.v_cache = nn.KVCache(4, [config.num_key_value_heads, config.head_dim])

    def forward(self, x: Tensor, mask: Tensor, total: tir.Var):
        h_q, h_kv, d = self.config.num_attention_heads, self.config.num_key_value_heads, self.config.head_dim
        b, s, _ = x.shape
        assert b == 1
        qkv = self.qkv_proj(x).reshape(b, s, h_q + 2 * h_kv, d)
        q, k, v = op.split(qkv, indices_or_sections=[h_q, h_q + h_kv], axis=2)
        q, k = self.rotary(q, k, total - s)
        self.k_cache.append(op.squeeze(k, axis=0))
        self.v_cache.append(op.squeeze(v, axis=0))
        k = op.reshape(self.k_cache.view(total), (b, total, h_kv, d)).repeat(h_q // h_kv, axis=2)
        v = op.reshape(self.v_cache.view(total), (b, total, h_kv, d)).repeat(h_q // h_kv, axis=2)
        q, k, v = (y.permute_dims(0, 2, 1, 3) for y in (q, k, v))
        scores = op.matmul(q, k.permute_dims(0, 1, 3, 2)) / d**0.5
        scores = scores.maximum(tir.min_value("float32").value).minimum(mask)
        attended = op.matmul(op.softmax(scores, axis=-1), v)
        return self.o_proj(attended.permute_dims(0, 2, 1, 3).reshape(b, s, h_q * d))


class FeedForward(nn.Module):
    def __init__(self, config: Config):
        self.gate_up_proj = nn.Linear(config.hidden_size, 2 * config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, x: Tensor):
        x1, x2 = op.split(self.gate_up_proj(x), 2, axis=-1)
        return self.down_proj(op.silu(x1) * x2)


class Layer(nn.Module):
    def __init__(self, config: Config, rotary: RotaryEmbedding):
        self.self_attn, self.mlp = Attention(config, rotary), FeedForward(config)
        self.input_layernorm = nn.RMSNorm(config.hidden_size, -1, 1e-5, bias=False)
        self.post_attention_layernorm = nn.RMSNorm(config.hidden_size, -1, 1e-5, bias=False)

    def forward(self, x: Tensor, mask: Tensor, total: tir.Var):
        x = self.self_attn(self.input_layernorm(x), mask, total) + x
        return self.mlp(self.post_attention_layernorm(x)) + x


class Llama(nn.Module):
    def __init__(self, config: Config):
        rotary = RotaryEmbedding(config)
        self.embed_tokens = nn.Embedding("vocab_size", config.hidden_size)
        self.layers = nn.ModuleList([Layer(config, rotary) for _ in range(config.num_hidden_layers)])
        self.norm = nn.RMSNorm(config.hidden_size, -1, 1e-5, bias=False)
        self.lm_head = nn.Linear(config.hidden_size, "vocab_size", bias=False)

    def forward(self, ids: Tensor, total: tir.Var, mask: Tensor):
        x = self.embed_tokens(ids)
        for layer in self.layers:
            x = layer(x, mask, total)

        def last(x: te.Tensor):
            b, s, d = x.shape
            return te.compute((b, 1, d), lambda i, _, k: x[i, s - 1, k], name="last")

        return self.lm_head(op.tensor_expr_op(last, "last", args=[self.norm(x)])).astype("float32")

    def prefill(self, ids: Tensor, total: tir.Var):
        def causal(b, s, total):
            return te.compute(
                (b, 1, s, total),
                lambda _, __, i, j: tir.if_then_else(
                    i < j - (total - s), tir.min_value("float32"), tir.max_value("float32")
                ),
                name="causal",
            )

        mask = op.tensor_expr_op(causal, "causal", args=[*ids.shape, total])
        return self.forward(ids, total, mask)

    def decode(self, ids: Tensor, total: tir.Var):
        mask = op.full((ids.shape[0], 1, 1, total), tir.max_value("float32").value, "float32")
        return self.forward(ids, total, mask)

    def softmax_with_temperature(self, logits: Tensor, temperature: Tensor):
        return op.softmax(logits / temperature.reshape(temperature.shape[0], 1, 1), axis=-1)

    def get_default_spec(self):
        packed = {"param_mode": "packed", "effect_mode": "packed"}
        return nn.spec.ModuleSpec.from_raw(
            {
                "prefill": {"ids": nn.spec.Tensor([1, "seq_len"], "int32"), "total": int, "$": packed},
                "decode": {"ids": nn.spec.Tensor([1, 1], "int32"), "total": int, "$": packed},
                "softmax_with_temperature": {
                    "logits": nn.spec.Tensor([1, 1, "vocab_size"], "float32"),
                    "temperature": nn.spec.Tensor([1], "float32"),
                    "$": {"param_mode": "none", "effect_mode": "none"},
                },
            },
            self,
        )


@pytest.fixture(scope="module")
def llama():
    rng, model = np.random.default_rng(0), Llama(Config())
    for name, param in model.named_parameters():
        shape = [size if isinstance(size, int) else 50 for size in param.shape]
        data = rng.standard_normal(shape).astype("float32") * 0.3
        param.data = data + 1 if "norm" in name else data
    return model


def test_a_decoder_continues_what_it_was_given(llama):
    compiled = llama.jit(llama.get_default_spec(), out_format="numpy", exec_mode="bytecode")
    ids = np.array([[3, 5, 7, 11, 13, 17]], "int32")
    whole = compiled["prefill"](ids, 6)
    compiled.reset()
    compiled["prefill"](ids[:, :4], 4)
    compiled["decode"](ids[:, 4:5], 5)
    steps = compiled["decode"](ids[:, 5:], 6)
    assert whole.shape == (1, 1, 50)
    np.testing.assert_allclose(steps, whole, rtol=1e-3, atol=1e-4)
    shares = compiled["softmax_with_temperature"](whole, np.array([0.5], "float32"))
    exact = np.exp(2 * (whole - whole.max()))
    np.testing.assert_allclose(shares, exact / exact.sum(), rtol=1e-4, atol=1e-7)


def test_sizes_by_name_are_those_of_the_parameters(llama):
    mod, params = llama.export_tvm(llama.get_default_spec())
    assert len(params) == 3 + 6 * Config.num_hidden_layers
    assert str(mod["decode"].ret_struct_info.fields[0]) == 'R.Tensor((1, 1, vocab_size), dtype="float32")'
    kernels = [var.name_hint for var in mod.functions if "rotary" in var.name_hint]
    assert len(kernels) == 4  # queries and keys, of many tokens and of one: all layers share them


# ------------------------------------------------------------------------------------ quantisation by a mutator

GROUP, BITS = 32, 4


class GroupQuantizedLinear(nn.Module):
    """Eight weights of four bits in a word, and a scale for each group."""

    def __init__(self, linear: nn.Linear):
        self.out_features, self.in_features = linear.out_features, linear.in_features
        self.q_weight = nn.Parameter((linear.out_features, linear.in_features // 8), "uint32")
        self.q_scale = nn.Parameter((linear.out_features, linear.in_features // GROUP), "float32")
        self.q_weight.attrs["original"] = linear.weight

    def forward(self, x: Tensor):
        def dequantize(w: te.Tensor, scale: te.Tensor):
            def weight(i, j):
                code = (w[i, j // 8] >> (j % 8 * BITS).astype("uint32")) & tir.const(15, "uint32")
                return (code.astype("float32") - 7) * scale[i, j // GROUP]

            return te.compute((self.out_features, self.in_features), weight, name="dequantize")

        w = op.tensor_expr_op(dequantize, name_hint="dequantize", args=[self.q_weight, self.q_scale])
        return op.matmul(x, op.permute_dims(w))


class QuantizeLinears(nn.Mutator):
    def visit_module(self, name: str, node: nn.Module):
        if isinstance(node, nn.Linear) and not isinstance(node.out_features, str):
            return GroupQuantizedLinear(node)
        return super().visit_module(name, node)


def test_quantisation_of_ones_own():
    class Net(nn.Module):
        def __init__(self):
            self.layers = nn.ModuleList([nn.Linear(64, 16, bias=False)])

        def forward(self, x: Tensor):
            return self.layers(x)

    model = QuantizeLinears().visit_module("", Net())
    assert [name for name, _ in model.named_parameters()] == ["layers.0.q_weight", "layers.0.q_scale"]
    rng = np.random.default_rng(1)
    codes, scales = rng.integers(0, 15, (16, 64), "uint32"), rng.random((16, 2)).astype("float32")
    words = (codes.reshape(16, 8, 8) << (np.arange(8, dtype="uint32") * BITS)).sum(-1).astype("uint32")
    model.load_state_dict({"layers.0.q_weight": words, "layers.0.q_scale": scales})
    x = rng.standard_normal((3, 64)).astype("float32")
    found = model.jit({"forward": {"x": nn.spec.Tensor(["n", 64], "float32")}}, out_format="numpy")(x)
    weights = (codes.astype("float32") - 7) * scales.repeat(GROUP, 1)
    np.testing.assert_allclose(found, x @ weights.T, rtol=1e-3, atol=1e-4)


def test_operators_in_a_function_of_a_builder():
    bb = relax.BlockBuilder()
    weight = relax.Var("weight", relax.TensorStructInfo((2, 3), "float32"))
    with bb.function("main", [weight]):
        with bb.dataflow():
            scaled = nn.op.max(Tensor(_expr=weight), axis=-1) / 7
            output = bb.emit_output(scaled._expr)
        bb.emit_func_output(output)
    vm = relax.VirtualMachine(relax.build(bb.get()), relax.cpu())
    np.testing.assert_allclose(vm["main"](np.arange(6, dtype="float32").reshape(2, 3)).numpy(), [2 / 7, 5 / 7])
