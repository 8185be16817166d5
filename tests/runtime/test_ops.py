"""Operators that run as packed functions."""

from __future__ import annotations

import numpy as np
import pytest

from relax.runtime import ShapeTuple, get_global_func, nd

run = {name: get_global_func(f"relax.run.{name}") for name in ("unique", "nonzero", "print", "assert_op")}


@pytest.mark.parametrize("shape", [(), (0,), (1,), (9,), (4, 5)])
@pytest.mark.parametrize("dtype", ["int32", "float32", "bool", "uint8"])
def test_unique_and_nonzero(dtype, shape):
    x = np.asarray(np.random.default_rng(1).integers(0, 4, shape)).astype(dtype)
    np.testing.assert_array_equal(run["unique"](x).numpy(), np.unique(x))
    assert run["unique"](x).dtype == dtype
    values, index, inverse, counts = (p.numpy() for p in run["unique"](x, True, True, True, True))
    np.testing.assert_array_equal(x.reshape(-1)[index], values)
    np.testing.assert_array_equal(values[inverse], x.reshape(-1))
    assert (inverse.dtype, counts.sum()) == ("int64", x.size)
    found = run["nonzero"](x).numpy()
    expected = np.zeros((0, int(x != 0))) if shape == () else np.stack(np.nonzero(x))
    np.testing.assert_array_equal(found, expected)
    assert found.dtype == "int64"


def test_unique_along_an_axis():
    m = np.array([[1, 0, 1], [2, 5, 2]])
    assert run["unique"](m, True, False, False, False, 1).numpy().tolist() == [[0, 1], [5, 2]]
    values, inverse = run["unique"](m, True, False, True, False, 1)
    assert (values.numpy().tolist(), inverse.numpy().tolist()) == ([[0, 1], [5, 2]], [1, 0, 1])


@pytest.mark.parametrize("suffix", [".npy", ".txt"])
def test_read_tensor_from_file(suffix, tmp_path):
    value = np.arange(6, dtype="float32").reshape(2, 3)
    path = str(tmp_path / f"tensor{suffix}")
    (np.save if suffix == ".npy" else np.savetxt)(path, value)
    read = get_global_func("relax.run.read_tensor_from_file")(path)
    assert (read.dtype, read.numpy().tolist()) == ("float32", value.tolist())


def test_a_file_of_pickles_is_refused(tmp_path):
    path = str(tmp_path / "tensor.npy")
    np.save(path, np.array([print], object), allow_pickle=True)
    with pytest.raises(ValueError, match="allow_pickle=False"):
        get_global_func("relax.run.read_tensor_from_file")(path)


def test_a_tensor_is_not_fetched_from_elsewhere():
    """A path is a path."""
    for path in ("http://127.0.0.1:9/tensor.txt", "file:///proc/version"):
        with pytest.raises(RuntimeError, match="No such file or directory"):
            get_global_func("relax.run.read_tensor_from_file")(path)


def test_nan_and_inf():
    x = np.array([np.inf, np.nan, 0.0, -0.0, -np.inf], "float32")
    assert run["nonzero"](x).numpy().tolist() == [[0, 1, 4]]
    np.testing.assert_array_equal(run["unique"](x).numpy(), np.unique(x))


@pytest.mark.parametrize(
    "format, values, text",
    [
        ("", (), ""),
        ("", (1, nd.array(np.array([1, 2])), "s"), "1 [1 2] s"),
        ("x = {:.2f}!", (nd.array(np.float32(1.234)),), "x = 1.23!"),
        ("{} {}", (ShapeTuple((2, 3)), (1, nd.array(np.array(True)))), "(2, 3) (1, True)"),
        ("{1}-{0}", (1, 2), "2-1"),
        ("{}", (None,), "None"),
    ],
)
def test_print(format, values, text, capsys):
    assert run["print"](format, *values) is None
    assert capsys.readouterr().out == text + "\n"


def test_print_with_a_format_that_does_not_fit():
    with pytest.raises(ValueError, match="print: the format '{} {}' does not fit 1 values"):
        run["print"]("{} {}", 1)


@pytest.mark.parametrize("true", [True, np.array(True)])
def test_assert_op(true):
    false = not true if isinstance(true, bool) else ~true
    assert run["assert_op"](true, "no {}", 1) is None
    with pytest.raises(AssertionError, match="^Assertion Failed$"):
        run["assert_op"](false, "")
    with pytest.raises(AssertionError, match="^Assertion Failed: x is 3$"):
        run["assert_op"](false, "x is {}", 3)
    with pytest.raises(TypeError, match="assert_op: the condition is the int 1, expected a bool scalar"):
        run["assert_op"](1, "")
    with pytest.raises(TypeError, match="the condition is a bool tensor of rank 1"):
        run["assert_op"](np.array([True]), "")


def test_shapes_and_tensors():
    to_tensor, to_shape = (get_global_func("relax.run.shape_to_tensor"), get_global_func("relax.run.tensor_to_shape"))
    tensor = to_tensor(ShapeTuple((2, 0, 5)))
    assert (tensor.dtype, tensor.numpy().tolist()) == ("int64", [2, 0, 5])
    assert to_shape(tensor) == (2, 0, 5)
    assert isinstance(to_shape(np.array([], "int32")), ShapeTuple)
    assert to_tensor(ShapeTuple(())).shape == (0,)
    with pytest.raises(ValueError, match="expected an integer tensor of rank 1, found float32 of rank 1"):
        to_shape(np.zeros(2, "float32"))
    with pytest.raises(TypeError, match="shape_to_tensor: expected a shape, found a tensor"):
        to_tensor(np.zeros(2))
