"""Transpose constant operands at compile time if a kernel only reads them transposed.

    Before   for i, j, k: T[i, k, j] = W[i, j, k]        W is a constant; the rest of the kernel reads T
    After    the parameter W is T itself, and the constant is transposed once

Recurrent layers read their weights transposed, for example.

Skipped: nests that do anything else, constants read by other statements, and dynamic sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..prim import IntImm, Var
from ..runtime.records import dataclass
from ..schedules.rule import PackedFunction
from ..tir import Buffer, BufferLoad, BufferStore, PrimFunc, Stmt
from ..tir.nests import buffers_used, is_compact, nest_of, root_of, with_root


@dataclass(frozen=True)
class Transposed:
    """Packing that transposes a constant."""

    axes: tuple[int, ...]

    def __call__(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return np.ascontiguousarray(np.transpose(array, self.axes))


def with_permuted_constants(func: PrimFunc, constants: Sequence[int]) -> PackedFunction | None:
    """Return the function for transposed constants, or None if it transposes none of them.

    `constants` are the positions of parameters with constant arguments.
    """
    allocated, statements = root_of(func)
    uses = [buffers_used(stmt) for stmt in statements]
    buffers, packings = dict(func.buffer_map), dict[int, Transposed]()
    removed: list[Stmt] = []
    for position in constants:
        source = buffers.get(func.params[position])
        if source is None:
            continue
        readers = [stmt for stmt, (reads, _) in zip(statements, uses, strict=True) if source.data in reads]
        copied = _copied(readers[0], source) if len(readers) == 1 else None
        if copied is None or copied[0] not in allocated:
            continue
        target, axes = copied
        if sum(target.data in writes for _, writes in uses) == 1:
            buffers[func.params[position]], packings[position] = target, Transposed(axes)
            removed.append(readers[0])
    if not packings:
        return None
    kept = [stmt for stmt in statements if not any(stmt is each for each in removed)]
    taken = [buffers[func.params[position]] for position in packings]
    return PackedFunction(with_root(func, kept, taken).replace(buffer_map=buffers), packings)


def _copied(stmt: Stmt, source: Buffer) -> tuple[Buffer, tuple[int, ...]] | None:
    """Return (buffer, permutation) if the nest fills the buffer with the transposed `source`, else None."""
    nest = nest_of(stmt)
    if nest is None or nest.is_reduction or not isinstance(nest.block.body, BufferStore):
        return None
    store, load = nest.block.body, nest.block.body.value
    if not isinstance(load, BufferLoad) or load.buffer is not source or load.predicate is not None:
        return None
    target = store.buffer
    if target.dtype != source.dtype or not is_compact(target) or not is_compact(source):
        return None
    axes: list[int] = []
    for index, size in zip(store.indices, target.shape, strict=True):
        places = [d for d, other in enumerate(load.indices) if isinstance(index, Var) and other is index]
        if len(places) != 1 or not isinstance(size, IntImm):
            return None
        there = source.shape[places[0]]
        if not isinstance(there, IntImm) or there.value != size.value:
            return None
        axes += places
    return (target, tuple(axes)) if len(set(axes)) == len(source.shape) else None
