"""Operators on indices, blocks, fixed point and frequencies: values of NumPy, evaluated and compiled, and types."""

from __future__ import annotations

import numpy as np
import pytest
from relay_programs import f32

from relax import DiagnosticError, relay

X = f32(2, 3, 4)
IMAGE = f32(2, 3, 6, 5)
SPECIAL = np.array([[np.nan, np.inf], [-np.inf, -0.0]], "float32")
PLACES = np.array([[0, 5], [11, 3]], "int32")
SIGNAL = f32(2, 20)
WINDOW = np.hanning(6).astype("float32")


def banded(matrix, k):
    i, j = np.indices(matrix.shape[-2:])
    return np.where(j - i == k, 1, 0)


def transformed(n_fft, hop, window, count):
    parts = np.stack([SIGNAL[:, start : start + n_fft] * window for start in range(0, 20 - n_fft + 1, hop)], 1)
    spectrum = np.fft.fft(parts.astype("float64"))[..., :count].transpose(0, 2, 1)
    return np.stack([spectrum.real, spectrum.imag], -1).astype("float32")


CASES = {
    "slice_like": ((X, f32(1, 2, 9)), {"axes": [0, 1]}, X[:1, :2]),
    "slice_like of all": ((X, f32(2, 0, 3)), {}, X[:2, :0, :3]),
    "sequence_mask": (
        (np.ones((3, 2, 2), "float32"), np.array([1, 3], "int32")),
        {"mask_value": -1.0},
        np.array([[1, 1], [-1, 1], [-1, 1]], "float32")[..., None].repeat(2, 2),
    ),
    "sequence_mask of rows": (
        (SPECIAL, np.array([0, 5])),
        {"axis": 1},
        np.array([[0, 0], SPECIAL[1]], "float32"),
    ),
    "sliding_window": (
        (X,),
        {"axis": 1, "window_shape": [2, 3], "strides": [1, 2]},
        np.lib.stride_tricks.sliding_window_view(X, (2, 3), (1, 2))[:, ::1, ::2],
    ),
    "matrix_set_diag": (
        (f32(2, 3, 4) * 0, np.ones((2, 3), "float32")),
        {},
        np.broadcast_to(banded(X, 0), (2, 3, 4)).astype("float32"),
    ),
    "matrix_set_diag above": (
        (np.zeros((3, 4), "int32"), np.array([7, 8, 9], "int32")),
        {"k1": 1, "k2": 1},
        np.array([[0, 7, 0, 0], [0, 0, 8, 0], [0, 0, 0, 9]], "int32"),
    ),
    "matrix_set_diag of bands": (
        (np.zeros((3, 3), "int32"), np.array([[0, 1, 2], [3, 4, 5], [6, 7, 0]], "int32")),
        {"k1": -1, "k2": 1},
        np.array([[3, 1, 0], [6, 4, 2], [0, 7, 5]], "int32"),
    ),
    "adv_index": (((X, np.array([1, 0]), np.array([[2], [0]])),), {}, X[np.array([1, 0]), np.array([[2], [0]])]),
    "unravel_index": ((PLACES, np.array([3, 4], "int32")), {}, np.stack(np.unravel_index(PLACES, (3, 4))).astype("int32")),
    "invert_permutation": ((np.array([2, 0, 3, 1], "int32"),), {}, np.array([1, 3, 0, 2], "int32")),
    "searchsorted": (
        (np.array([1, 2, 2, 5], "float32"), np.array([[2, 9], [-np.inf, np.inf]], "float32")),
        {},
        np.array([[1, 4], [0, 4]], "int32"),
    ),
    "searchsorted from the right": (
        (np.array([[1, 2, 2], [0, 1, 2]], "int32"), np.array([[2, 0], [1, 2]], "int32")),
        {"right": True, "dtype": "int64"},
        np.array([[3, 0], [2, 3]], "int64"),
    ),
    "argwhere": ((np.array([[0, 3], [np.nan, 0]], "float32"),), {}, np.array([[0, 1], [1, 0]], "int32")),
    "argwhere of nothing": ((np.zeros((0, 2), "int32"),), {}, np.zeros((0, 2), "int32")),
    "ndarray_size": ((X,), {"dtype": "int64"}, np.array(24, "int64")),
    "contrib_reverse_reshape": ((X,), {"newshape": [-1, 0]}, X.reshape(6, 4)),
    "einsum": (((f32(2, 3) * 0 + 1, f32(3, 2) * 0 + 2),), {"equation": "ij,jk->ik"}, np.full((2, 2), 6, "float32")),
    "trunc_divide": ((np.array([7, -7, 7], "int32"), np.array([2, 2, -2], "int32")), {}, np.array([3, -3, -3], "int32")),
    "trunc_divide of floats": ((np.array([7, -7, np.inf], "float32"), np.float32(2)), {}, np.array([3, -3, np.inf], "float32")),
    "trunc_mod": ((np.array([7, -7, 7], "int32"), np.array([4, 4, -4], "int32")), {}, np.array([3, -3, 3], "int32")),
    "fixed_point_multiply": (
        (np.array([10, -10, 3, 2**31 - 1], "int32"),),
        {"multiplier": 2**30, "shift": 0},
        np.array([5, -5, 2, 2**30], "int32"),
    ),
    "fixed_point_multiply, shifted": (
        (np.array([10, -10, 3], "int32"),),
        {"multiplier": 2**30, "shift": -2},
        np.array([1, -1, 0], "int32"),
    ),
    "fixed_point_multiply_per_axis": (
        (
            np.array([[[4], [4]], [[-4], [-4]]], "int32"), np.array([2**30, 2**29], "int32"),
            np.array([1, 0], "int32"), np.array([0, 1], "int32"),
        ),
        {"is_lshift_required": True, "is_rshift_required": True, "axes": [1]},
        np.array([[[4], [1]], [[-4], [0]]], "int32"),
    ),
    "qnn.quantize": (
        (np.array([0.4, 1.0, 99, np.nan], "float32"), np.float32(0.5), np.int32(1)),
        {},
        np.array([2, 3, 127, 0], "int8"),
    ),
    "qnn.dequantize": (
        (np.array([[1, 3], [-128, 1]], "int8"), np.array([0.5, 2], "float32"), np.array([1, 1], "int32")),
        {"axis": 0},
        np.array([[0, 1], [-258, 0]], "float32"),
    ),
    "dft": ((SIGNAL, SIGNAL * 0), {}, [np.fft.fft(SIGNAL).real.astype("float32"), np.fft.fft(SIGNAL).imag.astype("float32")]),
    "dft back": (
        (SIGNAL, SIGNAL[::-1]),
        {"inverse": True},
        [part(np.fft.ifft(SIGNAL + 1j * SIGNAL[::-1])).astype("float32") for part in (np.real, np.imag)],
    ),
    "stft": (
        (SIGNAL, WINDOW),
        {"n_fft": 8, "hop_length": 3, "win_length": 6},
        transformed(8, 3, np.pad(WINDOW, 1), 5),
    ),
    "stft of both sides": (
        (SIGNAL, WINDOW),
        {"n_fft": 6, "hop_length": 2, "win_length": 6, "onesided": False, "normalized": True},
        transformed(6, 2, WINDOW, 6) / np.float32(np.sqrt(6)),
    ),
    "unique": (
        (np.array([3, 1, 3, 2], "int32"),),
        {"return_counts": True},
        [np.array(v, "int32") for v in ([1, 2, 3], [1, 3, 0], [2, 0, 2, 1], [3], [1, 1, 2])],
    ),
    "unique, in order": (
        (np.array([3, 1, 3], "int32"),),
        {"sorted": False},
        [np.array(v, "int32") for v in ([3, 1], [0, 1], [0, 1, 0], [2])],
    ),
    "nn.space_to_batch_nd": (
        (np.arange(16, dtype="float32").reshape(1, 4, 4, 1),),
        {"block_shape": [2, 2], "paddings": [[0, 0], [0, 0]]},
        np.arange(16, dtype="float32").reshape(2, 2, 2, 2).transpose(1, 3, 0, 2).reshape(4, 2, 2, 1),
    ),
    "nn.batch_to_space_nd": (
        (np.arange(16, dtype="float32").reshape(4, 2, 2, 1),),
        {"block_shape": [2, 2], "crops": [[0, 1], [2, 0]]},
        np.arange(16, dtype="float32").reshape(2, 2, 2, 2).transpose(2, 0, 3, 1).reshape(1, 4, 4, 1)[:, :3, 2:],
    ),
    "nn.space_to_batch_nd, padded": (
        (np.ones((1, 3, 2), "float32"),),
        {"block_shape": [2], "paddings": [[0, 1]], "pad_value": 5.0},
        np.array([[[1, 1], [1, 1]], [[1, 1], [5, 5]]], "float32"),
    ),
    "nn.dilate": (
        (np.array([[1, 2], [3, 4]], "float32"),),
        {"strides": [1, 3], "dilation_value": 9.0},
        np.array([[1, 9, 9, 2], [3, 9, 9, 4]], "float32"),
    ),
    "nn.dilate one": ((np.ones((1, 0), "float32"),), {"strides": [2, 2]}, np.ones((1, 0), "float32")),
    "nn.fifo_buffer": ((X[:, :2], X[:, ::-1]), {"axis": 1}, np.concatenate([X[:, ::-1], X[:, :2]], 1)[:, 2:]),
    "nn.adaptive_max_pool2d": (
        (IMAGE,),
        {"output_size": [2, 3]},
        np.stack(
            [np.stack([IMAGE[:, :, a:b, c:d].max((2, 3)) for c, d in ((0, 2), (1, 4), (3, 5))], -1) for a, b in ((0, 3), (3, 6))],
            2,
        ),
    ),
    "nn.adaptive_max_pool1d": ((X,), {"output_size": 1}, X.max(2, keepdims=True)),
    "nn.adaptive_max_pool3d": ((IMAGE[None],), {}, IMAGE[None]),
    "nn.cross_entropy": (
        (np.array([[0.5, 0.5], [0.25, 0.75]], "float32"), np.array([[1, 0], [0, 1]], "float32")),
        {},
        np.array(-(np.log(0.5) + np.log(0.75)) / 2, "float32"),
    ),
    "nn.upsampling3d": (
        (IMAGE[None],),
        {"scale_d": 2.0, "scale_w": 3.0, "coordinate_transformation_mode": "asymmetric"},
        IMAGE[None].repeat(2, 2).repeat(3, 4),
    ),
    "nn.upsampling by a half": ((IMAGE,), {"scale_h": 0.5}, IMAGE[:, :, ::2]),
    "image.resize1d": (
        (X,),
        {"size": 8, "method": "nearest_neighbor", "coordinate_transformation_mode": "asymmetric"},
        X.repeat(2, 2),
    ),
    "image.resize1d of a region": (
        (np.arange(5, dtype="float32")[None, None],),
        {"size": [3], "roi": [0.25, 0.75], "coordinate_transformation_mode": "tf_crop_and_resize"},
        np.array([[[1, 2, 3]]], "float32"),
    ),
    "image.resize3d": (
        (IMAGE[:1, None],),
        {"size": [6, 6, 5], "method": "nearest_neighbor", "coordinate_transformation_mode": "asymmetric"},
        IMAGE[:1, None].repeat(2, 2),
    ),
    "vision.roi_align": (
        (np.arange(16, dtype="float32").reshape(1, 1, 4, 4), np.array([[0, 0, 0, 2, 2]], "float32")),
        {"pooled_size": [1, 1], "spatial_scale": 1.0, "sample_ratio": 1},
        np.full((1, 1, 1, 1), 5, "float32"),
    ),
    "nn.deformable_conv2d": (
        (IMAGE, np.zeros((2, 2, 6, 5), "float32"), np.ones((1, 3, 1, 1), "float32")),
        {"channels": 1, "kernel_size": [1, 1]},
        IMAGE.sum(1, keepdims=True),
    ),
    "sparse_to_dense": (
        (np.array([3, 0]), f32(2) * 0 + np.float32(2), np.float32(np.nan)),
        {"output_shape": [4]},
        np.array([2, np.nan, np.nan, 2], "float32"),
    ),
    "topk of all": ((X,), {"k": 0, "ret_type": "values"}, -np.sort(-X, 2)),
}  # fmt: skip


def name_of(case):
    return case.split(",")[0].split(" ")[0]


def variables(operand, name):
    """An operand as variables: a tuple becomes a tuple of them."""
    if isinstance(operand, tuple):
        return relay.Tuple([variables(part, f"{name}_{i}") for i, part in enumerate(operand)])
    return relay.var(name, shape=np.shape(operand), dtype=np.asarray(operand).dtype.name)


def flat(operands):
    return [part for operand in operands for part in (operand if isinstance(operand, tuple) else (operand,))]


@pytest.mark.parametrize("case", CASES)
def test_values_evaluated_and_compiled(case):
    operands, attrs, expected = CASES[case]
    expected = expected if isinstance(expected, list) else [expected]
    parts = [variables(operand, f"x{i}") for i, operand in enumerate(operands)]
    params = [
        part for operand in parts for part in (operand.fields if isinstance(operand, relay.Tuple) else (operand,))
    ]
    call = relay.call_operator(name_of(case), *parts, **attrs)
    mod = relay.transform.InferType()(relay.IRModule.from_expr(relay.Function(params, call)))
    type_ = mod["main"].checked_type.ret_type
    types = type_.fields if isinstance(type_, relay.TupleType) else (type_,)
    assert [(len(t.shape), t.dtype) for t in types] == [(e.ndim, e.dtype.name) for e in expected]
    for kind in ("debug", "vm"):
        found = relay.create_executor(kind, mod).evaluate()(*flat(operands))
        found = found if isinstance(found, (tuple, list)) else [found]
        for value, right in zip(found, expected, strict=True):
            assert value.numpy().shape == right.shape
            np.testing.assert_allclose(value.numpy(), right, 1e-5, 1e-5)


@pytest.mark.parametrize(
    ("text", "argument", "expected"),
    [
        (
            "fn(%x: Tensor[(?, 4), float32]) { nn.space_to_batch_nd(%x, block_shape=[2], paddings=[[0, 0]]) }",
            X[0],
            np.concatenate([X[0, :, ::2], X[0, :, 1::2]]),
        ),
        (
            "fn(%x: Tensor[(?, ?), float32]) { sliding_window(%x, axis=1, window_shape=[2], strides=[2]) }",
            X[0],
            X[0].reshape(3, 2, 2),
        ),
        ("fn(%x: Tensor[(?, ?), float32]) { nn.dilate(%x, strides=[2, 1]) }", X[0, :1], X[0, :1]),
        ("fn(%x: Tensor[(1, ?, ?), float32]) { nn.adaptive_max_pool1d(%x, output_size=2) }", X[:1], X[:1].reshape(1, 3, 2, 2).max(3)),
        ("fn(%x: Tensor[(?, ?), float32]) { ndarray_size(%x) }", X[0, :0], np.array(0, "int32")),
    ],
)  # fmt: skip
def test_dimensions_that_are_not_known(text, argument, expected):
    mod = relay.IRModule.from_expr(relay.parse_expr(text))
    for kind in ("debug", "vm"):
        np.testing.assert_array_equal(relay.create_executor(kind, mod).evaluate()(argument).numpy(), expected)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("slice_like(%x, %y)", "dimension 0 has 2 elements, 9 are to be taken"),
        ("sequence_mask(%x, %x, axis=2)", "the axis be 0 or 1"),
        ("sliding_window(%x, axis=0, window_shape=[1], strides=[1])", "one number for each of 2 dimensions"),
        ("matrix_set_diag(%x, %x, k1=1)", "the bands 1 to 0 are not in matrices of 2 rows and 3 columns"),
        ("adv_index((%x,))", "a tuple of the data and of indices"),
        ("searchsorted(%x, %v)", "as many as there are rows"),
        ("fixed_point_multiply(%x, multiplier=1, shift=0)", "the data must be int32, found float32"),
        ("nn.dilate(%x, strides=[2])", "strides has 1 numbers for 2 dimensions"),
        ("nn.space_to_batch_nd(%x, block_shape=[2], paddings=[[0, 0]])", "3 padded elements are no multiple"),
        ("nn.batch_to_space_nd(%x, block_shape=[3], crops=[[0, 0]])", "a batch of 2 is no multiple of blocks of 3"),
        ('nn.deformable_conv2d(%x, %x, %x, data_layout="NHWC")', "only the layouts NCHW and OIHW"),
        ("nn.upsampling3d(%x)", "nn.upsampling3d"),
    ],
)
def test_what_cannot_be_is_refused(call, message):
    params = "%x: Tensor[(2, 3), float32], %y: Tensor[(9, 1), float32], %v: Tensor[(4), float32]"
    with pytest.raises(DiagnosticError, match=f"E9013.*{message}") as error:
        relay.infer_type(relay.parse_expr(f"fn({params}) {{ {call} }}"))
    assert error.value.diagnostics[0].span is not None


def test_composites():
    x = relay.const(X)
    executor = relay.create_executor()
    mean, std = executor.evaluate(relay.mean_std(x, 1, True))
    np.testing.assert_allclose(mean.numpy(), X.mean(1, keepdims=True), 1e-6)
    np.testing.assert_allclose(std.numpy(), X.std(1, keepdims=True), 1e-5)
    np.testing.assert_allclose(executor.evaluate(relay.std(x)).numpy(), X.std(), 1e-5)
    mean, variance = executor.evaluate(relay.mean_variance(x, [0, 2]))
    np.testing.assert_allclose(mean.numpy(), X.mean((0, 2)), 1e-5, 1e-6)
    np.testing.assert_allclose(variance.numpy(), X.var((0, 2)), 1e-5)
    np.testing.assert_allclose(executor.evaluate(relay.variance(x, 0)).numpy(), X.var(0), 1e-5)
    np.testing.assert_allclose(
        executor.evaluate(relay.variance(x, 0, with_mean=relay.mean(x, 0, True))).numpy(), X.var(0), 1e-5
    )
    rows = relay.segment_sum(
        relay.const(np.arange(6, dtype="float32").reshape(3, 2)), relay.const(np.array([1, 0, 1])), 3
    )
    assert executor.evaluate(rows).numpy().tolist() == [[2, 3], [4, 6], [0, 0]]
    assert relay.infer_type(relay.reverse_reshape(x, [-1, 0])).checked_type == relay.TensorType((6, 4))
