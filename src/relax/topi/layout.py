"""Formulas that lay a tensor out anew by an index map."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import te
from ..prim import PrimExpr, Var, const, intrin
from ..tir.index_map import Digit, IndexMap, mixed_radix


def layout_transform(x: te.Tensor, index_map: IndexMap, pad_value: PrimExpr | None = None) -> te.Tensor:
    """The tensor that holds x's element at i at ``index_map(i)``, and elsewhere pad_value (0 without one)."""
    layout = mixed_radix(index_map, x.shape)
    padding = const(0, x.dtype) if pad_value is None else pad_value

    def read(*i: Any) -> PrimExpr:
        index: dict[Var, PrimExpr] = {var: const(0, "int64") for var in index_map.initial_indices}
        inside: list[PrimExpr] = []
        for at, digits in zip(i, layout, strict=True):
            _add_digits(at, digits, index, inside)
        places = [index[var] for var in index_map.initial_indices]
        inside += [place < size for place, size in zip(places, x.shape, strict=True)]
        return intrin.if_then_else(intrin.all(*inside), x(*places), padding)

    return te.compute(index_map.map_shape(x.shape), read, "T_layout_transform", tag="injective")


def _add_digits(
    at: PrimExpr, digits: Sequence[Digit], index: dict[Var, PrimExpr], inside: list[PrimExpr]
) -> None:
    """Add to initial indices what a final one says of them, and the conditions under which it says anything."""
    rest = at
    for place, digit in enumerate(digits):
        value = rest if place == len(digits) - 1 else intrin.floordiv(rest, digit.factor)
        rest = intrin.floormod(rest, digit.factor)
        if len(digits) > 1:
            inside.append(value < digit.extent)
        index[digit.var] = index[digit.var] + value * digit.lower


__all__ = ["layout_transform"]
