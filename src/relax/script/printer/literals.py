"""Values as Python text: numbers, strings, containers, constants, and the metadata section for large constants."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from ...expr import Constant
from ...expr import const as make_constant
from ...ir import DataType, Node, save_json
from ...ir.node import node_key
from ...runtime import NDArray
from .core import Printer, Text, prints

INLINE_ELEMENTS = 64
"""Maximum number of elements of constants printed inline; larger ones go to the metadata section."""


def number(value: float) -> str:
    """Exact text of a Python float; `float("inf")` and similar for those without a literal."""
    if math.isnan(value):
        return 'float("nan")'
    if math.isinf(value):
        return 'float("inf")' if value > 0 else 'float("-inf")'
    return repr(value)


def string(value: str) -> str:
    """Text of a string, in double quotes if that needs no escapes."""
    plain = value.isprintable() and '"' not in value and "\\" not in value
    return f'"{value}"' if plain else repr(value)


def value_text(p: Printer, value: Any) -> str:
    """Text of an attribute's value."""
    match value:
        case None | bool() | int():
            return repr(value)
        case float():
            return number(value)
        case str():
            return string(str(value))
        case list() | tuple():
            items = cast("Sequence[Any]", value)
            inner = [value_text(p, item) for item in items]
            return f"[{', '.join(inner)}]"
        case dict():
            table = cast("Mapping[Any, Any]", value)
            pairs = [f"{value_text(p, k)}: {value_text(p, v)}" for k, v in table.items()]
            return "{" + ", ".join(pairs) + "}"
        case np.generic():
            return value_text(p, cast("Any", value).item())
        case np.ndarray() | NDArray():
            return metadata_reference(p, Constant(value)) + ".data"
        case Node():
            return p.text(value)
        case _:
            return p.expr(value).text


def metadata_reference(p: Printer, node: Node) -> str:
    """Add a node to the metadata section and return its reference."""
    key = f"relax.{node_key(type(node))}"
    entries = p.metadata.setdefault(key, [])
    for i, entry in enumerate(entries):
        if entry is node:
            return f'metadata["{key}"][{i}]'
    entries.append(node)
    return f'metadata["{key}"][{len(entries) - 1}]'


def metadata_section(p: Printer) -> str:
    """Statement that defines `metadata`."""
    text = save_json({key: tuple(nodes) for key, nodes in p.metadata.items()})
    return f'metadata = {p.I("load_json")}(r"""{text}""")'


@prints(Constant)
def _constant(p: Printer, node: Constant) -> Text:
    data = node.data
    if data.size <= INLINE_ELEMENTS:
        text = _inline(data)
        if text is not None:
            return Text(f'{p.R("const")}({text}, "{node.dtype!s}")')
    return Text(metadata_reference(p, node))


def _inline(data: np.ndarray[Any, Any]) -> str | None:
    """Nested lists that `R.const` reads back bit for bit; None if there are none."""
    for shortest in (True, False):
        values, text = _nested(data, shortest)
        try:
            again = make_constant(values, data.dtype.name).data
        except (ValueError, TypeError, OverflowError):
            continue
        if again.shape == data.shape and again.tobytes() == data.tobytes():
            return text
    return None


def _nested(data: np.ndarray[Any, Any], shortest: bool) -> tuple[Any, str]:
    if data.ndim:
        rows = [_nested(data[i], shortest) for i in range(data.shape[0])]
        return [value for value, _ in rows], f"[{', '.join(text for _, text in rows)}]"
    scalar = data[()]
    dtype = DataType(data.dtype.name)
    if not dtype.is_float:
        value = bool(scalar) if dtype.is_bool else int(scalar)
        return value, repr(value)
    value = float(scalar)
    if math.isnan(value):
        value = math.nan  # the value of the text: a NaN of another sign or payload is unequal
    if shortest and math.isfinite(value):
        value = float(str(scalar))  # the shortest digits that name this value of the narrower type
    return value, number(value)
