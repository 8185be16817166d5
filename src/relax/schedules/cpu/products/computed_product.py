"""Products whose operands are expressions: scaled integers, looked-up numbers, whatever arithmetic makes of arrays.

    for i, j, k in T.grid(M, N, K):                         for task in T.parallel(groups * panels):
        with T.block("C"):                                      for ko in range(ceildiv(K, 64)):
            with T.init():                                          few rows:     for k in range(64):
                C[i, j] = 0                                             b[:] = float32(P[k, :]) * S[k // 32, :]
            C[i, j] += A[i, k] * (float32(Q[k, j])                      acc[p, :] += A[row + p, k] * b[:]
                                  * S[k // 32, j])                  other rows:   panel[k, :] = b[:], and the loops of
                                                                                  `product` over it

The loops are those of `product`; the right operand is evaluated as tiles read it (`computed_operand`), the left one
into memory before the product. Constants are packed into panels, held as the rule's storages say: integers of 2 and 4
bits in fields of bytes. With few rows, memory bandwidth is the limit. With more rows, a block of the right operand is
evaluated once per group of rows. A convolution of single elements (1 × 1) is a product whose rows are its channels.

Not supported: sums that are not of float32 or float64, right operands that are not contiguous along the columns unless
they are constants or many rows share them, targets without vectors, and cases that `product` rejects.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from ....prim import Call, IntImm, PrimExpr, Var, simplify, substitute
from ....prim.intrin import is_pure
from ....prim.traits import fails_itself
from ....target import Target
from ....tir import Buffer, BufferLoad, BufferStore, ForKind, IfThenElse, PrimFunc, Stmt
from ....tir.functor import post_order_visit
from ....tir.nests import Nest, loads_in
from ...build import block, int64, loop, product_of, scratch, size_of, tasks, vector_store
from ...matrix_product import NO_PRODUCT, MatrixProduct, computed_matrix_product_of
from ...rule import PackedFunction, Refusal, ScheduleRule
from ...space import Space
from ..tile import has_vectors, runs_along
from ..tile.division import Tile, tile_for
from ..tile.storage import BitFields, Elements, PanelStorage
from .column_panels import ColumnPanel
from .computed_operand import Computed
from .held_parts import HeldPacking, HeldPart, held_parts
from .operands import DeclaredOperands, Operands, is_float_up_to, product_of_numbers, rewritten_products
from .packed_panels import users_of
from .parameters import ProductParameters, space_of_products
from .product_loops import ProductWriter

STORAGES: Final[tuple[PanelStorage, ...]] = (BitFields(), Elements())
"""Storages that are tried for each part of an operand, outermost parts first."""
SHARED: Final = 16
"""Rows from which on evaluating a block that is not contiguous along the columns pays."""


class ComputedProduct(ScheduleRule):
    """Schedule rule for products of computed operands.

    `storages` say how panels of constants are held; they are tried before those of `STORAGES`.
    """

    parameters = ProductParameters()

    def __init__(self, storages: Sequence[PanelStorage] = ()) -> None:
        self.storages = (*storages, *STORAGES)

    def space(self, target: Target) -> Space[ProductParameters]:
        """Return the parameters of the loops of the product."""
        return space_of_products(target)

    def apply(self, func: PrimFunc, target: Target, tunable: bool) -> PrimFunc | Refusal:
        del tunable
        return rewritten_products(
            func, lambda operands: _written(operands, target, {}, self.parameters), computed_product_of
        )

    def pack(self, func: PrimFunc, target: Target, constants: Sequence[int]) -> PackedFunction | Refusal:
        """Return the function for packed panels of the constants that computed operands read."""
        positions = {func.buffer_map[func.params[i]]: i for i in constants if func.params[i] in func.buffer_map}
        waiting = {buffer for buffer in positions if users_of(func, buffer) == 1}
        buffers, packings = dict(func.buffer_map), dict[int, HeldPacking]()

        def write(operands: Operands) -> Stmt | Refusal:
            held = held_parts(operands, tile_of(operands, target, self.parameters), self.storages, waiting)
            written = _written(operands, target, held, self.parameters)
            if not isinstance(written, Refusal):
                for part in itertools.chain.from_iterable(held.values()):
                    waiting.discard(part.load.buffer)
                    packings[positions[part.load.buffer]] = part.packing
                    buffers[func.params[positions[part.load.buffer]]] = part.buffer
            return written

        arranged = rewritten_products(func, write, computed_product_of)
        if isinstance(arranged, Refusal):
            return arranged
        if not packings:
            return Refusal("the operands that are computed read no constants")
        return PackedFunction(arranged.replace(buffer_map=buffers), packings)


# ------------------------------------------------------------------------------------- recognition


def computed_product_of(nest: Nest) -> MatrixProduct | Refusal:
    """Return the product of a nest of which an operand is computed, unless it is small."""
    store = nest.block.body
    if not isinstance(store, BufferStore):
        return NO_PRODUCT

    def is_read(load: BufferLoad) -> bool:
        return is_float_up_to(load.dtype, store.buffer.dtype)

    product = product_of_numbers(nest, lambda nest: computed_matrix_product_of(nest, is_read))
    if isinstance(product, Refusal):
        return product
    if not product.computed:
        return Refusal("no operand is computed", unrelated=True)
    if product.sum_dtype not in ("float32", "float64"):
        return Refusal(f"the sum is of {product.sum_dtype}")
    if not all(map(_is_evaluable, product.computed.values())):
        return Refusal("an operand calls a function with effects, or reads vectors")
    return product


def _is_evaluable(value: PrimExpr) -> bool:
    """True if an expression reads single elements and calls only functions without effects."""
    parts: list[bool] = []

    def visit(node: object) -> None:
        if isinstance(node, Call):
            parts.append(is_pure(node))
        elif isinstance(node, BufferLoad):
            parts.append(node.dtype.lanes == 1 and node.predicate is None)

    post_order_visit(value, visit)
    return all(parts)


def _unreadable(operands: Operands, lanes: int, value: PrimExpr, held: Sequence[HeldPart]) -> Refusal | None:
    """Refuse a right operand of which vectors along the columns cannot be evaluated at a fair price."""
    if lanes == 1:
        return Refusal("the target has no vectors")
    if not has_vectors(value, operands.column):
        return Refusal("the right operand has no vector form")
    in_panels = [part.load for part in held]
    loads = [load for load in loads_in(value) if all(load is not other for other in in_panels)]
    if all(runs_along(load, operands.column) for load in loads):
        return None
    if isinstance(operands.rows, IntImm) and operands.rows.value >= SHARED:
        return None
    return Refusal(f"the right operand is not contiguous along the columns, nor shared by {SHARED} rows")


# ------------------------------------------------------------------------------------- loops


def tile_of(operands: Operands, target: Target, parameters: ProductParameters) -> Tile:
    """Return the tile of a product."""
    return tile_for(target, operands.total.dtype.bits, parameters.tile)


def _written(
    operands: Operands, target: Target, held: Mapping[Buffer, Sequence[HeldPart]], parameters: ProductParameters
) -> Stmt | Refusal:
    """Return the loops of a product, or a refusal if its right operand cannot be read in vectors."""
    left, right = (operands.computed.get(load.buffer) for load in (operands.left, operands.right))
    source: Computed | None = None
    if right is not None:
        parts = held.get(operands.right.buffer, ())
        tile = tile_of(operands, target, parameters)
        unreadable = _unreadable(operands, tile.lanes, right, parts)
        if unreadable is not None:
            return unreadable
        source = Computed(operands, tile, right, parts)

    def product(there: BufferLoad) -> Stmt:
        return ProductWriter(DeclaredOperands(operands, left=there), target, parameters, source).loops(int64(0))

    if left is None:
        return operands.declared(_if_any(operands, product(operands.left)))
    parts = held.get(operands.left.buffer, ())
    evaluated = (
        _in_panels(operands, target, parameters, left, parts, product) if parts else _by_rows(operands, left, product)
    )
    return operands.declared(_if_any(operands, evaluated))


def _if_any(operands: Operands, body: Stmt) -> Stmt:
    """Run the loops only if there are results, where evaluating an operand may fail."""
    count = product_of([*(size_of(v) for v in operands.batch), operands.rows, operands.columns])
    may_fail = any(map(_may_fail, operands.computed.values()))
    return IfThenElse(count > 0, body) if may_fail and not isinstance(count, IntImm) else body


def _may_fail(value: PrimExpr) -> bool:
    """True if an expression divides by numbers, or reads elements chosen by numbers, that only a run knows."""
    parts: list[bool] = []

    def visit(node: object) -> None:
        if isinstance(node, BufferLoad):
            parts.append(any(map(loads_in, node.indices)))
        elif isinstance(node, PrimExpr):
            parts.append(fails_itself(node))

    post_order_visit(value, visit)
    return any(parts)


def _by_rows(operands: Operands, value: PrimExpr, product: Callable[[BufferLoad], Stmt]) -> Stmt:
    """Evaluate the left operand row by row, then return the product that reads it."""
    sizes = {v.var: size_of(v) for v in operands.batch} | {operands.row: operands.rows}
    axes = [(index, sizes[index]) for index in operands.left.indices if isinstance(index, Var) and index in sizes]
    k = operands.k

    def body(buffer: Buffer) -> Stmt:
        def row(parts: list[PrimExpr]) -> Stmt:
            at = {var: part.astype(str(var.dtype)) for (var, _), part in zip(axes, parts, strict=True)}
            return loop("k", operands.depth, lambda there: BufferStore(
                buffer, substitute(value, {**at, k: there.astype(str(k.dtype))}), (*parts, there)),
                ForKind.VECTORIZED)  # fmt: skip

        rows = tasks("row", [var.name for var, _ in axes], [size for _, size in axes], row)
        return block([rows, product(BufferLoad(buffer, (*(var for var, _ in axes), k)))])

    shape = [*(simplify(size) for _, size in axes), simplify(operands.depth)]
    return scratch("evaluated", shape, str(operands.total.dtype), body)


def _in_panels(
    operands: Operands,
    target: Target,
    parameters: ProductParameters,
    value: PrimExpr,
    held: Sequence[HeldPart],
    product: Callable[[BufferLoad], Stmt],
) -> Stmt:
    """Evaluate the left operand from packed panels of its rows, then return the product that reads it."""
    turned = DeclaredOperands(operands)
    turned.rows, turned.row, turned.columns, turned.column = (
        operands.columns, operands.column, operands.rows, operands.row,
    )  # fmt: skip
    writer = ProductWriter(turned, target, parameters)
    source = Computed(turned, writer.tile, value, held)

    def body(buffer: Buffer) -> Stmt:
        def evaluated(panel: ColumnPanel) -> Stmt:
            part = source.part(panel, int64(0), operands.depth)
            return source.declared(part, loop("k", operands.depth, lambda k: source.stored(
                part, k, lambda c, vector: vector_store(buffer, (k, simplify(panel.start + c)), vector))))  # fmt: skip

        return block([writer.each_panel(evaluated), product(BufferLoad(buffer, (operands.k, operands.row)))])

    width = sum(held[0].packing.widths)
    return scratch("evaluated", (operands.depth, width), str(operands.total.dtype), body)
