"""Conversion of values at the VM's boundary, and their names in messages.

Inside the machine a value is

    tensor      a compact ``tvm_ffi.Tensor`` in host memory
    tuple       a Python tuple (packed functions see a ``tvm_ffi.Array``)
    shape       a ``tvm_ffi.Shape``
    prim value  a Python bool, int or float
    closure     a ``Closure`` (packed functions see a ``tvm_ffi.Function``)
    packed      a ``tvm_ffi.Function``
    strings     a ``StringTensor``
    opaque      anything else: str, ``tvm_ffi.dtype``, None (the null object), objects of other packages; in a
                ``OpaquePyObject`` what tvm-ffi would make something else of (packed functions see what is in it)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, cast, final

import numpy as np
import tvm_ffi
from tvm_ffi.core import OpaquePyObject
from tvm_ffi.core import _convert_to_opaque_object as _opaque  # pyright: ignore[reportPrivateUsage]

from .carried import ffi_function, is_written
from .closure import Closure, closure_of
from .dtypes import DLPACK_CODES, is_float
from .info import DTYPES, Info, PrimInfo, ShapeInfo, TensorInfo, TupleInfo
from .nd import NDArray
from .sizes import check_dimensions, number_text, shape_value
from .string_tensor import StringTensor
from .tensor import compact_tensor, tensor_of, tensor_of_numpy


@final
class ShapeTuple(tvm_ffi.Shape):
    """A shape value: a tuple of ints that packed functions see as a shape; equal to any tuple or list of them."""

    if TYPE_CHECKING:  # tvm-ffi's annotation leaves out lists

        def __new__(cls, content: Iterable[int]) -> ShapeTuple: ...

    def __eq__(self, other: object) -> bool:
        return tuple(self) == (tuple(cast("list[Any]", other)) if isinstance(other, list) else other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = tvm_ffi.Shape.__hash__


_TUPLES: Final = (tuple, tvm_ffi.Array)
_SEQUENCES: Final = (*_TUPLES, list, tvm_ffi.List)
_PLAIN: Final = frozenset((bool, int, type(None), Closure))

MOST_NESTED: Final = 16_000
"""The depth to which tuples and dictionaries from outside may be nested: tvm-ffi goes through them on the stack."""
_TOO_DEEP: Final = f"tuples or dictionaries are nested more than {MOST_NESTED} deep, or one holds itself"

RESULT: Final = "the result of a packed function"
"""The subject of messages about a packed function's result, after the name of the function that called it."""


class PackedFunc:
    """A packed function of the process: call it with Python values, get Python values.

    The ``tvm_ffi.Function`` itself is `function`; other tvm-ffi functions take this object as that.
    """

    __slots__ = ("__weakref__", "function")

    def __init__(self, function: tvm_ffi.Function) -> None:
        self.function = function

    def __call__(self, *args: Any) -> Any:
        return export_value(self.function(*map(import_value, args)))

    def __tvm_ffi_object__(self) -> tvm_ffi.Function:
        return self.function


def packed(function: Callable[..., Any]) -> tvm_ffi.Function:
    """The packed function that calls a Python one.

    It is given NDArrays, tuples and callables, and may return those or NumPy arrays.
    """

    def call(*args: Any) -> Any:
        return import_result(function(*map(export_value, args)))

    return ffi_function(call)


def is_tuple(value: object) -> bool:
    """True if a value of the machine is a tuple (and not a shape, which is a tuple to Python only)."""
    return isinstance(value, tuple | tvm_ffi.Array) and not isinstance(value, tvm_ffi.Shape)


def import_value(value: Any, expected: Info | None = None) -> Any:
    """Convert a Python value to a VM value; `expected` resolves ambiguous ones.

    Arrays share memory where they can. Lists are tuples, or shapes where a shape is expected; NumPy
    scalars are prim values, or tensors of rank 0 where a tensor is expected; a float is rounded to the
    dtype that is expected of a scalar. Raises ValueError for dimensions that are no sizes.
    """
    kind: Any = value.__class__
    if kind is np.ndarray:  # the common cases first, by exact class
        return StringTensor(value) if value.dtype.kind in "OSU" else tensor_of_numpy(value)
    if kind is NDArray:
        return compact_tensor(value.tensor)
    if isinstance(value, tvm_ffi.Tensor):
        return compact_tensor(value)
    if isinstance(value, np.generic):  # first: a float64 is a Python float too
        return _import_scalar(value, expected)
    if isinstance(value, float):
        return _import_float(value, expected)
    if isinstance(value, tvm_ffi.Shape):
        check_dimensions(value)
        return value
    if kind is str:
        return value if is_written(value) else _opaque(value)
    if kind in _PLAIN:
        return value
    if isinstance(value, Closure | tvm_ffi.dtype):
        return value
    if isinstance(value, int):  # of a class of its own: an enum's
        return int(value)
    if isinstance(value, str):
        return import_value(str.__str__(value))
    if isinstance(value, tuple | list | tvm_ffi.Array | tvm_ffi.List):
        return _import_sequence(cast("Sequence[Any]", value), expected)
    if isinstance(value, tvm_ffi.Function):
        closure = closure_of(value)
        return value if closure is None else closure
    if isinstance(value, PackedFunc):
        return import_value(value.function)
    tensor = tensor_of(value)
    if tensor is not None:
        return tensor
    if isinstance(value, np.dtype):
        return tvm_ffi.dtype(str(cast("object", value)))
    if callable(value) and not isinstance(value, type | tvm_ffi.Object):
        return packed(value)
    if isinstance(value, dict):
        _check_nesting(cast("dict[Any, Any]", value))
    # Of these tvm-ffi makes a packed function, and an error of its own.
    return cast("Any", _opaque(value) if isinstance(value, type | BaseException) else value)


def import_result(value: Any) -> Any:
    """A value of the machine for what a packed function returned.

    Raises ValueError, which says whose result it is, for dimensions that are no sizes.
    """
    try:
        return import_value(value)
    except ValueError as error:
        raise ValueError(f"{RESULT}: {error}") from None


def _import_sequence(value: Sequence[Any], expected: Info | None) -> Any:
    if isinstance(expected, ShapeInfo) and all(isinstance(v, int | np.integer) for v in value):
        return shape_value(map(int, value))
    if isinstance(expected, TupleInfo) and len(expected.fields) == len(value):
        return _import_fields(value, expected, {})
    return mapped(value, _SEQUENCES, import_value, MOST_NESTED)


def _import_fields(value: Sequence[Any], expected: TupleInfo, imported: dict[tuple[int, int], Any]) -> Any:
    """Import a tuple with as many fields as `expected`; `imported` caches tuples by the ids of value and info."""
    key = identity(value), id(expected)
    if key not in imported:
        imported[key] = tuple(
            _import_fields(cast("Sequence[Any]", field), cast("TupleInfo", info), imported)
            if _has_fields(field, info)
            else import_value(field, info)
            for field, info in zip(value, expected.fields, strict=True)
        )
    return imported[key]


def _has_fields(value: Any, expected: Info) -> bool:
    """True for a sequence of as many values as a tuple is expected to have fields."""
    return (
        isinstance(expected, TupleInfo)
        and isinstance(value, _SEQUENCES)
        and not isinstance(value, tvm_ffi.Shape)
        and len(cast("Sequence[Any]", value)) == len(expected.fields)
    )


def mapped(
    value: Sequence[Any], kinds: tuple[type, ...], leaf: Callable[[Any], Any], most: float = float("inf")
) -> tuple[Any, ...]:
    """A tuple with `leaf` applied to what is inside of it; instances of `kinds` are tuples.

    A tuple that others have several times is mapped once. Raises ValueError if tuples are nested deeper than `most`.
    """
    mapped_tuples: dict[int, tuple[Any, ...]] = {}
    open_tuples, results = [(0, iter(value))], [list[Any]()]
    while True:
        for item in open_tuples[-1][1]:
            if not isinstance(item, kinds) or isinstance(item, tvm_ffi.Shape):
                results[-1].append(leaf(item))
                continue
            key = identity(item)
            if key not in mapped_tuples:
                if len(open_tuples) >= most:
                    raise ValueError(_TOO_DEEP)
                open_tuples.append((key, iter(cast("Sequence[Any]", item))))
                results.append([])
                break
            results[-1].append(mapped_tuples[key])
        else:
            key, _ = open_tuples.pop()
            mapped_tuples[key] = tuple(results.pop())
            if not open_tuples:
                return mapped_tuples[key]
            results[-1].append(mapped_tuples[key])


def _check_nesting(value: dict[Any, Any]) -> None:
    """Raise ValueError for a dictionary that is nested too deeply, or holds itself."""
    kinds = (dict, *_SEQUENCES)
    level: dict[int, Any] = {0: value}
    for _ in range(MOST_NESTED):
        children: list[Any] = []
        for each in level.values():
            children += cast("dict[Any, Any]", each).values() if isinstance(each, dict) else each
        level = {id(cast("object", child)): child for child in children if isinstance(child, kinds)}
        if not level:
            return
    raise ValueError(_TOO_DEEP)


def identity(value: object) -> int:
    """The identity of a tuple; an array of tvm-ffi gets a new object of Python's each time it is looked at."""
    return value.__chandle__() if isinstance(value, tvm_ffi.Array) else id(value)


def _import_float(value: float, expected: Info | None) -> float:
    rounded = DTYPES.get(expected.dtype) if isinstance(expected, PrimInfo) and is_float(expected.dtype) else None
    return float(value) if rounded is None else float(rounded(value))


def _import_scalar(value: Any, expected: Info | None) -> Any:
    if isinstance(expected, TensorInfo):
        return tensor_of_numpy(np.array(value))
    name = str(value.dtype)
    if name not in DLPACK_CODES:
        return import_value(str(value)) if isinstance(value, np.str_) else value
    return import_value(float(value) if is_float(name) else value.item(), expected)


def export_value(value: Any) -> Any:
    """A value of the machine as users get it: NDArrays, tuples of them, callables."""
    if isinstance(value, tvm_ffi.Tensor):
        return NDArray(value)
    if isinstance(value, tvm_ffi.Shape):
        return ShapeTuple(value)
    if isinstance(value, tuple | tvm_ffi.Array):
        return mapped(cast("Sequence[Any]", value), _TUPLES, export_value)
    if isinstance(value, tvm_ffi.Function):
        closure = closure_of(value)
        return PackedFunc(value) if closure is None else closure
    return value.pyobject() if isinstance(value, OpaquePyObject) else value


def kind_of(value: object) -> str:
    """A value in a few words, with their article: ``a tensor``, ``the int 3``."""
    match value:
        case tvm_ffi.Tensor():
            return "a tensor"
        case tvm_ffi.Shape():
            return f"the shape {describe_shape(value)}"
        case tuple() | tvm_ffi.Array():
            return f"a tuple of {len(cast('Sequence[Any]', value))}"
        case bool() | float():
            return f"the {type(value).__name__} {value}"
        case int():
            return f"the int {value}" if value.bit_length() <= 256 else number_text(value)
        case StringTensor():
            return f"a tensor of strings of shape {describe_shape(value.shape)}"
        case Closure():
            return f"the function {value.name}"
        case tvm_ffi.Function():
            return "a packed function"
        case str():
            return f"the string {value[:40]!r}"
        case None:
            return "the null object"
        case OpaquePyObject():
            return kind_of(value.pyobject())
        case tvm_ffi.Map():  # what machine code makes of a dictionary
            return "an object of type dict"
        case _:
            return f"an object of type {type(value).__name__}"


def describe_shape(shape: Sequence[int]) -> str:
    """``(2, 3)``"""
    return str(tuple(int(extent) for extent in shape))


def prim_fits(value: object, dtype: str) -> bool:
    """True if a prim value is one of `dtype`. A Python int stands for every integer type that holds it."""
    if isinstance(value, bool):
        return dtype == "bool"
    if isinstance(value, int):
        if not dtype.startswith(("int", "uint")):
            return False
        bits = DLPACK_CODES[dtype][1]
        low, high = (-(1 << (bits - 1)), 1 << (bits - 1)) if dtype[0] == "i" else (0, 1 << bits)
        return low <= value < high
    return isinstance(value, float) and is_float(dtype)
