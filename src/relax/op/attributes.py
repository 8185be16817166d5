"""Attributes of operators: checked and converted according to their annotations.

    axis: int                       an int, a NumPy integer or a constant PrimExpr
    axes: tuple[int, ...] | None    a list or tuple of them, or a single one; or None
    dtype: DataType                 anything that names a dtype; None is void
    mode: Literal["fast", "clip"]   one of these strings

A class declares an attribute as a plain field; `attribute_field` gives that field its converter.
"""

from __future__ import annotations

import dataclasses
import inspect
import sys
import types
from collections.abc import Callable, Iterable
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from ..ir import DataType, RelaxExpr, child
from ..prim import FloatImm, IntImm, PrimExpr, convert

Converter = Callable[[Any], Any]

VOID = DataType("")
"""Void dtype: default of result-dtype attributes whose default is not the operands' dtype."""

_EVALUATED: dict[tuple[str, str], Any] = {}


def own_hints(declared: Any) -> dict[str, Any]:
    """Return the evaluated annotations of a class (excluding its bases) or of a function.

    `typing.get_type_hints` does this too, but walks the bases and compiles every text anew: for the operators
    alone it took half the time of importing the package. A name that only it finds is left to it.
    """
    module = sys.modules.get(declared.__module__)
    if module is None:
        return get_type_hints(declared)
    hints: dict[str, Any] = {}
    for name, text in inspect.get_annotations(declared).items():
        key = declared.__module__, str(text)
        try:
            if key not in _EVALUATED:
                _EVALUATED[key] = eval(text, vars(module)) if isinstance(text, str) else text
        except NameError:
            return get_type_hints(declared)
        hints[name] = _EVALUATED[key]
    return hints


class AttributeValueError(ValueError):
    """Raised for a value that an attribute does not accept."""


def attribute_field(name: str, hint: Any, declared: Any) -> Any:
    """Return the node field of an attribute; `declared` is the class's default, MISSING, or an existing field."""
    if isinstance(declared, dataclasses.Field):
        field: dataclasses.Field[Any] = declared  # type: ignore[reportUnknownVariableType]
        if any(v is not None for k, v in field.metadata.items() if k == "relax.converter"):
            return field
        declared = field.default
    convert_value = converter_of(hint)

    def checked(value: Any) -> Any:
        try:
            return convert_value(value)
        except AttributeValueError as error:
            raise AttributeValueError(f"{name}: {error}") from None

    return child(default=declared, converter=checked)


def converter_of(hint: Any) -> Converter:
    """Return the converter for an annotation. Raises TypeError if attributes cannot have this annotation."""
    origin = get_origin(hint)
    if origin is Union or origin is types.UnionType:
        return _union(get_args(hint))
    if origin is tuple:
        return _sequence(get_args(hint)[0])
    if origin is Literal:
        return _choice(get_args(hint))
    if hint in _SCALARS:
        return _SCALARS[hint]
    if hint is Any:
        return lambda value: value
    raise TypeError(f"attributes: no converter for the annotation {hint!r}")


def _expected(expected: str, value: Any) -> AttributeValueError:
    shown = f"{value!r}" if isinstance(value, (str, int, float, bool)) else type(value).__name__
    return AttributeValueError(f"expected {expected}, found {shown}")


def _int(value: Any) -> int:
    if isinstance(value, (IntImm, np.integer)) or (isinstance(value, int) and not isinstance(value, bool)):
        return int(value)  # type: ignore[reportUnknownArgumentType]
    raise _expected("an integer", value)


def _bool(value: Any) -> bool:
    if isinstance(value, (bool, np.bool_)):
        return bool(value)  # type: ignore[reportUnknownArgumentType]
    if isinstance(value, (int, IntImm)) and int(value) in (0, 1):
        return bool(int(value))
    raise _expected("a bool", value)


def _float(value: Any) -> float:
    if isinstance(value, (IntImm, FloatImm)):
        return float(value.value)
    if isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool):
        return float(value)  # type: ignore[reportUnknownArgumentType]
    raise _expected("a number", value)


def _str(value: Any) -> str:
    if isinstance(value, str):
        return value
    raise _expected("a string", value)


def _dtype(value: Any) -> DataType:
    try:
        return DataType(value)
    except (ValueError, TypeError):
        raise _expected("a dtype", value) from None


def _prim(value: Any) -> PrimExpr:
    try:
        return convert(value)
    except TypeError:
        raise _expected("a scalar expression", value) from None


_SCALARS: dict[Any, Converter] = {
    int: _int, bool: _bool, float: _float, str: _str, DataType: _dtype, PrimExpr: _prim,
}  # fmt: skip


def _union(hints: tuple[Any, ...]) -> Converter:
    optional = type(None) in hints
    # A tuple is tried last: as a single value converts to a tuple of one, it would shadow the other kinds.
    rest = sorted((h for h in hints if h is not type(None)), key=lambda h: get_origin(h) is tuple)
    converters = [converter_of(hint) for hint in rest]

    def convert_value(value: Any) -> Any:
        if value is None and optional:
            return None
        errors: list[str] = []
        for converter in converters:
            try:
                return converter(value)
            except AttributeValueError as error:
                errors.append(str(error))
        wanted = [text.removeprefix("expected ").rsplit(", found ", 1)[0] for text in errors]
        actual = errors[-1].rsplit(", found ", 1)[-1]
        raise AttributeValueError(f"expected {' or '.join(wanted)}, found {actual}")

    return convert_value


def _sequence(hint: Any) -> Converter:
    item = converter_of(hint)

    def convert_value(value: Any) -> tuple[Any, ...]:
        if isinstance(value, Iterable) and not isinstance(value, (str, PrimExpr, RelaxExpr)):
            items: list[Any] = list(value)  # type: ignore[reportUnknownArgumentType]
            return tuple(item(each) for each in items)
        return (item(value),)

    return convert_value


def _choice(values: tuple[Any, ...]) -> Converter:
    def convert_value(value: Any) -> Any:
        if value in values and isinstance(value, str):
            return value
        raise _expected("one of " + ", ".join(repr(v) for v in values), value)

    return convert_value
