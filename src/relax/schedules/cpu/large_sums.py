"""Conditions on the sums of products that rules take: their dtypes, and enough multiplications.

Each function returns a `Refusal`, or None for a sum without objection.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ir import DataType
from ...prim import FloatImm, IntImm, PrimExpr
from ...tir import Block, BufferLoad, BufferStore
from ..rule import Refusal
from .products.operands import few_multiplications, is_float_up_to


def float_sum(store: BufferStore, start: PrimExpr, factors: Sequence[BufferLoad], block: Block) -> Refusal | None:
    """Refuse sums of products other than zero-initialised ones of float32 or float64, and small ones."""
    dtype = store.buffer.dtype
    fits = dtype in ("float32", "float64") and all(factor.dtype == dtype for factor in factors)
    return _refusal(fits, dtype, start, factors, block)


def number_sum(store: BufferStore, start: PrimExpr, factors: Sequence[BufferLoad], block: Block) -> Refusal | None:
    """Refuse sums of products other than zero-initialised ones of floats (narrow ones too) or integers, and small ones.

    The sum's dtype represents every factor exactly.
    """
    wide = store.buffer.dtype
    if wide == "int32":
        fits = all(f.dtype.is_integer and f.dtype.bits + f.dtype.is_uint <= 32 for f in factors)
    else:
        fits = wide in ("float32", "float64") and all(is_float_up_to(f.dtype, wide) for f in factors)
    return _refusal(fits, wide, start, factors, block)


def _refusal(
    fits: bool, wide: DataType, start: PrimExpr, factors: Sequence[BufferLoad], block: Block
) -> Refusal | None:
    if not fits:
        kinds = " and ".join(dict.fromkeys(str(factor.dtype) for factor in factors))
        return Refusal(f"the sum is of {wide}, its factors of {kinds}")
    if not isinstance(start, (FloatImm, IntImm)) or start.value != 0:
        return Refusal("the sum does not begin with 0")
    return few_multiplications(block.iter_vars)
