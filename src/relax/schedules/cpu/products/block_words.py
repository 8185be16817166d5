"""Operands of products of blocks: packed numbers as bytes, scales and steps as vectors, words of activations.

`topi.packed_blocks` has the order in which weights are packed. `Tables` are sums of the activations, computed before
the tasks; `Sums` are a tile's results.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ....prim import Add, IntImm, Mul, PrimExpr, Var, const, simplify
from ....prim.instructions import dot, fma, vector_reduce_add
from ....prim.intrin import bitwise_and, bitwise_or, reinterpret, shift_left, shift_right
from ....runtime.records import dataclass
from ....target import Target
from ....tir import Buffer, BufferLoad, BufferStore, ForKind, IfThenElse, LetStmt, Stmt
from ....topi.packed_blocks import CHUNK, PackedBlocks
from ...build import apart, block, int64, loop, scratch, spread, vector_load, vector_store
from .column_panels import ColumnPanel, mask_of
from .operands import Results

VECTORS_OF_CHUNK: Final = CHUNK // 4
"""Vectors of bytes of 32 numbers."""
ONES: Final = 0x01010101
"""Four bytes with the lowest bit."""
SEVENS: Final = 0x7F7F7F7F
"""Four bytes with the lowest seven bits."""


class Names:
    """Values bound to names, in order, around a statement."""

    def __init__(self) -> None:
        self.held: list[tuple[Var, PrimExpr]] = []

    def of(self, name: str, value: PrimExpr) -> PrimExpr:
        """Bind a value; return its name."""
        var = Var(name, value.dtype)
        self.held.append((var, value))
        return var

    def around(self, *body: Stmt) -> Stmt:
        """Return the statements in which the names are bound."""
        result = block(body)
        for var, value in reversed(self.held):
            result = LetStmt(var, value, result)
        return result


def pair(low: PrimExpr, high: PrimExpr) -> PrimExpr:
    """Return two int32 that fit int16, or vectors of them, as the halves of an int32."""
    lanes = low.dtype.lanes
    mask, shift = (spread(const(value, "int32"), lanes) for value in (0xFFFF, 16))
    return bitwise_or(bitwise_and(low, mask), shift_left(high, shift))


@dataclass(frozen=True)
class Tables:
    """Activations as products read them."""

    x: Buffer
    """int8, (rows, depth)."""
    scales: Buffer
    """float32, (rows, blocks)."""
    starts: Buffer | None
    """int32, (rows, groups): what the sum of a group begins with, -zero · Σ x; None for zero 0."""
    sums: Buffer | None
    """Sums of groups for the minima: int32 for minima with steps, else float32, times the scale."""
    pairs: Buffer | None = None
    """int32, (rows, groups / 2): pairs of int16, the sums of two groups, for minima with steps."""

    @property
    def rows(self) -> PrimExpr:
        return simplify(int64(self.scales.shape[0]))

    @property
    def blocks(self) -> int:
        """Blocks of a row."""
        size = self.scales.shape[1]
        assert isinstance(size, IntImm)
        return size.value


@dataclass(frozen=True)
class Sums:
    """Float sums of a tile: (rows, columns), in registers."""

    acc: Buffer
    rows: int
    lanes: int

    def stored(self, result: Results, panel: ColumnPanel) -> Stmt:
        """Return the stores of the results that the sums become."""
        places = [(int64(p), int64(v * self.lanes)) for p in range(self.rows) for v in range(panel.vectors)]

        def sums(p: PrimExpr, c: PrimExpr) -> PrimExpr:
            return vector_load(self.acc, (p, c), self.lanes)

        if result.is_sum:
            return block(
                vector_store(result.out, result.place(p, c), sums(p, c), mask_of(panel, c, self.lanes))
                for p, c in places
            )

        def made(held: Buffer) -> Stmt:
            copied = block(vector_store(held, (p, c), sums(p, c)) for p, c in places)
            # A separate function: the epilogue's constants would displace the next tile's sums.
            results = apart("p", self.rows, lambda p: loop(
                "v", panel.vectors, lambda v: self._made(result, panel, held, p, v * self.lanes)))  # fmt: skip
            return block([copied, results])

        return scratch("sums", (self.rows, panel.vectors * self.lanes), "float32", made)

    def _made(self, result: Results, panel: ColumnPanel, sums: Buffer, r: PrimExpr, c: PrimExpr) -> Stmt:
        def lane(x: Var) -> Stmt:
            stored = result.made(r, c + x, BufferLoad(sums, (r, c + x)))
            return stored if panel.inside is None else IfThenElse(c + x < panel.inside, stored)

        return loop("x", self.lanes, lane, ForKind.VECTORIZED)


class BlockWords:
    """Reads weights of one packed format, and activations in blocks."""

    def __init__(self, packed: PackedBlocks, target: Target) -> None:
        self.packed, self.lanes = packed, packed.lanes
        self.group = packed.format.group
        """Numbers that are summed as integers."""
        self.groups = packed.groups
        self.elements = packed.format.elements
        self.dots = target.machine.dot_products
        self.has_fma = target.has_fma
        scale, minimum = packed.format.scale, packed.format.minimum
        self.has_steps = scale.steps is not None
        self.has_minimum = minimum is not None
        self.has_minimum_steps = minimum is not None and minimum.steps is not None

    # ------------------------------------------------------------------------------------ sums of activations

    def with_tables(self, x: Buffer, scales: Buffer, body: Callable[[Tables], Stmt]) -> Stmt:
        """Call `body` with the tables of the activations, filled before it."""
        rows, blocks = scales.shape
        shape = rows, simplify(blocks * self.groups)

        def with_starts(starts: Buffer | None) -> Stmt:
            def with_sums(sums: Buffer | None, pairs: Buffer | None = None) -> Stmt:
                tables = Tables(x, scales, starts, sums, pairs)
                return block([self._filled(tables), body(tables)])

            def with_pairs(sums: Buffer) -> Stmt:
                if self.groups == 1:
                    return with_sums(sums)
                pair_shape = rows, simplify(blocks * (self.groups // 2))
                return scratch("x_pairs", pair_shape, "int32", lambda pairs: with_sums(sums, pairs))

            if not self.has_minimum:
                return with_sums(None)
            if not self.has_minimum_steps:
                return scratch("x_sums", shape, "float32", with_sums)
            return scratch("x_sums", shape, "int32", with_pairs)

        return scratch("x_starts", shape, "int32", with_starts) if self.packed.zero else with_starts(None)

    def _filled(self, tables: Tables) -> Stmt:
        """Return the loops that fill the tables of sums."""
        if tables.starts is None and tables.sums is None:
            return block([])
        few = isinstance(tables.rows, IntImm) and tables.rows.value <= CHUNK

        def row(r: Var) -> Stmt:
            return loop("b", tables.blocks, lambda b: block([
                *(self._filled_group(tables, r, b, g) for g in range(self.groups)), *self._filled_pairs(tables, r, b),
            ]))  # fmt: skip

        return loop("r", tables.rows, row, ForKind.SERIAL if few else ForKind.PARALLEL)

    def _filled_group(self, tables: Tables, r: Var, b: Var, g: int) -> Stmt:
        size = min(self.group, CHUNK)
        total, ones = (spread(const(value, "int32"), size // 4) for value in (0, ONES))
        for part in range(0, self.group, size):
            place = simplify(b * self.elements + g * self.group + part)
            total = dot("u7s8", total, ones, reinterpret(f"int32x{size // 4}", vector_load(tables.x, (r, place), size)))
        names, index = Names(), (r, simplify(b * self.groups + g))
        whole = names.of("total", vector_reduce_add(total))
        stmts: list[Stmt] = []
        if tables.starts is not None:
            stmts.append(BufferStore(tables.starts, whole * -self.packed.zero, index))
        if tables.sums is not None:
            scaled = whole.astype("float32") * BufferLoad(tables.scales, (r, b))
            stmts.append(BufferStore(tables.sums, whole if self.has_minimum_steps else scaled, index))
        return names.around(*stmts)

    def _filled_pairs(self, tables: Tables, r: Var, b: Var) -> list[Stmt]:
        """Return the stores of the pairs of a block's sums."""
        sums, pairs = tables.sums, tables.pairs
        if sums is None or pairs is None:
            return []
        stmts: list[Stmt] = []
        for k in range(self.groups // 2):
            low, high = (BufferLoad(sums, (r, simplify(b * self.groups + 2 * k + d))) for d in (0, 1))
            stmts.append(BufferStore(pairs, pair(low, high), (r, simplify(b * (self.groups // 2) + k))))
        return stmts

    # ------------------------------------------------------------------------------------ weights

    def numbers(
        self, names: Names, weights: Buffer, panel: PrimExpr, unit: PrimExpr, chunk: PrimExpr | int
    ) -> list[PrimExpr]:
        """Bind the 8 vectors of bytes of 32 numbers."""
        packed, lanes = self.packed, self.lanes
        start = simplify(unit + (int64(chunk) * packed.chunk + packed.first_number))
        held = [
            names.of(f"w{v}", vector_load(weights, (panel, simplify(start + v * lanes)), lanes))
            for v in range(packed.bits)
        ]
        if packed.bits == 8:
            return held
        result: list[PrimExpr] = []
        for v in range(VECTORS_OF_CHUNK):
            number = bitwise_and(self._shifted(held[v % 4], -4 * (v // 4)), self._bits(0x0F0F0F0F))
            if packed.bits == 5:
                number = bitwise_or(number, bitwise_and(self._shifted(held[4], 4 - v), self._bits(0x10101010)))
            elif packed.bits == 6:
                high = self._shifted(held[4 + v // 4], 4 - 2 * (v % 4))
                number = bitwise_or(number, bitwise_and(high, self._bits(0x30303030)))
            result.append(names.of(f"n{v}", number))
        return result

    def _bits(self, bits: int) -> PrimExpr:
        return spread(const(bits, "int32"), self.lanes)

    def _shifted(self, word: PrimExpr, by: int) -> PrimExpr:
        """Shift to the left, or to the right by a negative number."""
        if not by:
            return word
        return shift_left(word, self._bits(by)) if by > 0 else shift_right(word, self._bits(-by))

    def floats(self, weights: Buffer, panel: PrimExpr, unit: PrimExpr, is_minimum: bool = False) -> PrimExpr:
        """Vector of the scales of a block, or of its minima, float32."""
        words = self.packed.float_words
        held = vector_load(weights, (panel, simplify(unit + (words if is_minimum else 0))), words)
        if words == self.lanes:
            return reinterpret(f"float32x{self.lanes}", held)
        return self.float(reinterpret(f"float16x{self.lanes}", held))

    def steps(
        self, weights: Buffer, panel: PrimExpr, unit: PrimExpr, g: PrimExpr, is_minimum: bool = False
    ) -> PrimExpr:
        """Vector of the steps of a group, int32."""
        count = self.lanes // 4
        start = self.packed.minimum_steps if is_minimum else self.packed.steps
        held = vector_load(weights, (panel, simplify(unit + (int64(g) * count + start))), count)
        return reinterpret(f"int8x{self.lanes}", held).astype(f"int32x{self.lanes}")

    # ------------------------------------------------------------------------------------ arithmetic

    def word(self, tables: Tables, r: PrimExpr, place: PrimExpr) -> PrimExpr:
        """Four bytes of a row of x, in every lane."""
        return self.wide(reinterpret("int32", vector_load(tables.x, (r, simplify(place)), 4)))

    def start(self, tables: Tables, r: PrimExpr, g: PrimExpr) -> PrimExpr:
        """First value of the sum of a group, in every lane."""
        if tables.starts is None:
            return self.wide(const(0, "int32"))
        return self.wide(BufferLoad(tables.starts, (r, simplify(g))))

    def added(self, total: PrimExpr, numbers: PrimExpr, x: PrimExpr) -> PrimExpr:
        """Add the products of four numbers in each lane and of four activations to a sum."""
        if self.packed.bits < 8:
            return dot("u7s8", total, numbers, x)
        if self.packed.signed:
            return dot("s8s8", total, numbers, x)
        if "u8s8" in self.dots or "u7s8" not in self.dots:
            return dot("u8s8", total, numbers, x)
        # A byte is twice its upper 7 bits and the lowest one.
        upper = bitwise_and(self._shifted(numbers, -1), self._bits(SEVENS))
        twice = self._shifted(dot("u7s8", self._bits(0), upper, x), 1)
        return dot("u7s8", total, bitwise_and(numbers, self._bits(ONES)), x) + twice

    def fused(self, total: PrimExpr, a: PrimExpr, b: PrimExpr) -> PrimExpr:
        """Return ``total + a * b``, rounded once if the target fuses them.

        Bind `total` to a name before: the additions of a store to the place that they load from may be reassociated,
        and few and many rows would add the same numbers in another order.
        """
        return fma(a, b, total) if self.has_fma else Add(total, Mul(a, b))

    def minima(self, weights: Buffer, panel: PrimExpr, unit: PrimExpr) -> PrimExpr:
        """Vector of the minima of a block, float32, with the sign with which they are added."""
        minimum = self.floats(weights, panel, unit, True)
        return self.wide(const(0.0, "float32")) - minimum if self.has_minimum_steps else minimum

    def wide(self, value: PrimExpr) -> PrimExpr:
        """The value in every lane."""
        return spread(value, self.lanes)

    def float(self, value: PrimExpr) -> PrimExpr:
        """A vector as float32."""
        return value.astype(f"float32x{self.lanes}")

    def zeros(self, buffer: Buffer, rows: int, vectors: int = 1) -> Stmt:
        """Clear the first columns of each row."""
        zero = self.wide(const(0, str(buffer.dtype)))
        return block(vector_store(buffer, (r, v * self.lanes), zero) for r in range(rows) for v in range(vectors))


__all__ = ["CHUNK", "VECTORS_OF_CHUNK", "BlockWords", "Names", "Sums", "Tables", "pair"]
