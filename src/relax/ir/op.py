"""The registry of operators: an Op is a name, and a table of facts that rooms register on it."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, final

from .expr import RelaxExpr
from .node import node

_REGISTRY: dict[str, Op] = {}
_ATTRIBUTES: dict[str, dict[str, Any]] = {}


@final
@node
class Op(RelaxExpr):
    """An operator known to the compiler; one object per name. Get it with `Op.get`."""

    name: str

    @staticmethod
    def get(name: str) -> Op:
        """The registered operator of this name. Raises KeyError, naming close matches, if there is none."""
        op = _REGISTRY.get(name)
        if op is None:
            import_hint = ", ".join(close_names(name)) or "none is close"
            raise KeyError(f"operator {name!r} is not registered (similar: {import_hint})")
        return op

    @staticmethod
    def exists(name: str) -> bool:
        return name in _REGISTRY

    @staticmethod
    def list_op_names() -> list[str]:
        """All registered names, sorted."""
        return sorted(_REGISTRY)

    def has_attr(self, key: str) -> bool:
        return key in _ATTRIBUTES[self.name]

    def get_attr(self, key: str) -> Any:
        """A registered fact, None if there is none."""
        return _ATTRIBUTES[self.name].get(key)

    def set_attr(self, key: str, value: Any) -> None:
        _ATTRIBUTES[self.name][key] = value

    def facts(self) -> Mapping[str, Any]:
        """All registered facts."""
        return _ATTRIBUTES[self.name]

    def __reduce__(self) -> tuple[Any, ...]:
        return Op.get, (self.name,)


def register_op(name: str, **attributes: Any) -> Op:
    """Register an operator (or add facts to one) and return it."""
    op = _REGISTRY.get(name)
    if op is None:
        op = _REGISTRY[name] = Op(name)
        _ATTRIBUTES[name] = {}
    _ATTRIBUTES[name].update(attributes)
    return op


def close_names(name: str) -> list[str]:
    """Registered names that look like `name`."""
    last = name.rsplit(".", 1)[-1]
    by_last = [known for known in sorted(_REGISTRY) if known.rsplit(".", 1)[-1] == last]
    return by_last or difflib.get_close_matches(name, _REGISTRY, 3)
