"""The registry of operators: an Op is a name, and a table of facts that rooms register on it.

The operators of Relax are declared in many modules. `declare_homes` says which names each declares, and the registry
imports it when one of them is first asked for, after the room that says so (`_ROOMS`): the answer does not depend on
what was imported before.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Mapping
from typing import Any, Final, final

from .expr import RelaxExpr
from .node import node

_REGISTRY: dict[str, Op] = {}
_ATTRIBUTES: dict[str, dict[str, Any]] = {}
_HOMES: dict[str, str] = {}
"""The modules of names that are declared when these are loaded."""
_ROOMS: Final = {"relax": "relax.op", "tir": "relax.prim"}
"""The rooms above this one that declare operators, or say where they are, by the first part of their names."""


@final
@node
class Op(RelaxExpr):
    """An operator known to the compiler; one object per name. Get it with `Op.get`."""

    name: str

    @staticmethod
    def get(name: str) -> Op:
        """The registered operator of this name. Raises KeyError, naming close matches, if there is none."""
        op = _find(name)
        if op is None:
            import_hint = ", ".join(close_names(name)) or "none is close"
            raise KeyError(f"operator {name!r} is not registered (similar: {import_hint})")
        return op

    @staticmethod
    def exists(name: str) -> bool:
        return _find(name) is not None

    @staticmethod
    def list_op_names() -> list[str]:
        """All registered names, sorted."""
        load_homes()
        return sorted(_REGISTRY)

    @staticmethod
    def list_loaded_names() -> list[str]:
        """The registered names whose modules are loaded, sorted: nobody can have changed facts of others."""
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


def declare_homes(homes: Mapping[str, str]) -> None:
    """Have each module of `homes` imported when one of its names is first asked for.

    The names are those of operators, and of functions that are called like them.
    """
    _HOMES.update(homes)


def load_home(name: str) -> None:
    """Import the module that declares a name, if there is one."""
    home = _HOMES.get(name)
    if home is not None:
        importlib.import_module(home)  # in the module itself, which is being imported, this does nothing


def load_homes() -> None:
    """Import all modules that declare operators."""
    for room in _ROOMS.values():
        importlib.import_module(room)
    for home in sorted(set(_HOMES.values())):
        importlib.import_module(home)


def _find(name: str) -> Op | None:
    op = _REGISTRY.get(name)
    if op is None:
        room = _ROOMS.get(name.partition(".")[0])
        if room is not None:
            importlib.import_module(room)
            load_home(name)
            op = _REGISTRY.get(name)
    return op


def register_op(name: str, **attributes: Any) -> Op:
    """Register an operator (or add facts to one) and return it."""
    op = _find(name)
    if op is None:
        op = _REGISTRY[name] = Op(name)
        _ATTRIBUTES[name] = {}
    _ATTRIBUTES[name].update(attributes)
    return op


def close_names(name: str) -> list[str]:
    """Registered names that look like `name`."""
    load_homes()
    last = name.rsplit(".", 1)[-1]
    by_last = [known for known in sorted(_REGISTRY) if known.rsplit(".", 1)[-1] == last]
    return by_last or difflib.get_close_matches(name, _REGISTRY, 3)
