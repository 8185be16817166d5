"""Register tiles: the one inner loop of all sums of products.

    acc[0:height, 0:width] = first sums                     in registers
    for k in …:                                             the rule's loops over the depth
        line[0:width] = vectors(k)                          a row of the right operand
        for p in range(height):
            a = element(p, k)                               an element of the left operand, in all lanes
            acc[p, :] = acc[p, :] + a * line[:]             by a product: multiply-add, or dot products of packed groups
    results = acc[0:height, 0:width]

A rule writes the loops around the tile and passes it its operands as functions from places to values, so that one tile
serves operands in place, in panels, packed, gathered by windows and dequantised.
"""

from __future__ import annotations

from .heights import tall_and_short
from .operands import has_vectors, prefetched, row_at, runs_along, vector_of
from .products import Product, multiply_add
from .registers import RegisterTile, Vector, even_vectors, number_of, register_tile

__all__ = [
    "Product", "RegisterTile", "Vector", "even_vectors", "has_vectors", "multiply_add", "number_of", "prefetched",
    "register_tile", "row_at", "runs_along", "tall_and_short", "vector_of",
]  # fmt: skip
