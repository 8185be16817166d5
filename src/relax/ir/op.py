"""Registry of operators: an Op is a name with a table of attributes registered by other packages.

Many modules declare Relax operators. `declare_homes` lists the names in each module; the registry imports a module when
one of its names is first looked up, after the package that lists it (`_ROOMS`). Look-ups are therefore independent of
earlier imports.
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
"""Module that declares each name when it is imported."""
_ROOMS: Final = {"relax": "relax.op", "tir": "relax.prim"}
"""Packages that declare or list operators, by the first component of their names."""


@final
@node
class Op(RelaxExpr):
    """An operator; one object per name, obtained by `Op.get`."""

    name: str

    @staticmethod
    def get(name: str) -> Op:
        """Registered operator of a name. Raises KeyError with similar names if there is none."""
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
        """Registered names from loaded modules, sorted; operators of other modules have their initial attributes."""
        return sorted(_REGISTRY)

    def has_attr(self, key: str) -> bool:
        return key in _ATTRIBUTES[self.name]

    def get_attr(self, key: str) -> Any:
        """Registered attribute; None if there is none."""
        return _ATTRIBUTES[self.name].get(key)

    def set_attr(self, key: str, value: Any) -> None:
        _ATTRIBUTES[self.name][key] = value

    def facts(self) -> Mapping[str, Any]:
        """All registered attributes."""
        return _ATTRIBUTES[self.name]

    def __reduce__(self) -> tuple[Any, ...]:
        return Op.get, (self.name,)


def declare_homes(homes: Mapping[str, str]) -> None:
    """Register the modules of operators, imported when one of their names is first looked up.

    `homes` maps names of operators, and of functions called like them, to modules.
    """
    _HOMES.update(homes)


def load_home(name: str) -> None:
    """Import the module that declares a name, if any."""
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
    """Register an operator, or add attributes to an existing one, and return it."""
    op = _find(name)
    if op is None:
        op = _REGISTRY[name] = Op(name)
        _ATTRIBUTES[name] = {}
    _ATTRIBUTES[name].update(attributes)
    return op


def close_names(name: str) -> list[str]:
    """Registered names similar to `name`."""
    load_homes()
    last = name.rsplit(".", 1)[-1]
    by_last = [registered for registered in sorted(_REGISTRY) if registered.rsplit(".", 1)[-1] == last]
    return by_last or difflib.get_close_matches(name, _REGISTRY, 3)
