"""Values of Relay: what expressions evaluate to.

tensor         a NumPy array (at the border, a relax.nd.NDArray)
tuple          a Python tuple of values
closure        `Closure`; also an operator, a constructor or a global function by itself
reference      `RefValue`
ADT value      `ConstructorValue`
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from .. import runtime
from .adt import Constructor
from .expr import Function


@dataclass(eq=False, slots=True)
class RefValue:
    """A reference: it holds a value, which can be replaced."""

    value: Any


@dataclass(eq=False, frozen=True, slots=True)
class ConstructorValue:
    """A value made by a constructor, with its fields: ``Cons(1, Nil)``."""

    constructor: Constructor
    fields: tuple[Any, ...]

    @property
    def tag(self) -> int:
        """The constructor's position in its definition."""
        return self.constructor.tag

    def __str__(self) -> str:
        """As Relay writes it; long lists are cut."""
        return _text(self)


@dataclass(eq=False, frozen=True, slots=True)
class Closure:
    """A function with the values of the variables around it. Called with values, it gives one."""

    function: Function
    environment: Any
    evaluator: Any

    def __call__(self, *args: Any) -> Any:
        """The value of the function's body for these arguments."""
        return exported(self.evaluator.call(self, tuple(map(imported, args))))


def imported(value: Any) -> Any:
    """A value from outside: arrays, tensors and numbers become arrays. Raises TypeError for anything else."""
    if isinstance(value, runtime.NDArray):
        return value.numpy()
    if isinstance(value, (tuple, list)):
        return tuple(map(imported, cast("tuple[Any, ...]", value)))
    if isinstance(value, (np.ndarray, np.generic)):
        return np.asarray(cast(Any, value))
    if isinstance(value, bool):
        return np.array(value)
    if isinstance(value, int):
        return np.array(value, "int32")
    if isinstance(value, float):
        return np.array(value, "float32")
    if isinstance(value, (RefValue, ConstructorValue, Closure)):
        return value
    raise TypeError(f"a {type(value).__name__} is no value of Relay")


def exported(value: Any) -> Any:
    """A value as it is handed out: tensors are NDArrays."""
    if isinstance(value, tuple):
        return tuple(map(exported, cast("tuple[Any, ...]", value)))
    return runtime.nd.array(cast(Any, value)) if isinstance(value, np.ndarray) else value


_MOST_PARTS = 200


def _text(value: Any) -> str:
    """A value as text, without recursion: a list is as deep as it is long."""
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
            words.append(str(cast(Any, item)) if isinstance(item, np.ndarray) else type(item).__name__)
    return "".join(words) + ("…" if stack else "")


def _separated(fields: tuple[Any, ...]) -> list[Any]:
    result: list[Any] = []
    for field in fields:
        result += [", ", field] if result else [field]
    return result


__all__ = ["Closure", "ConstructorValue", "RefValue", "exported", "imported"]
