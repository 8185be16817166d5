"""What the generator knows of a value: a description from which its annotation and matching inputs are made.

Dimensions are texts over the shape variables in scope; two dimensions are taken for equal if their texts are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

NAME = re.compile(r"(?<![\w.])[a-z]\w*(?!\w*\()")

FLOATS = ("float32", "float64", "float16")
INTS = ("int64", "int32", "int8", "int16", "uint8")
DTYPES = (*FLOATS, *INTS, "bool")


@dataclass(frozen=True)
class Tensor:
    """A tensor of known dimensions; `hidden` says that annotations only give its rank and dtype."""

    dims: tuple[str, ...]
    dtype: str
    hidden: bool = False


@dataclass(frozen=True)
class Shape:
    """A shape value; `hidden` says that annotations only give its rank."""

    dims: tuple[str, ...]
    hidden: bool = False


@dataclass(frozen=True)
class Prim:
    """A scalar; `value` is its text, if it is known; `name` the variable that a parameter of main binds to it."""

    dtype: str
    value: str | None = None
    name: str = ""


@dataclass(frozen=True)
class Tuple:
    """A tuple."""

    fields: tuple[Kind, ...]


@dataclass(frozen=True)
class Func:
    """A function; `own` are the shape variables that its parameters bind."""

    params: tuple[Kind, ...]
    result: Kind
    pure: bool = True
    own: tuple[str, ...] = ()


@dataclass(frozen=True)
class Object:
    """Any value; `what` is what it really is: "string", "dtype", "null", "packed", or a kind that was forgotten."""

    what: str | Kind = "null"


Kind: TypeAlias = "Tensor | Shape | Prim | Tuple | Func | Object"


@dataclass(frozen=True)
class Value:
    """A variable of the program.

    `bound` is a number no element exceeds in size, and `exact` says that elements are whole numbers or specials, so
    that every order of computing gives the same. `fresh`: nobody else holds its memory.
    """

    name: str
    kind: Kind
    bound: float = 3
    exact: bool = True
    fresh: bool = False


def is_static(dim: str) -> bool:
    """Whether a dimension is a number."""
    return dim.isdigit()


def names_in(text: str) -> set[str]:
    """The shape variables of a dimension."""
    return set(NAME.findall(text))


def rename(text: str, table: Mapping[str, str]) -> str:
    """A dimension with other texts for its variables."""
    return NAME.sub(lambda found: table.get(found.group(), found.group()), text)


def dims_of(kind: Kind) -> Iterator[str]:
    """Every dimension that a kind mentions."""
    match kind:
        case Tensor(dims) | Shape(dims):
            yield from dims
        case Prim(_, value):
            if value is not None:
                yield value
        case Tuple(fields):
            for field in fields:
                yield from dims_of(field)
        case Func(params, result):
            for part in (*params, result):
                yield from dims_of(part)
        case Object(what):
            if not isinstance(what, str):
                yield from dims_of(what)


def free_names(kind: Kind) -> set[str]:
    """The shape variables a kind depends on."""
    own = set(kind.own) if isinstance(kind, Func) else set()
    match kind:
        case Tuple(fields):
            return {name for field in fields for name in free_names(field)}
        case Func(params, result):
            return {name for part in (*params, result) for name in free_names(part)} - own
        case _:
            return {name for dim in dims_of(kind) for name in names_in(dim)}


def map_dims(kind: Kind, function: Callable[[str], str]) -> Kind:
    """A kind with other dimensions."""
    match kind:
        case Tensor(dims) | Shape(dims):
            return replace(kind, dims=tuple(map(function, dims)))
        case Prim(_, value):
            return kind if value is None else replace(kind, value=function(value))
        case Tuple(fields):
            return Tuple(tuple(map_dims(field, function) for field in fields))
        case Func(params, result):
            return replace(
                kind, params=tuple(map_dims(param, function) for param in params), result=map_dims(result, function)
            )
        case Object(what):
            return kind if isinstance(what, str) else Object(map_dims(what, function))


def hide(kind: Kind, known: set[str]) -> Kind:
    """A kind as it is known where only these shape variables are in scope."""
    if free_names(kind) <= known:
        return kind
    match kind:
        case Tensor() | Shape():
            return replace(kind, hidden=True)
        case Prim():
            return replace(kind, value=None)
        case Tuple(fields):
            return Tuple(tuple(hide(field, known) for field in fields))
        case _:
            return Object(kind)


def shown_dims(dims: tuple[str, ...], signature: bool) -> str:
    """Dimensions as an annotation writes them: in signatures expressions are texts."""
    if signature:
        dims = tuple(dim if is_static(dim) else f'"{dim}"' for dim in dims)
    return ", ".join(dims)


def annotation(kind: Kind, signature: bool = False) -> str:
    """The struct info of a kind, as text."""
    match kind:
        case Tensor(dims, dtype, True):
            return f'R.Tensor(dtype="{dtype}", ndim={len(dims)})'
        case Tensor(dims, dtype):
            inner = shown_dims(dims, signature)
            return f'R.Tensor(({inner}{"," if len(dims) == 1 else ""}), "{dtype}")'
        case Shape(dims, True):
            return f"R.Shape(ndim={len(dims)})"
        case Shape(dims):
            return f"R.Shape([{shown_dims(dims, signature)}])"
        case Prim(dtype, None, name) if name and signature:
            return f'R.Prim("{dtype}", value="{name}")'
        case Prim(dtype, None):
            return f'R.Prim("{dtype}")'
        case Prim(_, value):
            return f'R.Prim(value="{value}")' if signature else f"R.Prim(value={value})"
        case Tuple(fields):
            return f"R.Tuple({', '.join(annotation(field, signature) for field in fields)})"
        case Func(params, result, pure, own):
            quoted = signature or bool(own)
            inner = "".join(annotation(param, quoted) + ", " for param in params)
            return f"R.Callable(({inner}), {annotation(result, quoted)}, {pure})"
        case Object():
            return "R.Object"


class _Scalars:
    """What dimension texts call `T`."""

    max = staticmethod(max)
    min = staticmethod(min)


def evaluate(dim: str, sizes: Mapping[str, int]) -> int:
    """A dimension for sizes of its variables. Raises ZeroDivisionError where it divides by zero."""
    return eval(dim, {"__builtins__": {}}, {"T": _Scalars, **sizes})


def elements(dims: tuple[str, ...], size: Mapping[str, int]) -> int:
    """How many elements a tensor has; at least one is counted."""
    total = 1
    for dim in dims:
        total *= max(1, evaluate(dim, size))
    return total


def tensors_of(kind: Kind) -> Iterator[Tensor]:
    """The tensors within a kind."""
    if isinstance(kind, Tensor):
        yield kind
    elif isinstance(kind, Tuple):
        for field in kind.fields:
            yield from tensors_of(field)


def literal(value: Any, dtype: str) -> str:
    """R.const of a number."""
    text = (
        f'float("{value}")'
        if isinstance(value, float) and (value != value or abs(value) == float("inf"))
        else repr(value)
    )
    return f'R.const({text}, "{dtype}")'
