"""Intrinsics that stand for instructions: fused multiply-add, dot products, reductions of lanes, prefetch.

Writers of schedules use them where the instructions matter. `fma` rounds once, on every target. A reduction of numbers
adds the second half of a vector to the first until one lane is left, so that its result is the same on every target as
well.

A dot product adds to each 32-bit lane the products of the narrow numbers in the same lane of two other vectors. Its
kinds and their meaning are those of CPU instructions: `relax.target.isa.products`.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final

import numpy as np

from ..ir import DataType, register_op
from ..target.isa.products import DOTS, TILE_ROWS, TILE_WORDS, TILES, Dot, tile_dot_value
from .expr import Call, ExprLike, PrimExpr, const, convert, match_dtypes

REDUCTIONS: Final = ("add", "mul", "max", "min", "and", "or")


register_op("tir.fma", effect="pure", total=True, exact=True, numpy=None)
for _name in REDUCTIONS:
    register_op(f"tir.vector_reduce_{_name}", effect="pure", total=True, exact=True, numpy=None)
for _name, _dot in DOTS.items():
    register_op(f"tir.dot_{_name}", effect="pure", total=True, exact=True, numpy=_dot.value)
for _name in TILES:
    register_op(f"tir.tile_dot_{_name}", effect="opaque", total=True, numpy=None)
register_op("tir.prefetch", effect="opaque", total=True, numpy=None)


def fma(a: ExprLike, b: ExprLike, c: ExprLike) -> PrimExpr:
    """a * b + c, rounded once, for float32 or float64 or vectors of them. Raises TypeError for other dtypes."""
    x, y = match_dtypes(a, b)
    x, z = match_dtypes(x, c)
    y, z = match_dtypes(y, z)
    dtype = z.dtype
    if dtype.element_of not in ("float32", "float64") or not x.dtype == y.dtype == dtype:
        found = ", ".join(str(part.dtype) for part in (x, y, z))
        raise TypeError(f"fma: expected three float32 or float64 of as many lanes, found {found}")
    return Call(dtype, "tir.fma", (x, y, z))


def fused(dtype: DataType, a: float, b: float, c: float) -> float:
    """The value of a * b + c, rounded once to float32 or float64."""
    with np.errstate(over="ignore", invalid="ignore"):
        product = float(np.float64(a) * np.float64(b))
        plain = float(np.float64(product) + np.float64(c))
    exact = np.isfinite(a) and np.isfinite(b) and np.isfinite(c)
    if not exact:
        return plain
    total = Fraction(a) * Fraction(b) + Fraction(c)
    if total == 0:
        # Of numbers that cancel, 0; of zeros, as their signs say.
        return plain if product == 0 and Fraction(a) * Fraction(b) == 0 else 0.0
    return _nearest(total, 24, -149, 127) if dtype == "float32" else _nearest(total, 53, -1074, 1023)


def _nearest(value: Fraction, digits: int, least: int, most: int) -> float:
    """Nearest float of `digits` bits, ties to even; 2**least is the smallest one, 2**most the greatest power."""
    size = abs(value)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if size < Fraction(2) ** exponent:
        exponent -= 1
    unit = max(exponent - digits + 1, least)
    steps = round(size / Fraction(2) ** unit)  # Fraction rounds halves to even
    if steps * Fraction(2) ** unit >= Fraction(2) ** (most + 1):
        result = float("inf")
    else:
        result = float(steps * Fraction(2) ** unit)
    return -result if value < 0 else result


def dot(kind: str, total: ExprLike, a: ExprLike, b: ExprLike) -> PrimExpr:
    """`total` plus the dot product of the packed groups of `a` and `b` in each lane; `kind` is one of `DOTS`.

    Integer sums wrap around. Sums of bfloat16 are float32; instructions may round after each product, and flush
    subnormal numbers to 0. Raises TypeError unless groups are int32, and all operands have the same number of lanes.
    """
    lanes = (convert(total), convert(a), convert(b))
    sums = DOTS[kind].sums
    types = [part.dtype for part in lanes]
    expected = (sums, "int32", "int32")
    if any(t.element_of != e for t, e in zip(types, expected, strict=True)) or len({t.lanes for t in types}) > 1:
        found = ", ".join(str(t) for t in types)
        raise TypeError(f"dot_{kind}: expected {sums}, int32 and int32 of as many lanes, found {found}")
    return Call(types[0], f"tir.dot_{kind}", lanes)


def dot_u8s8(total: ExprLike, a: ExprLike, b: ExprLike) -> PrimExpr:
    """int32 sums plus dot products of unsigned (`a`) by signed (`b`) int8×4 groups."""
    return dot("u8s8", total, a, b)


def dot_u7s8(total: ExprLike, a: ExprLike, b: ExprLike) -> PrimExpr:
    """int32 sums plus dot products of bytes below 128 (`a`) by signed (`b`) int8×4 groups.

    Other bytes of `a` give other sums on some machines; the interpreter raises ValueError for them.
    """
    return dot("u7s8", total, a, b)


def dot_s8s8(total: ExprLike, a: ExprLike, b: ExprLike) -> PrimExpr:
    """int32 sums plus dot products of signed int8×4 groups."""
    return dot("s8s8", total, a, b)


def dot_s16s16(total: ExprLike, a: ExprLike, b: ExprLike) -> PrimExpr:
    """int32 sums plus dot products of int16×2 groups."""
    return dot("s16s16", total, a, b)


def dot_bf16(total: ExprLike, a: ExprLike, b: ExprLike) -> PrimExpr:
    """float32 sums plus dot products of bfloat16×2 groups."""
    return dot("bf16", total, a, b)


def tile_dot(
    kind: str, sums: ExprLike, sums_distance: ExprLike, left: ExprLike, left_distance: ExprLike, right: ExprLike,
    right_distance: ExprLike, rows: ExprLike, columns: ExprLike, steps: ExprLike,
) -> Call:  # fmt: skip
    """Add the product of two matrices of packed groups to a matrix of sums; `kind` is one of `TILES`.

    Each matrix is given by the address of its first element (``T.address_of``) and its row stride in groups. There are
    1 to 32 rows and columns; the left matrix has 16 · `steps` groups per row, the right one as many rows. Raises
    TypeError if a matrix is not an address.
    """
    addresses = [convert(matrix) for matrix in (sums, left, right)]
    if not all(address.dtype.is_handle for address in addresses):
        raise TypeError(f"tile_dot_{kind}: expected addresses of the matrices")
    distances = (sums_distance, left_distance, right_distance)
    parts: list[PrimExpr] = []
    for address, distance in zip(addresses, distances, strict=True):
        parts += [address, convert(distance).astype("int64")]
    parts += [convert(size).astype("int64") for size in (rows, columns, steps)]
    return Call("", f"tir.tile_dot_{kind}", tuple(parts))


def _tile_dot(kind: str) -> Callable[..., Call]:
    """Builder of one kind of tile product, for the namespace ``T``."""

    def build(
        sums: ExprLike, sums_distance: ExprLike, left: ExprLike, left_distance: ExprLike, right: ExprLike,
        right_distance: ExprLike, rows: ExprLike, columns: ExprLike, steps: ExprLike,
    ) -> Call:  # fmt: skip
        return tile_dot(kind, sums, sums_distance, left, left_distance, right, right_distance, rows, columns, steps)

    build.__name__ = build.__qualname__ = f"tile_dot_{kind}"
    build.__doc__ = f"Add a product of tiles of {TILES[kind].left} and of {TILES[kind].right}."
    return build


def _reduction(name: str, x: ExprLike) -> PrimExpr:
    vector = convert(x)
    dtype, kind = vector.dtype, name.removeprefix("vector_reduce_")
    if kind in ("and", "or"):
        if not dtype.is_bool:
            raise TypeError(f"{name}: expected a vector of bool, found {dtype!s}")
    elif not (dtype.is_integer or dtype.element_of in ("float32", "float64")):
        raise TypeError(f"{name}: expected a vector of integers, float32 or float64, found {dtype!s}")
    elif dtype.lanes & (dtype.lanes - 1):
        raise TypeError(f"{name}: expected a power of two lanes, found {dtype.lanes}")
    return vector if dtype.lanes == 1 else Call(dtype.element_of, f"tir.{name}", (vector,))


def vector_reduce_add(x: ExprLike) -> PrimExpr:
    """Sum of a vector's lanes, by repeated halving; their number must be a power of two."""
    return _reduction("vector_reduce_add", x)


def vector_reduce_mul(x: ExprLike) -> PrimExpr:
    """Product of a vector's lanes, by repeated halving; their number must be a power of two."""
    return _reduction("vector_reduce_mul", x)


def vector_reduce_max(x: ExprLike) -> PrimExpr:
    """Maximum of a vector's lanes, NaN if one is NaN; their number must be a power of two."""
    return _reduction("vector_reduce_max", x)


def vector_reduce_min(x: ExprLike) -> PrimExpr:
    """Minimum of a vector's lanes, NaN if one is NaN; their number must be a power of two."""
    return _reduction("vector_reduce_min", x)


def vector_reduce_and(x: ExprLike) -> PrimExpr:
    """True if all lanes of a vector of bool are."""
    return _reduction("vector_reduce_and", x)


def vector_reduce_or(x: ExprLike) -> PrimExpr:
    """True if some lane of a vector of bool is."""
    return _reduction("vector_reduce_or", x)


def prefetch(element: Any, rw: int = 0, locality: int = 3) -> Call:
    """Prefetch the cache line of ``A[i, j]``, which may be outside of A.

    `rw` is 0 for reading, 1 for writing; `locality` is the temporal locality from 0 (none) to 3 (high). Raises
    TypeError if `element` is not an element of a buffer, ValueError for other numbers.
    """
    load = convert(element)
    if not hasattr(load, "buffer") or load.dtype.lanes != 1:
        raise TypeError(f"prefetch: expected an element of a buffer, found {load}")
    if rw not in (0, 1) or locality not in (0, 1, 2, 3):
        raise ValueError(f"prefetch: expected rw 0 or 1 and locality 0 to 3, found {rw} and {locality}")
    return Call("", "tir.prefetch", (load, const(int(rw), "int32"), const(int(locality), "int32")))


MEMBERS: Final = {
    name: globals()[name]
    for name in (
        "fma", "prefetch", *(f"dot_{kind}" for kind in DOTS), *(f"vector_reduce_{kind}" for kind in REDUCTIONS),
    )
} | {f"tile_dot_{kind}": _tile_dot(kind) for kind in TILES}  # fmt: skip
"""Builders by name, for the namespace ``T``."""

__all__ = [
    "DOTS",
    "MEMBERS",
    "REDUCTIONS",
    "TILES",
    "TILE_ROWS",
    "TILE_WORDS",
    "Dot",
    "dot",
    "dot_bf16",
    "dot_s8s8",
    "dot_s16s16",
    "dot_u7s8",
    "dot_u8s8",
    "fma",
    "fused",
    "prefetch",
    "tile_dot",
    "tile_dot_value",
    "vector_reduce_add",
    "vector_reduce_and",
    "vector_reduce_max",
    "vector_reduce_min",
    "vector_reduce_mul",
    "vector_reduce_or",
]  # fmt: skip
