"""Operators of the machine: ``relax.op.vm.alloc_tensor``, … (declared in `storage.py`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .operator import public_function, public_names

__all__: list[str] = []


def __getattr__(name: str) -> Callable[..., Any]:
    function = public_function(f"relax.vm.{name}")
    if function is None:
        raise AttributeError(f"relax.op.vm has no operator {name!r}")
    return function


def __dir__() -> list[str]:
    return sorted({*globals(), *public_names("relax.vm.")})
