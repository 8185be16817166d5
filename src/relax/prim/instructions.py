"""Intrinsics that stand for instructions: fused multiply-add, dot products of narrow numbers, reductions over the lanes
of a vector, prefetch.

A schedule's writer uses them where the instructions matter. `fma` rounds once, on every machine. A reduction of
numbers adds the second half of a vector to the first until one lane is left, so that its result does not depend on the
machine either.

A dot product adds to each 32-bit lane the products of the narrow numbers in the same lane of two other vectors. Its
kinds and their meaning are those of the processors' instructions: `relax.target.isa.products`.
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
    """a * b + c, rounded once; float32 or float64, or vectors of them. Raises TypeError for other dtypes."""
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
    plain = float(np.float64(a) * np.float64(b) + np.float64(c))
    product = float(np.float64(a) * np.float64(b))
    exact = np.isfinite(a) and np.isfinite(b) and np.isfinite(c)
    if not exact:
        return plain
    total = Fraction(a) * Fraction(b) + Fraction(c)
    if total == 0:
        # Of numbers that cancel, 0; of zeros, as their signs say.
        return plain if product == 0 and Fraction(a) * Fraction(b) == 0 else 0.0
    return _nearest(total, 24, -149, 127) if dtype == "float32" else _nearest(total, 53, -1074, 1023)


def _nearest(value: Fraction, digits: int, least: int, most: int) -> float:
    """The nearest float of so many binary digits, halves to even; 2**least is the least one, 2**most the last power."""
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
    """The total of each lane plus the products of the numbers in its words of `a` and `b`; `kind` is one of `DOTS`.

    Sums of integers wrap. Those of bfloat16 are float32; instructions may round each product's sum, and take numbers
    below the normal range for 0. Raises TypeError unless words are int32, and all have as many lanes.
    """
    lanes = (convert(total), convert(a), convert(b))
    sums = DOTS[kind].sums
    types = [part.dtype for part in lanes]
    expected = (sums, "int32", "int32")
    if (
        any(t.element_of != e for t, e in zip(types, expected, strict=True))
        or len({t.lanes for t in types}) > 1
    ):
        found = ", ".join(str(t) for t in types)
        raise TypeError(f"dot_{kind}: expected {sums}, int32 and int32 of as many lanes, found {found}")
    return Call(types[0], f"tir.dot_{kind}", lanes)


def dot_u8s8(total: ExprLike, a: ExprLike, b: ExprLike) -> PrimExpr:
    """Sums of int32 plus products of four bytes in a word: those of `a` without a sign, those of `b` with one."""
    return dot("u8s8", total, a, b)


def dot_s8s8(total: ExprLike, a: ExprLike, b: ExprLike) -> PrimExpr:
    """Sums of int32 plus products of four bytes with a sign in a word."""
    return dot("s8s8", total, a, b)


def dot_s16s16(total: ExprLike, a: ExprLike, b: ExprLike) -> PrimExpr:
    """Sums of int32 plus products of two numbers of int16 in a word."""
    return dot("s16s16", total, a, b)


def dot_bf16(total: ExprLike, a: ExprLike, b: ExprLike) -> PrimExpr:
    """Sums of float32 plus products of two numbers of bfloat16 in a word."""
    return dot("bf16", total, a, b)


def tile_dot(
    kind: str, sums: ExprLike, sums_distance: ExprLike, left: ExprLike, left_distance: ExprLike, right: ExprLike,
    right_distance: ExprLike, rows: ExprLike, columns: ExprLike, steps: ExprLike,
) -> Call:  # fmt: skip
    """Add the product of two matrices of words to a matrix of sums; `kind` is one of `TILES`.

    Each matrix is the address of its first element (``T.address_of``), and the distance of its rows in words. There are
    1 to 32 rows and columns; each row of the left matrix has 16 words a step, and the right matrix as many rows.
    Raises TypeError for matrices that are no addresses.
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
    """The builder of one kind of products of tiles, for the namespace ``T``."""

    def build(
        sums: ExprLike, sums_distance: ExprLike, left: ExprLike, left_distance: ExprLike, right: ExprLike,
        right_distance: ExprLike, rows: ExprLike, columns: ExprLike, steps: ExprLike,
    ) -> Call:  # fmt: skip
        return tile_dot(
            kind, sums, sums_distance, left, left_distance, right, right_distance, rows, columns, steps
        )

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
    """The sum of a vector's lanes, of a power of two: halves are added until one lane is left."""
    return _reduction("vector_reduce_add", x)


def vector_reduce_mul(x: ExprLike) -> PrimExpr:
    """The product of a vector's lanes, of a power of two: halves are multiplied until one lane is left."""
    return _reduction("vector_reduce_mul", x)


def vector_reduce_max(x: ExprLike) -> PrimExpr:
    """The greatest of a vector's lanes, of a power of two; NaN if one is."""
    return _reduction("vector_reduce_max", x)


def vector_reduce_min(x: ExprLike) -> PrimExpr:
    """The least of a vector's lanes, of a power of two; NaN if one is."""
    return _reduction("vector_reduce_min", x)


def vector_reduce_and(x: ExprLike) -> PrimExpr:
    """True if all lanes of a vector of bool are."""
    return _reduction("vector_reduce_and", x)


def vector_reduce_or(x: ExprLike) -> PrimExpr:
    """True if some lane of a vector of bool is."""
    return _reduction("vector_reduce_or", x)


def prefetch(element: Any, rw: int = 0, locality: int = 3) -> Call:
    """Ask for the cache line of ``A[i, j]``, which need not lie inside of A.

    `rw` is 0 if it will be read, 1 if written; `locality` says how long it will be used: 0, once, to 3, often.
    Raises TypeError for what is no element of a buffer, ValueError for other numbers.
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
"""The builders by name, for the namespace ``T``."""

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
