"""The operators of neural networks: ``relax.op.nn.softmax``, …."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..operator import namespace
from . import activation, convolution, loss, normalization, padding, pooling, scaled_dot_product

FAMILIES = (activation, convolution, loss, normalization, padding, pooling, scaled_dot_product)

__all__ = ["FAMILIES"]

if TYPE_CHECKING:
    from .._signatures.nn import *  # noqa: F403  # pyright: ignore[reportMissingModuleSource]
else:
    __getattr__, __dir__ = namespace("relax.nn.")
