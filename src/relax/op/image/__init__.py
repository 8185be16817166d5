"""The operators of images: ``relax.op.image.resize2d``, …."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...ir.tvm_names import answer_missing as _answer_missing
from ..operator import public_function, public_names
from . import grid, resizing

FAMILIES = (grid, resizing)

__all__ = ["FAMILIES"]


def __getattr__(name: str) -> Callable[..., Any]:
    function = public_function(f"relax.image.{name}")
    if function is None:
        raise AttributeError(f"relax.op.image has no operator {name!r}")
    return function


def __dir__() -> list[str]:
    return sorted({*globals(), *public_names("relax.image.")})


_answer_missing(__name__)
