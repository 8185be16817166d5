"""Formulas that transform a tensor's layout by an index map."""

from __future__ import annotations

from typing import Any

from .. import te
from ..prim import PrimExpr, const, intrin
from ..tir.index_map import IndexMap


def layout_transform(x: te.Tensor, index_map: IndexMap, pad_value: PrimExpr | None = None) -> te.Tensor:
    """The tensor that holds x's element at i at ``index_map(i)``, and elsewhere pad_value (0 without one)."""
    radix = index_map.mixed_radix(x.shape)
    padding = const(0, x.dtype) if pad_value is None else pad_value

    def read(*i: Any) -> PrimExpr:
        source, inside = radix.inverse(i)
        return intrin.if_then_else(intrin.all(*inside), x(*source), padding)

    return te.compute(radix.shape(), read, "T_layout_transform", tag="injective")
