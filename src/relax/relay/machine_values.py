"""Conversion between Relay values and values of the VM that runs translated programs.

tensor, tuple  the same
ADT value      a tuple of the constructor's name and the fields (`runtime.tagged`)
reference      `runtime.references.Reference`; back, a `MachineReference` to the same cell
closure        a function of the machine, which is called with values of Relay
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from ..ir import IRModule
from ..runtime.references import Reference
from ..runtime.tagged import is_tagged
from ..runtime.values import export_value, import_value
from .adt import Constructor
from .types import TypeData
from .values import Closure, ConstructorValue, Opened, RefValue, converted, exported, imported, opened


def to_machine(value: Any) -> Any:
    """Convert a value for the VM. Raises TypeError for values that are not Relay's, and for closures of the
    evaluator.
    """
    return exported(converted(imported(value), _untagged, _to_cell))


def _untagged(value: Any) -> Opened | None:
    if isinstance(value, ConstructorValue):
        name = value.constructor.name_hint
        return value.fields, lambda fields: (name, *fields)
    return opened(value)


def _to_cell(value: Any) -> Any:
    if isinstance(value, MachineReference):
        return value.cell
    if isinstance(value, RefValue):
        return Reference(import_value(to_machine(value.value)))
    if isinstance(value, Closure):
        raise TypeError("a closure of the evaluator cannot be called by compiled code")
    return value


class MachineReference(RefValue):
    """Reference created by the VM; reading it sees writes by compiled code."""

    __slots__ = ("_values", "cell")

    def __init__(self, cell: Reference, values: MachineValues) -> None:
        self.cell = cell
        self._values = values

    @property
    def value(self) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Current value of the reference."""
        return self._values.value(export_value(self.cell.value))

    @value.setter
    def value(self, new: Any) -> None:
        self.cell.value = import_value(to_machine(new))


class MachineValues:
    """Converts VM values to Relay values, for the data types of a module."""

    def __init__(self, mod: IRModule) -> None:
        self._constructors: Mapping[str, Constructor] = {
            constructor.name_hint: constructor
            for definition in mod.type_definitions.values()
            for constructor in cast(TypeData, definition).constructors
        }

    def value(self, value: Any) -> Any:
        """Convert a VM value to a Relay value."""
        return converted(value, self._opened, self._leaf)

    def function(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a VM function to take and return Relay values."""
        return lambda *args: self.value(function(*map(to_machine, args)))

    def _opened(self, value: Any) -> Opened | None:
        if is_tagged(value):
            constructor = self._constructors[value[0]]
            return value[1:], lambda fields: ConstructorValue(constructor, fields)
        return opened(value)

    def _leaf(self, value: Any) -> Any:
        if isinstance(value, Reference):
            return MachineReference(value, self)
        return self.function(value) if callable(value) else value
