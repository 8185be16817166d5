"""Decompositions, inverses and determinants of matrices as packed functions, computed by LAPACK.

NumPy calls it; LU decompositions and exponentials need SciPy. Matrices are the last two axes of a tensor of float32 or
float64, the others are a batch, which may be empty. With `is_complex` tensors have a trailing axis of 2 behind those,
for real and imaginary parts. Results have the dtype of the operand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, cast

import numpy as np
import tvm_ffi

from .builtin_table import builtin
from .dtypes import Array
from .fourier import complex_view, parts_of, real_array
from .modules import required
from .ops import array_of
from .tensor import tensor_of_numpy

_lapack: Final[Any] = np.linalg

_BLOCK = 16
"""Number of rows of a triangular system that are solved one after the other."""


def _operand(name: str, data: Any, is_complex: bool) -> Array:
    """Return a tensor as an array of real or complex numbers. Raises ValueError if it is no batch of matrices."""
    array = complex_view(data, name) if is_complex else real_array(data, name)
    if array.ndim < 2:
        raise ValueError(f"{name}: expected matrices, found a tensor of {array.ndim} dimensions")
    return array


def _square(name: str, data: Any, is_complex: bool) -> Array:
    """Return a batch of square matrices. Raises ValueError for others."""
    array = _operand(name, data, is_complex)
    if array.shape[-1] != array.shape[-2]:
        raise ValueError(f"{name}: expected square matrices, found {array.shape[-2]} x {array.shape[-1]}")
    return array


def _result(array: Any, like: Array) -> tvm_ffi.Tensor:
    """Return an array as a tensor of the precision of the operand `like`."""
    values: Array = np.asarray(array)
    real = like.real.dtype
    if values.dtype.kind == "c":
        return parts_of(values, real)
    return tensor_of_numpy(np.array(values, real if values.dtype.kind == "f" else values.dtype, order="C"))


def _one_by_one(function: Callable[[Array], Array], array: Array) -> tuple[Array, Array]:
    """Return (results, numbers of failures): of each matrix of a batch, 0 or the number that LAPACK reports."""
    results, infos = np.empty_like(array), np.zeros(array.shape[:-2], np.int32)
    for index in _places(array.shape[:-2]):
        try:
            results[index] = function(array[index])
        except np.linalg.LinAlgError as error:
            results[index] = np.nan
            infos[index] = int(error.args[1]) if len(error.args) > 1 else 1
    return results, infos


def _places(shape: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yield the indices of the matrices of a batch."""
    return cast("Iterator[tuple[int, ...]]", iter(np.ndindex(*shape)))


def _batch_element(infos: Array) -> str:
    """Return words for the first matrix of a batch that failed."""
    first = np.argwhere(infos)[0].tolist()
    return f"matrix {first} of the batch" if first else "the matrix"


def _adjoint(array: Array) -> Array:
    return np.conj(np.swapaxes(array, -1, -2))


# ------------------------------------------------------------------------------------- determinants, inverses


@builtin("relax.run.linalg_det")
def det(matrix: Any, is_complex: bool) -> tvm_ffi.Tensor:
    """Return the determinant of each matrix; 0 for a singular one."""
    array = _square("det", matrix, is_complex)
    return _result(_lapack.det(array), array)


@builtin("relax.run.linalg_slogdet")
def slogdet(matrix: Any, is_complex: bool) -> Any:
    """Return (signs, logarithms of the magnitudes) of the determinants: (0, -inf) of a singular matrix."""
    array = _square("slogdet", matrix, is_complex)
    sign, logarithm = _lapack.slogdet(array)
    return _result(sign, array), _result(logarithm, array)


@builtin("relax.run.linalg_check_errors", pure=False)
def check_errors(numbers: Any, name: str) -> None:
    """Raise ValueError if a decomposition of a batch, whose `numbers` are not 0, has failed."""
    infos = array_of(numbers, name)
    if infos.any():
        raise ValueError(f"{name}: {_batch_element(infos)} is singular or not positive definite")


def _inverse(matrix: Array) -> Array:
    try:
        return _lapack.inv(matrix)
    except np.linalg.LinAlgError:
        raise np.linalg.LinAlgError("singular", _zero_pivot(matrix)) from None


def _zero_pivot(matrix: Array) -> int:
    """Return the number, from 1, of the first column of a singular matrix that depends on the columns before it."""
    ranks = [_lapack.matrix_rank(matrix[:, : count + 1]) for count in range(matrix.shape[-1])]
    return next((count + 1 for count, rank in enumerate(ranks) if rank <= count), matrix.shape[-1])


@builtin("relax.run.linalg_inv")
def inv(matrix: Any, is_complex: bool, check: bool) -> Any:
    """Return (inverses, int32 numbers: 0, or the column of a singular matrix). With `check` such one is a ValueError.

    The inverse of a singular matrix is NaN.
    """
    array = _square("inv", matrix, is_complex)
    try:
        inverses, infos = _lapack.inv(array), np.zeros(array.shape[:-2], np.int32)
    except np.linalg.LinAlgError:
        inverses, infos = _one_by_one(_inverse, array)
    if check and infos.any():
        raise ValueError(f"inv: {_batch_element(infos)} is singular and has no inverse")
    return _result(inverses, array), tensor_of_numpy(np.asarray(infos))


@builtin("relax.run.linalg_solve")
def solve(matrix: Any, right: Any, is_complex: bool, is_vector: bool, left: bool) -> tvm_ffi.Tensor:
    """Return x with matrix · x = right, or x · matrix = right if not `left`; `right` is vectors with `is_vector`.

    Raises ValueError for a singular matrix.
    """
    array = _square("solve", matrix, is_complex)
    known = complex_view(right, "solve") if is_complex else real_array(right, "solve")
    known = known[..., None] if is_vector else known
    try:
        if left or is_vector:
            result = _lapack.solve(array, known)
        else:
            result = np.swapaxes(_lapack.solve(np.swapaxes(array, -1, -2), np.swapaxes(known, -1, -2)), -1, -2)
    except np.linalg.LinAlgError:
        infos = _one_by_one(_inverse, array)[1]
        raise ValueError(f"solve: {_batch_element(infos)} is singular, so that no solution is unique") from None
    return _result(result[..., 0] if is_vector else result, array)


# ------------------------------------------------------------------------------------- triangular systems


def _substituted(matrix: Array, right: Array, upper: bool, unit: bool) -> Array:
    """Return x with matrix · x = right, of whose matrix one triangle is read; of a zero on its diagonal, inf or NaN."""
    size = matrix.shape[-1]
    batch = np.broadcast_shapes(matrix.shape[:-2], right.shape[:-2])
    if size <= _BLOCK:
        result = np.array(np.broadcast_to(right, (*batch, *right.shape[-2:])))
        for row in range(size - 1, -1, -1) if upper else range(size):
            others = slice(row + 1, size) if upper else slice(0, row)
            result[..., row, :] -= (matrix[..., row : row + 1, others] @ result[..., others, :])[..., 0, :]
            if not unit:
                result[..., row, :] /= matrix[..., row, row, None]
        return result
    half = size // 2
    first, second = (slice(half, size), slice(0, half)) if upper else (slice(0, half), slice(half, size))
    solved = _substituted(matrix[..., first, first], right[..., first, :], upper, unit)
    rest = right[..., second, :] - matrix[..., second, first] @ solved
    last = _substituted(matrix[..., second, second], rest, upper, unit)
    return np.concatenate([last, solved] if upper else [solved, last], -2)


@builtin("relax.run.linalg_solve_triangular")
def solve_triangular(matrix: Any, right: Any, is_complex: bool, upper: bool, left: bool, unit: bool) -> tvm_ffi.Tensor:
    """Return x with matrix · x = right, or x · matrix = right if not `left`, for a triangular matrix.

    The other triangle is not read, nor the diagonal with `unit`, which takes it for ones.
    """
    array, known = _square("solve_triangular", matrix, is_complex), _operand("solve_triangular", right, is_complex)
    with np.errstate(all="ignore"):
        if left:
            return _result(_substituted(array, known, upper, unit), array)
        turned = _substituted(np.swapaxes(array, -1, -2), np.swapaxes(known, -1, -2), not upper, unit)
    return _result(np.swapaxes(turned, -1, -2), array)


@builtin("relax.run.linalg_cholesky")
def cholesky(matrix: Any, is_complex: bool, upper: bool, check: bool) -> Any:
    """Return (triangular factors, int32 numbers: 0, or the order of a minor that is not positive).

    With `check` a matrix that is not positive definite is a ValueError; else its factor is NaN.
    """
    array = _square("cholesky", matrix, is_complex)
    lower = _adjoint(np.triu(array)) if upper else array
    try:
        factors, infos = _lapack.cholesky(lower), np.zeros(array.shape[:-2], np.int32)
    except np.linalg.LinAlgError:
        factors, infos = _one_by_one(_cholesky, lower)
    if check and infos.any():
        order = int(infos[infos != 0][0])
        raise ValueError(
            f"cholesky: {_batch_element(infos)} is not positive definite: its leading minor of order {order} is not"
        )
    return _result(_adjoint(factors) if upper else factors, array), tensor_of_numpy(np.asarray(infos))


def _cholesky(matrix: Array) -> Array:
    for order in range(1, matrix.shape[-1] + 1):
        try:
            _lapack.cholesky(matrix[:order, :order])
        except np.linalg.LinAlgError:
            raise np.linalg.LinAlgError("not positive definite", order) from None
    return _lapack.cholesky(matrix)


@builtin("relax.run.linalg_cholesky_solve")
def cholesky_solve(right: Any, factor: Any, is_complex: bool, upper: bool) -> tvm_ffi.Tensor:
    """Return x with matrix · x = right, where `factor` is the Cholesky factor of the matrix."""
    array, known = _square("cholesky_solve", factor, is_complex), _operand("cholesky_solve", right, is_complex)
    lower = _adjoint(array) if upper else array
    with np.errstate(all="ignore"):
        half = _substituted(lower, known, False, False)
        return _result(_substituted(_adjoint(lower), half, True, False), array)


# ------------------------------------------------------------------------------------- orthogonal factors


@builtin("relax.run.linalg_qr")
def qr(matrix: Any, is_complex: bool, mode: str) -> Any:
    """Return (Q, R) of the modes "reduced" and "complete"."""
    array = _operand("qr", matrix, is_complex)
    factors: Any = _lapack.qr(array, mode="complete" if mode == "complete" else "reduced")
    return _result(factors[0], array), _result(factors[1], array)


@builtin("relax.run.linalg_r")
def r_of_qr(matrix: Any, is_complex: bool) -> tvm_ffi.Tensor:
    """Return R of the reduced QR decomposition."""
    array = _operand("qr", matrix, is_complex)
    return _result(_lapack.qr(array, mode="r"), array)


@builtin("relax.run.linalg_svd")
def svd(matrix: Any, is_complex: bool, full: bool) -> Any:
    """Return (U, S, Vh), with square U and Vh if `full`. Raises ValueError if LAPACK finds no end, as for NaN."""
    array = _operand("svd", matrix, is_complex)
    u, s, vh = _converged("svd", lambda: _lapack.svd(array, full_matrices=full))
    return _result(u, array), _result(s, array), _result(vh, array)


@builtin("relax.run.linalg_svdvals")
def svdvals(matrix: Any, is_complex: bool) -> tvm_ffi.Tensor:
    """Return the singular values, in descending order. Raises ValueError if LAPACK finds no end, as for NaN."""
    array = _operand("svdvals", matrix, is_complex)
    return _result(_converged("svdvals", lambda: _lapack.svd(array, compute_uv=False)), array)


def _converged(name: str, compute: Callable[[], Any]) -> Any:
    try:
        return compute()
    except np.linalg.LinAlgError as error:
        raise ValueError(f"{name}: {error}; the input may contain NaN or infinity") from None


@builtin("relax.run.linalg_eigh")
def eigh(matrix: Any, is_complex: bool, triangle: str) -> Any:
    """Return (ascending eigenvalues, eigenvectors as columns) of symmetric matrices, of which one triangle is read.

    `triangle` is "L" or "U". Raises ValueError if LAPACK finds no end, as for NaN.
    """
    array = _square("eigh", matrix, is_complex)
    values, vectors = _converged("eigh", lambda: _lapack.eigh(array, triangle.upper()))
    return _result(values, array), _result(vectors, array)


@builtin("relax.run.linalg_eig")
def eig(matrix: Any, is_complex: bool) -> Any:
    """Return (eigenvalues, eigenvectors as columns), both complex. Raises ValueError for NaN and infinities."""
    array = _square("eig", matrix, is_complex)
    values, vectors = _converged("eig", lambda: _lapack.eig(array))
    return parts_of(values, array.real.dtype), parts_of(vectors, array.real.dtype)


# ------------------------------------------------------------------------------------- tolerances


def _tolerance(values: Array, shape: Any, atol: float, rtol: float) -> Array:
    """Return the magnitude up to which singular values count as 0; negative `atol` and `rtol` stand for none."""
    relative = rtol if rtol >= 0 else 0.0 if atol > 0 else float(np.finfo(values.dtype).eps) * max(shape[-2:])
    greatest = np.max(values, axis=-1, keepdims=True, initial=0)
    return np.maximum(max(atol, 0.0), relative * greatest)


@builtin("relax.run.linalg_pinv")
def pinv(matrix: Any, is_complex: bool, hermitian: bool, atol: float, rtol: float) -> tvm_ffi.Tensor:
    """Return the pseudo-inverses. Singular values up to max(atol, rtol · greatest) count as 0; see `_tolerance`."""
    array = _operand("pinv", matrix, is_complex)
    if 0 in array.shape[-2:]:
        return _result(np.zeros((*array.shape[:-2], array.shape[-1], array.shape[-2]), array.dtype), array)
    if hermitian:
        values, u = _converged("pinv", lambda: _lapack.eigh(array))
        vh = _adjoint(u)
    else:
        u, values, vh = _converged("pinv", lambda: _lapack.svd(array, full_matrices=False))
    sizes = np.abs(values)
    kept = sizes > _tolerance(sizes, array.shape, atol, rtol)
    inverse = np.where(kept, 1 / np.where(kept, values, 1), 0).astype(values.dtype)
    return _result(_adjoint(vh) @ (inverse[..., None] * _adjoint(u)), array)


@builtin("relax.run.linalg_matrix_rank")
def matrix_rank(matrix: Any, is_complex: bool, hermitian: bool, atol: float, rtol: float) -> tvm_ffi.Tensor:
    """Return the numbers of singular values, or eigenvalues, above a tolerance as int64; see `_tolerance`."""
    array = _operand("matrix_rank", matrix, is_complex)
    if hermitian:
        values = np.abs(_converged("matrix_rank", lambda: _lapack.eigvalsh(array)))
    else:
        values = _converged("matrix_rank", lambda: _lapack.svd(array, compute_uv=False))
    counts = np.count_nonzero(values > _tolerance(values, array.shape, atol, rtol), axis=-1)
    return tensor_of_numpy(np.asarray(counts, np.int64))


# ------------------------------------------------------------------------------------- by SciPy


@builtin("relax.run.linalg_lu_factor")
def lu_factor(matrix: Any, is_complex: bool) -> Any:
    """Return (both triangles in one, int32 pivots from 1, int32 numbers of the first zero pivots, or 0).

    Raises ImportError without SciPy.
    """
    array = _operand("lu_factor", matrix, is_complex)
    lapack: Any = required("scipy.linalg", "scipy").lapack
    (factorise,) = lapack.get_lapack_funcs(("getrf",), (array,))
    factors = np.empty_like(array)
    pivots = np.empty((*array.shape[:-2], min(array.shape[-2:])), np.int32)
    infos = np.zeros(array.shape[:-2], np.int32)
    for index in _places(array.shape[:-2]):
        if pivots.shape[-1]:
            factors[index], zero_based, infos[index] = factorise(array[index])
            pivots[index] = zero_based + 1
    return _result(factors, array), tensor_of_numpy(pivots), tensor_of_numpy(infos)


def _order(pivots: Array, rows: int, name: str) -> Array:
    """Return the order of rows that exchanges give. Raises ValueError for a pivot that is no row."""
    if pivots.size and not 1 <= pivots.min() <= pivots.max() <= rows:
        raise ValueError(f"{name}: pivots are from 1 to {rows}, found {pivots.min()} to {pivots.max()}")
    order = np.tile(np.arange(rows), (*pivots.shape[:-1], 1))
    for index in _places(pivots.shape[:-1]):
        for row, pivot in enumerate(pivots[index]):
            order[(*index, [row, pivot - 1])] = order[(*index, [pivot - 1, row])]
    return order


@builtin("relax.run.linalg_lu_unpack")
def lu_unpack(factors: Any, pivots: Any, is_complex: bool) -> Any:
    """Return (P, L, U) of which the product is the matrix. Raises ValueError for pivots that are no rows."""
    array = _operand("lu_unpack", factors, is_complex)
    rows, columns = array.shape[-2:]
    count = min(rows, columns)
    lower = np.tril(array[..., :count], -1) + np.eye(rows, count, dtype=array.dtype)
    order = _order(array_of(pivots, "lu_unpack"), rows, "lu_unpack")
    permutation = np.swapaxes(np.eye(rows, dtype=array.real.dtype)[order], -1, -2).astype(array.dtype)
    return _result(permutation, array), _result(lower, array), _result(np.triu(array[..., :count, :]), array)


@builtin("relax.run.linalg_lu_solve")
def lu_solve(factors: Any, pivots: Any, right: Any, is_complex: bool, left: bool, adjoint: bool) -> tvm_ffi.Tensor:
    """Return x with matrix · x = right of the matrix that was factorised; `adjoint` takes its conjugate transpose.

    Without `left`, x · matrix = right. Raises ValueError for pivots that are no rows.
    """
    array, known = _square("lu_solve", factors, is_complex), _operand("lu_solve", right, is_complex)
    order = _order(array_of(pivots, "lu_solve"), array.shape[-1], "lu_solve")
    if not left:
        known = _adjoint(known)
    with np.errstate(all="ignore"):
        if adjoint == left:  # Aᴴ = Uᴴ Lᴴ Pᵀ
            upper = _substituted(_adjoint(array), known, False, False)
            turned = _substituted(_adjoint(array), upper, True, True)
            back = np.argsort(order, axis=-1)
            result = _rows(turned, back)
        else:
            below = _substituted(array, _rows(known, order), False, True)
            result = _substituted(array, below, True, False)
    return _result(result if left else _adjoint(result), array)


def _rows(array: Array, order: Array) -> Array:
    """Return the rows of each matrix in an order."""
    batch = np.broadcast_shapes(array.shape[:-2], order.shape[:-1])
    wide = np.broadcast_to(array, (*batch, *array.shape[-2:]))
    return np.take_along_axis(wide, np.broadcast_to(order, (*batch, order.shape[-1]))[..., None], -2)


@builtin("relax.run.linalg_matrix_exp")
def matrix_exp(matrix: Any, is_complex: bool) -> tvm_ffi.Tensor:
    """Return the exponentials of matrices. Raises ImportError without SciPy."""
    array = _square("matrix_exp", matrix, is_complex)
    library: Any = required("scipy.linalg", "scipy")
    return _result(library.expm(array) if array.size else array, array)
