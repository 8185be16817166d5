"""Packages that load their modules when a name is used.

A package's ``__init__`` lists its public names twice over: for people and type checkers as imports under ``if
TYPE_CHECKING``, and for the running program as a table from names to modules, which tools/make_homes.py writes from
those imports into ``_homes.py``:

    if TYPE_CHECKING:
        from .legalize_ops import LegalizeOps

    load_when_used(__name__, HOMES)

``import relax.transform`` then loads the table only; ``relax.transform.LegalizeOps`` and ``from relax.transform import
LegalizeOps`` load ``relax.transform.legalize_ops``, once (PEP 562). The package has its modules as attributes, too.

A package whose modules register something, in a table that somebody reads as a whole, imports them all.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import os
import pkgutil
import sys
import types
from collections.abc import Callable, Mapping
from typing import Any, cast

from .collection import rarely_collected


def load_when_used(package: str, table: Mapping[str, str]) -> None:
    """Give the package (or module) `package`, which is being imported, the names of `table`.

    The table has the names that each module, relative to the package, defines: ``{".layout": "Layout layout"}``. A name
    that is called otherwise there is written ``alias=name``; ``{".layout:": "layout"}`` is the module itself.
    """
    module, homes = sys.modules[package], by_name(table)
    setattr(module, "__getattr__", _finder(module, homes))  # noqa: B010 (hidden from type checkers, which report
    setattr(module, "__dir__", lambda: sorted({*vars(module), *homes}))  # noqa: B010  what is misspelt)
    if not homes.keys().isdisjoint(_files(module)):
        module.__class__ = _package(homes)


def by_name(table: Mapping[str, str]) -> dict[str, str]:
    """Return the home of each name of a table: its module, with ``:name`` behind it if it is called `name` there."""
    homes: dict[str, str] = {}
    for module, names in table.items():
        for word in names.split():
            name, _, original = word.partition("=")
            homes[name] = f"{module}:{original}" if original else module
    return homes


def _files(module: types.ModuleType) -> set[str]:
    """The names of a package's modules."""
    path: list[str] = vars(module).get("__path__", [])
    return {file.partition(".")[0] for folder in path for file in os.listdir(folder)}


def _finder(module: types.ModuleType, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """``__getattr__`` of a package."""
    package = module.__name__ if "__path__" in vars(module) else module.__name__.rpartition(".")[0]

    def find(name: str) -> Any:
        home = homes.get(name)
        if home is not None:
            value = vars(module)[name] = _value(package, name, home)
            return value
        submodule = module_of(module.__name__, name)
        if submodule is not None:
            return submodule
        raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")

    return find


def _value(package: str, name: str, home: str) -> Any:
    where, renamed, original = home.partition(":")
    owner = _imported(where, package)
    return owner if renamed and not original else getattr(owner, original or name)


def module_of(package: str, name: str) -> types.ModuleType | None:
    """Import the module `name` of a package; None if there is none, or if `name` begins with an underscore."""
    path = cast("list[str] | None", vars(sys.modules[package]).get("__path__"))
    if path is None or name.startswith("_"):
        return None
    spec = importlib.machinery.PathFinder.find_spec(f"{package}.{name}", path)
    return None if spec is None else _imported(f"{package}.{name}")


def _imported(name: str, package: str | None = None) -> types.ModuleType:
    """Import a module, with those that it needs. None of their objects is garbage, so the collector need not look."""
    with rarely_collected():
        return importlib.import_module(name, package)


def _package(homes: Mapping[str, str]) -> type[types.ModuleType]:
    """The class of a package whose names come before its modules of the same name.

    ``relax.tir.layout`` is a function, defined in ``relax/tir/layout.py``. Whoever imports that module first has Python
    set the attribute to the module.
    """

    class Package(types.ModuleType):
        def __setattr__(self, name: str, value: Any) -> None:
            if name in homes and isinstance(value, types.ModuleType) and homes[name] != f".{name}:":
                return
            super().__setattr__(name, value)

    return Package


def load_whole(package: str) -> None:
    """Import every module of a package, for what they register."""
    module = importlib.import_module(package)
    for info in pkgutil.walk_packages(getattr(module, "__path__", ()), f"{package}."):
        importlib.import_module(info.name)


class ModuleWhenUsed:
    """A module that is imported when an attribute of it is first used.

        if TYPE_CHECKING:
            from . import lowering
        else:
            lowering = ModuleWhenUsed("relax.vm.lowering")

    For a function that few of a module's callers reach, and whose imports are many.
    """

    def __init__(self, name: str) -> None:
        self.__name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(_imported(self.__name), name)
