"""Linear algebra as packed functions."""

from __future__ import annotations

import numpy as np
import pytest

from relax.runtime import get_global_func


def run(name, *args):
    return get_global_func(f"relax.run.linalg_{name}")(*args)


def test_an_inverse_of_complex_numbers():
    z = np.array([[1, 2j], [0, 1 - 1j]], "complex64")
    result, number = run("inv", np.stack([z.real, z.imag], -1), True, True)
    assert (result.dtype, result.shape, number.numpy()) == ("float32", (2, 2, 2), 0)
    np.testing.assert_allclose(result.numpy() @ [1, 1j], np.linalg.inv(z), rtol=1e-6)


def test_numbers_of_failures():
    """Of the first dependent column, and of the first minor that is not positive; other matrices have results."""
    batch = np.array([[[1, 0], [0, 1]], [[1, 1], [1, 1]], [[0, 0], [0, 1]]], "float64")
    inverses, numbers = run("inv", batch, False, False)
    assert numbers.numpy().tolist() == [0, 2, 1]
    assert inverses.numpy()[0].tolist() == [[1, 0], [0, 1]]
    assert np.isnan(inverses.numpy()[1:]).all()
    assert run("cholesky", batch, False, False, False)[1].numpy().tolist() == [0, 2, 1]


def test_a_check_of_numbers():
    run("check_errors", np.zeros((2, 2), "int32"), "linalg.inv")
    with pytest.raises(ValueError, match=r"linalg.inv: matrix \[1, 0\] of the batch is singular"):
        run("check_errors", np.array([[0, 0], [2, 0]], "int32"), "linalg.inv")


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("unit", [False, True])
def test_triangular_systems(upper, unit):
    """Systems of more rows than are solved one by one; the other triangle is not read."""
    rng = np.random.default_rng(2)
    matrix = rng.standard_normal((2, 40, 40)) / 40 + np.eye(40)
    right = rng.standard_normal((2, 40, 3))
    triangle = (np.triu if upper else np.tril)(matrix, (1 if upper else -1) if unit else 0)
    read = triangle + np.eye(40) if unit else triangle
    unread = matrix + (np.tril(np.full((40, 40), np.nan), -1) if upper else np.triu(np.full((40, 40), np.nan), 1))
    solution = run("solve_triangular", unread, right, False, upper, True, unit).numpy()
    np.testing.assert_allclose(read @ solution, right, atol=1e-9)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: run("det", np.ones((2, 3)), False), "det: expected square matrices, found 2 x 3"),
        (lambda: run("svdvals", np.ones(3), False), "svdvals: expected matrices, found a tensor of 1 dimensions"),
        (lambda: run("qr", np.ones((2, 2), "int32"), False, "reduced"), "qr: expected a tensor of float32 or float64"),
        (lambda: run("eig", np.full((2, 2), np.nan), False), "eig: Array must not contain infs or NaNs"),
        (lambda: run("lu_unpack", np.eye(2), np.array([0, 1], "int32"), False), "pivots are from 1 to 2, found 0 to 1"),
    ],
)
def test_operands_that_are_wrong(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call()
