"""Products with a float16/bfloat16 left operand, converted to float32 once, before the product.

    for i, j, k in T.grid(M, N, K):                  for i in T.parallel(M):                  float16 to float32
        with T.block("C"):                               L[i, k] = A[i, k]
            with T.init():                           the loops of `product`, which read L
                C[i, j] = 0
            C[i, j] += A[i, k] * B[k, j]

A register tile broadcasts single elements of its rows, and would convert each one for every panel of columns. Vectors
of the right operand are converted as they are loaded, so its panels stay narrow in memory.

Not supported: left operands that are float32 or float64 or not contiguous along the depth, and cases that `product`
rejects. `dot_product` takes precedence if the target has its instructions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ....prim import PrimExpr, Var, simplify
from ....target import Target
from ....tir import Buffer, BufferLoad, BufferStore, ForKind, PrimFunc, Stmt
from ...build import block, loop, scratch, size_of, tasks
from ...rule import PackedFunction, Refusal, ScheduleRule
from ...space import Space
from .dot_operands import with_views
from .operands import DeclaredOperands, Matrices, Operands, rewritten_products, tile_view
from .packed_panels import packed_products
from .parameters import ProductParameters, space_of_products
from .product import packed_tiled, tiled


class WidenedProduct(ScheduleRule):
    """Schedule rule for products with a narrow float left operand."""

    parameters = ProductParameters()

    def space(self, target: Target) -> Space[ProductParameters]:
        """Return the parameters of the loops of the product."""
        return space_of_products(target)

    def apply(self, func: PrimFunc, target: Target, tunable: bool) -> PrimFunc | Refusal:
        del tunable
        return rewritten_products(
            func, lambda operands: _product(operands, lambda wide: tiled(wide, target, self.parameters))
        )

    def pack(self, func: PrimFunc, target: Target, constants: Sequence[int]) -> PackedFunction | Refusal:
        def write(operands: Operands) -> Stmt | Refusal:
            return _product(operands, lambda wide: packed_tiled(wide, target, self.parameters))

        return packed_products(func, target, constants, write, shape=self.parameters.tile)


def _product(operands: Operands, write: Callable[[Matrices], Stmt]) -> Stmt | Refusal:
    """Return the converted copy of the left operand and the product."""
    left, dtype = operands.left, operands.total.dtype
    if left.dtype == dtype:
        return Refusal(f"the left operand is of {dtype}, as the sum is", unrelated=True)
    if left.indices[-1] is not operands.k:
        return Refusal("the left operand is not contiguous along the depth")
    sizes = {id(v.var): size_of(v) for v in operands.batch} | {id(operands.row): operands.rows}
    axes = [(index, sizes[id(index)]) for index in left.indices[:-1] if isinstance(index, Var)]

    def body(buffer: Buffer) -> Stmt:
        left_wide = BufferLoad(buffer, (*(var for var, _ in axes), operands.k))
        wide = DeclaredOperands(operands, left=left_wide)
        return block([_copied(wide, left, axes), write(wide)])

    shape = [*(simplify(size) for _, size in axes), simplify(operands.depth)]
    return operands.declared(scratch("wide", shape, str(dtype), body))


def _copied(wide: DeclaredOperands, left: BufferLoad, axes: Sequence[tuple[Var, PrimExpr]]) -> Stmt:
    """Return a parallel loop that converts the rows of an operand to the wider dtype."""
    names, sizes = [var.name for var, _ in axes], [size for _, size in axes]
    line = ((wide.k, wide.depth),)

    def row(parts: list[PrimExpr]) -> Stmt:
        at = dict(zip((var for var, _ in axes), parts, strict=True))
        source, result = tile_view(left, at, line), tile_view(wide.left, at, line)

        def element(k: Var) -> Stmt:
            return BufferStore(result, BufferLoad(source, (k,)).astype(str(result.dtype)), (k,))

        return with_views((source, result), loop("k", wide.depth, element, ForKind.VECTORIZED))

    if not axes:
        return row([])
    return tasks("row", names, sizes, row)
