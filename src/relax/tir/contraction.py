"""Recognise reductions and contractions of kernels from their structure.

    C[…] = start                     at first
    C[…] = C[…] + a * b              a contraction: a sum of products of two factors, over the reduced variables
    C[…] = max(C[…], a)              another reduction

Factors are any expressions that do not read C: elements of arrays, in place, gathered or shifted by windows, integers
with scales. Products of matrices, convolutions, both products of attention and matrix-vector products are contractions;
what makes one a product of matrices (`schedules.matrix_product`), a convolution (`schedules.cpu.convolutions.windows`)
or a part of attention (`tir.attention`) are questions about its factors.
"""

from __future__ import annotations

from ..ir import structural_equal
from ..prim import Add, Max, Min, Mul, PrimExpr
from ..runtime.records import dataclass
from .buffer import BufferLoad, IterVar
from .nests import loads_in
from .stmt import Block, BufferStore


@dataclass(frozen=True)
class Reduction:
    """Reduction that a block computes."""

    out: BufferStore
    """Store of the result so far."""
    start: PrimExpr
    element: PrimExpr
    """Value that is added or compared for each place of the reduced variables."""
    operation: type[PrimExpr]
    """Add, Mul, Max or Min."""
    spatial: tuple[IterVar, ...]
    reduced: tuple[IterVar, ...]

    @property
    def factors(self) -> tuple[PrimExpr, PrimExpr] | None:
        """The factors of a contraction; None for other reductions."""
        is_contraction = self.operation is Add and isinstance(self.element, Mul)
        return (self.element.a, self.element.b) if is_contraction and isinstance(self.element, Mul) else None


def reduction_of(block: Block) -> Reduction | None:
    """Return the reduction that a block computes, or None."""
    store, init = block.body, block.init
    if not isinstance(store, BufferStore) or not isinstance(init, BufferStore):
        return None
    if init.buffer is not store.buffer or not structural_equal(init.indices, store.indices):
        return None
    element = combined(store)
    if element is None:
        return None
    spatial, reduced = ([v for v in block.iter_vars if (v.iter_type == "reduce") is kind] for kind in (False, True))
    return Reduction(store, init.value, element, type(store.value), tuple(spatial), tuple(reduced))


def combined(store: BufferStore) -> PrimExpr | None:
    """Return what a store combines with the element that it replaces: `a` of ``C[i] = C[i] + a``; None if nothing.

    The operation is that of the store's value: Add, Mul, Max or Min.
    """
    value = store.value
    if not isinstance(value, (Add, Mul, Max, Min)):
        return None
    others = [part for part in (value.a, value.b) if not _is_own(part, store)]
    if len(others) != 1 or any(load.buffer is store.buffer for load in loads_in(others[0])):
        return None
    return others[0]


def _is_own(part: PrimExpr, store: BufferStore) -> bool:
    return (
        isinstance(part, BufferLoad)
        and part.buffer is store.buffer
        and part.predicate is None
        and structural_equal(part.indices, store.indices)
    )


__all__ = ["Reduction", "combined", "reduction_of"]
