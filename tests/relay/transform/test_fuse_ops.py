"""FuseOps and DefuseOps: primitive functions, and back."""

from __future__ import annotations

import numpy as np
import pytest
from pass_checks import check, module, run

from relax import relay
from relax.relay.transform import DefuseOps, FuseOps

X = np.linspace(0, 1, 4, dtype="float32")


def test_elementwise_calls_are_one_function():
    check(
        FuseOps(),
        "fn(%x: Tensor[(4), float32]) { exp(%x * 2f) + %x }",
        "fn(%x: Tensor[(4), float32]) { fn(%p: Tensor[(4), float32], Primitive=1) -> Tensor[(4), float32] "
        "{ exp(%p * 2f) + %p }(%x) }",
        X,
    )


def test_a_result_that_others_see_ends_a_function():
    result = run(FuseOps(), module("fn(%x: Tensor[(4), float32]) { %1 = exp(%x); %2 = %1 * 2f; (%1, %2 + 1f) }"))
    assert primitives(result) == [["exp"], ["multiply", "add"]]


def primitives(mod):
    """The operators of each primitive function of main."""
    order = relay.scopes.nodes_with_parts(mod["main"])
    functions = [n for n in order if isinstance(n, relay.Function) and n.attrs.get("Primitive")]
    return sorted([n.op.name for n in relay.scopes.nodes_with_parts(f) if isinstance(n, relay.Call)] for f in functions)


CONV = """fn(%x: Tensor[(1, 3, 6, 6), float32], %w: Tensor[(4, 3, 3, 3), float32], %b: Tensor[(4, 1, 1), float32]) {
  %1 = nn.conv2d(%x, %w, kernel_size=[3, 3], channels=4);
  %2 = nn.relu(%1 + %b);
  nn.max_pool2d(%2, pool_size=[2, 2], strides=[2, 2])
}"""


def test_a_convolution_takes_what_follows_and_a_pool_stands_alone():
    assert primitives(run(FuseOps(), module(CONV))) == [["nn.conv2d", "add", "nn.relu"], ["nn.max_pool2d"]]
    assert primitives(run(FuseOps(fuse_opt_level=0), module(CONV))) == [
        ["add"],
        ["nn.conv2d"],
        ["nn.max_pool2d"],
        ["nn.relu"],
    ]


def test_branches_are_fused_by_themselves():
    text = "fn(%c: bool, %x: Tensor[(4), float32]) { %1 = exp(%x); if (%c) { negative(%1) } else { %1 } }"
    assert primitives(run(FuseOps(), module(text))) == [["exp"], ["negative"]]


@pytest.mark.parametrize("text", ["fn(%x: Tensor[(4), float32]) { sort(%x) }", "fn(%f: fn(int32) -> int32) { %f(1) }"])
def test_operators_without_a_pattern_stay(text):
    mod = module(text)
    assert run(FuseOps(), mod) is mod


def test_effects_stay():
    check(
        FuseOps(),
        "fn(%x: Tensor[(4), float32]) { let %r = ref(%x); let %u = ref_write(%r, exp(ref_read(%r)) * 2f); ref_read(%r) }",
        "fn(%x: Tensor[(4), float32]) { let %r = ref(%x); let %v = ref_read(%r); let %u = ref_write(%r, fn(%p: Tensor[(4), float32], Primitive=1) "
        "-> Tensor[(4), float32] { exp(%p) * 2f }(%v)); ref_read(%r) }",
        X,
    )


@pytest.mark.parametrize("text", [CONV, "fn(%x: Tensor[(4), float32]) { %1 = exp(%x * 2f); concatenate((%1, %1)) }"])
def test_defuse_is_the_inverse(text):
    mod = module(text)
    fused = run(FuseOps(), mod)
    assert fused is not mod
    relay.assert_alpha_equal(run(DefuseOps(), fused)["main"], mod["main"])
    assert run(DefuseOps(), mod) is mod
