"""Limits of buffer sizes that hold wherever a PrimFunc runs.

A dimension is at least 0 and less than 2^48, and is computed without overflow. The product of a buffer's nonzero
dimensions and its element size in bytes is at most 2^62. Both are checked where a buffer is created (an argument, an
allocation), so no offset within a buffer overflows.
"""

from __future__ import annotations

from typing import Final

from ..prim import IntImm, Mul, PrimExpr, post_order
from ..runtime.limits import DIMENSION_LIMIT
from .buffer import Buffer

LARGEST_PRODUCT: Final = 2**62
"""Largest product of a buffer's nonzero dimensions and its element size in bytes."""

Limit = tuple[PrimExpr, int]
"""An int64 expression, and its upper limit."""


def size_limits(size: PrimExpr) -> list[Limit]:
    """Return limits of the products in a dimension, inner ones first."""
    if isinstance(size, IntImm) or size.dtype != "int64":
        return []
    products: list[PrimExpr] = []
    post_order(size, lambda node: products.append(node) if isinstance(node, Mul) else None)
    limits = [(product, 2**63 - 1) for product in products if product.dtype == "int64"]
    return [*limits, (size, DIMENSION_LIMIT - 1)] if limits else []


def buffer_limits(buffer: Buffer) -> list[Limit]:
    """Return limits of the products in the dimensions of a buffer, and of the products of adjacent dimensions."""
    limits = [limit for size in buffer.shape for limit in size_limits(size)]
    symbolic = [size for size in buffer.shape if not isinstance(size, IntImm)]
    if len(symbolic) > 1 and all(size.dtype == "int64" for size in buffer.shape):
        for first, product in enumerate(buffer.shape):
            for size in buffer.shape[first + 1 :]:
                product = product * size
                limits.append((product, LARGEST_PRODUCT))
    return limits
