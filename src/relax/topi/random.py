"""Formulas of random numbers: element i is a function of the seed and i, so a seed determines the whole tensor.

The bits are those of SplitMix64 (G. Steele, D. Lea and C. Flood, *Fast splittable pseudorandom number generators*,
2014) at the step i + 1 from the seed, which is hashed first.
"""

# The parameters of a formula are index variables; te.compute says so, but not in a way a type checker can follow.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .. import te
from ..prim import PrimExpr, const, convert, intrin
from ..prim import cast as cast_expr
from .twofold import let

GOLDEN = 0x9E3779B97F4A7C15
MIXERS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)


def _number(value: int) -> PrimExpr:
    return const(value, "uint64")


def _mixed(bits: PrimExpr) -> PrimExpr:
    """Mix bits so that each result bit depends on all argument bits."""

    def shifted(value: PrimExpr, by: int) -> PrimExpr:
        return let(value, lambda v: v ^ (v >> _number(by)))

    first = shifted(bits, 30) * _number(MIXERS[0])
    return shifted(shifted(first, 27) * _number(MIXERS[1]), 31)


def _uniform(seed: PrimExpr, step: PrimExpr) -> PrimExpr:
    """A float64 in [0, 1) of 53 random bits."""
    start = _mixed(cast_expr("uint64", seed) + _number(GOLDEN))
    bits = _mixed(start + step * _number(GOLDEN))
    return cast_expr("float64", bits >> _number(11)) * 2.0**-53


def _step(index: Sequence[Any], shape: Sequence[PrimExpr]) -> PrimExpr:
    """1 + the row-major index of an element."""
    flat: PrimExpr = const(0, "int64")
    for i, size in zip(index, shape, strict=True):
        flat = flat * size + i
    return cast_expr("uint64", flat) + _number(1)


def uniform(shape: Sequence[Any], seed: Any, dtype: str = "float32") -> te.Tensor:
    """Uniform numbers in [0, 1), rounded down to a multiple of a step that the dtype holds exactly."""
    full = te.placeholder(shape, dtype).shape
    scale = 2.0 ** digits(dtype)

    def element(*i: Any) -> PrimExpr:
        number = _uniform(convert(seed), _step(i, full))
        return cast_expr(dtype, intrin.floor(number * scale) / scale)

    return te.compute(full, element, "T_uniform", tag="injective")


def digits(dtype: str) -> int:
    """Number of significant bits of a float dtype."""
    return {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8}[dtype]


def normal(shape: Sequence[Any], seed: Any, dtype: str = "float32") -> te.Tensor:
    """Standard normal numbers by G. Box and M. Muller's sqrt(-2 log u) · cos 2πv."""
    full = te.placeholder(shape, dtype).shape

    def element(*i: Any) -> PrimExpr:
        step, start = _step(i, full), convert(seed)
        radius, turn = _uniform(start, step + step), _uniform(start, step + step + _number(1))
        length = intrin.sqrt(intrin.log(const(1.0, "float64") - radius) * -2.0)
        return cast_expr(dtype, length * intrin.cos(turn * (2 * math.pi)))

    return te.compute(full, element, "T_normal", tag="injective")
