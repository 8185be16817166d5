"""Words: packed groups of narrow numbers (int8×4, bfloat16×2) in 32-bit lanes, consecutive along a product's depth.

    int8, depth 6        a b c d e f        the words  abcd  ef00
    bfloat16, depth 3    a b c              the words  ab  c0

`words_for` chooses the kind of dot product. If the left bytes are signed and the instruction's are unsigned (or vice
versa), their sign bits are flipped: each element is then 128 larger (or smaller), and the sums are *corrected* by 128
times the sums of the right operand's elements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias, cast

import numpy as np

from ....ir import DataType
from ....prim import LT, PrimExpr, const, simplify
from ....prim.instructions import DOTS, TILE_WORDS, TILES, Dot, dot
from ....prim.intrin import bitwise_or, bitwise_xor, ceildiv, if_then_else, reinterpret, shift_left
from ....runtime.records import dataclass
from ....target import Target
from ....target.isa.products import kind_of
from ....tir import Buffer, DeclBuffer, Stmt
from ....tir.buffer import decl_buffer
from ...build import spread

Array: TypeAlias = "np.ndarray[Any, Any]"

FIRST_BITS: Final = -0x7F7F7F80
"""Sign bit of each byte of a packed group."""
ONES: Final = 0x01010101
"""Packed group of four ones (int8×4)."""


@dataclass(frozen=True)
class Words:
    """Packed groups read by one kind of dot product instruction."""

    kind: str
    correction: int = 0
    """Factor of the column sums of the right operand that is added to each result: 0, 128 or -128."""
    in_tiles: bool = False
    """True for tile instructions (`T.tile_dot_bf16`), whose rows are padded to whole steps."""

    @property
    def dot(self) -> Dot:
        """Dtypes of the factors and accumulators."""
        return (TILES if self.in_tiles else DOTS)[self.kind]

    @property
    def group(self) -> int:
        """Elements of a packed group."""
        return self.dot.group

    @property
    def of_bytes(self) -> bool:
        """True if the elements are bytes."""
        return DataType(self.dot.left).bits == 8

    @property
    def sums(self) -> str:
        """Dtype of the accumulators."""
        return self.dot.sums

    @property
    def step(self) -> int:
        """Granularity of a row, in packed groups."""
        return TILE_WORDS if self.in_tiles else 1

    def count(self, depth: PrimExpr) -> PrimExpr:
        """Packed groups of a row of `depth` elements."""
        return simplify(ceildiv(depth, self.group * self.step) * self.step)

    @property
    def filling(self) -> int:
        """Packed group of zeros for the left operand (after flipping)."""
        return FIRST_BITS if self.correction else 0

    def add(self, total: PrimExpr, left: PrimExpr, right: PrimExpr) -> PrimExpr:
        """Accumulate the dot products of packed groups."""
        return dot(self.kind, total, left, right)

    def corrected(self, right: PrimExpr, total: PrimExpr) -> PrimExpr:
        """Accumulate the sum of the right operand's elements, for the correction."""
        lanes = right.dtype.lanes
        return dot(self.kind, total, spread(const(ONES, "int32"), lanes), right)

    def scale_of_correction(self) -> PrimExpr:
        """Factor of the sums accumulated by `corrected`."""
        return const(self.correction, "int32")

    # ------------------------------------------------------------------ words of numbers

    def converted(self, number: PrimExpr, is_left: bool) -> PrimExpr:
        """Cast an element or vector to the instruction's dtype, before sign bits are flipped."""
        dot_, dtype = self.dot, number.dtype
        wide = DataType(dot_.left if is_left else dot_.right)
        return number if dtype.bits == wide.bits else number.astype(str(wide.with_lanes(dtype.lanes)))

    def word(self, numbers: Sequence[PrimExpr], is_left: bool) -> PrimExpr:
        """Pack elements (or lane-wise vectors of them) into a group."""
        bits = 32 // self.group
        result: PrimExpr | None = None
        for position, number in enumerate(numbers):
            part = _unsigned(self.converted(number, is_left))
            if position:
                part = shift_left(part, spread(const(bits * position, "int32"), part.dtype.lanes))
            result = part if result is None else bitwise_or(result, part)
        assert result is not None
        return self.flipped(result) if is_left else result

    def neighbours(self, numbers: PrimExpr, is_left: bool) -> PrimExpr:
        """Reinterpret a vector of consecutive elements as packed groups."""
        vector = self.converted(numbers, is_left)
        words = DataType("int32").with_lanes(vector.dtype.lanes // self.group)
        result = reinterpret(str(words), vector)
        return self.flipped(result) if is_left else result

    def flipped(self, word: PrimExpr) -> PrimExpr:
        """Flip the sign bits of left groups if results are corrected."""
        if not self.correction:
            return word
        return bitwise_xor(word, spread(const(FIRST_BITS, "int32"), word.dtype.lanes))

    def word_below(
        self, number: Callable[[PrimExpr], PrimExpr], first: PrimExpr, end: PrimExpr, is_left: bool
    ) -> PrimExpr:
        """Pack the elements from `first` on; elements from `end` on are 0."""
        numbers: list[PrimExpr] = []
        for position in range(self.group):
            element = number(first + position)
            zero = const(0, str(element.dtype))
            numbers.append(if_then_else(LT(first + position, end), element, zero))
        return self.word(numbers, is_left)

    # ------------------------------------------------------------------ known numbers

    def packed(self, numbers: Array) -> Array:
        """Pack constant right operands (..., depth, columns) into groups (..., groups, columns).

        The corrections of the columns follow, if there are any.
        """
        *outer, depth, columns = numbers.shape
        count = -(-depth // (self.group * self.step)) * self.step
        held = DataType(self.dot.right).numpy()
        filled = np.zeros((*outer, count * self.group, columns), held)
        filled[..., :depth, :] = numbers
        grouped = np.moveaxis(np.reshape(filled, (*outer, count, self.group, columns)), -2, -1)
        words = cast("Any", np.ascontiguousarray(grouped)).view(np.int32)[..., 0]
        if not self.correction:
            return words
        sums = filled.astype(np.int64).sum(axis=-2, keepdims=True) * self.correction
        return np.concatenate([words, sums.astype(np.int32)], axis=-2)


def _unsigned(number: PrimExpr) -> PrimExpr:
    """Zero-extend the bits of a narrow element to int32."""
    dtype = number.dtype
    bits = DataType(f"uint{dtype.bits}").with_lanes(dtype.lanes)
    return reinterpret(str(bits), number).astype(str(DataType("int32").with_lanes(dtype.lanes)))


def words_for(target: Target, left: DataType, right: DataType, sums: DataType, in_tiles: bool = False) -> Words | None:
    """Return the packed groups for products of two dtypes accumulated in a third, or None if unsupported.

    `in_tiles` selects tile instructions if the target has them for the dtypes. Targets with bfloat16 tiles execute
    bfloat16 dot products slower than float32 products, so they get no dot products.
    """
    machine, kind = target.machine, kind_of(Dot(str(left), str(right), str(sums)))
    dots = machine.dot_products
    if kind == "bf16":
        if machine.multiplies_tiles(kind):
            return Words(kind, in_tiles=True) if in_tiles else None
        return Words(kind) if kind in dots else None
    if sums != "int32":
        return None
    if in_tiles and machine.multiplies_tiles(kind):
        return Words(kind, in_tiles=True)
    if right == "int8" and left in ("int8", "uint8"):
        if left == "int8" and "s8s8" in dots:
            return Words("s8s8")
        if "u8s8" in dots:
            return Words("u8s8", -128 if left == "int8" else 0)
        if "s8s8" in dots:
            return Words("s8s8", 128)
    narrow = ("int8", "uint8", "int16")
    return Words("s16s16") if left in narrow and right in narrow else None


def bits_view(buffer: Buffer) -> Buffer:
    """View a buffer's elements as raw bits if loading them would convert them."""
    if buffer.dtype != "bfloat16":
        return buffer
    return decl_buffer(
        buffer.shape, "uint16", f"{buffer.name}_bits", data=buffer.data, strides=buffer.strides,
        elem_offset=buffer.elem_offset,
    )  # fmt: skip


def declared(views: Sequence[tuple[Buffer, Buffer]], body: Stmt) -> Stmt:
    """Declare (view, buffer) pairs around `body`, skipping views that are the buffer itself."""
    for view, buffer in reversed(views):
        body = body if view is buffer else DeclBuffer(view, body)
    return body
