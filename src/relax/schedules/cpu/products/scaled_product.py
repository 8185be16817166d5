"""Products of float32 by constant narrow integers with scales: weights are dequantised in registers.

    for i, j, k in T.grid(M, N, K):                         for task in T.parallel(groups * panels):
        with T.block("C"):                                      for ko in range(ceildiv(K, 64)):
            with T.init():                                          few rows:     for k in range(64):
                C[i, j] = 0                                             b[:] = float32(P[k, :]) * S[k // 32, :]
            C[i, j] += A[i, k] * (float32(Q[k, j])                      acc[p, :] += A[row + p, k] * b[:]
                                  * S[k // 32, j])                  other rows:   panel[k, :] = b[:], and the loops of
                                                                                  `product` over it

The loops are those of `product`. Integer panels are packed consecutively; 4-bit integers two per byte: the low nibbles
hold one vector, the high nibbles the next vector.

    int4, four vectors of columns      v0, v1, v2, v3      the bytes  v0 + 16 · v1,  v2 + 16 · v3

With few rows, memory bandwidth is the limit. With more rows, a block is dequantised once per group of rows.

Not supported: right operands that are not constant or are used twice, other dtypes, scales without one row per equal
number of weight rows, and cases that `product` rejects.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import numpy as np

from ....prim import Add, Cast, FloorDiv, IntImm, Mul, PrimExpr, Var, const, simplify
from ....prim.instructions import prefetch
from ....prim.intrin import floordiv, shift_left, shift_right
from ....target import Target
from ....tir import Buffer, BufferLoad, BufferStore, DeclBuffer, Evaluate, IfThenElse, PrimFunc, Stmt
from ....tir.buffer import decl_buffer
from ....tir.nests import Nest
from ...build import block, int64, loop, scratch, spread, vector_load, vector_store
from ...contraction import Contraction, plain, size_of
from ...rule import PackedFunction, ScheduleRule
from ..tile import number_of
from ..tile.division import LOW, panels
from .operands import Operands, product_of_numbers, tile_view
from .packed_panels import PanelPacking, packed_products, users_of
from .product_loops import DepthBlock, ProductWriter, RowsOfPanel, Share
from .product_results import ColumnPanel

Array: TypeAlias = "np.ndarray[Any, Any]"

NARROW: Final = ("int8", "int4")
LINE: Final = 64
"""Bytes of a cache line."""
AHEAD: Final = 2048
"""Prefetch distance in bytes of packed panels."""


@dataclass(frozen=True)
class Scales:
    """Scales of a right operand: an access at its column, and the number of weight rows that share a row of scales."""

    access: BufferLoad
    group: int

    @property
    def count(self) -> int:
        """Number of rows of scales."""
        return _number(self.access.buffer.shape[0])


class ScaledProduct(ScheduleRule):
    """Schedule rule for products by scaled integers."""

    def apply(self, func: PrimFunc, target: Target, tunable: bool) -> PrimFunc | None:
        del func, target, tunable
        return None

    def pack(self, func: PrimFunc, target: Target, constants: Sequence[int]) -> PackedFunction | None:
        """Return the function for packed panels of integers and scales."""
        positions = {func.buffer_map[func.params[i]]: i for i in constants if func.params[i] in func.buffer_map}
        scales: dict[Buffer, Scales] = {}
        packed_scales: dict[Buffer, tuple[Buffer, PanelPacking]] = {}

        def product_of(nest: Nest) -> Contraction | None:
            parts = _scaled_product_of(nest)
            if parts is None:
                return None
            product, its_scales = parts
            scales[product.rhs.buffer] = its_scales
            return product

        def panels_of(operands: Operands, packing: PanelPacking) -> NarrowPanels | None:
            held = scales[operands.right.buffer].access.buffer
            if held not in positions or users_of(func, held) != 1 or held in packed_scales:
                return None
            sizes = tuple(map(_number, held.shape))
            order = PanelPacking(sizes, (0, 1), packing.widths)
            buffer = decl_buffer((sizes[0] * sum(packing.widths),), str(held.dtype), f"{held.name}_packed")
            packed_scales[held] = buffer, order
            dtype = str(operands.right.dtype)
            lanes = ProductWriter(operands, target).tile.lanes
            return NarrowPanels(packing, lanes, dtype == "int4")

        def write(operands: Operands) -> Stmt:
            its_scales = scales[operands.right.buffer]
            buffer, _ = packed_scales[its_scales.access.buffer]
            return _Writer(operands, target, its_scales, buffer).tasks()

        packed = packed_products(func, target, constants, write, product_of, panels_of)
        if packed is None:
            return None
        buffers, packings = dict(packed.func.buffer_map), dict(packed.packings)
        for held, (buffer, order) in packed_scales.items():
            buffers[func.params[positions[held]]] = buffer
            packings[positions[held]] = order
        return PackedFunction(packed.func.replace(buffer_map=buffers), packings)


def _scaled_product_of(nest: Nest) -> tuple[Contraction, Scales] | None:
    """Return the product without its scales, and the scales, or None for any other nest."""
    store = nest.block.body
    match store:
        case BufferStore(value=Add(total, Mul(left, Mul(Cast(value=BufferLoad() as numbers) as wide, scale)))):
            pass
        case _:
            return None
    if not isinstance(scale, BufferLoad) or scale.buffer.ndim != 2 or scale.dtype != "float32":
        return None
    if numbers.dtype not in NARROW or wide.dtype != "float32" or len(numbers.indices) != 2:
        return None
    without = store.replace(value=Add(total, Mul(left, wide)))
    product = product_of_numbers(replace(nest, block=nest.block.replace(body=without), stores=(without,)))
    if product is None or product.rhs.buffer is not numbers.buffer or product.lhs.dtype != "float32":
        return None
    if product.sum_dtype != "float32" or len(product.columns) != 1:
        return None
    group = _group_of(scale, product, nest)
    return None if group is None else (product, Scales(scale, group))


def _group_of(scale: BufferLoad, product: Contraction, nest: Nest) -> int | None:
    """Return the number of weight rows that share a row of scales, or None for scales with other indices."""
    row, column = scale.indices
    depth, k = size_of(product.depth), product.depth.var
    shape = scale.buffer.shape
    if column is not product.rhs.indices[-1] or product.rhs.indices[0] is not k:
        return None
    if not isinstance(depth, IntImm) or not depth.value or not all(isinstance(s, IntImm) for s in shape):
        return None
    if not plain(scale.buffer, (const(0, "int64"), column), nest.block):
        return None
    match row:
        case IntImm(value=0):
            group = depth.value
        case FloorDiv(a, IntImm(value=group)) if a is k and group > 0:
            pass
        case Var() if row is k:
            group = 1
        case _:
            return None
    same = _number(shape[1]) == _number(product.rhs.buffer.shape[1])
    return group if same and group * _number(shape[0]) == depth.value else None


def _number(size: PrimExpr) -> int:
    assert isinstance(size, IntImm)
    return size.value


@dataclass(frozen=True)
class NarrowPanels:
    """Packing of a constant integer matrix into consecutive panels; 4-bit integers are packed two per byte."""

    panels: PanelPacking
    lanes: int
    in_pairs: bool
    dtype: str = "int8"

    def size(self, depth: int) -> int:
        """Bytes of a matrix of `depth` rows."""
        return depth * sum(bytes_of_row(width // self.lanes, self.lanes, self.in_pairs) for width in self.panels.widths)

    def __call__(self, array: Array) -> Array:
        matrix = self.panels.filled(array).astype(np.int8)
        parts: list[Array] = []
        first = 0
        for width in self.panels.widths:
            panel = matrix[:, first : first + width]
            parts.append(np.ravel(self._in_pairs(panel) if self.in_pairs else panel))
            first += width
        return np.concatenate(parts)

    def _in_pairs(self, panel: Array) -> Array:
        depth, width = panel.shape
        vectors = -(-width // self.lanes // 2) * 2
        filled = np.zeros((depth, vectors * self.lanes), np.int8)
        filled[:, :width] = panel
        pairs = np.reshape(filled, (depth, vectors // 2, 2, self.lanes))
        bits = pairs.astype(np.uint8)  # a negative number wraps around
        packed = (bits[:, :, 0] & np.uint8(15)) | (bits[:, :, 1] << np.uint8(4))
        return packed.astype(np.int8)


def bytes_of_row(vectors: int, lanes: int, in_pairs: bool) -> int:
    """Bytes of a row of a panel of `vectors` vectors."""
    return (-(-vectors // 2) if in_pairs else vectors) * lanes


@dataclass(frozen=True)
class _NarrowBlock(DepthBlock):
    """Depth block of an integer panel in memory, with the panel's scales (groups, width)."""

    scales: Buffer


class _Writer(ProductWriter):
    """Writes the loops of one product."""

    def __init__(self, operands: Operands, target: Target, scales: Scales, packed: Buffer) -> None:
        self.in_pairs = operands.right.dtype == "int4"
        self.scales, self.packed_scales = scales, packed
        super().__init__(operands, target)

    # ------------------------------------------------------------------ blocks

    def _has_deep_blocks(self) -> bool:
        """Dequantised blocks are stored in the L1 cache and must fit it."""
        return False

    def _block(self, panel: ColumnPanel, rows: RowsOfPanel, start: PrimExpr, depth: PrimExpr) -> Stmt:
        """Iterate all rows over a depth block: few rows dequantise in registers, more rows use a dequantised copy."""
        width = panel.vectors * self.tile.lanes
        part = self._narrow_block(panel, start, depth)

        def copied(buffer: Buffer) -> Stmt:
            whole = DepthBlock(panel, start, depth, buffer)
            lanes = self.tile.lanes

            def line(k: Var) -> Stmt:
                vector = self._vectors(part, k)
                columns = [int64(v * lanes) for v in range(panel.vectors)]
                return block(vector_store(buffer, (k, c), vector(c)) for c in columns)

            return block([loop("k", depth, line), self._tiles(whole, rows)])

        def of_floats() -> Stmt:
            most = self.depth.value if isinstance(self.depth, IntImm) else self.block
            return scratch("panel", (min(most, self.block), width), self.dtype, copied)

        if self.few and isinstance(self.rows, IntImm):
            stmt = self._tiles(part, rows) if self.rows.value <= LOW else of_floats()
        elif isinstance(rows.tiles, IntImm) and rows.tiles.value:
            stmt = of_floats()
        else:
            assert rows.tail is not None
            stmt = IfThenElse(rows.tiles > 0, of_floats(), self._tail(part, rows, rows.tail))
        return DeclBuffer(part.source, DeclBuffer(part.scales, stmt))

    def _narrow_block(self, panel: ColumnPanel, start: PrimExpr, depth: PrimExpr) -> _NarrowBlock:
        operands, lanes = self.operands, self.tile.lanes
        assert operands.packed is not None
        column, width = operands.column, panel.vectors * lanes
        row = bytes_of_row(panel.vectors, lanes, self.in_pairs)
        before = self._bytes_before(panel) if self.in_pairs else panel.start
        at = {**panel.values, column: simplify(before * self.depth + start * row)}
        view = tile_view(operands.packed, at, ((column, depth * row),))
        source = decl_buffer((depth, row), "int8", "panel", data=view.data, elem_offset=view.elem_offset)
        count = self.scales.count
        place = BufferLoad(self.packed_scales, (column,))
        held = tile_view(place, {column: simplify(panel.start * count)}, ((column, int64(count * width)),))
        scales = decl_buffer((count, width), "float32", "scales", data=held.data, elem_offset=held.elem_offset)
        return _NarrowBlock(panel, start, depth, source, scales)

    def _bytes_before(self, panel: ColumnPanel) -> PrimExpr:
        """Bytes of one row of all panels before a panel."""
        columns, lanes = _number(self.columns), self.tile.lanes
        before = 0
        for segment in panels(columns, self.tile):
            row = bytes_of_row(segment.size, lanes, True)
            if segment.size == panel.vectors:
                first = segment.start * lanes
                return simplify(before + floordiv(panel.start - first, segment.size * lanes) * row)
            before += segment.number * row
        raise AssertionError(panel.vectors)

    # ------------------------------------------------------------------ vectors

    def _has_numbered_columns(self, part: DepthBlock) -> bool:
        return isinstance(part, _NarrowBlock)

    def _vectors(self, part: DepthBlock, k: PrimExpr) -> Callable[[PrimExpr], PrimExpr]:
        if not isinstance(part, _NarrowBlock):
            return super()._vectors(part, k)
        lanes = self.tile.lanes
        group = floordiv(part.start + k, self.scales.group) if self.scales.count > 1 else int64(0)

        def scaled(c: PrimExpr) -> PrimExpr:
            scale = vector_load(part.scales, (group, c), lanes)
            return Mul(self._number(part, k, number_of(c) // lanes), scale)

        return scaled

    def _number(self, part: DepthBlock, k: PrimExpr, v: int) -> PrimExpr:
        """Return the integers of a vector of a row, converted to floats."""
        lanes = self.tile.lanes
        wide = f"int32x{lanes}" if lanes > 1 else "int32"
        if not self.in_pairs:
            return vector_load(part.source, (k, v * lanes), lanes).astype(wide).astype(self.vector)
        pair = vector_load(part.source, (k, v // 2 * lanes), lanes).astype(wide)
        if v % 2 == 0:
            pair = shift_left(pair, spread(const(28, "int32"), lanes))
        return shift_right(pair, spread(const(4 if v % 2 else 28, "int32"), lanes)).astype(self.vector)

    def _asked(self, part: DepthBlock, left: Buffer, height: int, k: PrimExpr, share: Share) -> list[Stmt]:
        """Prefetch the packed panel at a fixed distance ahead."""
        del left, height, share
        if not isinstance(part, _NarrowBlock):
            return []
        row = part.source.shape[1]
        ahead = AHEAD // _number(row)
        return [Evaluate(prefetch(BufferLoad(part.source, (k + ahead, int64(0))), locality=2))]
