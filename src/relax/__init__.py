"""Relax: a compiler and runtime for tensor programs with symbolic shapes.

``import relax`` loads nothing yet, so that the command `relax --help` answers at once. The first use of a name of the
runtime (`relax.VirtualMachine`, …) loads the runtime only, so that a deployed model does without the compiler; the
first use of a name of the compiler (`relax.build`, `relax.BlockBuilder`, …) loads all of it. Those names are listed in
`relax._api`.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import runtime
    from ._api import *  # noqa: F403
    from .runtime import (
        Device,
        ExecBuilder,
        Executable,
        NDArray,
        ShapeTuple,
        VirtualMachine,
        VMInstrumentReturnKind,
        cpu,
        device,
        get_global_func,
        load_executable,
        nd,
        register_func,
    )

__version__ = "0.1.0"

__all__ = [
    "Device",
    "ExecBuilder",
    "Executable",
    "NDArray",
    "ShapeTuple",
    "VMInstrumentReturnKind",
    "VirtualMachine",
    "cpu",
    "device",
    "get_global_func",
    "load_executable",
    "nd",
    "register_func",
    "runtime",
]


def __getattr__(name: str) -> Any:
    if name.startswith("__") or name == "_api":
        raise AttributeError(f"module 'relax' has no attribute {name!r}")
    if name in __all__ and name != "runtime":
        value = globals()[name] = getattr(importlib.import_module("relax.runtime"), name)
        return value
    # A room by itself (`from .. import topi`) must not load the rooms above it.
    if importlib.machinery.PathFinder.find_spec(f"relax.{name}", sys.modules[__name__].__path__) is not None:
        return importlib.import_module(f"relax.{name}")
    value = getattr(importlib.import_module("relax._api"), name, None)
    if value is None:
        raise importlib.import_module("relax.ir.tvm_names").missing("relax", name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *importlib.import_module("relax._api").__all__})


class _TVMModules:
    """The last finder of modules: says what to use instead of a module that TVM has and this package has not.

    Modules of other packages, and all that exist, are left to the finders before it.
    """

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        """Raises ModuleNotFoundError for ``relax.meta_schedule`` and its kin."""
        del path, target
        package, _, module = name.rpartition(".")
        if (
            package.partition(".")[0] != "relax"
            or f"{name}.".startswith("relax.ir.")
            or module.startswith("_")
        ):
            return  # relax.ir answers itself: this is of it
        try:
            names = importlib.import_module("relax.ir.tvm_names")
        except ImportError:  # the runtime alone is installed
            return
        error = names.missing_module(package, module)
        if error is not None:
            raise error


sys.meta_path.append(_TVMModules)  # pyright: ignore[reportArgumentType] (a class is a finder too)
