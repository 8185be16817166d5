"""Formulas of weights in block formats: their values, activations in blocks of bytes, and the products of both."""

# The parameters of a formula are index variables; te.compute says so, but not in a way a type checker can follow.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol

from .. import te
from ..ir import DataType
from ..prim import Let, PrimExpr, Select, Var, const, convert, intrin, is_const, simplify
from ..prim import cast as cast_expr
from .block_formats import BlockFormat, Factor, Integers, block_format
from .indexing import as_int64, from_front
from .packed_blocks import CHUNK, PackedBlocks
from .qdq import WHOLE, WHOLE_BITS

MOST: Final = 127
"""Greatest magnitude of an activation's byte."""
RULE: Final = "schedule_rule.blocks"
"""Annotation of the nest that sums the products of a block: format, lanes and signed of `quantized_matmul`."""


class _Rows(Protocol):
    """Weights by row, block and place in the block."""

    format: BlockFormat

    def number(self, row: PrimExpr, block: PrimExpr, element: PrimExpr) -> PrimExpr:
        """Integer of a weight, int32."""
        ...

    def step(self, factor: Factor, row: PrimExpr, block: PrimExpr, group: PrimExpr) -> PrimExpr:
        """Step of a factor, int32."""
        ...

    def scale(self, factor: Factor, row: PrimExpr, block: PrimExpr) -> PrimExpr:
        """Float of a factor, float32."""
        ...


class _FileRows:
    """Rows as files have them: tensors (…, rows, bytes), uint8."""

    def __init__(self, data: te.Tensor, held: BlockFormat, outer: Sequence[PrimExpr] = ()) -> None:
        self.data, self.format, self.outer = data, held, tuple(outer)

    def _byte(self, row: PrimExpr, block: PrimExpr, place: Any) -> PrimExpr:
        start = block * self.format.bytes
        return cast_expr("int32", self.data(*self.outer, row, simplify(start + _index(place))))

    def number(self, row: PrimExpr, block: PrimExpr, element: PrimExpr) -> PrimExpr:
        return self._integer(self.format.integers, row, block, element)

    def step(self, factor: Factor, row: PrimExpr, block: PrimExpr, group: PrimExpr) -> PrimExpr:
        assert factor.steps is not None
        return self._integer(factor.steps, row, block, group)

    def _integer(self, held: Integers, row: PrimExpr, block: PrimExpr, index: PrimExpr) -> PrimExpr:
        code = held.code(lambda place: self._byte(row, block, place), cast_expr("int32", index))
        if held.table:
            return _looked_up(held.table, code)
        if held.signed:
            return cast_expr("int32", intrin.reinterpret("int8", cast_expr("uint8", code)))
        return code - held.offset if held.offset else code

    def scale(self, factor: Factor, row: PrimExpr, block: PrimExpr) -> PrimExpr:
        low = self._byte(row, block, factor.place)
        if factor.dtype == "float16":
            return _half(low + self._byte(row, block, factor.place + 1) * 256)
        if factor.dtype == "float32":
            for byte in range(1, 4):
                low = low + (self._byte(row, block, factor.place + byte) << 8 * byte)
            return intrin.reinterpret("float32", low)
        bits = Select(low < 2, const(0x200000, "int32") << low, (low - 1) << 23)
        return intrin.reinterpret("float32", bits)


class _PackedRows:
    """Rows in panels: a tensor (…, panels, words), int32."""

    def __init__(self, data: te.Tensor, packed: PackedBlocks, outer: Sequence[PrimExpr] = ()) -> None:
        self.data, self.packed, self.format, self.outer = data, packed, packed.format, tuple(outer)

    def _word(self, row: PrimExpr, block: PrimExpr, vector: PrimExpr | int, start: int) -> PrimExpr:
        """Word of a row's lane in a vector of the unit of a block, counted from word `start` on."""
        lanes = self.packed.lanes
        word = block * self.packed.unit + (_index(vector) * lanes + start) + row % lanes
        return self.data(*self.outer, row // lanes, simplify(word))

    def _byte(self, row: PrimExpr, block: PrimExpr, vector: PrimExpr, start: int) -> PrimExpr:
        """Byte of a row in a vector of bytes, one a lane, as int32 from -128 to 127."""
        lanes = self.packed.lanes
        at = vector * lanes + row % lanes
        word = self.data(*self.outer, row // lanes, simplify(block * self.packed.unit + start + at // 4))
        return (word << (24 - 8 * cast_expr("int32", at % 4))) >> 24

    def number(self, row: PrimExpr, block: PrimExpr, element: PrimExpr) -> PrimExpr:
        packed = self.packed
        chunk, within = element // CHUNK, element % CHUNK
        vector, byte = within // 4, cast_expr("int32", within % 4)
        start = chunk * (packed.chunk // packed.lanes)
        if packed.bits == 8:
            code = (self._word(row, block, start + vector, packed.first_number) >> byte * 8) & 255
            if packed.signed:
                return (code << 24) >> 24
            return code - 128
        half = cast_expr("int32", vector // 4)
        code = (self._word(row, block, start + vector % 4, packed.first_number) >> (byte * 8 + half * 4)) & 15
        if packed.bits == 5:
            high = self._word(row, block, start + 4, packed.first_number) >> (byte * 8 + cast_expr("int32", vector))
            code = code + ((high & 1) << 4)
        elif packed.bits == 6:
            place = byte * 8 + cast_expr("int32", vector % 4) * 2
            code = code + (((self._word(row, block, start + 4 + vector // 4, packed.first_number) >> place) & 3) << 4)
        return code - packed.zero if packed.zero else code

    def step(self, factor: Factor, row: PrimExpr, block: PrimExpr, group: PrimExpr) -> PrimExpr:
        start = self.packed.steps if factor is self.format.scale else self.packed.minimum_steps
        return self._byte(row, block, group, start)

    def scale(self, factor: Factor, row: PrimExpr, block: PrimExpr) -> PrimExpr:
        lanes = self.packed.lanes
        start = block * self.packed.unit + (0 if factor is self.format.scale else self.packed.float_words)
        if self.format.scale.dtype != "float16":
            word = self.data(*self.outer, row // lanes, simplify(start + row % lanes))
            return intrin.reinterpret("float32", word)
        lane = row % lanes
        word = self.data(*self.outer, row // lanes, simplify(start + lane // 2))
        return _half((word >> cast_expr("int32", lane % 2) * 16) & 0xFFFF)


def _format(name: str) -> BlockFormat:
    held = block_format(name)
    if held is None:
        raise ValueError(f"{name} is no block format")
    return held


def _index(place: Any) -> Any:
    return cast_expr("int64", place) if isinstance(place, PrimExpr) else place


def _half(bits: PrimExpr) -> PrimExpr:
    """Float32 of the float16 with these bits."""
    return cast_expr("float32", intrin.reinterpret("float16", cast_expr("uint16", bits)))


def _looked_up(table: Sequence[int], code: PrimExpr) -> PrimExpr:
    """Entry of a table at `code`, by a tree of choices."""
    if len(table) == 1:
        return const(table[0], "int32")
    middle = len(table) // 2
    return Select(
        (code & middle).equal(0), _looked_up(table[:middle], code), _looked_up(table[middle:], code)
    )  # fmt: skip


def dequantize_blocks(data: te.Tensor, format: str, out_dtype: str = "float32") -> te.Tensor:
    """Weights of packed rows (…, bytes of a row), uint8, as (…, numbers of a row)."""
    held = _format(format)
    shape = (*data.shape[:-1], simplify(data.shape[-1] // held.bytes * held.elements))
    one = data.ndim == 1

    def element(*i: Any) -> PrimExpr:
        *outer, column = i
        if one:
            rows: _Rows = _FileRows(_as_rows(data), held)
            outer = [const(0, "int64")]
        else:
            rows = _FileRows(data, held, outer[:-1])
        return cast_expr(DataType(out_dtype), _weight(rows, outer[-1], column))

    return te.compute(shape, element, "decoded", tag="injective")


def _as_rows(data: te.Tensor) -> Any:
    """One row as a matrix."""
    return lambda _row, byte: data(byte)


def _weight(rows: _Rows, row: PrimExpr, column: PrimExpr) -> PrimExpr:
    held = rows.format
    block, place = column // held.elements, column % held.elements

    def factor(part: Factor) -> PrimExpr:
        value = rows.scale(part, row, block)
        if part.steps is None:
            return value
        return value * cast_expr("float32", rows.step(part, row, block, place // held.group))

    number = rows.number(row, block, place)
    if held.has_zero_point and held.minimum is not None:
        number = number - rows.step(held.minimum, row, block, place // held.group)
    weight = factor(held.scale) * cast_expr("float32", number)
    if held.minimum is None or held.has_zero_point:
        return weight
    return weight - factor(held.minimum) if held.subtracts_minimum else weight + factor(held.minimum)


def quantized_take(
    weights: te.Tensor, indices: Any, format: str, lanes: int = 0, signed: bool = False, columns: int = 0,
    out_dtype: str = "float32",
) -> te.Tensor:  # fmt: skip
    """Rows of weights at the indices, decoded: (…, depth). `weights` are as those of `quantized_matmul`.

    A negative index counts from the end; one out of range is an error at run time.
    """
    held = _format(format)
    packed = PackedBlocks(format, lanes, signed) if lanes else None
    rows: _Rows = _FileRows(weights, held) if packed is None else _PackedRows(weights, packed)
    count = weights.shape[0] if packed is None else const(columns, "int64")
    blocks = weights.shape[1] // (held.bytes if packed is None else packed.unit)
    outer = indices.shape if isinstance(indices, te.Tensor) else ()

    def element(*i: Any) -> PrimExpr:
        raw = indices(*i[:-1]) if isinstance(indices, te.Tensor) else convert(indices)
        row = from_front(raw, count)
        if packed is not None:  # the rows that fill the last panel are none
            row = Select(row < count, row, weights.shape[0] * lanes)
        return cast_expr(DataType(out_dtype), _weight(rows, row, i[-1]))

    return te.compute((*outer, simplify(blocks * held.elements)), element, "taken", tag="injective")


def dynamic_quantize(data: te.Tensor, block_size: int = 32) -> tuple[te.Tensor, te.Tensor]:
    """Bytes and scales of each `block_size` numbers of the last dimension: the greatest magnitude becomes 127."""
    *outer, size = data.shape
    blocks = simplify((size + (block_size - 1)) // block_size)
    whole = is_const(simplify(size % block_size), 0)
    k = te.reduce_axis((0, block_size), "k")

    def magnitude(*i: Any) -> PrimExpr:
        place = i[-1] * block_size + k.var
        value = intrin.abs(cast_expr("float32", data(*i[:-1], place)))
        return value if whole else intrin.if_then_else(place < size, value, const(0.0, "float32"))

    greatest = te.compute((*outer, blocks), lambda *i: te.max(magnitude(*i), axis=k), "greatest")
    scales = te.compute((*outer, blocks), lambda *i: greatest(*i) / const(float(MOST), "float32"), "scales")

    def number(*i: Any) -> PrimExpr:
        most = greatest(*i[:-1], i[-1] // block_size)
        value = Var("value", "float32")
        factor = Select(most > const(0.0, "float32"), const(float(MOST), "float32") / most, const(0.0, "float32"))
        whole_number = intrin.reinterpret("int32", value + const(WHOLE, "float32")) - const(WHOLE_BITS, "int32")
        byte = cast_expr("int8", Select(value.equal(value), whole_number, const(0, "int32")))
        return Let(value, cast_expr("float32", data(*i)) * factor, byte)

    return te.compute(data.shape, number, "numbers"), scales


def quantized_matmul(
    data: te.Tensor, scales: te.Tensor, weights: te.Tensor, format: str, lanes: int = 0, signed: bool = False,
    columns: int = 0,
) -> te.Tensor:  # fmt: skip
    """Product of activations in blocks (…, depth) and rows of weights, (…, rows), float32.

    `weights` are rows of the format, uint8 (rows, bytes), or for `lanes` panels of `columns` rows (`PackedBlocks`).
    """
    return _product(data, scales, weights, None, format, lanes, signed, columns)


def quantized_expert_matmul(
    data: te.Tensor, scales: te.Tensor, weights: te.Tensor, experts: te.Tensor, format: str, lanes: int = 0,
    signed: bool = False, columns: int = 0,
) -> te.Tensor:  # fmt: skip
    """Product of each row of activations (r, depth) and the weights of its expert, (r, rows), float32.

    `experts` are integers (r,); one that there is not is an error at run time. `weights` are those of all experts:
    rows of the format, uint8 (experts, rows, bytes), or for `lanes` panels of `columns` rows each, int32 (experts,
    panels, words).
    """
    return _product(data, scales, weights, experts, format, lanes, signed, columns)


def _product(
    data: te.Tensor, scales: te.Tensor, weights: te.Tensor, experts: te.Tensor | None, format: str, lanes: int,
    signed: bool, columns: int,
) -> te.Tensor:  # fmt: skip
    held = _format(format)
    packed = PackedBlocks(format, lanes, signed) if lanes else None
    count = weights.shape[-2] if packed is None else const(columns, "int64")
    *outer, depth = data.shape
    blocks = simplify(depth // held.elements)
    e = te.reduce_axis((0, held.elements), "e")
    attrs = {RULE: f"{format} {lanes} {int(signed)}"}

    def rows_for(at: Sequence[PrimExpr]) -> _Rows:
        """Weights with which the activations at these indices are multiplied."""
        expert = () if experts is None else (as_int64(experts(*at)),)
        return _FileRows(weights, held, expert) if packed is None else _PackedRows(weights, packed, expert)

    def of_block(name: str, factor: Factor, is_number: bool) -> te.Tensor:
        """Sums of each block's activations times the steps of a factor, and the weights' numbers."""

        def term(*i: Any) -> PrimExpr:
            *at, row, block = i
            rows = rows_for(at)
            value = cast_expr("int32", data(*at, block * held.elements + e.var))
            if is_number:
                value = value * rows.number(row, block, e.var)
            return value if factor.steps is None else value * rows.step(factor, row, block, e.var // held.group)

        return te.compute(
            (*outer, count, blocks), lambda *i: te.sum(term(*i), axis=e), name, attrs=attrs if is_number else None
        )

    sums = of_block("sums", held.scale, is_number=True)
    least = None if held.minimum is None else of_block("least", held.minimum, is_number=False)
    b = te.reduce_axis((0, blocks), "b")

    def total(*i: Any) -> PrimExpr:
        *at, row = i
        rows, scale = rows_for(at), scales(*at, b.var)

        def part(factor: Factor, summed: te.Tensor) -> PrimExpr:
            return rows.scale(factor, row, b.var) * scale * cast_expr("float32", summed(*at, row, b.var))

        value = part(held.scale, sums)
        if held.minimum is not None and least is not None:
            other = part(held.minimum, least)
            value = value - other if held.subtracts_minimum else value + other
        return te.sum(value, axis=b)

    return te.compute((*outer, count), total, "product", tag="matmul")


__all__ = [
    "RULE", "dequantize_blocks", "dynamic_quantize", "quantized_expert_matmul", "quantized_matmul", "quantized_take",
]  # fmt: skip
