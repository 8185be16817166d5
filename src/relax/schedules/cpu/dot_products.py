"""Products of matrices of narrow numbers: bytes summed in int32, bfloat16 in float32, by dot products of words.

    for i, j, k in T.grid(M, N, K):          words of A: A4[i, k // 4] = A[i, k // 4 * 4 : … + 4]     (see `words`)
        with T.block("C"):                   words of B: B4[k // 4, j] = B[k // 4 * 4 : … + 4, j]
            with T.init():
                C[i, j] = 0                  for task in T.parallel(groups * panels):      64 columns, a group of rows
            C[i, j] += A[i, k] * B[k, j]         for io in …:                              rows, six at a time
                                                     acc = 0, or the corrections of B's columns     in registers
    for i, j in T.grid(M, N):                        for k in range(ceildiv(K, 4)):
        with T.block("D"):                               acc[p, :] = T.dot_u8s8(acc[p, :], A4[io * 6 + p, k], B4[k, :])
            D[i, j] = f(C[i, j])                     D[…] = f(acc)

A panel of words of B is read from the second-level cache, so that sums stay in registers over the whole depth. Words of
B that are known are made while compiling (`WordPanels`), others when the product runs. Those of A are not made where
its rows are words already: neighbouring numbers of the right dtype, a number of them that is known and fills words.

Machines without dot products of bytes multiply pairs of int16 (`T.dot_s16s16`), which the bytes become as words are
made. bfloat16 without its instruction is left to `product`.

Refused: other dtypes, products of bfloat16 with few rows whose right operand is not known (see `streamed_product`), and
what `operands` refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np

from ...prim import LT, IntImm, PrimExpr, Var, const, is_const, simplify
from ...prim.instructions import TILE_ROWS, TILE_WORDS, tile_dot
from ...prim.intrin import address_of, ceildiv, floordiv, floormod
from ...prim.intrin import min as minimum
from ...target import Target
from ...tir import Buffer, BufferLoad, BufferStore, DeclBuffer, Evaluate, ForKind, IfThenElse, PrimFunc, Stmt
from ...tir.buffer import decl_buffer
from ...tir.nests import Nest
from ..build import (
    alloc,
    block,
    digits,
    int64,
    let,
    loop,
    named,
    ramp,
    scratch,
    spread,
    vector_load,
    vector_store,
)
from ..contraction import Contraction, size_of
from ..rule import PackedFunction, ScheduleRule
from .operands import Operands, Results, Values, product_of_numbers, rewritten_products, tile_view
from .packed_panels import PanelPacking, packed_products
from .streamed_product import MOST_ROWS
from .tiling import Segment, Tile, blocks, groups, tile_for, with_panels
from .words import Words, bits_view, words_for

Array: TypeAlias = "np.ndarray[Any, Any]"

ROWS_OF_A_GROUP: Final = 24
"""The fewest rows of a task."""
LEAST_ROWS: Final = 4
"""With fewer rows than this, dot products of bytes are as fast as tiles."""
WORD: Final = 32
"""The bits of a word and of a sum."""


class DotProduct(ScheduleRule):
    """The rule for products of narrow numbers."""

    def apply(self, func: PrimFunc, target: Target, tunable: bool) -> PrimFunc | None:
        del tunable

        def write(operands: Operands) -> Stmt | None:
            words = _words_of(operands, target)
            if words is None or (words.sums == "float32" and _has_few_rows(operands)):
                return None
            return _Writer(operands, words, target).product()

        return rewritten_products(func, write, _narrow_product_of)

    def pack(self, func: PrimFunc, target: Target, constants: Sequence[int]) -> PackedFunction | None:
        def write(operands: Operands) -> Stmt | None:
            words = _words_of(operands, target)
            return None if words is None else _Writer(operands, words, target).product()

        def panels(operands: Operands, packing: PanelPacking) -> WordPanels | None:
            words = _words_of(operands, target)
            return None if words is None else WordPanels(packing, words)

        return packed_products(func, target, constants, write, _narrow_product_of, panels)


def _narrow_product_of(nest: Nest) -> Contraction | None:
    """The product of a nest, of numbers that are words on some machine."""
    product = product_of_numbers(nest)
    if product is None or product.sum_dtype not in ("int32", "float32"):
        return None
    narrow = product.lhs.dtype.bits < WORD and product.rhs.dtype.bits < WORD
    return product if narrow else None


def _words_of(operands: Operands, target: Target) -> Words | None:
    if target.machine.vector_bits < 128:
        return None
    dtypes = operands.left.dtype, operands.right.dtype, operands.total.dtype
    return words_for(target, *dtypes, in_tiles=_fills_tiles(operands))


def _fills_tiles(operands: Operands) -> bool:
    """True for products that are not known to leave most of a tile empty. Sums of floats need no rows: see `words_for`."""
    rows, depth = operands.rows, operands.depth
    if isinstance(depth, IntImm) and depth.value * operands.left.dtype.bits < WORD * TILE_WORDS // 2:
        return False
    least = LEAST_ROWS if operands.left.dtype.is_integer else 1
    return not isinstance(rows, IntImm) or rows.value >= least


def _has_few_rows(operands: Operands) -> bool:
    rows = operands.rows
    return isinstance(rows, IntImm) and rows.value <= MOST_ROWS and operands.right_is_contiguous


@dataclass(frozen=True)
class WordPanels:
    """The panels of known matrices one after the other, as words, with the corrections of their columns."""

    panels: PanelPacking
    words: Words
    dtype: str = "int32"

    def size(self, depth: int) -> int:
        """The words of a matrix of so many rows."""
        count = self.words.count(int64(depth))
        assert isinstance(count, IntImm)
        return (count.value + bool(self.words.correction)) * sum(self.panels.widths)

    def __call__(self, array: Array) -> Array:
        matrices = self.words.packed(self.panels.filled(array))
        return self.panels.in_panels(matrices)


@dataclass(frozen=True)
class _Panel:
    """Columns, for values of the batch: the first one, how many are in the matrix, and their vectors."""

    values: Values
    start: PrimExpr
    inside: PrimExpr | None
    """None: all."""
    vectors: int


class _Writer:
    """Writes the loops of one product."""

    def __init__(self, operands: Operands, words: Words, target: Target) -> None:
        self.operands, self.words, self.cores = operands, words, target.num_cores
        self.tile: Tile = tile_for(target, WORD)
        self.lanes = self.tile.lanes
        self.vector = f"{words.sums}x{self.lanes}" if self.lanes > 1 else words.sums
        self.rows, self.columns = operands.rows, operands.columns
        self.depth: PrimExpr = words.count(operands.depth)
        """The words of a row."""
        self.height = self.depth + 1 if words.correction else self.depth
        """The words of a column of a panel, with its correction."""
        self.is_exact = is_const(simplify(floormod(self.columns, self.lanes)), 0)
        self.height_of_tile = TILE_ROWS if words.in_tiles else self.tile.rows
        self.left, self.right = operands.left, operands.packed
        """Accesses of words: of the left operand by row and word, of the panels by column."""
        self.left_is_words = self._has_words_on_the_left()

    def _has_words_on_the_left(self) -> bool:
        """True if the rows of the left operand are words as they are."""
        left, group = self.operands.left, self.words.group
        fills = is_const(simplify(floormod(self.operands.depth, group * self.words.step)), 0)
        same = left.dtype.bits * group == WORD and not self.words.correction
        return fills and same and isinstance(self.operands.depth, IntImm) and left.indices[-1] is self.operands.k

    # ------------------------------------------------------------------ words

    def product(self) -> Stmt:
        """Words of the operands that have none, and the parallel loop over tasks."""

        def with_depth(depth: PrimExpr) -> Stmt:
            self.depth = depth
            self.height = simplify(depth + 1) if self.words.correction else depth
            return self._with_words()

        return self.operands.declared(named("words", self.depth, with_depth))

    def _with_words(self) -> Stmt:
        stmts: list[Stmt] = []

        def with_left() -> Stmt:
            if self.left_is_words:
                return with_right()
            axes = self._axes(self.operands.left, self.operands.k)
            shape = [*(size for _, size in axes), self.depth]

            def body(buffer: Buffer) -> Stmt:
                self.left = BufferLoad(buffer, (*(var for var, _ in axes), self.operands.k))
                stmts.append(self._left_words(axes))
                return with_right()

            return scratch("left_words", shape, "int32", body)

        def with_right() -> Stmt:
            if self.right is not None:
                return block([*stmts, self._tasks()])
            axes = self._axes(self.operands.right, self.operands.k, self.operands.column)
            columns = simplify(ceildiv(self.columns, self.tile.columns) * self.tile.columns)

            def body(buffer: Buffer) -> Stmt:
                self.right = BufferLoad(buffer, (*(var for var, _ in axes), self.operands.column))
                stmts.append(self._right_words(axes))
                return block([*stmts, self._tasks()])

            shape = [*(size for _, size in axes), simplify(columns * self.height)]
            return scratch("right_words", shape, "int32", body)

        return with_left()

    def _axes(self, access: BufferLoad, *but: Var) -> list[tuple[Var, PrimExpr]]:
        """The variables of an access, and their sizes, without some."""
        sizes = {id(v.var): size_of(v) for v in self.operands.batch}
        sizes[id(self.operands.row)] = self.rows
        return [
            (index, sizes[id(index)])
            for index in access.indices
            if isinstance(index, Var) and not any(index is var for var in but)
        ]

    def _left_words(self, axes: Sequence[tuple[Var, PrimExpr]]) -> Stmt:
        """Make the words of the left operand, row by row."""
        operands, words = self.operands, self.words
        lanes, group = self.lanes, words.group
        step = lanes * group
        contiguous = operands.left.indices[-1] is operands.k

        def row(parts: list[PrimExpr]) -> Stmt:
            at = dict(zip((var for var, _ in axes), parts, strict=True))
            source = tile_view(operands.left, at, ((operands.k, operands.depth),))
            target = tile_view(self.left, at, ((operands.k, self.depth),))
            bits = bits_view(source)
            whole = simplify(floordiv(operands.depth, step)) if contiguous else int64(0)

            def vectors(v: Var) -> Stmt:
                numbers = vector_load(bits, (v * step,), step)
                return vector_store(target, (v * lanes,), words.neighbours(numbers, True))

            def one(w: Var) -> Stmt:
                return let("at", whole * lanes + w, lambda at: BufferStore(target, words.word_below(
                    lambda k: BufferLoad(bits, (k,)), at * group, operands.depth, True), (at,)))  # fmt: skip

            stmts = [] if is_const(whole, 0) else [loop("v", whole, vectors)]
            rest = simplify(self.depth - whole * lanes)
            stmts += [] if is_const(rest, 0) else [loop("w", rest, one)]
            return _declared((source, bits, target), block(stmts))

        names = [var.name for var, _ in axes]
        sizes = [size for _, size in axes]
        return loop("row", _product(sizes), lambda flat: digits(flat, names, sizes, row), ForKind.PARALLEL)

    def _right_words(self, axes: Sequence[tuple[Var, PrimExpr]]) -> Stmt:
        """Make the words of the right operand, panel by panel."""

        def panels(segments: list[Segment], count: PrimExpr) -> Stmt:
            sizes = [*(size for _, size in axes), count]
            names = [*(var.name for var, _ in axes), "jo"]

            def task(parts: list[PrimExpr]) -> Stmt:
                values = dict(zip((var for var, _ in axes), parts[:-1], strict=True))
                return self._of_segments(segments, values, parts[-1], self._panel_of_words)

            return loop("panel", _product(sizes), lambda flat: digits(flat, names, sizes, task), ForKind.PARALLEL)

        return with_panels(self.columns, self.tile, panels)

    def _panel_of_words(self, panel: _Panel) -> Stmt:
        operands, words, lanes = self.operands, self.words, self.lanes
        group, width = words.group, panel.vectors * lanes
        inside = int64(width) if panel.inside is None else panel.inside
        at = {**panel.values, operands.column: panel.start}
        source = tile_view(operands.right, at, ((operands.k, operands.depth), (operands.column, inside)))
        bits, target = bits_view(source), self._panel_view(panel)
        whole = simplify(floordiv(operands.depth, group))
        contiguous = operands.right_is_contiguous

        def word(w: PrimExpr, c: PrimExpr, count: int, is_whole: bool) -> PrimExpr:
            """The words of some columns."""

            def number(k: PrimExpr) -> PrimExpr:
                return vector_load(bits, (k, c), count)

            if not is_whole:
                return words.word_below(number, w * group, operands.depth, False)
            return words.word([number(w * group + g) for g in range(group)], False)

        def line(w: PrimExpr, is_whole: bool) -> Stmt:
            def columns(c: PrimExpr) -> Stmt:
                def one(x: Var) -> Stmt:
                    stored = BufferStore(target, word(w, c + x, 1, is_whole), (w, c + x))
                    if panel.inside is None:
                        return stored
                    zero = BufferStore(target, const(0, "int32"), (w, c + x))
                    return IfThenElse(LT(c + x, inside), stored, zero)

                single = loop("x", lanes, one)
                if not contiguous or not is_whole:
                    return single
                together = vector_store(target, (w, c), word(w, c, lanes, True))
                return together if panel.inside is None else IfThenElse(c + lanes <= inside, together, single)

            return loop("v", panel.vectors, lambda v: columns(v * lanes))

        stmts = [loop("w", whole, lambda w: line(w, True))]
        tail = simplify(self.depth - whole)
        if not is_const(tail, 0):
            stmts.append(loop("w", tail, lambda w: line(simplify(whole + w), False)))
        if words.correction:
            stmts.append(loop("v", panel.vectors, lambda v: self._correction(target, v * lanes)))
        return _declared((source, bits, target), block(stmts))

    def _correction(self, panel: Buffer, c: PrimExpr) -> Stmt:
        """Put the corrections of some columns of a panel below them."""
        lanes = self.lanes

        def total(sums: Buffer) -> Stmt:
            def add(w: Var) -> Stmt:
                right = vector_load(panel, (w, c), lanes)
                return vector_store(sums, (0,), self.words.corrected(right, vector_load(sums, (0,), lanes)))

            scale = spread(self.words.scale_of_correction(), lanes)
            return block([
                vector_store(sums, (0,), spread(const(0, "int32"), lanes)),
                loop("w", self.depth, add),
                vector_store(panel, (self.depth, c), vector_load(sums, (0,), lanes) * scale),
            ])  # fmt: skip

        return alloc("sums", (lanes,), "int32", "local", total)

    def _panel_view(self, panel: _Panel) -> Buffer:
        """The words of a panel, word by column."""
        assert self.right is not None
        column, width = self.operands.column, int64(panel.vectors * self.lanes)
        at = {**panel.values, column: simplify(panel.start * self.height)}
        view = tile_view(self.right, at, ((column, self.height * width),))
        return decl_buffer(
            (self.height, width), "int32", "panel", data=view.data, elem_offset=view.elem_offset
        )

    # ------------------------------------------------------------------ tasks

    def _tasks(self) -> Stmt:
        """The parallel loop over the batch, groups of rows, and panels of columns."""
        batch = [size_of(v) for v in self.operands.batch]
        names = [*(v.var.name for v in self.operands.batch), "go", "jo"]
        tiles = simplify(ceildiv(self.rows, self.height_of_tile))

        def counted(segments: list[Segment], count: PrimExpr) -> Stmt:
            least = max(ROWS_OF_A_GROUP // self.height_of_tile, 1)
            number = groups(tiles, _product([*batch, count]), least, self.cores)
            return named("groups", number, lambda number: parallel(segments, [*batch, number, count]))

        def parallel(segments: list[Segment], sizes: list[PrimExpr]) -> Stmt:
            def task(parts: list[PrimExpr]) -> Stmt:
                values = dict(zip((v.var for v in self.operands.batch), parts[:-2], strict=True))

                def rows(panel: _Panel) -> Stmt:
                    view = self._panel_view(panel)
                    return DeclBuffer(view, self._group(panel, view, parts[-2], sizes[-2]))

                return self._of_segments(segments, values, parts[-1], rows)

            return loop("task", _product(sizes), lambda flat: digits(flat, names, sizes, task), ForKind.PARALLEL)

        return with_panels(self.columns, self.tile, counted)

    def _of_segments(
        self, segments: list[Segment], values: Values, jo: PrimExpr, body: Callable[[_Panel], Stmt]
    ) -> Stmt:
        """`body` of a panel by its number."""
        if not segments:
            return block([])
        first, *rest = segments
        result = self._panel(values, first, jo, body)
        for segment in rest:
            other = self._panel(values, segment, jo - first.count, body)
            result = IfThenElse(LT(jo, first.count), result, other)
        return result

    def _panel(self, values: Values, segment: Segment, jo: PrimExpr, body: Callable[[_Panel], Stmt]) -> Stmt:
        width = segment.size * self.lanes
        start = simplify((segment.start + jo * segment.size) * self.lanes)
        if self.is_exact:
            return body(_Panel(values, start, None, segment.size))
        inside = simplify(minimum(int64(width), self.columns - start))
        return named("inside", inside, lambda number: body(_Panel(values, start, number, segment.size)))

    def _group(self, panel: _Panel, view: Buffer, go: PrimExpr, number: PrimExpr) -> Stmt:
        """The tiles of a group of rows."""
        if self.words.in_tiles:
            return self._wide_tiles(panel, view, go, number)
        if isinstance(self.rows, IntImm) and is_const(number, 1):
            return block(
                loop("io", piece.count, lambda io, piece=piece: self._tile(
                    panel, view, simplify(piece.start + io * piece.size), piece.size))
                for piece in blocks(self.rows.value, self.tile)
            )  # fmt: skip
        height = self.tile.rows
        whole = simplify(floordiv(self.rows, height))
        share = simplify(floordiv(whole + (number - 1), number))
        left = simplify(self.rows - whole * height)

        def tiles(begin: PrimExpr, end: PrimExpr) -> Stmt:
            full = loop("io", simplify(end - begin), lambda io: self._tile(
                panel, view, simplify((begin + io) * height), height))  # fmt: skip
            if is_const(left, 0):
                return full
            behind = self._tail(panel, view, simplify(whole * height), left)
            return block([full, behind if is_const(number, 1) else IfThenElse(go.equal(number - 1), behind)])

        if is_const(number, 1):
            return tiles(int64(0), whole)
        return let("share", share, lambda share: let("begin", minimum(go * share, whole), lambda begin: let(
            "end", minimum(begin + share, whole), lambda end: tiles(begin, end))))  # fmt: skip

    def _tail(self, panel: _Panel, view: Buffer, first: PrimExpr, left: PrimExpr) -> Stmt:
        """The rows behind the whole tiles: for each bit of an unknown number a tile."""
        if isinstance(left, IntImm):
            return self._tile(panel, view, first, left.value)
        stmts: list[Stmt] = []
        for height in (4, 2, 1):
            rest = left if height == 4 else floormod(left, 2 * height)
            stmts.append(IfThenElse(rest >= height, self._tile(panel, view, first, height)))
            first = first + floordiv(rest, height) * height
        return block(stmts)

    # ------------------------------------------------------------------ tiles of the machine

    def _wide_tiles(self, panel: _Panel, view: Buffer, go: PrimExpr, number: PrimExpr) -> Stmt:
        """The rows of a group, as many at a time as the machine's tiles have."""
        total = simplify(ceildiv(self.rows, TILE_ROWS))

        def tiles(begin: PrimExpr, end: PrimExpr) -> Stmt:
            def tile(io: Var) -> Stmt:
                first = simplify((begin + io) * TILE_ROWS)
                count = simplify(minimum(int64(TILE_ROWS), self.rows - first))
                return let("first", first, lambda first: named(
                    "count", count, lambda count: self._wide_tile(panel, view, first, count)))  # fmt: skip

            return loop("io", simplify(end - begin), tile)

        if is_const(number, 1):
            return tiles(int64(0), total)
        share = floordiv(total + (number - 1), number)
        return let("share", share, lambda share: let("begin", minimum(go * share, total), lambda begin: let(
            "end", minimum(begin + share, total), lambda end: tiles(begin, end))))  # fmt: skip

    def _wide_tile(self, panel: _Panel, view: Buffer, first: PrimExpr, count: PrimExpr) -> Stmt:
        """The sums of some rows and the columns of a panel, and what is made of them."""
        operands, width, words = self.operands, panel.vectors * self.lanes, self.words
        at = {**panel.values, operands.row: first}
        depth = operands.depth if self.left_is_words else self.depth
        left = tile_view(self.left, at, ((operands.row, count), (operands.k, depth)))
        bits = bits_view(left)
        distance = simplify(floordiv(left.strides[0], words.group)) if self.left_is_words else left.strides[0]
        zero = spread(const(0, words.sums), self.lanes)
        steps = simplify(floordiv(self.depth, TILE_WORDS))

        def sums(buffer: Buffer) -> Stmt:
            def multiplied(start: int) -> Stmt:
                return Evaluate(tile_dot(
                    words.kind, _address(buffer, 0, start), width, _address(bits, 0, 0), distance,
                    _address(view, 0, start), width, count, min(TILE_ROWS, width - start), steps,
                ))  # fmt: skip

            cleared = loop("r", count, lambda r: self._each_vector(
                panel, lambda c: vector_store(buffer, (r, c), zero)))  # fmt: skip
            added = block(multiplied(start) for start in range(0, width, TILE_ROWS))
            product = added if is_const(steps, 0) else IfThenElse(steps > 0, _declared((left, bits), added))
            return block([cleared, product, self._finished(panel, buffer, first, count)])

        return scratch("sums", (TILE_ROWS, width), words.sums, sums)

    def _finished(self, panel: _Panel, sums: Buffer, first: PrimExpr, count: PrimExpr) -> Stmt:
        """Store what is made of the sums of some rows, in the columns that are in the matrix."""
        result = self._results_of(panel, first, count)

        def vector(r: Var, c: PrimExpr) -> Stmt:
            if result.is_sum:
                value = vector_load(sums, (r, c), self.lanes)
                return vector_store(result.out, result.place(r, c), value, self._mask(panel, c))
            return self._made(result, panel, sums, r, c)

        return result.declared(loop("r", count, lambda r: loop(
            "v", panel.vectors, lambda v: vector(r, v * self.lanes))))  # fmt: skip

    # ------------------------------------------------------------------ tiles of registers

    def _tile(self, panel: _Panel, view: Buffer, first: PrimExpr, height: int) -> Stmt:
        """The sums of some rows and the columns of a panel, and what is made of them."""
        operands, width = self.operands, panel.vectors * self.lanes
        depth = operands.depth if self.left_is_words else self.depth
        at = {**panel.values, operands.row: first}
        left = tile_view(self.left, at, ((operands.row, int64(height)), (operands.k, depth)))
        bits = bits_view(left)

        def each(body: Callable[[Var, PrimExpr], Stmt]) -> Stmt:
            return loop("p", height, lambda p: self._each_vector(
                panel, lambda c: body(p, c)), ForKind.UNROLLED)  # fmt: skip

        def first_sum(p: Var, c: PrimExpr) -> PrimExpr:
            if self.words.correction:
                return vector_load(view, (self.depth, c), self.lanes)
            return spread(const(0, self.words.sums), self.lanes)

        def sums(acc: Buffer) -> Stmt:
            steps = alloc("right", (width,), "int32", "local", lambda right: loop(
                "w", self.depth, lambda w: self._step(panel, view, acc, bits, right, w, height)))  # fmt: skip
            cleared = each(lambda p, c: vector_store(acc, (p, c), first_sum(p, c)))
            return block([cleared, _declared((left, bits), steps), self._results(panel, acc, first, height)])

        return alloc("acc", (height, width), self.words.sums, "local", sums)

    def _each_vector(self, panel: _Panel, body: Callable[[PrimExpr], Stmt]) -> Stmt:
        return loop("v", panel.vectors, lambda v: body(v * self.lanes), ForKind.UNROLLED)

    def _step(
        self, panel: _Panel, view: Buffer, acc: Buffer, left: Buffer, right: Buffer, w: Var, height: int
    ) -> Stmt:
        """Add the products of one word of each row."""
        lanes, group = self.lanes, self.words.group

        def word(p: Var) -> PrimExpr:
            if not self.left_is_words:
                return BufferLoad(left, (p, w))
            return self.words.neighbours(vector_load(left, (p, w * group), group), True)

        def row(p: Var) -> Stmt:
            def update(a: Var, c: PrimExpr) -> Stmt:
                total, b = vector_load(acc, (p, c), lanes), vector_load(right, (c,), lanes)
                return vector_store(acc, (p, c), self.words.add(total, a, b))

            return let("a", spread(word(p), lanes), lambda a: self._each_vector(panel, lambda c: update(a, c)))

        rights = self._each_vector(
            panel, lambda c: vector_store(right, (c,), vector_load(view, (w, c), lanes))
        )
        return block([rights, loop("p", height, row, ForKind.UNROLLED)])

    # ------------------------------------------------------------------ results

    def _results(self, panel: _Panel, acc: Buffer, first: PrimExpr, height: int) -> Stmt:
        """Store what is made of the sums of a tile, in the columns that are in the matrix."""
        lanes, width = self.lanes, panel.vectors * self.lanes
        result = self._results_of(panel, first, int64(height))

        def each(body: Callable[[Var, PrimExpr], Stmt], kind: ForKind) -> Stmt:
            return loop("p", height, lambda p: loop(
                "v", panel.vectors, lambda v: body(p, v * lanes), kind), kind)  # fmt: skip

        if result.is_sum:
            return result.declared(each(lambda p, c: vector_store(
                result.out, result.place(p, c), vector_load(acc, (p, c), lanes), self._mask(panel, c),
            ), ForKind.UNROLLED))  # fmt: skip

        def made(sums: Buffer) -> Stmt:
            copied = each(
                lambda p, c: vector_store(sums, (p, c), vector_load(acc, (p, c), lanes)), ForKind.UNROLLED
            )
            return block([copied, each(lambda p, c: self._made(result, panel, sums, p, c), ForKind.SERIAL)])

        return result.declared(scratch("sums", (height, width), self.words.sums, made))

    def _results_of(self, panel: _Panel, first: PrimExpr, height: PrimExpr) -> Results:
        width = int64(panel.vectors * self.lanes)
        at = {**panel.values, self.operands.row: first, self.operands.column: panel.start}
        return Results(self.operands, at, height, width if panel.inside is None else panel.inside)

    def _mask(self, panel: _Panel, c: PrimExpr) -> PrimExpr | None:
        """The lanes of a vector that are in the matrix."""
        if panel.inside is None:
            return None
        return LT(ramp(c, self.lanes), spread(panel.inside, self.lanes))

    def _made(self, result: Results, panel: _Panel, sums: Buffer, r: PrimExpr, c: PrimExpr) -> Stmt:
        """Store what is made of a vector of sums."""

        def lane(x: Var) -> Stmt:
            stored = result.made(r, c + x, BufferLoad(sums, (r, c + x)))
            return stored if panel.inside is None else IfThenElse(c + x < panel.inside, stored)

        return loop("x", self.lanes, lane, ForKind.VECTORIZED)


def _address(buffer: Buffer, row: int, column: int) -> PrimExpr:
    return address_of(BufferLoad(buffer, (int64(row), int64(column))))


def _declared(views: Sequence[Buffer], body: Stmt) -> Stmt:
    """A statement with views around it, each once."""
    for view in reversed(list(dict.fromkeys(views))):
        body = DeclBuffer(view, body)
    return body


def _product(sizes: Sequence[PrimExpr]) -> PrimExpr:
    total: PrimExpr = int64(1)
    for size in sizes:
        total = total * size
    return simplify(total)


__all__ = ["DotProduct", "WordPanels"]
