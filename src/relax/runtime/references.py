"""References: cells of the machine, which hold a value that can be replaced."""

from __future__ import annotations

from typing import Any, final

from .builtin_table import Effects, builtin
from .values import kind_of


@final
class Reference:
    """A cell with a value of the machine."""

    __slots__ = ("__weakref__", "value")

    def __init__(self, value: Any) -> None:
        self.value = value


@builtin("vm.builtin.new_reference", Effects(reads=(), keeps=(0,), aliases=(0,)), pure=False)
def new_reference(value: Any) -> Reference:
    """A new reference to a value."""
    return Reference(value)


@builtin("vm.builtin.read_reference", Effects(reads=(), aliases=(0,)), pure=False, trusted=False)
def read_reference(reference: Any) -> Any:
    """The value that a reference holds now."""
    return _checked(reference).value


@builtin("vm.builtin.write_reference", Effects(reads=(), keeps=(1,)), pure=False)
def write_reference(reference: Any, value: Any) -> tuple[()]:
    """Replace the value of a reference."""
    _checked(reference).value = value
    return ()


def _checked(value: Any) -> Reference:
    if not isinstance(value, Reference):
        raise TypeError(f"expected a reference, found {kind_of(value)}")
    return value
