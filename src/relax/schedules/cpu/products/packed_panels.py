"""Constant right operands of products, packed into consecutive panels at compile time.

    w[k, j] of 96 × 80, panels of 48 and 32 columns    p[0 : 4608] = w[:, 0:48], p[4608 : 7680] = w[:, 48:80]

The last panel is zero-padded to whole vectors. A product of packed panels copies nothing at run time, whatever its
number of rows and however the operand was transposed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np

from ....prim import IntImm, PrimExpr, Var
from ....runtime.records import dataclass
from ....runtime.tensor import new_array
from ....target import Target
from ....tir import Buffer, BufferLoad, PrimFunc, Stmt
from ....tir.buffer import decl_buffer
from ....tir.nests import Nest, buffers_used, root_of
from ...build import size_of
from ...matrix_product import MatrixProduct
from ...rule import PackedFunction, Refusal
from ..tile.division import Tile, panels, tile_for
from .operands import Operands, rewritten_products

Array: TypeAlias = "np.ndarray[Any, Any]"


@dataclass(frozen=True)
class PanelPacking:
    """Packing of matrices into consecutive panels."""

    shape: tuple[int, ...]
    """Shape without dimensions of 1."""
    order: tuple[int, ...]
    """Dimensions in the order batch, depth, columns."""
    widths: tuple[int, ...]
    """Columns of each panel."""

    def __call__(self, array: Array) -> Array:
        return self.in_panels(np.transpose(np.reshape(array, self.shape), self.order))

    def filled(self, array: Array) -> Array:
        """Pad matrices with zero columns to fill the last panel."""
        *batch, depth, columns = (self.shape[i] for i in self.order)
        filled = np.zeros((*batch, depth, sum(self.widths)), array.dtype)
        filled[..., :columns] = np.transpose(np.reshape(array, self.shape), self.order)
        return filled

    def in_panels(self, matrices: Array) -> Array:
        """Return the consecutive panels of matrices, the last one padded with zeros."""
        *batch, depth, _ = matrices.shape
        packed = new_array((*batch, depth * sum(self.widths)), matrices.dtype)
        first = 0
        for width in self.widths:
            panel = packed[..., depth * first : depth * (first + width)]
            panel = np.reshape(panel, (*batch, depth, width))  # a view: splitting an axis never copies
            inside = matrices[..., first : first + width]
            panel[..., : inside.shape[-1]] = inside
            panel[..., inside.shape[-1] :] = 0
            first += width
        return packed


class Panels(Protocol):
    """Panels of another form: a packing, the dtype it produces, and the number of elements per matrix."""

    @property
    def dtype(self) -> str: ...

    def size(self, depth: int) -> int: ...

    def __call__(self, array: Array) -> Array: ...


def packed_products(
    func: PrimFunc,
    target: Target,
    constants: Sequence[int],
    write: Callable[[Operands], Stmt | Refusal],
    product_of: Callable[[Nest], MatrixProduct | Refusal] | None = None,
    panels_of: Callable[[Operands, PanelPacking], PanelPacking | Panels | Refusal] | None = None,
    shape: tuple[int, int] | None = None,
) -> PackedFunction | Refusal:
    """Return the function with packed panels for constant parameters that are right operands of its products.

    `product_of` says which nests are products (see `rewritten_products`), `panels_of` may give panels another form, or
    refuse a product. `shape` is that of tiles, if it is not the target's own.
    """
    params = {func.buffer_map[func.params[i]].data: i for i in constants if func.params[i] in func.buffer_map}
    packings: dict[int, PanelPacking | Panels] = {}
    buffers = dict(func.buffer_map)

    def packed(operands: Operands) -> Stmt | Refusal:
        right = operands.right
        position = params.get(right.buffer.data)
        if position is None:
            return Refusal("the right operand is not constant", unrelated=True)
        if position in packings or users_of(func, right.buffer) != 1:
            return Refusal("the right operand has another reader")
        packing = _packing(operands, right, tile_for(target, operands.total.dtype.bits, shape))
        if packing is None:
            return Refusal("the right operand is empty, or its sizes are not those of the product")
        batch = packing.shape_of_batch
        size, dtype = packing.depth * sum(packing.packing.widths), str(right.buffer.dtype)
        arrangement: PanelPacking | Panels = packing.packing
        if panels_of is not None:
            panels = panels_of(operands, packing.packing)
            if isinstance(panels, Refusal):
                return panels
            if not isinstance(panels, PanelPacking):
                arrangement, size, dtype = panels, panels.size(packing.depth), panels.dtype
        packings[position] = arrangement
        buffer = decl_buffer((*batch, size), dtype, f"{right.buffer.name}_packed")
        buffers[func.params[position]] = buffer
        operands.packed = BufferLoad(buffer, (*packing.batch, operands.column))
        return write(operands)

    arranged = rewritten_products(func, packed, product_of)
    if isinstance(arranged, Refusal):
        return arranged
    return PackedFunction(arranged.replace(buffer_map=buffers), packings)


def users_of(func: PrimFunc, buffer: Buffer) -> int:
    """Number of nests that read a buffer."""
    _, stmts = root_of(func)
    return sum(buffer.data in used for stmt in stmts for used in buffers_used(stmt)[:1])


@dataclass(frozen=True)
class _Plan:
    packing: PanelPacking
    batch: tuple[Var, ...]
    shape_of_batch: tuple[int, ...]
    depth: int


def _packing(operands: Operands, right: BufferLoad, tile: Tile) -> _Plan | None:
    """Return the packing plan, or None for an operand that is empty or of dynamic size."""
    shape = [size.value for size in right.buffer.shape if isinstance(size, IntImm)]
    if len(shape) != right.buffer.ndim or 0 in shape:
        return None
    used = [(index, size) for index, size in zip(right.indices, shape, strict=True) if isinstance(index, Var)]
    places = {id(var): i for i, (var, _) in enumerate(used)}
    batch = tuple(v.var for v in operands.batch if id(v.var) in places)
    order = tuple(places[id(var)] for var in (*batch, operands.k, operands.column))
    sizes = tuple(size for _, size in used)
    covered: list[tuple[PrimExpr, int]] = [(operands.depth, sizes[order[-2]]), (operands.columns, sizes[order[-1]])]
    covered += [(size_of(v), sizes[places[id(v.var)]]) for v in operands.batch if id(v.var) in places]
    if not all(isinstance(size, IntImm) and size.value == held for size, held in covered):
        return None
    *outer, depth, columns = (sizes[i] for i in order)
    segments = panels(columns, tile)
    widths = tuple(segment.size * tile.lanes for segment in segments for _ in range(segment.number))
    return _Plan(PanelPacking(sizes, order, widths), batch, tuple(outer), depth)
