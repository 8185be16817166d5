"""Compiled programs call the attention of paged caches without Python, and get what Python gives them."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest
import tvm_ffi

import relax
from relax.runtime import attention_steps
from relax.runtime.paged_attention import PagedAttention
from relax.script import ir as I
from relax.script import relax as R
from relax.script import tir as T
from relax.target.c_structs import STRUCTS


@I.ir_module
class Program:
    """A layer that sees all tokens, and one with a window of 6."""

    @R.function
    def cache() -> R.Object:
        with R.dataflow():
            none = R.null_value()
            state = R.call_pure_packed(
                "vm.builtin.paged_attention_kv_cache_create",
                R.shape([4, 128, 32, 16, 6]), R.shape([3, 5]), R.prim_value(4), R.prim_value(2), R.prim_value(16),
                R.prim_value(16), R.shape([0, 0, 0, 0, 3]), R.prim_value(False), R.prim_value(1), R.prim_value(1.0),
                R.prim_value(100.0), R.const(0.0, "float32"), none, none, none, none, none, none, none, none, none,
                none, none, none, none, none, none, (R.str("local_theta"), R.prim_value(10.0)),
                sinfo_args=R.Object,
            )  # fmt: skip
            gv = state
            R.output(gv)
        return gv

    @R.function
    def step(a: R.Tensor(("n", 128), "float32"), b: R.Tensor(("n", 128), "float32"), state: R.Object) -> R.Tuple(
        R.Tensor(("n", 4, 16), "float32"), R.Tensor(("n", 4, 16), "float32")
    ):
        n = T.int64()
        with R.dataflow():
            x = R.call_dps_packed(
                "vm.builtin.attention_kv_cache_attention_with_fused_qkv",
                (state, R.prim_value(3), R.prim_value(T.float64(0.25)), a),
                out_sinfo=R.Tensor((n, 4, 16), "float32"),
            )
            y = R.call_dps_packed(
                "vm.builtin.attention_kv_cache_attention_with_fused_qkv",
                (state, R.prim_value(4), R.prim_value(T.float64(0.25)), b),
                out_sinfo=R.Tensor((n, 4, 16), "float32"),
            )
            R.output(x, y)
        return (x, y)


@pytest.fixture(scope="module")
def machines() -> dict[str, Any]:
    return {
        mode: relax.VirtualMachine(relax.build(Program, exec_mode=mode), relax.cpu())
        for mode in ("compiled", "bytecode")
    }


def state_builtin(name: str) -> Any:
    return relax.get_global_func(f"vm.builtin.kv_state_{name}")


def calls_of_python(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Layers whose attention goes through Python from now on."""
    layers: list[int] = []
    plain = PagedAttention.attention_with_fused_qkv

    def counted(self: PagedAttention, forward: Any, layer: int, *args: Any) -> None:
        layers.append(layer)
        plain(self, forward, layer, *args)

    monkeypatch.setattr(PagedAttention, "attention_with_fused_qkv", counted)
    return layers


def test_results_are_those_of_bytecode(machines: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    states = {mode: machine["cache"]() for mode, machine in machines.items()}
    for state in states.values():
        for sequence in (0, 1):
            state_builtin("add_sequence")(state, sequence)
    through_python = calls_of_python(monkeypatch)
    rng = np.random.default_rng(0)
    for lengths in ({0: 5, 1: 20}, {1: 1, 0: 1}, {0: 13}, {1: 2}, {0: 1, 1: 1}):
        inputs = rng.standard_normal((2, sum(lengths.values()), 128)).astype(np.float32)
        found: dict[str, Any] = {}
        for mode, machine in machines.items():
            state_builtin("begin_forward")(
                states[mode], relax.ShapeTuple([*lengths]), relax.ShapeTuple([*lengths.values()])
            )
            through_python.clear()
            found[mode] = [result.numpy() for result in machine["step"](*inputs, states[mode])]
            # The first call of all says for which factor of scores calls are to be prepared.
            assert through_python == ([3, 4] if mode == "bytecode" else [3] if 20 in lengths.values() else [])
            state_builtin("end_forward")(states[mode])
        for first, second in zip(*found.values(), strict=True):
            np.testing.assert_array_equal(first, second)


def prepared(machine: Any) -> Any:
    """A cache with one sequence of one token."""
    state = machine["cache"]()
    state_builtin("add_sequence")(state, 7)
    state_builtin("begin_forward")(state, relax.ShapeTuple([7]), relax.ShapeTuple([1]))
    machine["step"](np.ones((1, 128), "f4"), np.ones((1, 128), "f4"), state)
    state_builtin("end_forward")(state)
    return state


def test_no_tokens_under_way(machines: dict[str, Any]) -> None:
    state = prepared(machines["compiled"])
    with pytest.raises(ValueError, match="no forward is under way: call kv_state_begin_forward first"):
        machines["compiled"]["step"](np.ones((1, 128), "f4"), np.ones((1, 128), "f4"), state)


def test_other_numbers_of_tokens_than_announced(machines: dict[str, Any]) -> None:
    state = prepared(machines["compiled"])
    state_builtin("begin_forward")(state, relax.ShapeTuple([7]), relax.ShapeTuple([2]))
    with pytest.raises(ValueError, match=r"qkv has the shape \(3, 128\), expected \(2, 128\)"):
        machines["compiled"]["step"](np.ones((3, 128), "f4"), np.ones((3, 128), "f4"), state)
    state_builtin("end_forward")(state)


def test_memory_with_strides_is_refused(machines: dict[str, Any]) -> None:
    state = prepared(machines["compiled"])
    attention = relax.get_global_func("vm.builtin.attention_kv_cache_attention_with_fused_qkv")
    state_builtin("begin_forward")(state, relax.ShapeTuple([7]), relax.ShapeTuple([4]))
    qkv, out = np.ones((8, 256), "f4"), np.zeros((4, 4, 32), "f4")
    for strided in (qkv[::2, :128], qkv[:4, ::2]):
        with pytest.raises(ValueError, match="argument qkv: is not compact: the stride of dimension"):
            attention.function(state, 3, 0.25, tvm_ffi.from_dlpack(strided), tvm_ffi.from_dlpack(out[..., :16]))
    with pytest.raises(ValueError, match="argument out: is not compact: the stride of dimension 2 is 2, expected 1"):
        attention.function(
            state, 3, 0.25, tvm_ffi.from_dlpack(np.ones((4, 128), "f4")), tvm_ffi.from_dlpack(out[..., ::2])
        )
    assert not out.any()
    state_builtin("end_forward")(state)


def test_a_tree_of_tokens_goes_through_python(machines: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    state = prepared(machines["compiled"])
    through_python = calls_of_python(monkeypatch)
    state.begin_forward((7,), (3,), (-1, 0, 0))
    machines["compiled"]["step"](np.ones((3, 128), "f4"), np.ones((3, 128), "f4"), state)
    assert through_python == [3, 4]
    state.end_forward()
    state.commit_accepted_token_tree_nodes((7,), (0,))
    through_python.clear()
    state_builtin("begin_forward")(state, relax.ShapeTuple([7]), relax.ShapeTuple([3]))
    machines["compiled"]["step"](np.ones((3, 128), "f4"), np.ones((3, 128), "f4"), state)
    assert through_python == []


def test_what_is_no_cache(machines: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="expected a paged KV cache"):
        machines["compiled"]["step"](np.ones((1, 128), "f4"), np.ones((1, 128), "f4"), object())


def test_structs_are_those_of_compiled_code() -> None:
    caches, step = (STRUCTS[name].layout(64) for name in ("AttentionCaches", "AttentionStep"))
    assert caches.offsets["pairs"] == attention_steps.PAIRS_AT
    assert caches.size == attention_steps.PAIRS_AT + attention_steps.MOST_CACHES * 16
    assert step.offsets["tokens"] == attention_steps.TOKENS_AT
    assert step.offsets["scale"] == attention_steps.SCALE_AT
    assert step.offsets["shared"] == attention_steps.SHARED_AT
    assert step.offsets["cells"] == attention_steps.CELLS_AT


def test_places_of_caches_that_died_are_used_again(machines: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    gc.collect()
    through_python = calls_of_python(monkeypatch)
    states = [prepared(machines["compiled"]) for _ in range(attention_steps.MOST_CACHES + 1)]
    for state, expected in ((states[0], []), (states[-1], [3, 4])):
        state_builtin("begin_forward")(state, relax.ShapeTuple([7]), relax.ShapeTuple([1]))
        through_python.clear()
        machines["compiled"]["step"](np.ones((1, 128), "f4"), np.ones((1, 128), "f4"), state)
        assert through_python == expected
    states.clear()
    del state
    gc.collect()
    state = prepared(machines["compiled"])
    state_builtin("begin_forward")(state, relax.ShapeTuple([7]), relax.ShapeTuple([1]))
    through_python.clear()
    machines["compiled"]["step"](np.ones((1, 128), "f4"), np.ones((1, 128), "f4"), state)
    assert through_python == []
