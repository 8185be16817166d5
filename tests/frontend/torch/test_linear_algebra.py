"""Decompositions, inverses and determinants of torch, by LAPACK."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import relax
from relax.frontend.torch import from_exported_program

torch = pytest.importorskip("torch")

from torch_programs import exported, same_numbers  # noqa: E402

from support import PLAIN_LOOPS  # noqa: E402

linalg = torch.linalg
DTYPES = [torch.float32, torch.complex128]


def matrices(*shape, dtype=torch.float32):
    return torch.randn(*shape, dtype=dtype)


def positive(*shape, dtype=torch.float32):
    x = matrices(*shape, dtype=dtype)
    return x @ x.mH + torch.eye(shape[-1], dtype=dtype)


def main_of(function, *inputs, dynamic=None):
    mod = from_exported_program(exported(function, inputs, dynamic))
    return relax.VirtualMachine(relax.build(mod, PLAIN_LOOPS), relax.cpu())["main"]


BATCHES = [1, 0, 5]


@pytest.mark.parametrize("dtype", DTYPES)
def test_determinants_and_inverses(dtype):
    def inverted(x):
        return (
            linalg.det(x), *linalg.slogdet(x), linalg.inv(x), *linalg.inv_ex(x), linalg.matrix_power(x, 3),
            linalg.matrix_power(x, -2), linalg.matrix_power(x, 0), torch.inverse(x),
        )  # fmt: skip

    others = [(positive(n, 3, 3, dtype=dtype),) for n in BATCHES]
    same_numbers(inverted, positive(2, 3, 3, dtype=dtype), dynamic=[[0]], others=others, tolerance=1e-4)


@pytest.mark.parametrize("dtype", DTYPES)
def test_solutions(dtype):
    def solved(a, b):
        lower = linalg.cholesky(a)
        return (
            linalg.solve(a, b), linalg.solve(a, b[..., 0]), linalg.solve(a, b.mT, left=False),
            linalg.solve_triangular(a, b, upper=True), linalg.solve_triangular(a, b, upper=False, unitriangular=True),
            linalg.solve_triangular(a, b.mT, upper=True, left=False), torch.cholesky_solve(b, lower),
            torch.cholesky_inverse(lower), torch.triangular_solve(b, a, transpose=True).solution,
        )  # fmt: skip

    others = [(positive(n, 3, 3, dtype=dtype), matrices(n, 3, 4, dtype=dtype)) for n in BATCHES]
    first = positive(2, 3, 3, dtype=dtype), matrices(2, 3, 4, dtype=dtype)
    same_numbers(solved, *first, dynamic=[[0], [0]], others=others, tolerance=1e-4)


def test_great_triangular_systems():
    a, b = positive(1, 70, 70, dtype=torch.float64), matrices(2, 70, 3, dtype=torch.float64)
    same_numbers(
        lambda a, b: (linalg.solve_triangular(a, b, upper=True), linalg.solve_triangular(a, b, upper=False)),
        a.expand(2, 70, 70).contiguous(), b, tolerance=1e-8,
    )  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
def test_factors(dtype):
    """Their products are compared, since signs and phases of the columns are free."""

    def factored(x):
        q, r = linalg.qr(x)
        complete, _ = linalg.qr(x, mode="complete")
        u, s, vh = linalg.svd(x, full_matrices=False)
        whole, _, right = linalg.svd(x)
        square = x @ x.mH
        values, vectors = linalg.eigh(square)
        p, lower, upper = linalg.lu(x)
        return (
            q @ r, complete @ complete.mH, r.abs(), linalg.qr(x, mode="r").R.abs(), (u * s[..., None, :]) @ vh, s,
            whole @ whole.mH, right.mH @ right, linalg.svdvals(x), values, (vectors * values[..., None, :]) @ vectors.mH,
            linalg.eigvalsh(square, "U"), p @ lower @ upper, p, linalg.cholesky(square + torch.eye(3)),
            linalg.cholesky(square + torch.eye(3), upper=True), torch.svd(x).V.abs(),
        )  # fmt: skip

    others = [(matrices(n, 3, 5, dtype=dtype),) for n in BATCHES]
    same_numbers(factored, matrices(2, 3, 5, dtype=dtype), dynamic=[[0]], others=others, tolerance=2e-4)


@pytest.mark.parametrize("dtype", DTYPES)
def test_lu_decompositions(dtype):
    def solved(a, b):
        factors, pivots = linalg.lu_factor(a)
        return (
            factors, pivots, linalg.lu_solve(factors, pivots, b), linalg.lu_solve(factors, pivots, b, adjoint=True),
            linalg.lu_solve(factors, pivots, b.mT, left=False),
            linalg.lu_solve(factors, pivots, b.mT, left=False, adjoint=True), *torch.lu_unpack(factors, pivots),
            *linalg.lu_factor_ex(a),
        )  # fmt: skip

    others = [(matrices(n, 4, 4, dtype=dtype), matrices(n, 4, 2, dtype=dtype)) for n in BATCHES]
    first = matrices(2, 4, 4, dtype=dtype), matrices(2, 4, 2, dtype=dtype)
    same_numbers(solved, *first, dynamic=[[0], [0]], others=others, tolerance=1e-3)


def test_eigenvalues_of_other_matrices():
    """Of real matrices, too, they are complex; vectors are compared by what the matrix makes of them."""

    def decomposed(x):
        values, vectors = linalg.eig(x)
        return vectors * values[..., None, :] @ linalg.inv(vectors), linalg.eigvals(x).sum(-1), values.prod(-1)

    same_numbers(decomposed, matrices(2, 3, 3), dynamic=[[0]], others=[(matrices(4, 3, 3),)], tolerance=1e-3)
    same_numbers(lambda x: linalg.eigvals(x).sum(-1), matrices(2, 3, 3, dtype=torch.complex128), tolerance=1e-6)


@pytest.mark.parametrize("dtype", DTYPES)
def test_ranks_and_pseudo_inverses(dtype):
    def inverted(x, y):
        square = y @ y.mH
        return (
            linalg.pinv(x), linalg.pinv(y), linalg.pinv(x, rtol=0.1), linalg.pinv(x, atol=0.5),
            linalg.pinv(square, hermitian=True), linalg.matrix_rank(x), linalg.matrix_rank(y),
            linalg.matrix_rank(x, atol=1.0, rtol=0.1), linalg.matrix_rank(square, hermitian=True),
        )  # fmt: skip

    def operands(n):
        x, y = matrices(n, 3, 5, dtype=dtype), matrices(n, 4, 2, dtype=dtype) @ matrices(n, 2, 4, dtype=dtype)
        return x, y

    others = [operands(n) for n in BATCHES]
    same_numbers(inverted, *operands(2), dynamic=[[0], [0]], others=others, tolerance=1e-3)


@pytest.mark.parametrize("dtype", DTYPES)
def test_exponentials_and_norms(dtype):
    def functions(x):
        return (
            linalg.matrix_exp(x), linalg.norm(x), linalg.norm(x, dim=1), linalg.norm(x, "nuc", dim=(1, 2)),
            linalg.norm(x, 1, dim=(2, 1)), linalg.norm(x, -2, dim=(0, 2), keepdim=True), linalg.matrix_norm(x),
            linalg.matrix_norm(x, 2, keepdim=True), linalg.matrix_norm(x, -float("inf")), linalg.cond(x),
            linalg.cond(x, -2), linalg.cond(x, 1), linalg.vector_norm(x, 3, dim=(0, 2)), torch.logdet(x @ x.mH),
        )  # fmt: skip

    same_numbers(functions, matrices(3, 3, 3, dtype=dtype), tolerance=1e-3)


def test_open_sizes_of_matrices():
    """Rows and columns may be open, where torch.export leaves them so."""

    def functions(x):
        return linalg.solve(x, x + 1), linalg.inv(x), linalg.cholesky(x), linalg.eigvalsh(x), linalg.det(x)

    others = [(positive(n, n),) for n in (2, 9)]
    square = positive(4, 4)
    size = torch.export.Dim("n")
    module = torch.nn.Module()
    module.forward = functions
    program = torch.export.export(module, (square,), dynamic_shapes=({0: size, 1: size},), strict=False)
    main = relax.VirtualMachine(relax.build(from_exported_program(program)), relax.cpu())["main"]
    for (x,) in [(square,), *others]:
        for found, expected in zip(main(x), functions(x), strict=True):
            np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=2e-3, atol=2e-4)


def test_matrices_that_are_singular():
    """An error names the matrix of the batch; the forms that report numbers report them."""
    singular = torch.stack([torch.eye(2), torch.ones(2, 2)])
    indefinite = torch.stack([torch.eye(3), torch.diag(torch.tensor([1.0, -1.0, 1.0]))])
    with pytest.raises(ValueError, match=r"inv: matrix \[1\] of the batch is singular and has no inverse"):
        main_of(linalg.inv, singular)(singular)
    with pytest.raises(ValueError, match=r"solve: matrix \[1\] of the batch is singular"):
        main_of(linalg.solve, singular, torch.ones(2, 2))(singular, torch.ones(2, 2))
    with pytest.raises(ValueError, match="solve: the matrix is singular"):
        main_of(linalg.solve, singular[1], torch.ones(2))(singular[1], torch.ones(2))
    with pytest.raises(ValueError, match=r"cholesky: matrix \[1\] .* its leading minor of order 2 is not"):
        main_of(linalg.cholesky, indefinite)(indefinite)
    same_numbers(lambda x: (linalg.det(x), *linalg.slogdet(x), linalg.inv_ex(x).info), singular)
    same_numbers(lambda x: linalg.cholesky_ex(x).info, indefinite)


def test_numbers_that_are_not_finite():
    x = torch.full((3, 3), float("nan"))
    with pytest.raises(ValueError, match="svdvals: SVD did not converge; the input may contain NaN or infinity"):
        main_of(linalg.svdvals, x)(x)
    same_numbers(lambda x: linalg.det(x), x)
    lower = torch.tensor([[1.0, 0.0], [2.0, 0.0]])
    same_numbers(lambda a, b: linalg.solve_triangular(a, b, upper=False), lower, torch.ones(2, 1))


def test_forms_of_graphs_with_gradients():
    """Operators into which torch takes those of torch.linalg apart before it derives them."""
    aten = torch.ops.aten

    def factored(x):
        return (
            *aten.linalg_inv_ex(x), aten._linalg_det(x)[0], *aten._linalg_slogdet(x)[:2],
            aten._linalg_solve_ex(x, x)[0], aten._linalg_svd(x, False, False)[1],
            aten._linalg_eigh(x, "L", False)[0], *aten.linalg_cholesky_ex(x),
        )  # fmt: skip

    same_numbers(factored, positive(2, 3, 3), tolerance=1e-4)


def test_pivots_that_are_no_rows():
    def unpacked(factors, pivots):
        return torch.lu_unpack(factors, pivots)

    main = main_of(unpacked, torch.eye(3), torch.tensor([1, 2, 3], dtype=torch.int32))
    with pytest.raises(ValueError, match="lu_unpack: pivots are from 1 to 3, found 1 to 9"):
        main(torch.eye(3), torch.tensor([1, 9, 3], dtype=torch.int32))


def test_a_saved_program(tmp_path):
    """Functions of the library are found by name where it runs."""
    mod = from_exported_program(exported(linalg.inv, [positive(2, 2)]))
    relax.build(mod).save(tmp_path / "inverse.rxe")
    main = relax.VirtualMachine(relax.runtime.load_module(tmp_path / "inverse.rxe"), relax.cpu())["main"]
    np.testing.assert_allclose(main(2 * torch.eye(2))[0].numpy(), np.eye(2) / 2)


def test_without_scipy(monkeypatch):
    main = main_of(linalg.matrix_exp, torch.eye(2))
    monkeypatch.setitem(sys.modules, "scipy.linalg", None)
    with pytest.raises(ImportError, match="it needs the library scipy.linalg: pip install scipy"):
        main(torch.eye(2))


def test_forms_that_are_refused():
    for function, message in (
        (lambda x: linalg.lu_factor(x, pivot=False), "an LU decomposition without pivots is not supported"),
        (lambda x: linalg.pinv(x, rtol=x[0, 0]), "a tolerance that is a tensor is not supported"),
    ):
        with pytest.raises(relax.DiagnosticError, match=message):
            from_exported_program(exported(function, [torch.eye(3)]))
