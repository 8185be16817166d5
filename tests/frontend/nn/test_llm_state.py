"""Caches and states of language models as values of programs."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from paged_model import builtin
from relax.frontend import nn
from relax.frontend.nn import op, spec
from relax.frontend.nn.llm import PagedKVCache, RNNState, RopeMode


class Total(nn.Module):
    """Adds to what a sequence has been given before."""

    def create(self, sequences):
        return RNNState.create(sequences, 1, 2, [np.zeros(3, np.float32)])

    def forward(self, x, state):
        total = state.get(0, 0, x.shape, "float32") + x
        return total, state.set(0, 0, total)


@pytest.mark.parametrize("mode", ["bytecode", "compiled"])
def test_states_of_sequences(mode):
    module = Total()
    methods = [
        spec.MethodSpec(module.create, ["sequences"], [spec.Int()], "none", "none"),
        spec.MethodSpec.from_raw(
            {"x": spec.Tensor(["b", 3], "float32"), "state": spec.Object(RNNState)}, module.forward
        ),
    ]
    mod, _ = module.export_tvm(spec.ModuleSpec(module, ["create", "forward"], methods))
    vm = relax.VirtualMachine(relax.build(mod, exec_mode=mode), relax.cpu())
    state = vm["create"]([2])
    for sequence in (5, 8):
        builtin("kv_state_add_sequence")(state, sequence)

    def step(sequences, rows):
        builtin("kv_state_begin_forward")(state, sequences, (1,) * len(sequences))
        total, _ = vm["forward"](np.array(rows, np.float32), state)
        builtin("kv_state_end_forward")(state)
        return np.from_dlpack(total).tolist()

    assert step((5,), [[1, 2, 3]]) == [[1, 2, 3]]
    assert step((8, 5), [[10, 10, 10], [1, 1, 1]]) == [[10, 10, 10], [2, 3, 4]]
    builtin("kv_state_popn")(state, 5, 1)
    assert step((5,), [[0, 0, 0]]) == [[1, 2, 3]]


HEADS, KEYS, VALUES = 2, 6, 4


class Attending(nn.Module):
    """Attention of heads whose values have another size than their keys."""

    def create(self, tokens):
        sizes = (1, HEADS, HEADS, KEYS, VALUES)
        return PagedKVCache.create_generic("mha", 1, tokens, 8, 4, 0, *sizes, RopeMode.NONE, dtype="float32")

    def forward(self, qkv, cache):
        rows = op.reshape(qkv, (1, qkv.shape[0], HEADS * (2 * KEYS + VALUES)))
        out = cache.attention_with_fused_qkv(0, rows, HEADS, 0.5, v_head_dim=VALUES)
        return op.reshape(out, (qkv.shape[0], HEADS, VALUES))


@pytest.mark.parametrize("mode", ["bytecode", "compiled"])
def test_values_of_another_size_than_keys(mode):
    module = Attending()
    width = HEADS * (2 * KEYS + VALUES)
    methods = [
        spec.MethodSpec(module.create, ["tokens"], [spec.Int()], "none", "none"),
        spec.MethodSpec.from_raw(
            {"qkv": spec.Tensor(["n", width], "float32"), "cache": spec.Object(PagedKVCache)}, module.forward
        ),
    ]
    mod, _ = module.export_tvm(spec.ModuleSpec(module, ["create", "forward"], methods))
    vm = relax.VirtualMachine(relax.build(mod, exec_mode=mode), relax.cpu())
    cache = vm["create"]([16])
    builtin("kv_state_add_sequence")(cache, 0)
    qkv = np.random.default_rng(0).normal(size=(7, width)).astype(np.float32)
    found = []
    for begin, end in ((0, 5), (5, 6), (6, 7)):
        builtin("kv_state_begin_forward")(cache, (0,), (end - begin,))
        found.append(np.from_dlpack(vm["forward"](qkv[begin:end], cache)).copy())
        builtin("kv_state_end_forward")(cache)

    q, k, v = np.split(qkv.astype(np.float64), [HEADS * KEYS, 2 * HEADS * KEYS], axis=1)
    q, k, v = (part.reshape(7, HEADS, -1) for part in (q, k, v))
    scores = np.where(np.tri(7, dtype=bool), 0.5 * np.einsum("ihd,jhd->hij", q, k), -np.inf)
    weights = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    np.testing.assert_allclose(np.concatenate(found), np.einsum("hij,jhe->ihe", weights, v), rtol=1e-5, atol=1e-6)
