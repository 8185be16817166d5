"""Scalar operations on arrays: elementwise equivalents of `relax.prim.evaluate`.

A value is a Python scalar, equal in all iterations and lanes, or an array with an axis for each loop in lockstep and
a last one for the lanes of a vector (of size 1 for a scalar). Arrays of bool, integers, float32 and float64 have the
value's dtype, whose NumPy arithmetic rounds and wraps as required; narrower floats are represented as float64, rounded
by `convert_array` after every operation, and integers of fewer bits than a byte as int8 or uint8, wrapped by `wrapped`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, Final, TypeAlias

import numpy as np

from ...ir import DataType, Op
from ...prim import Add, BinaryExpr, Call, Div, FloorDiv, FloorMod, Max, Min, Mod, Mul, Sub
from ...prim.evaluate import array_of
from ...prim.instructions import DOTS, Dot, fused
from ...runtime.rounding import convert_array
from ...target.isa.products import kind_of

Array: TypeAlias = Any
"""An ndarray, untyped because NumPy's annotations do not determine results of methods."""
numpy: Final[Any] = np
"""NumPy without annotations, for functions whose annotated results are undetermined."""
Function = Callable[..., Any]


class Unsupported(Exception):
    """Raised while a statement is compiled that lockstep execution does not support: it runs one step at a time."""


class Decline(Exception):
    """Raised when lockstep execution of a statement fails: its writes are undone, and its iterations run in order."""


def held_dtype(dtype: DataType) -> np.dtype[Any]:
    """Return the dtype of arrays with values of `dtype`. Raises Unsupported for handles and integers of odd sizes."""
    element = dtype.element_of
    if element.is_float:
        return np.dtype(element if element in ("float32", "float64") else "float64")
    if is_part_of_byte(element):
        return np.dtype("int8" if element.is_int else "uint8")
    if not (element.is_bool or (element.is_integer and element.bits in (8, 16, 32, 64))):
        raise Unsupported(f"values of {dtype!s}")
    return element.numpy()


def whole_dtype(dtype: DataType) -> np.dtype[Any]:
    """Return the dtype of arrays with values of `dtype`. Raises Unsupported for integers of part of a byte as well."""
    if is_part_of_byte(dtype):
        raise Unsupported(f"values of {dtype!s}")
    return held_dtype(dtype)


def is_part_of_byte(dtype: DataType) -> bool:
    """True for integers of 2 or 4 bits."""
    return dtype.is_integer and not dtype.is_bool and dtype.bits in (2, 4)


def wrapped(value: Array, dtype: DataType) -> Array:
    """Wrap an array of int8 or uint8 around to the lowest bits, as an integer of part of a byte has them."""
    if not dtype.is_int:
        return value & (1 << dtype.bits) - 1
    return (value << 8 - dtype.bits) >> 8 - dtype.bits


def is_array(value: Any) -> bool:
    """True for an array, whose values may differ between iterations or lanes."""
    return value.__class__ is np.ndarray


def widened(value: Any, dtype: DataType) -> Array:
    """Convert a value to an array of at least one dimension."""
    if is_array(value):
        return value
    return np.array([value], held_dtype(dtype))


def rounded(value: Array, dtype: DataType) -> Array:
    """Round a float64 array to a floating-point dtype, in that dtype's array representation."""
    if dtype == "float64":
        return value
    if dtype == "float32":
        return value.astype(np.float32)
    return convert_array(value, dtype.numpy()).astype(np.float64)


# ------------------------------------------------------------------------------------------------ conversions


def cast_array(value: Array, dtype: DataType) -> Array:
    """Convert each element as `convert_value` does; `value` has the array representation of its dtype."""
    if dtype.is_bool:
        return value != 0
    if dtype.is_float:
        if dtype == "float64":
            return value.astype(np.float64)
        if dtype == "float32":
            return convert_array(value, np.dtype(np.float32))
        return convert_array(value, dtype.numpy()).astype(np.float64)
    target = held_dtype(dtype)
    if value.dtype.kind != "f":
        whole = value.astype(target)
        return wrapped(whole, dtype) if is_part_of_byte(dtype) else whole
    wide = value.astype(np.float64)
    low, high = int(dtype.min_value), int(dtype.max_value)
    above, below = wide >= float(high), wide <= float(low)
    inside = numpy.where(above | below | np.isnan(wide), 0.0, wide).astype(target)
    result = numpy.where(above, target.type(high), numpy.where(below, target.type(low), inside))
    return result.astype(target)


def to_native(value: Any, dtype: DataType) -> Array:
    """Convert a value to an array of the dtype's NumPy type, as stored in memory."""
    if not is_array(value):
        return np.reshape(array_of(value, dtype), (1,))
    return value.astype(dtype.numpy())


def to_held(value: Array, dtype: DataType) -> Array:
    """Convert loaded elements to their array representation."""
    return value.astype(held_dtype(dtype))


# ------------------------------------------------------------------------------------------------ binary operations

_IN_FLOAT32: Final = frozenset({Add, Sub, Mul, Div, Min, Max})
"""Operations that are computed in float32 itself: equal to float64 arithmetic rounded to float32."""


_IN_A_BYTE: Final = frozenset({Add, Sub, Mul, Min, Max})
"""Operations on integers of 2 or 4 bits that are computed in a byte: equal to exact arithmetic that is wrapped."""


def _opposite(a: Any, b: Any, remainder: Any) -> Any:
    """True where floor and truncation of a quotient differ."""
    return (remainder != 0) & ((a < 0) != (b < 0))


def _truncated_quotient(a: Any, b: Any) -> Any:
    return np.floor_divide(a, b) + _opposite(a, b, np.mod(a, b))


def _truncated_remainder(a: Any, b: Any) -> Any:
    remainder = np.mod(a, b)
    return numpy.where(_opposite(a, b, remainder), remainder - b, remainder)


DIVISIONS: Final[dict[type, Function]] = {
    FloorDiv: np.floor_divide,
    FloorMod: np.mod,
    Div: _truncated_quotient,
    Mod: _truncated_remainder,
}
"""Integer divisions; divisors must be nonzero."""


def binary_arrays(expr: BinaryExpr) -> Function:
    """Return the operation for two values, at least one an array; integer divisions are excluded."""
    dtype, kind = expr.a.dtype.element_of, type(expr)
    held_dtype(dtype)
    if not dtype.is_float:
        function = expr.functions.arrays
        if function is None or (dtype.is_bool and kind in (Add, Sub, Mul)):
            raise Unsupported(f"{kind.__name__} of {dtype!s}")
        if is_part_of_byte(dtype) and not expr.dtype.is_bool:
            if kind not in _IN_A_BYTE:
                raise Unsupported(f"{kind.__name__} of {dtype!s}")
            return partial(_in_a_byte, function, dtype)
        return function
    compute, own = expr.functions.floats, expr.functions.arrays
    if expr.dtype.is_bool:
        if own is None:
            raise Unsupported(f"{kind.__name__} of {dtype!s}")
        return own
    if dtype == "float32" and kind in _IN_FLOAT32:
        return own or compute

    def run(a: Any, b: Any) -> Any:
        return rounded(compute(_doubles(a), _doubles(b)), dtype)

    return run


def _in_a_byte(function: Function, dtype: DataType, a: Any, b: Any) -> Any:
    return wrapped(function(a, b), dtype)


def _doubles(value: Any) -> Any:
    return value.astype(np.float64) if is_array(value) else value


# ------------------------------------------------------------------------------------------------ intrinsics


def intrinsic_arrays(expr: Call) -> Function:
    """Return the function of a call for values of which at least one is an array. Raises Unsupported unless it is
    elementwise.
    """
    dtype, kinds = expr.dtype.element_of, [arg.dtype.element_of for arg in expr.args]
    name = expr.intrinsic
    for kind in (dtype, *kinds):
        whole_dtype(kind)
    if name == "reinterpret":
        return partial(_same_bits, kinds[0], dtype)
    if name == "fma":
        return _fused_singles if dtype == "float32" else partial(_one_by_one, partial(fused, dtype), dtype)
    if name.removeprefix("dot_") in DOTS:
        return partial(_dot, DOTS[name.removeprefix("dot_")])
    reference = expr.op.get_attr("numpy") if isinstance(expr.op, Op) else None
    if reference is None:
        raise Unsupported(name)
    types: list[Any] = [np.float64 if kind.is_float else kind.numpy() for kind in kinds]

    def function(*values: Any) -> Any:
        arrays = [np.asarray(value, kind) for value, kind in zip(values, types, strict=True)]
        return cast_array(np.asarray(reference(*arrays)), dtype)

    return function


def _same_bits(source: DataType, target: DataType, value: Any) -> Any:
    return to_held(to_native(value, source).view(target.numpy()), target)


def _one_by_one(function: Function, dtype: DataType, *values: Any) -> Array:
    arrays = np.broadcast_arrays(*values)
    result: Array = np.empty(arrays[0].shape, held_dtype(dtype))
    result.reshape(-1)[:] = [
        function(*items) for items in zip(*(array.ravel().tolist() for array in arrays), strict=True)
    ]
    return result


def _fused_singles(a: Any, b: Any, c: Any) -> Any:
    """Return a * b + c, rounded once to float32.

    The product is exact in float64. The sum is rounded to odd in float64: an inexact sum becomes the neighbour whose
    last bit is 1, so that it stays on its side of a float32 tie.
    """
    product, c = _as_double(a) * _as_double(b), _as_double(c)
    total = product + c
    rounded_c = total - product
    error = (product - (total - rounded_c)) + (c - rounded_c)
    inexact: Any = (error != 0) & np.isfinite(error)
    if inexact.any():
        bits = total.view(np.int64)
        # Towards zero if the error has the other sign, then the last bit is set.
        toward = bits - ((error < 0) != (total < 0))
        return numpy.where(inexact, (toward | 1).view(np.float64), total).astype(np.float32)
    return total.astype(np.float32)


def _as_double(value: Any) -> Any:
    return np.asarray(value, np.float64)


def _dot(dot: Dot, total: Any, a: Any, b: Any) -> Any:
    """Return the total plus the products of two packed groups of narrow numbers: exact, then converted once."""
    left, right, wide, sums = _dot_types(dot)
    numbers = [
        _words(word).view(narrow).astype(wide).reshape(*numpy.shape(word) or (1,), dot.group)
        for word, narrow in ((a, left), (b, right))
    ]
    if dot.limit and (numbers[0] >= dot.limit).any():
        raise ValueError(f"dot_{kind_of(dot)}: a number on the left is not below {dot.limit}")
    products = (numbers[0] * numbers[1]).sum(axis=-1)
    return cast_array(np.asarray(total, wide) + products, sums)


@lru_cache
def _dot_types(dot: Dot) -> tuple[Any, Any, Any, DataType]:
    """Return the NumPy dtypes of both operands and of exact sums, and the dtype of the result."""
    wide = np.float64 if dot.sums == "float32" else np.int64
    return DataType(dot.left).numpy(), DataType(dot.right).numpy(), wide, DataType(dot.sums)


def _words(value: Any) -> Array:
    return numpy.ascontiguousarray(np.asarray(value, np.int32))
