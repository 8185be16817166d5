"""Modules for OpenBLAS, whose functions are called by address (`pip install scipy-openblas64`)."""

from __future__ import annotations

import ctypes
import math
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Final, TypeAlias

import numpy as np

from ..json_graph import JSONRuntime, Node
from ..modules import required

Array: TypeAlias = "np.ndarray[Any, Any]"

_ROW_MAJOR, _AS_IS, _TRANSPOSED = 101, 111, 112
"""CBLAS_LAYOUT and CBLAS_TRANSPOSE."""

_LETTERS: Final = {"float32": "s", "float64": "d"}
_SCALARS: Final = {"float32": ctypes.c_float, "float64": ctypes.c_double}


@lru_cache(maxsize=1)
def _library() -> ctypes.CDLL:
    """Load the library. Raises ImportError if it is not installed."""
    package: Any = required("scipy_openblas64", "scipy-openblas64")
    return ctypes.CDLL(str(Path(package.get_lib_dir()) / package.get_library(fullname=True)))


@lru_cache(maxsize=2)
def _gemm(dtype: str) -> Any:
    """C function cblas_?gemm with integers of 64 bits."""
    function = getattr(_library(), f"scipy_cblas_{_LETTERS[dtype]}gemm64_")
    scalar, size = _SCALARS[dtype], ctypes.c_int64
    matrix = [ctypes.c_void_p, size]
    function.argtypes = [*[ctypes.c_int] * 3, *[size] * 3, scalar, *matrix, *matrix, scalar, *matrix]
    function.restype = None
    return function


def multiply(a: Array, b: Array, transposed: bool = False) -> Array:
    """Return the matrix product of two arrays of float32 or float64; b has rank 2, or the batch dimensions of a.

    With `transposed`, b is stored as (…, n, k). Raises ValueError for arrays that do not fit each other: the library
    reads memory by the sizes it is given.
    """
    _check(a, b, transposed)
    a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
    k, n = (b.shape[-1], b.shape[-2]) if transposed else b.shape[-2:]
    batches = 1 if b.ndim == 2 else math.prod(map(int, b.shape[:-2]))
    rows = math.prod(map(int, a.shape[:-1])) if b.ndim == 2 else int(a.shape[-2])
    result = np.empty((*a.shape[:-1], n), a.dtype)
    if result.size == 0 or k == 0:
        result[...] = 0
        return result
    gemm, itemsize = _gemm(a.dtype.name), a.itemsize
    for batch in range(batches):
        left, right, out = (
            array.ctypes.data + batch * size * itemsize
            for array, size in ((a, rows * k), (b, k * n), (result, rows * n))
        )
        how = _TRANSPOSED if transposed else _AS_IS
        width = k if transposed else n
        gemm(_ROW_MAJOR, _AS_IS, how, rows, n, k, 1.0, left, k, right, width, 0.0, out, n)
    return result


def _check(a: Array, b: Array, transposed: bool) -> None:
    """Raise ValueError unless the arrays have a product that the library computes."""
    if a.dtype != b.dtype or a.dtype.name not in _LETTERS:
        raise ValueError(f"a product of {a.dtype.name} and {b.dtype.name}, expected two of float32 or of float64")
    fits = a.ndim >= 2 and b.ndim >= 2 and a.shape[-1] == b.shape[-1 if transposed else -2]
    if not fits or (b.ndim > 2 and a.shape[:-2] != b.shape[:-2]):
        shapes = f"{a.shape} and {b.shape}{', transposed' if transposed else ''}"
        raise ValueError(f"the shapes {shapes} have no product without broadcasting")


def _product(node: Node, a: Any, b: Any) -> Any:
    return multiply(a, b)


def _transposed_product(node: Node, b: Any, a: Any) -> Any:
    return multiply(a, b, transposed=True)


class OpenBlas(JSONRuntime):
    """Runs graphs of products."""

    operators: ClassVar = {"openblas.matmul": _product, "openblas.matmul_transposed": _transposed_product}

    def __init__(self, module: Any) -> None:
        _library()
        super().__init__(module)


load = OpenBlas.load
