"""Words: 32-bit lanes of narrow numbers that are neighbours along the depth of a product, as dot products read them.

    int8, depth 6        a b c d e f        the words  abcd  ef00
    bfloat16, depth 3    a b c              the words  ab  c0

`words_for` chooses the kind of dot product. Where bytes on the left have a sign and the instruction's have none (or the
other way round), their first bits are flipped: each is then 128 more (or less), and the sums are *corrected* by 128
times the sums of the numbers on the right.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, cast

import numpy as np

from ...ir import DataType
from ...prim import LT, PrimExpr, const, simplify
from ...prim.instructions import DOTS, TILE_WORDS, TILES, Dot, dot
from ...prim.intrin import bitwise_or, bitwise_xor, ceildiv, if_then_else, reinterpret, shift_left
from ...target import Target
from ...target.isa.products import kind_of
from ...tir import Buffer, DeclBuffer, Stmt
from ...tir.buffer import decl_buffer
from ..build import spread

Array: TypeAlias = "np.ndarray[Any, Any]"

FIRST_BITS: Final = -0x7F7F7F80
"""The first bit of each byte of a word."""
ONES: Final = 0x01010101
"""A word of four bytes that are 1."""


@dataclass(frozen=True)
class Words:
    """The words that a kind of dot product reads."""

    kind: str
    correction: int = 0
    """The factor of the sum of the numbers on the right that is added to each sum: 0, 128 or -128."""
    in_tiles: bool = False
    """True if tiles are multiplied (`T.tile_dot_bf16`): the words of a row are filled up to whole steps."""

    @property
    def dot(self) -> Dot:
        """The dtypes of the numbers and of the sums."""
        return (TILES if self.in_tiles else DOTS)[self.kind]

    @property
    def group(self) -> int:
        """The numbers in a word."""
        return self.dot.group

    @property
    def of_bytes(self) -> bool:
        """True if the numbers are bytes."""
        return DataType(self.dot.left).bits == 8

    @property
    def sums(self) -> str:
        """The dtype of the sums."""
        return self.dot.sums

    @property
    def step(self) -> int:
        """The words of which a row has a multiple."""
        return TILE_WORDS if self.in_tiles else 1

    def count(self, depth: PrimExpr) -> PrimExpr:
        """The words of a row of so many numbers."""
        return simplify(ceildiv(depth, self.group * self.step) * self.step)

    @property
    def filling(self) -> int:
        """The word of zeros on the left."""
        return FIRST_BITS if self.correction else 0

    def add(self, total: PrimExpr, left: PrimExpr, right: PrimExpr) -> PrimExpr:
        """The sums plus the products of words."""
        return dot(self.kind, total, left, right)

    def corrected(self, right: PrimExpr, total: PrimExpr) -> PrimExpr:
        """A correction plus what words on the right add to it."""
        lanes = right.dtype.lanes
        return dot(self.kind, total, spread(const(ONES, "int32"), lanes), right)

    def scale_of_correction(self) -> PrimExpr:
        """The factor of the sums that `corrected` makes."""
        return const(self.correction, "int32")

    # ------------------------------------------------------------------ words of numbers

    def converted(self, number: PrimExpr, is_left: bool) -> PrimExpr:
        """A number, or a vector of them, in the dtype of words before bits are flipped."""
        dot_, dtype = self.dot, number.dtype
        wide = DataType(dot_.left if is_left else dot_.right)
        return number if dtype.bits == wide.bits else number.astype(str(wide.with_lanes(dtype.lanes)))

    def word(self, numbers: Sequence[PrimExpr], is_left: bool) -> PrimExpr:
        """The word of so many numbers as it has, or the vector of words of vectors of numbers."""
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
        """The words of a vector of neighbouring numbers."""
        vector = self.converted(numbers, is_left)
        words = DataType("int32").with_lanes(vector.dtype.lanes // self.group)
        result = reinterpret(str(words), vector)
        return self.flipped(result) if is_left else result

    def flipped(self, word: PrimExpr) -> PrimExpr:
        """Words on the left with the first bits of bytes flipped, if the sums are corrected."""
        if not self.correction:
            return word
        return bitwise_xor(word, spread(const(FIRST_BITS, "int32"), word.dtype.lanes))

    def word_below(
        self, number: Callable[[PrimExpr], PrimExpr], first: PrimExpr, end: PrimExpr, is_left: bool
    ) -> PrimExpr:
        """The word of the numbers from `first` on, of which those from `end` on are 0."""
        numbers: list[PrimExpr] = []
        for position in range(self.group):
            element = number(first + position)
            zero = const(0, str(element.dtype))
            numbers.append(if_then_else(LT(first + position, end), element, zero))
        return self.word(numbers, is_left)

    # ------------------------------------------------------------------ known numbers

    def packed(self, numbers: Array) -> Array:
        """Known numbers on the right, (..., depth, columns), as words (..., words, columns).

        The corrections of the columns follow if there are any.
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
    """The bits of a narrow number as an int32 without a sign."""
    dtype = number.dtype
    bits = DataType(f"uint{dtype.bits}").with_lanes(dtype.lanes)
    return reinterpret(str(bits), number).astype(str(DataType("int32").with_lanes(dtype.lanes)))


def words_for(
    target: Target, left: DataType, right: DataType, sums: DataType, in_tiles: bool = False
) -> Words | None:
    """The words for products of numbers of two dtypes, added up in a third; None if there are none.

    With `in_tiles`, those of tiles, if the machine has such instructions for the dtypes. Machines that multiply
    tiles of bfloat16 are slower at its dot products than at products of float32, and get no others.
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
    """A buffer whose elements are the bits of those of another one, where reading these would convert them."""
    if buffer.dtype != "bfloat16":
        return buffer
    return decl_buffer(
        buffer.shape, "uint16", f"{buffer.name}_bits", data=buffer.data, strides=buffer.strides,
        elem_offset=buffer.elem_offset,
    )  # fmt: skip


def declared(views: Sequence[tuple[Buffer, Buffer]], body: Stmt) -> Stmt:
    """A statement with views of buffers around it, each with its buffer; without those that are the buffer itself."""
    for view, buffer in reversed(views):
        body = body if view is buffer else DeclBuffer(view, body)
    return body


__all__ = ["FIRST_BITS", "Words", "bits_view", "declared", "words_for"]
