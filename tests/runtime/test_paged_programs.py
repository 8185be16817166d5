"""Programs that hold a paged KV cache, in both execution modes and the interpreter."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from paged_model import Pair, builtin, cache_function, create, forward_of, tensor
from relax.runtime.tensor import numpy_view, tensor_of_numpy
from relax.script import ir as I
from relax.script import relax as R
from relax.script import tir as T
from support import MODES, PLAIN_LOOPS


@I.ir_module
class Decoder:
    """Two layers of attention; the second one's queries, keys and values are the first one's results, twice."""

    @R.function(pure=False)
    def step(qkv: R.Tensor(("n", 32), "float32"), state: R.Object, ids: R.Shape, lengths: R.Shape) -> R.Tensor(
        ("n", 4, 4), "float32"
    ):
        n = T.int64()
        _ = R.call_packed("vm.builtin.kv_state_begin_forward", state, ids, lengths, sinfo_args=R.Tuple())
        with R.dataflow():
            a = R.call_dps_packed(
                "vm.builtin.attention_kv_cache_attention_with_fused_qkv",
                (state, R.prim_value(0), R.prim_value(T.float64(0.7)), qkv),
                out_sinfo=R.Tensor((n, 4, 4), "float32"),
            )
            rows = R.reshape(a, (n, 16))
            doubled = R.concat((rows, rows), axis=1)
            b = R.call_dps_packed(
                "vm.builtin.attention_kv_cache_attention_with_fused_qkv",
                (state, R.prim_value(1), R.prim_value(T.float64(0.7)), doubled),
                out_sinfo=R.Tensor((n, 4, 4), "float32"),
            )
            R.output(b)
        _1 = R.call_packed("vm.builtin.kv_state_end_forward", state, sinfo_args=R.Tuple())
        return b


Decoder["cache"] = cache_function(chunk=32)


def function(mode, name):
    if mode == "interpreter":
        return lambda *args: relax.interpret(Decoder, name, *args)
    return relax.VirtualMachine(relax.build(Decoder, PLAIN_LOOPS, exec_mode=mode), relax.cpu())[name]


@pytest.mark.parametrize("mode", [*MODES, "interpreter"])
def test_a_program_holds_a_cache(mode):
    """A cache is an object that a program makes, and is called with again: two sequences, a fork, five forwards."""
    state = function(mode, "cache")(relax.ShapeTuple([4, 64]))
    step = function(mode, "step")
    pair = Pair(layers=2, options={"interleaved": True})
    for seq in (0, 1):
        relax.get_global_func("vm.builtin.kv_state_add_sequence")(state, seq)
        pair.add(seq)
    rng = np.random.default_rng(1)
    for lengths in ({0: 5}, {1: 2, 0: 1}, {0: 1, 1: 1}, {1: 3}):
        n = sum(lengths.values())
        qkv = rng.standard_normal((n, 32)).astype("float32")
        found = step(qkv, state, relax.ShapeTuple(list(lengths)), relax.ShapeTuple(list(lengths.values()))).numpy()
        inputs = np.zeros((2, n, 32))
        inputs[0] = qkv
        histories = {seq: list(history) for seq, history in pair.histories.items()}
        first = pair.expected(lengths, inputs, 0.7)[0].reshape(n, 16)
        pair.histories = histories
        inputs[1] = np.concatenate([first, first], 1)
        np.testing.assert_allclose(found, pair.expected(lengths, inputs, 0.7)[1], rtol=1e-5, atol=1e-5)


@I.ir_module
class Parts:
    """The attention of new tokens to themselves and to those before, merged; and their positions."""

    @R.function
    def main(q: R.Tensor(("n", 4, 4), "float32"), k: R.Tensor(("n", 4, 4), "float32"),
             v: R.Tensor(("n", 4, 4), "float32"), state: R.Object):  # fmt: skip
        n = T.int64()
        with R.dataflow():
            positions = R.call_pure_packed(
                "vm.builtin.attention_kv_cache_get_query_positions", state, sinfo_args=R.Tensor((n,), "int32")
            )
            own = R.call_dps_packed(
                "vm.builtin.attention_kv_cache_self_attention",
                (state, R.prim_value(0), R.prim_value(T.float64(0.5)), q, k, v),
                out_sinfo=[R.Tensor((n, 4, 4), "float32"), R.Tensor((n, 4), "float32")],
            )
            old = R.call_dps_packed(
                "vm.builtin.attention_kv_cache_cross_attention",
                (state, R.prim_value(0), R.prim_value(T.float64(0.5)), q),
                out_sinfo=[R.Tensor((n, 4, 4), "float32"), R.Tensor((n, 4), "float32")],
            )
            merged = R.call_pure_packed(
                "vm.builtin.attention_kv_cache_merge_attn_output_inplace", state, own[0], own[1], old[0], old[1],
                sinfo_args=R.Tuple(R.Tensor((n, 4, 4), "float32"), R.Tensor((n, 4), "float32")),
            )  # fmt: skip
            out = merged[0]
            R.output(positions, out)
        return (positions, out)


@pytest.mark.parametrize("mode", [*MODES, "interpreter"])
def test_a_program_attends_in_parts(mode):
    rng = np.random.default_rng(2)
    state = create(mode=0, heads=(4, 4))
    state.add_sequence(0)
    fused = builtin("attention_kv_cache_attention_with_fused_qkv")
    if mode == "interpreter":
        main = lambda *args: relax.interpret(Parts, "main", *args)  # noqa: E731
    else:
        main = relax.VirtualMachine(relax.build(Parts, PLAIN_LOOPS, exec_mode=mode), relax.cpu())["main"]
    for start, n in ((0, 5), (5, 3)):
        forward_of(state, {0: n})
        qkv = rng.standard_normal((n, 12, 4)).astype("float32")
        positions, found = main(*(qkv[:, 4 * i : 4 * i + 4].copy() for i in range(3)), state)
        whole = tensor(n, 4, 4)
        fused(state, 0, 0.5, tensor_of_numpy(qkv), whole)
        builtin("kv_state_end_forward")(state)
        assert positions.numpy().tolist() == list(range(start, start + n))
        np.testing.assert_allclose(found.numpy(), numpy_view(whole), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("mode", MODES)
def test_errors_come_from_programs_as_they_are(mode):
    state = function(mode, "cache")(relax.ShapeTuple([4, 64]))
    with pytest.raises(ValueError, match="step: .*there is no sequence 3"):
        function(mode, "step")(np.zeros((1, 32), "float32"), state, relax.ShapeTuple([3]), relax.ShapeTuple([1]))
