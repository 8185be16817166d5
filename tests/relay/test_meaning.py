"""Operators of Relay: the type inferred and the value evaluated agree with NumPy, and with compiled Relax."""

from __future__ import annotations

import numpy as np
import pytest
from relay_programs import f32

import relax
from relax import DiagnosticError, relay

X = f32(2, 3, 4)
IMAGE = f32(1, 4, 6, 6)
CASES = {
    "add": (lambda: relay.add, (f32(2, 1), f32(3)), {}, np.add),
    "where": (lambda: relay.where, (np.array([True, False]), f32(2), f32(2)), {}, np.where),
    "clip": (lambda: relay.clip, (f32(5),), {"a_min": -0.5, "a_max": 0.5}, lambda x, **a: np.clip(x, -0.5, 0.5)),
    "log2": (lambda: relay.log2, (np.abs(f32(4)) + 1,), {}, np.log2),
    "cast": (lambda: relay.cast, (f32(3) * 9,), {"dtype": "int32"}, lambda x, dtype: x.astype(dtype)),
    "sum": (
        lambda: relay.sum,
        (X,),
        {"axis": [1], "keepdims": True},
        lambda x, axis, keepdims: x.sum(1, keepdims=True),
    ),
    "max excluded": (lambda: relay.max, (X,), {"axis": 1, "exclude": True}, lambda x, **a: x.max((0, 2))),
    "all": (lambda: relay.all, (X > 0,), {"axis": 0}, lambda x, axis: x.all(0)),
    "any": (lambda: relay.any, (X > 0,), {}, lambda x: x.any()),
    "argmax": (lambda: relay.argmax, (X,), {"axis": 1}, lambda x, axis: x.argmax(1).astype("int32")),
    "logsumexp": (lambda: relay.logsumexp, (X,), {"axis": 2}, lambda x, axis: np.log(np.exp(x).sum(2))),
    "cumsum": (lambda: relay.cumsum, (X,), {"axis": 1}, lambda x, axis: x.cumsum(1)),
    "argsort": (lambda: relay.argsort, (f32(7),), {"is_ascend": False}, lambda x, **a: (-x).argsort().astype("int32")),
    "reshape": (lambda: relay.reshape, (X,), {"newshape": (0, -1)}, lambda x, newshape: x.reshape(2, 12)),
    "reshape -4": (lambda: relay.reshape, (X,), {"newshape": (-4, 2, -1, -2)}, lambda x, **a: x.reshape(2, 1, 3, 4)),
    "transpose": (lambda: relay.transpose, (X,), {"axes": [2, 0, 1]}, lambda x, axes: x.transpose(axes)),
    "expand_dims": (lambda: relay.expand_dims, (X,), {"axis": 1, "num_newaxis": 2}, lambda x, **a: x[:, None, None]),
    "squeeze": (lambda: relay.squeeze, (f32(1, 2, 1),), {"axis": [0]}, lambda x, axis: x[0]),
    "reverse": (lambda: relay.reverse, (X,), {"axis": 1}, lambda x, axis: x[:, ::-1]),
    "tile": (lambda: relay.tile, (f32(2, 3),), {"reps": (2, 1)}, lambda x, reps: np.tile(x, reps)),
    "repeat": (lambda: relay.repeat, (f32(2, 3),), {"repeats": 2, "axis": 1}, lambda x, **a: x.repeat(2, 1)),
    "take": (lambda: relay.take, (X, np.array([0, 9])), {"axis": 1}, lambda x, i, axis: x[:, [0, 2]]),
    "strided_slice": (
        lambda: relay.strided_slice,
        (X,),
        {"begin": [0, 2, 1], "end": [2, 0, 4], "strides": [1, -1, 2]},
        lambda x, **a: x[0:2, 2:0:-1, 1:4:2],
    ),
    "strided_slice size": (
        lambda: relay.strided_slice,
        (X,),
        {"begin": [0, 1], "end": [1, -1], "slice_mode": "size"},
        lambda x, **a: x[0:1, 1:],
    ),
    "gather_nd": (lambda: relay.gather_nd, (f32(3, 4), np.array([[0, 2], [1, 3]])), {}, lambda x, i: x[tuple(i)]),
    "one_hot": (
        lambda: relay.one_hot,
        (np.array([0, 2]), np.float32(1), np.float32(0)),
        {"depth": 3},
        lambda i, on, off, depth: np.eye(3, dtype="float32")[i],
    ),
    "one_hot axis": (
        lambda: relay.one_hot,
        (np.array([0, 2]), np.float32(5), np.float32(-1)),
        {"depth": 3, "axis": 0},
        lambda i, on, off, depth, axis: (np.eye(3, dtype="float32")[i] * 6 - 1).T,
    ),
    "layout_transform": (
        lambda: relay.layout_transform,
        (IMAGE,),
        {"src_layout": "NCHW", "dst_layout": "NHWC"},
        lambda x, **a: x.transpose(0, 2, 3, 1),
    ),
    "nn.dense": (lambda: relay.nn.dense, (f32(2, 3), f32(4, 3)), {"units": 4}, lambda x, w, units: x @ w.T),
    "nn.batch_matmul": (
        lambda: relay.nn.batch_matmul,
        (f32(2, 3, 4), f32(2, 5, 4)),
        {},
        lambda x, y: x @ y.swapaxes(1, 2),
    ),
    "nn.bias_add": (lambda: relay.nn.bias_add, (IMAGE, f32(4)), {}, lambda x, b: x + b[:, None, None]),
    "nn.leaky_relu": (lambda: relay.nn.leaky_relu, (X,), {"alpha": 0.5}, lambda x, alpha: np.where(x > 0, x, x * 0.5)),
    "nn.batch_flatten": (lambda: relay.nn.batch_flatten, (X,), {}, lambda x: x.reshape(2, 12)),
    "nn.global_avg_pool2d": (lambda: relay.nn.global_avg_pool2d, (IMAGE,), {}, lambda x: x.mean((2, 3), keepdims=True)),
    "nn.pad": (
        lambda: relay.nn.pad,
        (f32(2, 2), np.float32(3)),
        {"pad_width": ((0, 1), (2, 0))},
        lambda x, v, pad_width: np.pad(x, pad_width, constant_values=3),
    ),
    "nn.upsampling": (
        lambda: relay.nn.upsampling,
        (IMAGE,),
        {"scale_h": 2, "scale_w": 2},
        lambda x, **a: x.repeat(2, 2).repeat(2, 3),
    ),
    "nn.depth_to_space": (
        lambda: relay.nn.depth_to_space,
        (IMAGE,),
        {"block_size": 2},
        lambda x, block_size: x.reshape(1, 2, 2, 1, 6, 6).transpose(0, 3, 4, 1, 5, 2).reshape(1, 1, 12, 12),
    ),
    "nn.l2_normalize": (
        lambda: relay.nn.l2_normalize,
        (X,),
        {"eps": 1e-6, "axis": [1]},
        lambda x, **a: x / np.sqrt((x * x).sum(1, keepdims=True)),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_value_and_type(name):
    function, operands, attrs, reference = CASES[name]
    constants = [relay.const(value) for value in operands]
    call = function()(*constants, **attrs)
    expected = reference(*operands, **attrs)
    relay.infer_type(call)
    assert call.checked_type == relay.TensorType(expected.shape, expected.dtype.name)
    value = relay.create_executor().evaluate(call).numpy()
    assert value.dtype == expected.dtype
    np.testing.assert_allclose(value, expected, 1e-5, 1e-5)


def test_convolution_and_pool_compiled():
    x, w = relay.var("x", shape=(relay.Any(), 4, 6, 6)), relay.var("w", shape=(8, 4, 3, 3))
    y = relay.nn.conv2d(x, w, channels=8, kernel_size=(3, 3), padding=(1, 1))
    y = relay.nn.max_pool2d(relay.nn.relu(y), pool_size=(2, 2), strides=(2, 2))
    mod = relay.IRModule.from_expr(relay.Function([x, w], y))
    arrays = f32(2, 4, 6, 6), f32(8, 4, 3, 3)
    results = [relay.create_executor(kind, mod).evaluate()(*arrays).numpy() for kind in ("debug", "vm")]
    assert results[0].shape == (2, 8, 3, 3)
    np.testing.assert_allclose(*results, 1e-4, 1e-4)
    assert str(mod["main"].checked_type.ret_type) == "Tensor[(?, 8, 3, 3), float32]"


def test_packed_layouts():
    """Of convolution and pools, which the plain ones of transposed data define."""
    x, w = f32(2, 1, 5, 5, 4), f32(2, 4, 3, 3, 4)
    conv = relay.nn.conv2d(
        relay.const(x), relay.const(w), channels=8, kernel_size=(3, 3), data_layout="NCHW4c", kernel_layout="OIHW4o"
    )
    pooled = relay.nn.global_avg_pool2d(relay.nn.max_pool2d(conv, (2, 2), layout="NCHW4c"), layout="NCHW4c")
    plain_x = x.transpose(0, 1, 4, 2, 3).reshape(2, 4, 5, 5)
    plain = relay.nn.conv2d(relay.const(plain_x), relay.const(w.transpose(0, 4, 1, 2, 3).reshape(8, 4, 3, 3)))
    plain = relay.nn.global_avg_pool2d(relay.nn.max_pool2d(plain, (2, 2)))
    executor = relay.create_executor()
    expected = executor.evaluate(plain).numpy().reshape(2, 2, 4, 1, 1).transpose(0, 1, 3, 4, 2)
    np.testing.assert_allclose(executor.evaluate(pooled).numpy(), expected, 1e-4, 1e-5)


def test_several_results():
    first, second = relay.split(relay.const(np.arange(6, dtype="float32")), 2)
    assert relay.create_executor().evaluate(first + second).numpy().tolist() == [3, 5, 7]
    x = relay.const(f32(2, 3))
    statistics = [relay.const(np.full(3, v, "float32")) for v in (1, 0, 0, 1)]
    y, mean, _ = relay.nn.batch_norm(x, *statistics, epsilon=0.0)
    executor = relay.create_executor()
    np.testing.assert_allclose(executor.evaluate(y).numpy(), x.data, 1e-6)
    assert executor.evaluate(mean).numpy().tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: relay.nn.dense(relay.var("x")), "E9012.*takes 2 operands, found 1"),
        (lambda: relay.nn.softmax(relay.var("x"), axes=1), "E9011.*no attribute 'axes'"),
        (lambda: relay.cast(relay.var("x")), "E9011.*'dtype' is missing"),
        (lambda: relay.nn.softmax(relay.var("x"), 1, axis=1), "E9011.*given twice"),
        (lambda: relay.nn.relu(relay.var("x"), 1), "E9012"),
    ],
)
def test_calls_that_are_wrong(call, message):
    with pytest.raises(DiagnosticError, match=f"(?s){message}"):
        call()


def test_operands_by_name():
    x, w = relay.var("x"), relay.var("w")
    assert relay.nn.dense(x, weight=w, units=3).args == (x, w)
    assert relay.nn.dense(data=x, weight=w).args == (x, w)
    assert relay.add(lhs=x, rhs=w).args == (x, w)
    assert relay.where(x, x=w, y=x).args == (x, w, x)
    y, *statistics = relay.nn.batch_norm(x, gamma=w, beta=w, moving_mean=w, moving_var=w)
    assert (len(statistics), y.index) == (2, 0)
    assert isinstance(relay.topk(x, ret_type="values"), relay.Call)
    assert len(relay.split(x, indices_or_sections=(1, 3))) == 3


def test_unknown_names():
    with pytest.raises(AttributeError, match="tvm.relay.random is not built yet"):
        relay.random
    with pytest.raises(AttributeError, match="no attribute 'frobnicate'"):
        relay.frobnicate
    with pytest.raises(AttributeError, match="no operator nn.frobnicate"):
        relay.nn.frobnicate
    assert "dense" in dir(relay.nn)


def test_what_has_no_translation_is_refused():
    with pytest.raises(DiagnosticError, match="E9050.*@main, which is called from outside and polymorphic"):
        relay.to_relax(relay.parse("def @main(%x) { %x }"))


def test_parameters_become_constants():
    x, w = relay.var("x", shape=(2, 3)), relay.var("w", shape=(4, 3))
    mod = relay.IRModule.from_expr(relay.Function([x, w], relay.nn.dense(x, w)))
    weight, data = f32(4, 3), f32(2, 3)
    executable = relay.build(mod, params={"w": weight})

    result = relax.VirtualMachine(executable)["main"](data).numpy()
    np.testing.assert_allclose(result, data @ weight.T, 1e-5, 1e-5)
