"""Operators on nn.Tensors: values against NumPy, run in all ways, the calls they emit, and what they refuse."""

from __future__ import annotations

import inspect
import math

import numpy as np
import pytest
from nn_programs import body_of, computed, exported

from relax.frontend import nn
from relax.frontend.nn import Tensor, op
from relax.ir import DiagnosticError

RNG = np.random.default_rng(7)
X = RNG.standard_normal((3, 4)).astype("float32")
Y = RNG.standard_normal((3, 4)).astype("float32")
P = np.abs(X) + 0.5
IDS = np.array([2, 0], "int64")
ERF = np.vectorize(math.erf)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


CASES = {
    "relu": (lambda x: op.relu(x), [X], np.maximum(X, 0)),
    "relu6": (lambda x: op.relu6(x * 10), [X], np.clip(X * 10, 0, 6)),
    "silu": (lambda x: op.silu(x), [X], X / (1 + np.exp(-X))),
    "sigmoid": (lambda x: op.sigmoid(x), [X], 1 / (1 + np.exp(-X))),
    "tanh": (lambda x: op.tanh(x), [X], np.tanh(X)),
    "exp": (lambda x: op.exp(x), [X], np.exp(X)),
    "log": (lambda x: op.log(x), [P], np.log(P)),
    "floor": (lambda x: op.floor(x), [X], np.floor(X)),
    "square": (lambda x: op.square(x), [X], X * X),
    "sqrt": (lambda x: op.sqrt(x), [P], np.sqrt(P)),
    "negative": (lambda x: op.negative(x), [X], -X),
    "gelu": (lambda x: op.gelu(x), [X], X * (1 + ERF(X / math.sqrt(2))) / 2),
    "gelu tanh": (
        lambda x: op.gelu(x, approximate="tanh"),
        [X],
        X * (1 + np.tanh(math.sqrt(2 / math.pi) * (X + 0.044715 * X**3))) / 2,
    ),
    "softmax": (lambda x: op.softmax(x, axis=-1), [X], softmax(X)),
    "softplus": (lambda x: op.softplus(x, beta=2.0), [X], np.log1p(np.exp(2 * X)) / 2),
    "prelu": (lambda x, y: op.prelu(x, y), [X, Y[0]], np.where(X > 0, X, X * Y[0])),
    "add": (lambda x, y: op.add(x, y), [X, Y], X + Y),
    "subtract": (lambda x, y: op.subtract(x, y), [X, Y], X - Y),
    "multiply": (lambda x, y: op.multiply(x, y), [X, Y], X * Y),
    "divide": (lambda x, y: op.divide(x, y), [X, P], X / P),
    "add a number": (lambda x: op.add(1, x), [X], 1 + X),
    "maximum": (lambda x, y: op.maximum(x, y), [X, Y], np.maximum(X, Y)),
    "minimum": (lambda x, y: op.minimum(x1=x, x2=y), [X, Y], np.minimum(X, Y)),
    "less": (lambda x, y: op.less(x, y), [X, Y], X < Y),
    "less_equal": (lambda x, y: op.less_equal(x, y), [X, Y], X <= Y),
    "greater": (lambda x, y: op.greater(a=x, b=y), [X, Y], X > Y),
    "greater_equal": (lambda x, y: op.greater_equal(x, y), [X, Y], X >= Y),
    "equal": (lambda x, y: op.equal(x, y), [X, X], X == X),
    "not_equal": (lambda x, y: op.not_equal(x, y), [X, Y], X != Y),
    "sum": (lambda x: op.sum(x, axis=1), [X], X.sum(1)),
    "max": (lambda x: op.max(x, axis=[0, 1]), [X], X.max()),
    "min": (lambda x: op.min(x, 0, True), [X], X.min(0, keepdims=True)),
    "matmul": (lambda x, y: op.matmul(x, op.permute_dims(y)), [X, Y], X @ Y.T),
    "unsqueeze": (lambda x: op.unsqueeze(x, 1), [X], X[:, None]),
    "concat": (lambda x, y: op.concat([x, y], dim=0), [X, Y], np.concatenate([X, Y])),
    "chunk": (lambda x: op.chunk(x, 2, dim=1), [X], [X[:, :2], X[:, 2:]]),
    "split": (lambda x: op.split(x, [1, 3], axis=1), [X], [X[:, :1], X[:, 1:3], X[:, 3:]]),
    "broadcast_to": (lambda x: op.broadcast_to(x, (2, 3, 4)), [X], np.broadcast_to(X, (2, 3, 4))),
    "permute_dims": (lambda x: op.permute_dims(x, [1, 0]), [X], X.T),
    "permute": (lambda x: op.permute(x, axes=[1, 0]), [X], X.T),
    "reshape": (lambda x: op.reshape(x, (2, -1)), [X], X.reshape(2, 6)),
    "repeat": (lambda x: op.repeat(x, repeats=2, axis=1), [X], X.repeat(2, 1)),
    "squeeze": (lambda x: op.squeeze(op.unsqueeze(x, 2)), [X], X),
    "take": (lambda x, ids: op.take(x, ids, axis=0), [X, IDS], X[IDS]),
    "astype": (lambda x: op.astype(op.astype(x, "float32"), "int32"), [X * 10], (X * 10).astype("int32")),
    "pad": (lambda x: op.pad(x, [0, 1, 2, 0], value=5.0), [X], np.pad(X, ((0, 1), (2, 0)), constant_values=5)),
    "triu": (lambda x: op.triu(x, 1), [X], np.triu(X, 1)),
    "tril": (lambda x: op.tril(x, diagonal=-1), [X], np.tril(X, -1)),
    "full": (lambda x: op.full((x.shape[0], 2), 3), [X], np.full((3, 2), 3, "float32")),
    "full of a tensor": (lambda x: op.full([2], Tensor.from_scalar(3, "int32"), "int32"), [X], np.full(2, 3, "int32")),
    "zeros": (lambda x: op.zeros((2,), dtype="int32"), [X], np.zeros(2, "int32")),
    "ones": (lambda x: op.ones(x.shape), [X], np.ones((3, 4), "float32")),
    "arange": (lambda x: op.arange(1, 9, 2), [X], np.arange(1, 9, 2, "float32")),
    "arange to": (lambda x: op.arange(x.shape[1], dtype="int64"), [X], np.arange(4)),
    "cumsum": (lambda x: op.cumsum(x, axis=1, dtype=None), [X], X.cumsum(1)),
    "sort": (lambda x: op.sort(x, axis=1, descending=True), [X], -np.sort(-X, 1)),
    "argsort": (lambda x: op.argsort(x, axis=0), [X], np.argsort(X, 0).astype("int32")),
    "topk": (lambda x: op.topk(x, ret_type="indices"), [X], X.argmax(1)[:, None].astype("int32")),
    "where": (lambda x, y: op.where(x, y, 0.0), [np.eye(3, 4, dtype="float32"), Y], np.where(np.eye(3, 4), Y, 0)),
    "ccl_allreduce": (lambda x: op.ccl_allreduce(x, op_type="sum"), [X], X),
    "ccl_allgather": (lambda x: op.ccl_allgather(x, 1), [X], X),
    "ccl_broadcast_from_worker0": (lambda x: op.ccl_broadcast_from_worker0(x), [X], X),
    "cos, of relax.op": (lambda x: op.cos(x), [X], np.cos(X)),
    "log_softmax, of relax.op.nn": (lambda x: op.log_softmax(x, axis=-1), [X], np.log(softmax(X))),
}


@pytest.mark.parametrize("name", CASES)
def test_values(name):
    function, values, expected = CASES[name]
    found = computed(function, *values)
    for array, wanted in zip(found, expected if isinstance(expected, list) else [expected], strict=True):
        assert array.dtype == np.asarray(wanted).dtype or array.dtype == "float32"
        np.testing.assert_allclose(array, wanted, rtol=1e-5, atol=1e-6)


ELSEWHERE = {
    "conv1d", "conv1d_transpose", "conv2d", "conv3d", "debug_func", "empty", "extern", "get_timestep_embedding",
    "group_norm", "interpolate", "layer_norm", "multinomial_from_uniform", "print_", "renormalize_top_p_top_k_prob",
    "rms_norm", "sample_top_p_top_k_from_sorted_prob", "scaled_dot_product_attention", "tensor_expr_op",
    "tensor_ir_inplace_op", "tensor_ir_op",
}  # fmt: skip
"""Operators with tests of their own."""


def test_all_operators_are_tested():
    assert {name.split(" ")[0] for name in CASES} & set(op.__all__) | ELSEWHERE == set(op.__all__)


def test_names_of_variables():
    def forward(x):
        y = op.relu(op.matmul(x, op.permute_dims(x)), name="hidden")
        return op.sum(y, [0], False, "total"), op.negative(x)

    assert body_of(exported(forward, X)) == [
        "permute_dims = R.permute_dims(x)",
        "matmul = R.matmul(x, permute_dims)",
        "hidden = R.nn.relu(matmul)",
        "total = R.sum(hidden, axis=[0])",
        "neg = R.negative(x)",
    ]


def test_defaults_are_those_of_TVM():
    def forward(x):
        return op.squeeze(op.unsqueeze(x, -1)), op.topk(x), op.triu(x), op.zeros([2]), op.arange(3)

    assert body_of(exported(forward, X)) == [
        "unsqueeze = R.expand_dims(x, axis=[-1])",
        "squeeze = R.squeeze(unsqueeze, axis=[-1])",
        "topk = R.topk(x, R.prim_value(1))",
        "triu = R.triu(x, R.prim_value(0))",
        'zeros = R.zeros(R.shape([2]), dtype="float32")',
        'arange = R.arange(R.prim_value(0), R.prim_value(3), R.prim_value(1), dtype="float32")',
    ]


def test_empty_has_a_shape():
    found = exported(lambda x: op.empty((x.shape[0], 2), "int32"), X)["forward"].ret_struct_info
    assert str(found) == 'R.Tensor((3, 2), dtype="int32")'


def test_every_operator_of_relax_is_there():
    assert {"cos", "einsum", "leakyrelu"} <= set(dir(op))
    with pytest.raises(AttributeError, match="relax.frontend.nn.op has no operator 'cosine', and neither has relax.op"):
        op.cosine


PARAMETERS = {
    "add": "a b name",
    "arange": "start end step dtype name",
    "argsort": "data axis descending dtype name",
    "astype": "x dtype name",
    "broadcast_to": "x shape name",
    "ccl_allgather": "x num_workers name",
    "ccl_allreduce": "x op_type in_group name",
    "ccl_broadcast_from_worker0": "x name",
    "chunk": "x chunks dim name",
    "concat": "x dim name",
    "conv1d": "x weight bias stride padding dilation groups name",
    "conv1d_transpose": "x weight bias stride padding output_padding dilation groups name",
    "conv2d": "x weight bias stride padding dilation groups data_layout name",
    "conv3d": "x weight bias stride padding dilation groups data_layout name",
    "cumsum": "data axis dtype exclusive name",
    "debug_func": "name args _line_info",
    "divide": "a b name",
    "empty": "shape dtype name",
    "equal": "a b name",
    "exp": "x name",
    "extern": "name args out",
    "floor": "x name",
    "full": "shape fill_value dtype name",
    "gelu": "x approximate name",
    "get_timestep_embedding": "x embedding_dim flip_sin_to_cos downscale_freq_shift scale max_period name",
    "greater": "a b name",
    "greater_equal": "a b name",
    "group_norm": "x num_groups weight bias eps channel_axis axes name",
    "interpolate": "x size scale_factor mode align_corners recompute_scale_factor antialias data_layout name",
    "layer_norm": "x normalized_shape weight bias eps name",
    "less": "a b name",
    "less_equal": "a b name",
    "log": "x name",
    "matmul": "a b out_dtype name",
    "max": "x axis keepdims name",
    "maximum": "x1 x2 name",
    "min": "x axis keepdims name",
    "minimum": "x1 x2 name",
    "multinomial_from_uniform": "prob uniform_sample sample_indices dtype name",
    "multiply": "a b name",
    "negative": "x name",
    "not_equal": "a b name",
    "ones": "shape dtype name",
    "pad": "x pad mode value name",
    "permute": "x axes name",
    "permute_dims": "x axes name",
    "prelu": "x alpha name",
    "print_": "tensor",
    "relu": "x name",
    "relu6": "x name",
    "renormalize_top_p_top_k_prob": "prob sorted_prob top_p top_k",
    "repeat": "x repeats axis name",
    "reshape": "x shape name",
    "rms_norm": "x weight axes epsilon name",
    "sample_top_p_top_k_from_sorted_prob": "sorted_prob sorted_index top_p top_k uniform_sample sample_indices",
    "scaled_dot_product_attention": "query key value attn_mask is_causal scale name",
    "sigmoid": "x name",
    "silu": "x name",
    "softmax": "x axis name",
    "softplus": "x beta threshold name",
    "sort": "x axis descending name",
    "split": "ary indices_or_sections axis name",
    "sqrt": "x name",
    "square": "x name",
    "squeeze": "x axis name",
    "subtract": "a b name",
    "sum": "x axis keepdims name",
    "take": "x indices axis name",
    "tanh": "x name",
    "tensor_expr_op": "tensor_expr_func name_hint args attrs",
    "tensor_ir_inplace_op": "func name_hint args inplace_indices out",
    "tensor_ir_op": "func name_hint args out",
    "topk": "data k axis ret_type largest dtype name",
    "triu": "x diagonal name",
    "unsqueeze": "x dim name",
    "where": "condition x1 x2 name",
    "zeros": "shape dtype name",
}
"""Names of parameters that users of TVM write."""


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters_have_the_names_of_TVM(name):
    parameters = inspect.signature(getattr(op, name)).parameters
    wanted = PARAMETERS[name].split()
    assert list(parameters)[: len(wanted)] == wanted
    assert {parameters[key].kind for key in list(parameters)[len(wanted) :]} <= {inspect.Parameter.KEYWORD_ONLY}


# ------------------------------------------------------------------------------------ convolutions

IMAGES = RNG.standard_normal((2, 4, 5, 6)).astype("float32")
KERNELS = RNG.standard_normal((6, 2, 3, 3)).astype("float32")
BIAS = RNG.standard_normal(6).astype("float32")


def convolution(x, w, stride=1, pad=0, groups=1):
    """Convolution of images (n, c, h, w), written out."""
    x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    height, width = ((size - k) // stride + 1 for size, k in zip(x.shape[2:], w.shape[2:], strict=True))
    result = np.zeros((len(x), len(w), height, width), "float32")
    per_group = len(w) // groups
    for o in range(len(w)):
        first = o // per_group * w.shape[1]
        for i in range(height):
            for j in range(width):
                window = x[:, first : first + w.shape[1], i * stride :, j * stride :]
                result[:, o, i, j] = (window[:, :, : w.shape[2], : w.shape[3]] * w[o]).sum((1, 2, 3))
    return result


def test_conv2d():
    def forward(x, w, b):
        return op.conv2d(x, w, b, stride=2, padding=1, groups=2), op.conv2d(x, w, padding="same", groups=2)

    strided, same = computed(forward, IMAGES, KERNELS, BIAS)
    np.testing.assert_allclose(
        strided, convolution(IMAGES, KERNELS, 2, 1, 2) + BIAS[:, None, None], rtol=1e-4, atol=1e-5
    )
    np.testing.assert_allclose(same, convolution(IMAGES, KERNELS, 1, 1, 2), rtol=1e-4, atol=1e-5)


def test_conv2d_with_channels_last():
    def forward(x, w, b):
        return op.conv2d(x, w, b, padding=1, groups=2, data_layout="NHWC")

    (y,) = computed(forward, IMAGES.transpose(0, 2, 3, 1).copy(), KERNELS, BIAS)
    expected = convolution(IMAGES, KERNELS, 1, 1, 2) + BIAS[:, None, None]
    np.testing.assert_allclose(y.transpose(0, 3, 1, 2), expected, rtol=1e-4, atol=1e-5)


def test_conv1d_and_conv3d_are_conv2d_in_other_ranks():
    def forward(x, w, b):
        return op.conv1d(x, w, b, padding=1, groups=2, stride=2)

    x, w = IMAGES[:, :, 0], KERNELS[:, :, 0]
    (y,) = computed(forward, x, w, BIAS)
    expected = convolution(x[:, :, None], w[:, :, None], groups=2)
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1)))
    expected = convolution(padded[:, :, None], w[:, :, None], groups=2)[:, :, 0, ::2] + BIAS[:, None]
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)

    def volumes(x, w, b):
        return op.conv3d(x, w, b, groups=2)

    (y,) = computed(volumes, IMAGES[:, :, None], KERNELS[:, :, None], BIAS)
    expected = convolution(IMAGES, KERNELS, groups=2) + BIAS[:, None, None]
    np.testing.assert_allclose(y[:, :, 0], expected, rtol=1e-4, atol=1e-5)


def test_conv1d_transpose_spreads_each_element():
    x, w = IMAGES[:, :, 0], RNG.standard_normal((4, 3, 3)).astype("float32")

    def forward(x, w, b):
        return op.conv1d_transpose(x, w, b, stride=2, padding=1, output_padding=1)

    (y,) = computed(forward, x, w, BIAS[:3])
    whole = np.zeros((2, 3, 2 * 6 + 2), "float32")
    for i in range(6):
        whole[:, :, 2 * i : 2 * i + 3] += np.einsum("nc,cok->nok", x[:, :, i], w)
    np.testing.assert_allclose(y, whole[:, :, 1:13] + BIAS[:3, None], rtol=1e-4, atol=1e-5)


def test_unknown_padding():
    wanted = 'padding must be numbers, "valid", or "same" at stride 1; found \'same\' at stride 2'
    with pytest.raises(ValueError, match=wanted):
        exported(lambda x, w: op.conv2d(x, w, stride=2, padding="same", groups=2), IMAGES, KERNELS)


# ------------------------------------------------------------------------------------ normalisation, attention


def normalised(x, axes, eps=1e-5):
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


def test_layer_norm():
    def forward(x, w, b):
        return op.layer_norm(x, 4, w, b), op.layer_norm(x, [3, 4]), op.layer_norm(x, 4, w, eps=0.1)

    both, none, scaled = computed(forward, X, Y[0], Y[1])
    np.testing.assert_allclose(both, normalised(X, -1) * Y[0] + Y[1], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(none, normalised(X, (0, 1)), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(scaled, normalised(X, -1, 0.1) * Y[0], rtol=1e-4, atol=1e-5)


def test_rms_norm():
    (y,) = computed(lambda x, w: op.rms_norm(x, w, axes=-1, epsilon=1e-6), X, Y[0])
    np.testing.assert_allclose(y, X / np.sqrt((X**2).mean(-1, keepdims=True) + 1e-6) * Y[0], rtol=1e-4)


def test_group_norm():
    def forward(x, w, b):
        last = op.group_norm(op.permute_dims(x, [0, 2, 3, 1]), 2, w, b, channel_axis=3, axes=[1, 2])
        return op.group_norm(x, 2, w, b), op.group_norm(x, 2, None, None), op.permute_dims(last, [0, 3, 1, 2])

    weight, bias = BIAS[:4], BIAS[2:]
    plain = normalised(IMAGES.reshape(2, 2, 2, 5, 6), (2, 3, 4)).reshape(IMAGES.shape)
    scaled = plain * weight[:, None, None] + bias[:, None, None]
    for found, expected in zip(computed(forward, IMAGES, weight, bias), (scaled, plain, scaled), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_attention():
    q, k, v = (RNG.standard_normal((2, 5, 3, 4)).astype("float32") for _ in range(3))
    mask = RNG.random((5, 5)) < 0.5
    mask |= np.eye(5, dtype=bool)
    bias = RNG.standard_normal((1, 3, 5, 5)).astype("float32")

    def forward(q, k, v, mask, bias):
        attention = op.scaled_dot_product_attention
        return (
            attention(q, k, v),
            attention(q, k, v, is_causal=True, scale=0.3),
            attention(q, k, v, attn_mask=mask),
            attention(q, k, v, bias),
        )

    def expected(scale=0.5, added=0.0):
        scores = np.einsum("bmhd,bnhd->bhmn", q, k) * scale + added
        return np.einsum("bhmn,bnhd->bmhd", softmax(scores), v)

    causal = np.where(np.tril(np.ones((5, 5))), 0, -np.inf)
    wanted = [expected(), expected(0.3, causal), expected(added=np.where(mask, 0, -np.inf)), expected(added=bias)]
    for found, array in zip(computed(forward, q, k, v, mask, bias), wanted, strict=True):
        np.testing.assert_allclose(found, array, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("size", [6, 7])
def test_get_timestep_embedding(size):
    times = np.array([0, 1, 50], "float32")

    def forward(x):
        return op.get_timestep_embedding(x, size, flip_sin_to_cos=True, downscale_freq_shift=0, scale=2)

    (found,) = computed(forward, times)
    angles = 2 * times[:, None] * np.exp(-math.log(10000) * np.arange(3) / 3)
    expected = np.concatenate([np.cos(angles), np.sin(angles), np.zeros((3, size % 2))], 1)
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)


def test_interpolate():
    def forward(x):
        return (
            op.interpolate(x, scale_factor=2.0),
            op.interpolate(x, size=(3, 2), mode="bilinear", align_corners=True),
            op.interpolate(x, size=10, mode="bicubic"),
        )

    x = np.arange(12, dtype="float32").reshape(1, 1, 4, 3)
    nearest, linear, cubic = computed(forward, x)
    np.testing.assert_array_equal(nearest, x.repeat(2, 2).repeat(2, 3))
    np.testing.assert_allclose(linear[0, 0], [[0, 2], [4.5, 6.5], [9, 11]], rtol=1e-6)
    assert cubic.shape == (1, 1, 10, 10)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"size": 2, "mode": "area"}, "mode must be one of 'nearest', 'bilinear', 'bicubic', found 'area'"),
        ({}, "give one of size and scale_factor"),
        ({"size": 2, "antialias": True}, "recompute_scale_factor and antialias are not supported"),
    ],
)
def test_interpolate_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        exported(lambda x: op.interpolate(x, **arguments), IMAGES)


# ------------------------------------------------------------------------------------ errors


def test_operands_that_do_not_fit_are_shown_in_the_line_of_the_method():
    def forward(x, y):
        return op.matmul(x, y)

    with pytest.raises(DiagnosticError, match="matmul: the reduced dimensions differ") as info:
        exported(forward, X, Y)
    (diagnostic,) = info.value.diagnostics
    assert diagnostic.span.source.name == __file__
    assert diagnostic.span.source.line(diagnostic.span.line).strip() == "return op.matmul(x, y)"


def test_operators_need_a_program():
    with pytest.raises(RuntimeError, match="operators on nn.Tensor add to a program, and none is being built"):
        op.relu(Tensor.placeholder((2,), "float32"))


def test_none_stands_for_the_default():
    def forward(x):
        return op.cumsum(x, 1, None, None), op.sum(x, None, name=None), op.permute_dims(x, None, "turned")

    assert body_of(exported(forward, X)) == [
        "cumsum = R.cumsum(x, axis=1)",
        "sum = R.sum(x)",
        "turned = R.permute_dims(x)",
    ]


def test_unknown_arguments():
    with pytest.raises(TypeError, match=r"op.relu\(x, name=''\): too many arguments"):
        exported(lambda x: op.relu(x, "y", 1), X)
    with pytest.raises(TypeError, match="multiple values for argument 'axis'"):
        exported(lambda x: op.softmax(x, 1, axis=1), X)
    with pytest.raises(TypeError, match="unexpected keyword argument 'dim'"):
        exported(lambda x: op.softmax(x, dim=1), X)
    with pytest.raises(ValueError, match='approximate must be None, "none" or "tanh", found \'erf\''):
        exported(lambda x: op.gelu(x, "erf"), X)


def test_results_of_unknown_size_have_shape_variables():
    def forward(x):
        (places,) = op.nonzero(x).shape[1:]
        return op.reshape(op.nonzero(x), (places, 2))

    (found,) = computed(forward, np.eye(3, dtype="float32"))
    assert found.shape == (3, 2)


def test_star_imports_of_nn_have_the_operators():
    assert nn.relu is op.relu
    assert set(op.__all__) <= set(nn.__all__)
