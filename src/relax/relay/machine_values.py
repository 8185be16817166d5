"""Values of Relay as values of the machine, which runs translated programs, and back.

tensor, tuple  the same
ADT value      a tuple of the constructor's name and the fields (`runtime.tagged`)
reference      `runtime.references.Reference`
closure        a function of the machine, which is called with values of Relay
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from ..ir import IRModule
from ..runtime.references import Reference
from ..runtime.tagged import is_tagged
from ..runtime.values import export_value
from .adt import Constructor
from .types import TypeData
from .values import Closure, ConstructorValue, Opened, RefValue, converted, exported, imported, opened


def to_machine(value: Any) -> Any:
    """A value for the machine. Raises TypeError for one that is no value of Relay, and for closures of the evaluator."""
    return exported(converted(imported(value), _untagged, _to_cell))


def _untagged(value: Any) -> Opened | None:
    if isinstance(value, ConstructorValue):
        name = value.constructor.name_hint
        return value.fields, lambda fields: (name, *fields)
    return opened(value)


def _to_cell(value: Any) -> Any:
    if isinstance(value, RefValue):
        return Reference(to_machine(value.value))
    if isinstance(value, Closure):
        raise TypeError("a closure of the evaluator cannot be called by compiled code")
    return value


class MachineValues:
    """Values that the machine gives, as values of Relay, for the data types of a module."""

    def __init__(self, mod: IRModule) -> None:
        self._constructors: Mapping[str, Constructor] = {
            constructor.name_hint: constructor
            for definition in mod.type_definitions.values()
            for constructor in cast(TypeData, definition).constructors
        }

    def value(self, value: Any) -> Any:
        """A value of the machine, as Relay has it."""
        return converted(value, self._opened, self._leaf)

    def function(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function of the machine that takes and gives values of Relay."""
        return lambda *args: self.value(function(*map(to_machine, args)))

    def _opened(self, value: Any) -> Opened | None:
        if is_tagged(value):
            constructor = self._constructors[value[0]]
            return value[1:], lambda fields: ConstructorValue(constructor, fields)
        return opened(value)

    def _leaf(self, value: Any) -> Any:
        if isinstance(value, Reference):
            return RefValue(self.value(export_value(value.value)))
        return self.function(value) if callable(value) else value


__all__ = ["MachineValues", "to_machine"]
