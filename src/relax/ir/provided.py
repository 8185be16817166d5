"""Names of lower rooms whose code stands in a higher one.

`node.script()` knows every kind of node, `tir.explain` reads machine code: each is defined far above the room where
users look for it. The higher room enters its object here when it is imported (`provide`). The lower room asks for it
when the name is used (`provided`), which imports the higher room if nothing has done so yet. No import leads upwards.
"""

from __future__ import annotations

import importlib
from typing import Any, Final

_PROVIDERS: Final = {"printer": "relax.script.printer", "explain": "relax.explanation"}
"""The module that enters each name."""

_table: Final[dict[str, Any]] = {}


def provide(name: str, value: Any) -> None:
    """Enter the object of a name, in place of an earlier one."""
    assert name in _PROVIDERS
    _table[name] = value


def provided(name: str) -> Any:
    """Return the object of a name. Raises ImportError if its module is not installed, or is just being imported."""
    if name not in _table:
        importlib.import_module(_PROVIDERS[name])
    if name not in _table:
        raise ImportError(f"{_PROVIDERS[name]} has not provided {name} yet", name=_PROVIDERS[name])
    return _table[name]


def __getattr__(name: str) -> Any:
    """Return the object of a name, for the tables by which packages load their names (`relax.runtime.rooms`)."""
    if name in _PROVIDERS:
        return provided(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def is_provided(name: str) -> bool:
    """True if the module that provides a name has been imported."""
    return name in _table


__all__ = ["is_provided", "provide", "provided"]
