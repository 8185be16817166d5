"""Register tiles of `block_product`: sums of blocks in registers, from packed numbers or from bytes in the near cache."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from ....prim import IntImm, PrimExpr, Var, const, is_const, simplify
from ....prim.instructions import dot, vector_reduce_add
from ....prim.intrin import bitwise_and, bitwise_or, floordiv, reinterpret, shift_left, shift_right
from ....prim.intrin import min as minimum
from ....runtime.records import dataclass
from ....target import Target
from ....tir import Buffer, BufferLoad, BufferStore, DeclBuffer, ForKind, IfThenElse, LetStmt, Stmt
from ....topi.packed_blocks import CHUNK, PackedBlocks
from ...build import alloc, apart, block, int64, loop, scratch, spread, vector_load, vector_store
from .column_panels import ColumnPanel, mask_of
from .operands import Results

VECTORS_OF_CHUNK: Final = CHUNK // 4
"""Vectors of bytes of 32 numbers."""
ONES: Final = 0x01010101
"""Four bytes with the lowest bit."""
SEVENS: Final = 0x7F7F7F7F
"""Four bytes with the lowest seven bits."""


def tile_shapes(target: Target) -> list[tuple[int, int]]:
    """Return rows and vectors of tiles, the best first: their integer and float sums, a row of vectors, and two more
    vectors fit the registers.
    """
    registers = target.machine.vector_registers
    shapes = [(r, v) for r in range(1, 7) for v in range(1, 5) if 2 * r * v + v + 2 <= registers]
    return sorted(shapes, key=lambda shape: (-shape[0] * shape[1], abs(shape[0] - shape[1] - 1)))


class Names:
    """Values bound to names, in order, around a statement."""

    def __init__(self) -> None:
        self.held: list[tuple[Var, PrimExpr]] = []

    def of(self, name: str, value: PrimExpr) -> PrimExpr:
        """Bind a value; return its name."""
        var = Var(name, value.dtype)
        self.held.append((var, value))
        return var

    def around(self, body: Stmt) -> Stmt:
        """Return the statement in which the names are bound."""
        for var, value in reversed(self.held):
            body = LetStmt(var, value, body)
        return body


@dataclass(frozen=True)
class Tables:
    """What products read of the activations, beside their bytes."""

    x: Buffer
    """int8, (rows, depth)."""
    packed: PackedBlocks
    scales: Buffer
    """float32, (rows, blocks)."""
    starts: Buffer | None
    """int32, (rows, groups): what the sum of a group begins with, -zero · Σ x; None for zero 0."""
    sums: Buffer | None
    """Sums of groups for the minima: int32 for minima with steps, else float32, times the scale."""

    def filled(self) -> Stmt:
        """Return the loops that fill the tables of sums."""
        packed = self.packed
        group, groups = min(packed.format.group, CHUNK), packed.format.elements // min(packed.format.group, CHUNK)
        rows, blocks = self.scales.shape
        if self.starts is None and self.sums is None:
            return block([])

        def of_group(r: Var, b: Var, g: int) -> list[Stmt]:
            place = simplify(b * packed.format.elements + g * group)
            words = reinterpret(f"int32x{group // 4}", vector_load(self.x, (r, place), group))
            one, zero = (spread(const(value, "int32"), group // 4) for value in (ONES, 0))
            names = Names()
            total = names.of("total", vector_reduce_add(dot("u7s8", zero, one, words)))
            index = (r, simplify(b * groups + g))
            stmts: list[Stmt] = []
            if self.starts is not None:
                stmts.append(BufferStore(self.starts, total * -packed.zero, index))
            if self.sums is not None:
                scaled = total.astype("float32") * BufferLoad(self.scales, (r, b))
                stmts.append(BufferStore(self.sums, total if self.sums.dtype == "int32" else scaled, index))
            return [names.around(block(stmts))]

        def row(r: Var) -> Stmt:
            return loop("b", blocks, lambda b: block(stmt for g in range(groups) for stmt in of_group(r, b, g)))

        few = isinstance(rows, IntImm) and rows.value <= CHUNK
        return loop("r", rows, row, ForKind.SERIAL if few else ForKind.PARALLEL)


@dataclass(frozen=True)
class Sums:
    """Float sums of a tile: (rows, width), in registers."""

    acc: Buffer
    rows: int
    lanes: int

    def stored(self, result: Results, panel: ColumnPanel) -> Stmt:
        """Return the stores of the results that the sums become."""
        places = [(int64(p), int64(v * self.lanes)) for p in range(self.rows) for v in range(panel.vectors)]
        if result.is_sum:
            return block(
                vector_store(result.out, result.place(p, c), vector_load(self.acc, (p, c), self.lanes),
                             mask_of(panel, c, self.lanes))
                for p, c in places
            )  # fmt: skip

        def made(sums: Buffer) -> Stmt:
            copied = block(vector_store(sums, (p, c), vector_load(self.acc, (p, c), self.lanes)) for p, c in places)
            # A separate function: the epilogue's constants would displace the next tile's sums.
            results = apart("p", self.rows, lambda p: loop(
                "v", panel.vectors, lambda v: self._made(result, panel, sums, p, v * self.lanes)))  # fmt: skip
            return block([copied, results])

        return scratch("sums", (self.rows, panel.vectors * self.lanes), "float32", made)

    def _made(self, result: Results, panel: ColumnPanel, sums: Buffer, r: PrimExpr, c: PrimExpr) -> Stmt:
        def lane(x: Var) -> Stmt:
            stored = result.made(r, c + x, BufferLoad(sums, (r, c + x)))
            return stored if panel.inside is None else IfThenElse(c + x < panel.inside, stored)

        return loop("x", self.lanes, lane, ForKind.VECTORIZED)


@dataclass(frozen=True)
class Bytes:
    """Some panels with numbers as bytes, four in a lane, and the scales of groups as floats."""

    words: Buffer
    """int32, (depth / 4, width)."""
    scales: Buffer
    """float32, (groups, width)."""
    minima: Buffer | None
    """float32, (groups, width), with the sign with which they are added."""
    vectors: int


class BlockTiles:
    """Writes tiles of products with weights of one packed format."""

    def __init__(self, packed: PackedBlocks, target: Target) -> None:
        self.packed, self.lanes = packed, packed.lanes
        self.group = min(packed.format.group, CHUNK)
        """Numbers that are summed as integers in one step of a tile."""
        self.groups = packed.format.elements // self.group
        self.dots = target.machine.dot_products
        minimum = packed.format.minimum
        self.has_minimum = minimum is not None
        self.has_minimum_steps = minimum is not None and minimum.steps is not None

    def added(self, total: PrimExpr, numbers: PrimExpr, x: PrimExpr) -> PrimExpr:
        """Add the products of four numbers in each lane and of four activations to a sum."""
        if self.packed.bits < 8:
            return dot("u7s8", total, numbers, x)
        if self.packed.signed:
            return dot("s8s8", total, numbers, x)
        if "u8s8" in self.dots or "u7s8" not in self.dots:
            return dot("u8s8", total, numbers, x)
        # A byte is twice its upper 7 bits and the lowest one.
        lanes = numbers.dtype.lanes
        ones, sevens = (spread(const(bits, "int32"), lanes) for bits in (ONES, SEVENS))
        one = spread(const(1, "int32"), lanes)
        upper = dot("u7s8", spread(const(0, "int32"), lanes), bitwise_and(shift_right(numbers, one), sevens), x)
        return dot("u7s8", total, bitwise_and(numbers, ones), x) + shift_left(upper, one)

    # ------------------------------------------------------------------------------------ tables

    def with_tables(self, x: Buffer, scales: Buffer, body: Callable[[Tables], Stmt]) -> Stmt:
        """Call `body` with the tables of the activations, not yet filled."""
        rows, blocks = scales.shape
        shape = (rows, simplify(blocks * self.groups))

        def with_starts(starts: Buffer | None) -> Stmt:
            def with_sums(sums: Buffer | None) -> Stmt:
                return body(Tables(x, self.packed, scales, starts, sums))

            if not self.has_minimum:
                return with_sums(None)
            return scratch("x_sums", shape, "int32" if self.has_minimum_steps else "float32", with_sums)

        return scratch("x_starts", shape, "int32", with_starts) if self.packed.zero else with_starts(None)

    # ------------------------------------------------------------------------------------ packed numbers

    def _word(self, weights: Buffer, panel: PrimExpr, unit: PrimExpr, word: Any) -> PrimExpr:
        return vector_load(weights, (panel, simplify(unit + word)), self.lanes)

    def numbers(
        self, names: Names, weights: Buffer, panel: PrimExpr, unit: PrimExpr, chunk: PrimExpr | int
    ) -> list[PrimExpr]:
        """Bind the 8 vectors of bytes of 32 numbers."""
        packed, lanes = self.packed, self.lanes
        start = simplify(int64(packed.first_number) + int64(chunk) * packed.chunk)

        def mask(bits: int) -> PrimExpr:
            return spread(const(bits, "int32"), lanes)

        def shifted(word: PrimExpr, by: int) -> PrimExpr:
            """Shift to the left, or to the right by a negative number."""
            if not by:
                return word
            amount = spread(const(abs(by), "int32"), lanes)
            return shift_left(word, amount) if by > 0 else shift_right(word, amount)

        held = [
            names.of(f"w{v}", self._word(weights, panel, unit, start + v * lanes)) for v in range(packed.bits)
        ]
        if packed.bits == 8:
            return held
        low = mask(0x0F0F0F0F)
        result: list[PrimExpr] = []
        for v in range(VECTORS_OF_CHUNK):
            number = bitwise_and(shifted(held[v % 4], -4 * (v // 4)), low)
            if packed.bits == 5:
                number = bitwise_or(number, bitwise_and(shifted(held[4], 4 - v), mask(0x10101010)))
            elif packed.bits == 6:
                number = bitwise_or(number, bitwise_and(shifted(held[4 + v // 4], 4 - 2 * (v % 4)), mask(0x30303030)))
            result.append(names.of(f"n{v}", number))
        return result

    def _floats(self, weights: Buffer, panel: PrimExpr, unit: PrimExpr, start: int) -> PrimExpr:
        """Vector of scales or minima, float32."""
        words = self.packed.float_words
        held = vector_load(weights, (panel, simplify(unit + start)), words)
        if words == self.lanes:
            return reinterpret(f"float32x{self.lanes}", held)
        return reinterpret(f"float16x{self.lanes}", held).astype(f"float32x{self.lanes}")

    def _steps(self, weights: Buffer, panel: PrimExpr, unit: PrimExpr, start: int, g: PrimExpr | int) -> PrimExpr:
        """Vector of the steps of a group, int32."""
        count = self.lanes // 4
        held = vector_load(weights, (panel, simplify(unit + (int64(g) * count + start))), count)
        return reinterpret(f"int8x{self.lanes}", held).astype(f"int32x{self.lanes}")

    # ------------------------------------------------------------------------------------ activations

    def _x(self, tables: Tables, r: PrimExpr, place: PrimExpr) -> PrimExpr:
        """Four bytes of a row, in every lane."""
        word = reinterpret("int32", vector_load(tables.x, (r, simplify(place)), 4))
        return spread(word, self.lanes)

    def _start(self, tables: Tables, r: PrimExpr, g: PrimExpr) -> PrimExpr:
        """What the sum of a group begins with."""
        if tables.starts is None:
            return spread(const(0, "int32"), self.lanes)
        return spread(BufferLoad(tables.starts, (r, simplify(g))), self.lanes)

    def _wide(self, value: PrimExpr) -> PrimExpr:
        return spread(value, self.lanes)

    def _float(self, value: PrimExpr) -> PrimExpr:
        return value.astype(f"float32x{self.lanes}")

    # ------------------------------------------------------------------------------------ few rows

    def streamed(
        self, tables: Tables, weights: Buffer, panel: PrimExpr, rows: int, body: Callable[[Sums], Stmt]
    ) -> Stmt:
        """Sum the products of a panel for the first `rows` rows, and call `body` with the sums."""
        blocks = self.blocks_of(tables)
        chunks = self.packed.format.elements // CHUNK

        def summed(acc: Buffer, totals: Buffer | None, least: Buffer | None) -> Stmt:
            def unit(b: Var) -> Stmt:
                start = simplify(b * self.packed.unit)

                def chunk(c: PrimExpr | int) -> Stmt:
                    return self._chunk(tables, weights, panel, start, b, c, rows, (acc, totals, least))

                if chunks == 1:
                    return chunk(0)
                cleared = block(
                    vector_store(held, (r, 0), self._wide(const(0, "int32")))
                    for held in (totals, least) if held is not None for r in range(rows)
                )  # fmt: skip
                return block([cleared, loop("c", chunks, chunk), self._scaled(
                    tables, weights, panel, start, b, rows, (acc, totals, least))])  # fmt: skip

            cleared = block(vector_store(acc, (r, 0), self._wide(const(0.0, "float32"))) for r in range(rows))
            return block([cleared, loop("b", blocks, unit), body(Sums(acc, rows, self.lanes))])

        def with_totals(acc: Buffer) -> Stmt:
            if chunks == 1:
                return summed(acc, None, None)
            shape = (rows, self.lanes)
            if not self.has_minimum_steps:
                return alloc("totals", shape, "int32", "local", lambda totals: summed(acc, totals, None))
            return alloc("totals", shape, "int32", "local", lambda totals: alloc(
                "least", shape, "int32", "local", lambda least: summed(acc, totals, least)))  # fmt: skip

        return alloc("acc", (rows, self.lanes), "float32", "local", with_totals)

    def blocks_of(self, tables: Tables) -> int:
        """Blocks of a row."""
        size = tables.scales.shape[-1]
        assert isinstance(size, IntImm)
        return size.value

    def _chunk(
        self, tables: Tables, weights: Buffer, panel: PrimExpr, unit: PrimExpr, b: Var, c: PrimExpr | int, rows: int,
        held: tuple[Buffer, Buffer | None, Buffer | None],
    ) -> Stmt:  # fmt: skip
        """Add the products of 32 numbers of each row to the sums."""
        packed, (acc, totals, least) = self.packed, held
        names = Names()
        numbers = self.numbers(names, weights, panel, unit, c)
        groups = CHUNK // self.group
        first = simplify(b * self.groups + int64(c) * groups)
        place = simplify(b * packed.format.elements + int64(c) * CHUNK)
        stmts: list[Stmt] = []
        has_steps = packed.format.scale.steps is not None

        def step_of(name: str, start: int, g: int) -> PrimExpr:
            group = simplify(floordiv(int64(c) * CHUNK + g * self.group, packed.format.group))
            return names.of(f"{name}{g}", self._steps(weights, panel, unit, start, group))

        steps = [step_of("step", packed.steps, g) if has_steps else None for g in range(groups)]
        with_minima = range(groups if self.has_minimum_steps else 0)
        minima = [step_of("minimum", packed.minimum_steps, g) for g in with_minima]
        scale = minimum = None
        if totals is None:
            scale = names.of("scale", self._floats(weights, panel, unit, 0))
            if self.has_minimum:
                minimum = names.of("minimum", self._floats(weights, panel, unit, packed.float_words))
        for r in range(rows):
            row = int64(r)
            sums: list[PrimExpr] = []
            for g in range(groups):
                total = self._start(tables, row, first + g)
                for v in range(g * self.group // 4, (g + 1) * self.group // 4):
                    total = self.added(total, numbers[v], self._x(tables, row, place + 4 * v))
                step = steps[g]
                sums.append(total if step is None else total * step)
            whole = sums[0]
            for part in sums[1:]:
                whole = whole + part
            if totals is None:
                assert scale is not None
                factor = scale * self._wide(BufferLoad(tables.scales, (row, b)))
                value = vector_load(acc, (r, 0), self.lanes) + self._float(whole) * factor
                if minima and minimum is not None:
                    taken = self._taken(tables, minima, row, first)
                    value = value - self._float(taken) * (minimum * self._wide(BufferLoad(tables.scales, (row, b))))
                elif minimum is not None and tables.sums is not None:
                    value = value + minimum * self._wide(BufferLoad(tables.sums, (row, b)))
                stmts.append(vector_store(acc, (r, 0), value))
                continue
            stmts.append(vector_store(totals, (r, 0), vector_load(totals, (r, 0), self.lanes) + whole))
            if least is not None:
                taken = vector_load(least, (r, 0), self.lanes) + self._taken(tables, minima, row, first)
                stmts.append(vector_store(least, (r, 0), taken))
        return names.around(block(stmts))

    def _taken(self, tables: Tables, minima: list[PrimExpr], row: PrimExpr, first: PrimExpr) -> PrimExpr:
        """Sums of the groups of x from `first` on, times the steps of their minima."""
        assert tables.sums is not None
        total: PrimExpr | None = None
        for g, step in enumerate(minima):
            part = step * self._wide(BufferLoad(tables.sums, (row, simplify(first + g))))
            total = part if total is None else total + part
        assert total is not None
        return total

    def _scaled(
        self, tables: Tables, weights: Buffer, panel: PrimExpr, unit: PrimExpr, b: Var, rows: int,
        held: tuple[Buffer, Buffer | None, Buffer | None],
    ) -> Stmt:  # fmt: skip
        """Add the integer sums of a block of several groups, times its scales, to the float sums."""
        acc, totals, least = held
        assert totals is not None
        names = Names()
        scale = names.of("scale", self._floats(weights, panel, unit, 0))
        minimum = None if least is None else names.of("minimum", self._floats(weights, panel, unit, self.packed.float_words))
        stmts: list[Stmt] = []
        for r in range(rows):
            of_x = self._wide(BufferLoad(tables.scales, (int64(r), b)))
            value = vector_load(acc, (r, 0), self.lanes)
            value = value + self._float(vector_load(totals, (r, 0), self.lanes)) * (scale * of_x)
            if minimum is not None and least is not None:
                value = value - self._float(vector_load(least, (r, 0), self.lanes)) * (minimum * of_x)
            stmts.append(vector_store(acc, (r, 0), value))
        return names.around(block(stmts))

    # ------------------------------------------------------------------------------------ many rows

    def unpacked(
        self, weights: Buffer, first: PrimExpr, vectors: int, blocks: int, panels: int, body: Callable[[Bytes], Stmt]
    ) -> Stmt:
        """Call `body` with panels `first` … whose numbers have become bytes; those past the last are the last."""
        packed, lanes, width = self.packed, self.lanes, vectors * self.lanes
        elements = packed.format.elements
        depth = blocks * elements

        def filled(held: Bytes) -> Stmt:
            def panel(v: int) -> Stmt:
                number = simplify(first + v)
                if panels % vectors:
                    number = simplify(minimum(number, int64(panels - 1)))
                return loop("b", blocks, lambda b: self._unpacked_unit(held, weights, number, b, v))

            return block([*(panel(v) for v in range(vectors)), body(held)])

        def with_scales(words: Buffer) -> Stmt:
            def with_minima(scales: Buffer) -> Stmt:
                if not self.has_minimum:
                    return filled(Bytes(words, scales, None, vectors))
                return scratch("minima", (blocks * self.groups, width), "float32", lambda minima: filled(
                    Bytes(words, scales, minima, vectors)))  # fmt: skip

            return scratch("group_scales", (blocks * self.groups, width), "float32", with_minima)

        return scratch("bytes", (depth // 4, width), "int32", with_scales)

    def _unpacked_unit(self, held: Bytes, weights: Buffer, panel: PrimExpr, b: Var, v: int) -> Stmt:
        packed, lanes = self.packed, self.lanes
        unit = simplify(b * packed.unit)
        names = Names()
        scale = names.of("scale", self._floats(weights, panel, unit, 0))
        minimum = None
        if self.has_minimum:
            minimum = names.of("minimum", self._floats(weights, panel, unit, packed.float_words))
        stmts: list[Stmt] = []
        column = v * lanes
        for g in range(self.groups):
            row = simplify(b * self.groups + g)
            value = scale
            group = g * self.group // packed.format.group
            if packed.format.scale.steps is not None:
                value = value * self._float(self._steps(weights, panel, unit, packed.steps, group))
            stmts.append(vector_store(held.scales, (row, column), value))
            if minimum is not None and held.minima is not None:
                least = minimum
                if self.has_minimum_steps:
                    taken = self._float(self._steps(weights, panel, unit, packed.minimum_steps, group))
                    least = least * (self._wide(const(0.0, "float32")) - taken)
                stmts.append(vector_store(held.minima, (row, column), least))

        def chunk(c: PrimExpr | int) -> Stmt:
            inner = Names()
            numbers = self.numbers(inner, weights, panel, unit, c)
            start = simplify(b * (packed.format.elements // 4) + int64(c) * VECTORS_OF_CHUNK)
            return inner.around(block(
                vector_store(held.words, (simplify(start + k), column), number) for k, number in enumerate(numbers)))  # fmt: skip

        chunks = packed.format.elements // CHUNK
        stmts.append(chunk(0) if chunks == 1 else loop("c", chunks, chunk))
        return names.around(block(stmts))

    def tile(
        self, tables: Tables, panel: Any, start: PrimExpr, rows: int, body: Callable[[Sums], Stmt]
    ) -> Stmt:
        """Sum the products of some rows, from row `start` on, with panels of bytes; call `body` with the sums."""
        lanes, vectors, step = self.lanes, panel.vectors, self.group // 4
        groups = self.blocks_of(tables) * self.groups
        width = vectors * lanes
        places = [(p, v * lanes) for p in range(rows) for v in range(vectors)]

        def added(acc: Buffer, sums: Buffer) -> Stmt:
            def group(g: Var) -> Stmt:
                begun = block(
                    vector_store(sums, (p, c), self._start(tables, simplify(start + p), g)) for p, c in places
                )
                stmts = [begun, *(self._step(tables, panel, sums, start, rows, g, k) for k in range(step))]
                b = simplify(floordiv(g, self.groups)) if self.groups > 1 else g
                names = Names()
                scales = [names.of(f"scale{v}", vector_load(panel.scales, (g, v * lanes), lanes)) for v in range(vectors)]
                minima = [
                    names.of(f"minimum{v}", vector_load(panel.minima, (g, v * lanes), lanes))
                    for v in range(vectors if panel.minima is not None else 0)
                ]
                finished: list[Stmt] = []
                for p in range(rows):
                    row = simplify(start + p)
                    inner = Names()
                    of_x = inner.of("of_x", BufferLoad(tables.scales, (row, b)))
                    taken = None
                    if tables.sums is not None:
                        taken = inner.of("taken", BufferLoad(tables.sums, (row, g)))
                        if self.has_minimum_steps:
                            taken = inner.of("scaled", taken.astype("float32") * of_x)
                    stores: list[Stmt] = []
                    for v in range(vectors):
                        c = v * lanes
                        value = vector_load(acc, (p, c), lanes)
                        value = value + self._float(vector_load(sums, (p, c), lanes)) * (scales[v] * self._wide(of_x))
                        if taken is not None:
                            value = value + minima[v] * self._wide(taken)
                        stores.append(vector_store(acc, (p, c), value))
                    finished.append(inner.around(block(stores)))
                return block([*stmts, names.around(block(finished))])

            cleared = block(vector_store(acc, (p, c), self._wide(const(0.0, "float32"))) for p, c in places)
            return block([cleared, loop("g", groups, group), body(Sums(acc, rows, lanes))])

        return alloc("acc", (rows, width), "float32", "local", lambda acc: alloc(
            "sums", (rows, width), "int32", "local", lambda sums: added(acc, sums)))  # fmt: skip

    def _step(
        self, tables: Tables, panel: Any, sums: Buffer, start: PrimExpr, rows: int, g: Var, k: int
    ) -> Stmt:
        """Add the products of four numbers of each row and column to the integer sums."""
        lanes, names = self.lanes, Names()
        step = self.group // 4
        words = [
            names.of(f"b{v}", vector_load(panel.words, (simplify(g * step + k), v * lanes), lanes))
            for v in range(panel.vectors)
        ]
        stmts: list[Stmt] = []
        for p in range(rows):
            inner = Names()
            x = inner.of("x", self._x(tables, simplify(start + p), g * self.group + 4 * k))
            stores = [
                vector_store(sums, (p, v * lanes), self.added(vector_load(sums, (p, v * lanes), lanes), words[v], x))
                for v in range(panel.vectors)
            ]
            stmts.append(inner.around(block(stores)))
        return names.around(block(stmts))
