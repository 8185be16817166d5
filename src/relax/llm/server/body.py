"""Bodies of requests: JSON objects whose fields are taken and checked one by one.

    body = Body.parse(data)
    temperature = body.number("temperature", 0, math.inf)
    stop = body.texts("stop")
    body.finish(ignored=("user",))        rejects fields that were not read

A field that is null counts as absent.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NoReturn, cast, final

from .errors import RequestError, invalid

DEEPEST: Final = 200
"""Objects and arrays within each other, at most: functions that recurse into a body end before the stack does."""
_UNBOUNDED: Final = (1 << 31) - 1
"""Messages leave out upper bounds from this one on: no request comes near them."""
_KINDS: Final = {dict: "an object", list: "an array", str: "a string", bool: "a boolean", type(None): "null"}


@final
class Body:
    """Fields of a JSON object. `path` is the name of the object in errors, "" for the body itself.

    Methods raise RequestError, with status 400 and the field's name, for values of another type or out of range.
    """

    def __init__(self, fields: Mapping[str, Any], path: str = "") -> None:
        self._fields = {name: value for name, value in fields.items() if value is not None}
        self._path = path
        self._taken: set[str] = set()

    @staticmethod
    def parse(data: bytes) -> Body:
        """Read the body of a request. Raises RequestError for bytes that are not a JSON object in UTF-8."""
        try:
            value = json.loads(data.decode("utf-8-sig"), parse_constant=_no_number)
        except RecursionError:
            raise _too_deep() from None
        except ValueError as error:  # no JSON, no UTF-8, or a number of more than 4300 digits
            raise invalid(None, f"the body is not JSON: {error}", "invalid_json") from None
        if not isinstance(value, dict):
            raise invalid(None, f"the body is {kind_of(value)}, expected an object", "invalid_json")
        if data.count(b"[") + data.count(b"{") > DEEPEST and _depth(value) > DEEPEST:
            raise _too_deep()
        return Body(cast("dict[str, Any]", value))

    def named(self, name: str) -> str:
        """Return the name of a field in errors."""
        return f"{self._path}.{name}" if self._path else name

    def has(self, name: str) -> bool:
        """True if the field is there, and not null."""
        return name in self._fields

    def value(self, name: str) -> Any:
        """Return the value of a field of any type, None if it is absent."""
        self._taken.add(name)
        return self._fields.get(name)

    def needed(self, name: str) -> Any:
        """Return the value of a field that must be there."""
        value = self.value(name)
        if value is None:
            raise invalid(self.named(name), "missing", "missing_required_parameter")
        return value

    def text(self, name: str) -> str | None:
        """Return a string."""
        value = self.value(name)
        if value is not None and not isinstance(value, str):
            self._mistyped(name, value, "a string")
        return value

    def flag(self, name: str, default: bool = False) -> bool:
        """Return a boolean, `default` if it is absent."""
        value = self.value(name)
        if value is not None and not isinstance(value, bool):
            self._mistyped(name, value, "a boolean")
        return default if value is None else value

    def integer(self, name: str, low: int, high: int) -> int | None:
        """Return an integer from `low` to `high`. A number such as 1.0 is one."""
        value = self.value(name)
        if value is None:
            return None
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            self._mistyped(name, value, "an integer")
        if not low <= value <= high:
            self._outside(name, value, low, high)
        return value

    def number(self, name: str, low: float, high: float) -> float | None:
        """Return a finite number from `low` to `high`."""
        value = self.value(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            self._mistyped(name, value, "a number")
        if not low <= value <= high or abs(value) > 1e300:
            self._outside(name, value, low, high)
        return float(value)

    def mapping(self, name: str) -> Body | None:
        """Return the fields of an object."""
        return None if self.value(name) is None else self.inner(name)

    def inner(self, name: str) -> Body:
        """Return the fields of an object that must be there."""
        value = self.needed(name)
        if not isinstance(value, dict):
            self._mistyped(name, value, "an object")
        return Body(cast("dict[str, Any]", value), self.named(name))

    def items(self, name: str, most: int | None = None) -> list[Any] | None:
        """Return an array of at most `most` elements."""
        value = self.value(name)
        if value is None:
            return None
        if not isinstance(value, list):
            self._mistyped(name, value, "an array")
        elements = cast("list[Any]", value)
        if most is not None and len(elements) > most:
            raise invalid(
                self.named(name), f"{len(elements)} elements, expected at most {most}", "array_above_max_length"
            )
        return elements

    def objects(self, name: str) -> list[Body] | None:
        """Return an array of objects."""
        elements = self.items(name)
        if elements is None:
            return None
        for index, element in enumerate(elements):
            if not isinstance(element, dict):
                self._mistyped(f"{name}[{index}]", element, "an object")
        return [Body(element, f"{self.named(name)}[{index}]") for index, element in enumerate(elements)]

    def texts(self, name: str, most: int | None = None) -> list[str]:
        """Return strings: those of an array, or one that stands alone; none if the field is absent."""
        value = self.value(name)
        if isinstance(value, str):
            return [value]
        elements = self.items(name, most) or []
        for index, element in enumerate(elements):
            if not isinstance(element, str):
                self._mistyped(f"{name}[{index}]", element, "a string")
        return elements

    def choice(self, name: str, names: Sequence[str]) -> str | None:
        """Return a string, one of `names`."""
        value = self.text(name)
        if value is not None and value not in names:
            expected = " or ".join(map(repr, names))
            raise invalid(self.named(name), f"{shown(value)}, expected {expected}", "invalid_value")
        return value

    def raw(self) -> dict[str, Any]:
        """Return all fields that are not null."""
        return dict(self._fields)

    def refuse(self, reasons: Mapping[str, str]) -> None:
        """Raise RequestError for a field of `reasons` that is there, unless its value is false, empty or 0."""
        for name, reason in reasons.items():
            if self.value(name):
                raise invalid(self.named(name), f"not supported: {reason}", "unsupported_parameter")

    def finish(self, ignored: Collection[str] = ()) -> None:
        """Raise RequestError for a field that no method has read and that is not in `ignored`."""
        for name in self._fields:
            if name not in self._taken and name not in ignored:
                close = difflib.get_close_matches(name[:64], self._taken, 1)
                hint = f"; did you mean {close[0]!r}?" if close else ""
                message = f"Unrecognized request argument supplied: {shown(name)}{hint}"
                raise RequestError(message, param=self.named(name)[:200], code="unknown_parameter")

    def _mistyped(self, name: str, value: Any, expected: str) -> NoReturn:
        raise invalid(self.named(name), f"{kind_of(value)}, expected {expected}", "invalid_type")

    def _outside(self, name: str, value: float, low: float, high: float) -> NoReturn:
        bounds = f"at least {low:g}" if high >= _UNBOUNDED else f"from {low:g} to {high:g}"
        raise invalid(self.named(name), f"{shown(value)}, expected {bounds}", "invalid_value")


def _depth(value: Any) -> int:
    """Return how many objects and arrays are within each other."""
    depth = 0
    level: list[Any] = [value]
    while level:
        depth += 1
        level = [inner for outer in level for inner in _elements(outer) if isinstance(inner, dict | list)]
    return depth


def _elements(outer: Any) -> Iterable[Any]:
    return cast("dict[str, Any]", outer).values() if isinstance(outer, dict) else outer


def _too_deep() -> RequestError:
    return invalid(None, f"the body has more than {DEEPEST} objects and arrays within each other", "invalid_json")


def kind_of(value: Any) -> str:
    """Name the JSON type of a value."""
    return _KINDS.get(cast("type[Any]", type(value)), "a number")


def shown(value: Any) -> str:
    """Return the text of a value for an error, cut behind 60 characters."""
    try:
        text = repr(value)
    except ValueError:  # an integer of more than 4300 digits
        return "a number of thousands of digits"
    return text if len(text) <= 60 else f"{text[:57]}…"


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


__all__ = ["Body", "kind_of", "shown"]
