"""Arguments of a node in the types that the operator's schema declares.

Torch converts as well: one number stands for a list of sizes, 1 for True, None for False, an integer for a float.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

_SCALARS: dict[str, Callable[[Any], Any]] = {"bool": bool, "int": int, "float": float}
"""Python types by the names that schemas have for them."""


def typed(target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Return positional and named arguments in the types of the schema of `target`; unchanged if it has none."""
    schema: Sequence[Any] = getattr(getattr(target, "_schema", None), "arguments", ())
    by_name = {argument.name: argument for argument in schema}
    positional = [_typed(value, schema[place]) if place < len(schema) else value for place, value in enumerate(args)]
    named = {key: _typed(value, by_name[key]) if key in by_name else value for key, value in kwargs.items()}
    return positional, named


def _typed(value: Any, argument: Any) -> Any:
    if value is None and str(argument.type) == "bool":
        return False
    kind = str(argument.type).removeprefix("Optional[").removesuffix("]")
    if isinstance(value, (bool, int, float)):
        if kind in _SCALARS:
            return _SCALARS[kind](value)
        if kind.startswith("List[") and kind.removeprefix("List[").rstrip("]") in _SCALARS:
            return [_SCALARS[kind.removeprefix("List[").rstrip("]")](value)] * (argument.N or 1)
    return value
