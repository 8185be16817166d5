"""Calls of each operator with a derivative, and their operands: what test_operator_gradients.py differentiates.

An operand is its shape, or a pair of the shape as the program states it, with dynamic sizes, and the sizes of one run.
The operands are called x, y, z, u; their elements lie in RANGES, by default between -1 and 1.
"""

from __future__ import annotations

SYMBOLIC = (("n", "m"), (3, 4))
SQUARE = ((3, 3),)
IMAGE = (("n", 4, "h", "w"), (2, 4, 7, 6))
INDICES = "R.const([[0, 1, 0], [1, 1, 0]], 'int64')"

RANGES = {
    "acosh": (1.5, 3),
    "log": (0.5, 2),
    "rsqrt": (0.5, 2),
    "sqrt": (0.5, 2),
    "power": (0.5, 2),
    "mod": (0.5, 2),
    "floor_mod": (0.5, 2),
}
"""Least and greatest element of the operands of operators that are not defined everywhere."""

UNARY = (
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "erf", "erfc", "exp", "log", "negative",
    "rsqrt",
    "sigmoid", "sin", "sinh", "sqrt", "square", "tan", "tanh", "nn.gelu", "nn.gelu_tanh", "nn.leakyrelu", "nn.relu",
    "nn.relu6", "nn.selu", "nn.silu", "nn.softplus", "flatten", "nn.batch_flatten", "tril", "triu", "std", "variance",
    "nn.softmax", "nn.log_softmax", "max", "min", "mean", "sum", "prod", "median", "cumsum", "cumprod", "sort",
    "grad.start_checkpoint", "grad.end_checkpoint", "builtin.stop_lift_params",
)  # fmt: skip
BINARY = ("add", "divide", "floor_mod", "log_add_exp", "maximum", "minimum", "mod", "multiply", "power", "subtract")

CASES: dict[str, list[tuple]] = {
    **{name: [(f"R.{name}(x)", SYMBOLIC)] for name in UNARY},
    **{name: [(f"R.{name}(x, y)", SYMBOLIC, (("m",), (4,)))] for name in BINARY},
    "nn.conv1d": [("R.nn.conv1d(x, y, strides=[2], groups=2)", (("n", 4, "w"), (2, 4, 9)), (4, 2, 3))],
    "nn.conv2d": [
        ("R.nn.conv2d(x, y, strides=[2, 1], padding=[1, 2])", IMAGE, (3, 4, 3, 2)),
        ("R.nn.conv2d(x, y, strides=[2, 3], padding=[1, 0, 2, 1], dilation=[2, 1], groups=2)", IMAGE, (2, 2, 3, 2)),
        ("R.nn.conv2d(x, y, padding=[1, 1], dilation=[2, 2], groups=4)", IMAGE, (8, 1, 3, 2)),
        (
            "R.nn.conv2d(x, y, strides=[2, 2], groups=2, data_layout='NHWC', kernel_layout='HWIO')",
            (("n", "h", "w", 4), (2, 7, 6, 4)),
            (3, 2, 2, 6),
        ),
    ],
    "nn.conv3d": [
        ("R.nn.conv3d(x, y, strides=[2, 1, 1], padding=[1, 1, 1], groups=2)", (1, 4, 4, 3, 3), (2, 2, 2, 3, 3))
    ],
    "nn.rnn": [("R.nn.rnn(x, y, z, u)[0]", (("t", "n", 2), (3, 2, 2)), (1, 2, 2), (1, 2, 2), (1, 4))],
    "nn.gru": [("R.nn.gru(x, y, z)[1]", (("t", "n", 2), (3, 2, 2)), (1, 6, 2), (1, 6, 2))],
    "nn.lstm": [("R.nn.lstm(x, y, z, u)[0]", (("t", "n", 2), (3, 2, 2)), (1, 8, 2), (1, 8, 2), (1, 16))],
    "nn.conv1d_transpose": [("R.nn.conv1d_transpose(x, y, strides=[2])", (("n", 4, "w"), (2, 4, 5)), (4, 2, 3))],
    "nn.conv2d_transpose": [
        ("R.nn.conv2d_transpose(x, y, strides=[2, 3], padding=[1, 0], dilation=[1, 2], groups=2)", IMAGE, (4, 3, 3, 2)),
        ("R.nn.conv2d_transpose(x, y, strides=[2, 3], output_padding=[1, 2])", (1, 4, 3, 2), (4, 2, 3, 2)),
    ],
    "nn.conv3d_transpose": [
        ("R.nn.conv3d_transpose(x, y, strides=[2, 1, 1], padding=[1, 1, 1])", (1, 4, 3, 3, 3), (4, 2, 2, 3, 3))
    ],
    **{
        f"nn.{kind}_pool{rank}d{end}": [
            (
                f"R.nn.{kind}_pool{rank}d{end}(x, pool_size={[3] * rank}, strides={[2] * rank}, "
                f"padding={[1] * rank}, ceil_mode=True){'[0]' if end else ''}",
                (("n", "c", *"dhw"[:rank]), (1, 2, 6, 5, 4)[: rank + 2]),
            )
        ]
        for kind, ends in (("max", ("", "_with_indices")), ("avg", ("",)), ("lp", ("",)))
        for end in ends
        for rank in (1, 2, 3)
    },
    **{
        f"nn.adaptive_avg_pool{rank}d": [
            (
                f"R.nn.adaptive_avg_pool{rank}d(x, {[3] * rank})",
                (("n", "c", *"dhw"[:rank]), (1, 2, 5, 4, 4)[: rank + 2]),
            )
        ]
        for rank in (1, 2, 3)
    },
    "nn.pad": [
        ("R.nn.pad(x, (0, 0, 2, 1), 'reflect')", SYMBOLIC),
        ("R.nn.pad(x, (0, 0, 2, 1), 'replicate')", SYMBOLIC),
        ("R.nn.pad(x, (0, 0, 2, 1), 'circular')", SYMBOLIC),
        ("R.nn.pad(x, (1, 0, -1, 2))", SYMBOLIC),
    ],
    "strided_slice": [
        ("R.strided_slice(x, [0, 1], [-1, 1], [-100, 3], [-2, 3])", SYMBOLIC),
        ("R.strided_slice(x, [1], [3], [0], [-1])", SYMBOLIC),
    ],
    "slice_scatter": [("R.slice_scatter(x, y, 1, 6, 2, axis=1)", (2, 7), (2, 3))],
    "scatter_elements": [
        (f"R.scatter_elements(x, {INDICES}, y, axis=0, reduction='{kind}')", (("n", "m"), (2, 3)), (2, 3))
        for kind in ("update", "add", "mean", "min", "max")
    ],
    "scatter_nd": [
        (f"R.scatter_nd(x, R.const([[0], [2], [0]], 'int64'), y, reduction='{kind}')", (4, 3), (3, 3))
        for kind in ("update", "add", "max")
    ],
    "index_put": [
        ("R.index_put(x, (R.const([0, 2, 0], 'int64'), R.const([[1], [0]], 'int64')), y)", (4, 3), (2, 3)),
        ("R.index_put(x, (R.const([0, 2, 0], 'int64'),), y, accumulate=True)", (("n", 3), (4, 3)), (3,)),
    ],
    "index_tensor": [("R.index_tensor(x, (R.const([0, 2, 0], 'int64'),))", (("n", "m"), (3, 4)))],
    "gather_elements": [(f"R.gather_elements(x, {INDICES}, axis=1)", (("n", "m"), (2, 3)))],
    "gather_nd": [("R.gather_nd(x, R.const([[0], [1], [0]], 'int64'))", SYMBOLIC)],
    "take": [("R.take(x, R.const([0, 2, -1], 'int64'), axis=1)", SYMBOLIC)],
    "topk": [
        ("R.topk(x, 2, axis=1)[0]", (("n", 5), (3, 5))),
        ("R.topk(x, 2, axis=0, ret_type='values', largest=False)", SYMBOLIC),
    ],
    "cummax": [("R.cummax(x, axis=1)[0]", SYMBOLIC)],
    "cummin": [("R.cummin(x, axis=-1)[0]", SYMBOLIC)],
    "nn.prelu": [("R.nn.prelu(x, y)", (("n", 3, "k"), (2, 3, 4)), (3,))],
    "nn.dropout": [("R.nn.dropout(x, 0.5)[0]", SYMBOLIC)],
    "nn.lrn": [("R.nn.lrn(x, size=3)", (1, 5, 3, 3))],
    "nn.pixel_shuffle": [("R.nn.pixel_shuffle(x, 2)", IMAGE)],
    "nn.pixel_unshuffle": [("R.nn.pixel_unshuffle(x, 2)", (1, 2, 4, 6))],
    "image.resize2d": [
        (f"R.image.resize2d(x, R.shape([5, 9]), method='{kind}', layout='NCHW')", IMAGE)
        for kind in ("nearest_neighbor", "linear", "cubic")
    ],
    "image.resize": [("R.image.resize(x, R.shape([4]), axes=(1,))", (("n", "m"), (2, 7)))],
    "image.grid_sample": [("R.image.grid_sample(x, y)", (1, 2, 4, 5), (1, 2, 3, 3))],
    "image.affine_grid": [("R.image.affine_grid(x, R.shape([4, 5]))", (("n", 2, 3), (2, 2, 3)))],
    "vision.deform_conv2d": [("R.vision.deform_conv2d(x, z, y)", (1, 2, 5, 5), (3, 2, 2, 2), (1, 8, 4, 4))],
    "vision.col2im": [("R.vision.col2im(x, (4, 4), (2, 2))", (("n", 4, 9), (1, 4, 9)))],
    "nn.attention": [
        (
            f"R.nn.attention(x, y, z, scale=0.7, causal_mask={mask})",
            (("n", "m", 2, 4), (2, 5, 2, 4)),
            (("n", "k", 2, 4), (2, 3, 2, 4)),
            (("n", "k", 2, 3), (2, 3, 2, 3)),
        )
        for mask in ("None", "'TopLeft'", "'BottomRight'")
    ],
    "nn.attention_bias": [
        ("R.nn.attention_bias(x, y, z, u, causal_mask='TopLeft', window_size=2)", *[(1, 4, 2, 3)] * 3, (1, 1, 4, 4))
    ],
    "nn.attention_var_len": [
        ("R.nn.attention_var_len(x, y, z, R.const([0, 2, 5], 'int32'), R.const(3, 'int32'))", *[(1, 5, 2, 3)] * 3)
    ],
    "nn.layer_norm": [("R.nn.layer_norm(x, y, z, axes=[-1])", (("n", 5), (3, 5)), (5,), (5,))],
    "nn.rms_norm": [("R.nn.rms_norm(x, y, axes=[-1])", (("n", 5), (3, 5)), (5,))],
    "nn.group_norm": [
        ("R.nn.group_norm(x, y, z, num_groups=2, channel_axis=1, axes=[2])", (("n", 4, "k"), (2, 4, 3)), (4,), (4,))
    ],
    "nn.instance_norm": [
        ("R.nn.instance_norm(x, y, z, axes=[2], channel_axis=1)", (("n", 3, "k"), (2, 3, 4)), (3,), (3,))
    ],
    "nn.batch_norm": [
        (
            "R.nn.batch_norm(x, y, z, R.const([0.0] * 3, 'float64'), R.const([1.0] * 3, 'float64'), axis=1, "
            "training=True)[0]".replace("[0.0] * 3", "[0.0, 0.0, 0.0]").replace("[1.0] * 3", "[1.0, 1.0, 1.0]"),
            (("n", 3, "k"), (2, 3, 4)),
            (3,),
            (3,),
        )
    ],
    "nn.nll_loss": [("R.nn.nll_loss(R.nn.log_softmax(x), R.const([1, 0, 3], 'int64'))", (3, 4))],
    "nn.cross_entropy_with_logits": [("R.nn.cross_entropy_with_logits(x, y)", (3, 4), (3, 4))],
    "matmul": [("R.matmul(x, y)", (("n", "m", 3), (2, 4, 3)), (3, 5))],
    "einsum": [
        ("R.einsum((x, y), 'ij,jk->ik')", (("n", "m"), (2, 3)), (("m", "k"), (3, 4))),
        ("R.einsum((x,), 'ii->i')", (3, 3)),
    ],
    "outer": [("R.outer(x, y)", (("n",), (3,)), (("m",), (4,)))],
    "concat": [("R.concat((x, y), axis=1)", (("n", "m"), (2, 3)), (("n", "k"), (2, 4)))],
    "stack": [("R.stack((x, y), axis=1)", SYMBOLIC, SYMBOLIC)],
    "split": [("R.split(x, 2, axis=1)[1]", (("n", 4), (3, 4)))],
    "meshgrid": [("R.meshgrid((x, y))[1]", (3,), (4,))],
    "reshape": [("R.reshape(x, R.shape([6, 2]))", (3, 4))],
    "squeeze": [("R.squeeze(x, [0])", ((1, "m"), (1, 4)))],
    "expand_dims": [("R.expand_dims(x, 1)", SYMBOLIC)],
    "permute_dims": [("R.permute_dims(x)", SYMBOLIC)],
    "broadcast_to": [("R.broadcast_to(x, R.shape([2, 3]))", (1, 3))],
    "collapse_sum_to": [("R.collapse_sum_to(x, R.shape([1, 3]))", (2, 3))],
    "collapse_sum_like": [("R.collapse_sum_like(x, y)", (2, 3), (1, 3))],
    "flip": [("R.flip(x, 1)", SYMBOLIC)],
    "tile": [("R.tile(x, [2, 3])", SYMBOLIC)],
    "repeat": [("R.repeat(x, 2, axis=1)", SYMBOLIC)],
    "reverse_sequence": [("R.reverse_sequence(x, R.const([2, 1, 4], 'int64'), seq_axis=1, batch_axis=0)", (3, 4))],
    "layout_transform": [("R.layout_transform(x, index_map=lambda i, j: (j, i))", (3, 4))],
    "where": [("R.where(R.greater(x, y), x, y)", SYMBOLIC, SYMBOLIC)],
    "clip": [("R.clip(x, -0.5, 0.5)", SYMBOLIC)],
    "ewise_fma": [("R.ewise_fma(x, y, z)", SYMBOLIC, SYMBOLIC, SYMBOLIC)],
    "astype": [("R.astype(x, 'float64')", SYMBOLIC)],
    "wrap_param": [("R.wrap_param(x, 'float64')", SYMBOLIC)],
    "grad.take_backward": [("R.grad.take_backward(x, y, R.const([0, 2], 'int64'), axis=1)", (3, 2), (3, 4))],
    "grad.avg_pool2d_backward": [("R.grad.avg_pool2d_backward(x, y, pool_size=[2, 2])", (1, 2, 3, 3), (1, 2, 4, 4))],
    "grad.max_pool2d_backward": [("R.grad.max_pool2d_backward(x, y, pool_size=[2, 2])", (1, 2, 3, 3), (1, 2, 4, 4))],
}
"""Calls by the operator whose derivative they test, without the prefix ``relax.``."""
