"""Matrix products of float32 or float64: choice of the loops of a product.

    the right operand is a constant       its panels are packed at compile time (`packed_panels`): Strassen's algorithm
                                          for the panels that `strassen` supports, else `product_loops`
    else, where Strassen pays             panels are copied first, then the same:

        for jo in T.parallel(panels):                 a panel of 64 columns, all of the depth
            panels[jo, 0:K, 0:64] = B[…]
            greatest[jo, 0:64] = max |B[…]|           of each column
        even = maxima of columns computed together differ by a factor of at most 16
        if even:
            Strassen's algorithm
        the loops of `product`, for the remaining panels

    few rows, a transposed right operand  it is read where it is (`inner_products`); a kernel for an open number of rows
                                          has these loops and the others
    an open number of rows                up to 24 rows read the right operand in memory order (`few_rows`), more have
                                          the loops below
    all others                            the loops of `product`, which copy blocks of panels when they read them, and
                                          those of `last_columns` for a few remainder columns

Columns of constants are not compared: they are weights of one layer. Columns of other operands may have different
units, and small ones would lose digits beside large ones, as rows of A would (see `strassen`).

Not supported: other dtypes, functions without tir.noalias, results whose last dimension is not the columns, and small
products.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from ....prim import GT, LE, NE, And, IntImm, PrimExpr, Select, const, is_const, simplify
from ....prim.instructions import vector_reduce_max
from ....prim.intrin import abs as absolute
from ....prim.intrin import max as maximum
from ....target import Target
from ....tir import Buffer, BufferLoad, BufferStore, IfThenElse, PrimFunc, Stmt
from ...build import alloc, block, int64, loop, named, scratch, spread, vector_load, vector_store
from ...rule import PackedFunction, Refusal, ScheduleRule
from ...space import Space
from ..tile.division import panels, tile_for
from .few_rows import StreamWriter, are_streamed
from .inner_products import MOST_ROWS, InnerProducts, is_inner
from .last_columns import LastColumns, number_of_last
from .operands import DeclaredOperands, Matrices, Operands, rewritten_products
from .packed_panels import packed_products
from .parameters import ProductParameters, space_of_products
from .product_loops import DEFAULT, ProductWriter
from .right_operand import BlockInMemory
from .strassen import Sevens, is_worth_it, panels_by_sevens
from .strassen_slabs import EVEN

LEAST_ROWS: Final = 256
"""The rows from which on copying a whole operand costs less than every eighth product; twice as many for one that does
not stay in the last cache.
"""
LEAST_SHARED: Final = 384
"""The rows, or columns, from which on cores gain by it too: each reads panels that another core has copied, and lines
that two cores have read are written slowly in the next call (`LEAST_OWN_TILES` in `strassen`).
"""


class Product(ScheduleRule):
    """Schedule rule for matrix products."""

    parameters = ProductParameters()

    def space(self, target: Target) -> Space[ProductParameters]:
        """Return the parameters of the loops, with Strassen's algorithm or without."""
        return space_of_products(target, has_strassen=True)

    def apply(self, func: PrimFunc, target: Target, tunable: bool) -> PrimFunc | Refusal:
        del tunable
        return rewritten_products(func, lambda operands: tiled(operands, target, self.parameters))

    def pack(self, func: PrimFunc, target: Target, constants: Sequence[int]) -> PackedFunction | Refusal:
        def write(operands: Operands) -> Stmt:
            return packed_tiled(operands, target, self.parameters)

        return packed_products(func, target, constants, write, shape=self.parameters.tile)


def packed_tiled(operands: Matrices, target: Target, parameters: ProductParameters = DEFAULT) -> Stmt:
    """Return the loops of a product of packed panels, by `strassen` if it has many rows."""
    count = panels_by_sevens(operands, target) if parameters.strassen else 0
    if not count:
        return ProductWriter(operands, target, parameters).tasks()
    worth = simplify(is_worth_it(operands.rows, count, target))
    return operands.declared(_by_sevens(operands, target, Sevens(operands, target, count).product, worth))


def tiled(operands: Matrices, target: Target, parameters: ProductParameters = DEFAULT) -> Stmt:
    """Return the loops of a product of arbitrary operands."""
    if not is_inner(operands, target):
        return _streamed_or_copied(operands, target, parameters)
    few = simplify(LE(operands.rows, int64(MOST_ROWS)))
    if is_const(few, 0):
        return _copied(operands, target, parameters)
    if is_const(few, 1):
        return operands.declared(InnerProducts(operands, target).tasks())
    inner = InnerProducts(DeclaredOperands(operands), target).tasks()
    return operands.declared(IfThenElse(few, inner, _copied(DeclaredOperands(operands), target, parameters)))


def _streamed_or_copied(operands: Matrices, target: Target, parameters: ProductParameters) -> Stmt:
    """Return the loops of `few_rows`, those of `_copied`, or both, between which an open number of rows decides.

    Tiles read a single panel of columns where it is, so that a product of few columns copies nothing. A shape of tiles
    that was chosen, as by tuning, is that of all rows.
    """
    width = tile_for(target, operands.total.dtype.bits).columns
    few = simplify(And(are_streamed(operands), GT(operands.columns, int64(width))))
    may_be_few = not is_const(few, 0) and parameters.tile is None
    if not may_be_few or operands.right.indices[-1] is not operands.column:
        return _copied(operands, target, parameters)
    if is_const(few, 1):
        return operands.declared(StreamWriter(operands, target).tasks())
    streamed = StreamWriter(DeclaredOperands(operands), target).tasks()
    return operands.declared(IfThenElse(few, streamed, _copied(DeclaredOperands(operands), target, parameters)))


def _copied(operands: Matrices, target: Target, parameters: ProductParameters) -> Stmt:
    """Return the loops of a product that copy panels of the right operand."""
    count = panels_by_sevens(operands, target) if parameters.strassen else 0
    if not count or not _has_rows_for_copies(operands, target):
        return _plain(operands, target, parameters)
    return operands.declared(_CopiedFirst(operands, target, count).loops())


def _plain(operands: Matrices, target: Target, parameters: ProductParameters) -> Stmt:
    """Return the loops of `product`, and those of `last_columns` for a few remainder columns."""
    number = number_of_last(operands, target)
    if is_const(number, 0):
        return ProductWriter(operands, target, parameters).tasks()

    def behind(columns: PrimExpr, count: PrimExpr) -> Stmt:
        before = DeclaredOperands(operands, columns=columns)
        return block([
            ProductWriter(before, target, parameters).loops(int64(0)),
            LastColumns(operands, target, columns, count).loops(),
        ])  # fmt: skip

    return operands.declared(named("count", number, lambda count: named(
        "columns", simplify(operands.columns - count), lambda columns: behind(columns, count))))  # fmt: skip


def _has_rows_for_copies(operands: Matrices, target: Target) -> bool:
    rows, size = operands.rows, simplify(operands.columns * operands.depth * 4)
    if not isinstance(rows, IntImm) or not isinstance(size, IntImm):
        return False
    is_narrow = isinstance(operands.columns, IntImm) and operands.columns.value < LEAST_SHARED
    if target.num_cores > 1 and is_narrow and rows.value < LEAST_SHARED:
        return False
    return rows.value >= LEAST_ROWS * (1 if size.value <= target.machine.caches.l3 else 2)


def _by_sevens(operands: Matrices, target: Target, sevens: Callable[[Buffer], Stmt], worth: PrimExpr) -> Stmt:
    """Run Strassen's algorithm on its panels if `worth` holds, then compute all panels it left (or all if it did not
    run).
    """

    def body(done: Buffer) -> Stmt:
        fast = sevens(done)
        first = BufferLoad(done, (int64(0),))
        return block([
            BufferStore(done, int64(0), (int64(0),)),
            fast if is_const(worth) else IfThenElse(worth, fast),
            named("first", first, ProductWriter(operands, target).loops),
        ])  # fmt: skip

    return scratch("done", (1,), "int64", body)


class _CopiedFirst:
    """Product by Strassen's algorithm whose right operand is first copied into panels."""

    def __init__(self, operands: Matrices, target: Target, count: int) -> None:
        assert isinstance(operands.columns, IntImm)
        self.operands, self.target, self.count = operands, target, count
        self.writer = ProductWriter(operands, target)
        self.tile = self.writer.tile
        segments = panels(operands.columns.value, self.tile)
        self.width = sum(segment.number * segment.size for segment in segments) * self.tile.lanes
        """Columns of all panels."""

    def loops(self) -> Stmt:
        """Return the copies and the product."""
        dtype = str(self.operands.right.dtype)

        def body(copies: Buffer, greatest: Buffer, even: Buffer) -> Stmt:
            packed = BufferLoad(copies, (self.operands.column,))
            is_even = NE(BufferLoad(even, (int64(0),)), int64(0))
            beside = DeclaredOperands(self.operands, packed=packed)
            sevens = Sevens(beside, self.target, self.count).product
            return block([
                self.writer.copied_panels(packed, lambda part: self._greatest(part, greatest)),
                self._compared(greatest, even),
                _by_sevens(beside, self.target, sevens, is_even),
            ])  # fmt: skip

        size = simplify(self.operands.depth * self.width)
        return scratch("panels", (size,), dtype, lambda copies: scratch(
            "greatest", (self.width,), dtype, lambda greatest: scratch(
                "even", (1,), "int64", lambda even: body(copies, greatest, even))))  # fmt: skip

    def _greatest(self, part: BlockInMemory, greatest: Buffer) -> Stmt:
        """Compute the maximum magnitude of each column of a panel."""
        lanes, dtype = self.tile.lanes, str(greatest.dtype)

        def column(c: PrimExpr) -> Stmt:
            def taken(most: Buffer, k: PrimExpr) -> Stmt:
                element = absolute(vector_load(part.source, (k, c), lanes))
                return vector_store(most, (int64(0),), maximum(vector_load(most, (int64(0),), lanes), element))

            return alloc("most", (lanes,), dtype, "local", lambda most: block([
                vector_store(most, (int64(0),), spread(const(0, dtype), lanes)),
                loop("k", part.depth, lambda k: taken(most, k)),
                vector_store(
                    greatest, (simplify(part.panel.start + c),), vector_load(most, (int64(0),), lanes)),
            ]))  # fmt: skip

        return loop("v", part.panel.vectors, lambda v: column(v * lanes))

    def _compared(self, greatest: Buffer, even: Buffer) -> Stmt:
        """Set `even[0]` to 1 if the magnitudes of columns computed together are similar, else to 0."""
        lanes, columns, dtype = self.tile.lanes, self.tile.columns, str(greatest.dtype)
        nothing, one = (spread(const(number, dtype), lanes) for number in (0, 1))

        def compared(uneven: Buffer, first: PrimExpr) -> Stmt:
            a, b = (vector_load(greatest, (simplify(first + side * columns),), lanes) for side in (0, 1))
            factor = spread(const(EVEN, dtype), lanes)
            flags = Select(And(LE(a, b * factor), LE(b, a * factor)), nothing, one)
            return vector_store(uneven, (int64(0),), maximum(vector_load(uneven, (int64(0),), lanes), flags))

        def found(uneven: Buffer) -> Stmt:
            most = vector_reduce_max(vector_load(uneven, (int64(0),), lanes))
            return block([
                vector_store(uneven, (int64(0),), nothing),
                loop("pair", self.count // 2, lambda pair: loop("v", self.tile.vectors, lambda v: compared(
                    uneven, pair * (2 * columns) + v * lanes))),
                BufferStore(even, Select(most.equal(const(0, dtype)), int64(1), int64(0)), (int64(0),)),
            ])  # fmt: skip

        return alloc("uneven", (lanes,), dtype, "local", found)
