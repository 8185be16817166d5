"""Conversion of Python values for a model's inputs (`from_onnx(values=…)`) to arrays of the declared dtypes."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

import numpy as np

from ..ir import DataType
from ..runtime.nd import NDArray


def array_of(value: Any, dtype: str) -> Any:
    """Convert a value to an array of `dtype`, "string" for strings.

    Python's numbers, and lists of them, become elements of `dtype`; arrays must have it. Raises ValueError if the value
    is no array, has another dtype, or does not fit into `dtype`.
    """
    if isinstance(value, NDArray):
        value = value.numpy()
    is_typed = isinstance(value, (np.ndarray, np.generic))
    try:
        array: Any = np.asarray(value)
    except ValueError:
        raise ValueError("its lists have different lengths") from None
    if dtype == "string":
        return _strings(array)
    if array.dtype.kind == "O" and all(isinstance(item, int) for item in array.flat):  # too large for NumPy
        raise ValueError(f"{dtype} cannot hold it")
    if array.dtype.kind in "OUSVc" and not _is_small_float(array):
        raise ValueError(f"expected numbers of {dtype}, found {type(value).__name__}")
    if is_typed:
        if array.dtype != DataType(dtype).numpy():
            raise ValueError(f"its dtype is {array.dtype.name}, expected {dtype}")
        return array
    return _converted(array, dtype)


def did_you_mean(name: str, names: Iterable[str], kind: str) -> str:
    """Return a hint for an unknown name: a similar one, or all names; `kind` is the plural noun for them."""
    known = list(names)
    close = difflib.get_close_matches(name, known, 1)
    return f"did you mean {close[0]!r}?" if close else f"the {kind} are {', '.join(known) or 'none'}"


def _is_small_float(array: Any) -> bool:
    """True for elements of ml_dtypes, whose kind in NumPy may be V."""
    return array.dtype.kind == "V" and array.dtype.names is None and array.dtype.type is not np.void


def _strings(array: Any) -> Any:
    """Return an array of str objects. Raises ValueError for other elements."""
    objects: Any = array.astype(object)
    if not all(isinstance(item, str) for item in objects.flat):
        raise ValueError("expected strings")
    return objects


def _converted(array: Any, dtype: str) -> Any:
    """Convert Python's numbers to `dtype`. Raises ValueError if an element changes, except by rounding of floats."""
    kind = DataType(dtype)
    source = array.dtype.kind
    is_other = kind.is_bool != (source == "b") or (kind.is_integer and source == "f")
    if is_other and array.size:
        found = {"b": "bool", "f": "float"}.get(source, "int")
        raise ValueError(f"it is {found}, expected {dtype}")
    with np.errstate(over="ignore"):
        converted: Any = array.astype(kind.numpy())
    changes = kind.is_integer and (converted.astype(object) != array.astype(object)).any()
    if changes or (kind.is_float and (np.isfinite(array) & ~np.isfinite(converted)).any()):
        raise ValueError(f"{dtype} cannot hold it")
    return converted
