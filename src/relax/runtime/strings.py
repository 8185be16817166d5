"""Operators on tensors of strings, and on labels that may be strings or numbers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import tvm_ffi

from .builtin_table import Effects, builtin
from .dtypes import NUMPY_DTYPES, Array
from .ops import array_of
from .sizes import shape_value
from .string_tensor import StringTensor
from .tensor import tensor_of_numpy
from .values import kind_of


def strings_of(value: Any, operator: str) -> Array:
    """The strings of a tensor of strings. TypeError for another value."""
    if not isinstance(value, StringTensor):
        raise TypeError(f"{operator}: expected a tensor of strings, found {kind_of(value)}")
    return value.array


def labels_of(value: Any, operator: str) -> Array:
    """The elements of a tensor of strings or numbers."""
    return value.array if isinstance(value, StringTensor) else array_of(value, operator)


def _labels(array: Array) -> Any:
    return StringTensor(array) if array.dtype == object else tensor_of_numpy(np.ascontiguousarray(array))


def _objects(items: list[Any], shape: tuple[int, ...]) -> Array:
    array: Array = np.empty(len(items), dtype=object)
    array[:] = items
    return array.reshape(shape)


def _mapped(array: Array, function: Callable[[str], Any]) -> list[Any]:
    return [function(item) for item in cast("list[str]", array.reshape(-1).tolist())]


# ------------------------------------------------------------------------------------- making and moving


@builtin("relax.run.strings", Effects(reads=()))
def strings(shape: Any, text: str) -> StringTensor:
    """The tensor of this shape with the strings of a JSON array, in row-major order."""
    return StringTensor(_objects(json.loads(text), tuple(shape)))


@builtin("relax.run.strings_shape")
def strings_shape(value: Any) -> tvm_ffi.Shape:
    """The shape of a tensor of strings."""
    return shape_value(strings_of(value, "strings_shape").shape)


@builtin("relax.run.strings_reshape")
def strings_reshape(value: Any, sizes: Any, allowzero: int) -> StringTensor:
    """The strings in another shape, an integer tensor: -1 is what the other sizes leave over.

    0 is the size at that place, unless `allowzero`. ValueError if the number of strings is another.
    """
    array = strings_of(value, "strings_reshape")
    dims = [int(size) for size in array_of(sizes, "strings_reshape").reshape(-1)]
    if not allowzero:
        dims = [array.shape[d] if size == 0 and d < array.ndim else size for d, size in enumerate(dims)]
    return StringTensor(array.reshape(tuple(dims)))


@builtin("relax.run.strings_unsqueeze")
def strings_unsqueeze(value: Any, axes: Any) -> StringTensor:
    """The strings with new axes of size 1 at these places of the result, a shape value."""
    return StringTensor(np.expand_dims(strings_of(value, "strings_unsqueeze"), tuple(axes)))


@builtin("relax.run.strings_squeeze")
def strings_squeeze(value: Any, axes: Any) -> StringTensor:
    """The strings without these axes, a shape value. ValueError for one whose size is not 1."""
    return StringTensor(strings_of(value, "strings_squeeze").squeeze(tuple(axes)))


@builtin("relax.run.strings_transpose")
def strings_transpose(value: Any, axes: Any) -> StringTensor:
    """The strings with the axes in another order, a shape value."""
    return StringTensor(strings_of(value, "strings_transpose").transpose(tuple(axes)))


@builtin("relax.run.strings_take")
def strings_take(value: Any, indices: Any, axis: int) -> StringTensor:
    """The strings at indices along an axis; IndexError for one out of range. Negative ones count from the end."""
    array = strings_of(value, "strings_take")
    return StringTensor(np.asarray(np.take(array, array_of(indices, "strings_take"), axis), dtype=object))


@builtin("relax.run.strings_join")
def strings_join(axis: int, *values: Any) -> StringTensor:
    """Tensors of strings, one after the other along an axis."""
    return StringTensor(np.concatenate([strings_of(value, "strings_join") for value in values], axis))


@builtin("relax.run.strings_where")
def strings_where(condition: Any, a: Any, b: Any) -> StringTensor:
    """The strings of `a` where a bool tensor holds, else of `b`."""
    left, right = strings_of(a, "strings_where"), strings_of(b, "strings_where")
    chosen: Array = np.where(array_of(condition, "strings_where"), left, right)  # pyright: ignore[reportUnknownVariableType]
    return StringTensor(np.asarray(chosen, dtype=object))


@builtin("relax.run.strings_equal")
def strings_equal(a: Any, b: Any) -> tvm_ffi.Tensor:
    """True where the strings of two tensors are the same."""
    same: Array = np.asarray(strings_of(a, "strings_equal") == strings_of(b, "strings_equal"), dtype=bool)
    return tensor_of_numpy(same)


# ------------------------------------------------------------------------------------- conversion


@builtin("relax.run.strings_to_numbers")
def strings_to_numbers(value: Any, dtype: str) -> tvm_ffi.Tensor:
    """Parse strings as numbers. Raises ValueError for a string that is not a number."""
    array = strings_of(value, "strings_to_numbers")
    numeric: Any = NUMPY_DTYPES[dtype]
    parse: Callable[[str], Any] = int if numeric.kind in "iu" else float

    def read(text: str) -> Any:
        try:
            return parse(text)
        except ValueError:
            raise ValueError(f"strings_to_numbers: {text[:40]!r} is no {dtype}") from None

    numbers: Array = np.array(_mapped(array, read), numeric)
    return tensor_of_numpy(numbers.reshape(array.shape))


@builtin("relax.run.numbers_to_strings")
def numbers_to_strings(data: Any) -> StringTensor:
    """Numbers written as strings, floats with the fewest digits that tell them apart."""
    array = array_of(data, "numbers_to_strings")
    items: list[Any] = list(array.reshape(-1))
    return StringTensor(_objects([_INFINITE.get(str(item), str(item)) for item in items], array.shape))


_INFINITE = {"nan": "NaN", "inf": "INF", "-inf": "-INF"}


# ------------------------------------------------------------------------------------- operators on text


@builtin("relax.run.strings_concat")
def strings_concat(a: Any, b: Any) -> StringTensor:
    """The strings of two tensors, broadcast, put together."""
    joined: Array = np.add(strings_of(a, "strings_concat"), strings_of(b, "strings_concat"))
    return StringTensor(np.asarray(joined, dtype=object))


@builtin("relax.run.strings_split")
def strings_split(value: Any, delimiter: str, maxsplit: int) -> tuple[StringTensor, tvm_ffi.Tensor]:
    """The parts of strings along a new last axis, padded with empty ones, and the numbers of parts (int64).

    An empty `delimiter` stands for any white space; a negative `maxsplit` for any number of cuts.
    """
    array = strings_of(value, "strings_split")
    parts: list[list[str]] = _mapped(array, lambda text: text.split(delimiter or None, maxsplit) if text else [])
    longest = max(map(len, parts), default=0)
    padded = [part for row in parts for part in [*row, *[""] * (longest - len(row))]]
    counts: Array = np.array([len(row) for row in parts], np.int64)
    return (StringTensor(_objects(padded, (*array.shape, longest))), tensor_of_numpy(counts.reshape(array.shape)))


@builtin("relax.run.strings_normalize")
def strings_normalize(value: Any, case: str, case_sensitive: int, stopwords: str) -> StringTensor:
    """Strings without the stop words, a JSON array, in another case: "LOWER", "UPPER" or "NONE".

    One empty string stands for a row of which nothing is left. Raises ValueError for more than one row.
    """
    array = strings_of(value, "strings_normalize")
    if array.ndim > 2 or (array.ndim == 2 and array.shape[0] != 1):
        raise ValueError(f"strings_normalize: expected a shape of (C,) or (1, C), found {array.shape}")
    words = set(json.loads(stopwords))
    if not case_sensitive:
        words = {word.casefold() for word in words}
    kept = [
        text
        for text in cast("list[str]", array.reshape(-1).tolist())
        if (text if case_sensitive else text.casefold()) not in words
    ]
    change = {"LOWER": str.lower, "UPPER": str.upper}.get(case, str)
    texts = [change(text) for text in kept] or [""]
    return StringTensor(_objects(texts, (len(texts),) if array.ndim == 1 else (1, len(texts))))


@builtin("relax.run.strings_match")
def strings_match(value: Any, pattern: str) -> tvm_ffi.Tensor:
    """True for each string that a regular expression matches as a whole."""
    array = strings_of(value, "strings_match")
    compiled = re.compile(pattern)
    matched: Array = np.array(_mapped(array, lambda text: compiled.fullmatch(text) is not None), bool)
    return tensor_of_numpy(matched.reshape(array.shape))


# ------------------------------------------------------------------------------------- labels


@builtin("relax.run.encode_labels")
def encode_labels(data: Any, keys: Any, values: Any, default: Any) -> Any:
    """For each label of a tensor, the value beside its key; `default`, one element, for a label that is no key.

    NaN is the key of NaN. Of equal keys the first one counts.
    """
    array, key_array = labels_of(data, "encode_labels"), labels_of(keys, "encode_labels").reshape(-1)
    table: Array = np.concatenate(
        [labels_of(values, "encode_labels").reshape(-1), labels_of(default, "encode_labels").reshape(-1)[:1]]
    )
    if array.dtype == object or key_array.dtype == object:
        return _labels(table[_positions_by_text(array, key_array)].reshape(array.shape))
    return _labels(table[_positions(array.reshape(-1), key_array)].reshape(array.shape))


def _positions(numbers: Array, key_array: Array) -> Array:
    """The position of each number among the keys, the number of keys for one that is none; NaN is NaN."""
    if not key_array.size:
        return np.zeros(numbers.size, np.int64)
    order: Array = np.argsort(key_array, kind="stable")  # NaNs come last
    keys: Array = key_array[order]
    above = cast("Array", np.searchsorted(keys, numbers))  # pyright: ignore[reportUnknownMemberType]
    candidate: Array = np.minimum(above, len(keys) - 1)
    nearest: Array = keys[candidate]
    same = (nearest == numbers) | (np.isnan(nearest) & np.isnan(numbers))
    index: Array = order[candidate]
    index[~same] = len(key_array)
    return index


def _positions_by_text(array: Array, key_array: Array) -> Array:
    """The position of each label among the keys, their number for one that is none."""
    positions: dict[Any, int] = {}
    for position, key in enumerate(cast("list[Any]", key_array.tolist())):
        positions.setdefault(key, position)
    labels = cast("list[Any]", array.reshape(-1).tolist())
    return np.array([positions.get(label, len(key_array)) for label in labels], np.int64)
