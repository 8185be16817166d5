"""`Attrs`: attributes of an operator call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, final

from ..ir import child, node
from .printing import RelayNode


def _dict(value: Mapping[str, Any]) -> dict[str, Any]:
    return dict(value)


@final
@node
class Attrs(RelayNode):
    """Attributes of an operator call by name: ``call.attrs.kernel_size``, ``call.attrs["kernel_size"]``.

    Values are None, bool, int, float, str, DataType, tuples of these, and nodes. `operators.make_attrs` completes the
    attributes of an operator with their defaults, in the order of their declaration.
    """

    values: dict[str, Any] = child(converter=_dict)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # looked up by copy and pickle before the fields are set
            raise AttributeError(name)
        try:
            return self.values[name]
        except KeyError:
            raise AttributeError(f"no attribute {name!r} (there are: {', '.join(self.values)})") from None

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def __contains__(self, name: object) -> bool:
        return name in self.values

    def __iter__(self) -> Iterator[str]:
        return iter(self.values)

    def __len__(self) -> int:
        return len(self.values)

    def keys(self) -> list[str]:
        """Attribute names."""
        return list(self.values)

    def items(self) -> list[tuple[str, Any]]:
        """(Name, value) pairs."""
        return list(self.values.items())

    def get(self, name: str, default: Any = None) -> Any:
        """Return the attribute, or `default` if it is absent."""
        return self.values.get(name, default)
