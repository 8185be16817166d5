"""Decompositions, inverses, determinants and norms of matrices: calls of `relax.runtime.linear_algebra`.

Matrices are the last two axes; sizes and the batch may be open. Both real and complex tensors are taken.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .... import op
from ....expr import PrimValue, ShapeExpr, StringImm
from ....ir import RelaxExpr
from ....prim import const, intrin
from ....struct_info import TensorStructInfo, TupleStructInfo
from ..dtypes import dtype_name
from ..emitter import Emitter
from ..pairs import Pair, as_pair, boundary_shape, has_complex_dtype, joined_parts, pair_converter, split_parts
from ..registry import Function, converter
from . import complex as pairs
from . import linear, reduce, shape


def _converter(*names: str) -> Callable[[Function], Function]:
    """Declare a converter for real and for complex tensors."""

    def declare(function: Function) -> Function:
        return pair_converter(*names)(converter(*names)(function))

    return declare


def _called(g: Emitter, name: str, operands: Sequence[Any], options: Sequence[Any], examples: Sequence[Any]) -> Any:
    """Emit a call of a function of the runtime; its results, which have the shapes and dtypes of torch's examples.

    The first option of each function says whether the operands are complex.
    """
    is_complex = any(isinstance(x, Pair) for x in operands)
    _check_dtypes(g, operands, name in ("lu_solve", "lu_unpack"))
    values: list[RelaxExpr] = []
    for x in operands:
        is_index = isinstance(x, RelaxExpr) and not g.dtype(x).is_float
        values.append(x if is_index or not is_complex else joined_parts(g, _as_pair(g, x, operands)))
    numbers: list[RelaxExpr] = [
        StringImm(value) if isinstance(value, str) else PrimValue(const(value, _kind(value)))
        for value in (is_complex, *options)
    ]
    infos = [TensorStructInfo(ShapeExpr(boundary_shape(g, x)), dtype_name(x.dtype)) for x in examples]
    result = infos[0] if len(infos) == 1 else TupleStructInfo(infos)
    call = g.emit(op.call_pure_packed(f"relax.run.linalg_{name}", *values, *numbers, sinfo_args=[result]))
    parts = [call] if len(infos) == 1 else g.parts(call)
    return [split_parts(g, part) if has_complex_dtype(x) else part for part, x in zip(parts, examples, strict=True)]


def _check_dtypes(g: Emitter, operands: Sequence[Any], has_pivots: bool = False) -> None:
    """Raise DiagnosticError unless operands are float32, or all float64; the second may be pivots, int32."""
    dtypes = [str(g.dtype(x.real if isinstance(x, Pair) else x)) for x in operands]
    floats = {dtype for place, dtype in enumerate(dtypes) if not (has_pivots and place == 1 and dtype == "int32")}
    if floats not in ({"float32"}, {"float64"}):
        raise g.error(f"operands of {', '.join(dtypes)}", hint="matrices are of float32, or all of float64")


def _with_numbers(g: Emitter, name: str, x: Any, options: Sequence[Any], example: Any, shapes: Sequence[Any]) -> Any:
    """Emit a call whose first result is like a tensor of torch, and the others int32 tensors of these shapes."""
    _check_dtypes(g, [x])
    first = TensorStructInfo(ShapeExpr(boundary_shape(g, example)), dtype_name(example.dtype))
    others = [TensorStructInfo(ShapeExpr(dims), "int32") for dims in shapes]
    flags = [PrimValue(const(value, "bool")) for value in (isinstance(x, Pair), *options)]
    operand, info = joined_parts(g, x), TupleStructInfo([first, *others])
    call = op.call_pure_packed(f"relax.run.linalg_{name}", operand, *flags, sinfo_args=[info])
    result, *numbers = g.parts(g.emit(call))
    return [split_parts(g, result) if isinstance(x, Pair) else result, *numbers]


def _kind(value: Any) -> str:
    return "bool" if isinstance(value, bool) else "int64" if isinstance(value, int) else "float64"


def _as_pair(g: Emitter, x: Any, operands: Sequence[Any]) -> Pair:
    like = next(item for item in operands if isinstance(item, Pair))
    return as_pair(g, x, str(g.dtype(like.real)))


def _ndim(g: Emitter, x: Any) -> int:
    return g.ndim(x.real if isinstance(x, Pair) else x)


# ------------------------------------------------------------------------------------- determinants, inverses


@_converter("aten.linalg_det", "aten.det")
def det(g: Emitter, x: Any) -> Any:
    return _called(g, "det", [x], [], [g.value])[0]


@_converter("aten._linalg_det")
def det_and_factors(g: Emitter, x: Any) -> list[Any]:
    """The determinant and the factors that its gradient solves with."""
    return [*_called(g, "det", [x], [], g.value[:1]), *_factors_of_gradient(g, x, 1)]


@_converter("aten.linalg_slogdet", "aten.slogdet")
def slogdet(g: Emitter, x: Any) -> Any:
    return _called(g, "slogdet", [x], [], g.value)


@_converter("aten._linalg_slogdet")
def slogdet_and_factors(g: Emitter, x: Any) -> list[Any]:
    """Sign and logarithm of the determinant, and the factors that its gradient solves with."""
    return [*_called(g, "slogdet", [x], [], g.value[:2]), *_factors_of_gradient(g, x, 2)]


def _factors_of_gradient(g: Emitter, x: Any, place: int, of_determinant: bool = True) -> list[Any]:
    """LU factors and pivots, the results `place` and the next of a node, or none if no node reads them.

    For a determinant, torch factors the transposed matrix where a real one is contiguous: its gradient counts on that.
    """
    if not (g.reads(place) or g.reads(place + 1)):
        return []
    matrix = g.node.args[0].meta["val"]
    if of_determinant and matrix.is_contiguous() and not isinstance(x, Pair):
        count = g.ndim(x)
        x = g.emit(op.permute_dims(x, [*range(count - 2), count - 1, count - 2]))
    factors, pivots, _ = _factors(g, x, True, g.shape(g.value[place + 1])[-1], g.value[place])
    return [factors, pivots]


@converter("aten.logdet")
def logdet(g: Emitter, x: RelaxExpr) -> RelaxExpr:
    """NaN for a negative determinant."""
    sign, size = _called(g, "slogdet", [x], [], [g.value, g.value])
    return op.where(op.less(sign, g.const(0, g.out_dtype)), g.const(float("nan"), g.out_dtype), size)


@pair_converter("aten.logdet")
def complex_logdet(g: Emitter, x: Pair) -> Pair:
    (value,) = _called(g, "det", [x], [], [g.value])
    return pairs.FUNCTIONS["log"](g, value)


@_converter("aten.linalg_inv", "aten.inverse")
def inv(g: Emitter, x: Any) -> Any:
    return _inverse(g, x, True, g.value)[0]


def _inverse(g: Emitter, x: Any, check: bool, example: Any) -> Any:
    dims = g.shape(example)
    return _with_numbers(g, "inv", x, [check], example, [dims[:-2]])


@_converter("aten.linalg_inv_ex")
def inv_ex(g: Emitter, x: Any, *, check_errors: bool = False) -> Any:
    return _inverse(g, x, check_errors, g.value[0])


@converter("aten._linalg_check_errors", pure=False)
def check_errors(g: Emitter, info: RelaxExpr, api_name: str, *, is_matrix: bool) -> list[RelaxExpr]:
    """Raise an error when the program runs, if a number of a failure is not 0."""
    name = StringImm(api_name)
    g.emit(op.call_packed("relax.run.linalg_check_errors", info, name, sinfo_args=[TupleStructInfo([])]))
    return []


@_converter("aten.linalg_solve")
def solve(g: Emitter, a: Any, b: Any, *, left: bool = True) -> Any:
    return _called(g, "solve", [a, b], [_is_vector(g, a, b), left], [g.value])[0]


def _is_vector(g: Emitter, a: Any, b: Any) -> bool:
    """True if `b` is a batch of vectors rather than of matrices."""
    sizes, others = (g.dims(x.real if isinstance(x, Pair) else x) for x in (a, b))
    return len(others) == 1 or (len(sizes) == len(others) + 1 and all(map(g.same_size, sizes[:-1], others)))


@_converter("aten._linalg_solve_ex", "aten.linalg_solve_ex")
def solve_ex(g: Emitter, a: Any, b: Any, *, left: bool = True, check_errors: bool = False) -> Any:
    """Singular matrices are an error; the result that numbers them is 0. Factors are made for gradients."""
    example = g.value[0]
    (result,) = _called(g, "solve", [a, b], [_is_vector(g, a, b), left], [example])
    info = g.value[-1]
    zeros = op.full(ShapeExpr(g.shape(info)), g.const(0, "int32"), "int32")
    between = len(g.value) - 2
    factors = _factors_of_gradient(g, a, 1, False) if between else []
    return [result, *(factors or [None] * between), zeros]


@_converter("aten.linalg_solve_triangular")
def solve_triangular(g: Emitter, a: Any, b: Any, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Any:
    return _called(g, "solve_triangular", [a, b], [upper, left, unitriangular], [g.value])[0]


@_converter("aten.triangular_solve")
def triangular_solve(
    g: Emitter, b: Any, a: Any, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> Any:
    matrix = _moved(g, a, shape.transpose, -2, -1) if transpose else a
    flags = [upper != transpose, True, unitriangular]
    return [_called(g, "solve_triangular", [matrix, b], flags, [g.value[0]])[0], a]


def _moved(g: Emitter, x: Any, function: Callable[..., RelaxExpr], *args: Any) -> Any:
    """A move of the elements of a tensor or of both parts of a pair."""

    def move(part: RelaxExpr) -> RelaxExpr:
        return g.emit(function(g, part, *args))

    return x.map(move) if isinstance(x, Pair) else move(x)


# ------------------------------------------------------------------------------------- factors


@_converter("aten.linalg_cholesky", "aten.cholesky")
def cholesky(g: Emitter, x: Any, upper: bool = False) -> Any:
    return _cholesky(g, x, upper, True, g.value)[0]


def _cholesky(g: Emitter, x: Any, upper: bool, check: bool, example: Any) -> Any:
    return _with_numbers(g, "cholesky", x, [upper, check], example, [g.shape(example)[:-2]])


@_converter("aten.linalg_cholesky_ex")
def cholesky_ex(g: Emitter, x: Any, *, upper: bool = False, check_errors: bool = False) -> Any:
    return _cholesky(g, x, upper, check_errors, g.value[0])


@_converter("aten.cholesky_solve")
def cholesky_solve(g: Emitter, b: Any, factor: Any, upper: bool = False) -> Any:
    return _called(g, "cholesky_solve", [b, factor], [upper], [g.value])[0]


@_converter("aten.cholesky_inverse")
def cholesky_inverse(g: Emitter, factor: Any, upper: bool = False) -> Any:
    return _called(g, "cholesky_solve", [_real_identity(g), factor], [upper], [g.value])[0]


@_converter("aten.linalg_qr")
def qr(g: Emitter, x: Any, mode: str = "reduced") -> Any:
    if mode not in ("reduced", "complete", "r"):
        raise g.error(f"there is no mode {mode!r}", hint="pass 'reduced', 'complete' or 'r'")
    if mode == "r":
        (upper,) = _called(g, "r", [x], [], [g.value[1]])
        empty = op.zeros(ShapeExpr([const(0, "int64")]), str(g.dtype(upper.real if isinstance(upper, Pair) else upper)))
        return [Pair(empty, empty) if isinstance(upper, Pair) else empty, upper]
    return _called(g, "qr", [x], [mode], g.value)


@_converter("aten.linalg_svd")
def svd(g: Emitter, x: Any, full_matrices: bool = True, *, driver: Any = None) -> Any:
    if driver is not None:
        g.unsupported("a driver, which is for CUDA")
    return _called(g, "svd", [x], [full_matrices], g.value)


@_converter("aten._linalg_svd")
def svd_or_values(
    g: Emitter, x: Any, full_matrices: bool = False, compute_uv: bool = True, *, driver: Any = None
) -> Any:
    if compute_uv:
        return svd(g, x, full_matrices, driver=driver)
    (values,) = _called(g, "svdvals", [x], [], [g.value[1]])
    return [None, values, None]


@_converter("aten.svd")
def svd_of_columns(g: Emitter, x: Any, some: bool = True, compute_uv: bool = True) -> Any:
    """(U, S, V), where V is not transposed; without vectors U and V are 0."""
    u, s, v = g.value
    if not compute_uv:
        (values,) = _called(g, "svdvals", [x], [], [s])
        empty = [op.zeros(ShapeExpr(g.shape(item)), dtype_name(item.dtype)) for item in (u, v)]
        zeros = [Pair(part, part) if has_complex_dtype(u) else part for part in empty]
        return [zeros[0], values, zeros[1]]
    turned = v.mT
    left, values, right = _called(g, "svd", [x], [not some], [u, s, turned])
    return [left, values, pairs.adjoint(g, right) if isinstance(right, Pair) else shape.transpose(g, right, -2, -1)]


@_converter("aten.linalg_svdvals")
def svdvals(g: Emitter, x: Any) -> Any:
    return _called(g, "svdvals", [x], [], [g.value])[0]


@_converter("aten.linalg_eigh", "aten._linalg_eigh")
def eigh(g: Emitter, x: Any, UPLO: str = "L", compute_v: bool = True) -> Any:
    if compute_v:
        return _called(g, "eigh", [x], [_triangle(g, UPLO)], g.value)
    return [_eigenvalues(g, x, UPLO, g.value[0]), None]


@_converter("aten.linalg_eigvalsh")
def eigvalsh(g: Emitter, x: Any, UPLO: str = "L") -> Any:
    return _eigenvalues(g, x, UPLO, g.value)


def _triangle(g: Emitter, name: str) -> str:
    if name.upper() not in ("L", "U"):
        raise g.error(f"there is no triangle {name!r}", hint="pass 'L' or 'U'")
    return name


def _eigenvalues(g: Emitter, x: Any, triangle: str, values: Any) -> Any:
    example = g.node.args[0].meta["val"]
    return _called(g, "eigh", [x], [_triangle(g, triangle)], [values, example])[0]


@pair_converter("aten.linalg_eig")
def eig(g: Emitter, x: Any) -> Any:
    return _called(g, "eig", [x], [], g.value)


@pair_converter("aten.linalg_eigvals", "aten._linalg_eigvals")
def eigvals(g: Emitter, x: Any) -> Any:
    values = g.value
    matrix = g.node.args[0].meta["val"].to(values.dtype)
    return _called(g, "eig", [x], [], [values, matrix])[0]


@_converter("aten.linalg_lu_factor", "aten.linalg_lu_factor_ex")
def lu_factor(g: Emitter, x: Any, *, pivot: bool = True, check_errors: bool = False) -> Any:
    """A singular matrix is no error: its factors are good but for a pivot of 0, as torch's are."""
    pivots = g.shape(g.value[1])
    return _factors(g, x, pivot, pivots[-1], g.value[0])[: len(g.value)]


def _factors(g: Emitter, x: Any, pivot: bool, count: Any, example: Any) -> Any:
    """Both triangles in one, `count` exchanges of rows, and numbers of zero pivots."""
    if not pivot:
        g.unsupported("an LU decomposition without pivots", "use pivot=True")
    batch = g.shape(example)[:-2]
    return _with_numbers(g, "lu_factor", x, [], example, [[*batch, count], batch])


@_converter("aten.linalg_lu")
def lu(g: Emitter, x: Any, *, pivot: bool = True) -> Any:
    """(P, L, U), of the factors and exchanges that LAPACK gives."""
    count = g.shape(g.value[1])[-1]
    factors, exchanges, _ = _factors(g, x, pivot, count, g.node.args[0].meta["val"])
    return _called(g, "lu_unpack", [factors, exchanges], [], g.value)


@_converter("aten.lu_unpack")
def lu_unpack(g: Emitter, factors: Any, pivots: RelaxExpr, unpack_data: bool = True, unpack_pivots: bool = True) -> Any:
    if not (unpack_data and unpack_pivots):
        g.unsupported("lu_unpack of a part", "unpack data and pivots")
    return _called(g, "lu_unpack", [factors, pivots], [], g.value)


@_converter("aten.linalg_lu_solve")
def lu_solve(g: Emitter, factors: Any, pivots: RelaxExpr, b: Any, *, left: bool = True, adjoint: bool = False) -> Any:
    return _called(g, "lu_solve", [factors, pivots, b], [left, adjoint], [g.value])[0]


# ------------------------------------------------------------------------------------- functions of matrices


def _tolerances(g: Emitter, atol: Any, rtol: Any) -> list[float]:
    """Tolerances as numbers, -1 for those that are not given. Raises DiagnosticError for tensors."""
    if isinstance(atol, RelaxExpr) or isinstance(rtol, RelaxExpr):
        g.unsupported("a tolerance that is a tensor", "pass a number")
    values = [None if value is None else float(value) for value in (atol, rtol)]
    if any(value is not None and not value >= 0 for value in values):
        raise g.error(f"a tolerance of {atol} or {rtol}", hint="tolerances are 0 or more")
    return [-1.0 if value is None else value for value in values]


@_converter("aten.linalg_pinv.atol_rtol_tensor", "aten.linalg_pinv.atol_rtol_float")
def pinv(g: Emitter, x: Any, *, atol: Any = None, rtol: Any = None, hermitian: bool = False) -> Any:
    return _called(g, "pinv", [x], [hermitian, *_tolerances(g, atol, rtol)], [g.value])[0]


@_converter("aten.linalg_pinv.default", "aten.linalg_pinv.rcond_tensor", "aten.pinverse")
def pinv_of_rcond(g: Emitter, x: Any, rcond: Any = 1e-15, hermitian: bool = False) -> Any:
    return _called(g, "pinv", [x], [hermitian, *_tolerances(g, 0.0, rcond)], [g.value])[0]


@_converter("aten.linalg_matrix_rank.atol_rtol_tensor", "aten.linalg_matrix_rank.atol_rtol_float")
def matrix_rank(g: Emitter, x: Any, *, atol: Any = None, rtol: Any = None, hermitian: bool = False) -> Any:
    return _called(g, "matrix_rank", [x], [hermitian, *_tolerances(g, atol, rtol)], [g.value])[0]


@_converter("aten.linalg_matrix_rank.default", "aten.linalg_matrix_rank.tol_tensor")
def matrix_rank_of_tol(g: Emitter, x: Any, tol: Any, hermitian: bool = False) -> Any:
    return _called(g, "matrix_rank", [x], [hermitian, *_tolerances(g, tol, 0.0)], [g.value])[0]


@_converter("aten.linalg_matrix_exp", "aten.matrix_exp")
def matrix_exp(g: Emitter, x: Any) -> Any:
    return _called(g, "matrix_exp", [x], [], [g.value])[0]


@_converter("aten.linalg_matrix_power", "aten.matrix_power")
def matrix_power(g: Emitter, x: Any, n: int) -> Any:
    """By squares: as many products as the exponent has binary digits, and one more for each of them that is 1."""
    if n == 0:
        return _identity(g)
    value = _inverse(g, x, True, g.value)[0] if n < 0 else x
    result, left = None, abs(n)
    while left:
        if left & 1:
            result = value if result is None else _product(g, result, value)
        left >>= 1
        value = _product(g, value, value) if left else value
    return result


def _product(g: Emitter, a: Any, b: Any) -> Any:
    return pairs.matmul(g, a, b) if isinstance(a, Pair) else g.emit(linear.matmul(g, a, b))


def _identity(g: Emitter) -> Any:
    """Identity matrices of the shape and dtype of the result."""
    whole = _real_identity(g)
    return as_pair(g, whole, g.out_dtype) if has_complex_dtype(g.value) else whole


def _real_identity(g: Emitter) -> RelaxExpr:
    dims = g.shape()
    rows = op.arange(PrimValue(dims[-1]), dtype="int64")
    unit = g.emit(op.astype(op.equal(op.expand_dims(rows, [1]), rows), g.out_dtype))
    return g.emit(op.broadcast_to(unit, ShapeExpr(dims)))


# ------------------------------------------------------------------------------------- norms


@_converter("aten.linalg_matrix_norm")
def matrix_norm(
    g: Emitter, x: Any, ord: Any = "fro", dim: Sequence[int] = (-2, -1), keepdim: bool = False, *, dtype: Any = None
) -> RelaxExpr:
    data = x.map(lambda part: g.cast(part, g.out_dtype)) if isinstance(x, Pair) else g.tensor(x, g.out_dtype)
    rows, columns = g.axes(list(dim), _ndim(g, data))
    size = g.emit(pairs.absolute(g, data) if isinstance(data, Pair) else op.abs(data))
    if ord == "fro":
        return reduce.vector_norm(g, size, 2, [rows, columns], keepdim)
    if ord == "nuc" or abs(ord) == 2:
        values = _values_over(g, data, rows, columns)
        last = g.ndim(values) - 1
        reduced = (op.sum if ord == "nuc" else op.max if ord > 0 else op.min)(values, axis=[last])
        dims = g.dims(data.real if isinstance(data, Pair) else data)
        kept = [const(1, "int64") if axis in (rows, columns) else dim for axis, dim in enumerate(dims)]
        return g.reshape(g.emit(reduced), kept) if keepdim else reduced
    if abs(ord) not in (1, float("inf")):
        raise g.error(f"there is no matrix norm {ord}", hint="pass 'fro', 'nuc', ±1, ±2 or ±inf")
    inner, outer = (rows, columns) if abs(ord) == 1 else (columns, rows)
    sums = g.emit(op.sum(size, axis=[inner], keepdims=True))
    result = g.emit((op.max if ord > 0 else op.min)(sums, axis=[outer], keepdims=True))
    return result if keepdim else op.squeeze(result, [rows, columns])


def _values_over(g: Emitter, x: Any, rows: int, columns: int) -> RelaxExpr:
    """Singular values of the matrices of two axes, along a new last one."""
    matrices = _moved(g, x, shape.movedim, [rows, columns], [-2, -1])
    dims = g.dims(matrices.real if isinstance(matrices, Pair) else matrices)
    from_sizes = [*dims[:-2], intrin.min(dims[-2], dims[-1])]
    info = TensorStructInfo(ShapeExpr(from_sizes), g.out_dtype)
    flag = PrimValue(const(isinstance(matrices, Pair), "bool"))
    return g.emit(op.call_pure_packed("relax.run.linalg_svdvals", joined_parts(g, matrices), flag, sinfo_args=[info]))


@_converter("aten.linalg_norm")
def norm(g: Emitter, x: Any, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """A matrix norm over two axes if an order is given, else a vector norm."""
    axes = [dim] if isinstance(dim, int) else dim
    count = _ndim(g, x) if axes is None else len(axes)
    if ord is not None and count == 2:
        return matrix_norm(g, x, ord, axes if axes is not None else [-2, -1], keepdim)
    size = g.emit(pairs.absolute(g, x)) if isinstance(x, Pair) else x
    return reduce.vector_norm(g, size, 2 if ord is None else ord, axes, keepdim)


@_converter("aten.linalg_cond")
def cond(g: Emitter, x: Any, p: Any = None) -> RelaxExpr:
    """The quotient of the greatest and least singular values, or the norm times that of the inverse."""
    if p is None or p in (2, -2):
        ndim = _ndim(g, x)
        values = _values_over(g, x, ndim - 2, ndim - 1)
        great, least = (g.emit(f(values, axis=[g.ndim(values) - 1])) for f in (op.max, op.min))
        return op.divide(least, great) if p == -2 else op.divide(great, least)
    inverse = _inverse(g, x, False, g.node.args[0].meta["val"])[0]
    return op.multiply(g.emit(matrix_norm(g, x, p)), g.emit(matrix_norm(g, inverse, p)))
