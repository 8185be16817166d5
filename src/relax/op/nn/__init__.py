"""The operators of neural networks: ``relax.op.nn.softmax``, …."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..operator import public_function, public_names
from . import activation, convolution, loss, normalization, padding, pooling, scaled_dot_product

FAMILIES = (activation, convolution, loss, normalization, padding, pooling, scaled_dot_product)

__all__ = ["FAMILIES"]


def __getattr__(name: str) -> Callable[..., Any]:
    function = public_function(f"relax.nn.{name}")
    if function is None:
        raise AttributeError(f"relax.op.nn has no operator {name!r}")
    return function


def __dir__() -> list[str]:
    return sorted({*globals(), *public_names("relax.nn.")})
