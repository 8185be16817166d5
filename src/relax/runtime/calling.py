"""Conversion of positional and named Python arguments to VM values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from .closure import Closure
from .info import Info
from .messages import KIND, counted_arguments
from .values import import_value


def bind_arguments(
    closure: Closure, names: Sequence[str] | None, args: Sequence[Any], kwargs: dict[str, Any]
) -> list[Any]:
    """The arguments, in order, as values of the machine; `names` are those of the parameters, None if not known.

    Raises TypeError for a wrong number or name, TypeError and ValueError for what is no value.
    """
    given: list[Any] = list(args)
    if kwargs and names is not None:
        for name in names[len(args) :]:
            if name in kwargs:
                given.append(kwargs.pop(name))
            elif kwargs:
                raise TypeError(f"{closure.name}: there is no argument for parameter {name}")
    if kwargs:
        name = next(iter(kwargs))
        problem = "given twice" if names is not None and name in names else "not known"
        raise TypeError(f"{closure.name}: parameter {name} is {problem}; it has {_listed(names)}")
    check_count(closure, names, len(given))
    infos = closure.info.params if closure.info is not None and closure.info.params is not None else ()
    expected = infos if len(infos) == len(given) else (None,) * len(given)
    return _imported(closure, names, given, expected)


def import_arguments(closure: Closure, names: Sequence[str] | None, args: Sequence[Any]) -> list[Any]:
    """The values of the machine for those a packed function calls with; they may be too many or too few."""
    matching_names = names if names is not None and len(names) == len(args) else None
    return _imported(closure, matching_names, args, (None,) * len(args))


def _imported(
    closure: Closure, names: Sequence[str] | None, given: Sequence[Any], expected: Sequence[Info | None]
) -> list[Any]:
    values: list[Any] = []
    for index, (value, info) in enumerate(zip(given, expected, strict=True)):
        try:
            values.append(import_value(value, info))
        except _REFUSALS as error:  # an array no tensor can hold, or on another device, or that its owner does not give
            name = names[index] if names is not None else str(index)
            kind = next(kind for kind in type(error).__mro__ if kind in _REFUSALS)
            raise kind(f"{closure.name}: parameter {name}: {error}") from None
    return values


_REFUSALS: Final = (TypeError, ValueError, MemoryError, BufferError, RuntimeError)


def check_count(closure: Closure, names: Sequence[str] | None, count: int) -> None:
    """Raise TypeError unless as many arguments are given as there are parameters, where that is known."""
    if names is not None and len(names) != count:
        raise KIND(context=closure.name, expected=counted_arguments(len(names), names), found=count)


def _listed(names: Sequence[str] | None) -> str:
    return f"({', '.join(names or ())})"
