"""Relax: a compiler and runtime for tensor programs with symbolic shapes.

``import relax`` loads nothing yet, so that the command `relax --help` answers at once. The first use of a name of the
runtime (`relax.VirtualMachine`, …) loads the runtime only, so that a deployed model does without the compiler; the
first use of a name of the compiler (`relax.build`, `relax.BlockBuilder`, …) loads the modules that it needs. Those
names are listed in `relax._api`. The distribution relax-runtime has this file and `relax.runtime` only; there, those
names raise an error that says what to install.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import _api, frontend, llm, relay, runtime, testing, training
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
    "Device", "ExecBuilder", "Executable", "NDArray", "ShapeTuple", "VMInstrumentReturnKind", "VirtualMachine",
    "cpu", "device", "frontend", "get_global_func", "llm", "load_executable", "nd", "register_func", "relay",
    "runtime", "testing", "training",
]  # fmt: skip
"""The names of relax-runtime, and for type checkers those of the compiler, which an installed package must list."""

if TYPE_CHECKING:
    __all__ += _api.__all__

_ROOMS = frozenset({"frontend", "llm", "relay", "runtime", "testing", "training"})
"""The rooms among these names; those that `relax._api` loads are in its list."""


if not TYPE_CHECKING:  # type checkers report names that are none of the above

    def __getattr__(name: str) -> Any:
        if name.startswith("__") or name == "_api":
            raise AttributeError(f"module 'relax' has no attribute {name!r}")
        if name in __all__ and name not in _ROOMS:
            value = globals()[name] = getattr(importlib.import_module("relax.runtime"), name)
            return value
        # A room by itself (`from .. import topi`) must not load the rooms above it.
        if importlib.machinery.PathFinder.find_spec(f"relax.{name}", sys.modules[__name__].__path__) is not None:
            return importlib.import_module(f"relax.{name}")
        if _is_runtime_alone():
            raise _without_compiler(name)
        value = getattr(importlib.import_module("relax._api"), name, None)
        if value is None:
            raise importlib.import_module("relax.ir.tvm_names").missing("relax", name)
        globals()[name] = value
        return value


def _is_runtime_alone() -> bool:
    """True where the compiler is not installed (relax-runtime)."""
    return importlib.machinery.PathFinder.find_spec("relax._api", sys.modules[__name__].__path__) is None


def _without_compiler(name: str) -> Exception:
    """The error for a name that is not of the runtime, where only the runtime is installed.

    An ImportError says so even to ``from relax import build``. Names that tools look for begin with an underscore.
    """
    if name.startswith("_"):
        return AttributeError(f"module 'relax' has no attribute {name!r}")
    return ModuleNotFoundError(
        f"relax.{name} belongs to the compiler, and only its runtime is installed here (relax-runtime). "
        "Compile on a machine with the package relax, or install it in place of the runtime: "
        "pip uninstall relax-runtime; pip install relax",
        name=f"relax.{name}",
    )


def __dir__() -> list[str]:
    if _is_runtime_alone():
        return sorted({*__all__, "__version__"})
    return sorted({*__all__, "__version__", *importlib.import_module("relax._api").__all__})


class _TVMModules:
    """The last finder of modules: says what to use instead of a module that TVM has and this package has not.

    Modules of other packages, and all that exist, are left to the finders before it.
    """

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        """Raises ModuleNotFoundError for ``relax.autotvm`` and its kin."""
        del path, target
        package, _, module = name.rpartition(".")
        if package.partition(".")[0] != "relax" or f"{name}.".startswith("relax.ir.") or module.startswith("_"):
            return  # relax.ir answers itself: this is of it
        try:
            names = importlib.import_module("relax.ir.tvm_names")
        except ImportError:  # the runtime alone is installed
            return
        error = names.missing_module(package, module)
        if error is not None:
            raise error


sys.meta_path.append(_TVMModules)  # pyright: ignore[reportArgumentType] (a class is a finder too)
