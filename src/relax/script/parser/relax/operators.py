"""All operators of `relax.op` under `R`, including nested namespaces (R.nn, R.memory, …), resolved by name."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ....op.base import class_named
from ....op.intrinsics import Placing
from ....op.operator import public_function, public_names, public_spaces
from ..core import Namespace
from .annotations import as_vdevice

OLDER_NAMES = {"dot": "matmul"}


def _placing(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap an operator with a virtual device, which may be text that names one of the module's."""

    @functools.wraps(function)
    def call(data: Any, dst_vdevice: Any) -> Any:
        return function(data, as_vdevice(dst_vdevice))

    return call


class OperatorNamespace(Namespace):
    """Operators below a prefix, such as ``R.nn``."""

    def __init__(self, prefix: str) -> None:
        self.__prefix = prefix
        self.__script_name__ = "R" + prefix.removeprefix("relax").removesuffix(".")

    def __dir__(self) -> list[str]:
        return [*public_names(self.__prefix), *public_spaces(self.__prefix)]

    def __getattr__(self, name: str) -> Any:
        return _member(self.__prefix, name)


def operator_member(name: str) -> Any:
    """``R.<name>``: an operator's function, or a namespace of operators. Raises AttributeError."""
    return _member("relax.", OLDER_NAMES.get(name, name))


def operator_names() -> list[str]:
    """Names directly under R that are operators or namespaces of operators."""
    return [*public_names("relax."), *public_spaces("relax."), *OLDER_NAMES]


def _member(prefix: str, name: str) -> Any:
    if not name.startswith("_"):
        function = public_function(prefix + name)
        if function is not None:
            is_placing = issubclass(class_named(prefix + name) or object, Placing)
            return _placing(function) if is_placing else function
        if name in public_spaces(prefix):
            return OperatorNamespace(f"{prefix}{name}.")
    raise AttributeError(f"R has no operator {(prefix + name).removeprefix('relax.')!r}")
