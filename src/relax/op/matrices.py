"""Operators of matrices with a diagonal (eye, tril, triu), and window functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from .. import topi
from ..expr import Call, PrimValue
from ..ir import DataType, RelaxExpr
from ..prim import IntImm
from ..runtime.rounding import convert_array
from ..struct_info import PrimStructInfo, TensorStructInfo
from .arguments import DTypeLike, ScalarLike
from .base import Gradients, Term
from .creation import OfScalars
from .dims import like, tensor
from .errors import DTYPES, OPERANDS, SHAPES, OperatorError
from .gradients import is_float
from .operator import Array, composite, operator
from .shapes import Move

VOID = DataType("")


def _require_integer(scalar: PrimStructInfo, name: str) -> None:
    if not scalar.dtype.is_integer:
        raise OperatorError(DTYPES, f"{name} must be an integer, found {scalar.dtype!s}", operand=name)


def _require_size(arg: RelaxExpr, size: PrimStructInfo, name: str) -> None:
    """Raise OperatorError for a size that is not an integer, or is a negative constant."""
    _require_integer(size, name)
    if isinstance(arg, PrimValue) and isinstance(arg.value, IntImm) and arg.value.value < 0:
        raise OperatorError(SHAPES, f"{name} must be ≥ 0, found {arg.value.value}", operand=name)


def _require_diagonal(k: PrimStructInfo | None) -> None:
    """Raise OperatorError for a diagonal offset that is missing or not an integer."""
    if k is None:
        raise OperatorError(OPERANDS, "k must be given")
    _require_integer(k, "k")


def _matrix(*sizes: PrimStructInfo, dtype: str) -> TensorStructInfo:
    """Struct info of a tensor whose dimensions are scalar operands."""
    dims = [topi.as_size(size.value) for size in sizes if size.value is not None]
    return tensor(dims if len(dims) == len(sizes) else None, dtype, len(sizes))


@operator("relax.eye")
class Eye(OfScalars):
    """An n × m matrix (n × n, if m is omitted) of zeros, with ones on a diagonal.

    The diagonal begins k columns to the right of the first element; for a negative k, -k rows below it.
    """

    dtype: DataType = DataType("float32")

    def prepare(self, arguments: Sequence[Any]) -> Sequence[Any]:
        n, m, k = (*arguments, None, None)[:3]
        return [n, n if m is None else m, 0 if k is None else k]

    def infer_from_call(
        self,
        call: Call,
        builder: Any,
        n: PrimStructInfo,
        m: PrimStructInfo | None = None,
        k: PrimStructInfo | None = None,
    ) -> TensorStructInfo:
        self.require_attribute(not self.dtype.is_void, "dtype", "a dtype")
        if m is None:
            raise OperatorError(OPERANDS, "m must be given")
        _require_size(call.args[0], n, "n")
        _require_size(call.args[1], m, "m")
        _require_diagonal(k)
        return _matrix(n, m, dtype=self.dtype)

    def compute(self, n: Any, m: Any, k: Any) -> Any:
        return topi.eye(n, m, k, self.dtype)

    def reference(self, n: int, m: int, k: int) -> Array:
        return np.eye(n, m, k).astype(self.dtype.numpy())


class OfDiagonal(Move):
    """Base class of operators of a tensor and a diagonal offset, a scalar of the program."""

    __slots__ = ()

    def prepare(self, arguments: Sequence[Any]) -> Sequence[Any]:
        x, k = (*arguments, None)[:2]
        return [x, 0 if k is None else k]


@operator("relax.eye_like")
class EyeLike(OfDiagonal):
    """A matrix of x's shape of zeros, with ones on the k-th diagonal; dtype defaults to that of x."""

    total = True

    dtype: DataType = VOID

    def infer(self, x: TensorStructInfo, k: PrimStructInfo | None = None) -> TensorStructInfo:
        self.require(x.ndim in (-1, 2), "x", "a matrix", code=SHAPES, found=f"{x.ndim} dimensions")
        _require_diagonal(k)
        return like(x, self.dtype or x.dtype)

    def compute(self, x: Any, k: Any) -> Any:
        n, m = x.shape
        return topi.eye(n, m, k, self.dtype or x.dtype)

    def reference(self, x: Array, k: int) -> Array:
        n, m = x.shape
        return np.eye(n, m, k).astype(self.dtype.numpy() if self.dtype else x.dtype)

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        return None, None


class Triangle(OfDiagonal):
    """Base class of operators that keep the elements on one side of a diagonal of the last two dimensions."""

    __slots__ = ()

    total = True

    def infer(self, x: TensorStructInfo, k: PrimStructInfo | None = None) -> TensorStructInfo:
        wide = x.ndim == -1 or x.ndim >= 2
        self.require(wide, "x", "a tensor of at least two dimensions", code=SHAPES, found=str(x.ndim))
        _require_diagonal(k)
        return x

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        x, k = operands
        return (self.call(grad, k) if is_float(x) else None), None


@operator("relax.tril")
class Tril(Triangle):
    """The lower triangle of x: elements above the k-th diagonal of the last two dimensions become 0."""

    compute = topi.tril

    def reference(self, x: Array, k: int) -> Array:
        return np.where(np.tri(x.shape[-2], x.shape[-1], k, bool), x, np.zeros((), x.dtype))


@operator("relax.triu")
class Triu(Triangle):
    """The upper triangle of x: elements below the k-th diagonal of the last two dimensions become 0."""

    compute = topi.triu

    def reference(self, x: Array, k: int) -> Array:
        return np.where(np.tri(x.shape[-2], x.shape[-1], k - 1, bool), np.zeros((), x.dtype), x)


# -------------------------------------------------------------------------------------- window functions


class Window(OfScalars):
    """Base class of window functions: weighted cosines of an angle that goes once around.

    A periodic window omits the last of window_size + 1 values; a window of one value is 1.
    """

    __slots__ = ()

    dtype: DataType = DataType("float32")

    def check(self, call: Call, window_size: PrimStructInfo, periodic: PrimStructInfo) -> TensorStructInfo:
        """Struct info of the result, after checking the operands common to all windows."""
        self.require_attribute(self.dtype.is_float, "dtype", "a floating-point dtype")
        _require_size(call.args[0], window_size, "window_size")
        if not (periodic.dtype.is_bool or periodic.dtype.is_integer):
            raise OperatorError(DTYPES, f"periodic must be a bool, found {periodic.dtype!s}", operand="periodic")
        return _matrix(window_size, dtype=self.dtype)

    def window(self, size: int, periodic: int, *weights: float) -> Array:
        """Compute the window in NumPy."""
        if size < 0:
            raise ValueError(f"window_size must be ≥ 0, found {size}")
        if size == 1:
            return np.ones(1, self.dtype.numpy())
        angle = np.arange(size) * (2 * np.pi) / max(size if periodic else size - 1, 1)
        total = np.zeros(size)
        for order, weight in enumerate(weights):
            total += (-1) ** order * weight * np.cos(order * angle)
        return convert_array(total, self.dtype.numpy())


@operator("relax.hamming_window")
class HammingWindow(Window):
    """alpha - beta · cos t, for t from 0 to 2π in window_size steps.

    A periodic window omits the last of window_size + 1 values; a window of one value is 1.
    """

    def infer_from_call(
        self,
        call: Call,
        builder: Any,
        window_size: PrimStructInfo,
        periodic: PrimStructInfo,
        alpha: PrimStructInfo,
        beta: PrimStructInfo,
    ) -> TensorStructInfo:
        return self.check(call, window_size, periodic)

    def compute(self, window_size: Any, periodic: Any, alpha: Any, beta: Any) -> Any:
        return topi.cosine_window(window_size, periodic, (alpha, beta), self.dtype)

    def reference(self, window_size: int, periodic: int, alpha: float, beta: float) -> Array:
        return self.window(window_size, periodic, alpha, beta)


@operator("relax.blackman_window")
class BlackmanWindow(Window):
    """0.42 - 0.5 · cos t + 0.08 · cos 2t, for t from 0 to 2π in window_size steps.

    A periodic window omits the last of window_size + 1 values; a window of one value is 1.
    """

    weights: ClassVar[tuple[float, ...]] = (0.42, 0.5, 0.08)

    def infer_from_call(
        self, call: Call, builder: Any, window_size: PrimStructInfo, periodic: PrimStructInfo
    ) -> TensorStructInfo:
        return self.check(call, window_size, periodic)

    def compute(self, window_size: Any, periodic: Any) -> Any:
        return topi.cosine_window(window_size, periodic, self.weights, self.dtype)

    def reference(self, window_size: int, periodic: int) -> Array:
        return self.window(window_size, periodic, *self.weights)


@composite("relax.hann_window")
def hann_window(window_size: ScalarLike, periodic: ScalarLike, dtype: DTypeLike = "float32") -> Call:
    """0.5 - 0.5 · cos t, for t from 0 to 2π in window_size steps: a special case of hamming_window."""
    half = PrimValue(0.5)
    return HammingWindow(dtype=DataType(dtype)).call(window_size, periodic, half, half)
