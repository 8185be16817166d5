"""ConvertLayout and AlterOpLayout: convolutions in other layouts, carried on by what follows."""

from __future__ import annotations

import numpy as np
import pytest
from pass_checks import assert_same_values, check, module, run

from relax import DiagnosticError, relay
from relax.relay.transform import AlterOpLayout, ConvertLayout, register_alter_op_layout
from relax.relay.transform.alter_op_layout import ALTER

RNG = np.random.default_rng(0)
NHWC = {"nn.conv2d": ["NHWC", "default"]}
PARAMS = "%x: Tensor[(1, 3, 6, 6), float32], %w: Tensor[(4, 3, 3, 3), float32]"
ARGS = [RNG.random((1, 3, 6, 6), "float32"), RNG.random((4, 3, 3, 3), "float32")]


def test_packed_layouts_are_kept():
    params = "%x: Tensor[(1, 3, 6, 6), float32], %w: Tensor[(2, 3, 3, 3, 2), float32]"
    mod = module(f'fn({params}) {{ nn.conv2d(%x, %w, kernel_layout="OIHW2o", out_layout="NCHW2c") }}')
    assert run(ConvertLayout(NHWC), mod) is mod


def test_what_follows_is_computed_in_the_layout():
    check(
        ConvertLayout(NHWC),
        f"fn({PARAMS}) {{ nn.relu(nn.conv2d(%x, %w, kernel_size=[3, 3])) }}",
        f"""fn({PARAMS}) {{
  %1 = layout_transform(%x, src_layout="NCHW", dst_layout="NHWC");
  %2 = layout_transform(%w, src_layout="OIHW", dst_layout="HWIO");
  %3 = nn.relu(nn.conv2d(%1, %2, kernel_size=[3, 3], data_layout="NHWC", kernel_layout="HWIO"));
  layout_transform(%3, src_layout="NHWC", dst_layout="NCHW")
}}""",
        *ARGS,
        rtol=1e-5,
    )


@pytest.mark.parametrize(
    ("text", "transforms"),
    [
        ("nn.conv2d(nn.conv2d(%x, %w), Constant(0.5, (2, 4, 1, 1), float32))", 4),
        ("nn.bias_add(nn.conv2d(%x, %w), Constant(0.5, (4), float32))", 3),
        ("nn.conv2d(%x, %w) + Constant(0.5, (4, 1, 1), float32)", 4),
        ("nn.max_pool2d(nn.conv2d(%x, %w), pool_size=[2, 2])", 3),
        ("nn.global_avg_pool2d(nn.conv2d(%x, %w))", 3),
        ("nn.batch_flatten(nn.global_avg_pool2d(nn.conv2d(%x, %w)))", 3),
        ("concatenate((nn.conv2d(%x, %w), nn.conv2d(%x, %w)), axis=1)", 5),
        ("sum(nn.conv2d(%x, %w), axis=[2, 3], keepdims=True)", 3),
        ("sum(nn.conv2d(%x, %w), axis=[2, 3])", 3),
        ("nn.pad(nn.conv2d(%x, %w), 0f, pad_width=[[0, 0], [0, 0], [1, 2], [3, 4]])", 3),
        ("nn.dropout(nn.conv2d(%x, %w)).0", 3),
        ("nn.softmax(nn.conv2d(%x, %w), axis=1)", 3),
        ("let %a = nn.conv2d(%x, %w); let %b = nn.relu(%a); (%b, %b * %a)", 4),
        ("let %a = nn.conv2d(%x, %w); if (True) { nn.relu(%a) } else { %a }", 4),
        ("reshape(nn.conv2d(%x, %w), newshape=[-1]) * 2f", 3),
        ("transpose(nn.conv2d(%x, %w)) ", 3),
        ("let %f = fn(%y: Tensor[(1, 4, 4, 4), float32]) { nn.relu(%y) }; %f(nn.conv2d(%x, %w))", 3),
    ],
)
def test_values_and_transforms(text, transforms):
    mod = module(f"fn({PARAMS}) {{ {text} }}")
    result = run(ConvertLayout(NHWC), mod)
    assert_same_values(mod, result, ARGS, rtol=1e-5)
    layouts = [n for n in relay.scopes.nodes_with_parts(result["main"]) if getattr(n, "op", None) is LAYOUT]
    assert len(layouts) == transforms
    assert run(ConvertLayout(NHWC), result) is result


LAYOUT = relay.Op.get("layout_transform")


def test_there_and_back():
    text = f"fn({PARAMS}) {{ nn.relu(nn.conv2d(%x, %w)) }}"
    there = run(ConvertLayout(NHWC), module(text))
    back = run(ConvertLayout({"nn.conv2d": ["NCHW"]}), there)
    relay.assert_alpha_equal(
        run(relay.transform.SimplifyExpr(), back)["main"],
        module(f'fn({PARAMS}) {{ nn.relu(nn.conv2d(%x, %w, kernel_layout="OIHW")) }}')["main"],
    )


@pytest.mark.parametrize(
    ("layouts", "message"),
    [
        ({"nn.conv2d": ["NCHW4c", "default"]}, "E9070.*the layout NCHW4c is no order of the axes of NCHW"),
        ({"nn.dense": ["NC"]}, "E9070.*the layout of nn.dense cannot be chosen"),
    ],
)
def test_what_cannot_be_asked_for(layouts, message):
    with pytest.raises(DiagnosticError, match=f"(?s){message}"):
        run(ConvertLayout(layouts), module(f"fn({PARAMS}) {{ nn.conv2d(%x, %w) }}"))


def test_alter_op_layout():
    mod = module(f"fn({PARAMS}) {{ nn.relu(nn.conv2d(%x, %w)) }}")
    assert run(AlterOpLayout(), mod) is mod

    @register_alter_op_layout("nn.conv2d")
    def alter(attrs, inputs, tinfos, out_type):
        assert [str(t) for t in tinfos] == ["Tensor[(1, 3, 6, 6), float32]", "Tensor[(4, 3, 3, 3), float32]"]
        assert str(out_type) == "Tensor[(1, 4, 4, 4), float32]"
        return relay.nn.conv2d(*inputs, **{**dict(attrs.items()), "data_layout": "NHWC", "kernel_layout": "HWIO"})

    try:
        result = run(AlterOpLayout(), mod)
    finally:
        relay.Op.get("nn.conv2d").set_attr(ALTER, None)
    relay.assert_alpha_equal(result["main"], run(ConvertLayout(NHWC), mod)["main"])
    assert_same_values(mod, result, ARGS, rtol=1e-5)
