"""The operators of object detection: ``relax.op.vision.roi_align``, …."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...ir.tvm_names import answer_missing as _answer_missing
from ..operator import public_function, public_names
from . import blocks, regions, suppression

FAMILIES = (blocks, regions, suppression)

__all__ = ["FAMILIES"]


def __getattr__(name: str) -> Callable[..., Any]:
    function = public_function(f"relax.vision.{name}")
    if function is None:
        raise AttributeError(f"relax.op.vision has no operator {name!r}")
    return function


def __dir__() -> list[str]:
    return sorted({*globals(), *public_names("relax.vision.")})


_answer_missing(__name__)
