"""Block formats: how files of language models store weights in few bits. One declaration a format.

A row of weights is cut into blocks of 32 or 256 numbers. A block holds an integer of 2 to 8 bits for each number, a
scale, and in some formats a minimum, for the block or for each of its groups:

    weight = scale * step[group] * (integer - offset)  [+ minimum, or - minimum * step[group]]

    q4_0, 18 bytes     scale (float16)  16 bytes, of which the low halves are numbers 0 to 15, the high halves 16 to 31

Most formats are those of GGUF files, whose reference is the module `quants` of the package `gguf`. Integers that a
format spreads over a block are declared by the *digits* of their index: the places of the bits are affine in them.
`BlockFormat` decodes with NumPy; `topi.blocks` has the formulas, and `PackedBlocks` the order in which kernels read.

Other files keep integers, scales and zero points in tensors of their own (MatMulNBits in ONNX; AWQ, GPTQ and
compressed-tensors in safetensors). `grouped` has their formats, and `group_rows` arranges the tensors in blocks:

    int4_g128             scale (float32)  64 bytes: groups of 128 numbers from -8 to 7
    int4_g128_zero        scale (float32)  zero point (a byte)  64 bytes: numbers from 0 to 15 minus the zero point
    int8_g32_zero         the same with numbers and zero points from -128 to 127
    int8_g32_float16      scale (float16)  32 bytes: numbers from -128 to 127
"""

# NumPy's stubs leave the results of reshape, view and clip partly unknown.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..runtime.records import dataclass

Array: TypeAlias = "NDArray[Any]"
Byte: TypeAlias = Callable[[Any], Any]
"""Returns the byte at a place of a block, as int32."""


@dataclass(frozen=True)
class Bits:
    """Bits `width` of the number i of an array, which begin at bit `start` + Σ digit · stride of a block.

    The digits are those of i in a mixed radix, the fastest first. They become the bits from `shift` on of the number.
    """

    start: int
    width: int
    digits: tuple[tuple[int, int], ...]
    """Size and stride, in bits, of each digit."""
    shift: int = 0

    def place(self, index: Any) -> tuple[Any, Any]:
        """Return the byte and the first bit in it of number `index`: integers, arrays of them, or expressions."""
        place, bit, left = self.start // 8, self.start % 8, 1
        for size, stride in self.digits:
            digit = index // left % size
            if stride // 8:
                place = digit * (stride // 8) + place
            if stride % 8:
                bit = digit * (stride % 8) + bit
            left *= size
        return place, bit

    def value(self, byte: Byte, index: Any) -> Any:
        """Return this part of number `index`: its bits read from a block, and shifted to their place in the number."""
        place, bit = self.place(index)
        number = byte(place)
        if not (isinstance(bit, int) and bit == 0):
            number = number >> bit
        if self.width < 8:
            number = number & ((1 << self.width) - 1)
        return number << self.shift if self.shift else number


@dataclass(frozen=True)
class Integers:
    """Integers of a block: the sum of their bits, minus `offset`; or the entry of `table` at that sum."""

    parts: tuple[Bits, ...]
    offset: int = 0
    signed: bool = False
    """True if bytes are in two's complement."""
    table: tuple[int, ...] = ()

    @property
    def bits(self) -> int:
        """Bits of an integer."""
        return sum(part.width for part in self.parts)

    @property
    def limits(self) -> tuple[int, int]:
        """Least and greatest integer."""
        if self.table:
            return min(self.table), max(self.table)
        if self.signed:
            return -(1 << self.bits - 1), (1 << self.bits - 1) - 1
        return -self.offset, (1 << self.bits) - 1 - self.offset

    def nearest(self, values: Array) -> Array:
        """Return the integers nearest to some floats, int32, the greater one of two; NaN becomes the least."""
        if not self.table:
            rounded = np.clip(np.floor(values + np.float32(0.5)), *self.limits)
            return np.nan_to_num(rounded, nan=self.limits[0]).astype(np.int32)
        entries = np.unique(np.array(self.table, np.int32))
        return entries[np.searchsorted((entries[1:] + entries[:-1]) / 2, np.nan_to_num(values), side="right")]

    def store(self, blocks: Array, numbers: Array) -> None:
        """Write integers (..., count) into bytes (..., bytes), uint8, whose bits at their places are 0."""
        if self.table:
            order = np.argsort(self.table, kind="stable")
            codes = order[np.searchsorted(np.array(self.table)[order], numbers)]
        else:
            codes = numbers if self.signed else numbers + self.offset
        for part in self.parts:
            for index in range(numbers.shape[-1]):
                place, bit = part.place(index)
                bits = codes[..., index] >> part.shift & ((1 << part.width) - 1)
                blocks[..., place] |= (bits << bit).astype(np.uint8)

    def code(self, byte: Byte, index: Any) -> Any:
        """Return the bits of integer `index`, as a number that is not negative."""
        first, *rest = (part.value(byte, index) for part in self.parts)
        for part in rest:
            first = first + part
        return first


@dataclass(frozen=True)
class Factor:
    """Scale or minimum of a block: a float at byte `place`, times a step for each group if there are `steps`."""

    place: int
    dtype: str = "float16"
    """`float16`, `float32`, or `half_e8m0`: the power of two 2 ** (byte - 128), or a subnormal for a byte 0 or 1."""
    steps: Integers | None = None

    @property
    def bytes(self) -> int:
        """Bytes of the float."""
        return {"float16": 2, "float32": 4, "half_e8m0": 1}[self.dtype]

    def rounded(self, floats: Array) -> Array:
        """Return the nearest floats that the format has, as float32; of `half_e8m0`, the next power of two above."""
        if self.dtype != "half_e8m0":
            limit = np.finfo(self.dtype).max
            return np.clip(floats, -limit, limit).astype(self.dtype).astype(np.float32)
        exponents = np.ceil(np.log2(np.maximum(floats, np.float32(2.0**-127))))
        return np.exp2(np.clip(exponents, -127, 127)).astype(np.float32)

    def stored(self, floats: Array) -> Array:
        """Return the bytes, (..., bytes), of floats that the format has."""
        if self.dtype != "half_e8m0":
            return np.ascontiguousarray(floats.astype(self.dtype)[..., None]).view(np.uint8)
        return (np.log2(floats) + 128).astype(np.uint8)[..., None]


@dataclass(frozen=True)
class BlockFormat:
    """A format: `elements` numbers in `bytes` bytes, in groups of `group` that share steps of scale and minimum."""

    name: str
    elements: int
    bytes: int
    integers: Integers
    scale: Factor
    minimum: Factor | None = None
    group: int = 32

    @property
    def subtracts_minimum(self) -> bool:
        """True if the minimum, which has steps, is subtracted; a minimum without steps is added."""
        return self.minimum is not None and self.minimum.steps is not None

    @property
    def has_zero_point(self) -> bool:
        """True if the minimum is the scale times a zero point."""
        return self.minimum is not None and self.minimum.place == self.scale.place

    def blocks(self, data: Array) -> Array:
        """Return packed rows (..., bytes of a row) as blocks (..., blocks, bytes). Raises ValueError for others."""
        if data.dtype != np.uint8 or data.shape[-1] % self.bytes:
            raise ValueError(f"{self.name} has blocks of {self.bytes} bytes; found {data.shape[-1]} of {data.dtype}")
        return data.reshape(*data.shape[:-1], data.shape[-1] // self.bytes, self.bytes)

    def codes(self, blocks: Array, integers: Integers | None = None) -> Array:
        """Return the bits of integers, (..., blocks, count), uint8: of weights, or of the steps of a factor."""
        held = self.integers if integers is None else integers
        count = self.elements if integers is None else self.elements // self.group
        return held.code(lambda place: blocks[..., place], np.arange(count)).astype(np.uint8)

    def numbers(self, blocks: Array, integers: Integers | None = None) -> Array:
        """Return integers, (..., blocks, count), int32: of weights, or of the steps of a factor."""
        held = self.integers if integers is None else integers
        codes = self.codes(blocks, integers)
        if held.table:
            return np.asarray(held.table, np.int32)[codes]
        return (codes.view(np.int8) if held.signed else codes).astype(np.int32) - held.offset

    def floats(self, blocks: Array, factor: Factor) -> Array:
        """Return the floats of a factor, (..., blocks), float32."""
        held = np.ascontiguousarray(blocks[..., factor.place : factor.place + factor.bytes])
        if factor.dtype != "half_e8m0":
            return held.view(factor.dtype)[..., 0].astype(np.float32)
        code = held[..., 0].astype(np.uint32)
        return np.where(code < 2, np.uint32(0x200000) << code, (code - 1) << 23).astype(np.uint32).view(np.float32)

    def encoded(self, parts: Parts) -> Array:
        """Return the bytes, (..., blocks * bytes), of blocks with given parts; scales must be floats of the format."""
        blocks = np.zeros((*parts.scale.shape, self.bytes), np.uint8)
        self.integers.store(blocks, parts.numbers)
        for factor, floats, steps in (
            (self.scale, parts.scale, parts.scale_steps), (self.minimum, parts.minimum, parts.minimum_steps),
        ):  # fmt: skip
            if factor is not None and floats is not None:
                blocks[..., factor.place : factor.place + factor.bytes] = factor.stored(floats)
                if factor.steps is not None and steps is not None:
                    factor.steps.store(blocks, steps)
        return blocks.reshape(*blocks.shape[:-2], -1)

    def parts(self, data: Array) -> Parts:
        """Return what the blocks of packed rows hold, (rows, bytes of a row)."""
        blocks = self.blocks(data)

        def steps(factor: Factor | None) -> Array | None:
            return None if factor is None or factor.steps is None else self.numbers(blocks, factor.steps)

        minimum = None if self.minimum is None else self.floats(blocks, self.minimum)
        scale = self.floats(blocks, self.scale)
        return Parts(self, self.numbers(blocks), scale, steps(self.scale), minimum, steps(self.minimum))

    def decode(self, data: Array) -> Array:
        """Return the weights of packed rows, (..., bytes of a row) to (..., numbers of a row), float32."""
        numbers = self.decoded(self.parts(data))
        return numbers.reshape(*data.shape[:-1], numbers.shape[-1])

    def decoded(self, parts: Parts) -> Array:
        """Return the weights that blocks hold, (..., numbers of a row), float32."""
        numbers = parts.numbers
        if self.has_zero_point:
            numbers = (numbers - parts.steps_of_numbers(parts.minimum_steps)).astype(np.int32)
            parts = Parts(self, numbers, parts.scale, None, None, None)
        with np.errstate(all="ignore"):
            weights = parts.of_numbers(parts.scale, parts.scale_steps) * numbers.astype(np.float32)
            if parts.minimum is not None:
                least = parts.of_numbers(parts.minimum, parts.minimum_steps)
                weights = weights - least if self.subtracts_minimum else weights + least
        return weights.reshape(*numbers.shape[:-2], numbers.shape[-2] * self.elements)


@dataclass(frozen=True)
class Parts:
    """Contents of blocks: numbers (..., blocks, elements), int32, floats (..., blocks), steps (..., blocks, groups)."""

    format: BlockFormat
    numbers: Array
    scale: Array
    scale_steps: Array | None
    minimum: Array | None
    minimum_steps: Array | None

    def of_numbers(self, floats: Array, steps: Array | None) -> Array:
        """Return a factor of each number, (..., blocks, elements or 1), float32."""
        if steps is None:
            return floats[..., None]
        return np.repeat(floats[..., None] * steps.astype(np.float32), self.format.group, axis=-1)

    def steps_of_numbers(self, steps: Array | None) -> Array:
        """Return the step of each number, (..., blocks, elements), int64; 1 without steps."""
        if steps is None:
            return np.ones(self.numbers.shape, np.int64)
        return np.repeat(steps.astype(np.int64), self.format.group, axis=-1)


_HALVES: Final = ((16, 8), (2, 4))
"""32 numbers in 16 bytes, the second half in the high bits."""
_QUARTERS: Final = ((32, 8), (4, 2), (2, 256))
"""256 numbers of 2 bits: each 32 bytes hold 128 numbers."""
_EIGHTHS: Final = ((32, 8), (8, 1))
"""One bit of 256 numbers: each of 32 bytes has a bit of 8 numbers, 32 apart."""
_PAIRS: Final = ((32, 8), (2, 4), (4, 256))
"""256 numbers of 4 bits: each 32 bytes hold 64 numbers."""
_SCALES_OF_K: Final = Integers((Bits(32, 4, ((4, 8), (2, 64))), Bits(36, 2, ((4, 8), (2, 2)), shift=4)))
_MINIMA_OF_K: Final = Integers((Bits(64, 4, ((4, 8), (2, 36))), Bits(68, 2, ((4, 8), (2, 2)), shift=4)))
"""Steps of 6 bits of the 8 groups of `q4_k` and `q5_k`, in 12 bytes from byte 4 on."""
_LOGARITHMIC: Final = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)
"""Values of the codes of `iq4_nl` and `iq4_xs`."""
_E2M1: Final = (0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12)
"""Twice the values of the floats of 4 bits of `mxfp4`."""


def _four_bits(name: str, size: int, start: int, minimum: bool, high: int | None = None) -> BlockFormat:
    """Format of blocks of 32 numbers of 4 bits from byte `start` on; of 5, if high bits begin at byte `high`."""
    parts = (Bits(8 * start, 4, _HALVES),)
    if high is not None:
        parts = (*parts, Bits(8 * high, 1, ((8, 1), (4, 8)), shift=4))
    offset = 0 if minimum else 8 if high is None else 16
    return BlockFormat(name, 32, size, Integers(parts, offset), Factor(0), Factor(2) if minimum else None)


_ALL: Final = (
    _four_bits("q4_0", 18, 2, minimum=False),
    _four_bits("q4_1", 20, 4, minimum=True),
    _four_bits("q5_0", 22, 6, minimum=False, high=2),
    _four_bits("q5_1", 24, 8, minimum=True, high=4),
    BlockFormat("q8_0", 32, 34, Integers((Bits(16, 8, ((32, 8),)),), signed=True), Factor(0)),
    BlockFormat(
        "q2_k", 256, 84, Integers((Bits(128, 2, _QUARTERS),)),
        Factor(80, steps=Integers((Bits(0, 4, ((16, 8),)),))),
        Factor(82, steps=Integers((Bits(4, 4, ((16, 8),)),))), group=16,
    ),
    BlockFormat(
        "q3_k", 256, 110, Integers((Bits(256, 2, _QUARTERS), Bits(0, 1, _EIGHTHS, shift=2)), offset=4),
        Factor(108, steps=Integers(
            (Bits(768, 4, ((8, 8), (2, 4))), Bits(832, 2, ((4, 8), (4, 2)), shift=4)), offset=32)), group=16,
    ),
    BlockFormat(
        "q4_k", 256, 144, Integers((Bits(128, 4, _PAIRS),)),
        Factor(0, steps=_SCALES_OF_K), Factor(2, steps=_MINIMA_OF_K),
    ),
    BlockFormat(
        "q5_k", 256, 176, Integers((Bits(384, 4, _PAIRS), Bits(128, 1, _EIGHTHS, shift=4))),
        Factor(0, steps=_SCALES_OF_K), Factor(2, steps=_MINIMA_OF_K),
    ),
    BlockFormat(
        "q6_k", 256, 210,
        Integers((Bits(0, 4, ((32, 8), (2, 256), (2, 4), (2, 512))), Bits(1024, 2, _QUARTERS, shift=4)), offset=32),
        Factor(208, steps=Integers((Bits(1536, 8, ((16, 8),)),), signed=True)), group=16,
    ),
    BlockFormat("iq4_nl", 32, 18, Integers((Bits(16, 4, _HALVES),), table=_LOGARITHMIC), Factor(0)),
    BlockFormat(
        "iq4_xs", 256, 136, Integers((Bits(64, 4, (*_HALVES, (8, 128))),), table=_LOGARITHMIC),
        Factor(0, steps=Integers((Bits(32, 4, ((2, 4), (4, 8))), Bits(16, 2, ((4, 2), (2, 8)), shift=4)), offset=32)),
    ),
    BlockFormat("mxfp4", 32, 17, Integers((Bits(8, 4, _HALVES),), table=_E2M1), Factor(0, "half_e8m0")),
    BlockFormat("tq2_0", 256, 66, Integers((Bits(0, 2, _QUARTERS),), offset=1), Factor(64), group=256),
)  # fmt: skip

FORMATS: Final = {held.name: held for held in _ALL}
"""Block formats of GGUF files by their names in lower case, such as "q4_0"."""
_GROUPED: Final = re.compile(r"int(4|8)_g(\d+)(_zero)?(_float16)?")


@functools.cache
def block_format(name: str) -> BlockFormat | None:
    """Return the format of a name, of `FORMATS` or as `grouped` names it; None for others."""
    match = _GROUPED.fullmatch(name)
    if match is None or not int(match[2]) or int(match[2]) % 32:
        return FORMATS.get(name)
    return grouped(int(match[1]), int(match[2]), bool(match[3]), "float16" if match[4] else "float32")


def grouped(bits: int, group: int, zero: bool = False, scale: str = "float32") -> BlockFormat:
    """Return the format of groups of `group` numbers of 4 or 8 bits, which share a scale, and a zero point if `zero`.

    Numbers are signed if they have no zero point. Raises ValueError for other bits, groups that are no multiple of 32,
    and scales other than float16 and float32.
    """
    if bits not in (4, 8) or group % 32 or group <= 0 or scale not in ("float16", "float32"):
        raise ValueError(f"no format has groups of {group} numbers of {bits} bits with scales of {scale}")
    size = 4 if scale == "float32" else 2
    start = size + zero
    digits = (*_HALVES, (group // 32, 128)) if bits == 4 else ((group, 8),)
    offset = 8 if bits == 4 and not zero else 0
    integers = Integers((Bits(8 * start, bits, digits),), offset, signed=bits == 8)
    steps = Integers((Bits(8 * size, 8 if bits == 8 else 7, ((1, 8),)),), signed=bits == 8)
    minimum = Factor(0, scale, steps) if zero else None
    name = f"int{bits}_g{group}{'_zero' if zero else ''}{'_float16' if scale == 'float16' else ''}"
    return BlockFormat(name, group, start + group * bits // 8, integers, Factor(0, scale), minimum, group)


def group_rows(numbers: Array, scales: Array, zeros: Array | None, bits: int) -> tuple[Array, BlockFormat]:
    """Return integers (rows, depth), scales and zero points (rows, groups) as rows of blocks, and their format.

    `numbers` are codes from 0 on with `zeros`, otherwise signed. Scales are kept as float16 if that is their dtype,
    else as float32. Raises ValueError if the depth has no groups of a multiple of 32 numbers, or for zero points beyond
    what the format holds.
    """
    rows, depth = numbers.shape
    count = scales.shape[1]
    if not count or depth % count:
        raise ValueError(f"{depth} numbers of a row have no {count} groups of one size")
    scale = "float16" if scales.dtype == np.float16 else "float32"
    held = grouped(bits, depth // count, zeros is not None, scale)
    parts = [_bytes(scales.astype(scale)[..., None])]
    first = -128 if bits == 8 and zeros is not None else held.integers.offset
    if zeros is not None:
        most = 255 if bits == 8 else 127
        if zeros.min() < 0 or zeros.max() > most:
            raise ValueError(f"zero points must be from 0 to {most}, found {zeros.min()} to {zeros.max()}")
        parts.append((zeros.astype(np.uint8) + np.uint8(first % 256))[..., None])
    codes = (numbers.astype(np.uint8) + np.uint8(first % 256)).reshape(rows, count, -1)  # modulo 256
    if bits == 4:
        halves = codes.reshape(rows, count, -1, 2, 16)
        codes = (halves[..., 0, :] | halves[..., 1, :] << 4).reshape(rows, count, -1)
    return np.concatenate([*parts, codes], axis=-1).reshape(rows, -1), held


def _bytes(array: Array) -> Array:
    return np.ascontiguousarray(array).view(np.uint8)


__all__ = ["FORMATS", "Bits", "BlockFormat", "Factor", "Integers", "Parts", "block_format", "group_rows", "grouped"]
