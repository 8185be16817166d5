"""nn.Tensor and nn.Parameter: construction, description, operators, data, and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest
from nn_programs import body_of, computed, exported

import relax
from relax import nd, tir
from relax.frontend import nn
from relax.frontend.nn import Tensor
from relax.ir import DiagnosticError

X = np.random.default_rng(3).standard_normal((2, 3)).astype("float32")


def test_placeholders_have_sizes_and_shape_variables():
    n = tir.Var("n", "int64")
    x = Tensor.placeholder(("m", n, 3), "float16", name="x")
    assert (x.ndim, x.dtype) == (3, "float16")
    assert [str(size) for size in x.shape] == ["m", "n", "3"]
    assert x.shape[1] is n
    assert x.shape[2] == 3
    assert isinstance(x.shape[2], int)
    assert repr(x) == 'Tensor([m, n, 3], "float16")'


def test_constants():
    assert repr(Tensor.from_const(np.zeros((2, 2), "int8"))) == 'Tensor([2, 2], "int8")'
    assert repr(Tensor.from_const(1.5)) == 'Tensor([], "float32")'
    assert repr(Tensor.from_scalar(1, "int64")) == 'Tensor([], "int64")'
    with pytest.raises((ValueError, OverflowError, DiagnosticError)):
        Tensor.from_scalar(300, "int8")


def test_struct_infos():
    x = Tensor.from_struct_info(relax.TensorStructInfo((2, 3), "int32"), "x")
    assert (repr(x), x._expr.name_hint) == ('Tensor([2, 3], "int32")', "x")


def test_only_tensors_are_tensors():
    with pytest.raises(TypeError, match="needs an expression with TensorStructInfo, found struct info ShapeStructInfo"):
        Tensor(_expr=relax.ShapeExpr([1]))


def test_unknown_shapes():
    x = Tensor.from_struct_info(relax.TensorStructInfo(None, "int32", ndim=2))
    assert (x.ndim, repr(x)) == (2, 'Tensor([?], "int32")')
    with pytest.raises(ValueError, match="is not known when the program is built"):
        x.shape


OPERATORS = {
    "x + 1": lambda x, y: x + 1,
    "1 + x": lambda x, y: 1 + x,
    "x - y": lambda x, y: x - y,
    "2 - x": lambda x, y: 2 - x,
    "x * y": lambda x, y: x * y,
    "3 * x": lambda x, y: 3 * x,
    "x / y": lambda x, y: x / y,
    "1 / x": lambda x, y: 1 / x,
    "-x": lambda x, y: -x,
    "x // 0.5": lambda x, y: x // 0.5,
    "abs": lambda x, y: (x * x) ** 0.5,
    "x < y": lambda x, y: x < y,
    "x <= 0": lambda x, y: x <= 0,
    "x > y": lambda x, y: x > y,
    "x >= y": lambda x, y: x >= y,
    "x @ y": lambda x, y: x @ y.reshape(3, 2),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_compute_what_those_of_arrays_do(name):
    function = OPERATORS[name]
    y = X[::-1].copy()
    (found,) = computed(lambda x, y: function(x, y), X, y)
    np.testing.assert_allclose(found, function(X, y), rtol=1e-5)


def test_numbers_have_the_dtype_of_the_tensor():
    assert body_of(exported(lambda x: 2 * x.astype("int32"), X))[1] == 'mul = R.multiply(R.const(2, "int32"), astype)'


def test_conditions_are_no_python_values():
    def forward(x):
        return x if x > 0 else -x

    with pytest.raises(TypeError, match=r"are not known when the program is built, so no `if` can ask for them"):
        exported(forward, X)
    assert Tensor.placeholder((1,), "float32")


def test_methods():
    def forward(x):
        return (
            x.reshape(3, -1), x.reshape((1, 6)), x.permute_dims(1, 0), x.permute_dims(), x.repeat(2, axis=0),
            x.maximum(0), x.minimum(x * 2), x.astype("float32"), x.reshape(1, 2, 3).expand(2, 2, 3),
        )  # fmt: skip

    expected = [
        X.reshape(3, 2), X.reshape(1, 6), X.T, X.T, X.repeat(2, 0), np.maximum(X, 0), np.minimum(X, 2 * X), X,
        np.broadcast_to(X, (2, 2, 3)),
    ]  # fmt: skip
    for found, wanted in zip(computed(forward, X), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-6)


# ------------------------------------------------------------------------------------ parameters


def test_data_of_parameters():
    param = nn.Parameter((2, 3))
    assert (param.data, param.has_data, param.dtype) == (None, False, "float32")
    param.data = X
    np.testing.assert_array_equal(param.data.numpy(), X)
    tensor = nd.array(X * 2)
    param.data = tensor
    assert param.data.same_as(tensor)
    param.data = None
    assert not param.has_data


def test_data_that_come_when_they_are_read():
    calls = []
    param = nn.Parameter((2, 3))
    param.data = lambda: calls.append(1) or X
    assert param.has_data
    assert not calls
    for _ in range(2):
        np.testing.assert_array_equal(param.data.numpy(), X)
    assert len(calls) == 1


def test_views_of_files_are_read_when_they_are_needed():
    param, view = nn.Parameter((2, 3)), X.copy()
    view.flags.writeable = False
    param.data = view
    view.flags.writeable = True
    view[:] = 7
    assert param.data.numpy().tolist() == [[7] * 3] * 2
    other = X.copy()
    param.data = other
    other[:] = 7
    np.testing.assert_array_equal(param.data.numpy(), X)
    view.flags.writeable = False
    with pytest.raises(ValueError, match="cannot have data of shape"):
        nn.Parameter((3, 3)).data = view


@pytest.mark.parametrize(
    ("shape", "data", "error", "message"),
    [
        ((2, 4), X, ValueError, r'Tensor\(\[2, 4\], "float32"\) cannot have data of shape \[2, 3\]'),
        ((2, 3), X.astype("float16"), TypeError, r"of dtype float16; convert the data, or call to\('float16'\)"),
        (("n", "n"), X, ValueError, r"cannot have data of shape \[2, 3\]"),
        ((2,), X, ValueError, r"cannot have data of shape \[2, 3\]"),
    ],
)
def test_data_that_do_not_fit(shape, data, error, message):
    param = nn.Parameter(shape)
    with pytest.raises(error, match=message):
        param.data = data
    param.data = lambda: data
    with pytest.raises(error, match=message):
        param.data


def test_data_of_open_sizes():
    param = nn.Parameter(("n", 3, "n"))
    param.data = np.zeros((2, 3, 2), "float32")
    assert param.data.shape == (2, 3, 2)


def test_dtypes():
    param = nn.Parameter((2, 3), "float32")
    param.to("float16")
    assert param.dtype == "float16"
    param.data = X.astype("float16")
    with pytest.raises(ValueError, match=r"has data, which to\('float32'\) does not convert"):
        param.to("float32")


def test_default_dtype():
    try:
        nn.set_default_dtype("float16")
        assert (nn.get_default_dtype(), nn.Parameter((1,)).dtype) == ("float16", "float16")
        with pytest.raises((ValueError, TypeError)):
            nn.set_default_dtype("float17")
    finally:
        nn.set_default_dtype("float32")


def test_attributes_are_the_users():
    param = nn.Parameter((2,))
    param.attrs["shard_strategy"] = "rows"
    assert param.attrs == {"shard_strategy": "rows"}
