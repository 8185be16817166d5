"""Values of Relay: what expressions evaluate to.

tensor         a NumPy array (at the border, a relax.nd.NDArray)
tuple          a Python tuple of values
closure        `Closure`; also an operator, a constructor or a global function by itself
reference      `RefValue`
ADT value      `ConstructorValue`; its fields are handed out as tensors are
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, cast

import numpy as np

from .. import runtime
from ..ir import Op
from ..runtime.records import dataclass
from .adt import Constructor
from .expr import Function


@dataclass(eq=False, slots=True)
class RefValue:
    """Reference cell: holds a replaceable value."""

    value: Any


@dataclass(eq=False, frozen=True, slots=True)
class ConstructorValue:
    """Value of a constructor, with its fields: ``Cons(1, Nil)``."""

    constructor: Constructor
    fields: tuple[Any, ...]

    @property
    def tag(self) -> int:
        """Index of the constructor in its definition."""
        return self.constructor.tag

    def __str__(self) -> str:
        """Format as Relay text; long lists are abbreviated."""
        return _text(self)


@dataclass(eq=False, frozen=True, slots=True)
class Closure:
    """Function with the values of its free variables; callable with values."""

    function: Function
    environment: Any
    evaluator: Any

    def __call__(self, *args: Any) -> Any:
        """Evaluate the function's body for these arguments."""
        return exported(self.evaluator.call(self, tuple(map(imported, args))))


def imported(value: Any) -> Any:
    """Convert an external value: arrays, tensors and numbers become arrays. Raises TypeError for anything else."""
    return converted(value, _opened_list, _taken_in)


def _opened_list(value: Any) -> Opened | None:
    return (cast("list[Any]", value), tuple) if isinstance(value, list) else opened(value)


def _taken_in(value: Any) -> Any:
    if isinstance(value, runtime.NDArray):
        return value.numpy()
    if isinstance(value, (np.ndarray, np.generic)):
        return np.asarray(cast(Any, value))
    if isinstance(value, bool):
        return np.array(value)
    if isinstance(value, int):
        return np.array(value, "int32")
    if isinstance(value, float):
        return np.array(value, "float32")
    if isinstance(value, (RefValue, Closure, Op, Constructor)):
        return value
    raise TypeError(f"a {type(value).__name__} is no value of Relay")


def exported(value: Any) -> Any:
    """Convert a value for the caller: tensors become NDArrays."""
    return converted(value, opened, _handed_out)


def _handed_out(value: Any) -> Any:
    return runtime.nd.array(cast(Any, value)) if isinstance(value, np.ndarray) else value


Opened: TypeAlias = "tuple[Sequence[Any], Callable[[tuple[Any, ...]], Any]]"
"""Parts of a value, and a function that rebuilds it from other parts."""


def opened(value: Any) -> Opened | None:
    """Open a tuple or ADT value; None for other values."""
    if isinstance(value, tuple):
        return cast("tuple[Any, ...]", value), tuple
    if isinstance(value, ConstructorValue):
        return value.fields, lambda fields: ConstructorValue(value.constructor, fields)
    return None


def converted(value: Any, opener: Callable[[Any], Opened | None], leaf: Callable[[Any], Any]) -> Any:
    """Apply `leaf` to the values without parts, without recursion and preserving sharing."""
    results: dict[int, Any] = {}
    kept: list[Any] = []  # keeps the objects of the ids alive
    stack: list[tuple[Any, Opened | None]] = [(value, None)]
    while stack:
        item, entry = stack.pop()
        if id(item) in results and entry is None:
            continue
        kept.append(item)
        contents = entry or opener(item)
        if contents is None:
            results[id(item)] = leaf(item)
        elif entry is None and contents[0]:
            stack.append((item, contents))
            stack.extend((child, None) for child in reversed(contents[0]))
        else:
            results[id(item)] = contents[1](tuple(results[id(child)] for child in contents[0]))
    return results[id(value)]


def described(value: Any) -> str:
    """Format a value for messages: an ADT value as Relay text, others by their kind."""
    if isinstance(value, ConstructorValue):
        return str(value)
    if isinstance(value, (np.ndarray, runtime.NDArray)):
        return "tensor"
    if isinstance(value, tuple):
        return "tuple"
    return "reference" if isinstance(value, RefValue) else "closure"


_MOST_PARTS = 200


def _text(value: Any) -> str:
    """Format a value without recursion: a list is as deep as it is long."""
    words: list[str] = []
    stack: list[Any] = [value]
    while stack and len(words) < _MOST_PARTS:
        item = stack.pop()
        if isinstance(item, str):
            words.append(item)
        elif isinstance(item, ConstructorValue):
            words.append(item.constructor.name_hint)
            if item.fields:
                stack += [")", *_separated(item.fields)[::-1], "("]
        elif isinstance(item, tuple):
            stack += [")", *_separated(cast("tuple[Any, ...]", item))[::-1], "("]
        else:
            item = item.numpy() if isinstance(item, runtime.NDArray) else item
            words.append(str(cast(Any, item)) if isinstance(item, np.ndarray) else type(item).__name__)
    return "".join(words) + ("…" if stack else "")


def _separated(fields: tuple[Any, ...]) -> list[Any]:
    result: list[Any] = []
    for field in fields:
        result += [", ", field] if result else [field]
    return result
