"""Argument types of primitives: users' calls are checked against the primitives' annotations.

    sch.parallel("i")        error[E8002]: parallel: loop must be a loop, found 'i'
                               = help: sch.get_loops(block) gives the loops around a block

An annotation is a name in the table below, ``X | None``, or ``Sequence[X]``. NumPy integers and IR constants are
converted to Python integers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from ...ir import GlobalVar, Node
from ...prim import FloatImm, IntImm, PrimExpr, StringImm
from ...runtime.records import dataclass
from ..buffer import Buffer, BufferRegion, IterVar
from ..index_map import IndexMap
from ..stmt import PrimFunc
from ..tensor_intrin import TensorIntrin
from .error import ARGUMENT, ScheduleError
from .rv import BlockRV, LoopRV

_REFUSED: Final = object()
"""Result of a conversion for a value of another type."""
_LONGEST: Final = 60
"""Largest number of characters of an argument shown in an error."""


@dataclass(frozen=True)
class ArgumentType:
    """A type of arguments: its name in errors, and the conversion of values."""

    description: str
    convert: Callable[[Any], Any]
    """Return the converted value, or `_REFUSED`."""
    hint: str = ""

    def require(self, name: str, value: Any) -> Any:
        """Return the converted argument; raise ScheduleError for a value of another type."""
        result = self.convert(value)
        if result is _REFUSED:
            message = f"{name} must be {self.description}, found {_shown(value)}"
            raise ScheduleError(ARGUMENT, message, hint=self.hint)
        return result


@dataclass(frozen=True)
class _ListType(ArgumentType):
    """A list of arguments of one type."""

    item: ArgumentType | None = None

    def require(self, name: str, value: Any) -> Any:
        items = super().require(name, value)
        if items is None or self.item is None:
            return items
        return [self.item.require(f"{name}[{i}]", item) for i, item in enumerate(items)]


def argument_type(annotation: str) -> ArgumentType:
    """Return the type for an annotation of a primitive's parameter."""
    entry = _TYPES.get(annotation)
    if entry is not None:
        return entry
    if annotation.startswith("Sequence[") and annotation.endswith("]"):
        item = argument_type(annotation.removeprefix("Sequence[")[:-1])
        return _ListType("a list", _sequence, item=item)
    base = annotation.removesuffix(" | None")
    assert base != annotation, f"a primitive has a parameter of type {annotation}, which is not in the table"
    return _optional(argument_type(base))


def _optional(base: ArgumentType) -> ArgumentType:
    def convert(value: Any) -> Any:
        return None if value is None else base.convert(value)

    description = f"{base.description} or None"
    if isinstance(base, _ListType):
        return _ListType(description, convert, base.hint, base.item)
    return ArgumentType(description, convert, base.hint)


def plain(value: Any) -> Any:
    """Convert NumPy numbers and arrays to Python's, and other sequences to lists."""
    if _is(value, np.generic, np.ndarray):
        return value.tolist()
    if _is(value, Sequence) and not _is(value, str, bytes, list, tuple):
        return list(value)
    return value


def _is(value: Any, *types: type) -> bool:
    """`isinstance` without narrowing for type checkers, since element types are unknown."""
    return isinstance(value, types)


def _shown(value: Any) -> str:
    """Return the text of an argument in an error: its representation if that is short, else its type."""
    if _is(value, BlockRV, LoopRV, PrimExpr, str, int, float, list, tuple, dict, type(None)):
        text = str(value) if _is(value, PrimExpr) else repr(value)
        if len(text) <= _LONGEST and "\n" not in text:
            return text
    return type(value).__name__


def _instance(*types: type) -> Callable[[Any], Any]:
    return lambda value: value if isinstance(value, types) else _REFUSED


def _integer(value: Any) -> Any:
    if isinstance(value, IntImm):
        return value.value
    return value if isinstance(value, int) and not isinstance(value, bool) else _REFUSED


def _number(value: Any) -> Any:
    if isinstance(value, (IntImm, FloatImm)):
        return value.value
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else _REFUSED


def _size(value: Any) -> Any:
    if isinstance(value, PrimExpr) and not isinstance(value, IntImm):
        return value if value.dtype.is_integer else _REFUSED
    return _integer(value)


def _truth(value: Any) -> Any:
    number = value.value if isinstance(value, IntImm) else value
    return bool(number) if isinstance(number, int) and number in (0, 1) else _REFUSED


def _text(value: Any) -> Any:
    text = value.value if isinstance(value, StringImm) else value
    return text if isinstance(text, str) else _REFUSED


def _buffer(value: Any) -> Any:
    return value if isinstance(value, (str, Buffer, BufferRegion)) else _integer(value)


def _sequence(value: Any) -> Any:
    return value if _is(value, list, tuple) else _REFUSED


def _function(value: Any) -> Any:
    is_function = callable(value) and not isinstance(value, (Node, BlockRV, LoopRV, type))
    return value if is_function or isinstance(value, IndexMap) else _REFUSED


def _padding(value: Any) -> Any:
    return value if isinstance(value, (int, float, PrimExpr)) else _function(value)


def _intrinsic(value: Any) -> Any:
    """Accept a name or an intrinsic; a trace holds an intrinsic as (description, implementation, name)."""
    if _is(value, list, tuple):
        match tuple(value):
            case (PrimFunc() as desc, PrimFunc() as impl, str() as name):
                return TensorIntrin(desc, impl, name)
            case _:
                return _REFUSED
    return value if isinstance(value, (str, TensorIntrin)) else _REFUSED


def _loop_or_blocks(value: Any) -> Any:
    items = value if _is(value, list, tuple) else [value]
    if _is(value, LoopRV) or (items and all(_is(item, BlockRV) for item in items)):
        return value
    return _REFUSED


_GET_BLOCK: Final = "sch.get_block(name) gives a block"
_GET_LOOPS: Final = "sch.get_loops(block) gives the loops around a block"
_TYPES: Final[Mapping[str, ArgumentType]] = MappingProxyType({
    "Any": ArgumentType("anything", lambda value: value),
    "BlockRV": ArgumentType("a block", _instance(BlockRV), _GET_BLOCK),
    "LoopRV": ArgumentType("a loop", _instance(LoopRV), _GET_LOOPS),
    "BlockRV | LoopRV": ArgumentType(
        "a block or a loop", _instance(BlockRV, LoopRV), f"{_GET_BLOCK}, {_GET_LOOPS}"
    ),
    "BlockRV | str": ArgumentType("a block or the name of one", _instance(BlockRV, str), _GET_BLOCK),
    "LoopRV | Sequence[BlockRV]": ArgumentType(
        "a loop, or a list of one block or more", _loop_or_blocks, f"{_GET_BLOCK}, {_GET_LOOPS}"
    ),
    "int": ArgumentType("an integer", _integer),
    "float": ArgumentType("a number", _number),
    "int | ExprRV": ArgumentType("an integer, an expression", _size),
    "bool": ArgumentType("True or False", _truth),
    "str": ArgumentType("a string", _text),
    "str | GlobalVar": ArgumentType("the name of a function", _instance(str, GlobalVar)),
    "str | IterVar": ArgumentType("the name of a thread axis", _instance(str, IterVar), 'such as "threadIdx.x"'),
    "str | TensorIntrin": ArgumentType(
        "a TensorIntrin or the name of a registered one", _intrinsic,
        "TensorIntrin.register(name, description, implementation) registers one",
    ),
    "int | str | Buffer": ArgumentType(
        "an index, a name or a Buffer", _buffer, "an index into the reads or writes of the block"
    ),
    "tuple[str, int] | str | Buffer": ArgumentType(
        'like ("read", 0), a name or a Buffer',
        lambda value: value if _is(value, tuple, list) else _buffer(value),
    ),
    "Mapping": ArgumentType(
        "an IndexMap or a function", _function, "such as lambda i, j: (i // 4, j, i % 4)"
    ),
    "Callable[..., Any] | IndexMap": ArgumentType("a function or an IndexMap", _function),
    "int | float | PrimExpr | IndexMap | Callable[..., Any]": ArgumentType(
        "a number, an IndexMap or a function", _padding
    ),
})  # fmt: skip
"""The permitted annotations of primitives' parameters."""
