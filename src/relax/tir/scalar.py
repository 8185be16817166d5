"""Python operators for objects that denote a scalar without being an expression.

For iteration variables and tensor slices, `asobject` returns the denoted expression, on which every operator works.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from ..prim import PrimExpr


def as_tuple(value: Any) -> tuple[Any, ...]:
    """Return the items of a tuple or list; any other value is the only item."""
    return tuple(cast("Sequence[Any]", value)) if isinstance(value, (tuple, list)) else (value,)


class ScalarOperators:
    """Arithmetic operators that apply to the expression `asobject` returns."""

    __slots__ = ()

    def asobject(self) -> PrimExpr:
        """Return the expression that this object denotes."""
        raise NotImplementedError(type(self).__name__)

    def __add__(self, other: Any) -> Any:
        return self.asobject() + other

    def __radd__(self, other: Any) -> Any:
        return other + self.asobject()

    def __sub__(self, other: Any) -> Any:
        return self.asobject() - other

    def __rsub__(self, other: Any) -> Any:
        return other - self.asobject()

    def __mul__(self, other: Any) -> Any:
        return self.asobject() * other

    def __rmul__(self, other: Any) -> Any:
        return other * self.asobject()

    def __truediv__(self, other: Any) -> Any:
        return self.asobject() / other

    def __rtruediv__(self, other: Any) -> Any:
        return other / self.asobject()

    def __floordiv__(self, other: Any) -> Any:
        return self.asobject() // other

    def __rfloordiv__(self, other: Any) -> Any:
        return other // self.asobject()

    def __mod__(self, other: Any) -> Any:
        return self.asobject() % other

    def __rmod__(self, other: Any) -> Any:
        return other % self.asobject()

    def __and__(self, other: Any) -> Any:
        return self.asobject() & other

    def __rand__(self, other: Any) -> Any:
        return other & self.asobject()

    def __or__(self, other: Any) -> Any:
        return self.asobject() | other

    def __ror__(self, other: Any) -> Any:
        return other | self.asobject()

    def __xor__(self, other: Any) -> Any:
        return self.asobject() ^ other

    def __rxor__(self, other: Any) -> Any:
        return other ^ self.asobject()

    def __lshift__(self, other: Any) -> Any:
        return self.asobject() << other

    def __rshift__(self, other: Any) -> Any:
        return self.asobject() >> other

    def __lt__(self, other: Any) -> Any:
        return self.asobject() < other

    def __le__(self, other: Any) -> Any:
        return self.asobject() <= other

    def __gt__(self, other: Any) -> Any:
        return self.asobject() > other

    def __ge__(self, other: Any) -> Any:
        return self.asobject() >= other

    def __eq__(self, other: object) -> Any:
        return self.asobject() == other

    def __ne__(self, other: object) -> Any:
        return self.asobject() != other

    __hash__ = object.__hash__

    def __neg__(self) -> Any:
        return -self.asobject()

    def __invert__(self) -> Any:
        return ~self.asobject()

    def astype(self, dtype: str) -> PrimExpr:
        """The value converted to another dtype."""
        return self.asobject().astype(dtype)
