"""Every operator of `relax.op` under `R`, nested namespaces (R.nn, R.memory, …) included, without listing
any.
"""

from __future__ import annotations

import types
from typing import Any

import relax.op as op

from ....op.operator import public_function, public_names
from ..core import Namespace

OLDER_NAMES = {"dot": "matmul"}


class OperatorNamespace(Namespace):
    """``R.nn`` and its kin: the operators below a prefix."""

    def __init__(self, prefix: str, module: types.ModuleType | None) -> None:
        self.__prefix = prefix
        self.__module = module
        self.__script_name__ = "R" + prefix.removeprefix("relax").removesuffix(".")

    def __dir__(self) -> list[str]:
        return public_names(self.__prefix)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return _member(self.__prefix, self.__module, name)


def operator_member(name: str) -> Any:
    """``R.<name>``: an operator's function, or a namespace of operators. Raises AttributeError."""
    if name.startswith("_"):
        raise AttributeError(name)
    return _member("relax.", op, OLDER_NAMES.get(name, name))


def operator_names() -> list[str]:
    """The names directly under R that are operators."""
    return [*public_names("relax."), *OLDER_NAMES]


def _member(prefix: str, module: types.ModuleType | None, name: str) -> Any:
    function = public_function(prefix + name)
    if function is not None:
        return function
    inner = getattr(module, "__dict__", {}).get(name)
    ours = isinstance(inner, types.ModuleType) and inner.__name__.startswith("relax.op.")
    if ours and public_names(f"{prefix}{name}."):
        return OperatorNamespace(f"{prefix}{name}.", inner)
    raise AttributeError(f"R has no operator {(prefix + name).removeprefix('relax.')!r}")
