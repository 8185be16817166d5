"""Arguments of operators: every rank and attribute gives a type or a diagnostic; one number stands for all axes."""

from __future__ import annotations

import pytest

from relax import DiagnosticError, relay

VALUES = {
    "int": [0, -1, 1, 7],
    "float": [0.0, -1.0, float("nan"), 2.0],
    "bool": [False, True],
    "str": ["", "nope", "NCHW"],
    "dtype": ["int8", "bool", "float32"],
    "ints": [(), (0,), (1, 1), (-1,), (1, 2, 3)],
    "ints[1]": [0, (1, 2), (), 2],
    "ints[2]": [0, -1, (1, 1), (1,), 2],
    "ints[3]": [0, (1,), 2],
    "int|ints": [0, -1, (), (1, 1), 3],
    "floats": [(), (0.0,), (1.0, 2.0, 3.0, 4.0)],
    "strs": [(), ("a",)],
    "intss": [(), ((1, 1),), ((0, 0), (1, 1)), ((),)],
    "any": [0, 5, None, (2, 3), "x", (-1,), ()],
}
"""Attribute values by type name; the last is the one of required attributes when another attribute varies."""


def attribute_sets(spec):
    base = {f.name: VALUES[f.type.rstrip("?")][-1] if f.required else f.default for f in spec.attrs}
    yield base
    for field in spec.attrs:
        for value in VALUES[field.type.rstrip("?")]:
            yield {**base, field.name: value}


def operands(spec, rank, dtype, as_tuple):
    count = 2 if spec.num_inputs is None else spec.num_inputs
    tensors = [relay.var(f"x{i}", shape=(2,) * rank, dtype=dtype) for i in range(count)]
    return [relay.Tuple(tensors)] * count if as_tuple else tensors


@pytest.mark.parametrize("rank", [0, 1, 2, 4])
def test_any_rank_and_attribute_gives_a_type_or_a_diagnostic(rank):
    """Axes of a scalar, blocks of 0 elements: no exception of Python leaves type inference."""
    typed = refused = 0
    for name in relay.list_operators():
        spec = relay.operator_spec(name)
        base, *varied = attribute_sets(spec)
        cases = [(base, dtype, as_tuple) for dtype in ("float32", "int64", "bool") for as_tuple in (False, True)]
        for attrs, dtype, as_tuple in [*cases, *((attrs, "float32", False) for attrs in varied)]:
            try:
                relay.infer_type(relay.call_operator(name, *operands(spec, rank, dtype, as_tuple), **attrs))
                typed += 1
            except DiagnosticError:
                refused += 1
    assert typed > 300
    assert refused > 300


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fn(%x: float32) { nn.bias_add(%x, %x) }", "nn.bias_add: axis 1 is out of range for 0 dimensions"),
        ("fn(%x: Tensor[(2, 3), float32]) { sum(%x, axis=[2], exclude=True) }", "sum: axis 2 is out of range for 2"),
        ("fn(%x: float32) { nn.fifo_buffer(%x, %x, axis=0) }", "nn.fifo_buffer: axis 0 is out of range for 0"),
        (
            "fn(%x: Tensor[(2, 2), float32]) { nn.space_to_batch_nd(%x, block_shape=[0], paddings=[[0, 0]]) }",
            r"nn.space_to_batch_nd: block_shape has numbers from 1, found \[0\]",
        ),
        (
            'fn(%x: Tensor[(1, 1, 2, 2, 2), float32]) { nn.global_avg_pool2d(%x, layout="NCHW2h") }',
            "the layout NCHW2h does not have the dimension H as a whole",
        ),
        (
            'fn(%x: Tensor[(1, 4, 2, 2), float32]) { nn.global_max_pool2d(%x, layout="NCDW") }',
            "the layout NCDW does not have the dimension H as a whole",
        ),
        (
            "fn(%x: Tensor[(1, 4, 2, 2), float32], %w: Tensor[(2, 4, 1, 1), float32]) "
            '{ nn.conv2d(%x, %w, kernel_layout="OIHW2o", kernel_size=[1, 1]) }',
            "nn.conv2d: the weight has 4 dimensions, its layout OIHW2o 5",
        ),
        (
            'fn(%x: Tensor[(2, 4, 3, 1), float32]) { image.resize1d(%x, size=[2], layout="C4cWN") }',
            "the layout C4cWN is packed: only orders of whole dimensions are resized",
        ),
        (
            "fn(%x: Tensor[(1, 1, 2, 2), float32]) { image.resize2d(%x, size=None) }",
            "image.resize2d: size is a tuple of numbers, or one for all axes, found None",
        ),
        (
            "fn(%x: Tensor[(1, 1, 2, 2), float32]) { nn.max_pool2d(%x, pool_size=2f) }",
            "nn.max_pool2d: the attribute 'pool_size' is a tuple of integers, or one for all axes, found 2.0",
        ),
    ],
)
def test_refused(text, message):
    with pytest.raises(DiagnosticError, match=message):
        relay.infer_type(relay.parse_expr(text))


@pytest.mark.parametrize(
    ("one", "each"),
    [
        ("nn.max_pool2d(%x, pool_size=3, strides=2)", "nn.max_pool2d(%x, pool_size=[3, 3], strides=[2, 2])"),
        ("nn.avg_pool2d(%x, pool_size=2, dilation=2)", "nn.avg_pool2d(%x, pool_size=[2, 2], dilation=[2, 2])"),
        ("image.resize2d(%x, size=28)", "image.resize2d(%x, size=[28, 28])"),
        (
            "nn.conv2d(%x, zeros(shape=[4, 3, 3, 3]), kernel_size=3, strides=2, dilation=2)",
            "nn.conv2d(%x, zeros(shape=[4, 3, 3, 3]), kernel_size=[3, 3], strides=[2, 2], dilation=[2, 2])",
        ),
        (
            "nn.conv2d_transpose(%x, zeros(shape=[3, 4, 2, 2]), strides=3, output_padding=1)",
            "nn.conv2d_transpose(%x, zeros(shape=[3, 4, 2, 2]), strides=[3, 3], output_padding=[1, 1])",
        ),
    ],
)
def test_one_number_for_all_axes(one, each):
    types = [
        relay.infer_type(relay.parse_expr(f"fn(%x: Tensor[(1, 3, 16, 16), float32]) {{ {text} }}")).checked_type
        for text in (one, each)
    ]
    assert types[0] == types[1]


def test_one_kernel_size_determines_the_weight():
    x = relay.var("x", shape=(1, 3, 16, 16))
    conv = relay.infer_type(relay.nn.conv2d(x, relay.var("weight"), kernel_size=3, channels=4))
    assert str(conv.args[1].checked_type) == "Tensor[(4, 3, 3, 3), float32]"


def test_meshgrid_has_a_result_for_each_tensor():
    a, b = relay.var("a", shape=(2,)), relay.var("b", shape=(3,))
    grids = relay.meshgrid([a, b])
    assert str(relay.infer_type(grids.astuple()).checked_type) == "(Tensor[(2, 3), float32], Tensor[(2, 3), float32])"
    assert [str(relay.infer_type(grid).checked_type) for grid in grids] == ["Tensor[(2, 3), float32]"] * 2
    pair = relay.var("pair", relay.TupleType([relay.TensorType((2,)), relay.TensorType((3,))]))
    assert len(relay.meshgrid(pair)) == 2
