"""Operators called with the argument names of TVM, and compared with NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from relax import op
from relax.script import relax as R
from support import numbers, run


def called(make, *arrays):
    """The values of a program whose one call `make` builds from its parameters."""
    bb = relax.BlockBuilder()
    params = [relax.Var(f"x{i}", relax.TensorStructInfo(a.shape, a.dtype.name)) for i, a in enumerate(arrays)]
    with bb.function("main", params):
        bb.emit_func_output(bb.emit(make(*params)))
    return run(bb.get(), *arrays)


A = numbers(2, 3, 4)
B = numbers(2, 4, 5, seed=1)
I = np.array([[3, 1, 2], [0, 2, 2]], "int64")


CASES = {
    "astype": (lambda x: op.astype(x=x, dtype="float16"), [A], lambda a: a.astype("float16")),
    "arange": (lambda x: op.arange(start=1, end=9, step=2, dtype="int64"), [A], lambda a: np.arange(1, 9, 2)),
    "arange one": (lambda x: op.arange(4, dtype="int64"), [A], lambda a: np.arange(4)),
    "full": (
        lambda x: op.full(shape=(2, 3), fill_value=relax.const(1.5, "float32"), dtype="float32"),
        [A],
        lambda a: np.full((2, 3), 1.5, "float32"),
    ),
    "full_like": (
        lambda x: op.full_like(x=x, fill_value=relax.const(2, "float32"), dtype="float32"),
        [A],
        lambda a: np.full_like(a, 2),
    ),
    "ones": (lambda x: op.ones(shape=(2,), dtype="float32"), [A], lambda a: np.ones(2, "float32")),
    "ones ShapeExpr": (lambda x: op.ones(relax.ShapeExpr([2, 2]), "int32"), [A], lambda a: np.ones((2, 2), "int32")),
    "zeros_like": (lambda x: op.zeros_like(x=x, dtype="int8"), [A], lambda a: np.zeros_like(a, "int8")),
    "clip": (lambda x: op.clip(x=x, min=-0.5, max=0.5), [A], lambda a: a.clip(-0.5, 0.5)),
    "clip PrimValue": (
        lambda x: op.clip(x, relax.PrimValue(-0.5), relax.PrimValue(0.5)),
        [A],
        lambda a: a.clip(-0.5, 0.5),
    ),
    "matmul": (lambda x, y: op.matmul(x1=x, x2=y, out_dtype="float32"), [A, B], np.matmul),
    "matmul void": (lambda x, y: op.matmul(x, y, out_dtype="void"), [A, B], np.matmul),
    "linear": (
        lambda x, w: op.linear(data=x, weight=w, bias=None, out_dtype=None),
        [A, np.ones((7, 4), "float32")],
        lambda a, w: a @ w.T,
    ),
    "concat": (lambda x, y: op.concat(tensors=[x, y], axis=1), [A, A], lambda a, b: np.concatenate([a, b], 1)),
    "concat Tuple": (
        lambda x, y: op.concat(relax.Tuple([x, y]), axis=-1),
        [A, A],
        lambda a, b: np.concatenate([a, b], -1),
    ),
    "expand_dims": (lambda x: op.expand_dims(x=x, axis=[0, 2]), [A], lambda a: np.expand_dims(a, (0, 2))),
    "flatten": (lambda x: op.flatten(x=x), [A], lambda a: a.reshape(-1)),
    "permute_dims": (lambda x: op.permute_dims(x=x, axes=[2, 0, 1]), [A], lambda a: a.transpose(2, 0, 1)),
    "permute_dims None": (lambda x: op.permute_dims(x), [A], lambda a: a.transpose()),
    "reshape": (lambda x: op.reshape(x=x, shape=(4, -1)), [A], lambda a: a.reshape(4, -1)),
    "reshape ShapeExpr": (lambda x: op.reshape(x, relax.ShapeExpr([24])), [A], lambda a: a.reshape(24)),
    "squeeze": (lambda x: op.squeeze(x=x, axis=[0]), [A[:1]], lambda a: a[0]),
    "squeeze one": (lambda x: op.squeeze(x, axis=0), [A[:1]], lambda a: a[0]),
    "stack": (lambda x, y: op.stack(tensors=[x, y], axis=1), [A, A], lambda a, b: np.stack([a, b], 1)),
    "strided_slice": (
        lambda x: op.strided_slice(x=x, axes=[1, 2], begin=[0, 3], end=[2, 0], strides=[1, -1]),
        [A],
        lambda a: a[:, 0:2, 3:0:-1],
    ),
    "take": (lambda x, i: op.take(x=x, indices=i, axis=2), [A, I], lambda a, i: np.take(a, i, 2)),
    "take mode": (
        lambda x, i: op.take(x, i, axis=2, mode="clip"),
        [A, I + 2],
        lambda a, i: np.take(a, i, 2, mode="clip"),
    ),
    "repeat": (lambda x: op.repeat(data=x, repeats=2, axis=1), [A], lambda a: np.repeat(a, 2, 1)),
    "tile": (lambda x: op.tile(data=x, repeats=(2, 1, 1)), [A], lambda a: np.tile(a, (2, 1, 1))),
    "flip": (lambda x: op.flip(data=x, axis=1), [A], lambda a: np.flip(a, 1)),
    "broadcast_to": (
        lambda x: op.broadcast_to(x=x, shape=(5, 2, 3, 4)),
        [A],
        lambda a: np.broadcast_to(a, (5, 2, 3, 4)),
    ),
    "sum": (lambda x: op.sum(x=x, axis=[0, 2], keepdims=True), [A], lambda a: a.sum((0, 2), keepdims=True)),
    "sum all": (lambda x: op.sum(x), [A], lambda a: a.sum()),
    "mean": (lambda x: op.mean(x=x, axis=1, keepdims=False), [A], lambda a: a.mean(1)),
    "max": (lambda x: op.max(x=x, axis=-1), [A], lambda a: a.max(-1)),
    "min": (lambda x: op.min(x=x, axis=None), [A], lambda a: a.min()),
    "prod": (lambda x: op.prod(x=x, axis=0), [A], lambda a: a.prod(0)),
    "argmax": (lambda x: op.argmax(x=x, axis=1, keepdims=True), [A], lambda a: a.argmax(1)[:, None]),
    "argmin": (lambda x: op.argmin(x=x), [A], lambda a: a.argmin()),
    "cumsum": (lambda x: op.cumsum(data=x, axis=1, dtype="float32"), [A], lambda a: a.cumsum(1)),
    "cumsum exclusive": (lambda x: op.cumsum(x, axis=2, exclusive=True), [A], lambda a: a.cumsum(2) - a),
    "where": (
        lambda c, x: op.where(condition=c, x1=x, x2=relax.const(0, "float32")),
        [A > 0, A],
        lambda c, a: np.where(c, a, 0),
    ),
    "logical_not": (lambda x: op.logical_not(x=x), [A > 0], np.logical_not),
    "power": (lambda x: op.power(x1=x, x2=relax.const(2, "float32")), [A], lambda a: a**2),
    "floor_mod": (lambda x, y: op.floor_mod(x1=x, x2=y), [I, I + 1], lambda a, b: a % b),
    "nonzero": (lambda x: op.nonzero(x=x), [I], lambda a: np.array(np.nonzero(a))),
    "nn.relu": (lambda x: op.nn.relu(data=x), [A], lambda a: np.maximum(a, 0)),
    "nn.silu": (lambda x: op.nn.silu(data=x), [A], lambda a: a / (1 + np.exp(-a))),
    "nn.layer_norm": (
        lambda x, g, b: op.nn.layer_norm(data=x, gamma=g, beta=b, axes=[-1], epsilon=1e-5, center=True, scale=True),
        [A, np.ones(4, "float32"), np.zeros(4, "float32")],
        lambda a, g, b: (a - a.mean(-1, keepdims=True)) / np.sqrt(a.var(-1, keepdims=True) + 1e-5),
    ),
    "nn.softmax": (lambda x: op.nn.softmax(data=x, axis=1), [A], lambda a: np.exp(a) / np.exp(a).sum(1, keepdims=True)),
    "nn.log_softmax": (
        lambda x: op.nn.log_softmax(data=x, axis=-1),
        [A],
        lambda a: a - np.log(np.exp(a).sum(-1, keepdims=True)),
    ),
    "nn.max_pool2d": (
        lambda x: op.nn.max_pool2d(
            data=x,
            pool_size=[2, 2],
            strides=[1, 1],
            padding=[0, 0],
            dilation=[1, 1],
            ceil_mode=False,
            layout="NCHW",
            out_layout=None,
        ),
        [A[None]],
        lambda a: np.lib.stride_tricks.sliding_window_view(a, (2, 2), (2, 3)).max((-2, -1)),
    ),
    "nn.avg_pool2d": (
        lambda x: op.nn.avg_pool2d(data=x, pool_size=2, strides=1, padding=0, ceil_mode=False, count_include_pad=False),
        [A[None]],
        lambda a: np.lib.stride_tricks.sliding_window_view(a, (2, 2), (2, 3)).mean((-2, -1)),
    ),
    "nn.conv2d": (
        lambda x, w: op.nn.conv2d(
            data=x,
            weight=w,
            strides=(1, 1),
            padding=(0, 0, 0, 0),
            dilation=(1, 1),
            groups=1,
            data_layout="NCHW",
            kernel_layout="OIHW",
            out_layout="NCHW",
            out_dtype="float32",
        ),
        [A[None], np.ones((6, 2, 1, 1), "float32")],
        lambda a, w: np.einsum("nchw,ocij->nohw", a, w),
    ),
    "nn.attention": (
        lambda q: op.nn.attention(query=q, key=q, value=q, bias=None, scale=1.0, causal_mask=None),
        [A[None]],
        None,
    ),
    "nn.gelu": (lambda x: op.nn.gelu(data=x), [A], None),
    "nn.gelu_tanh": (lambda x: op.nn.gelu_tanh(data=x), [A], None),
}


@pytest.mark.parametrize("name", CASES)
def test_operator(name):
    make, arrays, expected = CASES[name]
    out = called(make, *arrays)
    if expected is not None:
        np.testing.assert_allclose(out, expected(*arrays), rtol=2e-4, atol=1e-5)


def test_split():
    for sections in (2, [1, 3]):
        out = called(lambda x, s=sections: op.split(x=x, indices_or_sections=s, axis=2), A)
        expected = np.split(A, sections, 2)
        assert len(out) == len(expected)
        for got, want in zip(out, expected, strict=True):
            np.testing.assert_array_equal(got, want)


def test_unique():
    out = called(lambda x: op.unique(x=x, sorted=True, return_index=False, return_inverse=False, axis=None), I)
    np.testing.assert_array_equal(out, np.unique(I))
    values, counts = called(lambda x: op.unique(x, return_counts=True), I)
    np.testing.assert_array_equal(counts, np.unique(I, return_counts=True)[1])


def test_batch_norm_and_dropout():
    g, b, m, v = (np.full(3, c, "float32") for c in (2, 1, 0.5, 4))
    out = called(
        lambda x, gamma, beta, mean, var: op.nn.batch_norm(
            data=x,
            gamma=gamma,
            beta=beta,
            moving_mean=mean,
            moving_var=var,
            axis=1,
            epsilon=1e-5,
            center=True,
            scale=True,
            momentum=0.1,
        ),
        A,
        g,
        b,
        m,
        v,
    )
    np.testing.assert_allclose(out[0], (A - 0.5) / np.sqrt(4 + 1e-5) * 2 + 1, rtol=1e-4)
    assert len(called(lambda x: op.nn.dropout(data=x, rate=0.5), A)) == 2


def test_shapes_as_values():
    out = called(lambda x: op.shape_to_tensor(expr=op.shape_of(expr=x)), A)
    np.testing.assert_array_equal(out, [2, 3, 4])
    assert list(called(lambda t: op.tensor_to_shape(expr=t), np.array([2, 5], "int64"))) == [2, 5]


def test_pool_takes_every_keyword():
    out = called(lambda x: op.nn.max_pool2d(x, pool_size=(1, 1), count_include_pad=False), A[None])
    np.testing.assert_array_equal(out, A[None])


def test_allocations():
    call = op.builtin.alloc_tensor(relax.ShapeExpr([2, 2]), dtype="float32", runtime_device_index=0)
    assert call.op.name == "relax.builtin.alloc_tensor"
    assert op.memory.alloc_storage(relax.ShapeExpr([64]), 0, "global", "uint8").op.name
    storage = relax.Var("s", relax.ObjectStructInfo())
    assert op.memory.alloc_tensor(storage, 0, relax.ShapeExpr([2]), "float32").op.name
    assert op.vm.alloc_tensor(storage, 0, relax.ShapeExpr([2]), "float32").op.name


def test_struct_info_arguments():
    x = relax.Var("x", R.Tensor((2,), "float32"))
    assert op.call_pure_packed("f", x, sinfo_args=R.Tensor((2,), "float32")).sinfo_args[0].ndim == 1
    call = op.invoke_closure(relax.Var("c", R.Object()), args=relax.Tuple([x]), sinfo_args=R.Tensor((2,), "float32"))
    assert call.op.name == "relax.invoke_closure"
    assert op.call_inplace_packed("f", x, inplace_indices=[0], sinfo_args=[R.Tensor((2,), "float32")])
    assert op.call_builtin_with_ctx("vm.builtin.copy", [x], sinfo_args=[R.Object()])
    assert op.make_closure(relax.GlobalVar("f"), args=(x,))
    assert op.null_value().op.name == "relax.null_value"
    assert op.print(x, format="{}").op.name == "relax.print"
    condition = relax.Var("c", R.Tensor((), "bool"))
    assert len(op.assert_op(condition, format_args=[x], format="{}").args) >= 2
    assert len(op.assert_op(condition, x, format="{}").args) >= 2
    device = relax.ir.VDevice("llvm")
    assert op.to_vdevice(data=x, dst_vdevice=device).op.name == "relax.to_vdevice"
    assert op.hint_on_device(data=x, dst_vdevice=device).op.name == "relax.hint_on_device"


def test_concat_without_an_axis_and_sums_that_keep_dimensions():
    a, b = relax.Var("a", R.Tensor((2,), "float32")), relax.Var("b", R.Tensor(("n",), "float32"))
    x = relax.Var("x", R.Tensor(ndim=3, dtype="float32"))
    m = relax.Var("m", R.Tensor((2, 2), "float32"))
    bb = relax.BlockBuilder()
    with bb.function("main", [a, b, x]):
        joined = bb.emit(relax.op.concat([a, b], axis=None))
        total = bb.emit(relax.op.sum(x, keepdims=True))
        named = bb.emit(relax.op.max(x, axis=[0, -1, 1], keepdims=True))
        bb.emit_func_output(relax.Tuple([joined, total, named]))
    n = b.struct_info.shape[0]
    assert joined.struct_info == R.Tensor((2 + n,), "float32")
    assert total.struct_info == named.struct_info == R.Tensor((1, 1, 1), "float32")
    arrays = np.zeros(2, "float32"), np.ones(3, "float32"), np.ones((2, 3, 4), "float32")
    assert [part.tolist() for part in run(bb.get(), *arrays)] == [[0, 0, 1, 1, 1], [[[24]]], [[[1]]]]
    with pytest.raises(relax.TVMError, match="tensors must have one dimension where axis is None, found 2"):
        relax.op.concat([m, m], axis=None)


def test_packed_layouts():
    """TVM's layouts with split channels, as its operators take them."""
    x = relax.Var("x", R.Tensor((1, 1, 8, 8, 16), "float32"))
    w = relax.Var("w", R.Tensor((2, 1, 3, 3, 16, 16), "float32"))
    bb = relax.BlockBuilder()
    conv = relax.op.nn.conv2d(x, w, data_layout="NCHW16c", kernel_layout="OIHW16i16o", out_layout="NHWC16c")
    assert bb.normalize(conv).struct_info == R.Tensor((1, 6, 6, 2, 16), "float32")
    pool = relax.op.nn.max_pool2d(x, (2, 2), layout="NCHW16c")
    assert bb.normalize(pool).struct_info == R.Tensor((1, 1, 7, 7, 16), "float32")
    plain = relax.Var("x", R.Tensor((1, 16, 8, 8), "float32"))
    with pytest.raises(relax.DiagnosticError, match=r"data must have 5 dimensions \(NCHW16c\), found 4"):
        bb.normalize(relax.op.nn.conv2d(plain, w, data_layout="NCHW16c", kernel_layout="OIHW16i16o"))
