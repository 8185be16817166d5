"""Late binding of names in lower packages to code in higher ones.

`node.script()` handles all kinds of nodes, `tir.explain` reads machine code: both are defined in packages above the one
where users find them. The higher package registers its object on import (`provide`). The lower package looks it up on
use (`provided`), which imports the higher package if necessary. No import statement points upwards.
"""

from __future__ import annotations

import importlib
from typing import Any, Final

_PROVIDERS: Final = {
    "printer": "relax.script.printer",
    "explain": "relax.explanation",
    "rewriter": "relax.dpl.rewriter",
}
"""Module that provides each name."""

_table: Final[dict[str, Any]] = {}


def provide(name: str, value: Any) -> None:
    """Register the object of a name, replacing an earlier one."""
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
