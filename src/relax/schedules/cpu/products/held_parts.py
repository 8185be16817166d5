"""Constants that computed operands read, packed into panels of the operand's columns or rows.

    float32(Q[k, j]) * S[k // 32, j]     Q of 128 × 80 and S of 4 × 80, panels of 48 and 32 columns

    part              row of a panel     held as
    float32(Q[k, j])  k                  fields of bytes, if Q is of 2 or 4 bits
    S[k // 32, j]     k // 32            elements

A part is an expression that a `PanelStorage` takes. Constants that others read, too, stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any, TypeAlias

import numpy as np

from ....ir import DataType
from ....prim import IntImm, PrimExpr, Var, free_vars, is_const, simplify
from ....runtime.records import dataclass
from ....tir import Buffer, BufferLoad
from ....tir.buffer import decl_buffer
from ....tir.functor import StmtExprVisitor
from ....tir.nests import is_compact, loads_in
from ...build import int64
from ..tile import has_vectors
from ..tile.division import Tile, panels
from ..tile.storage import PanelStorage
from .operands import Operands

Array: TypeAlias = "np.ndarray[Any, Any]"


@dataclass(frozen=True)
class HeldPacking:
    """Packing of a constant into consecutive panels of one of its axes, as a storage holds them."""

    storage: PanelStorage
    dtype: str
    shape: tuple[int, ...]
    axis: int
    """Dimension of the columns; the other dimensions are the rows of a panel, in their order."""
    widths: tuple[int, ...]
    """Columns of each panel."""
    lanes: int

    @property
    def rows(self) -> int:
        """Number of rows of a panel."""
        return int(np.prod(self.shape)) // self.shape[self.axis] if 0 not in self.shape else 0

    @property
    def size(self) -> int:
        """Number of elements of all panels."""
        dtype, lanes = DataType(self.dtype), self.lanes
        return self.rows * sum(self.storage.vectors(dtype, width // lanes) * lanes for width in self.widths)

    def __call__(self, array: Array) -> Array:
        columns = self.shape[self.axis]
        matrix = np.reshape(np.moveaxis(np.reshape(array, self.shape), self.axis, -1), (-1, columns))
        filled = np.zeros((len(matrix), sum(self.widths)), matrix.dtype)
        filled[:, :columns] = matrix
        ends = np.cumsum(self.widths)[:-1]
        held = (self.storage.held(DataType(self.dtype), part, self.lanes) for part in np.split(filled, ends, axis=1))
        return np.concatenate([np.ravel(part) for part in held])


@dataclass(frozen=True)
class HeldPart:
    """Part of an operand's value that reads a constant in panels."""

    part: PrimExpr
    load: BufferLoad
    row: PrimExpr
    """Row of the panel: the load's other indices as one."""
    packing: HeldPacking
    buffer: Buffer
    """Memory of all panels."""


def held_parts(
    operands: Operands, tile: Tile, storages: Sequence[PanelStorage], constants: Set[Buffer]
) -> dict[Buffer, list[HeldPart]]:
    """Return the parts of computed operands that are read from packed panels of constants, by operand."""
    result: dict[Buffer, list[HeldPart]] = {}
    read = {load.buffer for load in (*loads_in(operands.store.value), operands.left, operands.right)}
    for operand, value in operands.computed.items():
        others = {
            load.buffer for other, its in operands.computed.items() if other is not operand for load in loads_in(its)
        }
        is_left = operand is operands.left.buffer
        along = (operands.row, operands.rows) if is_left else (operands.column, operands.columns)
        batch = () if is_left else tuple(v.var for v in operands.batch)
        var, size = along
        if not isinstance(size, IntImm) or not size.value or tile.lanes == 1 or not has_vectors(value, var):
            continue
        if set(free_vars(value)) <= {var, operands.k, *batch}:
            result[operand] = _Packer(storages, tile, var, size.value, constants - read - others).parts(value)
    return result


class _Packer(StmtExprVisitor):
    """Finds the parts of a value that read constants which can be packed along one of the value's variables."""

    def __init__(
        self, storages: Sequence[PanelStorage], tile: Tile, column: Var, columns: int, constants: Set[Buffer]
    ) -> None:
        super().__init__()
        self.storages, self.tile, self.column, self.columns, self.constants = storages, tile, column, columns, constants
        self.found: list[tuple[PrimExpr, BufferLoad, PanelStorage]] = []
        self.loose: set[Buffer] = set()
        """Buffers of which other parts read elements."""

    def parts(self, value: PrimExpr) -> list[HeldPart]:
        """Return the parts, outermost first."""
        self.visit(value)
        widths = tuple(
            segment.size * self.tile.lanes for segment in panels(self.columns, self.tile) for _ in range(segment.number)
        )
        memory: dict[Buffer, tuple[HeldPacking, Buffer]] = {}
        result: list[HeldPart] = []
        for part, load, storage in self.found:
            axis = next(d for d, index in enumerate(load.indices) if index is self.column)
            shape = tuple(size.value for size in load.buffer.shape if isinstance(size, IntImm))
            packing = HeldPacking(storage, str(load.dtype), shape, axis, widths, self.tile.lanes)
            first, buffer = memory.setdefault(load.buffer, (packing, _memory(load, packing)))
            if packing != first:  # another part holds it in another form
                self.loose.add(load.buffer)
            result.append(HeldPart(part, load, _row(load, axis, shape), packing, buffer))
        return [held for held in result if held.load.buffer not in self.loose]

    def visit(self, node: Any) -> Any:
        for storage in self.storages if isinstance(node, PrimExpr) else ():
            load = storage.load_of(node)
            if load is not None and self._is_packable(load):
                self.found.append((node, load, storage))
                return None
        if isinstance(node, BufferLoad):
            self.loose.add(node.buffer)
        return super().visit(node)

    def _is_packable(self, load: BufferLoad) -> bool:
        """True for an element of a constant at the column, whose other indices do not depend on it."""
        buffer, places = load.buffer, [index is self.column for index in load.indices]
        if buffer not in self.constants or places.count(True) != 1 or not is_compact(buffer):
            return False
        if not all(isinstance(size, IntImm) and size.value for size in buffer.shape):
            return False
        if not is_const(buffer.shape[places.index(True)], self.columns):
            return False
        others = [index for index, is_column in zip(load.indices, places, strict=True) if not is_column]
        # Bounds are those of all rows together: an index that only the run knows is one of a matrix's rows.
        return not any(self.column in free_vars(index) for index in others) and (
            len(others) == 1 or not any(map(loads_in, others))
        )


def _memory(load: BufferLoad, packing: HeldPacking) -> Buffer:
    dtype = packing.storage.dtype(load.dtype)
    return decl_buffer((packing.size,), dtype, f"{load.buffer.name}_packed")


def _row(load: BufferLoad, axis: int, shape: Sequence[int]) -> PrimExpr:
    """Row of a panel: the indices other than the column as one."""
    others = [(index, size) for d, (index, size) in enumerate(zip(load.indices, shape, strict=True)) if d != axis]
    if len(others) == 1:
        return others[0][0]
    row: PrimExpr = int64(0)
    for index, size in others:
        row = row * size + int64(index)
    return simplify(row)
