"""DynamicToStatic: `dyn` operators of known shapes become static ones."""

from __future__ import annotations

import numpy as np
import pytest
from pass_checks import assert_same_values, check, main_text, module, run

from relax import relay
from relax.relay.transform import DynamicToStatic, FoldConstant

X = np.arange(12, dtype="float32").reshape(2, 6)
PARAMS = "%x: Tensor[(2, 6), float32], %y: Tensor[(3, 4), float32]"


def test_a_shape_of_known_dimensions():
    check(
        DynamicToStatic(),
        f'fn({PARAMS}) {{ dyn.reshape(%x, shape_of(%y, dtype="int64")) }}',
        f"fn({PARAMS}) {{ reshape(%x, newshape=[3, 4]) }}",
        X,
        X.reshape(3, 4),
    )


def test_a_chain_becomes_static_in_one_run():
    check(
        DynamicToStatic(),
        f"""fn({PARAMS}) {{
  let %a = dyn.reshape(%x, shape_of(%y));
  let %s = shape_of(%a) * full(2, shape=[2]);
  %1 = dyn.broadcast_to(take(%a, 0), %s);
  (dyn.topk(%1, take(shape_of(%1), 0), ret_type="both").0, dyn.tile(%a, shape_of(%a)))
}}""",
        f"""fn({PARAMS}) {{
  let %a = reshape(%x, newshape=[3, 4]);
  %1 = broadcast_to(take(%a, 0), shape=[6, 8]);
  (topk(%1, k=6, ret_type="both").0, tile(%a, reps=[3, 4]))
}}""",
        X,
        X.reshape(3, 4),
    )


STATIC = {
    "dyn.broadcast_to(%x, %i)": "broadcast_to(%x, shape=[4, 2, 6])",
    "dyn.full(1f, %i)": "full(1f, shape=[4, 2, 6])",
    "dyn.zeros(%i)": "zeros(shape=[4, 2, 6])",
    "dyn.one_hot(take(%i, 1), 1, 0, 3)": "one_hot(take(%i, 1), 1, 0, depth=3)",
    "dyn.expand_dims(%x, 1, num_newaxis=2)": "expand_dims(%x, axis=1, num_newaxis=2)",
    "dyn.squeeze(reshape(%x, newshape=[1, 12]), full(0, shape=[1]))": "squeeze(reshape(%x, newshape=[1, 12]), axis=[0])",
    "dyn.strided_slice(%x, full(1, shape=[2]), full(2, shape=[2]), full(1, shape=[2]))": (
        "strided_slice(%x, begin=[1, 1], end=[2, 2], strides=[1, 1])"
    ),
    "dyn.nn.pad(%x, full(1, shape=[2, 2]), 0f)": "nn.pad(%x, 0f, pad_width=[[1, 1], [1, 1]])",
    "dyn.nn.upsampling(reshape(%x, newshape=[1, 1, 2, 6]), 2f, 1.5f)": (
        "nn.upsampling(reshape(%x, newshape=[1, 1, 2, 6]), scale_h=2, scale_w=1.5)"
    ),
    "dyn.nn.upsampling3d(reshape(%x, newshape=[1, 1, 2, 3, 2]), 2f, 1f, 0.5f)": (
        "nn.upsampling3d(reshape(%x, newshape=[1, 1, 2, 3, 2]), scale_d=2, scale_h=1, scale_w=0.5)"
    ),
    "dyn.image.resize2d(reshape(%x, newshape=[1, 1, 2, 6]), full(3, shape=[2]), zeros(shape=[4]))": (
        "image.resize2d(reshape(%x, newshape=[1, 1, 2, 6]), size=[3, 3], roi=[0, 0, 0, 0])"
    ),
    "dyn.sparse_to_dense(take(%i, 1), reshape(take(%i, 0), newshape=[1]), 1f, 0f)": (
        "sparse_to_dense(take(%i, 1), 1f, 0f, output_shape=[4])"
    ),
}


@pytest.mark.parametrize("text", STATIC)
def test_every_operator(text):
    shape = 'shape_of(zeros(shape=[4, 2, 6]), dtype="int64")'
    mod = module(f"fn(%x: Tensor[(2, 6), float32]) {{ {text.replace('%i', shape)} }}")
    static = STATIC[text].replace("%i", shape)
    expected = run(FoldConstant(), module(f"fn(%x: Tensor[(2, 6), float32]) {{ {static} }}"))
    result = run(DynamicToStatic(), mod)
    relay.assert_alpha_equal(result["main"], expected["main"])
    assert_same_values(mod, result, [X])
    assert run(DynamicToStatic(), result) is result


@pytest.mark.parametrize(
    "text",
    [
        f"fn({PARAMS}) {{ reshape(%x, newshape=[3, 4]) * (1f + 1f) }}",
        "fn(%x: Tensor[(2, 6), float32], %s: Tensor[(2), int64]) { dyn.reshape(%x, %s) }",
        "fn(%x: Tensor[(?, 6), float32]) { dyn.ones(shape_of(%x)) }",
        # The code -2 is one of reshape, of which the result has three dimensions.
        "fn(%x: Tensor[(2, 6), float32]) { dyn.reshape(%x, take(full(-2, shape=[1, 1]), 0, axis=0)) }",
    ],
)
def test_what_is_not_known_stays(text):
    mod = module(text)
    assert run(DynamicToStatic(), mod) is mod


def test_the_order_of_effects_stays():
    result = check(
        DynamicToStatic(),
        f"fn({PARAMS}) {{ let %r = ref(%x); let %u = ref_write(%r, %x * 2f); dyn.reshape(ref_read(%r), shape_of(%y)) }}",
        None
        if False
        else f"""fn({PARAMS}) {{
  let %r = ref(%x);
  let %u = ref_write(%r, %x * 2f);
  let %v = ref_read(%r);
  reshape(%v, newshape=[3, 4])
}}""",
        X,
        X.reshape(3, 4),
    )
    assert "dyn" not in main_text(result)


def test_static_programs_are_compiled_of_static_shapes():
    mod = run(DynamicToStatic(), module(f"fn({PARAMS}) {{ dyn.tile(%x, shape_of(%y)) }}"))
    assert str(mod["main"].checked_type.ret_type) == "Tensor[(6, 24), float32]"
    value = relay.create_executor("vm", mod).evaluate()(X, X.reshape(3, 4)).numpy()
    np.testing.assert_array_equal(value, np.tile(X, (3, 4)))
