"""Tagged values: tuples whose first field is a string, the name of the constructor that made them.

    ("Cons", 1, ("Cons", 2, ("Nil",)))

They are the values of algebraic data types. A program reads the tag and then knows which fields there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from .builtin_table import Effects, builtin
from .values import is_tuple, kind_of


class MatchError(ValueError):
    """A value that no clause of a match takes; the value of the machine is `value`."""

    def __init__(self, message: str, value: Any) -> None:
        super().__init__(message)
        self.value = value


@builtin("vm.builtin.has_tag", Effects(reads=()))
def has_tag(value: Any, tag: str) -> bool:
    """True if a tagged value was made by the constructor of this name. Raises TypeError for another value."""
    if not is_tagged(value):
        raise TypeError(f"expected a value of a data type, found {kind_of(value)}")
    return bool(value[0] == tag)


@builtin("vm.builtin.match_failed", Effects(aliases="all"), program_errors=True)
def match_failed(value: Any) -> Any:
    """Raise MatchError for a value that no clause matches."""
    raise MatchError(f"no clause of the match takes {_described(value)}", value)


def is_tagged(value: Any) -> bool:
    """True for a tuple whose first field is a string."""
    return is_tuple(value) and isinstance(next(iter(value), None), str)


def _described(value: Any) -> str:
    if not is_tagged(value):
        return kind_of(value)
    fields = cast("Sequence[Any]", value)
    return f"{fields[0]}(…)" if len(fields) > 1 else str(fields[0])
